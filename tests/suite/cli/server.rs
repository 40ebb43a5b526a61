//! A running server: calls, the operator's socket, signals, crashes.

use super::{Home, Served, mode, read, text};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;
use worldlog::canon::{Value, parse};

fn vkey(home: &Home) -> String {
    let value = parse(read(&home.data().join("serve.json")).as_bytes()).expect("JSON");
    value.get("vkey").and_then(Value::as_str).expect("a key").to_owned()
}

#[test]
fn from_the_first_start_to_a_verified_export() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let data = home.data();
    let token = read(&data.join("first-session.token"));
    let welcome = read(&home.path("serve.out"));
    assert!(welcome.contains("listening on http://127.0.0.1:"), "{welcome}");
    assert!(welcome.contains("mcpServers") && welcome.contains("first-session.token"), "{welcome}");
    assert!(!welcome.contains(token.trim()), "the token is no output for a pipe");
    for secret in ["admin.sock", "serve.json", "first-session.token", "keys/head.seed"] {
        assert_eq!(mode(&data.join(secret)), 0o600, "{secret}");
    }
    let key = vkey(&home);

    fs::write(data.join("workspace/first/a.txt"), "hello").expect("a file");
    let out = home.ok(&["call", "ailang-read", "--arg", "path=a.txt"]);
    assert!(out.contains("\"content\":\"hello\""), "{out}");
    let ran =
        home.run_with(&["call", "ailang-write", "--json", "-"], r#"{"path":"b","content":"x"}"#);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(read(&data.join("workspace/first/b")), "x");
    let ran = home.run(&["call", "ailang-read", "--arg", "path=../a"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("\"refused\"") && ran.err.contains("nothing was spent"), "{ran:?}");
    assert!(home.fails(&["call", "no-such-tool"], 1).contains("unknown tool"));

    assert_eq!(home.ok(&["log"]).lines().count(), 3);
    assert_eq!(home.ok(&["log", "--from", "2", "--json"]).lines().count(), 1);
    assert!(home.fails(&["verify", text(&data)], 1).contains("is held by process"));
    let err = home.fails(&["serve", "--listen", "127.0.0.1:0"], 2);
    assert!(err.contains("is held by process"), "{err}");

    let [export, proof, backup] = ["export", "proof", "backup"].map(|name| home.path(name));
    home.ok(&["export", text(&export)]);
    home.ok(&["prove", "9", "-o", text(&proof)]);
    home.ok(&["backup", text(&backup)]);
    assert!(home.fails(&["prove", "999"], 1).contains("leaf 999 is not there"));
    let out = home.ok(&["verify", text(&export), "--vkey", &key]);
    assert!(out.contains("3 committed calls"), "{out}");
    home.ok(&["verify", text(&proof), "--vkey", &key]);

    assert_eq!(served.stop(), Some(0));
    assert!(!data.join("serve.json").exists() && !data.join("admin.sock").exists());
    home.ok(&["verify", text(&data), "--vkey", &key, "--seen", text(&export.join("checkpoint"))]);
    home.ok(&["verify", text(&backup), "--vkey", &key]);
    assert!(home.ok(&["replay", "--check-snapshot"]).contains("the same digest from the snapshot"));
    let log = read(&home.path("serve.log"));
    assert!(!log.contains(token.trim()), "{log}");
}

#[test]
fn a_killed_server_leaves_nothing_in_the_way() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    home.ok(&["session", "new", "before"]);
    served.signal(rustix::process::Signal::KILL);
    drop(served);
    assert!(home.data().join("admin.sock").exists(), "it had no time to remove it");
    let sessions = home.ok(&["session", "list"]);
    assert_eq!(sessions.lines().count(), 2, "{sessions}");
    // Its socket and serve.json are replaced.
    fs::remove_file(home.data().join("serve.json")).expect("left behind");
    let served = Served::start(&home, &[]);
    assert!(home.ok(&["health"]).contains("0 unresolved"));
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn sessions_of_a_running_server() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let token = home.path("t");
    home.ok(&[
        "session",
        "new",
        "side",
        "--grant",
        "Workspace.Read=worktree:1",
        "--out",
        text(&token),
    ]);
    assert_eq!(mode(&token), 0o600);
    let err = home.fails(&["session", "new", "side", "--out", text(&token)], 1);
    assert!(err.contains("exists already"), "{err}");
    fs::write(home.data().join("workspace/side/a"), "1").expect("a file");
    let call = ["call", "ailang-read", "--arg", "path=a", "--session", text(&token)];
    home.ok(&call);
    assert!(home.fails(&call, 1).contains("denied:budget"));
    home.ok(&["session", "revoke", "side"]);
    let err = home.fails(&call, 1);
    assert!(err.contains("revoked"), "{err}");
    assert!(home.fails(&["session", "revoke", "side"], 1).contains("no session"));
    home.ok(&["auditor", "new"]);
    assert_eq!(mode(&home.data().join("auditor.token")), 0o600);
    assert!(home.ok(&["clock", "accept"]).contains("not in doubt"));
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn a_session_lives_on_and_gets_another_token() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let token = home.path("t");
    let grant = "Workspace.Read=worktree:1";
    let begun = home.ok(&["session", "new", "side", "--grant", grant, "--out", text(&token)]);
    let id = begun.lines().next().and_then(|line| line.strip_prefix("session ")).expect("a name");
    fs::write(home.data().join("workspace/side/a"), "1").expect("a file");
    let call =
        |token: &str| home.run(&["call", "ailang-read", "--arg", "path=a", "--session", token]);
    assert_eq!(call(text(&token)).code, 0);
    assert!(call(text(&token)).err.contains("denied:budget"));
    // More to spend: what was spent stays spent.
    home.ok(&[
        "session",
        "extend",
        &id[..8],
        "--grant",
        "Workspace.Read=worktree:2",
        "--ttl",
        "60",
    ]);
    assert_eq!(call(text(&token)).code, 0);
    assert!(call(text(&token)).err.contains("denied:budget"));
    assert!(home.fails(&["session", "extend", id], 1).contains("--ttl or --grant"));
    assert!(
        home.fails(&["session", "extend", "00000000", "--ttl", "9"], 1).contains("not the name")
    );
    let next = home.path("next");
    home.ok(&["session", "rotate", id, "--out", text(&next)]);
    assert!(call(text(&token)).err.contains("unknown session credential"));
    assert!(call(text(&next)).err.contains("denied:budget"));
    let key = vkey(&home);
    assert_eq!(served.stop(), Some(0));
    home.ok(&["verify", text(&home.data()), "--vkey", &key]);
}

