//! Calls that fail late, are copied, take too long, need a person, or whose client leaves.

use crate::calls::{check, spent};
use crate::support::slow::Slow;
use crate::support::{Answer, Running, World, exchange, request};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use worldlog::canon::{self, Value};
use worldlog::event::{ApprovalVerdict, Role};
use worldlog::limits::PLAN_MS_MAX;
use worldlog::service::GrantSpec;
use worldlog::store::memory::Fault;

const BOTH: &str = "application/json, text/event-stream";
const READ: &str = r#"{"path":"hello.ail"}"#;
const WRITE: &str = r#"{"path":"a.txt","content":"x"}"#;

struct Asked {
    world: World,
    token: String,
    runtime: tokio::runtime::Runtime,
    running: Running,
}

impl Asked {
    fn on(world: World, token: String) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
        let running = runtime.block_on(world.serve());
        Self { world, token, runtime, running }
    }

    fn slow(slow: &'static Slow) -> Self {
        let world = World::with_tools(&[slow]);
        let token = world.agent("ep1", 100);
        Self::on(world, token)
    }

    fn bytes(&self, accept: &str, tool: &str, args: &str, meta: &str) -> Vec<u8> {
        call(self.running.address, &self.token, accept, tool, args, meta)
    }

    fn call(&self, tool: &str, args: &str, meta: &str) -> Answer {
        let bytes = self.bytes("application/json", tool, args, meta);
        self.runtime.block_on(exchange(self.running.address, &bytes)).expect("an answer")
    }
}

fn call(
    address: SocketAddr,
    token: &str,
    accept: &str,
    tool: &str,
    args: &str,
    meta: &str,
) -> Vec<u8> {
    let headers = [
        format!("Authorization: Bearer {token}"),
        "Content-Type: application/json".to_owned(),
        format!("Accept: {accept}"),
    ];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{args},"_meta":{meta}}}}}"#
    );
    request(address, "POST /mcp", &headers, &body)
}

/// The member at a path of names of an answer in JSON.
fn at(answer: &Answer, names: &[&str]) -> Value {
    let parsed = canon::parse(&answer.body).expect("JSON");
    names.iter().try_fold(&parsed, |value, name| value.get(name)).cloned().unwrap_or(Value::Null)
}

/// Until a plan of the slow tool has begun.
async fn begun(slow: &'static Slow) {
    tokio::task::spawn_blocking(|| slow.wait()).await.expect("no panic");
}

