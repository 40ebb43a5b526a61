//! What only the operator may do: sessions, and the clock.
//!
//! A token is 32 random bytes in hexadecimal. It is returned once, to be shown once; the log has its SHA-256.

use super::{Service, credential};
use crate::durable;
use crate::event::blind::EpisodeKey;
use crate::event::{
    B16, EpisodeName, Fixed, Grant, Revocation, RevocationReason, Role, Session, hex,
};
use crate::ledger::{Draft, Refused, Submission};
use crate::state::SessionRow;
use std::path::PathBuf;

/// Longest label of a session, in bytes.
const LABEL_BYTES_MAX: usize = 200;
/// Grants of one session: an event holds about 800 of them.
const GRANTS_MAX: usize = 64;

/// A grant as the operator writes it: `EFFECT=SCOPE:BUDGET[;confirm][;ttl=SECONDS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantSpec {
    /// Name of the effect.
    pub effect: String,
    /// Where it may act.
    pub scope: String,
    /// Units.
    pub budget: u64,
    /// Whether a person has to approve each call.
    pub confirm: bool,
    /// Seconds for which it holds; the session's own when `None`.
    pub ttl_s: Option<u64>,
}

impl GrantSpec {
    /// Parses the notation.
    ///
    /// # Errors
    /// A sentence that names the part at fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';');
        let first = parts.next().unwrap_or("");
        let (effect, rest) = first
            .split_once('=')
            .ok_or_else(|| format!("grant {text:?}: EFFECT=SCOPE:BUDGET was due"))?;
        // A scope may hold colons, so the budget is what follows the last one.
        let (scope, budget) = rest
            .rsplit_once(':')
            .ok_or_else(|| format!("grant {text:?}: a budget after the last colon was due"))?;
        let word = |part: &str| {
            !part.is_empty() && part.len() <= 64 && part.bytes().all(|b| b.is_ascii_graphic())
        };
        if !word(effect) || !word(scope) {
            return Err(format!("grant {text:?}: effect and scope are 1 to 64 visible characters"));
        }
        let number = |digits: &str| digits.parse::<u32>().ok().map(u64::from);
        let budget = number(budget)
            .ok_or_else(|| format!("grant {text:?}: the budget {budget:?} is not a number"))?;
        let mut spec = Self {
            effect: effect.to_owned(),
            scope: scope.to_owned(),
            budget,
            confirm: false,
            ttl_s: None,
        };
        for part in parts {
            match part.split_once('=') {
                None if part == "confirm" => spec.confirm = true,
                Some(("ttl", seconds)) => {
                    let seconds = number(seconds);
                    let bad = || format!("grant {text:?}: ttl is not a number of seconds");
                    spec.ttl_s = Some(seconds.ok_or_else(bad)?);
                }
                _ => {
                    return Err(format!(
                        "grant {text:?}: {part:?} is neither confirm nor ttl=SECONDS"
                    ));
                }
            }
        }
        Ok(spec)
    }

    /// What a coding agent needs, each with this budget.
    pub fn coding(budget: u64) -> Vec<Self> {
        ["Workspace.List", "Workspace.Read", "Workspace.Search", "Workspace.Write"]
            .map(|effect| Self {
                effect: effect.to_owned(),
                scope: "worktree".to_owned(),
                budget,
                confirm: false,
                ttl_s: None,
            })
            .to_vec()
    }
}

/// A session that is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// What it may do.
    pub role: Role,
    /// Its episode; none for auditors and approvers. A new one begins with it.
    pub episode: Option<String>,
    /// What it may spend.
    pub grants: Vec<GrantSpec>,
    /// Seconds for which it lives.
    pub ttl_s: u64,
    /// Anything that helps the operator to tell it apart; stored blinded.
    pub label: Option<String>,
}

/// What is to change about a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionChange {
    /// Seconds from now for which it is to live, and its grants with it.
    pub ttl_s: Option<u64>,
    /// What it may spend instead. What was spent stays spent.
    pub grants: Option<Vec<GrantSpec>>,
    /// Whether it gets another token; the old one opens nothing any more.
    pub rotate: bool,
}

/// A session as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Its name.
    pub id: B16,
    /// Its row.
    pub row: SessionRow,
    /// Whether it opens anything now.
    pub live: bool,
}

/// Why the operator's act was not done.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// An argument is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The log did not take it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The worktree could not be made.
    #[error("{path}: {error}")]
    Worktree {
        /// The folder.
        path: PathBuf,
        /// What the file system said.
        error: std::io::Error,
    },
}

