//! The only reader of time. Everything else is told what time it is.

#![expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What the clocks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Unix milliseconds. May jump.
    pub wall_ms: u64,
    /// Milliseconds since some moment of this process. Never jumps.
    pub monotonic_ms: u64,
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// What the clocks show now.
    fn now(&self) -> Now;
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Starts the monotonic clock.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { wall_ms: millis(wall), monotonic_ms: millis(self.started.elapsed()) }
    }
}

/// A clock that goes only when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    wall_ms: AtomicU64,
    monotonic_ms: AtomicU64,
}

impl ManualClock {
    /// Stands at `wall_ms`.
    pub fn new(wall_ms: u64) -> Self {
        Self { wall_ms: AtomicU64::new(wall_ms), monotonic_ms: AtomicU64::new(0) }
    }

    /// Lets time pass.
    pub fn advance(&self, ms: u64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the wall clock, as an operator or a time server does: the monotonic one does not notice.
    pub fn set_wall(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        Now {
            wall_ms: self.wall_ms.load(Ordering::SeqCst),
            monotonic_ms: self.monotonic_ms.load(Ordering::SeqCst),
        }
    }
}
