//! The command line: one file a verb, and the admin socket through which verbs reach a running server.
//!
//! ```text
//! clap ─► verb ─► ask ─► admin socket of the server ─► request::perform ─┐
//!                  └───► the store, opened here ─────► request::perform ─┴─► JSON ─► words on standard output
//! ```
//!
//! Standard output has results, standard error has what went wrong and what to do next. A reader that goes away ends the
//! output and not the work. Exit codes are those of `spec/cli.md`. A token reaches standard output only when that is a
//! terminal.

mod acts;
mod admin;
mod approve;
mod ask;
mod auditor;
mod backup;
mod call;
mod clock;
mod export;
mod freeze;
mod fsck;
mod head;
mod health;
mod http;
mod import;
mod init;
mod log;
mod node;
mod out;
mod place;
mod prove;
mod replay;
mod report;
mod request;
mod resolve;
mod seal;
mod serve;
mod session;
mod tend;
mod token;
mod undo;
mod unresolved;
mod verify;
mod why;

use clap::{Parser, Subcommand};
use out::Out;
use std::process::ExitCode;

/// A server on which AI agents run tools, and whose every step can be proven afterwards.
#[derive(Debug, Parser)]
#[command(name = "worldlog", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the server.
    Serve(serve::Args),
    /// Make the data directory, keys and a first session without serving.
    Init(init::Args),
    /// Begin, list and end sessions.
    #[command(subcommand)]
    Session(session::Verb),
    /// Let somebody read everything.
    #[command(subcommand)]
    Auditor(auditor::Verb),
    /// Call a tool of the server.
    Call(call::Args),
    /// List calls that wait for a person's approval.
    Approvals(approve::List),
    /// Let one call run that waits for approval.
    Approve(approve::Args),
    /// Say no to a call that waits for approval.
    Decline(approve::Args),
    /// Stop new effects in an episode, or everywhere.
    Freeze(freeze::Args),
    /// Let effects begin again.
    Thaw(freeze::Args),
    /// Take back what a call did to files.
    Undo(undo::Args),
    /// List effects that are in doubt.
    Unresolved(unresolved::Args),
    /// Settle an effect that is in doubt.
    Resolve(resolve::Args),
    /// List committed calls.
    Log(log::Args),
    /// Tell the story behind an entry, an invocation, a leaf or an object.
    Why(why::Args),
    /// Show the newest signed head.
    Head(head::Args),
    /// Write the proof that a leaf is in the log.
    Prove(prove::Args),
    /// Write the log as a folder that anybody can verify.
    Export(export::Args),
    /// Make a read-only data directory from an export.
    Import(import::Args),
    /// Copy the data directory, also while the server runs.
    Backup(backup::Args),
    /// Verify a data directory, an export or a proof.
    Verify(verify::Args),
    /// Recompute the state at any position of the log.
    Replay(replay::Args),
    /// Hash everything in the store again, and name what is damaged.
    Fsck(fsck::Args),
    /// Fix the state in a seal now.
    Seal(seal::Args),
    /// Ask how the server is.
    Health(health::Args),
    /// The clock of the server.
    #[command(subcommand)]
    Clock(clock::Verb),
}

/// Why a verb did not do what it was asked, and what to do next.
#[derive(Debug)]
struct Failure {
    code: u8,
    text: String,
}

#[expect(clippy::needless_pass_by_value, reason = "errors are handed over by `map_err`")]
impl Failure {
    /// Used wrongly, or nobody there.
    fn usage(text: impl ToString) -> Self {
        Self { code: 1, text: text.to_string() }
    }

    /// Could not start.
    fn start(text: impl ToString) -> Self {
        Self { code: 2, text: text.to_string() }
    }

    /// Stored bytes are not what they should be.
    fn damaged(text: impl ToString) -> Self {
        Self { code: crate::verify::Verdict::Damaged.exit_code(), text: text.to_string() }
    }
}

/// The exit code of what was done.
type Done = Result<u8, Failure>;

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = u8::from(error.use_stderr());
            // The terminal may be gone; the exit code still tells.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let mut out = Out::new();
    match run(cli.verb, &mut out) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            out::complain(&failure.text);
            ExitCode::from(failure.code)
        }
    }
}

fn run(verb: Verb, out: &mut Out) -> Done {
    match verb {
        Verb::Serve(args) => serve::run(&args, out),
        Verb::Init(args) => init::run(&args, out),
        Verb::Session(verb) => session::run(verb, out),
        Verb::Auditor(verb) => auditor::run(verb, out),
        Verb::Call(args) => call::run(&args, out),
        Verb::Approvals(args) => approve::list(&args, out),
        Verb::Approve(args) => approve::run(&args, "approve", out),
        Verb::Decline(args) => approve::run(&args, "decline", out),
        Verb::Freeze(args) => freeze::run(&args, true, out),
        Verb::Thaw(args) => freeze::run(&args, false, out),
        Verb::Unresolved(args) => unresolved::run(&args, out),
        Verb::Undo(args) => undo::run(&args, out),
        Verb::Resolve(args) => resolve::run(&args, out),
        Verb::Log(args) => log::run(&args, out),
        Verb::Why(args) => why::run(&args, out),
        Verb::Head(args) => head::run(&args, out),
        Verb::Prove(args) => prove::run(&args, out),
        Verb::Export(args) => export::run(&args, out),
        Verb::Import(args) => import::run(&args, out),
        Verb::Backup(args) => backup::run(&args, out),
        Verb::Verify(args) => verify::run(&args, out),
        Verb::Replay(args) => replay::run(&args, out),
        Verb::Fsck(args) => fsck::run(&args, out),
        Verb::Seal(args) => seal::run(&args, out),
        Verb::Health(args) => health::run(&args, out),
        Verb::Clock(verb) => clock::run(verb, out),
    }
}
