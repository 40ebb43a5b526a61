//! `write`: a file's whole content, as UTF-8 text. Missing folders are made.

use super::replacing::{self, Replacement};
use super::{Call, Done, OpError, Prepared, Work};
use crate::sandbox::Worktree;

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["path", "content"];

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    path: String,
    content: String,
}

pub(super) fn parse<'a>(
    text: impl Fn(&str) -> Result<&'a str, OpError>,
) -> Result<Request, OpError> {
    Ok(Request { path: text("path")?.to_owned(), content: text("content")?.to_owned() })
}

pub(super) fn prepare(tree: &Worktree, request: &Request) -> Prepared {
    let Request { path, content } = request;
    match tree.target(path) {
        Ok(target) => {
            replacing::prepare("write", path, target, content.clone().into_bytes(), Work::Write)
        }
        Err(fault) => Prepared::refusal("write", path, &fault.to_string()),
    }
}

pub(super) fn perform(call: &Call<'_>, replacement: &Replacement) -> Done {
    replacing::perform(call, replacement)
}
