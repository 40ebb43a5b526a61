//! `worldlog`: a server on which AI agents run tools, and whose every step can be proven afterwards.

pub mod limits;
pub mod merkle;
pub mod note;
