//! The fronts over TCP: `fixtures/surface` walked exchange by exchange, and what a script cannot say.
//!
//! A script sends bytes to a real listener in front of a real service; only the store is in memory and time stands still.

use crate::support::asking::Asking;
use crate::support::script::{self, Variables};
use crate::support::{self, Answer, START, World, exchange, request};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use worldlog::canon::{self, Value};
use worldlog::event::{B16, EpisodeName, Event, Redaction, RedactionReason, Role, hex};
use worldlog::ledger::{Draft, Submission};
use worldlog::merkle::hash::{leaf_hash, sha256};
use worldlog::merkle::reader::{Reader, TileSource};
use worldlog::merkle::tile::{BundleId, TileId};
use worldlog::note::bundle::Bundle;
use worldlog::note::checkpoint::Policy;
use worldlog::service::GrantSpec;
use worldlog::store::memory::Fault;
use worldlog::transitions::Transition;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("it")
}

fn scripts(folder: &str) -> Vec<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/surface").join(folder);
    let found = std::fs::read_dir(path).expect("the folder").map(|entry| entry.expect("it").path());
    let mut found: Vec<_> = found.collect();
    assert!(found.iter().all(|path| path.extension().is_some_and(|e| e == "http")), "{found:?}");
    found.sort();
    assert!(!found.is_empty(), "nothing in {folder}");
    found
}

/// The names that every script may use.
fn variables(world: &World, address: SocketAddr) -> Variables {
    let grants = || GrantSpec::coding(10);
    let sessions = [
        ("token", world.agent("ep1", 100)),
        ("poor", world.agent("ep2", 1)),
        ("other", world.agent("ep3", 10)),
        ("auditor", world.session(Role::Auditor, None, Vec::new(), 86_400)),
        ("expired", world.session(Role::Agent, Some("ep4"), grants(), 1)),
        ("revoked", world.session(Role::Agent, Some("ep5"), grants(), 86_400)),
        ("brief", world.session(Role::Agent, Some("ep6"), grants(), 60)),
        ("grantless", world.session(Role::Agent, Some("ep7"), Vec::new(), 86_400)),
        ("approver", world.session(Role::Approver, None, Vec::new(), 86_400)),
    ];
    world.service.revoke("ep5").expect("revoked");
    world.clock.advance(1_000);
    let named = sessions.into_iter().map(|(name, token)| (name.to_owned(), token));
    let place = [
        ("address".to_owned(), address.to_string()),
        ("port".to_owned(), address.port().to_string()),
    ];
    named.chain(place).collect()
}

/// Runs every script of a folder, each in a world of its own with these tools and sessions beside the usual ones, and tells
/// all that failed.
fn walk_with(folder: &str, tools: &[&'static dyn Transition], sessions: &[(&str, &[&str])]) {
    let runtime = runtime();
    let mut failures = Vec::new();
    for path in scripts(folder) {
        let text = std::fs::read_to_string(&path).expect("a script");
        let world = World::with_tools(tools);
        let running = runtime.block_on(world.serve());
        let more = sessions.iter().map(|(name, grants)| {
            let grants = grants.iter().map(|text| GrantSpec::parse(text).expect("a grant"));
            let token = world.session(Role::Agent, Some("ep1"), grants.collect(), 86_400);
            ((*name).to_owned(), token)
        });
        let more: Vec<_> = more.collect();
        let mut variables = variables(&world, running.address);
        variables.extend(more);
        let ran = script::run(&world, running.address, &text, &mut variables);
        if let Err(error) = runtime.block_on(ran) {
            failures.push(format!("{}: {error}", path.display()));
        }
        runtime.block_on(running.stop());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn walk(folder: &str) {
    walk_with(folder, &[], &[]);
}

#[test]
fn every_mcp_script_holds() {
    walk("mcp");
}

/// Denials of each kind, effects that fail, and hosts that do.
#[test]
fn every_mcp_script_of_what_goes_wrong_holds() {
    let narrow: &[&str] = &[
        "Workspace.Read=worktree:2",
        "Workspace.Search=worktree:5;ttl=1",
        "Workspace.Write=elsewhere:5",
    ];
    walk_with("mcp-wrong", &[&Asking], &[("narrow", narrow)]);
}

#[test]
fn every_a2a_script_holds() {
    walk("a2a");
}

#[test]
fn every_rest_script_holds() {
    walk("rest");
}

/// A world with an agent, and what it may be asked.
struct Asked {
    world: World,
    token: String,
    runtime: tokio::runtime::Runtime,
    running: support::Running,
}

impl Asked {
    fn new() -> Self {
        let (world, runtime) = (World::new(), runtime());
        let token = world.agent("ep1", 1_000);
        let running = runtime.block_on(world.serve());
        Self { world, token, runtime, running }
    }

    fn post(&self, accept: &str, body: &str) -> Answer {
        let headers = [
            format!("Authorization: Bearer {}", self.token),
            "Content-Type: application/json".to_owned(),
            format!("Accept: {accept}"),
        ];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let bytes = request(self.running.address, "POST /mcp", &headers, body);
        self.runtime.block_on(exchange(self.running.address, &bytes)).expect("an answer")
    }

    fn call(&self, tool: &str, args: &str) -> Answer {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{args}}}}}"#
        );
        self.post("application/json", &body)
    }

    fn get(&self, path: &str, accept: &str) -> Answer {
        let headers =
            [format!("Authorization: Bearer {}", self.token), format!("Accept: {accept}")];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let bytes = request(self.running.address, &format!("GET {path}"), &headers, "");
        self.runtime.block_on(exchange(self.running.address, &bytes)).expect("an answer")
    }
}

