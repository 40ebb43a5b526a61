//! `worldlog verify`: what a data directory, an export or a proof proves to somebody who brings a key.

use super::out::Out;
use super::{Done, Failure, place, report};
use crate::export::{self, Folder, Options};
use crate::ledger::{InspectOptions, inspect};
use crate::limits::{EVENT_BYTES_MAX, PROOF_FILE_BYTES_MAX};
use crate::verify::{Report, Trust};
use std::path::PathBuf;

/// `verify`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Data directory, export, or `.tlog-proof`.
    what: PathBuf,
    /// Verifier key from outside, or a file that holds one a line; may be repeated.
    #[arg(long = "vkey", value_name = "K|FILE")]
    vkeys: Vec<String>,
    /// A signed head that you saw before: the log must extend it.
    #[arg(long, value_name = "HEAD_FILE")]
    seen: Option<PathBuf>,
    /// Bytes of the leaf that a proof is about.
    #[arg(long, value_name = "LEAF")]
    entry_file: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let keys = report::keys(&args.vkeys)?;
    report::one_log(&keys)?;
    let trust = Trust { keys, seen: report::seen(args.seen.as_deref())? };
    let found = if args.what.is_dir() {
        if args.entry_file.is_some() {
            return Err(Failure::usage("--entry-file goes with a proof, and this is a folder"));
        }
        folder(args, trust)?
    } else {
        let proof = report::file(&args.what, PROOF_FILE_BYTES_MAX)?;
        let leaf = args.entry_file.as_deref().map(|path| report::file(path, EVENT_BYTES_MAX));
        crate::verify::proof(&trust, &proof, leaf.transpose()?.as_deref())
    };
    Ok(report::print(&found, &args.what, args.json, out))
}

fn folder(args: &Args, trust: Trust) -> Result<Report, Failure> {
    if place::is_data(&args.what) {
        let store = place::open_store(&args.what, 1)?;
        let options = InspectOptions { trust, payloads: true, ..InspectOptions::default() };
        return Ok(inspect(&store, &options).report);
    }
    if Folder::is_one(&args.what) {
        return Ok(export::inspect(&Folder::at(&args.what), &Options { trust, until: None }).0);
    }
    Err(Failure::usage(format!(
        "{} is neither a data directory (no store/db) nor an export (no checkpoint)",
        args.what.display()
    )))
}
