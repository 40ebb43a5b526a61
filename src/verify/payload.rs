//! Payloads: whether the objects beside a log are those that its blinded references name.

use super::Report;
use crate::canon::{self, Value, is_canonical};
use crate::event::blind::{EpisodeKey, Opening};
use crate::event::{B32, Body, EpisodeName, Event, Intent, Outcome};
use crate::merkle::hash::{Hash, sha256};
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// Where payloads come from: a store, or the folders of an export. An error is a sentence for the report.
pub trait Payloads {
    /// `K_ep`, if it is there.
    fn episode_key(&mut self, episode: &EpisodeName) -> Result<Option<Hash>, String>;
    /// The opening of the event, if it is there.
    fn opening(&mut self, episode: &EpisodeName, seq: u64) -> Result<Option<Vec<u8>>, String>;
    /// The object's bytes as they are stored, if they are there.
    fn object(
        &mut self,
        episode: Option<&EpisodeName>,
        hash: &Hash,
    ) -> Result<Option<Vec<u8>>, String>;
}

/// What the events say is gone on purpose.
#[derive(Debug, Clone, Default)]
pub struct Redactions {
    refs: BTreeSet<B32>,
}

/// Something that was not there when its event came. A later redaction may excuse it.
#[derive(Debug)]
struct Missing {
    code: &'static str,
    seq: u64,
    episode: Option<EpisodeName>,
    bref: Option<B32>,
    what: String,
}

/// Checks payloads event by event, beside an [`super::Audit`].
#[derive(Debug, Default)]
pub struct PayloadAudit {
    keys: BTreeMap<EpisodeName, Option<EpisodeKey>>,
    redactions: Redactions,
    missing: Vec<Missing>,
    /// Intents without an end yet, by seq: what their records have to say.
    intents: BTreeMap<u64, Intent>,
}

impl PayloadAudit {
    /// Checks what one event names.
    pub fn event(&mut self, report: &mut Report, event: &Event, payloads: &mut dyn Payloads) {
        match &event.body {
            Body::Transition(transition) => {
                for hash in [&transition.source, &transition.schema] {
                    self.object(report, event.seq, None, None, &hash.0, false, payloads);
                }
            }
            Body::Redaction(redaction) => {
                self.redactions.refs.extend(redaction.refs.iter().flatten());
            }
            body => {
                match body {
                    Body::Intent(intent) => drop(self.intents.insert(event.seq, intent.clone())),
                    Body::Closure(closure) => drop(self.intents.remove(&closure.intent)),
                    _ => {}
                }
                let brefs = body.brefs();
                if let (Some(ep), false) = (&event.ep, brefs.is_empty()) {
                    self.opened(report, event, &ep.name, &brefs, payloads);
                }
            }
        }
    }

    fn key(
        &mut self,
        report: &mut Report,
        seq: u64,
        episode: &EpisodeName,
        payloads: &mut dyn Payloads,
    ) -> Option<EpisodeKey> {
        if let Some(key) = self.keys.get(episode) {
            return key.clone();
        }
        let key = match payloads.episode_key(episode) {
            Ok(key) => key.map(EpisodeKey::new),
            Err(error) => {
                report.find("store-damaged", Some(seq), error);
                None
            }
        };
        if key.is_none() {
            self.missing.push(Missing {
                code: "episode-key-missing",
                seq,
                episode: Some(episode.clone()),
                bref: None,
                what: format!("the key of episode {episode}"),
            });
        }
        self.keys.insert(episode.clone(), key.clone());
        key
    }

