//! Readable exchanges: what is sent, and what has to come back.
//!
//! ```text
//! # A sentence: what this file states.
//! @ chunked 1000                    how the next request is sent (see `Manner`)
//! > POST /mcp                       request line, without the version
//! > Authorization: Bearer {{token}}
//! >
//! > {"jsonrpc":"2.0","id":1,"method":"ping"}
//! < 200                             status; `closed` when no answer may come
//! < Content-Type: application/json  a header that must be there
//! < !Access-Control-Allow-Origin    one that must not
//! <
//! < {"jsonrpc":"2.0","id":1,"result":{}}      the whole body; without the empty line it is not looked at
//! ```
//!
//! `@ advance MS` lets time pass before the request, `@ fault N KIND` has the N-th sync from there go wrong (`not-committed`,
//! `lost` or `persisted`).
//!
//! In a request `{{name}}` is a variable and `{{repeat:N:text}}` text N times.
//! In an answer `{{ref}}` is `sha256:` and 64 digits, `{{hex32}}` and `{{hex64}}` are digits, `{{n}}` a number, `{{*}}`
//! anything up to the text that follows; `{{ref:name}}` also keeps it as a variable. `Host` and `Connection: close` are
//! added unless the script has its own Host or says `@ no-host`, and `Content-Length` unless it says otherwise.

use super::{Answer, World, exchange, read_answer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use worldlog::store::memory::Fault;

pub(crate) type Variables = BTreeMap<String, String>;

/// How a request is sent.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Manner {
    /// At once.
    #[default]
    Whole,
    /// `@ bytes`: one write a byte.
    Bytes,
    /// `@ chunked N`: in chunks of N bytes.
    Chunked(usize),
    /// `@ stall N`: N bytes of the body, and then nothing.
    Stall(usize),
    /// `@ cut N`: N bytes of the body, and then the end of the connection's sending half.
    Cut(usize),
    /// `@ continue`: the body only after 100 Continue, which has to come.
    Continue,
    /// `@ no-continue`: the same, and it must not come.
    NoContinue,
}

/// One request and what has to come back.
#[derive(Debug, Default)]
struct Exchange {
    line: usize,
    manner: Manner,
    no_host: bool,
    /// Milliseconds that pass first.
    advance: u64,
    /// Which sync goes wrong, and how.
    fault: Option<(u64, Fault)>,
    request: Vec<String>,
    answer: Vec<String>,
}

/// Reads the exchanges of a script.
fn parse(text: &str) -> Vec<Exchange> {
    let mut all = Vec::new();
    let mut now = Exchange::default();
    for (index, line) in text.lines().enumerate() {
        let (mark, rest) = line.split_at(line.len().min(1));
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        if matches!(mark, "@" | ">") && !now.answer.is_empty() {
            all.push(std::mem::take(&mut now));
        }
        match mark {
            "" | "#" => {}
            "@" => directive(&mut now, rest),
            ">" => {
                if now.request.is_empty() {
                    now.line = index + 1;
                }
                now.request.push(rest.to_owned());
            }
            "<" => now.answer.push(rest.to_owned()),
            _ => panic!("line {}: {line:?} begins with none of # @ > <", index + 1),
        }
    }
    all.push(now);
    assert!(all.iter().all(|e| !e.request.is_empty() && !e.answer.is_empty()), "half an exchange");
    all
}

fn directive(exchange: &mut Exchange, text: &str) {
    let (word, number) = text.split_once(' ').unwrap_or((text, "0"));
    if word == "fault" {
        let (sync, kind) = number.split_once(' ').expect("fault N KIND");
        let kind = match kind {
            "not-committed" => Fault::NotCommitted,
            "lost" => Fault::Lost,
            "persisted" => Fault::Persisted,
            _ => panic!("{kind:?} is no kind of fault"),
        };
        exchange.fault = Some((sync.parse().expect("a number"), kind));
        return;
    }
    let number: usize = number.parse().expect("a number after the directive");
    match word {
        "no-host" => exchange.no_host = true,
        "advance" => exchange.advance = number as u64,
        "bytes" => exchange.manner = Manner::Bytes,
        "chunked" => exchange.manner = Manner::Chunked(number),
        "stall" => exchange.manner = Manner::Stall(number),
        "cut" => exchange.manner = Manner::Cut(number),
        "continue" => exchange.manner = Manner::Continue,
        "no-continue" => exchange.manner = Manner::NoContinue,
        _ => panic!("{text:?} is no directive"),
    }
}

