//! `worldlog prove LEAF`: a `.tlog-proof`, and the bytes of the leaf beside it.

use super::out::Out;
use super::{Done, Failure, ask, place, request};
use crate::canon::{Value, object};
use crate::durable;
use crate::store::layout;
use crate::{export, store};
use std::path::PathBuf;

/// `prove`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Index of the leaf, counted from 0.
    leaf: u64,
    /// New file for the proof [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let data = args.data.path()?;
    let asked = object([("leaf", args.leaf.into()), ("verb", "prove".into())]);
    let answer = if let Some(answer) = ask::server(&data, &asked)? {
        answer
    } else {
        let store = place::open_store(&data, 1)?;
        let size = layout::event_count(&store).map_err(Failure::damaged)?;
        let proof = prove(&store, args.leaf)?.ok_or_else(|| request::no_leaf(args.leaf, size))?;
        object([("proof", proof.into())])
    };
    let proof = answer.get("proof").and_then(Value::as_str).unwrap_or("");
    match &args.out {
        Some(path) => {
            durable::create(path, proof.as_bytes(), 0o644)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
            if args.json {
                out.json(&object([("file", path.display().to_string().into())]));
            } else {
                out.line(format!("proof of leaf {} in {}", args.leaf, path.display()));
            }
        }
        None if args.json => out.json(&answer),
        None => out.bytes(proof.as_bytes()),
    }
    Ok(0)
}

fn prove(store: &dyn store::Store, leaf: u64) -> Result<Option<String>, Failure> {
    let proof = export::prove(store, leaf).map_err(|error| request::export_failed(&error))?;
    let event = layout::event(store, leaf).map_err(Failure::damaged)?;
    proof.zip(event).map(|(proof, event)| request::with_leaf(&proof, event)).transpose()
}
