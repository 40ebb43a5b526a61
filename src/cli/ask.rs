//! Asking the log in a data directory: its server when one runs, else the store itself.

use super::node::{Node, Options};
use super::{Failure, place, request};
use crate::canon::{self, Value};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Where the log is, for a verb that asks for one thing.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct At {
    #[command(flatten)]
    pub(super) data: place::DataArgs,
    /// Folder of the worktrees, when no server runs [default: <data>/workspace].
    #[arg(long, value_name = "W")]
    workspace: Option<PathBuf>,
    /// File of the guard, when no server runs.
    #[arg(long, value_name = "G")]
    guard: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl At {
    /// Has `request` done, by the server or here.
    pub(super) fn ask(&self, request: &Value) -> Result<Value, Failure> {
        let node = Options::of(&self.data, self.workspace.as_deref(), self.guard.as_deref());
        ask(&node, request)
    }
}

/// Bytes of an answer: 500 entries of 1 KiB, and sessions by the thousand.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Has `request` done, by the server or here.
fn ask(args: &Options, request: &Value) -> Result<Value, Failure> {
    let data = args.data()?;
    if let Some(answer) = server(&data, request)? {
        return Ok(answer);
    }
    let node = Node::open(args, false)?;
    let result = request::perform(&node.service, &data, request)?;
    node.close(false)?;
    Ok(result)
}

/// The server's answer; `None` when none runs.
pub(super) fn server(data: &Path, request: &Value) -> Result<Option<Value>, Failure> {
    let path = place::socket(data);
    let failed =
        |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let mut stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(failed(&error)),
    };
    let mut line = request.to_bytes();
    line.push(b'\n');
    stream.write_all(&line).map_err(|error| failed(&error))?;
    let mut answer = Vec::new();
    let mut reader = BufReader::new(stream).take(ANSWER_BYTES_MAX);
    reader.read_until(b'\n', &mut answer).map_err(|error| failed(&error))?;
    if answer.pop() != Some(b'\n') {
        return Err(failed(
            &"the server ended before it answered; `worldlog head` shows what is durable",
        ));
    }
    let answer = canon::parse(&answer).map_err(|error| failed(&error))?;
    if answer.get("ok").and_then(Value::as_bool) == Some(true) {
        return Ok(Some(answer.get("result").cloned().unwrap_or(Value::Null)));
    }
    let text = answer.get("error").and_then(Value::as_str).unwrap_or("the server gave no reason");
    let code = answer.get("code").and_then(Value::as_u64).and_then(|code| u8::try_from(code).ok());
    Err(Failure { code: code.unwrap_or(1), text: text.to_owned() })
}
