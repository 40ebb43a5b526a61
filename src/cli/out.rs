//! Standard output and standard error. A closed pipe ends the output quietly.

use crate::canon::Value;
use std::io::{self, IsTerminal, Write};

/// Standard output.
#[derive(Debug)]
pub(super) struct Out {
    closed: bool,
}

impl Out {
    pub(super) fn new() -> Self {
        Self { closed: false }
    }

    /// One line of text.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let mut line = text.as_ref().to_owned();
        line.push('\n');
        self.bytes(line.as_bytes());
    }

    /// One line of canonical JSON.
    pub(super) fn json(&mut self, value: &Value) {
        let mut line = value.to_bytes();
        line.push(b'\n');
        self.bytes(&line);
    }

    /// Bytes as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if self.closed {
            return;
        }
        let mut stdout = io::stdout().lock();
        // Whoever read it went away, or its disk is full: the work goes on, and its exit code still tells.
        self.closed = stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err();
    }

    /// Whether nobody reads any more.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }
}

/// Whether a person reads standard output.
pub(super) fn on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Says on standard error what went wrong.
pub(super) fn complain(text: &str) {
    // Nobody is left to tell when this fails.
    let _ = writeln!(io::stderr().lock(), "worldlog: {text}");
}
