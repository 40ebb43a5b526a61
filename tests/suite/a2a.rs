//! The A2A front where a script cannot reach: bytes that have to be equal, copies of one request at once, faults of the
//! store, and crashes between a request and the one that is sent again.

use crate::support::slow::Slow;
use crate::support::{Answer, Running, World, exchange, request};
use worldlog::canon::{self, Value};
use worldlog::event::{ApprovalVerdict, hex};
use worldlog::merkle::hash::sha256;
use worldlog::service::GrantSpec;
use worldlog::store::memory::Fault;
use worldlog::transitions::find;

/// A world with an agent, served.
struct Asked {
    world: World,
    token: String,
    runtime: tokio::runtime::Runtime,
    running: Running,
}

const READ: &str = r#"{"path":"hello.ail"}"#;
const WRITE: &str = r#"{"path":"a.txt","content":"x"}"#;
const NOT_COMMITTED: &str = "invocation was not committed; send a new task id";
const NOT_CONFIRMED: &str = "invocation outcome is not confirmed; resend the same task id";
const UNRECORDED: &str = "effects were requested but the invocation was not confirmed committed; effect records: sha256:";

impl Asked {
    fn new() -> Self {
        let world = World::new();
        let token = world.agent("ep1", 1_000);
        Self::on(world, token)
    }

