//! What an effect finds before it is decided on, the token that fixes it, and the guard against lost updates.
//!
//! ```text
//! token = sha256: of canonical {"base":{path: ref or null},"episode","plan","preview":"worldlog/preview/v1","session","use"}
//! ```
//!
//! `use` counts the session's intents with an equal plan, so that a token holds for one run. Looking changes nothing.

use super::Caller;
use super::Service;
use super::call::{Call, CallError};
use super::invocation::{Invocation, Planned};
use super::run::{Prospect, Run, with_token};
use crate::broker::{Ask, Decision, decide};
use crate::canon::{Value, object};
use crate::event::blind::OpenFile;
use crate::event::{B16, Body, Event, Fixed, hex};
use crate::handlers::{self, Effect, Prepared};
use crate::limits::{EVENT_FILES_MAX, SEEN_SEARCH_MAX};
use crate::merkle::hash::{Hash, sha256};
use crate::sandbox::Worktree;
use std::collections::BTreeMap;
use std::path::Path;

/// What the handler saw, or why it cannot run.
pub(super) enum Look {
    Ready(Worktree, Box<Prepared>),
    Failed(String),
}

/// A file that is not as the session last saw it, or as the caller expects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    path: String,
    /// What it was; none for absent.
    hash: Option<Hash>,
}

impl Look {
    /// Looks at the disk.
    ///
    /// # Errors
    /// The worktree is not there, or too much would change.
    pub(super) fn at(root: &Path, planned: &Planned) -> Result<Self, String> {
        let effect = match Effect::parse(&planned.effect, &planned.payload) {
            Ok(effect) => effect,
            Err(error) => return Ok(Self::Failed(error.to_string())),
        };
        let tree = Worktree::open(root).map_err(|error| error.to_string())?;
        let prepared = handlers::prepare(&tree, &effect);
        if prepared.files.len() > EVENT_FILES_MAX {
            return Err("it would change too many files".to_owned());
        }
        Ok(Self::Ready(tree, Box::new(prepared)))
    }

    pub(super) fn evidence(&self) -> Value {
        match self {
            Self::Ready(_, prepared) => prepared.evidence.clone(),
            Self::Failed(_) => Value::Null,
        }
    }

    pub(super) fn files(&self) -> &[OpenFile] {
        match self {
            Self::Ready(_, prepared) => &prepared.files,
            Self::Failed(_) => &[],
        }
    }

    pub(super) fn before(&self) -> &[Vec<u8>] {
        match self {
            Self::Ready(_, prepared) => &prepared.before,
            Self::Failed(_) => &[],
        }
    }

    /// What stands at each path that the effect would change, with hash and size.
    pub(super) fn base(&self) -> Vec<(String, Option<(Hash, u64)>)> {
        match self {
            Self::Ready(_, prepared) => prepared
                .base
                .iter()
                .map(|standing| (standing.path.clone(), standing.found))
                .collect(),
            Self::Failed(_) => Vec::new(),
        }
    }

    /// The same effect refused, because a file moved on.
    pub(super) fn moved_on(self, seen: &Seen) -> Self {
        match self {
            Self::Ready(tree, prepared) => {
                Self::Ready(tree, Box::new(prepared.moved_on(&seen.path, seen.hash.as_ref())))
            }
            failed @ Self::Failed(_) => failed,
        }
    }
}

impl Run {
    /// The token of this call as things are now.
    pub(super) fn token(&self, look: &Look) -> String {
        let same = self.of.same();
        let uses = |state: &crate::state::State| state.uses.get(&(self.session, same)).copied();
        let uses = self.service().inner.ledger.with_state(uses).unwrap_or(0);
        let named = |found: Option<(Hash, u64)>| match found {
            Some((hash, _)) => format!("sha256:{}", hex(&hash)).into(),
            None => Value::Null,
        };
        let base = look.base().into_iter().map(|(path, found)| (path, named(found))).collect();
        let fixed = object([
            ("base", Value::Object(base)),
            ("episode", self.of.episode.as_str().into()),
            ("plan", self.of.plan.reference().into()),
            ("preview", "worldlog/preview/v1".into()),
            ("session", self.session.to_string().into()),
            ("use", uses.into()),
        ]);
        format!("sha256:{}", hex(&sha256(&fixed.to_bytes())))
    }
}

impl Service {
    /// The file under an effect that is not what the session last saw there, or not what its caller expects. A file that the
    /// session never saw may be written, and so may an absent one: nothing is lost there. An edit is guarded by its own
    /// text.
    pub(super) fn stale(
        &self,
        of: &Invocation,
        session: B16,
        planned: &Planned,
        look: &Look,
        expect: &BTreeMap<String, Option<Hash>>,
    ) -> Option<Seen> {
        let base = look.base();
        let now = |path: &str| base.iter().find(|(own, _)| own == path).map(|(_, found)| *found);
        for (path, expected) in expect {
            // Also a path that the call does not touch: whoever names it relies on it.
            if now(path).map(|found| found.map(|(hash, _)| hash)) != Some(*expected) {
                return Some(Seen { path: path.clone(), hash: *expected });
            }
        }
        if planned.payload.get("op").and_then(Value::as_str) == Some("edit") {
            return None;
        }
        let stale =
            base.iter().filter(|(path, _)| !expect.contains_key(path)).find_map(|(path, found)| {
                let (hash, _) = (*found)?;
                let token = of.key.path(path);
                let seen = |state: &crate::state::State| state.seen.get(&(session, token)).copied();
                let seen = self.inner.ledger.with_state(seen)?;
                (seen != of.key.content(&hash)).then(|| (path.clone(), seen))
            });
        let (path, content) = stale?;
        let hash = self.last_seen(of, &path, content);
        Some(Seen { path, hash })
    }