/// Runs a script. `Err` names the line and what differs.
pub(crate) async fn run(
    world: &World,
    address: SocketAddr,
    text: &str,
    variables: &mut Variables,
) -> Result<usize, String> {
    let exchanges = parse(text);
    for exchange in &exchanges {
        world.clock.advance(exchange.advance);
        if let Some((sync, fault)) = exchange.fault {
            world.store.fail_at(sync, fault);
        }
        let answer = Box::pin(send(address, exchange, variables)).await;
        let checked = check(&exchange.answer, answer.as_ref(), variables);
        checked
            .map_err(|error| format!("line {}: {error}\n  answer: {answer:?}", exchange.line))?;
    }
    Ok(exchanges.len())
}

async fn send(address: SocketAddr, exchange: &Exchange, variables: &Variables) -> Option<Answer> {
    let filled: Vec<String> = exchange.request.iter().map(|line| fill(line, variables)).collect();
    let end = filled.iter().position(String::is_empty).unwrap_or(filled.len());
    let body = filled[(end + 1).min(filled.len())..].join("\n").into_bytes();
    let mut head = format!("{} HTTP/1.1\r\nConnection: close\r\n", filled[0]);
    let has =
        |name: &str| filled[1..end].iter().any(|line| line.to_ascii_lowercase().starts_with(name));
    if !exchange.no_host && !has("host:") {
        head.extend(["Host: ", &address.to_string(), "\r\n"]);
    }
    for line in &filled[1..end] {
        head.extend([line, "\r\n"]);
    }
    let chunked = matches!(exchange.manner, Manner::Chunked(_));
    if chunked {
        head.push_str("Transfer-Encoding: chunked\r\n");
    } else if end < filled.len() && !has("content-length:") {
        head.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
    }
    head.push_str("\r\n");
    deliver(address, &exchange.manner, head.into_bytes(), &body).await
}

async fn deliver(
    address: SocketAddr,
    manner: &Manner,
    head: Vec<u8>,
    body: &[u8],
) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("no delay");
    match manner {
        Manner::Whole => return exchange(address, &[head.as_slice(), body].concat()).await,
        Manner::Chunked(size) => {
            let mut bytes = head;
            for chunk in body.chunks(*size) {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            return exchange(address, &bytes).await;
        }
        Manner::Bytes => {
            for byte in [head.as_slice(), body].concat() {
                stream.write_all(&[byte]).await.expect("one byte");
                tokio::task::yield_now().await;
            }
        }
        Manner::Stall(count) => {
            stream.write_all(&[head.as_slice(), &body[..*count]].concat()).await.expect("a part");
        }
        Manner::Cut(count) => {
            stream.write_all(&[head.as_slice(), &body[..*count]].concat()).await.expect("a part");
            stream.shutdown().await.expect("half a connection");
        }
        Manner::Continue | Manner::NoContinue => {
            stream.write_all(&head).await.expect("the head");
            let mut first = [0; 12];
            let waiting = stream.read_exact(&mut first);
            let came = tokio::time::timeout(Duration::from_secs(5), waiting).await;
            came.expect("an answer to the head").expect("twelve bytes");
            let asked = &first == b"HTTP/1.1 100";
            assert_eq!(
                asked,
                *manner == Manner::Continue,
                "the server asked for the body: {asked}"
            );
            if asked {
                stream.write_all(body).await.expect("the body");
            }
            let rest = read_rest(&mut stream).await;
            return Answer::parse(&[first.as_slice(), &rest].concat());
        }
    }
    read_answer(&mut stream).await
}

async fn read_rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    let read = tokio::time::timeout(Duration::from_secs(5), read).await;
    read.expect("an end").expect("the rest");
    bytes
}

/// Puts variables and repetitions into a line of a request.
fn fill(line: &str, variables: &Variables) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, name, after)) = placeholder(rest) {
        out.push_str(before);
        if let Some(spec) = name.strip_prefix("repeat:") {
            let (count, text) = spec.split_once(':').expect("repeat:N:text");
            out.push_str(&text.repeat(count.parse().expect("a number")));
        } else {
            out.push_str(variables.get(name).unwrap_or_else(|| panic!("no variable {name:?}")));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The text before the first `{{name}}`, the name, and the text after it. No JSON has two braces in a row at an opening.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name, after))
}

