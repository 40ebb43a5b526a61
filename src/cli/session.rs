//! `worldlog session`: begin, list and end sessions.

use super::ask::At;
use super::out::Out;
use super::token::Delivery;
use super::{Done, Failure, place};
use crate::canon::{Value, object};
use crate::service::GrantSpec;
use std::path::PathBuf;

/// Verbs.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Verb {
    /// Begin a session, and its episode if that is new.
    New(New),
    /// List all sessions.
    List(List),
    /// Let a session live on, with more to spend if wished.
    Extend(Extend),
    /// Give a session another token; the old one opens nothing any more.
    Rotate(Rotate),
    /// End sessions early.
    Revoke(Revoke),
}

/// `session new`.
#[derive(Debug, clap::Args)]
pub(super) struct New {
    /// Episode; none for auditors and approvers.
    episode: Option<String>,
    /// A set of grants; `coding` lists, searches, reads and writes in the worktree. The default when no --grant is given.
    #[arg(long, value_name = "NAME", value_parser = ["coding"])]
    preset: Option<String>,
    /// EFFECT=SCOPE:BUDGET[;confirm][;ttl=SECONDS]; may be repeated.
    #[arg(long = "grant", value_name = "GRANT")]
    grants: Vec<String>,
    /// Units of each grant of the preset.
    #[arg(long, value_name = "N", default_value_t = 50)]
    budget: u64,
    /// Seconds for which it lives.
    #[arg(long, value_name = "S", default_value_t = 3600)]
    ttl: u64,
    /// What it may do.
    #[arg(long, default_value = "agent", value_parser = ["agent", "auditor", "approver"])]
    role: String,
    /// Anything that helps to tell it apart; the log has it blinded.
    #[arg(long, value_name = "T")]
    label: Option<String>,
    #[command(flatten)]
    to: To,
}

/// Where the log is and where the token goes.
#[derive(Debug, clap::Args)]
pub(super) struct To {
    /// New file for the token, mode 0600 [default: the terminal, else <data>/<episode>.token].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    at: At,
}

/// `session list`.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    at: At,
}

/// `session extend`.
#[derive(Debug, clap::Args)]
pub(super) struct Extend {
    /// Name of the session, or its first eight digits at least.
    session: String,
    /// Seconds from now for which it lives [default: as before].
    #[arg(long, value_name = "S")]
    ttl: Option<u64>,
    /// What it may spend instead of its grants; may be repeated. What was spent stays spent.
    #[arg(long = "grant", value_name = "GRANT")]
    grants: Vec<String>,
    #[command(flatten)]
    at: At,
}

/// `session rotate`.
#[derive(Debug, clap::Args)]
pub(super) struct Rotate {
    /// Name of the session, or its first eight digits at least.
    session: String,
    #[command(flatten)]
    to: To,
}