    /// The hash behind a content token of the state: from the openings of the episode's last outcomes.
    fn last_seen(&self, of: &Invocation, path: &str, content: B16) -> Option<Hash> {
        let ledger = &self.inner.ledger;
        let entries = ledger.with_state(crate::state::State::entries);
        let from = entries.saturating_sub(SEEN_SEARCH_MAX);
        let commits = ledger.entries(from, usize::try_from(SEEN_SEARCH_MAX).ok()?).ok()?;
        commits.iter().rev().find_map(|event| {
            let Event { body: Body::Commit(commit), ep: Some(ep), .. } = event else { return None };
            let outcome = commit.outcome.filter(|_| ep.name == of.episode)?;
            let opening = ledger.opening(&of.episode, outcome).ok()??;
            let file = opening.files.into_iter().find(|file| file.path == path)?;
            file.first.filter(|hash| of.key.content(hash) == content)
        })
    }
}

/// What a call would do, found without doing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The tool.
    pub tool: String,
    /// Name that the plan would have.
    pub plan: String,
    /// Why the plan has no effect.
    pub refused: Option<String>,
    /// What the broker would say.
    pub decision: Option<PreviewDecision>,
    /// What stands at each path that the effect would change: its path, and SHA-256 and size when a file is there.
    pub files: Vec<(String, Option<(Hash, u64)>)>,
    /// What makes exactly this call run, as long as the files stay so. None for a plan without an effect.
    pub token: Option<String>,
}

/// What the broker would say of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewDecision {
    /// Name of the effect.
    pub effect: String,
    /// Where it would act.
    pub scope: String,
    /// Units.
    pub cost: u64,
    /// Units left before it.
    pub before: u64,
    /// Why not.
    pub denial: Option<crate::event::Denial>,
}

impl Preview {
    /// `{"preview":"worldlog/preview/v1","token","plan","tool","refused","decision":{…}/null,"files":[…]}`.
    pub fn to_value(&self) -> Value {
        let decision = self.decision.as_ref().map_or(Value::Null, |decision| {
            object([
                ("allowed", decision.denial.is_none().into()),
                ("budgetBefore", decision.before.into()),
                ("cost", decision.cost.into()),
                ("denial", decision.denial.map(crate::event::Denial::as_str).into()),
                ("effect", decision.effect.as_str().into()),
                ("scope", decision.scope.as_str().into()),
            ])
        });
        let file = |(path, found): &(String, Option<(Hash, u64)>)| {
            object([
                ("exists", found.is_some().into()),
                ("path", path.as_str().into()),
                ("sha256", found.map(|(hash, _)| format!("sha256:{}", hex(&hash))).into()),
                ("size", found.map_or(Value::Null, |(_, size)| size.into())),
            ])
        };
        object([
            ("decision", decision),
            ("files", Value::Array(self.files.iter().map(file).collect())),
            ("plan", self.plan.as_str().into()),
            ("preview", "worldlog/preview/v1".into()),
            ("refused", self.refused.clone().into()),
            ("token", self.token.clone().into()),
            ("tool", self.tool.as_str().into()),
        ])
    }
}

impl Service {
    /// Plans and decides, and writes nothing and spends nothing. What a file holds is not told: a diff is a read.
    ///
    /// # Errors
    /// [`CallError`], for a call that could not be made either.
    pub async fn preview(&self, caller: &Caller, call: Call) -> Result<Preview, CallError> {
        let admitted = self.admit(caller, &call)?;
        let mut run = self.run_of(caller, call, admitted, Fixed([0; 16]));
        let prospect = run.plan().await?;
        let tool = run.of.tool.clone();
        let plan = run.of.plan.reference();
        let (planned, look) = match prospect {
            Prospect::Refusal(result) => {
                let refused = result.get("refused").and_then(Value::as_str).map(str::to_owned);
                let (decision, token, files) = (None, None, Vec::new());
                return Ok(Preview { tool, plan, refused, decision, files, token });
            }
            Prospect::Effect(planned, look) => (*planned, look),
        };
        let token = run.token(&look);
        let brought = run.call.token.as_deref().map(|text| text == token);
        let blinded = run.of.key.token(&token);
        let ask = Ask {
            session: &run.session,
            episode: &run.of.episode,
            effect: &planned.effect,
            scope: &planned.scope,
            cost: planned.cost,
            token: Some(&blinded),
        };
        let now = self.now();
        let decision = self.inner.ledger.with_state(|state| decide(state, now, &ask));
        let (denial, before) = match with_token(decision, brought) {
            Decision::Allow { before, .. } => (None, before),
            Decision::Deny { denial, before } => (Some(denial), before),
        };
        self.remember_preview(&token, run.session);
        let Planned { effect, scope, cost, .. } = planned;
        let decision = Some(PreviewDecision { effect, scope, cost, before, denial });
        Ok(Preview { tool, plan, refused: None, decision, files: look.base(), token: Some(token) })
    }
}
