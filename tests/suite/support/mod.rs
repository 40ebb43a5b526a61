//! A whole server in this process, and a client that sends bytes as they are.
//!
//! ```text
//! let world = World::new();                          // store, log, episode "ep1" with a worktree, sessions
//! let url = world.serve().await;                     // a listener on a port of its own
//! let answer = exchange(url, b"GET /v1/head HTTP/1.1\r\n…").await;
//! ```
//!
//! Time stands still and randomness is a seed, so that a run differs from the next in its port only.

pub(crate) mod asking;
pub(crate) mod script;
pub(crate) mod slow;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use worldlog::clock::ManualClock;
use worldlog::entropy::SeededEntropy;
use worldlog::event::Role;
use worldlog::ledger::{self, Keys, Reserve, Seeds};
use worldlog::server;
use worldlog::service::{self, GrantSpec, NewSession, Service};
use worldlog::store::memory::{MemoryStore, Side};
use worldlog::transitions::Transition;

pub(crate) const ORIGIN: &str = "worldlog.test/surface";
pub(crate) const START: u64 = 1_790_000_000_000;
/// Seconds for which the ordinary sessions live.
const TTL_S: u64 = 86_400;

/// The keys of every such log.
pub(crate) fn keys() -> Keys {
    let seeds = Seeds::draw(&SeededEntropy::new(7)).expect("seeds");
    Keys::new(ORIGIN, &seeds).expect("keys")
}

/// Everything around one service.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) service: Service,
    folder: Arc<TempDir>,
    tools: Vec<&'static dyn Transition>,
    /// A process that dies lets go of its locks; one that only fell out of use here does not, so each gets its own.
    lives: u32,
}

impl World {
    /// A log with the episode `ep1`, whose worktree holds `hello.ail`. Not from within a runtime: opening blocks.
    pub(crate) fn new() -> Self {
        Self::with_tools(&[])
    }

    /// The same with tools of the test beside the real ones.
    pub(crate) fn with_tools(more: &[&'static dyn Transition]) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let tools = [worldlog::transitions::all(), more].concat();
        let clock = Arc::new(ManualClock::new(START));
        let world = Self::on(Arc::new(MemoryStore::new()), clock, folder, tools, 0);
        std::fs::create_dir_all(world.worktree()).expect("a worktree");
        world.file("hello.ail", "module hello\n\nexport func main() -> () ! {IO} { () }\n");
        world.file("emoji.txt", "\u{1f980} \u{2028} \u{e9}\n");
        world
    }

    /// The machine lost power and started again: what was durable, and the worktrees as they are.
    pub(crate) fn crash(&self) -> Self {
        let store = Arc::new(self.store.crash(Side::Drop));
        let (clock, folder) = (Arc::clone(&self.clock), Arc::clone(&self.folder));
        Self::on(store, clock, folder, self.tools.clone(), self.lives + 1)
    }

    fn on(
        store: Arc<MemoryStore>,
        clock: Arc<ManualClock>,
        folder: Arc<TempDir>,
        tools: Vec<&'static dyn Transition>,
        lives: u32,
    ) -> Self {
        let ledger = ledger::open(ledger::Config {
            store: store.clone(),
            keys: keys(),
            guard: None,
            guard_init: false,
            clock: clock.clone(),
            reserve: Reserve::default(),
            payloads: true,
        });
        let service = Service::start(service::Config {
            ledger: ledger.expect("a new log"),
            workspace: folder.path().join("episodes"),
            locks: folder.path().join(format!("locks{lives}")),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(11 + u64::from(lives))),
            program: format!("sha256:{}", "ab".repeat(32)),
            transitions: tools.clone(),
        });
        Self { store, clock, service: service.expect("a service"), folder, tools, lives }
    }

    /// The worktree of `ep1`.
    pub(crate) fn worktree(&self) -> PathBuf {
        self.folder.path().join("episodes").join("ep1")
    }

    /// The lock file of `ep1`.
    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.path().join(format!("locks{}/ep1.lock", self.lives))
    }

    #[expect(clippy::disallowed_methods, reason = "a file of a test need not survive a crash")]
    pub(crate) fn bytes(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.worktree().join(name), bytes).expect("a file");
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }

    /// The token of a new agent in `episode` with `budget` units for each effect.
    pub(crate) fn agent(&self, episode: &str, budget: u64) -> String {
        self.session(Role::Agent, Some(episode), GrantSpec::coding(budget), TTL_S)
    }

    /// The token of a new session.
    pub(crate) fn session(
        &self,
        role: Role,
        episode: Option<&str>,
        grants: Vec<GrantSpec>,
        ttl_s: u64,
    ) -> String {
        let episode = episode.map(str::to_owned);
        let new = NewSession { role, episode, grants, ttl_s, label: None };
        self.service.new_session(&new).expect("a session").1
    }

    /// Serves until the answer is dropped.
    pub(crate) async fn serve(&self) -> Running {
        let config = server::Config {
            hosts: vec!["log.example".to_owned(), "other.example:8443".to_owned()],
            head_timeout: Duration::from_millis(400),
            body_timeout: Duration::from_millis(400),
            ..server::Config::default()
        };
        self.serve_with(config).await
    }

    /// The same with other settings.
    pub(crate) async fn serve_with(&self, config: server::Config) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server::serve(self.service.clone(), listener, config, async {
            // Dropping the sender stops the server just as well.
            let _ = stopped.await;
        });
        Running { address, stop, task: tokio::spawn(serving) }
    }
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Running {
    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.expect("no panic").expect("a listener with an address");
    }
}

/// An answer of HTTP. The server never sends chunks.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(2_000).collect();
        write!(f, "{} {:?}\n{body}", self.status, self.headers)
    }
}

impl Answer {
    /// Parses one answer that ends with the connection; `None` when there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).expect("a head in ASCII");
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        if status == 100 {
            return Self::parse(&bytes[end + 4..]);
        }
        let header = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Some(Self { status, headers: lines.map(header).collect(), body: bytes[end + 4..].to_vec() })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        self.headers.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body in UTF-8")
    }
}

/// Sends bytes and reads to the end of the connection.
pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // A server that refuses early may close while this is still writing.
    let _ = stream.write_all(request).await;
    read_answer(&mut stream).await
}

/// Reads to the end of the connection, at most ten seconds.
pub(crate) async fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    let all = async {
        let mut part = vec![0; 65_536];
        // A reset after the answer is an end too.
        while let Ok(count) = stream.read(&mut part).await {
            if count == 0 {
                break;
            }
            bytes.extend_from_slice(&part[..count]);
        }
    };
    tokio::time::timeout(Duration::from_secs(10), all).await.expect("an end of the connection");
    Answer::parse(&bytes)
}

/// The bytes of a request with `Host`, `Connection: close` and the length of `body`.
pub(crate) fn request(address: SocketAddr, line: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    if !body.is_empty() {
        text.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
    }
    format!("{text}\r\n{body}").into_bytes()
}
