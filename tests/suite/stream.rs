//! The live stream of entries: nothing left out, nothing told twice, nobody held up.

use crate::support::{World, request};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use worldlog::canon::{self, Value};
use worldlog::event::Front;
use worldlog::limits::STREAMS_MAX;
use worldlog::service::Call;

/// A stream as its client sees it.
struct Client {
    socket: TcpStream,
    text: String,
}

impl Client {
    async fn open(address: SocketAddr, path: &str, headers: &[&str]) -> Self {
        let bytes = request(address, &format!("GET {path}"), headers, "");
        let mut socket = TcpStream::connect(address).await.expect("a connection");
        socket.write_all(&bytes).await.expect("sent");
        Self { socket, text: String::new() }
    }

    /// Reads on until the text has `part`; false at the end of the stream.
    async fn until(&mut self, part: &str) -> bool {
        let mut bytes = [0; 4_096];
        while !self.text.contains(part) {
            let read = tokio::time::timeout(Duration::from_secs(10), self.socket.read(&mut bytes));
            match read.await.expect("something") {
                Ok(0) | Err(_) => return false,
                Ok(count) => self.text.push_str(&String::from_utf8_lossy(&bytes[..count])),
            }
        }
        true
    }

    fn ids(&self) -> Vec<u64> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("id: "));
        lines.map(|id| id.parse().expect("a number")).collect()
    }
}

/// Commits `count` calls.
async fn grow(world: &World, token: &str, count: u64) {
    let caller = world.service.authenticate(Some(token)).expect("a caller");
    for _ in 0..count {
        let args = canon::parse(br#"{"path":"hello.ail"}"#).expect("JSON");
        let call = Call::new(Front::Mcp, "ailang-read", args);
        world.service.invoke(&caller, call, None).await.expect("an answer");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("it")
}

#[test]
fn it_goes_on_where_the_client_was() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 1_000), world.agent("ep2", 10));
    runtime().block_on(async {
        let running = world.serve().await;
        grow(&world, &token, 3).await;
        let mut new = Client::open(running.address, "/v1/stream", &[]).await;
        assert!(new.until("text/event-stream").await);
        let bearer = format!("Authorization: Bearer {token}");
        let mut old = Client::open(running.address, "/v1/stream?from=1", &[bearer.as_str()]).await;
        grow(&world, &token, 150).await;
        assert!(old.until("id: 152\n").await && new.until("id: 152\n").await);
        assert_eq!(old.ids(), (1..=152).collect::<Vec<_>>());
        assert_eq!(new.ids(), (3..=152).collect::<Vec<_>>());
        // Plain references for those who may see them.
        assert!(old.text.contains(r#""refs":{"#) && !new.text.contains(r#""refs":{"#));
        let data = new.text.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
        let entry = canon::parse(data.as_bytes()).expect("JSON");
        assert_eq!(entry.get("entry").and_then(Value::as_u64), Some(3));
        drop((old, new));
        let bearer = format!("Authorization: Bearer {other}");
        let headers = ["Last-Event-ID: 150", bearer.as_str()];
        let mut again = Client::open(running.address, "/v1/stream?from=0", &headers).await;
        assert!(again.until("id: 152\n").await);
        assert_eq!(again.ids(), [151, 152]);
        assert!(!again.text.contains(r#""refs":{"#), "another episode's");
        running.stop().await;
        assert!(!again.until("never").await, "it ends when the server stops");
    });
}

#[test]
fn it_ends_with_the_session_that_it_was_opened_for() {
    let world = World::new();
    let (token, other) = (world.agent("ep1", 1_000), world.agent("ep2", 1_000));
    runtime().block_on(async {
        let running = world.serve().await;
        let bearer = format!("Authorization: Bearer {token}");
        let mut own = Client::open(running.address, "/v1/stream?from=0", &[bearer.as_str()]).await;
        let mut public = Client::open(running.address, "/v1/stream?from=0", &[]).await;
        grow(&world, &token, 1).await;
        assert!(own.until("id: 0\n").await && own.text.contains(r#""refs":{"#));
        tokio::task::block_in_place(|| world.service.revoke("ep1")).expect("revoked");
        assert!(!own.until("never").await, "it ends");
        grow(&world, &other, 1).await;
        assert!(public.until("id: 1\n").await, "others go on");
        assert_eq!(own.ids(), [0]);
        running.stop().await;
    });
}

#[test]
fn a_slow_reader_holds_nobody_and_there_is_an_end_to_places() {
    let world = World::new();
    let token = world.agent("ep1", 10_000);
    runtime().block_on(async {
        let running = world.serve().await;
        grow(&world, &token, 1).await;
        let mut streams = Vec::new();
        for _ in 0..STREAMS_MAX {
            let mut stream = Client::open(running.address, "/v1/stream?from=0", &[]).await;
            assert!(stream.until("id: 0\n").await);
            streams.push(stream);
        }
        let mut more = Client::open(running.address, "/v1/stream", &[]).await;
        assert!(more.until("StreamLimit").await);
        assert!(more.text.starts_with("HTTP/1.1 503"), "{}", more.text);
        assert!(more.text.to_ascii_lowercase().contains("retry-after: 1"), "{}", more.text);
        // Nobody reads, and calls go on.
        grow(&world, &token, 200).await;
        for stream in &mut streams {
            assert!(stream.until("id: 200\n").await);
            assert_eq!(stream.ids(), (0..=200).collect::<Vec<_>>());
        }
        // A client that goes away leaves its place.
        drop(streams);
        grow(&world, &token, 1).await;
        let mut tries = 0;
        loop {
            let mut next = Client::open(running.address, "/v1/stream?from=0", &[]).await;
            if next.until("id: 0\n").await {
                break;
            }
            tries += 1;
            assert!(tries < 100, "no place is free");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        running.stop().await;
    });
}
