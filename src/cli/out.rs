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

    /// Text for a person, and the end of its line. Control characters are written out: what agents chose must not move the
    /// cursor of whoever reads it.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let mut line = written_out(text.as_ref(), |c| c.is_control() && c != '\n');
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

/// Text of somebody else as part of one line.
pub(super) fn shown(text: &str) -> String {
    written_out(text, char::is_control)
}

fn written_out(text: &str, hidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
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