/// The member at a path of names.
fn at<'a>(value: &'a Value, names: &[&str]) -> &'a Value {
    names.iter().fold(value, |value, name| value.get(name).unwrap_or(&Value::Null))
}

#[test]
fn an_answer_is_the_object_that_its_commit_names() {
    let asked = Asked::new();
    for (tool, args) in [
        ("ailang-read", r#"{"path":"emoji.txt"}"#),
        ("ailang-read", r#"{"path":"absent.ail"}"#),
        ("ailang-read", r#"{"file":"hello.ail"}"#),
        ("ailang-write", r#"{"path":"new.txt","content":"1\n\u2028\ud83e\udd80"}"#),
    ] {
        let answer = asked.call(tool, args);
        let parsed = canon::parse(&answer.body).expect("JSON");
        let result = at(&parsed, &["result"]);
        let text = at(result, &["content"]).as_array().expect("blocks")[0].clone();
        let output = text.get("text").and_then(Value::as_str).expect("a text").as_bytes().to_vec();
        // The structured content stands in the answer as these very bytes.
        let spliced = [br#""structuredContent":"#.as_slice(), &output].concat();
        assert!(answer.body.windows(spliced.len()).any(|window| window == spliced), "{tool}");

        let receipt = at(result, &["_meta", "worldlog/receipt"]);
        let name = at(receipt, &["output"]).as_str().expect("a reference");
        assert_eq!(name, format!("sha256:{}", hex(&sha256(&output))));
        let stored = asked.get(&format!("/v1/objects/{name}"), "application/octet-stream");
        assert_eq!((stored.status, &stored.body), (200, &output));

        // The commit blinds that very name, and its leaf is in the log.
        let leaf = at(receipt, &["leaf"]).as_u64().expect("a leaf");
        let bytes = asked.get(&format!("/v1/events/{leaf}"), "application/cbor").body;
        assert_eq!(at(receipt, &["leaf_hash"]).as_str(), Some(hex(&leaf_hash(&bytes)).as_str()));
        let event = Event::decode(&bytes).expect("an event");
        let inv = at(receipt, &["invocation"]).as_str().and_then(B16::from_hex).expect("an id");
        assert_eq!(event.inv, Some(inv));
        let link = event.ep.expect("an episode");
        let key = asked.world.service.ledger().episode_key(&link.name).expect("its key");
        let blinded = key.invocation(&inv).bref(&sha256(&output));
        assert_eq!(event.body.brefs(), [blinded]);

        let proof = asked.get(&format!("/v1/receipts/{inv}?proof=true"), "*/*").body;
        let bundle = Bundle::parse(&proof).expect("a proof");
        bundle.verify(&policy(), &bytes).expect("it holds");
        assert_eq!(bundle.index(), leaf);
        assert!(bundle.verify(&policy(), &output).is_err(), "another leaf passes");
    }
}

fn policy() -> Policy {
    let keys = support::keys();
    let log = vec![keys.head.verifier_key().clone()];
    Policy::new(support::ORIGIN, log, Vec::new(), 0).expect("a policy")
}

/// Tiles as the server gives them.
struct Remote<'a>(&'a Asked);

impl TileSource for Remote<'_> {
    type Error = u16;

    fn read(&mut self, id: TileId) -> Result<Vec<u8>, u16> {
        let answer = self.0.get(&format!("/{id}"), "*/*");
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
        let caching = answer.header("cache-control").unwrap_or("");
        assert!(caching.contains("immutable"), "{caching}");
        if answer.status == 200 { Ok(answer.body) } else { Err(answer.status) }
    }
}

#[test]
fn checkpoint_tiles_and_bundles_hold_together() {
    let asked = Asked::new();
    let one = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ailang-read"}}"#;
    let answer = asked.post("application/json", &format!("[{}]", vec![one; 150].join(",")));
    assert_eq!(answer.status, 200);
    asked.world.service.ledger().tend().expect("a checkpoint");

    let checkpoint = asked.get("/checkpoint", "*/*");
    assert_eq!(checkpoint.header("cache-control"), Some("no-store"));
    let verified = policy().open(&checkpoint.body).expect("signed by the log");
    let head = verified.head();
    assert!(head.size > 300, "a full tile was due, the log has {}", head.size);
    let mut reader = Reader::open(head, Remote(&asked)).expect("the right edge");
    let mut seen = 0;
    for index in 0..=(head.size >> 8) {
        let width = (head.size - (index << 8)).min(256);
        let id = BundleId::new(index, u16::try_from(width).expect("a width")).expect("a bundle");
        let bytes = asked.get(&format!("/{id}"), "*/*").body;
        seen += reader.entries(id, &bytes).expect("the entries of this log").len() as u64;
    }
    assert_eq!(seen, head.size);
    let beyond = TileId::new(0, (head.size >> 8) + 1, 256).expect("an id");
    assert_eq!(asked.get(&format!("/{beyond}"), "*/*").status, 404);
}

/// The `error` of an answer that has the id of its request.
fn error_of(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let parsed = canon::parse(&answer.body).expect("JSON");
    assert_eq!(parsed.get("id").and_then(Value::as_u64), Some(1));
    assert!(answer.text().contains(r#""code":-32603"#), "{}", answer.text());
    parsed.get("error").expect("an error").clone()
}

#[test]
fn nothing_ran_when_the_intent_was_not_committed() {
    let asked = Asked::new();
    asked.world.store.fail_at(1, Fault::NotCommitted);
    let error = error_of(&asked.call("ailang-write", r#"{"path":"a","content":"x"}"#));
    assert_eq!(at(&error, &["message"]).as_str(), Some("host callback failed"));
    assert_eq!(at(&error, &["data", "phase"]).as_str(), Some("intent"));
    assert_eq!(at(&error, &["data", "safe_to_repeat"]).as_bool(), Some(true));
    assert_eq!(at(&error, &["data", "records"]).as_array(), Some([].as_slice()));
    assert!(!asked.world.worktree().join("a").exists());
    // And it is safe to repeat.
    let again = asked.call("ailang-write", r#"{"path":"a","content":"x"}"#);
    assert!(again.text().contains(r#""ok":true"#), "{}", again.text());
}

#[test]
fn an_effect_without_its_commit_says_so_and_names_its_record() {
    let asked = Asked::new();
    asked.world.store.fail_at(2, Fault::Lost);
    let error = error_of(&asked.call("ailang-write", r#"{"path":"a","content":"x"}"#));
    assert_eq!(at(&error, &["message"]).as_str(), Some("host callback failed"));
    assert_eq!(at(&error, &["data", "phase"]).as_str(), Some("commit"));
    assert_eq!(at(&error, &["data", "safe_to_repeat"]).as_bool(), Some(false));
    let records = at(&error, &["data", "records"]).as_array().expect("records");
    assert!(records.len() == 1 && records[0].as_str().is_some_and(|r| r.starts_with("sha256:")));
    let invocation = at(&error, &["data", "invocation"]).as_str().expect("an invocation");
    assert!(at(&error, &["data", "advice"]).as_str().expect("advice").contains(invocation));
    assert!(asked.world.worktree().join("a").exists());
    let health = asked.get("/v1/health", "*/*");
    assert_eq!(health.status, 503);
    assert!(health.text().contains(r#""status":"halted""#));
    let receipt = asked.get(&format!("/v1/receipts/{invocation}"), "*/*");
    assert!(receipt.text().contains(r#""state":"indeterminate""#), "{}", receipt.text());
}

/// The seed: "id is null when the request was a batch". What committed before it is told, and nothing begins after it.
#[test]
fn a_failure_of_the_host_answers_the_whole_batch() {
    let asked = Asked::new();
    let write = |id: u32, name: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"ailang-write","arguments":{{"path":"{name}","content":"{name}"}}}}}}"#
        )
    };
    // The second write's intent is the third sync.
    asked.world.store.fail_at(3, Fault::NotCommitted);
    let body = format!("[{},{},{}]", write(1, "one"), write(2, "two"), write(3, "three"));
    let answer = asked.post("application/json", &body);
    assert_eq!(answer.status, 200);
    let envelope = canon::parse(&answer.body).expect("JSON");
    assert_eq!(at(&envelope, &["id"]), &Value::Null);
    assert_eq!(at(&envelope, &["error", "message"]).as_str(), Some("host callback failed"));
    let data = at(&envelope, &["error", "data"]);
    let number = |name: &str| at(data, &[name]).as_u64();
    assert_eq!((number("item"), number("not_begun")), (Some(1), Some(1)));
    assert_eq!(at(data, &["committed"]).as_array().map(<[Value]>::len), Some(1));
    let there = ["one", "two", "three"].map(|name| asked.world.worktree().join(name).exists());
    assert_eq!(there, [true, false, false]);
}

#[test]
fn stopping_lets_answers_leave_and_takes_no_more() {
    let asked = Asked::new();
    let address = asked.running.address;
    let (status, after) = asked.runtime.block_on(async {
        use tokio::io::AsyncWriteExt;
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let head = [
            format!("Authorization: Bearer {}", asked.token),
            "Content-Type: application/json".to_owned(),
        ];
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let bytes = request(address, "POST /mcp", &head, body);
        let text = String::from_utf8(bytes).expect("text");
        let bytes = text.replace("Connection: close\r\n", "").into_bytes();
        let (first, last) = bytes.split_at(bytes.len() - 1);
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        stream.write_all(first).await.expect("all but one byte");
        // The request is under way once the server waits for its last byte.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let stopping = tokio::spawn(asked.running.stop());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        stream.write_all(last).await.expect("the last byte");
        let answer = support::read_answer(&mut stream).await.expect("an answer");
        stopping.await.expect("stopped");
        let ending = answer.header("connection") == Some("close");
        ((answer.status, ending), tokio::net::TcpStream::connect(address).await.is_ok())
    });
    assert_eq!(status, (200, true));
    assert!(!after, "the listener still takes connections");
}

#[test]
fn an_idle_connection_and_a_slow_head_are_closed() {
    let asked = Asked::new();
    let answer = asked.runtime.block_on(async {
        use tokio::io::AsyncWriteExt;
        let mut stream =
            tokio::net::TcpStream::connect(asked.running.address).await.expect("a connection");
        stream.write_all(b"GET /v1/head HTTP/1.1\r\nHost: ").await.expect("half a head");
        support::read_answer(&mut stream).await
    });
    // hyper may say 408 before it closes; what counts is the end, which `read_answer` waits for.
    assert!(answer.is_none_or(|answer| answer.status == 408));
}

#[test]
fn the_world_of_a_script_starts_where_it_says() {
    let world = World::new();
    let events = world.service.events(0, 100).expect("events");
    let at = Event::decode(&events[0].bytes).expect("genesis").at;
    assert_eq!((events.len(), at), (1 + worldlog::transitions::all().len(), START));
}

#[test]
fn a_page_has_a_hundred_items_unless_asked_and_five_hundred_at_most() {
    let asked = Asked::new();
    let one = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ailang-read"}}"#;
    let answer = asked.post("application/json", &format!("[{}]", vec![one; 260].join(",")));
    assert_eq!(answer.status, 200);
    let page = |path: &str| {
        let parsed = canon::parse(&asked.get(path, "*/*").body).expect("JSON");
        let items = parsed.get("items").and_then(Value::as_array).expect("items").to_vec();
        let name = if path.starts_with("/v1/log") { "entry" } else { "seq" };
        let numbers = items.iter().filter_map(|item| item.get(name)?.as_u64());
        let numbers: Vec<u64> = numbers.collect();
        assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "{path}: a gap");
        (numbers.first().copied(), numbers.len())
    };
    assert_eq!(page("/v1/log"), (Some(0), 100));
    assert_eq!(page("/v1/log?from=200"), (Some(200), 60));
    assert_eq!(page("/v1/log?limit=500"), (Some(0), 260));
    assert_eq!(page("/v1/log?from=7&limit=2"), (Some(7), 2));
    assert_eq!(page("/v1/events?from=1"), (Some(1), 100));
    assert_eq!(page("/v1/events?limit=9999"), (Some(0), 500));
}

#[test]
fn what_was_redacted_is_gone_whatever_its_name() {
    let asked = Asked::new();
    let name = EpisodeName::parse("ep1").expect("a name");
    let body = Redaction { by: None, refs: None, reason: RedactionReason::Operator };
    let drafts = vec![Draft::plain(Some(&name), body)];
    let submission = Submission { drafts, ..Submission::default() };
    let leaf = asked.world.service.ledger().commit_blocking(submission).expect("redacted").first;
    let wanted = format!(
        r#"{{"error":{{"class":"Redacted","message":"the payloads of the episode were redacted at leaf {leaf}"}}}}"#
    );
    let zeros = format!("/v1/objects/sha256:{}", "0".repeat(64));
    for path in [zeros.as_str(), "/v1/episodes/ep1/files/a.txt", "/v1/receipts/mcp:k"] {
        let answer = asked.get(path, "*/*");
        assert_eq!((answer.status, answer.text()), (410, wanted.as_str()), "{path}");
    }
}

#[test]
fn a_client_that_leaves_stops_nothing_that_began_and_everything_that_did_not() {
    let asked = Asked::new();
    let write = |index: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{index},"method":"tools/call","params":{{"name":"ailang-write","arguments":{{"path":"f{index}","content":"x"}}}}}}"#
        )
    };
    let body = format!("[{}]", (0..900).map(write).collect::<Vec<_>>().join(","));
    let head = [
        format!("Authorization: Bearer {}", asked.token),
        "Content-Type: application/json".to_owned(),
    ];
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let bytes = request(asked.running.address, "POST /mcp", &head, &body);
    asked.runtime.block_on(async {
        use tokio::io::AsyncWriteExt;
        let mut stream =
            tokio::net::TcpStream::connect(asked.running.address).await.expect("a connection");
        stream.write_all(&bytes).await.expect("the batch");
        while asked.world.service.health().entries == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        drop(stream);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    });
    let entries = asked.world.service.health().entries;
    assert!((1..900).contains(&entries), "{entries} calls of 900");
    let files = std::fs::read_dir(asked.world.worktree()).expect("the worktree").count() as u64;
    // Two files were there before. Each effect has its commit: none ran without, none is open.
    assert_eq!(files - 2, entries);
    let open = asked.world.service.ledger().with_state(|state| state.calls.iter().count());
    assert_eq!(open, 0);
}

#[test]
fn a_refused_sender_can_finish_and_reads_why() {
    let asked = Asked::new();
    let body = "a".repeat(7_000_000);
    let head = ["Content-Type: application/json"];
    let bytes = request(asked.running.address, "POST /mcp", &head, &body);
    let (written, answer) = asked.runtime.block_on(async {
        use tokio::io::AsyncWriteExt;
        let mut stream =
            tokio::net::TcpStream::connect(asked.running.address).await.expect("a connection");
        let written = stream.write_all(&bytes).await;
        (written, support::read_answer(&mut stream).await)
    });
    assert_eq!(answer.expect("an answer").status, 401);
    // Many clients report a failed write instead of the answer that came.
    written.expect("the whole body is taken");
}