#[test]
fn a_failure_after_the_stream_began_is_its_last_event() {
    static SLOW: Slow = Slow::new();
    let asked = Asked::slow(&SLOW);
    asked.world.store.fail_at(1, Fault::NotCommitted);
    let held = SLOW.hold();
    let bytes = asked.bytes(BOTH, "test-slow", READ, r#"{"progressToken":9007199254740993}"#);
    let address = asked.running.address;
    let calling = asked.runtime.spawn(async move { exchange(address, &bytes).await });
    SLOW.wait();
    // Past the patience, so that the stream has begun.
    std::thread::sleep(Duration::from_millis(600));
    drop(held);
    let answer = asked.runtime.block_on(calling).expect("no panic").expect("an answer");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let events: Vec<&str> =
        answer.text().lines().filter_map(|l| l.strip_prefix("data: ")).collect();
    let (last, news) = events.split_last().expect("events");
    assert!(last.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"#), "{last}");
    assert!(last.contains(r#""phase":"intent""#), "{last}");
    assert!(!news.is_empty());
    for event in news {
        // The token is the client's own text: no number has passed through a float.
        assert!(event.contains(r#""method":"notifications/progress""#), "{event}");
        assert!(event.contains(r#""progressToken":9007199254740993"#), "{event}");
    }
}

#[test]
fn a_copy_with_the_key_of_a_call_under_way_is_refused_and_answered_once_it_is_over() {
    static SLOW: Slow = Slow::new();
    let asked = Asked::slow(&SLOW);
    let meta = r#"{"worldlog/idempotency-key":"k:1"}"#;
    let held = SLOW.hold();
    let (address, bytes) =
        (asked.running.address, asked.bytes("application/json", "test-slow", READ, meta));
    let first = asked.runtime.spawn(async move { exchange(address, &bytes).await });
    SLOW.wait();
    let copy = asked.call("test-slow", READ, meta);
    assert!(copy.text().contains(r#""code":-32602"#), "{copy:?}");
    let message = at(&copy, &["error", "message"]);
    assert!(
        message.as_str().is_some_and(|m| m.ends_with("a call with this id is under way")),
        "{copy:?}"
    );
    assert_eq!(at(&copy, &["error", "data", "safe_to_repeat"]).as_bool(), Some(false));
    drop(held);
    let first = asked.runtime.block_on(first).expect("no panic").expect("an answer");
    let again = asked.call("test-slow", READ, meta);
    assert_eq!(again.body, first.body);
    assert!(again.text().contains(r#""ok":true"#), "{again:?}");
    assert_eq!(check(&asked.world).entries(), 1);
}

/// The seed: "'host callback timed out' when the deadline passed".
#[test]
fn a_plan_that_takes_too_long_is_a_host_that_timed_out() {
    static SLOW: Slow = Slow::new();
    let world = World::with_tools(&[&SLOW]);
    let token = world.agent("ep1", 10);
    let held = SLOW.hold();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = runtime.expect("a runtime").block_on(async {
        let running = world.serve().await;
        let address = running.address;
        let bytes = call(address, &token, BOTH, "test-slow", READ, "{}");
        let calling = tokio::spawn(async move { exchange(address, &bytes).await });
        begun(&SLOW).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_millis(PLAN_MS_MAX + 1)).await;
        tokio::time::resume();
        let answer = calling.await.expect("no panic").expect("an answer");
        drop(held);
        running.stop().await;
        answer
    });
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(at(&answer, &["id"]).as_u64(), Some(1));
    assert_eq!(at(&answer, &["error", "message"]).as_str(), Some("host callback timed out"));
    assert_eq!(at(&answer, &["error", "data", "phase"]).as_str(), Some("plan"));
    assert_eq!(at(&answer, &["error", "data", "safe_to_repeat"]).as_bool(), Some(true));
    assert_eq!(check(&world).entries(), 0);
}

#[test]
fn a_client_that_leaves_takes_its_waiting_call_along_and_none_that_has_begun() {
    static SLOW: Slow = Slow::new();
    let asked = Asked::slow(&SLOW);
    let held = SLOW.hold();
    let meta = r#"{"progressToken":"t"}"#;
    let first = asked.bytes(BOTH, "test-slow", READ, meta);
    let second = asked.bytes(BOTH, "ailang-write", WRITE, meta);
    let address = asked.running.address;
    asked.runtime.block_on(async {
        for (bytes, begins) in [(first, true), (second, false)] {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(&bytes).await.expect("sent");
            if begins {
                begun(&SLOW).await;
            }
            // The head of the stream of events.
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.expect("a head");
            assert_eq!(&status, b"HTTP/1.1 200");
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    drop(held);
    // The next call of the episode runs after both would have.
    let last = asked.call("ailang-read", READ, "{}");
    assert!(last.text().contains(r#""entry":1,"#), "{last:?}");
    assert!(!asked.world.worktree().join("a.txt").exists());
    assert_eq!((check(&asked.world).entries(), spent(&asked.world)), (2, (0, 0)));
}

#[test]
fn a_client_may_leave_at_any_moment_and_is_charged_for_what_ran() {
    let world = World::new();
    let token = world.agent("ep1", 100);
    let asked = Asked::on(world, token);
    let address = asked.running.address;
    for (index, ms) in [0, 1, 2, 3, 5, 8, 13, 21, 100].into_iter().enumerate() {
        let args = format!(r#"{{"path":"f{index}","content":"x"}}"#);
        let bytes = asked.bytes("application/json", "ailang-write", &args, "{}");
        asked.runtime.block_on(async {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(&bytes).await.expect("sent");
            tokio::time::sleep(Duration::from_millis(ms)).await;
        });
    }
    // The episode is free, and this one comes after all of them.
    let last = asked.call("ailang-write", WRITE, "{}");
    assert!(last.text().contains(r#""ok":true"#), "{last:?}");
    let Asked { world, runtime, running, .. } = asked;
    runtime.block_on(running.stop());
    let written = std::fs::read_dir(world.worktree()).expect("a worktree").count() as u64 - 2;
    assert!(written >= 1);
    assert_eq!((check(&world).entries(), spent(&world)), (written, (written, 0)));
}

#[test]
fn a_call_that_needs_a_person_is_denied_with_the_token_to_come_back_with() {
    let world = World::new();
    let grant = GrantSpec::parse("Workspace.Write=worktree:5;confirm").expect("a grant");
    let token = world.session(Role::Agent, Some("ep1"), vec![grant], 3_600);
    let asked = Asked::on(world, token);
    let first = asked.call("ailang-write", WRITE, "{}");
    assert_eq!(at(&first, &["result", "isError"]).as_bool(), Some(true));
    let receipt = at(&first, &["result", "_meta", "worldlog/receipt"]);
    assert_eq!(receipt.get("denial").and_then(Value::as_str), Some("denied:approval"));
    let meta = at(&first, &["result", "_meta", "worldlog/token"]);
    let token = meta.as_str().expect("a token");
    asked.world.service.approve(token, None, ApprovalVerdict::Approve, 600).expect("approved");
    let meta = format!(r#"{{"worldlog/token":"{token}"}}"#);
    let second = asked.call("ailang-write", WRITE, &meta);
    assert!(second.text().contains(r#""ok":true"#), "{second:?}");
    // The token is spent: the same again is the stored answer, and not another write.
    assert_eq!(asked.call("ailang-write", WRITE, &meta).body, second.body);
    assert_eq!((check(&asked.world).entries(), spent(&asked.world)), (2, (1, 0)));
}
