//! A writer that promises, and a checker that holds it to that.
//!
//! A line of the writer is `FIRST LEAF_HASH…`: the seq of a submission's first event and the leaf hashes of all its
//! events. It is printed after the ledger acknowledged, and never before.

use crate::load::{Done, event, ledger};
use std::io::Write;
use std::path::Path;
use worldlog::event::hex;
use worldlog::ledger::Ledger;
use worldlog::merkle::hash::leaf_hash;

/// Sizes of events in turn: small ones, one that fills a chunk, one that has to be split.
const SIZES: [usize; 7] = [40, 300, 1_200, 40, 5_000, 300, 40_000];

/// Commits until it is killed, and opens the store anew after every `reopen` commits.
pub(crate) fn write(folder: &Path, reopen: u64) -> Done {
    let mut number = 0;
    loop {
        let ledger = ledger(folder)?;
        let mut left = reopen;
        while left > 0 {
            left -= 1;
            number += 1;
            let size = SIZES.iter().cycle().nth(usize::try_from(number % 7)?).copied();
            commit(&ledger, number, size.unwrap_or(0))?;
            if number % 50 == 0 {
                ledger.seal()?;
                ledger.tend()?;
                ledger.snapshot(0, true);
            }
        }
        close(ledger);
    }
}

fn commit(ledger: &Ledger, number: u64, size: usize) -> Done {
    let mut submission = event(number, size);
    submission.drafts.extend(event(number + 1, 100).drafts);
    let committed = ledger.commit_blocking(submission)?;
    let leaves: Vec<String> = committed.leaves.iter().map(|leaf| hex(leaf)).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} {}", committed.first, leaves.join(" "))?;
    out.flush()?;
    Ok(())
}

/// Waits until the writer thread has let go of the store, so that it can be opened again.
fn close(ledger: Ledger) {
    let store = std::sync::Arc::downgrade(ledger.store());
    drop(ledger);
    while store.strong_count() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Opens `folder` as after a crash. Every line of `acked` must be in the log, and the log must take another event.
pub(crate) fn check(folder: &Path, acked: &Path) -> Done {
    let ledger = ledger(folder)?;
    for line in std::fs::read_to_string(acked)?.lines() {
        let mut words = line.split(' ');
        let first: u64 = words.next().unwrap_or("").parse()?;
        for (seq, leaf) in (first..).zip(words) {
            let bytes = ledger.event(seq)?;
            let bytes = bytes.ok_or_else(|| format!("event {seq} was acknowledged and is gone"))?;
            if hex(&leaf_hash(&bytes)) != leaf {
                return Err(format!("event {seq} has other bytes").into());
            }
        }
    }
    ledger.commit_blocking(event(0, 100))?;
    ledger.seal()?;
    Ok(())
}
