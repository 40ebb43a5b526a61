//! `worldlog backup DIR`: a data directory that opens, made while the server runs or from the store.

use super::out::Out;
use super::{Done, Failure, ask, place, request};
use crate::canon::{Value, object};
use crate::export::ExportError;
use crate::store::layout;
use std::path::PathBuf;

/// `backup`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// New folder; it will hold the private keys.
    dir: PathBuf,
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let data = args.data.path()?;
    let dir = place::absolute(&args.dir)?;
    let asked = object([("dir", dir.display().to_string().into()), ("verb", "backup".into())]);
    let answer = if let Some(answer) = ask::server(&data, &asked)? {
        answer
    } else {
        let store = place::open_store(&data, 1)?;
        let note = layout::last_head(&store).map_err(Failure::damaged)?;
        let (_, note) = note.ok_or_else(|| Failure::usage(ExportError::Empty))?;
        request::backup(&store, &note, &data, &dir)?
    };
    if args.json {
        out.json(&answer);
        return Ok(0);
    }
    let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (size, objects) = (number("size"), number("objects"));
    out.line(format!(
        "copied {size} events, {objects} objects and the private keys to {}",
        dir.display()
    ));
    out.line("worktrees are not part of it; once the log has gone on, the guard refuses to start from this copy");
    Ok(0)
}
