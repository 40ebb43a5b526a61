//! Calls over HTTP, beside what they cannot go beyond, in turns with it.
//!
//! | column | what one call does |
//! |---|---|
//! | echo | a POST to a bare hyper server that answers as many bytes |
//! | store | two durable group commits of the ledger of as many bytes, with no service and no HTTP around them |
//! | plain | the syncs that cannot be left out, by a plain program: two appends to one file, each with fdatasync, shared by whoever waits; for a write also a file written aside, synced, renamed, and its folder synced |
//! | worldlog | `ailang-read` or `ailang-write` over MCP: authentication, plan, decision, two group commits, the effect, the answer |
//!
//! Server and clients share one process and its cores. All clients together have one thread; each session has a connection
//! that is kept and an episode of its own, and sends one call after another. The columns of a row are measured one after
//! another, again and again; the row shown is the round whose share of `plain` is the median.

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
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Barrier;
use worldlog::clock::SystemClock;
use worldlog::entropy::SystemEntropy;
use worldlog::event::Role;
use worldlog::server;
use worldlog::service::{Config, GrantSpec, NewSession, Service};

const SESSIONS: [usize; 5] = [1, 8, 32, 64, 256];
const BUDGET: u64 = 1 << 31;
/// What the events of half a call take.
const COMMIT_BYTES: usize = 2 * EVENT_BYTES;
const CONTENT: &str = "module hello\n\nexport func main() -> () ! {IO} { () }\n";

type Failed = Box<dyn Error>;

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Read,
    Write,
}

/// One round of a row.
struct Turn {
    echo: Round,
    store: Round,
    plain: Round,
    ours: Round,
    answer_bytes: usize,
}

/// Prints a table and returns its figures.
pub(crate) fn run(rounds: usize, time: Duration) -> Result<Vec<Value>, Failed> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    println!(
        "calls over HTTP, {rounds} rounds of {time:?} a column; server and clients in one process\n"
    );
    println!(
        "tool   sessions    echo/s   store/s   plain/s  worldlog/s  of echo  of store  of plain    p50 us    p99 us"
    );
    let mut table = Vec::new();
    for tool in [Tool::Read, Tool::Write] {
        for sessions in SESSIONS {
            let turns = (0..rounds).map(|_| turn(&runtime, tool, sessions, time));
            let mut turns = turns.collect::<Result<Vec<Turn>, _>>()?;
            turns.sort_by(|a, b| of(&a.ours, &a.plain).total_cmp(&of(&b.ours, &b.plain)));
            if let Some(turn) = turns.get(turns.len() / 2) {
                table.push(row(tool, sessions, turn));
            }
        }
    }
    println!();
    Ok(table)
}

fn of(ours: &Round, limit: &Round) -> f64 {
    ours.per_second / limit.per_second
}

fn row(tool: Tool, sessions: usize, turn: &Turn) -> Value {
    let name = if tool == Tool::Read { "read" } else { "write" };
    let Turn { echo, store, plain, ours, answer_bytes } = turn;
    let (of_echo, of_store, of_plain) = (of(ours, echo), of(ours, store), of(ours, plain));
    let (p50, p99) = (ours.quantile(1, 2), ours.quantile(99, 100));
    println!(
        "{name:5} {sessions:9} {:9.0} {:9.0} {:9.0} {:11.0} {of_echo:8.2} {of_store:9.2} {of_plain:9.2} {p50:9} {p99:9}",
        echo.per_second, store.per_second, plain.per_second, ours.per_second
    );
    json!({
        "tool": name, "sessions": sessions, "echo_per_s": echo.per_second, "store_per_s": store.per_second,
        "plain_per_s": plain.per_second, "calls_per_s": ours.per_second, "of_echo": of_echo, "of_store": of_store,
        "of_plain": of_plain, "p50_us": p50, "p99_us": p99, "plain_p50_us": plain.quantile(1, 2),
        "answer_bytes": answer_bytes,
    })
}

fn turn(runtime: &Runtime, tool: Tool, sessions: usize, time: Duration) -> Result<Turn, Failed> {
    let folder = tempfile::tempdir_in(".")?;
    let (ours, answer_bytes) = call_round(runtime, folder.path(), tool, sessions, time)?;
    let echo = echo_round(runtime, answer_bytes, sessions, time)?;
    let folder = tempfile::tempdir_in(".")?;
    let store = store_round(folder.path(), sessions, time)?;
    let folder = tempfile::tempdir_in(".")?;
    let plain = plain_round(folder.path(), tool, sessions, time)?;
    Ok(Turn { echo, store, plain, ours, answer_bytes })
}

/// A connection that is kept.
struct Client {
    stream: TcpStream,
    head: String,
    buffer: Vec<u8>,
}