#[test]
fn a_person_approves_stops_and_takes_back() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let token = home.path("t");
    home.ok(&[
        "session",
        "new",
        "side",
        "--grant",
        "Workspace.Write=worktree:9;confirm",
        "--out",
        text(&token),
    ]);
    let file = home.data().join("workspace/side/a.txt");
    let write = ["call", "ailang-write", "--arg", "path=a.txt", "--arg", "content=x"];
    let session = ["--session", text(&token)];
    let call = |more: &[&str]| home.run(&[&write[..], &session, more].concat());
    assert!(home.ok(&["approvals"]).contains("no call waits"));
    let denied = call(&[]);
    assert_eq!(denied.code, 1);
    let line = home.ok(&["approvals"]);
    let approval = line.split("  ").next().expect("a token");
    assert!(denied.err.contains(&format!("worldlog approve {approval}")), "{denied:?}");
    assert!(line.contains(r#"{"content":"x","path":"a.txt"}"#), "{line}");
    let preview = call(&["--preview"]);
    assert!(
        preview.out.contains(approval) && preview.err.contains("denied:approval"),
        "{preview:?}"
    );
    assert!(home.ok(&["decline", approval]).contains("will not run"));
    assert!(call(&["--token", approval]).err.contains("denied:approval"));
    assert!(home.ok(&["approve", approval, "--ttl", "60"]).contains("runs once"));
    assert!(!file.exists());
    assert_eq!(call(&["--token", approval]).code, 0);
    assert_eq!(read(&file), "x");

    home.ok(&["freeze", "side"]);
    let frozen = home.run(&[
        "call",
        "ailang-write",
        "--arg",
        "path=b",
        "--arg",
        "content=x",
        "--session",
        text(&token),
    ]);
    assert!(frozen.err.contains("host callback failed"), "{frozen:?}");
    home.ok(&["thaw", "side"]);
    assert!(home.fails(&["thaw", "side", "--now"], 1).contains("--now"));
    home.ok(&["freeze", "--all", "--now"]);
    home.ok(&["thaw", "--all"]);

    let entry = home.ok(&["log"]).lines().count() - 1;
    let undone = home.ok(&["undo", &entry.to_string()]);
    assert!(undone.contains("a.txt") && !file.exists(), "{undone}");
    assert!(home.fails(&["undo", "99"], 1).contains("no entry 99"));
    let story = home.ok(&["why", &entry.to_string()]);
    assert!(story.contains("asked    ailang-write") && story.contains("changed  a.txt"), "{story}");
    let story = home.ok(&["why", &(entry + 1).to_string()]);
    assert!(story.contains("by the operator"), "{story}");
    assert!(home.fails(&["why", "x"], 1).contains("leaf:N"));
    assert!(home.ok(&["unresolved"]).contains("nothing is unresolved"));
    let nothing = "0".repeat(32);
    assert!(home.fails(&["resolve", &nothing, "landed"], 1).contains("in doubt"));
    let key = vkey(&home);
    assert_eq!(served.stop(), Some(0));
    let report = home.ok(&["verify", text(&home.data()), "--vkey", &key]);
    assert!(report.contains("1 acts of the operator") && report.contains(": undo"), "{report}");
    // Without a server the store is opened.
    assert!(home.ok(&["approvals"]).contains("no call waits"));
}

#[test]
fn what_an_agent_chose_does_not_move_the_cursor_of_who_reads_it() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let args = r#"{"path":"a\u009b2J\nlogged.txt","content":"x"}"#;
    let ran = home.run_with(&["call", "ailang-write", "--json", "-"], args);
    assert_eq!(ran.code, 0, "{ran:?}");
    for verb in [["why", "0"], ["undo", "0"]] {
        let told = home.ok(&verb);
        assert!(told.contains("a\\u{9b}2J"), "{told}");
        assert!(told.chars().all(|c| !c.is_control() || c == '\n'), "{told:?}");
    }
    let story = home.ok(&["why", "0"]);
    assert!(story.contains("changed  a\\u{9b}2J\\u{a}logged.txt: - -> sha256:"), "{story}");
    assert!(!story.lines().any(|line| line.starts_with("logged.txt")), "{story}");
    assert!(story.contains("granted  Workspace.Write=worktree:"), "{story}");
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn the_socket_answers_whatever_is_sent() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let ask = |line: &[u8]| {
        let mut stream = UnixStream::connect(home.data().join("admin.sock")).expect("a socket");
        // Refused early, it may be closed before all is sent.
        let _ = stream.write_all(line);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    for bad in [&b"hello\n"[..], b"{}\n", b"{\"verb\":\"shell\"}\n", b"{\"verb\":\"head\"}", b""] {
        let answer = ask(bad);
        assert!(answer.contains("\"ok\":false") && answer.contains("\"error\""), "{answer:?}");
    }
    let relative = ask(b"{\"dir\":\"x\",\"public\":true,\"verb\":\"export\"}\n");
    assert!(relative.contains("not absolute"), "{relative}");
    assert!(ask(b"{\"verb\":\"health\"}\n").contains("\"ok\":true"));
    // A line that never ends does not hold others up.
    let long = vec![b'x'; 70_000];
    assert!(!ask(&long).contains("\"ok\":true"));
    assert!(home.ok(&["health"]).contains("worldlog "));
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn follow_prints_what_comes_and_ends_with_its_reader() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let mut command = home.command(&["log", "--follow"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    fs::write(home.data().join("workspace/first/a"), "1").expect("a file");
    home.ok(&["call", "ailang-read", "--arg", "path=a"]);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    assert!(line.starts_with("0  leaf ") && line.contains("ailang-read"), "{line}");
    drop(lines);
    // The next line finds nobody, and that is no error.
    home.ok(&["call", "ailang-read", "--arg", "path=a"]);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    assert_eq!(served.stop(), Some(0));
}

#[test]
fn a_seal_comes_within_seconds() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    home.ok(&["session", "new", "more"]);
    let size = || {
        let value = parse(home.ok(&["head", "--json"]).as_bytes()).expect("JSON");
        value.get("size").and_then(Value::as_u64).expect("a size")
    };
    // The seal is an event of its own; nothing is new after it, so the log stays as it is.
    let sealed = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        home.ok(&["seal"]).contains("nothing is new").then(size)
    });
    let sealed = sealed.expect("a seal");
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(size(), sealed, "seals follow seals");
    let guard = home.path("state/worldlog").read_dir().expect("guards").next().expect("one");
    let guard = read(&guard.expect("an entry").path());
    assert!(guard.contains(&format!("\n{sealed}\n")), "{guard}");
    assert_eq!(served.stop(), Some(0));
}
