//! What an operator may ask of an open log: one JSON object in, one out.
//!
//! ```text
//! {"verb":"session-new","episode"?,"grants":[GRANT…],"label"?,"role","ttl"}  -> {"session","token"}
//! {"verb":"session-change","grants"?,"rotate","session","ttl"?}            -> {"session","token":…/null}
//! {"verb":"session-list"}              -> {"sessions":[…]}
//! {"verb":"session-revoke","which"}    -> {"revoked":[…]}
//! {"verb":"head"}                      -> {"checkpoint","note","root","size"}
//! {"verb":"log","from","limit"}        -> {"entries":[…]}
//! {"verb":"prove","leaf"}              -> {"proof"}
//! {"verb":"export","dir","public"}     -> {"objects","origin","size","vkeys"}
//! {"verb":"backup","dir"}              -> {"objects","origin","size"}
//! {"verb":"seal"}                      -> {"leaf":n/null}
//! {"verb":"health"}                    -> {"clock","entries","halted","origin","size","unresolved","version"}
//! {"verb":"clock-accept"}              -> {"accepted":doubt/null}
//! ```
//!
//! Acts on calls are in `acts`.

use super::{Failure, acts};
use crate::canon::{Value, object};
use crate::event::Role;
use crate::export::{self, ExportError};
use crate::merkle::hash::Hash;
use crate::note::bundle::Bundle;
use crate::service::{AdminError, GrantSpec, NewSession, Service, SessionChange, SessionView};
use crate::store::sled::SledStore;
use base64ct::{Base64, Encoding};
use std::path::{Path, PathBuf};

/// Entries of one answer.
pub(super) const ENTRIES_MAX: u64 = 500;
/// Bytes of the cache of a store that is only written.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;

/// Does what is asked. `data` is the data directory, whose keys a backup takes along.
pub(super) fn perform(service: &Service, data: &Path, request: &Value) -> Result<Value, Failure> {
    if let Some(done) = acts::perform(service, request) {
        return done;
    }
    match text(request, "verb")? {
        "session-new" => session_new(service, request),
        "session-change" => session_change(service, request),
        "session-list" => {
            let sessions = service.sessions().iter().map(session).collect::<Vec<_>>();
            Ok(object([("sessions", sessions.into())]))
        }
        "session-revoke" => {
            let ids = service.revoke(text(request, "which")?).map_err(|error| refused(&error))?;
            let ids = ids.iter().map(|id| id.to_string().into()).collect::<Vec<Value>>();
            Ok(object([("revoked", ids.into())]))
        }
        "head" => {
            let published = service.ledger().published();
            Ok(head(
                &published.note,
                &service.ledger().checkpoint(),
                published.head.size,
                &published.head.root,
            ))
        }
        "log" => {
            let limit = number(request, "limit")?.min(ENTRIES_MAX);
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let entries =
                service.log(None, number(request, "from")?, limit).map_err(Failure::damaged)?;
            let entries =
                entries.iter().map(crate::service::LogEntry::to_value).collect::<Vec<_>>();
            Ok(object([("entries", entries.into())]))
        }
        "prove" => {
            let leaf = number(request, "leaf")?;
            let proof = service.proof(leaf).map_err(Failure::damaged)?;
            let event = service.event(leaf).map_err(Failure::damaged)?;
            let size = service.ledger().published().head.size;
            let (proof, event) = proof.zip(event).ok_or_else(|| no_leaf(leaf, size))?;
            Ok(object([("proof", with_leaf(&proof, event.bytes)?.into())]))
        }
        "export" => export_dir(service, request),
        "backup" => backup_dir(service, data, request),
        "seal" => {
            let leaf = service.ledger().seal().map_err(Failure::usage)?;
            service.ledger().tend().map_err(Failure::start)?;
            Ok(object([("leaf", leaf.into())]))
        }
        "health" => Ok(health(service)),
        "clock-accept" => {
            let doubt = service.ledger().clock_doubt();
            service.ledger().accept_clock();
            Ok(object([("accepted", doubt.into())]))
        }
        other => Err(Failure::usage(format!("the verb {other:?} is unknown to this server"))),
    }
}

