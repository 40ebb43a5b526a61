//! The tour of the README, executed line by line against a server of this build.

#![expect(clippy::disallowed_methods, reason = "the tour is for a shell")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Ends the server when the test does, however it does.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first `sh` block below a heading.
fn block(text: &str, heading: &str) -> String {
    let below = text.split_once(heading).expect("the heading").1;
    let start = below.split_once("```sh\n").expect("a block").1;
    start.split_once("```").expect("its end").0.to_owned()
}

fn home(command: &mut Command, folder: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_worldlog")).parent().expect("its folder");
    let path = std::env::var("PATH").expect("a PATH");
    command
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", program.display()))
        .env("HOME", folder)
        .env("XDG_DATA_HOME", folder.join("data"))
        .env("XDG_STATE_HOME", folder.join("state"))
        .env_remove("WORLDLOG_SESSION")
        .env_remove("WORLDLOG_URL");
}

#[test]
fn the_tour_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::os::unix::fs::symlink(root.join("tools"), folder.join("tools")).expect("a link");
    let mut serve = Command::new(env!("CARGO_BIN_EXE_worldlog"));
    home(&mut serve, folder);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Server(serve.spawn().expect("starts"));
    let listening = folder.join("data/worldlog/serve.json");
    for _ in 0..600 {
        if listening.exists() {
            break;
        }
        sleep(Duration::from_millis(50));
    }
    let text = fs::read(&listening).expect("it listens within half a minute");
    let found: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    fs::write(folder.join("audit.vkey"), found["vkey"].as_str().expect("a key")).expect("written");

    let readme = fs::read_to_string(root.join("README.md")).expect("the README");
    let tour = block(&readme, "## A tour");
    let commands = tour.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(commands, 9, "a tour of nine commands");
    let mut shell = Command::new("bash");
    home(&mut shell, folder);
    let ran = shell.args(["-euxo", "pipefail", "-c", &tour]).output().expect("a shell");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}\n{err}");
    assert!(out.contains("Hello, auditor."), "{out}");
    assert_eq!(out.matches("VERDICT: verified").count(), 2, "{out}");
    assert!(folder.join("event-10.tlog-proof").exists());
}