impl Client {
    async fn open(address: SocketAddr, path: &str, token: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json\r\n"
        );
        Ok(Self { stream, head, buffer: Vec::new() })
    }

    /// Sends a body and reads the answer, which has a length; tells it.
    async fn post(&mut self, body: &str) -> Result<usize, String> {
        let failed = |error: std::io::Error| error.to_string();
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.write_all(request.as_bytes()).await.map_err(failed)?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await.map_err(failed)? == 0 {
                return Err("the server closed the connection".to_owned());
            }
            let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let (head, body) = self.buffer.split_at(end + 4);
            let head = String::from_utf8_lossy(head);
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            let length: usize = length.ok_or("an answer without a length")?;
            if body.len() >= length {
                let failed = |part: &[u8]| body.windows(part.len()).any(|window| window == part);
                let refused = failed(b"\"error\":{") || failed(b"\"isError\":true");
                if head.starts_with("HTTP/1.1 200") && !refused {
                    return Ok(length);
                }
                return Err(format!("{head}{}", String::from_utf8_lossy(body)));
            }
        }
    }
}

/// Each session sends one request after another for `time`. What that came to, and the bytes of the last answer.
fn clients(
    address: SocketAddr,
    path: &str,
    tokens: &[String],
    time: Duration,
    body: impl Fn(u64) -> String + Clone + Send + 'static,
) -> Result<(Round, usize), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (stop, start) =
            (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(tokens.len() + 1)));
        let mut sessions = Vec::new();
        for token in tokens {
            let mut client = Client::open(address, path, token).await?;
            let (stop, start, body) = (Arc::clone(&stop), Arc::clone(&start), body.clone());
            sessions.push(tokio::spawn(async move {
                // The first call finds everything cold, and is no one's every day.
                let mut bytes = client.post(&body(0)).await;
                let mut latencies = Vec::new();
                start.wait().await;
                while !stop.load(Ordering::Relaxed) && bytes.is_ok() {
                    let began = Instant::now();
                    bytes = client.post(&body(latencies.len() as u64 + 1)).await;
                    latencies.push(began.elapsed());
                }
                bytes.map(|bytes| (latencies, bytes))
            }));
        }
        start.wait().await;
        let began = Instant::now();
        tokio::time::sleep(time).await;
        stop.store(true, Ordering::Relaxed);
        let (mut latencies, mut answer_bytes) = (Vec::new(), 0);
        for session in sessions {
            let (more, bytes) = session.await??;
            latencies.extend(more);
            answer_bytes = bytes;
        }
        Ok((Round::new(&latencies, began.elapsed()), answer_bytes))
    })
}

fn echo_round(
    runtime: &Runtime,
    bytes: usize,
    sessions: usize,
    time: Duration,
) -> Result<Round, Failed> {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let body = Bytes::from(vec![b'x'; bytes]);
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
    let request = call(Tool::Read, 0);
    let round =
        clients(address, "/", &vec![String::new(); sessions], time, move |_| request.clone());
    serving.abort();
    Ok(round?.0)
}

/// Two group commits a call, as any call makes them.
fn store_round(folder: &Path, sessions: usize, time: Duration) -> Result<Round, Failed> {
    let ledger = load::ledger(folder)?;
    drive(sessions, time, |_| {
        let ledger = ledger.clone();
        move |number| {
            for half in [0, 1] {
                let committed =
                    ledger.commit_blocking(load::event(2 * number + half, COMMIT_BYTES));
                committed.map_err(|error| error.to_string())?;
            }
            Ok(())
        }
    })
}

/// The syncs of a call: an append, for a write a file replaced, an append.
fn plain_round(
    folder: &Path,
    tool: Tool,
    sessions: usize,
    time: Duration,
) -> Result<Round, Failed> {
    let mut file = File::create(folder.join("plain"))?;
    let (queue, waiting): (_, Receiver<Append>) = sync_channel(4_096);
    let appender = thread::spawn(move || bench::append(&mut file, &waiting));
    for session in 0..sessions {
        std::fs::create_dir(folder.join(format!("e{session}")))?;
    }
    let round = drive(sessions, time, |session| {
        let (queue, place) = (queue.clone(), folder.join(format!("e{session}")));
        move |_| {
            let append = || {
                let (answer, done): (Sender<()>, Receiver<()>) = channel();
                let sent = queue.send((vec![7; COMMIT_BYTES], answer));
                sent.map_err(|error| error.to_string())?;
                done.recv().map_err(|error| error.to_string())
            };
            append()?;
            if tool == Tool::Write {
                replace(&place).map_err(|error| error.to_string())?;
            }
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
    runtime: &Runtime,
    folder: &Path,
    tool: Tool,
    sessions: usize,
    time: Duration,
) -> Result<(Round, usize), Failed> {
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
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
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
    let round = clients(address, "/mcp", &tokens, time, move |number| call(tool, number));
    drop((stop, end));
    tender.join().map_err(|_| "the tender panicked")?;
    runtime.block_on(serving)??;
    round
}

fn call(tool: Tool, number: u64) -> String {
    let (name, arguments) = match tool {
        Tool::Read => ("ailang-read", json!({ "path": "a.txt" })),
        Tool::Write => {
            ("ailang-write", json!({ "path": "a.txt", "content": format!("{CONTENT}{number}") }))
        }
    };
    let params = json!({ "name": name, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}