fn check(
    wanted: &[String],
    answer: Option<&Answer>,
    variables: &mut Variables,
) -> Result<(), String> {
    let status = &wanted[0];
    let Some(answer) = answer else {
        return if status == "closed" {
            Ok(())
        } else {
            Err(format!("no answer, {status} was due"))
        };
    };
    if *status != answer.status.to_string() {
        return Err(format!("status {} instead of {status}", answer.status));
    }
    let end = wanted.iter().position(String::is_empty).unwrap_or(wanted.len());
    for line in &wanted[1..end] {
        if let Some(name) = line.strip_prefix('!') {
            if let Some(value) = answer.header(name) {
                return Err(format!("header {name}: {value} must not be there"));
            }
            continue;
        }
        let (name, value) = line.split_once(": ").expect("a header line");
        let found = answer.header(name).ok_or_else(|| format!("no header {name}"))?;
        compare(value, found, variables).map_err(|error| format!("header {name}: {error}"))?;
    }
    if end == wanted.len() {
        return Ok(());
    }
    compare(&wanted[end + 1..].join("\n"), answer.text(), variables)
}

/// Compares text with a pattern from the left.
fn compare(pattern: &str, text: &str, variables: &mut Variables) -> Result<(), String> {
    let (mut pattern, mut text) = (pattern, text);
    while let Some((before, name, after)) = placeholder(pattern) {
        text = text.strip_prefix(before).ok_or_else(|| differs(before, text))?;
        let (kind, variable) = name.split_once(':').map_or((name, None), |(k, v)| (k, Some(v)));
        let next = placeholder(after).map_or(after, |(literal, ..)| literal);
        let length = match kind {
            "ref" => 71,
            "hex32" => 32,
            "hex64" => 64,
            "n" => text.bytes().take_while(u8::is_ascii_digit).count(),
            "*" if next.is_empty() => text.len(),
            "*" => text.find(next).ok_or_else(|| differs(next, text))?,
            name => {
                let value = variables.get(name).unwrap_or_else(|| panic!("no variable {name:?}"));
                text = text.strip_prefix(value.as_str()).ok_or_else(|| differs(value, text))?;
                pattern = after;
                continue;
            }
        };
        let found = text.get(..length).ok_or_else(|| differs(kind, text))?;
        let digits = found.strip_prefix("sha256:").filter(|_| kind == "ref").unwrap_or(found);
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let fits = match kind {
            "ref" => digits.len() == 64 && digits.bytes().all(hex),
            "hex32" | "hex64" => digits.bytes().all(hex),
            "n" => !found.is_empty(),
            _ => true,
        };
        if !fits {
            return Err(differs(kind, text));
        }
        if let Some(variable) = variable {
            variables.insert(variable.to_owned(), found.to_owned());
        }
        text = &text[length..];
        pattern = after;
    }
    if pattern == text { Ok(()) } else { Err(differs(pattern, text)) }
}

fn differs(wanted: &str, found: &str) -> String {
    let cut = |text: &str| text.chars().take(300).collect::<String>();
    format!("{:?} was due, here is {:?}", cut(wanted), cut(found))
}

#[test]
fn a_pattern_takes_what_it_says_and_nothing_else() {
    let mut variables = Variables::new();
    let hex = "0f".repeat(32);
    let mut fits = |pattern: &str, text: &str| compare(pattern, text, &mut variables).is_ok();
    assert!(fits("{{ref:kept}}", &format!("sha256:{hex}")));
    assert!(fits("a {{kept}} b", &format!("a sha256:{hex} b")));
    assert!(!fits("{{kept}}", &format!("sha256:{}", "1f".repeat(32))));
    assert!(!fits("{{ref}}", &format!("sha512:{hex}")));
    assert!(!fits("{{ref}}", &format!("sha256:{}", "0F".repeat(32))));
    assert!(!fits("{{hex64}}", &hex[1..]));
    assert!(fits("n={{n}},", "n=17,") && !fits("n={{n}},", "n=,") && !fits("n={{n}},", "n=-1,"));
    assert!(fits("a{{*}}b", "axxb") && !fits("a{{*}}b", "axxc") && !fits("a{{*}}b", "axxbc"));
    assert!(!fits("abc", "abcd") && !fits("abcd", "abc"));
}
