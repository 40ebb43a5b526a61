//! `edit`: one passage of a file replaced, and no other byte.
//!
//! The file is bytes: it need not be UTF-8, and line ends are neither matched loosely nor changed. `old_text` must occur
//! exactly once, where occurrences that overlap count each (`aa` occurs twice in `aaa`), so that no choice is hidden.

use super::effect::Payload;
use super::{OpError, Prepared, Standing, replacing};
use crate::sandbox::{Fault, Thing, Worktree};

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["path", "old_text", "new_text"];

/// A passage to replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    path: String,
    old_text: String,
    new_text: String,
}

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request {
        path: payload.text("path")?.to_owned(),
        old_text: payload.text("old_text")?.to_owned(),
        new_text: payload.text("new_text")?.to_owned(),
    })
}

pub(super) fn prepare(tree: &Worktree, request: &Request) -> Prepared {
    let Request { path, old_text, new_text } = request;
    let refusal = |why: &str| Prepared::refusal("edit", path, why);
    let target = tree.target(path);
    let base = target.as_ref().map(|target| {
        let there = target.before.clone().map(Thing::File);
        vec![Standing::of(&target.path, there.as_ref())]
    });
    let base = base.unwrap_or_default();
    if old_text.is_empty() {
        return refusal("old_text is empty; give the text to be replaced").over(base);
    }
    let target = match target {
        Ok(target) => target,
        Err(fault) => return refusal(&fault.to_string()),
    };
    let Some(found) = &target.before else {
        return refusal(&Fault::absent(path).to_string()).over(base);
    };
    let (count, first) = occurrences(&found.bytes, old_text.as_bytes());
    if count > 1 {
        return refusal(&format!(
            "old_text occurs {count} times; include more context so it is unique"
        ))
        .over(base);
    }
    let (head, rest) = found.bytes.split_at(first.min(found.bytes.len()));
    let Some(tail) = rest.get(old_text.len()..).filter(|_| count == 1) else {
        let why = "old_text not found \u{2014} the file may have changed; read it again";
        return refusal(why).over(base);
    };
    let bytes = [head, new_text.as_bytes(), tail].concat();
    replacing::prepare("edit", path, target, bytes)
}

/// How often `needle` occurs in `text`, overlaps counted, and where first. Knuth, Morris and Pratt: the time is linear
/// whatever an agent sends.
pub fn occurrences(text: &[u8], needle: &[u8]) -> (usize, usize) {
    let at = |index: usize| needle.get(index).copied();
    // borders[n] = length of the longest proper prefix of needle[..=n] that also ends it.
    let mut borders: Vec<usize> = Vec::with_capacity(needle.len());
    let border = |borders: &[usize], matched: usize| {
        matched.checked_sub(1).and_then(|last| borders.get(last)).copied().unwrap_or(0)
    };
    let advance = |borders: &[usize], mut matched: usize, byte: u8| {
        while matched > 0 && at(matched) != Some(byte) {
            matched = border(borders, matched);
        }
        if at(matched) == Some(byte) { matched + 1 } else { 0 }
    };
    let mut matched = 0;
    for (index, byte) in needle.iter().enumerate() {
        matched = if index == 0 { 0 } else { advance(&borders, matched, *byte) };
        borders.push(matched);
    }
    let (mut count, mut first, mut matched) = (0, 0, 0);
    for (index, byte) in text.iter().enumerate().filter(|_| !needle.is_empty()) {
        matched = advance(&borders, matched, *byte);
        if matched == needle.len() {
            if count == 0 {
                first = index + 1 - needle.len();
            }
            count += 1;
        }
    }
    (count, first)
}
