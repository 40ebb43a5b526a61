//! What is measured and what is crashed, as subcommands of one program.
//!
//! ```text
//! harness bench [--quick] [--log-only|--http-only] [--json FILE]     side by side with a plain file; tools/bench runs it
//! harness write DIR [--reopen N]            commits for ever, one line per acknowledged commit; tools/powerloss runs it
//! harness check DIR ACKED                   opens DIR as after a crash: is everything on those lines there?
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for people and scripts")]

mod bench;
mod crash;
mod http;
mod load;
mod targets;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["bench", rest @ ..] => bench::run(rest),
        ["write", folder] => crash::write(folder.as_ref(), u64::MAX),
        ["write", folder, "--reopen", every] => match every.parse() {
            Ok(every) => crash::write(folder.as_ref(), every),
            Err(_) => Err("--reopen takes a number of commits".into()),
        },
        ["check", folder, acked] => crash::check(folder.as_ref(), acked.as_ref()),
        _ => Err("usage: harness bench|write|check, see the head of its main.rs".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("harness: {error}");
            ExitCode::FAILURE
        }
    }
}