/// `session revoke`.
#[derive(Debug, clap::Args)]
pub(super) struct Revoke {
    /// Name of a session or its first eight digits at least, or an episode: all of its sessions.
    which: String,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(verb: Verb, out: &mut Out) -> Done {
    match verb {
        Verb::New(new) => begin(&new, out),
        Verb::List(list) => show(&list, out),
        Verb::Extend(extend) => prolong(&extend, out),
        Verb::Rotate(args) => {
            let request = object([
                ("rotate", true.into()),
                ("session", args.session.as_str().into()),
                ("verb", "session-change".into()),
            ]);
            create(&args.to, &args.session, &request, out)
        }
        Verb::Revoke(revoke) => end(&revoke, out),
    }
}

fn begin(new: &New, out: &mut Out) -> Done {
    let agent = new.role == "agent";
    if agent && new.episode.is_none() {
        return Err(Failure::usage(
            "an agent's session needs an episode: `worldlog session new EPISODE`",
        ));
    }
    if !agent && (new.episode.is_some() || new.preset.is_some() || !new.grants.is_empty()) {
        return Err(Failure::usage(format!(
            "a session of role {} has neither episode nor grants",
            new.role
        )));
    }
    let mut grants = new.grants.clone();
    for grant in &grants {
        GrantSpec::parse(grant).map_err(Failure::usage)?;
    }
    if agent && (new.preset.is_some() || grants.is_empty()) {
        let preset = GrantSpec::coding(new.budget);
        grants.extend(
            preset.iter().map(|spec| format!("{}={}:{}", spec.effect, spec.scope, spec.budget)),
        );
    }
    let request = [("role", Value::from(new.role.as_str())), ("ttl", new.ttl.into())];
    let mut request: std::collections::BTreeMap<String, Value> =
        request.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    request.insert("verb".to_owned(), "session-new".into());
    request.insert("episode".to_owned(), new.episode.clone().into());
    request.insert("label".to_owned(), new.label.clone().into());
    let grants: Vec<Value> = grants.into_iter().map(Value::from).collect();
    request.insert("grants".to_owned(), grants.into());
    let name = new.episode.clone().unwrap_or_else(|| new.role.clone());
    create(&new.to, &name, &Value::Object(request), out)
}

/// Asks for a session and hands its token over.
pub(super) fn create(to: &To, name: &str, request: &Value, out: &mut Out) -> Done {
    let data = to.at.data.path()?;
    // A bad name would lead elsewhere; the log refuses it in words.
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let default = place::token(&data, if plain { name } else { "refused" });
    let delivery = Delivery::plan(to.out.clone(), default)?;
    let answer = to.at.ask(request)?;
    let member = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or("");
    let session = member("session");
    let shown = delivery.deliver(member("token"), session)?;
    if to.at.json {
        out.json(&object([("session", session.into()), shown.member()]));
    } else {
        out.line(format!("session {session}"));
        out.line(shown.words());
    }
    Ok(0)
}

fn prolong(args: &Extend, out: &mut Out) -> Done {
    if args.ttl.is_none() && args.grants.is_empty() {
        return Err(Failure::usage("nothing is to change: give --ttl or --grant"));
    }
    let grants = args.grants.iter().map(|grant| Value::from(grant.as_str())).collect();
    let grants = if args.grants.is_empty() { Value::Null } else { Value::Array(grants) };
    let request = object([
        ("grants", grants),
        ("rotate", false.into()),
        ("session", args.session.as_str().into()),
        ("ttl", args.ttl.map_or(Value::Null, Value::from)),
        ("verb", "session-change".into()),
    ]);
    let answer = args.at.ask(&request)?;
    if args.at.json {
        out.json(&answer);
        return Ok(0);
    }
    let session = answer.get("session").and_then(Value::as_str).unwrap_or("-");
    out.line(format!("session {session} goes on"));
    Ok(0)
}

fn show(list: &List, out: &mut Out) -> Done {
    let answer = list.at.ask(&object([("verb", "session-list".into())]))?;
    if list.at.json {
        out.json(&answer);
        return Ok(0);
    }
    let sessions = answer.get("sessions").and_then(Value::as_array).unwrap_or_default();
    for session in sessions {
        let text = |name: &str| session.get(name).and_then(Value::as_str).unwrap_or("-");
        let grants = session.get("grants").and_then(Value::as_array).unwrap_or_default();
        let grants: Vec<_> = grants.iter().filter_map(Value::as_str).collect();
        let live = session.get("live").and_then(Value::as_bool) == Some(true);
        let status = match (live, session.get("revoked").and_then(Value::as_str)) {
            (true, _) => "live",
            (false, Some(_)) => "revoked",
            (false, None) => "expired",
        };
        let (id, role, episode) = (text("session"), text("role"), text("episode"));
        out.line(format!("{id}  {status:<7}  {role:<8}  {episode}  {}", grants.join(" ")));
    }
    Ok(0)
}

fn end(revoke: &Revoke, out: &mut Out) -> Done {
    let request =
        object([("verb", "session-revoke".into()), ("which", revoke.which.as_str().into())]);
    let answer = revoke.at.ask(&request)?;
    if revoke.at.json {
        out.json(&answer);
        return Ok(0);
    }
    for id in answer.get("revoked").and_then(Value::as_array).unwrap_or_default() {
        out.line(format!("revoked {}", id.as_str().unwrap_or("-")));
    }
    Ok(0)
}
