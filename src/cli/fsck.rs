//! `worldlog fsck`: everything in the store hashed again, and what is damaged named.

use super::out::Out;
use super::{Done, Failure, place, report};
use crate::ledger::{Guard, InspectOptions, Keys, Seeds, check_objects, inspect};
use crate::note::Note;
use crate::note::checkpoint::Checkpoint;
use crate::store::{Store, layout};
use crate::verify::Trust;
use std::path::{Path, PathBuf};

/// `fsck`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Hash the payloads of every n-th event only. Events and tiles are always hashed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Verifier key, or a file that holds one a line; may be repeated [default: the key in the data directory].
    #[arg(long = "vkey", value_name = "K|FILE")]
    vkeys: Vec<String>,
    /// File of the guard; its head is compared.
    #[arg(long, value_name = "G")]
    guard: Option<PathBuf>,
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let data = args.data.path()?;
    let given = report::keys(&args.vkeys)?;
    report::one_log(&given)?;
    let store = place::open_store(&data, 1)?;
    let own = own_keys(&data, &store)?;
    let seen = match &own {
        Some(keys) => guarded(keys, args.guard.as_deref())?,
        None => None,
    };
    let keys = match own {
        _ if !given.is_empty() => given,
        Some(keys) => vec![keys.verifier_key().clone()],
        None => Vec::new(),
    };
    let trust = Trust { keys, seen };
    let options =
        InspectOptions { trust, payloads: true, sample: args.sample, ..InspectOptions::default() };
    let mut found = inspect(&store, &options).report;
    match args.sample {
        None => check_objects(&store, &mut found),
        Some(every) => {
            found.unchecked.push(format!("payloads of events whose index {every} does not divide"));
        }
    }
    Ok(report::print(&found, &data, args.json, out))
}

/// The keys whose private halves are here, under the name that the newest head has: the first event may be damaged.
fn own_keys(data: &Path, store: &dyn Store) -> Result<Option<Keys>, Failure> {
    let Some(seeds) = Seeds::load(data).map_err(Failure::usage)? else { return Ok(None) };
    let Ok(Some((_, note))) = layout::last_head(store) else { return Ok(None) };
    let note = Note::parse(&note).ok();
    let head = note.and_then(|note| Checkpoint::parse(note.text()).ok());
    let Some(head) = head else { return Ok(None) };
    Keys::new(head.origin(), &seeds).map(Some).map_err(Failure::usage)
}

/// The head in the guard, when there is a guard that can be read.
fn guarded(keys: &Keys, given: Option<&Path>) -> Result<Option<Vec<u8>>, Failure> {
    let Ok(path) = place::guard(given, keys.verifier_key()) else { return Ok(None) };
    let head = Guard::at(&path, keys.verifier_key()).read().map_err(Failure::usage)?;
    Ok(head.filter(|head| !head.is_empty()))
}
