//! `worldlog replay`: the state at any position of a log, folded from its events.

use super::out::Out;
use super::{Done, Failure, place};
use crate::canon::{Value, object};
use crate::event::hex;
use crate::export::{self, Folder, Options};
use crate::ledger::{InspectOptions, inspect};
use crate::state::State;
use crate::store::{Store, layout};
use crate::verify::{Report, Verdict};
use std::path::PathBuf;

/// `replay`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// An export, instead of the data directory.
    export: Option<PathBuf>,
    /// Stop after this many events [default: all].
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// Fold a second time from the stored snapshot, which must give the same digest.
    #[arg(long, conflicts_with = "export")]
    check_snapshot: bool,
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let mut snapshot = None;
    let (report, mut state) = if let Some(path) = &args.export {
        if !Folder::is_one(path) {
            return Err(Failure::usage(format!(
                "{} is no export: it has no checkpoint",
                path.display()
            )));
        }
        let options = Options { until: Some(args.at.unwrap_or(u64::MAX)), ..Options::default() };
        export::inspect(&Folder::at(path), &options)
    } else {
        let store = place::open_store(&args.data.path()?, 1)?;
        let size = layout::event_count(&store).map_err(Failure::damaged)?;
        let at = args.at.unwrap_or(size);
        let (report, state) = fold(&store, at, false);
        if args.check_snapshot {
            snapshot = Some(again(&store, at, &state)?);
        }
        (report, state)
    };
    check(&report, args.at)?;
    let digest = digest(&mut state)?;
    if args.json {
        let mut value = counts(&state, &digest);
        if let (Value::Object(members), Some(from)) = (&mut value, snapshot) {
            members.insert("snapshot".to_owned(), from.into());
        }
        out.json(&value);
        return Ok(0);
    }
    words(&state, &digest, out);
    if let Some(from) = snapshot {
        out.line(format!("the same digest from the snapshot at {from}"));
    }
    Ok(0)
}

fn fold(store: &dyn Store, at: u64, snapshot: bool) -> (Report, State) {
    let until = Some(at);
    let found = inspect(store, &InspectOptions { snapshot, until, ..InspectOptions::default() });
    (found.report, found.state)
}

/// Folds from the snapshot, and returns its position.
fn again(store: &dyn Store, at: u64, zero: &State) -> Result<u64, Failure> {
    let options = InspectOptions { until: Some(at), snapshot: true, ..InspectOptions::default() };
    let mut found = inspect(store, &options);
    let from = found.from_snapshot.ok_or_else(|| {
        Failure::usage(format!(
            "there is no usable snapshot up to {at}; a server writes one when it stops and after 100,000 events"
        ))
    })?;
    let (one, other) = (digest(&mut zero.clone())?, digest(&mut found.state)?);
    if one == other {
        return Ok(from);
    }
    Err(Failure::damaged(format!(
        "folded from the first event the digest is {one}, from the snapshot at {from} {other}"
    )))
}

fn digest(state: &mut State) -> Result<String, Failure> {
    state.digest().map(|digest| hex(&digest)).map_err(|error| Failure::damaged(error.reason))
}

/// A log that does not fold has no state.
fn check(report: &Report, at: Option<u64>) -> Result<(), Failure> {
    if let Some(worst) = report.findings.iter().min_by_key(|finding| finding.verdict) {
        let leaf = worst.leaf.map_or_else(String::new, |leaf| format!(" at leaf {leaf}"));
        return Err(Failure {
            code: worst.verdict.exit_code(),
            text: format!(
                "{}{leaf}: {}; `worldlog verify` lists every finding",
                worst.code, worst.detail
            ),
        });
    }
    match at.filter(|at| *at > report.size) {
        Some(at) => Err(Failure {
            code: if report.size == 0 { Verdict::Unverifiable.exit_code() } else { 1 },
            text: format!("--at {at}: the log has {} events", report.size),
        }),
        None => Ok(()),
    }
}

fn counts(state: &State, digest: &str) -> Value {
    let position = state.position();
    let length = |count: usize| Value::from(count as u64);
    object([
        ("at", position.seq.into()),
        ("digest", digest.into()),
        ("entries", state.entries().into()),
        ("episodes", length(state.episodes_by_name.len())),
        ("leaf", hex(&position.leaf).into()),
        ("open", length(state.calls.len())),
        ("sessions", length(state.sessions.len())),
        ("time", position.at.into()),
        ("transitions", length(state.transitions.len())),
        ("unresolved", length(state.doubts.len())),
    ])
}

fn words(state: &State, digest: &str, out: &mut Out) {
    let position = state.position();
    out.line(format!("state after {} events", position.seq));
    out.line(format!("digest {digest}"));
    out.line(format!(
        "{} entries, {} episodes, {} sessions, {} transitions, {} open calls, {} unresolved",
        state.entries(),
        state.episodes_by_name.len(),
        state.sessions.len(),
        state.transitions.len(),
        state.calls.len(),
        state.doubts.len()
    ));
}
