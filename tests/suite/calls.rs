//! Calls by the door of the service: client ids, previews and tokens, approvals, the guard against lost updates, the finish
//! phase, deadlines, and what a person may do to them.
//!
//! Time is the test's: deadlines are reached by moving the runtime's clock, never by waiting.

mod deadlines;
mod failed;
mod files;
mod finish;
mod flat;
mod ids;
mod operator;
mod stale;
mod tokens;
mod undo;
mod why;

use crate::support::{World, keys};
use worldlog::canon::{self, Value};
use worldlog::event::{Body, EpisodeName, Event, Front};
use worldlog::ledger::{InspectOptions, inspect};
use worldlog::service::{Answer, Call, CallError, Caller};
use worldlog::state::State;
use worldlog::store::layout;
use worldlog::verify::Trust;

/// One thread, so that what is queued first runs first.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn caller(world: &World, token: &str) -> Caller {
    world.service.authenticate(Some(token)).expect("a live token")
}

fn call(tool: &str, args: &str) -> Call {
    Call::new(Front::A2a, tool, canon::parse(args.as_bytes()).expect("JSON"))
}

fn write(path: &str, content: &str) -> Call {
    call("ailang-write", &format!(r#"{{"path":"{path}","content":"{content}"}}"#))
}

fn read(path: &str) -> Call {
    call("ailang-read", &format!(r#"{{"path":"{path}"}}"#))
}

fn named(id: &str, call: Call) -> Call {
    Call { claim: Some(id.to_owned()), ..call }
}

fn with(token: &str, call: Call) -> Call {
    Call { token: Some(token.to_owned()), ..call }
}

fn invoke(world: &World, token: &str, call: Call) -> Result<Answer, CallError> {
    runtime().block_on(world.service.invoke(&caller(world, token), call, None))
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.output).expect("UTF-8")
}

fn content(world: &World, name: &str) -> Option<String> {
    std::fs::read_to_string(world.worktree().join(name)).ok()
}

fn ep() -> EpisodeName {
    EpisodeName::parse("ep1").expect("a name")
}

fn bodies(world: &World) -> Vec<Body> {
    let events = layout::events(world.store.as_ref(), 0);
    events.map(|item| Event::decode(&item.expect("readable").1).expect("an event").body).collect()
}

/// Everything holds: the log, its payloads, and nothing is open.
pub(crate) fn check(world: &World) -> State {
    let trust = Trust { keys: vec![keys().verifier_key().clone()], seen: None };
    let options = InspectOptions { trust, payloads: true, ..InspectOptions::default() };
    let found = inspect(world.store.as_ref(), &options);
    assert_eq!(found.report.findings, vec![]);
    assert!(found.state.calls.is_empty() && found.state.intents.is_empty(), "nothing is open");
    found.state
}

/// Units charged and reserved for writes in `ep1`.
pub(crate) fn spent(world: &World) -> (u64, u64) {
    let spent = check(world).spent(&ep(), "Workspace.Write", "worktree");
    (spent.charged, spent.reserved)
}

fn member(answer: &Answer, name: &str) -> Value {
    let output = canon::parse(&answer.output).expect("JSON");
    output.get(name).cloned().unwrap_or(Value::Null)
}
