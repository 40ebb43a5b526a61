//! `worldlog`: a server on which AI agents run tools, and whose every step can be proven afterwards.

pub mod limits;

pub mod canon;
pub mod merkle;
pub mod note;

pub mod broker;
pub mod event;
pub mod state;
pub mod transitions;
pub mod verify;

pub mod clock;
pub mod durable;
pub mod entropy;
pub mod store;

pub mod handlers;
pub mod ledger;
pub mod sandbox;

pub mod service;

pub mod server;
