//! A tool of the tests whose plan waits until it is let go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use worldlog::canon::Value;
use worldlog::transitions::{Demand, Transition, find};

/// `test-slow`: `ailang-read` whose plan waits while [`Slow::hold`] is held. A static of each test, for they run side by side.
pub(crate) struct Slow {
    held: Mutex<()>,
    reached: AtomicBool,
}

impl Slow {
    pub(crate) const fn new() -> Self {
        Self { held: Mutex::new(()), reached: AtomicBool::new(false) }
    }

    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a plan has begun.
    pub(crate) fn wait(&self) {
        while !self.reached.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

fn read() -> &'static dyn Transition {
    find("ailang-read").expect("a tool")
}

impl Transition for Slow {
    fn tool(&self) -> &'static str {
        "test-slow"
    }
    fn title(&self) -> &'static str {
        "Slow"
    }
    fn description(&self) -> &'static str {
        "Takes its time."
    }
    fn source(&self) -> &'static str {
        "test-slow"
    }
    fn access(&self) -> Demand {
        read().access()
    }
    fn declared(&self) -> &'static [Demand] {
        read().declared()
    }
    fn input_schema(&self) -> Value {
        read().input_schema()
    }
    fn plan(&self, args: &Value) -> Value {
        self.reached.store(true, Ordering::SeqCst);
        drop(self.hold());
        read().plan(args)
    }
}
