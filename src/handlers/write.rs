//! `write`: a file's whole content, as UTF-8 text. Missing folders are made.

use super::effect::Payload;
use super::{OpError, Prepared, replacing};
use crate::sandbox::Worktree;

/// Members of the payload besides `op`.
pub(super) const MEMBERS: &[&str] = &["path", "content"];

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    path: String,
    content: String,
}

pub(super) fn parse(payload: &Payload<'_>) -> Result<Request, OpError> {
    Ok(Request {
        path: payload.text("path")?.to_owned(),
        content: payload.text("content")?.to_owned(),
    })
}

pub(super) fn prepare(tree: &Worktree, request: &Request) -> Prepared {
    let Request { path, content } = request;
    match tree.target(path) {
        Ok(target) => replacing::prepare("write", path, target, content.clone().into_bytes()),
        Err(fault) => Prepared::refusal("write", path, &fault.to_string()),
    }
}