impl Service {
    /// Begins a session, and its episode if that is new. Returns its name and its token, which nobody can show again.
    ///
    /// Dying after the worktree is made and before the event is durable leaves an empty folder, which the next try uses.
    ///
    /// # Errors
    /// [`AdminError`].
    pub fn new_session(&self, new: &NewSession) -> Result<(B16, String), AdminError> {
        let invalid = |text: &str| AdminError::Invalid(text.to_owned());
        if new.role == Role::Agent && new.episode.is_none() {
            return Err(invalid("an agent's session needs an episode"));
        }
        if new.role != Role::Agent && (new.episode.is_some() || !new.grants.is_empty()) {
            return Err(invalid("auditors and approvers have neither episode nor grants"));
        }
        if new.grants.len() > GRANTS_MAX {
            return Err(invalid("a session has at most 64 grants"));
        }
        if new.label.as_ref().is_some_and(|label| label.len() > LABEL_BYTES_MAX) {
            return Err(invalid("a label has at most 200 bytes"));
        }
        let episode = match &new.episode {
            Some(text) => Some(EpisodeName::parse(text).ok_or_else(|| {
                AdminError::Invalid(format!("episode {text:?} is not [a-z0-9][a-z0-9-]{{0,63}}"))
            })?),
            None => None,
        };
        let draw = || self.inner.entropy.bytes32().map_err(Refused::from);
        let token = hex(&draw()?);
        let id: B16 = Fixed(self.inner.entropy.bytes16().map_err(Refused::from)?);
        let now = self.now();
        let expires = now.saturating_add(new.ttl_s.saturating_mul(1000));
        let mut submission = Submission::default();
        let mut label = None;
        if let Some(name) = &episode {
            let key = if let Some(key) = self.inner.ledger.episode_key(name) {
                key
            } else {
                let known =
                    |state: &crate::state::State| state.episodes_by_name.get(name).is_some();
                if self.inner.ledger.with_state(known) {
                    return Err(invalid("the episode's payloads were redacted; begin another one"));
                }
                let key = EpisodeKey::new(draw()?);
                submission.keys.push((name.clone(), key.clone()));
                let episode = crate::event::Episode { base_commit: None };
                submission.drafts.push(Draft::plain(Some(name), episode));
                key
            };
            label = new.label.as_ref().map(|text| key.label(text));
            let path = self.inner.workspace.join(name.as_str());
            durable::create_folder(&path)
                .map_err(|error| AdminError::Worktree { path: path.clone(), error })?;
        }
        let grants = new.grants.iter().map(|spec| grant(spec, now, expires)).collect();
        let session =
            Session { id, cred: credential(&token), role: new.role, label, grants, expires };
        submission.drafts.push(Draft::plain(episode.as_ref(), session));
        self.inner.ledger.commit_blocking(submission)?;
        Ok((id, token))
    }

    /// Extends a session, gives it other grants, or another token, which is returned. `which` is its name or the first eight
    /// digits at least. Its claims, tokens and spending stay.
    ///
    /// # Errors
    /// [`AdminError`].
    pub fn change_session(
        &self,
        which: &str,
        change: &SessionChange,
    ) -> Result<(B16, Option<String>), AdminError> {
        let invalid = |text: String| AdminError::Invalid(text);
        let named = |view: &SessionView| {
            which.len() >= 8 && view.id.to_string().starts_with(which) && view.row.revoked.is_none()
        };
        let mut hits = self.sessions().into_iter().filter(named);
        let (Some(SessionView { id, row, .. }), None) = (hits.next(), hits.next()) else {
            return Err(invalid(format!(
                "{which} is not the name of one session that can be changed"
            )));
        };
        if change.grants.as_ref().is_some_and(|grants| grants.len() > GRANTS_MAX) {
            return Err(invalid("a session has at most 64 grants".to_owned()));
        }
        let now = self.now();
        let ends = |ttl: u64| now.saturating_add(ttl.saturating_mul(1000));
        let expires = change.ttl_s.map_or(row.expires, ends);
        let old = |grant: &Grant| {
            // A grant that ended with its session goes on with it.
            let own = grant.expires < row.expires;
            Grant { expires: if own { grant.expires } else { expires }, ..grant.clone() }
        };
        let grants = match &change.grants {
            Some(grants) => grants.iter().map(|spec| grant(spec, now, expires)).collect(),
            None => row.grants.iter().map(old).collect(),
        };
        let draw = || self.inner.entropy.bytes32().map_err(Refused::from);
        let token = if change.rotate { Some(hex(&draw()?)) } else { None };
        let cred = token.as_ref().map_or(row.cred, |token| credential(token));
        let session = Session { id, cred, role: row.role, label: None, grants, expires };
        let drafts = vec![Draft::plain(row.episode.as_ref(), session)];
        self.inner.ledger.commit_blocking(Submission { drafts, ..Submission::default() })?;
        Ok((id, token))
    }

    /// All sessions, by name.
    pub fn sessions(&self) -> Vec<SessionView> {
        let now = self.now();
        self.inner.ledger.with_state(|state| {
            let view = |(id, row): (&B16, &SessionRow)| SessionView {
                id: *id,
                row: row.clone(),
                live: row.revoked.is_none() && now < row.expires,
            };
            state.sessions.iter().map(view).collect()
        })
    }

    /// Ends sessions early: those whose name begins with `which`, or all of the episode `which`. Returns their names.
    ///
    /// # Errors
    /// [`AdminError`].
    pub fn revoke(&self, which: &str) -> Result<Vec<B16>, AdminError> {
        let hit = |view: &SessionView| {
            let episode = view.row.episode.as_ref().is_some_and(|name| name.as_str() == which);
            view.row.revoked.is_none()
                && (episode || which.len() >= 8 && view.id.to_string().starts_with(which))
        };
        let hits: Vec<_> = self.sessions().into_iter().filter(hit).collect();
        if hits.is_empty() {
            let text = format!("no session of episode {which}, and none whose name begins so");
            return Err(AdminError::Invalid(text));
        }
        let drafts = hits.iter().map(|view| {
            let revocation = Revocation { reason: RevocationReason::Operator, session: view.id };
            Draft::plain(view.row.episode.as_ref(), revocation)
        });
        let submission = Submission { drafts: drafts.collect(), ..Submission::default() };
        self.inner.ledger.commit_blocking(submission)?;
        Ok(hits.into_iter().map(|view| view.id).collect())
    }
}

fn grant(spec: &GrantSpec, now: u64, expires: u64) -> Grant {
    let own = spec.ttl_s.map_or(expires, |ttl| now.saturating_add(ttl.saturating_mul(1000)));
    Grant {
        effect: spec.effect.clone(),
        scope: spec.scope.clone(),
        budget: spec.budget,
        expires: own.min(expires),
        confirm: spec.confirm,
    }
}
