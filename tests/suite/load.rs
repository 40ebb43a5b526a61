//! Many clients, and clients that are slow, silent or gone: nobody waits for them, and what they held comes back.
//!
//! Whether a place or a byte came back is seen by asking for all of them at once. Where a limit in time has to act, all others
//! are an hour, so that nothing else can have acted.

use crate::support::{Answer, Running, World, read_answer, request};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use worldlog::canon::{self, Value};
use worldlog::limits::{ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, CONNECTIONS_MAX};
use worldlog::server::Config;

const HOUR: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(300);
/// The largest body of MCP.
const LARGE: usize = 4 * 1024 * 1024;
/// Larger than what two sockets keep on their own.
const FILE_BYTES: usize = 8_000_000;

fn runtime() -> tokio::runtime::Runtime {
    // Both ends of each connection are here: more handles than a process has by default.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("as many handles as may be");
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("it")
}

/// No limit in time.
fn patient(connections: usize) -> Config {
    Config {
        connections,
        head_timeout: HOUR,
        body_timeout: HOUR,
        idle_timeout: HOUR,
        read_timeout: HOUR,
        ..Config::default()
    }
}

/// Waits for something that a broken server would never do.
async fn due<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), wait).await.expect(what)
}

/// A connection that is kept.
struct Client {
    address: SocketAddr,
    socket: TcpStream,
    bytes: Vec<u8>,
}

impl Client {
    async fn open(address: SocketAddr) -> Self {
        let socket = due("a connection", TcpStream::connect(address)).await.expect("a connection");
        Self { address, socket, bytes: Vec::new() }
    }

    async fn send(&mut self, bytes: &[u8]) {
        due("a reader", self.socket.write_all(bytes)).await.expect("sent");
    }

    /// One answer with its whole body; `None` when the connection ends before.
    async fn answer(&mut self) -> Option<Answer> {
        let mut part = vec![0; 65_536];
        loop {
            let head = self.bytes.windows(4).position(|four| four == b"\r\n\r\n");
            if let (Some(head), Some(mut answer)) = (head, Answer::parse(&self.bytes)) {
                let length = answer.header("content-length").expect("a length").parse();
                let length: usize = length.expect("a number");
                if answer.body.len() >= length {
                    answer.body.truncate(length);
                    self.bytes.drain(..head + 4 + length);
                    return Some(answer);
                }
            }
            match due("an answer", self.socket.read(&mut part)).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.bytes.extend_from_slice(&part[..count]),
            }
        }
    }

    /// A small request and its answer.
    async fn ask(&mut self) -> Option<u16> {
        // A connection that was closed may refuse the bytes, or the answer.
        let _ = self.socket.write_all(&get(self.address, "/v1/health", "")).await;
        self.answer().await.map(|answer| answer.status)
    }

    /// Waits for the end of the connection; bytes that came before it.
    async fn end(&mut self) -> usize {
        let (mut part, mut seen) = (vec![0; 1 << 20], 0);
        while let Ok(count) = due("an end", self.socket.read(&mut part)).await {
            if count == 0 {
                break;
            }
            seen += count;
        }
        seen
    }
}

fn kept(bytes: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8(bytes).expect("text");
    text.replacen("Connection: close\r\n", "", 1).into_bytes()
}

fn get(address: SocketAddr, path: &str, token: &str) -> Vec<u8> {
    let bearer = format!("Authorization: Bearer {token}");
    let headers = if token.is_empty() { vec![] } else { vec![bearer.as_str()] };
    let headers = [headers, vec!["Accept: application/octet-stream, */*"]].concat();
    kept(request(address, &format!("GET {path}"), &headers, ""))
}

fn post(address: SocketAddr, token: &str, body: &str) -> Vec<u8> {
    let bearer = format!("Authorization: Bearer {token}");
    let headers = [&bearer, "Content-Type: application/json", "Accept: application/json"];
    kept(request(address, "POST /mcp", &headers, body))
}

fn call(tool: &str, args: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{args}}}}}"#
    )
}

/// `count` connections at once, each with an answer: that many places are free.
async fn all_places(address: SocketAddr, count: usize) {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Client::open(address).await;
        assert_eq!(client.ask().await, Some(200));
        clients.push(client);
    }
}

