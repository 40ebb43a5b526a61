//! The thread that seals, cosigns, guards and snapshots about once a second while something is new.

use super::{Failure, out};
use crate::ledger::Ledger;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a halted ledger is looked for.
const TICK: Duration = Duration::from_millis(50);
/// Ticks between two rounds: one second.
const TICKS_PER_ROUND: u32 = 20;

/// The thread, until [`Tender::stop`].
pub(super) struct Tender {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Tender {
    /// Starts it. It ends the whole process when heads may no longer be released.
    pub(super) fn start(ledger: Ledger) -> Result<Self, Failure> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("tend".to_owned()).spawn(move || {
            let (mut tended, mut snapshot, mut ticks) = (0, 0, 0);
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if ledger.halted() {
                    give_up("the fate of a commit is unknown; start again to find out from the stored bytes");
                }
                ticks += 1;
                if ticks < TICKS_PER_ROUND || ledger.published().head.size == tended {
                    continue;
                }
                ticks = 0;
                if let Err(error) = ledger.seal() {
                    tracing::warn!(%error, "no seal was written");
                }
                if let Err(error) = ledger.tend() {
                    give_up(&error.to_string());
                }
                tended = ledger.published().head.size;
                snapshot = ledger.snapshot(snapshot, false).unwrap_or(snapshot);
            }
        });
        let thread = thread.map_err(|error| Failure::start(format!("a thread: {error}")))?;
        Ok(Self { stop, thread })
    }

    /// Waits for the round that runs.
    pub(super) fn stop(self) {
        // The thread may have ended already.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Ends the process at once: whatever was acknowledged is durable, and what was not must not be.
fn give_up(text: &str) -> ! {
    out::complain(text);
    std::process::exit(2)
}
