//! `worldlog call TOOL`: one call of a tool over MCP. The tool's output goes to standard output as it was committed.

use super::out::Out;
use super::{Done, Failure, http, out, place, report};
use crate::canon::{self, Value, object};
use crate::event::B32;
use crate::limits::JSON_NUMBER_BYTES_MAX;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Bytes of arguments.
const ARGUMENTS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of a file that holds a token.
const TOKEN_BYTES_MAX: usize = 256;
/// Characters of an answer that is no JSON.
const TEXT_CHARS_MAX: usize = 300;
/// The revision that this client speaks.
const REVISION: &str = "2025-11-25";

/// `call`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tool, as the server lists it.
    tool: String,
    /// NAME=TEXT, an argument that is a string; may be repeated.
    #[arg(long = "arg", value_name = "K=V")]
    pairs: Vec<String>,
    /// All arguments as a JSON object: itself, @FILE, or - for standard input.
    #[arg(long, value_name = "OBJ|@FILE|-", conflicts_with = "pairs")]
    json: Option<String>,
    /// Ask what the call would do, and run nothing.
    #[arg(long)]
    preview: bool,
    /// The token of a preview or of a denial, once it is approved.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// PATH=sha256:HEX or PATH=absent: how a file has to stand; may be repeated.
    #[arg(long, value_name = "PATH=REF")]
    expect: Vec<String>,
    /// The server [default: the one that <data>/serve.json names].
    #[arg(long, env = "WORLDLOG_URL", value_name = "URL")]
    url: Option<String>,
    /// The session's token, or a file that holds it [default: <data>/first-session.token].
    #[arg(long, env = "WORLDLOG_SESSION", hide_env_values = true, value_name = "FILE|TOKEN")]
    session: Option<String>,
    #[command(flatten)]
    data: place::DataArgs,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let arguments = arguments(args)?;
    let url = http::Url::parse(&url(args)?)?;
    let token = token(args)?;
    let call = object([
        ("_meta", beside(args)?),
        ("arguments", arguments),
        ("name", args.tool.as_str().into()),
    ]);
    let message = object([
        ("id", 1.into()),
        ("jsonrpc", "2.0".into()),
        ("method", "tools/call".into()),
        ("params", call),
    ]);
    let headers = [("MCP-Protocol-Version", REVISION)];
    let answer = http::post(&url, "/mcp", &token, &headers, &message.to_bytes())?;
    show(&answer, out)
}

/// What goes along with the arguments.
fn beside(args: &Args) -> Result<Value, Failure> {
    let mut meta = BTreeMap::new();
    if args.preview {
        meta.insert("worldlog/preview".to_owned(), true.into());
    }
    if let Some(token) = &args.token {
        meta.insert("worldlog/token".to_owned(), token.as_str().into());
    }
    let mut expect = BTreeMap::new();
    for pair in &args.expect {
        // A path may hold an equals sign, a reference does not.
        let (path, name) = pair
            .rsplit_once('=')
            .ok_or_else(|| Failure::usage(format!("--expect {pair:?}: PATH=REF was due")))?;
        expect.insert(path.to_owned(), Value::from(name));
    }
    if !expect.is_empty() {
        meta.insert("worldlog/expect".to_owned(), Value::Object(expect));
    }
    Ok(Value::Object(meta))
}

fn show(answer: &http::Answer, out: &mut Out) -> Done {
    let status = answer.status;
    let value = canon::parse(&answer.body).map_err(|_| {
        let text = String::from_utf8_lossy(&answer.body);
        let text: String = text.chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect();
        Failure::usage(format!("the server refused with {status}: {text}"))
    })?;
    let error = value.get("error");
    let message = error.and_then(|error| error.get("message").or(Some(error)));
    let message = message.or_else(|| value.get("message")).and_then(Value::as_str);
    let Some(result) = value.get("result") else {
        // An error of JSON-RPC comes with status 200.
        let how = if status == 200 { String::new() } else { format!(" with {status}") };
        return Err(Failure::usage(format!(
            "the server refused{how}: {}",
            message.unwrap_or("no reason")
        )));
    };
    match result.get("structuredContent") {
        Some(output) => out.json(output),
        None => out.json(result),
    }
    if result.get("isError").and_then(Value::as_bool) != Some(true) {
        return Ok(0);
    }
    // The second block says why and what to do next.
    let blocks = result.get("content").and_then(Value::as_array).unwrap_or_default();
    let reason = blocks.get(1).and_then(|block| block.get("text")).and_then(Value::as_str);
    out::complain(reason.unwrap_or("the tool did not do what was asked"));
    Ok(1)
}

fn arguments(args: &Args) -> Result<Value, Failure> {
    let Some(text) = &args.json else {
        let mut members = BTreeMap::new();
        for arg in &args.pairs {
            let (name, value) = arg
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("--arg {arg:?}: NAME=TEXT was due")))?;
            if members.insert(name.to_owned(), Value::from(value)).is_some() {
                return Err(Failure::usage(format!("--arg {name}: it is given twice")));
            }
        }
        return Ok(Value::Object(members));
    };
    let bytes = match text.strip_prefix('@') {
        Some(path) => report::file(Path::new(path), ARGUMENTS_BYTES_MAX)?,
        None if text == "-" => {
            let mut bytes = Vec::new();
            let read =
                std::io::stdin().take(ARGUMENTS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
            read.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
            bytes
        }
        None => text.as_bytes().to_vec(),
    };
    if bytes.len() > ARGUMENTS_BYTES_MAX {
        return Err(Failure::usage(format!("--json: more than {ARGUMENTS_BYTES_MAX} bytes")));
    }
    let value = canon::parse(&bytes).map_err(|error| {
        Failure::usage(format!(
            "--json: {error} (numbers have at most {JSON_NUMBER_BYTES_MAX} digits)"
        ))
    })?;
    if value.as_object().is_none() {
        return Err(Failure::usage("--json: the arguments are no JSON object"));
    }
    Ok(value)
}

fn url(args: &Args) -> Result<String, Failure> {
    if let Some(url) = &args.url {
        return Ok(url.clone());
    }
    let data = args.data.path()?;
    let path = place::serve_json(&data);
    let bytes = std::fs::read(&path).map_err(|_| super::health::nobody(&data))?;
    let value = canon::parse(&bytes).ok();
    let url = value.as_ref().and_then(|value| value.get("url")).and_then(Value::as_str);
    url.map(str::to_owned)
        .ok_or_else(|| Failure::usage(format!("{}: it names no url", path.display())))
}

/// The token. What is neither one nor a file is not repeated: it may be one with a slip.
fn token(args: &Args) -> Result<String, Failure> {
    let given = match &args.session {
        Some(given) => given.clone(),
        None => place::token(&args.data.path()?, "first-session").display().to_string(),
    };
    if B32::from_hex(&given).is_some() {
        return Ok(given);
    }
    let path = Path::new(&given);
    let missing = || match &args.session {
        Some(_) => Failure::usage(
            "--session: neither a token of 64 hexadecimal digits nor a file that can be read",
        ),
        None => {
            Failure::usage("no session: give its token or file with --session or WORLDLOG_SESSION")
        }
    };
    let bytes = report::file(path, TOKEN_BYTES_MAX).map_err(|_| missing())?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let token = text.trim();
    if B32::from_hex(token).is_none() {
        return Err(Failure::usage(format!(
            "{}: it holds no token of 64 hexadecimal digits",
            path.display()
        )));
    }
    Ok(token.to_owned())
}
