//! `worldlog auditor new`: a session that reads everything and does nothing.

use super::out::Out;
use super::{Done, session};
use crate::canon::object;

/// Verbs.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    /// Begin an auditor's session.
    New(New),
}

/// `auditor new`.
#[derive(Debug, clap::Args)]
pub(super) struct New {
    /// Seconds for which it lives.
    #[arg(long, value_name = "S", default_value_t = 3600)]
    ttl: u64,
    #[command(flatten)]
    to: session::To,
}

pub(super) fn run(verb: Verb, out: &mut Out) -> Done {
    let Verb::New(new) = verb;
    let request = object([
        ("role", "auditor".into()),
        ("ttl", new.ttl.into()),
        ("verb", "session-new".into()),
    ]);
    session::create(&new.to, "auditor", &request, out)
}
