//! What a script cannot say of the MCP front: news of long calls, and a client of other people.

use crate::support::slow::Slow;
use crate::support::{World, read_answer, request};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use worldlog::canon::{self, Value};

mod rust_client;
mod trouble;

static FIRST: Slow = Slow::new();
static SECOND: Slow = Slow::new();

/// The events of a call of the slow tool, which is let go after more than a heartbeat; and the answer's media type.
fn events(slow: &'static Slow, accept: &str, meta: &str, held: bool) -> (String, Vec<Value>) {
    let world = World::with_tools(&[slow]);
    let token = world.agent("ep1", 10);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("it").block_on(async {
        let running = world.serve().await;
        let guard = held.then(|| slow.hold());
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":"c-1","method":"tools/call","params":{{"name":"test-slow","arguments":{{"path":"hello.ail"}},"_meta":{meta}}}}}"#
        );
        let headers = [
            format!("Authorization: Bearer {token}"),
            "Content-Type: application/json".to_owned(),
            format!("Accept: {accept}"),
        ];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let mut stream = TcpStream::connect(running.address).await.expect("a connection");
        stream
            .write_all(&request(running.address, "POST /mcp", &headers, &body))
            .await
            .expect("sent");
        if guard.is_some() {
            // Past the patience and a heartbeat.
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
        drop(guard);
        let answer = read_answer(&mut stream).await.expect("an answer");
        running.stop().await;
        let media = answer.header("content-type").expect("a type").to_owned();
        // A stream comes in chunks.
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let lines = text.lines().filter_map(|line| {
            let json = line.strip_prefix("data: ").unwrap_or(line);
            canon::parse(json.as_bytes()).ok().filter(|value| value.as_object().is_some())
        });
        (media, lines.collect())
    })
}

fn progress(event: &Value) -> Option<(u64, String)> {
    let params = event.get("params")?;
    let count = params.get("progress")?.as_u64()?;
    Some((count, params.get("message")?.as_str()?.to_owned()))
}

#[test]
fn a_long_call_tells_how_far_it_is_when_asked() {
    let (media, events) =
        events(&FIRST, "application/json, text/event-stream", r#"{"progressToken":"t-1"}"#, true);
    assert_eq!(media, "text/event-stream");
    let (last, news) = events.split_last().expect("events");
    assert_eq!(last.get("id").and_then(Value::as_str), Some("c-1"));
    assert!(last.get("result").is_some_and(|result| result.get("structuredContent").is_some()));
    let told: Vec<_> = news.iter().map(|event| progress(event).expect("news")).collect();
    assert!(told.windows(2).all(|two| two[0].0 < two[1].0), "{told:?}");
    assert_eq!(told.first().map(|(_, text)| text.as_str()), Some("waiting"), "{told:?}");
    for phase in ["planned", "recorded", "ran"] {
        assert!(told.iter().any(|(_, text)| text == phase), "{told:?}");
    }
    let tokens = |event: &Value| {
        event.get("params").and_then(|p| p.get("progressToken")).and_then(Value::as_str)
            == Some("t-1")
    };
    assert!(news.iter().all(tokens), "{news:?}");
}

#[test]
fn a_quick_call_and_one_that_did_not_ask_have_one_answer() {
    let both = "application/json, text/event-stream";
    let (media, told) = events(&SECOND, both, r#"{"progressToken":7}"#, false);
    assert_eq!((media.as_str(), told.len()), ("text/event-stream", 1));
    let (_, told) = events(&SECOND, both, "{}", true);
    assert_eq!(told.len(), 1);
    let (media, told) = events(&SECOND, "application/json", r#"{"progressToken":7}"#, true);
    assert_eq!((media.as_str(), told.len()), ("application/json", 1));
}
