//! `search`: the lines of the files below a folder that contain something.
//!
//! ```text
//! {"binary":0,"matches":[{"context":true,"line":6,"path":"a.ail","text":"-- before"},{"line":7,"path":"a.ail","text":"let x = 1"}],
//!  "not_utf8":0,"ok":true,"policy_digest":"<hex>","searched":2,"too_large":0,"tool":"sha256:<hex>","truncated":false,
//!  "truncated_by":null,"unreadable":0}
//! ```
//!
//! A file with a NUL byte is binary; one with a very long line is too large, for an expression is not stopped within a line. Lines are bytes: what of them is not UTF-8 is shown as U+FFFD, and said.

mod lines;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::effect::Payload;
use super::{Call, DEADLINE, Done, OpError, Prepared, Work, failed};
use crate::canon::Value;
use crate::limits::{
    PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX, SEARCH_BYTES_MAX, SEARCH_CONTEXT_LINES_MAX,
    SEARCH_LINE_READ_BYTES_MAX, SEARCH_MATCHES_MAX, WALK_NAMES_MAX,
};
use crate::sandbox::{Fault, Glob, Kind, Met, Scope};
use lines::{Cut, Matches};

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] =
    &["pattern", "literal", "case", "path", "glob", "hidden", "context", "limit"];

/// Matches unless asked otherwise.
const MATCHES: u64 = 200;
/// Brackets and classes inside one another, in an expression.
const NESTING: u32 = 100;

/// Something to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pattern: String,
    literal: bool,
    case: &'static str,
    path: Option<String>,
    glob: Option<String>,
    hidden: bool,
    context: u64,
    limit: u64,
}

/// The same, with the patterns read.
#[derive(Debug)]
pub(super) struct Search {
    request: Request,
    matcher: RegexMatcher,
    glob: Glob,
}

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request {
        pattern: payload.text("pattern")?.to_owned(),
        literal: payload.flag("literal")?,
        case: payload.word("case", &["sensitive", "insensitive", "smart"])?,
        path: payload.maybe_text("path")?,
        glob: payload.maybe_text("glob")?,
        hidden: payload.flag("hidden")?,
        context: payload.whole("context", 0, SEARCH_CONTEXT_LINES_MAX)?.unwrap_or(0),
        limit: payload.whole("limit", 1, SEARCH_MATCHES_MAX)?.unwrap_or(MATCHES),
    })
}

pub(super) fn prepare(request: &Request) -> Prepared {
    let path = request.path.as_deref().unwrap_or(".");
    let patterns = matcher(request)
        .and_then(|matcher| Glob::new(request.glob.as_deref()).map(|glob| (matcher, glob)));
    match patterns {
        Ok((matcher, glob)) => {
            let search = Search { request: request.clone(), matcher, glob };
            Prepared::harmless("search", path, Work::Search(search))
        }
        Err(why) => Prepared::refusal("search", path, &why),
    }
}

fn matcher(request: &Request) -> Result<RegexMatcher, String> {
    let bytes = request.pattern.len();
    if bytes == 0 {
        return Err("the pattern is empty; every line would match".to_owned());
    }
    if bytes > PATTERN_BYTES_MAX {
        return Err(format!("the pattern is {bytes} bytes; the limit is {PATTERN_BYTES_MAX}"));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .crlf(true)
        .fixed_strings(request.literal)
        .case_insensitive(request.case == "insensitive")
        .case_smart(request.case == "smart")
        .size_limit(PATTERN_COMPILED_BYTES_MAX)
        .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
        .nest_limit(NESTING);
    let built = builder.build(&request.pattern);
    // The library shows the expression as it compiles it, over several lines; the reason is the last of them.
    let reason = |text: String| text.rsplit("error: ").next().unwrap_or("").trim().to_owned();
    built.map_err(|error| format!("the pattern is not valid: {}", reason(error.to_string())))
}

/// Files by what became of them.
#[derive(Default)]
struct Files {
    searched: u64,
    binary: u64,
    too_large: u64,
    unreadable: u64,
    bytes: u64,
}

pub(super) fn perform(call: &Call<'_>, search: &Search) -> Done {
    let Search { request, matcher, glob } = search;
    let scope = Scope {
        path: request.path.as_deref(),
        depth: usize::MAX,
        hidden: request.hidden,
        glob,
        file: true,
        names: WALK_NAMES_MAX,
    };
    let mut files = Files::default();
    let mut matches = Matches::new(matcher, request.limit, request.context);
    let mut cut = None;
    let walked = call.tree.walk(&scope, call.gate.open, &mut |met| {
        cut = in_file(met, call.gate.open, &mut files, &mut matches);
        cut.is_none()
    });
    let walked = match walked {
        Ok(walked) if walked.closed => return failed(DEADLINE.to_owned()),
        Ok(walked) => walked,
        Err(fault) => return call.refuse(&fault),
    };
    let by = match cut {
        Some(Cut::Closed) => return failed(DEADLINE.to_owned()),
        Some(Cut::Limit) => Some("limit"),
        Some(Cut::Bytes) => Some("bytes"),
        Some(Cut::Read) => Some("bytes_searched"),
        None => walked.cut.then_some("names"),
    };
    call.answered([
        ("binary", files.binary.into()),
        ("matches", Value::Array(matches.into_values())),
        ("not_utf8", walked.unnamed.into()),
        ("searched", files.searched.into()),
        ("too_large", files.too_large.into()),
        ("truncated", by.is_some().into()),
        ("truncated_by", by.into()),
        ("unreadable", (walked.unreadable + files.unreadable).into()),
    ])
}

/// `Some`: the search ends here.
fn in_file(
    met: &Met<'_>,
    open: &dyn Fn() -> bool,
    files: &mut Files,
    matches: &mut Matches<'_>,
) -> Option<Cut> {
    if met.kind != Kind::File {
        return None;
    }
    let found = match met.read() {
        Ok(found) => found,
        Err(Fault::TooLarge { .. }) => {
            files.too_large += 1;
            return None;
        }
        // Gone since its name was read.
        Err(fault) if fault.is_absent() => return None,
        Err(_) => {
            files.unreadable += 1;
            return None;
        }
    };
    files.bytes += found.bytes.len() as u64;
    if files.bytes > SEARCH_BYTES_MAX {
        return Some(Cut::Read);
    }
    if found.bytes.contains(&0) {
        files.binary += 1;
        return None;
    }
    let mut lines = found.bytes.split(|byte| *byte == b'\n');
    if lines.any(|line| line.len() > SEARCH_LINE_READ_BYTES_MAX) {
        files.too_large += 1;
        return None;
    }
    files.searched += 1;
    matches.search(met.path, &found.bytes, open)
}
