//! `worldlog head`: the newest signed head, and the guard's beside it.

use super::out::Out;
use super::{Done, Failure, ask, place, request};
use crate::canon::{Value, object};
use crate::ledger::{Guard, Keys, Seeds};
use crate::note::Note;
use crate::note::checkpoint::Checkpoint;
use crate::note::key::VerifierKey;
use crate::store::layout;
use std::path::{Path, PathBuf};

/// `head`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show the guard's head beside the store's; with a file, that guard's.
    #[arg(long, value_name = "G")]
    #[expect(clippy::option_option, reason = "clap's way to say that the value may be left out")]
    guard: Option<Option<PathBuf>>,
    #[command(flatten)]
    data: place::DataArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let data = args.data.path()?;
    let running = ask::server(&data, &object([("verb", "head".into())]))?;
    let answer = match running {
        Some(answer) => answer,
        None => offline(&data)?,
    };
    let note = answer.get("note").and_then(Value::as_str).unwrap_or("").to_owned();
    let Some(given) = &args.guard else {
        if args.json {
            out.json(&answer);
        } else {
            out.bytes(note.as_bytes());
        }
        return Ok(0);
    };
    let (path, guarded) = guard(&data, given.as_deref(), &note)?;
    compare(args.json, &answer, &note, &path, guarded.as_deref(), out);
    Ok(0)
}

/// Reads the head that the store holds, without opening the log: it may be one that does not open.
fn offline(data: &Path) -> Result<Value, Failure> {
    let store = place::open_store(data, 1)?;
    let found = layout::last_head(&store).map_err(Failure::damaged)?;
    let (size, note) = found.ok_or_else(|| Failure::usage("the log has no signed head yet"))?;
    let note =
        String::from_utf8(note).map_err(|_| Failure::damaged("the signed head is no text"))?;
    let head = parse(&note)
        .ok_or_else(|| Failure::damaged(format!("the signed head of size {size} is malformed")))?;
    let both = Note::parse(note.as_bytes()).is_ok_and(|parsed| parsed.signatures().len() > 1);
    Ok(request::head(&note, if both { &note } else { "" }, head.head().size, &head.head().root))
}

fn parse(note: &str) -> Option<Checkpoint> {
    Note::parse(note.as_bytes()).ok().and_then(|note| Checkpoint::parse(note.text()).ok())
}

fn guard(
    data: &Path,
    given: Option<&Path>,
    note: &str,
) -> Result<(PathBuf, Option<Vec<u8>>), Failure> {
    let key = head_key(data, note)?;
    let path = place::guard(given, &key)?;
    let found = Guard::at(&path, &key).read().map_err(Failure::usage)?;
    Ok((path, found))
}

/// The log's own key: its private half is in the data directory.
fn head_key(data: &Path, note: &str) -> Result<VerifierKey, Failure> {
    let origin = parse(note).map(|head| head.origin().to_owned()).unwrap_or_default();
    let seeds = Seeds::load(data).map_err(Failure::usage)?.ok_or_else(|| {
        Failure::usage(format!("{} holds no private keys: such a log has no guard", data.display()))
    })?;
    let keys = Keys::new(&origin, &seeds).map_err(Failure::usage)?;
    Ok(keys.verifier_key().clone())
}

fn compare(
    json: bool,
    answer: &Value,
    note: &str,
    path: &Path,
    guarded: Option<&[u8]>,
    out: &mut Out,
) {
    let text = guarded.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let store = parse(note).map(|head| head.head());
    let guard = text.as_deref().and_then(parse).map(|head| head.head());
    let words = match (&text, store, guard) {
        (None, ..) => "there is no guard",
        (Some(_), _, None) => "the guard was made before the first head",
        (_, Some(store), Some(guard)) if store == guard => "the same head",
        (_, Some(store), Some(guard)) if store.size > guard.size => {
            "the store is ahead: starting checks that it extends the guard's head"
        }
        (_, Some(store), Some(guard)) if store.size < guard.size => {
            "the guard is ahead: the store was restored from an older copy, or cut"
        }
        _ => "two different heads of one size: one of them is not this history",
    };
    if json {
        let mut value = answer.clone();
        if let Value::Object(members) = &mut value {
            members.insert("guard".to_owned(), text.into());
            members.insert("guard_file".to_owned(), path.display().to_string().into());
            members.insert("comparison".to_owned(), words.into());
        }
        out.json(&value);
        return;
    }
    out.line("store:");
    out.bytes(note.as_bytes());
    out.line(format!("\nguard {}:", path.display()));
    out.bytes(text.unwrap_or_default().as_bytes());
    out.line(format!("\n{words}"));
}