pub(super) fn text<'a>(request: &'a Value, name: &str) -> Result<&'a str, Failure> {
    let found = request.get(name).and_then(Value::as_str);
    found.ok_or_else(|| Failure::usage(format!("`{name}` is no string")))
}

pub(super) fn number(request: &Value, name: &str) -> Result<u64, Failure> {
    let found = request.get(name).and_then(Value::as_u64);
    found.ok_or_else(|| Failure::usage(format!("`{name}` is no whole number")))
}

fn folder(request: &Value) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(text(request, "dir")?);
    if path.is_absolute() { Ok(path) } else { Err(Failure::usage("`dir` is not absolute")) }
}

/// What is wrong with an argument is the caller's; the rest is the log's.
fn refused(error: &AdminError) -> Failure {
    Failure::usage(error)
}

/// An export that fails because of stored bytes is damage; all else is a matter of folders.
pub(super) fn export_failed(error: &ExportError) -> Failure {
    match error {
        ExportError::Damaged { .. } | ExportError::Store(_) => Failure::damaged(error),
        _ => Failure::usage(error),
    }
}

/// Beyond the end of the log.
pub(super) fn no_leaf(leaf: u64, size: u64) -> Failure {
    Failure::usage(format!("leaf {leaf} is not there: the log has {size} events, counted from 0"))
}

/// The proof with the leaf in its `extra`, so that one file is enough to verify.
pub(super) fn with_leaf(proof: &str, leaf: Vec<u8>) -> Result<String, Failure> {
    let bundle = Bundle::parse(proof.as_bytes()).and_then(|bundle| bundle.with_extra(leaf));
    bundle.map(|bundle| bundle.to_string()).map_err(Failure::damaged)
}

fn session_new(service: &Service, request: &Value) -> Result<Value, Failure> {
    let role = match text(request, "role")? {
        "agent" => Role::Agent,
        "auditor" => Role::Auditor,
        "approver" => Role::Approver,
        other => {
            return Err(Failure::usage(format!(
                "`role` is {other:?}, not agent, auditor or approver"
            )));
        }
    };
    let new = NewSession {
        role,
        episode: request.get("episode").and_then(Value::as_str).map(str::to_owned),
        grants: grants(request)?,
        ttl_s: number(request, "ttl")?,
        label: request.get("label").and_then(Value::as_str).map(str::to_owned),
    };
    let (id, token) = service.new_session(&new).map_err(|error| refused(&error))?;
    Ok(object([("session", id.to_string().into()), ("token", token.into())]))
}

fn session_change(service: &Service, request: &Value) -> Result<Value, Failure> {
    let given = |name: &str| request.get(name).filter(|value| **value != Value::Null);
    let change = SessionChange {
        ttl_s: given("ttl").map(|_| number(request, "ttl")).transpose()?,
        grants: given("grants").map(|_| grants(request)).transpose()?,
        rotate: request.get("rotate").and_then(Value::as_bool).unwrap_or(false),
    };
    let changed = service.change_session(text(request, "session")?, &change);
    let (id, token) = changed.map_err(|error| refused(&error))?;
    Ok(object([("session", id.to_string().into()), ("token", token.into())]))
}

fn grants(request: &Value) -> Result<Vec<GrantSpec>, Failure> {
    let grants = request.get("grants").and_then(Value::as_array).unwrap_or_default();
    let parse = |grant: &Value| {
        let text = grant.as_str();
        let text =
            text.ok_or_else(|| Failure::usage("`grants` holds something else than strings"))?;
        GrantSpec::parse(text).map_err(Failure::usage)
    };
    grants.iter().map(parse).collect()
}

