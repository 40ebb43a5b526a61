//! `ListTasks` of 1.0: the session's own tasks, those whose status changed last first.
//!
//! ```text
//! {"tasks":[{…}],"nextPageToken":"","pageSize":50,"totalSize":3}
//! ```
//!
//! A page token is the place of the last task in the log; tasks that change meanwhile move to the front, so none between
//! two pages is left out or told twice.

use super::fault::Fault;
use super::task::{Printer, State, uuid, uuid_of};
use super::{Dialect, ask, blocking, time};
use crate::canon::Value;
use crate::event::Front;
use crate::service::{Caller, CallsWanted, How, Past, Service};

/// Tasks of a page unless asked otherwise, and of the largest page (A2A 1.0, `ListTasksRequest`).
const PAGE: u64 = 50;
const PAGE_MAX: u64 = 100;

/// Every word for a state that the protocol has.
const STATES: [&str; 9] = [
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];

/// Answers `ListTasks`.
pub(super) async fn answer(
    service: &Service,
    caller: &Caller,
    params: Option<&str>,
) -> Result<String, Fault> {
    let params = ask::params(params)?;
    let at = "params";
    let size = ask::number(&params, at, "pageSize")?.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&size) {
        return Err(Fault::params("params.pageSize", format!("must be 1 to {PAGE_MAX}")));
    }
    ask::number(&params, at, "historyLength")?;
    let how = match ask::text(&params, at, "status")? {
        None | Some("TASK_STATE_UNSPECIFIED") => Some(None),
        Some(word) if !STATES.contains(&word) => {
            let reason = format!("must be one of {}", STATES.join(", "));
            return Err(Fault::params("params.status", reason));
        }
        // A state that no task of ours has is had by none.
        Some(word) => [How::Open, How::Committed, How::Closed]
            .into_iter()
            .find(|how| state_of(*how).word(Dialect::V10) == word)
            .map(Some),
    };
    let since = ask::text(&params, at, "statusTimestampAfter")?;
    let since = since.map(time::parse).map(|since| {
        let reason = "must be a timestamp such as 2026-11-30T12:00:00Z";
        since.ok_or_else(|| Fault::params("params.statusTimestampAfter", reason))
    });
    let before = ask::text(&params, at, "pageToken")?.map(|token| {
        let reason = "is no token of this server: take nextPageToken of the page before";
        super::http::index(token).ok_or_else(|| Fault::params("params.pageToken", reason))
    });
    let wanted = CallsWanted {
        front: Front::A2a,
        how: how.flatten(),
        since: since.transpose()?,
        before: before.transpose()?,
        limit: usize::try_from(size).unwrap_or(0),
    };
    let artifacts = ask::flag(&params, at, "includeArtifacts")?;
    let context = ask::text(&params, at, "contextId")?;
    if how.is_none() || context.is_some_and(|context| context != uuid(caller.session())) {
        return Ok(page(&[], size, 0, None));
    }
    let (service, owner) = (service.clone(), caller.clone());
    let found = blocking(move || service.calls(&owner, &wanted)).await?;
    let printer = Printer { dialect: Dialect::V10, caller, artifacts };
    let print = |(invocation, past): &(String, Past)| {
        let id = uuid_of(invocation);
        match past {
            Past::Committed { answer, .. } => Some(printer.committed(&id, answer)),
            past => printer.unanswered(&id, past),
        }
    };
    let tasks: Vec<String> = found.calls.iter().filter_map(print).collect();
    Ok(page(&tasks, size, found.total, found.next))
}

fn state_of(how: How) -> State {
    match how {
        How::Open => State::Working,
        How::Committed => State::Completed,
        How::Closed => State::Failed,
    }
}

fn page(tasks: &[String], size: u64, total: u64, next: Option<u64>) -> String {
    let next = Value::from(next.map_or(String::new(), |next| next.to_string()));
    let (tasks, next) = (tasks.join(","), super::rpc::text_of(&next));
    format!(r#"{{"tasks":[{tasks}],"nextPageToken":{next},"pageSize":{size},"totalSize":{total}}}"#)
}
