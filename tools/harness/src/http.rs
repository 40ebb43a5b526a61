//! Calls over HTTP, beside what they cannot go beyond, in turns with it.
//!
//! | column | what one call does |
//! |---|---|
//! | echo | a POST to a bare hyper server that answers as many bytes |
//! | store | two durable group commits of the ledger, with no service and no HTTP around them |
//! | plain | what a write has to do in any case: two synced appends, and a file written aside, synced, renamed, folder synced |
//! | worldlog | `ailang-read` or `ailang-write` over MCP: authentication, plan, decision, two group commits, the effect, the answer |
//!
//! Server and clients share one process and its cores: each session is a thread with a connection and an episode of its own.

#![expect(clippy::disallowed_methods, reason = "a plain program, measured beside ours")]

use crate::bench::{self, Append, EVENT_BYTES, Round, drive};
use crate::load;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;
use worldlog::clock::SystemClock;
use worldlog::entropy::SystemEntropy;
use worldlog::event::Role;
use worldlog::server;
use worldlog::service::{Config, GrantSpec, NewSession, Service};

const SESSIONS: [usize; 4] = [1, 8, 64, 256];
const BUDGET: u64 = 1 << 31;
/// Bytes of an answer to a read of the file below.
const ANSWER_BYTES: usize = 1_500;
const CONTENT: &str = "module hello\n\nexport func main() -> () ! {IO} { () }\n";

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Read,
    Write,
}

/// Prints a table and returns its figures.
pub(crate) fn run(rounds: usize, time: Duration) -> Result<Vec<Value>, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!(
        "calls over HTTP, {rounds} rounds of {time:?}; each column in turns with the others\n"
    );
    println!(
        "tool   sessions    echo/s   limit/s  worldlog/s   of echo  of limit    p50 us    p99 us"
    );
    let mut table = Vec::new();
    for tool in [Tool::Read, Tool::Write] {
        for sessions in SESSIONS {
            let mut measured = Vec::new();
            for _ in 0..rounds {
                let echo = echo_round(&runtime, sessions, time)?;
                let folder = tempfile::tempdir_in(".")?;
                let limit = match tool {
                    Tool::Read => store_round(folder.path(), sessions, time)?,
                    Tool::Write => write_round(folder.path(), sessions, time)?,
                };
                let folder = tempfile::tempdir_in(".")?;
                measured.push((
                    echo,
                    limit,
                    call_round(&runtime, folder.path(), tool, sessions, time)?,
                ));
            }
            measured.sort_by(|a, b| share(a).total_cmp(&share(b)));
            let Some((echo, limit, ours)) = measured.get(measured.len() / 2) else { continue };
            let name = if tool == Tool::Read { "read" } else { "write" };
            let (of_echo, of_limit) =
                (ours.per_second / echo.per_second, ours.per_second / limit.per_second);
            let (p50, p99) = (ours.quantile(1, 2), ours.quantile(99, 100));
            println!(
                "{name:5} {sessions:9} {:9.0} {:9.0} {:11.0} {of_echo:9.2} {of_limit:9.2} {p50:9} {p99:9}",
                echo.per_second, limit.per_second, ours.per_second
            );
            table.push(json!({
                "tool": name, "sessions": sessions, "echo_per_s": echo.per_second, "limit_per_s": limit.per_second,
                "calls_per_s": ours.per_second, "of_echo": of_echo, "of_limit": of_limit, "p50_us": p50, "p99_us": p99,
            }));
        }
    }
    println!(
        "\nlimit: of reads two group commits of the ledger; of writes the syncs of a plain program\n"
    );
    Ok(table)
}

fn share((_, limit, ours): &(Round, Round, Round)) -> f64 {
    ours.per_second / limit.per_second
}

/// A connection that is kept.
struct Client {
    stream: TcpStream,
    head: String,
    buffer: Vec<u8>,
}

impl Client {
    fn open(address: SocketAddr, path: &str, token: &str) -> Result<Self, Box<dyn Error>> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json\r\n"
        );
        Ok(Self { stream, head, buffer: vec![0; 64 * 1024] })
    }

    /// Sends a body and reads the answer, which has a length.
    fn post(&mut self, body: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut filled = 0;
        loop {
            let rest = self.buffer.get_mut(filled..).unwrap_or_default();
            let count = self.stream.read(rest).map_err(failed)?;
            if count == 0 {
                return Err("the server closed the connection".to_owned());
            }
            filled += count;
            let text = String::from_utf8_lossy(self.buffer.get(..filled).unwrap_or_default());
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            let length: usize = length.ok_or("an answer without a length")?;
            if body.len() >= length {
                let fine = head.starts_with("HTTP/1.1 200") && !body.contains("\"error\":");
                return if fine { Ok(()) } else { Err(format!("{head}\n{body}")) };
            }
        }
    }
}

