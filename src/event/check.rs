//! What the CDDL demands of a body and the types do not show: lengths, grammars, and fields that go together.
//!
//! Whether the event is lawful where it stands is not asked here (`state`), and no signature is verified.

use super::{
    Alg, Body, BodyError, ClosedBy, Closure, Demand, Evidence, FORMAT, Genesis, Grant, Key,
    KeyReason, Outcome, Status, Use, Verdict,
};
use crate::limits::{EVENT_FILES_MAX, EVENT_NAME_BYTES_MAX, ORIGIN_BYTES_MAX};

/// Bytes of the public key and of a signature.
const ED25519: (usize, usize) = (32, 64);
const ML_DSA_44: (usize, usize) = (1_312, 2_420);

type Check = Result<(), BodyError>;

fn demand(holds: bool, reason: &str) -> Check {
    if holds { Ok(()) } else { Err(BodyError { reason: reason.to_owned() }) }
}

/// Whether `kind` may name an event that is not ours: `x-[a-z0-9][a-z0-9-]{0,61}`.
pub(super) fn is_extension(kind: &str) -> bool {
    kind.strip_prefix("x-")
        .is_some_and(|rest| rest.len() <= 62 && super::EpisodeName::parse(rest).is_some())
}

/// A name in the clear: printable ASCII without a space, so that no free text hides in it.
fn name(text: &str, field: &str) -> Check {
    let fits = (1..=EVENT_NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    demand(
        fits,
        &format!("`{field}` is not a name of 1 to {EVENT_NAME_BYTES_MAX} printable characters"),
    )
}

/// The name of a log is also the name of its keys, so it takes no space and no plus.
fn origin(text: &str) -> Check {
    let fits = (1..=ORIGIN_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'+');
    demand(fits, "`origin` is not 1 to 255 printable characters without a plus")
}

fn demand_of(demand: &Demand) -> Check {
    name(&demand.effect, "effect")?;
    name(&demand.scope, "scope")
}

fn grant(grant: &Grant) -> Check {
    name(&grant.effect, "effect")?;
    name(&grant.scope, "scope")
}

fn key(key: &Key) -> Check {
    let (alg, sizes) = match key.usage {
        Use::Head | Use::Cose => (Alg::Ed25519, ED25519),
        Use::Cosign => (Alg::MlDsa44, ML_DSA_44),
    };
    demand(key.alg == alg, "`alg` does not fit `use`")?;
    demand(key.public.0.len() == sizes.0, "`pub` has a wrong length")?;
    demand(key.pop.0.len() == sizes.1, "`pop` has a wrong length")?;
    demand(key.until.is_none_or(|until| until >= key.from), "`until` lies before `from`")
}

fn genesis(genesis: &Genesis) -> Check {
    demand(genesis.format == FORMAT, "`format` is not one that this worldlog reads")?;
    origin(&genesis.origin)?;
    let uses = genesis.keys.iter().map(|key| key.usage);
    demand(uses.eq([Use::Head, Use::Cosign, Use::Cose]), "`keys` are not head, cosign and cose")?;
    let first = genesis.keys.iter().all(|key| key.reason == KeyReason::Genesis);
    demand(first, "`reason` of a first key is not genesis")?;
    genesis.keys.iter().try_for_each(key)?;
    genesis.predecessor.as_ref().map_or(Ok(()), |log| origin(&log.origin))
}

fn outcome(outcome: &Outcome) -> Check {
    demand(outcome.seen.len() <= EVENT_FILES_MAX, "`seen` has too many entries")?;
    let denied = outcome.status == Status::Denied;
    demand(denied == outcome.denial.is_some(), "`denial` does not fit `status`")?;
    demand(denied == outcome.intent.is_none(), "`intent` does not fit `status`")?;
    demand(!denied || outcome.result.is_none(), "`result` does not fit `status`")
}

/// A verdict rests on evidence of its own kind, or on a person's word, and only a person gives that.
fn closure(closure: &Closure) -> Check {
    let person = closure.by == ClosedBy::Operator;
    let fits = match (closure.verdict, closure.evidence) {
        (Verdict::Landed | Verdict::NotHappened, Evidence::Person) => person,
        (Verdict::Landed, Evidence::After)
        | (Verdict::NotHappened, Evidence::Before | Evidence::Harmless)
        | (Verdict::InDoubt, Evidence::Other | Evidence::Run)
        | (Verdict::Unrecorded, Evidence::Record) => !person,
        _ => false,
    };
    demand(fits, "`verdict`, `evidence` and `by` do not go together")
}

impl Body {
    pub(super) fn check(&self) -> Check {
        match self {
            Self::Genesis(body) => genesis(body),
            Self::Key(body) => {
                demand(body.reason != KeyReason::Genesis, "`reason` is that of a first key")?;
                key(body)
            }
            Self::Transition(body) => {
                name(&body.tool, "tool")?;
                name(&body.engine, "engine")?;
                demand_of(&body.access)?;
                body.declared.iter().try_for_each(demand_of)
            }
            Self::Session(body) => body.grants.iter().try_for_each(grant),
            Self::Plan(body) => name(&body.tool, "tool"),
            Self::Intent(body) => {
                demand(body.files.len() <= EVENT_FILES_MAX, "`files` has too many entries")?;
                name(&body.effect, "effect")?;
                name(&body.scope, "scope")
            }
            Self::Outcome(body) => outcome(body),
            Self::Closure(body) => closure(body),
            Self::Hook(body) => {
                let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
                let fits = (1..=32).contains(&body.name.len()) && body.name.bytes().all(word);
                demand(fits, "`name` is not [a-z0-9-]{1,32}")
            }
            Self::Redaction(body) => {
                let some = body.refs.as_ref().is_none_or(|refs| !refs.is_empty());
                demand(some, "`refs` is empty")
            }
            Self::Extension { kind, map } => {
                demand(is_extension(kind), "the kind is not x-[a-z0-9][a-z0-9-]{0,61}")?;
                demand(map.first().is_some_and(|byte| byte >> 5 == 5), "the body is not a map")
            }
            Self::Episode(_)
            | Self::Revocation(_)
            | Self::Freeze(_)
            | Self::Commit(_)
            | Self::Approval(_)
            | Self::Seal(_) => Ok(()),
        }
    }
}
