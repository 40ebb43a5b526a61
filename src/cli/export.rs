//! `worldlog export DIR`: the log as a folder, from a running server or from the store.

use super::out::Out;
use super::{Done, Failure, ask, node, place, request};
use crate::canon::{Value, object};
use crate::clock::{Clock, SystemClock};
use crate::export::{self, Cosigner};
use crate::ledger::{Keys, Seeds};
use crate::store::layout;
use std::path::{Path, PathBuf};

/// `export`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// New folder.
    dir: PathBuf,
    /// Leave out objects, openings and episode keys: what anybody may have.
    #[arg(long)]
    public: bool,
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let data = args.data.path()?;
    let dir = place::absolute(&args.dir)?;
    let asked = object([
        ("dir", dir.display().to_string().into()),
        ("public", args.public.into()),
        ("verb", "export".into()),
    ]);
    let answer = match ask::server(&data, &asked)? {
        Some(answer) => answer,
        None => offline(&data, &dir, args.public)?,
    };
    if args.json {
        out.json(&answer);
        return Ok(0);
    }
    let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (size, objects) = (number("size"), number("objects"));
    out.line(format!("exported {size} events and {objects} objects to {}", dir.display()));
    let key = answer.get("vkeys").and_then(Value::as_array).and_then(|keys| keys.first());
    if let Some(key) = key.and_then(Value::as_str) {
        out.line(format!("verify it with: worldlog verify {} --vkey '{key}'", dir.display()));
    }
    if !args.public {
        out.line("it holds what agents read and wrote, and the keys of their episodes: keep it as you keep those");
    }
    Ok(0)
}

fn offline(data: &Path, dir: &Path, public: bool) -> Result<Value, Failure> {
    let store = place::open_store(data, 1)?;
    let note = layout::last_head(&store).map_err(Failure::damaged)?;
    let (_, note) = note.ok_or_else(|| Failure::usage(export::ExportError::Empty))?;
    let note =
        String::from_utf8(note).map_err(|_| Failure::damaged("the signed head is no text"))?;
    let keys = match Seeds::load(data).map_err(Failure::usage)? {
        Some(seeds) => Some(Keys::new(&node::origin(&store)?, &seeds).map_err(Failure::usage)?),
        None => None,
    };
    let seconds = SystemClock::new().now().wall_ms / 1000;
    let cosigner = keys.as_ref().map(|keys| Cosigner { signer: &keys.cosign, seconds });
    let wanted = export::Request { store: &store, note: &note, cosigner, public };
    let written = export::write(dir, &wanted).map_err(|error| request::export_failed(&error))?;
    Ok(request::exported(&written))
}