fn echo_round(
    runtime: &tokio::runtime::Runtime,
    sessions: usize,
    time: Duration,
) -> Result<Round, Box<dyn Error>> {
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let body = Bytes::from(vec![b'x'; ANSWER_BYTES]);
    let serving = runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let body = body.clone();
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let answer = service_fn(move |request: Request<Incoming>| {
                    let body = body.clone();
                    async move {
                        let _ = request.into_body().collect().await;
                        Ok::<_, Infallible>(Response::new(Full::new(body)))
                    }
                });
                // A client that is gone is no fault of the echo.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    let round = clients(sessions, time, |_| Client::open(address, "/", ""), |_, _| "x".repeat(200));
    serving.abort();
    round
}

/// Two group commits a call, as a read makes them.
fn store_round(folder: &Path, sessions: usize, time: Duration) -> Result<Round, Box<dyn Error>> {
    let ledger = load::ledger(folder)?;
    drive(sessions, time, |_| {
        let ledger = ledger.clone();
        move |number| {
            for half in [0, 1] {
                let committed =
                    ledger.commit_blocking(load::event(2 * number + half, 2 * EVENT_BYTES));
                committed.map_err(|error| error.to_string())?;
            }
            Ok(())
        }
    })
}

/// The syncs of a write: an append, a file replaced, an append.
fn write_round(folder: &Path, sessions: usize, time: Duration) -> Result<Round, Box<dyn Error>> {
    let mut file = File::create(folder.join("plain"))?;
    let (queue, waiting): (_, Receiver<Append>) = sync_channel(4_096);
    let appender = thread::spawn(move || bench::append(&mut file, &waiting));
    let root = Arc::new(folder.to_owned());
    let round = drive(sessions, time, |session| {
        let (queue, root) = (queue.clone(), Arc::clone(&root));
        let place = root.join(format!("e{session}"));
        move |_| {
            std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
            let append = || {
                let (answer, done): (Sender<()>, Receiver<()>) = channel();
                queue
                    .send((vec![7; 2 * EVENT_BYTES], answer))
                    .map_err(|error| error.to_string())?;
                done.recv().map_err(|error| error.to_string())
            };
            append()?;
            replace(&place).map_err(|error| error.to_string())?;
            append()
        }
    });
    drop(queue);
    appender.join().map_err(|_| "the appender panicked")?.map_err(|error| error.to_string())?;
    round
}

fn replace(place: &Path) -> std::io::Result<()> {
    let (aside, name) = (place.join("aside"), place.join("a.txt"));
    let mut file = File::create(&aside)?;
    file.write_all(CONTENT.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&aside, &name)?;
    File::open(place)?.sync_all()
}

fn call_round(
    runtime: &tokio::runtime::Runtime,
    folder: &Path,
    tool: Tool,
    sessions: usize,
    time: Duration,
) -> Result<Round, Box<dyn Error>> {
    let ledger = load::ledger(folder)?;
    let workspace = folder.join("workspace");
    let service = Service::start(Config {
        ledger: ledger.clone(),
        workspace: workspace.clone(),
        locks: folder.join("locks"),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        program: format!("sha256:{}", "ab".repeat(32)),
        transitions: worldlog::transitions::all().to_vec(),
    })?;
    let mut tokens = Vec::new();
    for session in 0..sessions {
        let episode = format!("e{session}");
        let new = NewSession {
            role: Role::Agent,
            episode: Some(episode.clone()),
            grants: GrantSpec::coding(BUDGET),
            ttl_s: 3_600,
            label: None,
        };
        tokens.push(service.new_session(&new)?.1);
        std::fs::write(workspace.join(&episode).join("a.txt"), CONTENT)?;
    }
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving =
        runtime.spawn(server::serve(service, listener, server::Config::default(), async move {
            // Dropping the sender stops the server just as well.
            let _ = stopped.await;
        }));
    // As the server's own thread does, once a second.
    let (end, ended) = channel::<()>();
    let tending = ledger.clone();
    let tender = thread::spawn(move || {
        while ended
            .recv_timeout(Duration::from_secs(1))
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            // What cannot be sealed now is sealed later.
            let _ = tending.seal();
            let _ = tending.tend();
        }
    });
    let open = |session: usize| {
        let token = tokens.get(session).ok_or("a token for each session")?;
        Client::open(address, "/mcp", token)
    };
    let round = clients(sessions, time, open, move |_, number| match tool {
        Tool::Read => call("ailang-read", &json!({ "path": "a.txt" })),
        Tool::Write => call(
            "ailang-write",
            &json!({ "path": "a.txt", "content": format!("{CONTENT}{number}") }),
        ),
    });
    drop((stop, end));
    tender.join().map_err(|_| "the tender panicked")?;
    runtime.block_on(serving)??;
    round
}

fn call(tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

/// Each session sends one request after another.
fn clients(
    sessions: usize,
    time: Duration,
    open: impl Fn(usize) -> Result<Client, Box<dyn Error>>,
    body: impl Fn(usize, u64) -> String + Clone + Send + 'static,
) -> Result<Round, Box<dyn Error>> {
    let opened: Result<Vec<Client>, _> = (0..sessions).map(open).collect();
    let opened = std::cell::RefCell::new(opened?);
    drive(sessions, time, |session| {
        let client = opened.borrow_mut().pop();
        let body = body.clone();
        let mut client = client;
        move |number| match &mut client {
            Some(client) => client.post(&body(session, number)),
            None => Err("a session without a connection".to_owned()),
        }
    })
}