    fn opened(
        &mut self,
        report: &mut Report,
        event: &Event,
        episode: &EpisodeName,
        brefs: &[B32],
        payloads: &mut dyn Payloads,
    ) {
        let seq = event.seq;
        let Some(key) = self.key(report, seq, episode, payloads) else { return };
        let bytes = match payloads.opening(episode, seq) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                let what = format!("the opening of event {seq}");
                let episode = Some(episode.clone());
                let bref = brefs.first().copied();
                self.missing.push(Missing { code: "opening-missing", seq, episode, bref, what });
                return;
            }
            Err(error) => return report.find("store-damaged", Some(seq), error),
        };
        let opening = match Opening::decode(&bytes) {
            Ok(opening) => opening,
            Err(error) => return report.find("opening-differs", Some(seq), error.to_string()),
        };
        if let Err(field) = opening.opens(event, &key) {
            let detail = format!("the opening does not give the event's `{field}`");
            return report.find("opening-differs", Some(seq), detail);
        }
        report.openings += 1;
        // The commit that a worktree started from is git's object, not ours.
        if matches!(event.body, Body::Episode(_)) {
            return;
        }
        let mut first = None;
        for (index, (hash, bref)) in opening.refs.iter().zip(brefs).enumerate() {
            let bytes = self.object(report, seq, Some(episode), Some(*bref), hash, true, payloads);
            if index == 0 {
                first = bytes;
            }
        }
        match (&event.body, opening.refs.first()) {
            (Body::Plan(plan), Some(hash)) if plan.same != key.same(hash) => {
                report.find("same-differs", Some(seq), "`same` is not the plan's token".to_owned());
            }
            (Body::Outcome(outcome), _) => self.record(report, seq, outcome, first.as_deref()),
            _ => {}
        }
        let invocation = event.inv.map(|inv| key.invocation(&inv));
        for hash in &opening.more {
            let bref = invocation.as_ref().map(|key| key.bref(hash));
            self.object(report, seq, Some(episode), bref, hash, false, payloads);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one object in its place; a struct would only rename them"
    )]
    fn object(
        &mut self,
        report: &mut Report,
        seq: u64,
        episode: Option<&EpisodeName>,
        bref: Option<B32>,
        hash: &Hash,
        json: bool,
        payloads: &mut dyn Payloads,
    ) -> Option<Vec<u8>> {
        let name = || format!("object sha256:{}", crate::event::hex(hash));
        match payloads.object(episode, hash) {
            Ok(Some(bytes)) if sha256(&bytes) != *hash => {
                report.find("object-changed", Some(seq), format!("{} has other bytes", name()));
            }
            Ok(Some(bytes)) => {
                report.objects += 1;
                if json && !is_canonical(&bytes) {
                    report.find("object-not-canonical", Some(seq), name());
                }
                return Some(bytes);
            }
            Ok(None) => {
                let episode = episode.cloned();
                self.missing.push(Missing {
                    code: "object-missing",
                    seq,
                    episode,
                    bref,
                    what: name(),
                });
            }
            Err(error) => report.find("store-damaged", Some(seq), format!("{}: {error}", name())),
        }
        None
    }

    /// Compares a record with the events whose account it is.
    fn record(&mut self, report: &mut Report, seq: u64, outcome: &Outcome, bytes: Option<&[u8]>) {
        let intent = outcome.intent.and_then(|intent| self.intents.remove(&intent));
        let Some(record) = bytes.and_then(|bytes| canon::parse(bytes).ok()) else { return };
        let mut due = vec![
            ("status", Value::from(outcome.status.as_str())),
            ("denial", outcome.denial.map(crate::event::Denial::as_str).into()),
        ];
        if let Some(intent) = intent {
            due.extend([
                ("effect", intent.effect.as_str().into()),
                ("scope", intent.scope.as_str().into()),
                ("cost", intent.cost.into()),
                ("budgetBefore", intent.before.into()),
            ]);
        }
        let wrong = due.iter().find(|(name, value)| record.get(name) != Some(value));
        if let Some((name, _)) = wrong {
            let detail = format!("the record's `{name}` is not that of the events");
            report.find("record-differs", Some(seq), detail);
        }
    }

    /// Tells what is missing from what was redacted.
    pub fn finish(self, report: &mut Report, state: &State) {
        for missing in self.missing {
            let whole = missing.episode.as_ref().and_then(|name| state.episodes_by_name.get(name));
            let excused = whole.is_some_and(|row| row.redacted)
                || missing.bref.is_some_and(|bref| self.redactions.refs.contains(&bref));
            if excused {
                report.redacted += 1;
            } else {
                report.find(
                    missing.code,
                    Some(missing.seq),
                    format!("{} is missing", missing.what),
                );
            }
        }
    }
}