/// The name of an object of some eight million bytes.
async fn large_object(world: &World, running: &Running, token: &str) -> String {
    world.bytes("large.txt", &vec![b'x'; FILE_BYTES]);
    let mut client = Client::open(running.address).await;
    client
        .send(&post(running.address, token, &call("ailang-read", r#"{"path":"large.txt"}"#)))
        .await;
    let answer = client.answer().await.expect("an answer");
    let parsed = canon::parse(&answer.body).expect("JSON");
    let receipt = parsed.get("result").and_then(|r| r.get("_meta")?.get("worldlog/receipt"));
    let name = receipt.and_then(|receipt| receipt.get("output")).and_then(Value::as_str);
    format!("/v1/objects/{}", name.expect("a name"))
}

#[test]
fn each_of_many_sessions_gets_its_own_answers() {
    let (world, runtime) = (World::new(), runtime());
    let tokens: Vec<String> = (0..256).map(|n| world.agent(&format!("many{n}"), 100)).collect();
    runtime.block_on(async {
        let running = world.serve_with(patient(CONNECTIONS_MAX)).await;
        let address = running.address;
        let mut sessions = tokio::task::JoinSet::new();
        for (n, token) in tokens.into_iter().enumerate() {
            sessions.spawn(async move {
                let mut client = Client::open(address).await;
                for turn in 0..3 {
                    let mark = format!("session {n} turn {turn}.");
                    let write = format!(r#"{{"path":"a","content":"{mark}"}}"#);
                    for (tool, args) in
                        [("ailang-write", &*write), ("ailang-read", r#"{"path":"a"}"#)]
                    {
                        client.send(&post(address, &token, &call(tool, args))).await;
                        let answer = client.answer().await.expect("an answer");
                        assert!(answer.text().contains(r#""ok":true"#), "{answer:?}");
                        assert_eq!(
                            answer.text().contains(&mark),
                            tool == "ailang-read",
                            "{answer:?}"
                        );
                    }
                }
            });
        }
        while let Some(done) = sessions.join_next().await {
            done.expect("a session");
        }
        running.stop().await;
    });
    assert_eq!(world.service.health().entries, 256 * 6);
}

#[test]
fn who_sends_nothing_gives_up_the_place_when_a_head_was_due() {
    let (world, runtime) = (World::new(), runtime());
    runtime.block_on(async {
        let config = Config { head_timeout: SHORT, ..patient(CONNECTIONS_MAX) };
        let running = world.serve_with(config).await;
        let mut silent = Vec::new();
        for _ in 0..1_200 {
            silent.push(Client::open(running.address).await);
        }
        let mut client = Client::open(running.address).await;
        assert_eq!(client.ask().await, Some(200));
        for client in &mut silent {
            assert_eq!(client.end().await, 0);
        }
        // Half a head is as good as none.
        let mut half = Client::open(running.address).await;
        assert_eq!(half.ask().await, Some(200));
        half.send(b"GET /v1/health HTTP/1.1\r\nHost: ").await;
        assert_eq!(half.end().await, 0);
    });
}

#[test]
fn an_idle_connection_stays_unless_its_place_is_needed() {
    let (world, runtime) = (World::new(), runtime());
    runtime.block_on(async {
        let running = world.serve_with(Config { head_timeout: SHORT, ..patient(8) }).await;
        let mut idle = Vec::new();
        for _ in 0..7 {
            let mut client = Client::open(running.address).await;
            assert_eq!(client.ask().await, Some(200));
            idle.push(client);
        }
        // Longer than a head may take, and than the alarm sleeps.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        for client in &mut idle {
            assert_eq!(client.ask().await, Some(200));
        }
        // One of these two has no place until somebody else has gone.
        let mut two = [Client::open(running.address).await, Client::open(running.address).await];
        for client in &mut two {
            assert_eq!(client.ask().await, Some(200));
        }
    });
}

#[test]
fn an_idle_connection_ends() {
    let (world, runtime) = (World::new(), runtime());
    runtime.block_on(async {
        let running = world.serve_with(Config { idle_timeout: SHORT, ..patient(8) }).await;
        let mut client = Client::open(running.address).await;
        assert_eq!(client.ask().await, Some(200));
        assert_eq!(client.end().await, 0);
        // A stream of entries is not idle, although nothing is in it.
        let mut stream = Client::open(running.address).await;
        stream.send(&get(running.address, "/v1/stream", "")).await;
        let more = tokio::time::timeout(SHORT * 5, async {
            let mut part = [0; 4_096];
            while stream.socket.read(&mut part).await.expect("no reset") > 0 {}
        });
        assert!(more.await.is_err(), "the stream ended");
    });
}

/// All of the room for bodies, taken by senders that hold back their last byte.
async fn fill(address: SocketAddr, token: &str) -> Vec<Client> {
    let bytes = post(address, token, &"x".repeat(LARGE));
    let (last, most) = bytes.split_last().expect("bytes");
    assert_eq!(*last, b'x');
    let mut slow = Vec::new();
    for _ in 0..BODIES_BYTES_MAX / LARGE {
        let mut client = Client::open(address).await;
        client.send(most).await;
        slow.push(client);
    }
    // The kernel may still hold what was sent. A little room is left over: each body has its first 64 KiB beside it.
    let over = post(address, token, &"x".repeat(LARGE));
    loop {
        let mut client = Client::open(address).await;
        client.send(&over).await;
        let answer = client.answer().await.expect("an answer");
        if answer.status == 503 {
            assert_eq!(answer.header("retry-after"), Some("1"));
            assert!(
                answer.text().contains(r#"{"error":{"class":"Crowded","message":"#),
                "{answer:?}"
            );
            return slow;
        }
        // It is no JSON.
        assert_eq!(answer.status, 400);
        let bytes = post(address, token, &"x".repeat(LARGE));
        let mut client = Client::open(address).await;
        client.send(&bytes[..bytes.len() - 1]).await;
        slow.push(client);
    }
}

#[test]
fn large_bodies_share_a_room_and_nobody_else_waits_for_them() {
    let (world, runtime) = (World::new(), runtime());
    let token = world.agent("ep1", 100);
    runtime.block_on(async {
        let running = world.serve_with(patient(CONNECTIONS_MAX)).await;
        let slow = fill(running.address, &token).await;
        // Requests of the usual size do not notice, also over A2A, where a body is read before anything else.
        let mut client = Client::open(running.address).await;
        client
            .send(&post(running.address, &token, &call("ailang-read", r#"{"path":"hello.ail"}"#)))
            .await;
        assert_eq!(client.answer().await.expect("an answer").status, 200);
        let large = "x".repeat(300_000);
        for (bearer, status) in [(&*token, 503), ("", 200)] {
            let bytes = post(running.address, bearer, &large);
            let bytes = String::from_utf8(bytes).expect("text").replacen("/mcp", "/a2a", 1);
            client.send(bytes.as_bytes()).await;
            assert_eq!(client.answer().await.expect("an answer").status, status, "{bearer}");
        }
        // Their clients go, and all of the room is there again: as many bodies fit at once, and are answered.
        drop(slow);
        let mut slow = fill(running.address, &token).await;
        for client in &mut slow {
            client.send(b"x").await;
        }
        for client in &mut slow {
            assert_eq!(client.answer().await.expect("an answer").status, 400);
        }
        // Answers that left hold nothing, although their connections are kept.
        drop(fill(running.address, &token).await);
    });
}

#[test]
fn who_does_not_read_loses_the_answer_and_the_place() {
    let (world, runtime) = (World::new(), runtime());
    let token = world.agent("ep1", 100);
    runtime.block_on(async {
        let running = world.serve_with(Config { read_timeout: SHORT, ..patient(1) }).await;
        world.bytes("large.txt", &vec![b'x'; FILE_BYTES]);
        let mut deaf = Client::open(running.address).await;
        let read = call("ailang-read", r#"{"path":"large.txt"}"#);
        deaf.send(&post(running.address, &token, &read)).await;
        // There is one place.
        let mut client = Client::open(running.address).await;
        assert_eq!(client.ask().await, Some(200));
        assert!(deaf.end().await < FILE_BYTES);
        // The call is in the log all the same.
        assert_eq!(world.service.health().entries, 1);
    });
}

#[test]
fn who_reads_slowly_is_cut_off_where_too_many_answers_wait() {
    let (world, runtime) = (World::new(), runtime());
    let token = world.agent("ep1", 100);
    runtime.block_on(async {
        let count = ANSWERS_BYTES_MAX / FILE_BYTES + 2;
        let running = world.serve_with(patient(count)).await;
        let object = large_object(&world, &running, &token).await;
        let mut deaf = Vec::new();
        for _ in 0..count {
            let mut client = Client::open(running.address).await;
            client.send(&get(running.address, &object, &token)).await;
            deaf.push(client);
        }
        // All places are taken by answers that nobody reads, and the only limit is their sum.
        let mut client = Client::open(running.address).await;
        assert_eq!(client.ask().await, Some(200));
        let mut whole = 0;
        for client in &mut deaf {
            whole += usize::from(client.answer().await.is_some());
        }
        assert!((1..count).contains(&whole), "{whole} of {count}");
        // What was taken is forgotten, also while its connection is kept: one reader who pauses is nobody's trouble.
        drop(deaf);
        for _ in 0..count {
            client.send(&get(running.address, &object, &token)).await;
            assert_eq!(client.answer().await.map(|answer| answer.status), Some(200));
        }
        let mut slow = Client::open(running.address).await;
        slow.send(&get(running.address, &object, &token)).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(slow.answer().await.map(|answer| answer.status), Some(200));
    });
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    const PLACES: usize = 16;
    let (world, runtime) = (World::new(), runtime());
    let token = world.agent("ep1", 10_000);
    runtime.block_on(async {
        let running = world.serve_with(patient(PLACES)).await;
        let address = running.address;
        let object = large_object(&world, &running, &token).await;
        let write = post(address, &token, &call("ailang-write", r#"{"path":"w","content":"x"}"#));
        let large = post(address, &token, &"x".repeat(LARGE));
        let phases: [(&str, &[u8]); 7] = [
            ("connected", b""),
            ("half a head", &write[..40]),
            ("a head", &large[..large.len() - LARGE]),
            ("half a body", &large[..large.len() - LARGE / 2]),
            ("a call", &write),
            ("an answer too large for the socket", &get(address, &object, &token)),
            ("a stream", &get(address, "/v1/stream", "")),
        ];
        for (phase, bytes) in phases {
            for half_closed in [false, true] {
                let mut clients = Vec::new();
                for _ in 0..PLACES {
                    let mut client = Client::open(address).await;
                    client.send(bytes).await;
                    clients.push(client);
                }
                if half_closed {
                    for client in &mut clients {
                        client.socket.shutdown().await.expect("half closed");
                    }
                    for client in &mut clients {
                        client.end().await;
                    }
                }
                drop(clients);
                due(phase, all_places(address, PLACES)).await;
            }
        }
        // Calls that had begun went on, one after another, and none is open.
        let mut client = Client::open(address).await;
        client.send(&write).await;
        client.answer().await.expect("an answer");
        assert_eq!(world.service.ledger().with_state(|state| state.calls.iter().count()), 0);
    });
}

#[test]
fn a_batch_begins_nothing_more_once_its_answers_are_large() {
    let (world, runtime) = (World::new(), runtime());
    let token = world.agent("ep1", 100);
    world.bytes("large.txt", &vec![b'x'; FILE_BYTES]);
    let answer = runtime.block_on(async {
        let running = world.serve().await;
        let body = vec![call("ailang-read", r#"{"path":"large.txt"}"#); 5].join(",");
        let bearer = format!("Authorization: Bearer {token}");
        let headers = [&bearer, "Content-Type: application/json"];
        let bytes = request(running.address, "POST /mcp", &headers, &format!("[{body}]"));
        let mut socket = TcpStream::connect(running.address).await.expect("a connection");
        socket.write_all(&bytes).await.expect("sent");
        read_answer(&mut socket).await.expect("an answer")
    });
    // Each answer shows the file twice, so that the third passes 32 MiB.
    let text = answer.text();
    assert_eq!(text.matches(r#""structuredContent":"#).count(), 3);
    assert_eq!(text.matches(r#""error":{"code":-32600,"#).count(), 2);
    assert_eq!(text.matches("it was not begun").count(), 2);
    assert_eq!(world.service.health().entries, 3);
}
