//! The program itself, run as a user runs it: conversations of `fixtures/cli` (`cases`), a running server (`server`),
//! what a crash left in doubt (`doubts`), and what is found when a log was tampered with (`tamper`).

#![expect(
    clippy::disallowed_methods,
    reason = "the program is started as its users start it, and files are damaged without care"
)]

mod cases;
mod doubts;
mod logs;
mod server;
mod tamper;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A home directory of its own.
struct Home {
    dir: TempDir,
}

/// What a run of the program came to.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The default data directory.
    fn data(&self) -> PathBuf {
        self.path("share/worldlog")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worldlog"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("XDG_DATA_HOME", self.path("share"))
            .env("XDG_STATE_HOME", self.path("state"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    fn run_with(&self, args: &[&str], stdin: &str) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        // A program that reads nothing closes it.
        let _ = pipe.write_all(stdin.as_bytes());
        drop(pipe);
        let output = child.wait_with_output().expect("the program ends");
        Ran {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    /// Runs what has to succeed.
    fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}: {}", ran.out);
        ran.out
    }

    /// Runs what has to fail, and returns what it says on standard error.
    fn fails(&self, args: &[&str], code: i32) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        ran.err
    }
}

/// A server that is stopped when the test ends.
struct Served {
    child: Child,
}

impl Served {
    /// Starts the server and waits until it listens.
    fn start(home: &Home, more: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0"], more].concat();
        let log = std::fs::File::create(home.path("serve.log")).expect("a file");
        let out = std::fs::File::create(home.path("serve.out")).expect("a file");
        let child = home.command(&args).stdout(out).stderr(log).spawn().expect("it starts");
        let mut served = Self { child };
        // Made after the listener: whoever finds it can connect.
        while !home.data().join("serve.json").exists() {
            if let Some(status) = served.child.try_wait().expect("a child") {
                panic!("the server ended: {status}: {}", read(&home.path("serve.log")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("it is there");
    }

    /// Stops it as a supervisor does, and returns the exit code.
    fn stop(mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Ended already, unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().expect("a file").permissions().mode() & 0o777
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in from.read_dir().expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
