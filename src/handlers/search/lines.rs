//! The lines of one file after another, until there are enough.

use std::io::{self, Read};

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind,
    SinkMatch,
};

use crate::canon::Value;
use crate::handlers::read::json_bytes;
use crate::limits::{SEARCH_LINE_BYTES_MAX, WALK_OUTPUT_BYTES_MAX};

/// Room that a line takes besides its path and text.
const LINE_FRAME_BYTES: usize = 64;
/// Bytes handed to the searcher at once: how long a hostile expression goes on after nobody waits for it.
const STEP_BYTES: usize = 16 * 1024;
/// What is shown of a long line before its match.
const LEAD_BYTES: usize = 100;

/// Why a search ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// There are more matches than were asked for.
    Limit,
    /// The answer would be too long.
    Bytes,
    /// Enough was read.
    Read,
    /// Nobody waits for it any more.
    Closed,
}

/// What was found so far.
pub(super) struct Matches<'a> {
    matcher: &'a RegexMatcher,
    searcher: Searcher,
    limit: u64,
    found: u64,
    /// Lines of context that wait for their match.
    ahead: usize,
    bytes: usize,
    values: Vec<Value>,
    cut: Option<Cut>,
}

impl<'a> Matches<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, limit: u64, context: u64) -> Self {
        let context = usize::try_from(context).unwrap_or(0);
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .memory_map(MmapChoice::never())
            .build();
        Self {
            matcher,
            searcher,
            limit,
            found: 0,
            ahead: 0,
            bytes: 0,
            values: Vec::new(),
            cut: None,
        }
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        self.values
    }

    /// Adds the lines of a file. `Some`: no further file is of use.
    pub(super) fn search(
        &mut self,
        path: &str,
        bytes: &[u8],
        open: &dyn Fn() -> bool,
    ) -> Option<Cut> {
        // A mark is not part of the first line's text: `^` comes after it.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let (matcher, mut searcher) = (self.matcher, self.searcher.clone());
        let mut sink = Lines { path, all: self };
        match searcher.search_reader(matcher, Watched { bytes, open }, &mut sink) {
            Ok(()) => self.cut,
            // Its reader is the only thing that fails.
            Err(_) => Some(Cut::Closed),
        }
    }

    fn add(&mut self, path: &str, line: Option<u64>, text: &[u8], matched: bool) -> bool {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let (shown, cut) = self.window(text, matched);
        let lossy = String::from_utf8_lossy(shown);
        let mut members = vec![
            ("path", Value::from(path)),
            ("line", line.unwrap_or(0).into()),
            ("text", lossy.as_ref().into()),
        ];
        // Absent is the common case.
        members.extend(cut.then_some(("cut", true.into())));
        let invalid = std::str::from_utf8(shown).is_err();
        members.extend(invalid.then_some(("lossy", true.into())));
        members.extend((!matched).then_some(("context", true.into())));
        self.bytes += json_bytes(path) + json_bytes(&lossy) + LINE_FRAME_BYTES;
        if self.bytes > WALK_OUTPUT_BYTES_MAX {
            self.cut = Some(Cut::Bytes);
            return false;
        }
        let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
        self.values.push(Value::Object(members.collect()));
        true
    }

    /// What is shown of a line, and whether that is not all.
    fn window<'t>(&self, text: &'t [u8], matched: bool) -> (&'t [u8], bool) {
        if text.len() <= SEARCH_LINE_BYTES_MAX {
            return (text, false);
        }
        let found = if matched { self.matcher.find(text).ok().flatten() } else { None };
        let start = found.map_or(0, |found| found.start().saturating_sub(LEAD_BYTES));
        let start = start.min(text.len() - SEARCH_LINE_BYTES_MAX);
        let end = start + SEARCH_LINE_BYTES_MAX;
        // Not in the middle of a character.
        let inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
        let start = (start..end).find(|at| !inside(*at)).unwrap_or(start);
        let end = (start..=end).rev().find(|at| !inside(*at)).unwrap_or(end);
        (text.get(start..end).unwrap_or_default(), true)
    }
}

struct Lines<'m, 'a> {
    path: &'m str,
    all: &'m mut Matches<'a>,
}

impl Sink for Lines<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.all.found >= self.all.limit {
            self.all.cut = Some(Cut::Limit);
            self.all.values.truncate(self.all.values.len() - self.all.ahead);
            return Ok(false);
        }
        self.all.found += 1;
        self.all.ahead = 0;
        Ok(self.all.add(self.path, found.line_number(), found.bytes(), true))
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> Result<bool, io::Error> {
        let added = self.all.add(self.path, near.line_number(), near.bytes(), false);
        if added && *near.kind() == SinkContextKind::Before {
            self.all.ahead += 1;
        }
        Ok(added)
    }
}

/// A file's bytes in steps, as long as somebody waits.
struct Watched<'a> {
    bytes: &'a [u8],
    open: &'a dyn Fn() -> bool,
}

impl Read for Watched<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !(self.open)() {
            return Err(io::Error::other("nobody waits for it any more"));
        }
        let step = into.len().min(STEP_BYTES);
        self.bytes.read(into.get_mut(..step).unwrap_or_default())
    }
}