fn session(view: &SessionView) -> Value {
    let row = &view.row;
    let grant = |grant: &crate::event::Grant| {
        let confirm = if grant.confirm { ";confirm" } else { "" };
        Value::from(format!("{}={}:{}{confirm}", grant.effect, grant.scope, grant.budget))
    };
    object([
        ("episode", row.episode.as_ref().map(ToString::to_string).into()),
        ("expires", row.expires.into()),
        ("grants", row.grants.iter().map(grant).collect::<Vec<_>>().into()),
        ("live", view.live.into()),
        ("revoked", row.revoked.map(|reason| reason.to_string()).into()),
        ("role", row.role.to_string().into()),
        ("session", view.id.to_string().into()),
    ])
}

/// The answer to `head`; `checkpoint` may be of an earlier size, or empty.
pub(super) fn head(note: &str, checkpoint: &str, size: u64, root: &Hash) -> Value {
    let checkpoint = Some(checkpoint).filter(|text| !text.is_empty());
    object([
        ("checkpoint", checkpoint.into()),
        ("note", note.into()),
        ("root", Base64::encode_string(root).into()),
        ("size", size.into()),
    ])
}

fn export_dir(service: &Service, request: &Value) -> Result<Value, Failure> {
    let ledger = service.ledger();
    // A seal at the end lets the export prove its own state.
    ledger.seal().map_err(Failure::usage)?;
    ledger.tend().map_err(Failure::start)?;
    let public = request.get("public").and_then(Value::as_bool).unwrap_or(false);
    let (store, note) = (ledger.store().as_ref(), ledger.checkpoint());
    let wanted = export::Request { store, note: &note, cosigner: None, public };
    let written = export::write(&folder(request)?, &wanted);
    written.map(|written| exported(&written)).map_err(|error| export_failed(&error))
}

/// The answer to `export`.
pub(super) fn exported(written: &export::Written) -> Value {
    let vkeys = written.vkeys.iter().map(|key| key.as_str().into()).collect::<Vec<Value>>();
    object([
        ("objects", written.objects.into()),
        ("origin", written.origin.as_str().into()),
        ("size", written.size.into()),
        ("vkeys", vkeys.into()),
    ])
}

fn backup_dir(service: &Service, data: &Path, request: &Value) -> Result<Value, Failure> {
    let ledger = service.ledger();
    ledger.seal().map_err(Failure::usage)?;
    ledger.tend().map_err(Failure::start)?;
    let note = ledger.published().note.clone();
    backup(ledger.store().as_ref(), note.as_bytes(), data, &folder(request)?)
}

/// Copies the log up to the head `note`, and the private keys of `data`, into a new data directory.
pub(super) fn backup(
    store: &dyn crate::store::Store,
    note: &[u8],
    data: &Path,
    dir: &Path,
) -> Result<Value, Failure> {
    let made = export::make_data(dir, |beside| {
        let keys = data.join("keys");
        if keys.is_dir() {
            let copy = beside.join("keys");
            crate::durable::create_folder(&copy).map_err(|error| file_failed(&copy, error))?;
            for name in ["head.seed", "cosign.seed", "cose.seed"] {
                let from = keys.join(name);
                let bytes = std::fs::read(&from).map_err(|error| file_failed(&from, error))?;
                let to = copy.join(name);
                crate::durable::create(&to, &bytes, 0o600)
                    .map_err(|error| file_failed(&to, error))?;
            }
        }
        let copy = SledStore::open(beside, CACHE_BYTES)?;
        export::fill_from(&copy, store, note)
    });
    let filled = made.map_err(|error| export_failed(&error))?;
    Ok(object([
        ("objects", filled.objects.into()),
        ("origin", filled.origin.into()),
        ("size", filled.size.into()),
    ]))
}

fn file_failed(path: &Path, error: std::io::Error) -> ExportError {
    ExportError::File { path: path.to_owned(), error }
}

fn health(service: &Service) -> Value {
    let health = service.health();
    object([
        ("clock", health.clock.into()),
        ("entries", health.entries.into()),
        ("halted", health.halted.into()),
        ("origin", health.origin.into()),
        ("size", health.size.into()),
        ("unresolved", health.unresolved.into()),
        ("version", health.version.into()),
    ])
}
