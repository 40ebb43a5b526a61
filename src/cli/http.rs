//! A small HTTP/1.1 client: one request a connection, to a server on this machine or behind a tunnel.
//!
//! It speaks plain HTTP only; a remote server stands behind TLS, and a tunnel leads there. Everything that is read has a
//! limit.

use super::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bytes of an answer's body.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of one line of a head.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// Lines of a head.
const LINES_MAX: usize = 100;
/// How long an answer may take: the deadline of a call and then some.
const TIMEOUT: Duration = Duration::from_secs(40);

/// `http://<host>[:port][/path]`, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    /// As it goes into the Host header.
    authority: String,
    path: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong =
            |why: &str| Failure::usage(format!("{text:?} is no address of a server: {why}"));
        if text.starts_with("https://") {
            return Err(wrong(
                "this client speaks no TLS; lead a tunnel to the server and name its end here",
            ));
        }
        let rest = text.strip_prefix("http://").ok_or_else(|| wrong("http://HOST:PORT was due"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let visible = |part: &str| part.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !visible(authority) || !visible(path)
        {
            return Err(wrong("http://HOST:PORT was due"));
        }
        Ok(Self { authority: authority.to_owned(), path: path.trim_end_matches('/').to_owned() })
    }

    /// Where to connect: an address without a port means port 80.
    fn target(&self) -> String {
        let after_address = self.authority.rsplit(']').next().unwrap_or("");
        if after_address.contains(':') {
            self.authority.clone()
        } else {
            format!("{}:80", self.authority)
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// Status code.
    pub(super) status: u16,
    /// Its bytes.
    pub(super) body: Vec<u8>,
}

/// Sends a POST of JSON to `path` below `url`.
pub(super) fn post(
    url: &Url,
    path: &str,
    token: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Answer, Failure> {
    let unreachable = |error: std::io::Error| {
        Failure::usage(format!(
            "http://{}: {error}; is the server running? `worldlog health` tells",
            url.authority
        ))
    };
    let mut stream = TcpStream::connect(url.target()).map_err(unreachable)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(unreachable)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(unreachable)?;
    let mut head = format!(
        "POST {}{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAccept: application/json\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\nAuthorization: Bearer {token}\r\n",
        url.path,
        url.authority,
        body.len()
    );
    for &(name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    // A server may refuse by its head alone and close; its answer says why.
    let read = answer(&mut BufReader::new(stream));
    match (sent, read) {
        (_, Ok(answer)) => Ok(answer),
        (Err(error), Err(_)) => Err(unreachable(error)),
        (Ok(()), Err(reason)) => Err(Failure::usage(format!(
            "http://{}: {reason}; the call may have run: `worldlog log` shows what was committed",
            url.authority
        ))),
    }
}

/// Reads one answer.
fn answer(from: &mut impl BufRead) -> Result<Answer, String> {
    let first = line(from)?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    let status = status.and_then(|code| code.parse().ok()).ok_or("the answer is no HTTP")?;
    let (mut length, mut chunked) = (None, false);
    for count in 0.. {
        let header = line(from)?;
        if header.is_empty() {
            break;
        }
        if count == LINES_MAX {
            return Err("the answer has too many headers".to_owned());
        }
        let (name, value) = header.split_once(':').ok_or("a header of the answer has no colon")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse::<u64>().map_err(|_| "the answer's length is no number")?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.eq_ignore_ascii_case("chunked");
        }
    }
    let body = if chunked { chunks(from)? } else { whole(from, length)? };
    Ok(Answer { status, body })
}

fn line(from: &mut impl BufRead) -> Result<String, String> {
    let mut bytes = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(|error| error.to_string())?;
    let text = bytes.strip_suffix(b"\n").ok_or("the answer ends in its head")?;
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    String::from_utf8(text.to_vec()).map_err(|_| "the answer's head is no text".to_owned())
}

fn whole(from: &mut impl BufRead, length: Option<u64>) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let limit = length.unwrap_or(BODY_BYTES_MAX + 1);
    if limit > BODY_BYTES_MAX && length.is_some() {
        return Err(format!("the answer has {limit} bytes, more than {BODY_BYTES_MAX}"));
    }
    from.take(limit).read_to_end(&mut body).map_err(|error| error.to_string())?;
    match length {
        Some(length) if (body.len() as u64) < length => Err("the answer is cut".to_owned()),
        None if body.len() as u64 > BODY_BYTES_MAX => Err("the answer is too long".to_owned()),
        _ => Ok(body),
    }
}

fn chunks(from: &mut impl BufRead) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let size = line(from)?;
        let size = size.split(';').next().unwrap_or("").trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| "the size of a chunk is no number")?;
        if size == 0 {
            return Ok(body);
        }
        if size > BODY_BYTES_MAX || body.len() as u64 + size > BODY_BYTES_MAX {
            return Err("the answer is too long".to_owned());
        }
        body.extend(whole(from, Some(size))?);
        if !line(from)?.is_empty() {
            return Err("a chunk of the answer has another size".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Answer, String> {
        answer(&mut text.as_bytes())
    }

    #[test]
    fn bodies_by_length_by_chunks_and_to_the_end() {
        let body = |text: &str| read(text).map(|answer| answer.body);
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!!"), Ok(b"ok".to_vec()));
        assert_eq!(body("HTTP/1.1 200 OK\r\n\r\nto the end"), Ok(b"to the end".to_vec()));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(
            body(&format!("{chunked}3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n")),
            Ok(b"abcd".to_vec())
        );
        assert!(body(&format!("{chunked}3\r\nabcd\r\n0\r\n\r\n")).is_err());
        assert!(body(&format!("{chunked}ffffffffffffffff\r\n")).is_err());
        assert!(body("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok").is_err());
        assert!(body("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n").is_err());
        assert_eq!(read("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n").map(|a| a.status), Ok(401));
        assert!(read("SSH-2.0-x\r\n").is_err());
    }

    #[test]
    fn urls() {
        let target = |text: &str| Url::parse(text).ok().map(|url| (url.target(), url.path));
        let parts = |target: &str, path: &str| Some((target.to_owned(), path.to_owned()));
        assert_eq!(target("http://127.0.0.1:7644"), parts("127.0.0.1:7644", ""));
        assert_eq!(target("http://localhost/log/"), parts("localhost:80", "/log"));
        assert_eq!(target("http://[::1]:80"), parts("[::1]:80", ""));
        assert_eq!(target("http://[::1]"), parts("[::1]:80", ""));
        for wrong in
            ["https://a", "a:80", "http://", "http://u@h", "http://a b", "http://a\r\nX: y"]
        {
            assert_eq!(target(wrong), None, "{wrong}");
        }
    }
}
