//! `worldlog import EXPORT`: a read-only data directory from an export.

use super::out::Out;
use super::{Done, Failure, place, report, request};
use crate::canon::object;
use crate::export::{self, Folder, Options};
use crate::store::sled::SledStore;
use crate::verify::{Trust, Verdict};
use std::path::PathBuf;

/// Bytes of the cache of a store that is only written.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// `import`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder made by `worldlog export`.
    export: PathBuf,
    /// Verifier key, or a file that holds one a line; may be repeated.
    #[arg(long = "vkey", value_name = "K|FILE")]
    vkeys: Vec<String>,
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let data = args.data.path()?;
    if !Folder::is_one(&args.export) {
        return Err(Failure::usage(format!(
            "{} is no export: it has no checkpoint",
            args.export.display()
        )));
    }
    let folder = Folder::at(&args.export);
    let trust = Trust { keys: report::keys(&args.vkeys)?, seen: None };
    let (found, _) = export::inspect(&folder, &Options { trust, until: None });
    let worst =
        found.findings.iter().filter(|finding| finding.code != "no-key").min_by_key(|f| f.verdict);
    if let Some(worst) = worst {
        return Err(Failure {
            code: worst.verdict.exit_code(),
            text: format!(
                "{} is {}: {}; nothing was imported. `worldlog verify` lists every finding",
                args.export.display(),
                worst.verdict.as_str(),
                worst.detail
            ),
        });
    }
    let made = export::make_data(&data, |beside| {
        let store = SledStore::open(beside, CACHE_BYTES)?;
        export::fill(&store, &folder)
    });
    let filled = made.map_err(|error| request::export_failed(&error))?;
    let verified = found.verdict() == Verdict::Verified;
    if args.json {
        out.json(&object([
            ("objects", filled.objects.into()),
            ("origin", filled.origin.into()),
            ("size", filled.size.into()),
            ("verified", verified.into()),
        ]));
        return Ok(0);
    }
    let (size, objects) = (filled.size, filled.objects);
    out.line(format!(
        "imported {size} events and {objects} objects into {}, read only",
        data.display()
    ));
    if !verified {
        out.line("no key was given: whose log it is was not verified");
    }
    Ok(0)
}