    fn on(world: World, token: String) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let running = runtime.block_on(world.serve());
        Self { world, token, runtime, running }
    }

    /// After a power cut and a restart.
    fn crash(self) -> Self {
        self.runtime.block_on(self.running.stop());
        Self::on(self.world.crash(), self.token)
    }

    fn bytes(&self, token: &str, version: &str, body: &str) -> Vec<u8> {
        let headers = [format!("Authorization: Bearer {token}"), format!("A2A-Version: {version}")];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        request(self.running.address, "POST /a2a", &headers, body)
    }

    fn as_(&self, token: &str, version: &str, body: &str) -> Answer {
        let bytes = self.bytes(token, version, body);
        self.runtime.block_on(exchange(self.running.address, &bytes)).expect("an answer")
    }

    fn post(&self, version: &str, body: &str) -> Answer {
        self.as_(&self.token, version, body)
    }

    /// `tasks/send`.
    fn send(&self, id: &str, skill: &str, data: &str) -> Answer {
        self.post("", &send(id, skill, data))
    }

    /// `SendMessage`.
    fn message(&self, id: &str, skill: &str, data: &str) -> Answer {
        let params = format!(
            r#"{{"message":{{"messageId":"{id}","role":"ROLE_USER","parts":[{{"data":{data}}}],"metadata":{{"skill_id":"{skill}"}}}}}}"#
        );
        self.post("1.0", &rpc("SendMessage", &params))
    }

    /// `tasks/get`.
    fn task(&self, id: &str) -> Answer {
        self.post("", &rpc("tasks/get", &format!(r#"{{"id":"{id}"}}"#)))
    }

    fn get(&self, path: &str) -> Answer {
        let headers = [
            format!("Authorization: Bearer {}", self.token),
            "Accept: application/octet-stream, application/json".to_owned(),
        ];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let bytes = request(self.running.address, &format!("GET {path}"), &headers, "");
        self.runtime.block_on(exchange(self.running.address, &bytes)).expect("an answer")
    }

    fn entries(&self) -> u64 {
        self.world.service.health().entries
    }
}

fn rpc(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

fn send(id: &str, skill: &str, data: &str) -> String {
    let params = format!(
        r#"{{"id":"{id}","message":{{"parts":[{{"type":"data","data":{data}}}]}},"metadata":{{"skill_id":"{skill}"}}}}"#
    );
    rpc("tasks/send", &params)
}

/// The member at a path of names.
fn at(answer: &Answer, names: &[&str]) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    let parsed = canon::parse(&answer.body).expect("JSON");
    assert_eq!(parsed.get("id").and_then(Value::as_u64), Some(1), "{answer:?}");
    let found = names.iter().try_fold(&parsed, |value, name| match name.parse::<usize>() {
        Ok(index) => value.as_array()?.get(index),
        Err(_) => value.get(name),
    });
    found.cloned().unwrap_or(Value::Null)
}

fn text(answer: &Answer, names: &[&str]) -> String {
    at(answer, names).as_str().unwrap_or_default().to_owned()
}

fn message(answer: &Answer) -> String {
    text(answer, &["error", "message"])
}

#[test]
fn a_request_sent_again_gets_equal_bytes_also_after_a_crash() {
    let asked = Asked::new();
    let sends = [
        ("read", "ailang-read", READ),
        ("write", "ailang-write", WRITE),
        ("refused", "ailang-read", r#"{"file":"a"}"#),
        ("handler", "ailang-read", r#"{"path":"absent"}"#),
    ];
    let first: Vec<_> = sends.iter().map(|(id, skill, data)| asked.send(id, skill, data)).collect();
    let told = asked.message("m", "ailang-read", READ);
    asked.world.clock.advance(60_000);
    asked.world.file("hello.ail", "changed");
    let again = |asked: &Asked| {
        for ((id, skill, data), first) in sends.iter().zip(&first) {
            assert_eq!(asked.send(id, skill, data).body, first.body, "{id}");
            assert_eq!(asked.task(id).body, first.body, "{id}");
        }
        assert_eq!(asked.message("m", "ailang-read", READ).body, told.body);
        assert_eq!(asked.entries(), 5);
    };
    again(&asked);
    again(&asked.crash());
}

#[test]
fn the_data_is_the_object_that_the_commit_names_on_both_fronts() {
    let asked = Asked::new();
    let answer = asked.send("a", "ailang-read", r#"{"path":"emoji.txt"}"#);
    let metadata = |name| at(&answer, &["result", "metadata", name]);
    let output = metadata("worldlog/receipt").get("output").cloned().expect("a name");
    let stored = asked.get(&format!("/v1/objects/{}", output.as_str().expect("a text"))).body;
    let spliced = [br#"{"type":"data","data":"#.as_slice(), &stored, b"}"].concat();
    assert!(answer.body.windows(spliced.len()).any(|window| window == spliced), "{answer:?}");
    let leaf = metadata("worldlog/receipt").get("leaf_hash").cloned().expect("a hash");
    let world_ref = format!("sha256:{}", leaf.as_str().expect("a text"));
    assert_eq!(metadata("world_ref").as_str(), Some(world_ref.as_str()));

    // The same call through MCP says the same, but for the names of its own records.
    let headers = [
        format!("Authorization: Bearer {}", asked.token),
        "Content-Type: application/json".to_owned(),
    ];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let call = rpc("tools/call", r#"{"name":"ailang-read","arguments":{"path":"emoji.txt"}}"#);
    let bytes = request(asked.running.address, "POST /mcp", &headers, &call);
    let other = asked.runtime.block_on(exchange(asked.running.address, &bytes)).expect("it");
    let own = |value: Value| match value {
        Value::Object(mut members) => {
            let world = members.remove("world").expect("a world block");
            let plan = world.get("plan").cloned();
            (members, plan)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        own(at(&other, &["result", "structuredContent"])),
        own(canon::parse(&stored).expect("JSON"))
    );
}

#[test]
fn integers_stay_integers_in_both_directions() {
    let asked = Asked::new();
    let data = r#"{"path":9007199254740993,"more":[0,-1,1.50,1e3]}"#;
    let answers = [asked.send("a", "ailang-read", data), asked.message("m", "ailang-read", data)];
    let log = canon::parse(&asked.get("/v1/log").body).expect("JSON");
    let items = log.get("items").and_then(Value::as_array).expect("items").to_vec();
    for (index, (answer, item)) in answers.iter().zip(&items).enumerate() {
        assert!(answer.text().contains(&format!(r#""entry_index":{index},"#)), "{answer:?}");
        let input = item.get("refs").and_then(|refs| refs.get("input")?.as_str()).expect("a name");
        let stored = asked.get(&format!("/v1/objects/{input}")).body;
        assert_eq!(stored, br#"{"more":[0,-1,1.5,1000],"path":9007199254740993}"#);
    }
}

#[test]
fn twenty_copies_at_once_have_one_effect() {
    let asked = Asked::new();
    let old = send("one", "ailang-write", WRITE);
    let new = rpc(
        "SendMessage",
        &format!(
            r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"data":{WRITE}}}],"metadata":{{"skill_id":"ailang-write"}}}}}}"#
        ),
    );
    for (version, body, sentence) in [
        ("", &old, "task id already used in this session"),
        ("1.0", &new, "message id already used in this session"),
    ] {
        let before = asked.entries();
        let bytes = asked.bytes(&asked.token, version, body);
        let address = asked.running.address;
        let answers: Vec<Answer> = asked.runtime.block_on(async {
            let copies: Vec<_> = (0..20)
                .map(|_| {
                    let bytes = bytes.clone();
                    tokio::spawn(async move { exchange(address, &bytes).await })
                })
                .collect();
            let mut answers = Vec::new();
            for copy in copies {
                answers.push(copy.await.expect("no panic").expect("an answer"));
            }
            answers
        });
        let (errors, results): (Vec<_>, Vec<_>) =
            answers.iter().partition(|answer| answer.text().contains(r#""error""#));
        assert!(errors.iter().all(|answer| message(answer) == sentence), "{errors:?}");
        assert!(!results.is_empty() && results.iter().all(|a| a.body == results[0].body));
        assert_eq!(asked.entries(), before + 1);
        assert_eq!(asked.post(version, body).body, results[0].body);
    }
}

#[test]
fn a_lost_answer_is_fetched_by_sending_again() {
    let asked = Asked::new();
    let bytes = asked.bytes(&asked.token, "", &send("one", "ailang-write", WRITE));
    asked.runtime.block_on(async {
        use tokio::io::AsyncWriteExt;
        let address = asked.running.address;
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        stream.write_all(&bytes).await.expect("the request");
        while asked.entries() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    let mut answer = asked.send("one", "ailang-write", WRITE);
    while message(&answer) == "task id already used in this session" {
        answer = asked.send("one", "ailang-write", WRITE);
    }
    assert_eq!(at(&answer, &["result", "metadata", "entry_index"]).as_u64(), Some(0));
    assert_eq!(asked.entries(), 1);
}

#[test]
fn two_sessions_of_one_episode_do_not_see_each_other() {
    let asked = Asked::new();
    let other = asked.world.agent("ep1", 10);
    let first = asked.send("t", "ailang-read", READ);
    let message_of_first = asked.message("m", "ailang-read", READ);
    let id = text(&message_of_first, &["result", "task", "id"]);
    for (version, method, name) in [
        ("", "tasks/get", "t"),
        ("", "tasks/get", &id),
        ("1.0", "GetTask", &id),
        ("1.0", "CancelTask", &id),
    ] {
        let answer = asked.as_(&other, version, &rpc(method, &format!(r#"{{"id":"{name}"}}"#)));
        assert!(answer.text().contains(r#""code":-32001"#), "{answer:?}");
    }
    let listed = asked.as_(&other, "1.0", &rpc("ListTasks", "{}"));
    assert_eq!(at(&listed, &["result", "totalSize"]).as_u64(), Some(0));
    let own = asked.as_(&other, "", &send("t", "ailang-read", READ));
    assert_eq!(at(&own, &["result", "metadata", "entry_index"]).as_u64(), Some(2));
    assert_ne!(own.body, first.body);
}

#[test]
fn a_pin_is_the_hash_of_the_source() {
    let asked = Asked::new();
    let source = find("ailang-read").expect("a tool").source();
    let send = |pin: &str| {
        let params = format!(
            r#"{{"id":"a","message":{{"parts":[{{"type":"data","data":{READ}}}]}},"metadata":{{"skill_id":"ailang-read","transition_fn":"sha256:{pin}"}}}}"#
        );
        asked.post("", &rpc("tasks/send", &params))
    };
    let other = send(&hex(&sha256(b"other")));
    assert_eq!(message(&other), "proposal does not match the registered transition");
    let right = send(&hex(&sha256(source.as_bytes())));
    assert_eq!(at(&right, &["result", "metadata", "entry_index"]).as_u64(), Some(0));
}

#[test]
fn what_was_not_committed_can_be_sent_again() {
    let asked = Asked::new();
    asked.world.store.fail_at(1, Fault::NotCommitted);
    let answer = asked.send("a", "ailang-write", WRITE);
    assert_eq!(message(&answer), NOT_COMMITTED);
    assert!(answer.text().contains(r#""code":-32603"#));
    assert_eq!(text(&answer, &["error", "data", "phase"]), "intent");
    assert_eq!(at(&answer, &["error", "data", "safe_to_repeat"]).as_bool(), Some(true));
    assert!(!asked.world.worktree().join("a.txt").exists());
    asked.world.store.fail_at(1, Fault::NotCommitted);
    let answer = asked.message("a", "ailang-write", WRITE);
    assert_eq!(message(&answer), "invocation was not committed; send a new message id");
    let info = at(&answer, &["error", "data", "0"]);
    assert_eq!(info.get("domain").and_then(Value::as_str), Some("worldlog"));
    let told = info.get("metadata").cloned().expect("metadata");
    assert_eq!(told.get("safe_to_repeat").and_then(Value::as_str), Some("true"));
    assert!(asked.send("a", "ailang-write", WRITE).text().contains(r#""ok":true"#));
}

#[test]
fn an_unconfirmed_outcome_says_to_send_the_same_again() {
    for (fault, entry) in [(Fault::Lost, 0), (Fault::Persisted, 0)] {
        let asked = Asked::new();
        asked.world.store.fail_at(1, fault);
        let answer = asked.send("a", "ailang-read", r#"{"file":"x"}"#);
        assert_eq!(message(&answer), NOT_CONFIRMED);
        assert_eq!(at(&answer, &["error", "data", "safe_to_repeat"]).as_bool(), Some(false));
        let asked = asked.crash();
        let again = asked.send("a", "ailang-read", r#"{"file":"x"}"#);
        assert_eq!(at(&again, &["result", "metadata", "entry_index"]).as_u64(), Some(entry));
        assert_eq!(asked.entries(), 1, "{fault:?}");
    }
}

#[test]
fn an_effect_that_landed_without_its_commit_is_found_by_sending_the_same_again() {
    let asked = Asked::new();
    asked.world.store.fail_at(2, Fault::Lost);
    let answer = asked.send("a", "ailang-write", WRITE);
    assert!(message(&answer).starts_with(UNRECORDED), "{answer:?}");
    assert!(asked.world.worktree().join("a.txt").exists());
    // Until a start settles it, it is under way.
    let open = asked.task("a");
    assert_eq!(text(&open, &["result", "status", "state"]), "working");
    let listed = asked.post("1.0", &rpc("ListTasks", r#"{"status":"TASK_STATE_WORKING"}"#));
    assert_eq!(at(&listed, &["result", "totalSize"]).as_u64(), Some(1));
    let id = text(&listed, &["result", "tasks", "0", "id"]);
    let names = |method, id: &str| rpc(method, &format!(r#"{{"id":"{id}"}}"#));
    let working = asked.post("1.0", &names("GetTask", &id));
    assert_eq!(text(&working, &["result", "status", "state"]), "TASK_STATE_WORKING");
    let cancel = asked.post("1.0", &names("CancelTask", &id));
    assert!(cancel.text().contains(r#""code":-32002"#), "{cancel:?}");

    let asked = asked.crash();
    let again = asked.send("a", "ailang-write", WRITE);
    let receipt = at(&again, &["result", "metadata", "worldlog/receipt"]);
    assert_eq!(receipt.get("recovered").and_then(Value::as_bool), Some(true));
    assert_eq!(asked.entries(), 1);
    let done = asked.post("1.0", &names("GetTask", &id));
    assert_eq!(text(&done, &["result", "status", "state"]), "TASK_STATE_COMPLETED");
}

#[test]
fn an_effect_in_doubt_never_runs_again_and_names_its_records() {
    let asked = Asked::new();
    asked.world.store.fail_at(2, Fault::Lost);
    let answer = asked.send("a", "ailang-write", WRITE);
    assert!(message(&answer).starts_with(UNRECORDED), "{answer:?}");
    assert_eq!(at(&answer, &["error", "data", "safe_to_repeat"]).as_bool(), Some(false));
    // Somebody else was there before the start-up looked.
    asked.world.file("a.txt", "theirs");
    let asked = asked.crash();
    let again = asked.send("a", "ailang-write", WRITE);
    assert!(message(&again).starts_with(UNRECORDED), "{again:?}");
    assert_eq!(message(&again), message(&asked.send("a", "ailang-write", WRITE)));
    let task = asked.task("a");
    assert_eq!(text(&task, &["result", "status", "state"]), "failed");
    assert_eq!(text(&task, &["result", "metadata", "worldlog/verdict"]), "in-doubt");
    assert_eq!(text(&task, &["result", "metadata", "worldlog/problem"]), message(&again));
    let listed = asked.post("1.0", &rpc("ListTasks", r#"{"status":"TASK_STATE_FAILED"}"#));
    let status = at(&listed, &["result", "tasks", "0", "status"]);
    let told =
        status.get("message").and_then(|m| m.get("parts")?.as_array()?[0].get("text").cloned());
    assert_eq!(told.as_ref().and_then(Value::as_str), Some(message(&again).as_str()));
    assert_eq!(asked.entries(), 0);
    assert_eq!(
        std::fs::read_to_string(asked.world.worktree().join("a.txt")).ok().as_deref(),
        Some("theirs")
    );
}

#[test]
fn an_episode_that_is_stopped_is_not_available() {
    let asked = Asked::new();
    asked.world.service.freeze(Some("ep1"), true, false).expect("frozen");
    let answer = asked.send("a", "ailang-write", WRITE);
    assert_eq!(message(&answer), "transition invocation is not available in this daemon");
    assert_eq!(text(&answer, &["error", "data", "phase"]), "admission");
}

#[test]
fn a_call_that_needs_a_person_is_denied_with_the_token_to_come_back_with() {
    let world = World::new();
    let grant = GrantSpec::parse("Workspace.Write=worktree:5;confirm").expect("a grant");
    let token = world.session(worldlog::event::Role::Agent, Some("ep1"), vec![grant], 3_600);
    let asked = Asked::on(world, token);
    let first = asked.send("a", "ailang-write", WRITE);
    let receipt = at(&first, &["result", "metadata", "worldlog/receipt"]);
    assert_eq!(receipt.get("denial").and_then(Value::as_str), Some("denied:approval"));
    let token = text(&first, &["result", "metadata", "worldlog/token"]);
    assert_eq!(asked.send("a", "ailang-write", WRITE).body, first.body);
    asked.world.service.approve(&token, None, ApprovalVerdict::Approve, 600).expect("approved");
    let params = format!(
        r#"{{"id":"b","message":{{"parts":[{{"type":"data","data":{WRITE}}}]}},"metadata":{{"skill_id":"ailang-write","worldlog/token":"{token}"}}}}"#
    );
    let second = asked.post("", &rpc("tasks/send", &params));
    assert!(second.text().contains(r#""ok":true"#), "{second:?}");
    assert_eq!(asked.post("", &rpc("tasks/send", &params)).body, second.body);
    assert_eq!(asked.entries(), 2);
}

#[test]
fn a_page_of_tasks_ends_with_the_output_that_makes_it_large() {
    let asked = Asked::new();
    asked.world.file("large.txt", &"x".repeat(3 * 1024 * 1024));
    for id in ["a", "b", "c", "d"] {
        asked.send(id, "ailang-read", r#"{"path":"large.txt"}"#);
    }
    let page = |token: &str| {
        let params = format!(r#"{{"includeArtifacts":true,"pageToken":"{token}"}}"#);
        let answer = asked.post("1.0", &rpc("ListTasks", &params));
        let tasks = at(&answer, &["result", "tasks"]).as_array().expect("tasks").len();
        assert_eq!(at(&answer, &["result", "totalSize"]).as_u64(), Some(4));
        (tasks, text(&answer, &["result", "nextPageToken"]))
    };
    let (tasks, token) = page("");
    assert_eq!((tasks, token.is_empty()), (3, false));
    assert_eq!(page(&token), (1, String::new()));
}

#[test]
fn a_copy_of_a_call_under_way_is_refused_and_answered_once_it_is_over() {
    static SLOW: Slow = Slow::new();
    let world = World::with_tools(&[&SLOW]);
    let token = world.agent("ep1", 10);
    let asked = Asked::on(world, token);
    let held = SLOW.hold();
    let (address, bytes) =
        (asked.running.address, asked.bytes(&asked.token, "", &send("one", "test-slow", READ)));
    let first = asked.runtime.spawn(async move { exchange(address, &bytes).await });
    SLOW.wait();
    let copy = asked.send("one", "test-slow", READ);
    assert_eq!(message(&copy), "task id already used in this session");
    assert_eq!(at(&copy, &["error", "data", "safe_to_repeat"]).as_bool(), Some(false));
    // Its plan is not in the log yet, and until then it is no task.
    assert!(asked.task("one").text().contains(r#""code":-32001"#));
    drop(held);
    let first = asked.runtime.block_on(first).expect("no panic").expect("an answer");
    assert_eq!(asked.send("one", "test-slow", READ).body, first.body);
    assert_eq!(asked.entries(), 1);
}
