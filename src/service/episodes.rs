//! Episodes as they stand: budgets, who may spend them, what is open, what nobody could settle.

use super::view::may_see;
use super::{Caller, LogEntry, Service};
use crate::canon::{Value, object};
use crate::event::{B16, EpisodeName, Grant, Role, hex};
use crate::limits::EPISODE_CALLS_MAX;
use crate::state::{DoubtRow, SessionRow, State};
use crate::store::StoreError;

/// An episode, for anybody; with `sessions` for those who may see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpisodeView {
    /// Its name.
    pub name: EpisodeName,
    /// Its events.
    pub events: u64,
    /// Whether new effects are stopped, here or everywhere.
    pub frozen: bool,
    /// Whether its payloads are gone.
    pub redacted: bool,
    /// The call under way.
    pub open: Option<B16>,
    /// Calls in doubt.
    pub unresolved: u64,
    /// Its sessions, with what is left of each grant; none for a caller who may not see them.
    pub sessions: Option<Vec<Value>>,
}

impl EpisodeView {
    /// `{"episode","events","frozen","open","redacted","sessions"?,"unresolved"}`.
    pub fn to_value(&self) -> Value {
        let mut value = object([
            ("episode", self.name.to_string().into()),
            ("events", self.events.into()),
            ("frozen", self.frozen.into()),
            ("open", self.open.map(|inv| inv.to_string()).into()),
            ("redacted", self.redacted.into()),
            ("unresolved", self.unresolved.into()),
        ]);
        if let (Value::Object(members), Some(sessions)) = (&mut value, &self.sessions) {
            members.insert("sessions".to_owned(), Value::Array(sessions.clone()));
        }
        value
    }
}

impl Service {
    /// One episode. A session sees itself in it, an auditor all sessions.
    pub fn episode(&self, caller: Option<&Caller>, name: &EpisodeName) -> Option<EpisodeView> {
        let now = self.now();
        self.inner.ledger.with_state(|state| episode_view(state, caller, name, now))
    }

    /// Episodes after `after` in the order of their names.
    pub fn episodes(
        &self,
        caller: &Caller,
        after: Option<&EpisodeName>,
        limit: usize,
    ) -> Vec<EpisodeView> {
        let now = self.now();
        self.inner.ledger.with_state(|state| {
            let rows: Box<dyn Iterator<Item = _>> = match after {
                Some(after) => Box::new(state.episodes_by_name.from(after.clone())),
                None => Box::new(state.episodes_by_name.iter()),
            };
            let names = rows.map(|(name, _)| name).filter(|name| Some(*name) != after).take(limit);
            let mut views: Vec<_> =
                names.filter_map(|name| episode_view(state, None, name, now)).collect();
            for view in views.iter_mut().filter(|view| may_see(caller, Some(&view.name))) {
                view.sessions = Some(Vec::new());
            }
            // One look at the sessions for the whole page.
            for (id, session) in state.sessions.iter() {
                let Some(name) = &session.episode else { continue };
                let Ok(at) = views.binary_search_by(|view| view.name.cmp(name)) else { continue };
                if let Some(sessions) = views.get_mut(at).and_then(|view| view.sessions.as_mut()) {
                    sessions.push(session_value(state, name, id, session, now));
                }
            }
            views
        })
    }

    /// The newest calls of an episode, newest first, at most [`EPISODE_CALLS_MAX`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn newest_calls(
        &self,
        caller: Option<&Caller>,
        name: &EpisodeName,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let newest = self.inner.ledger.commits_of(name, EPISODE_CALLS_MAX)?;
        newest.iter().filter_map(|event| self.entry(caller, event).transpose()).collect()
    }

    /// Calls whose effect nobody could settle, from the intent at `from` on: for anybody what events tell, and for those
    /// who may see the episode its paths and the record of the closure.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn unresolved(
        &self,
        caller: Option<&Caller>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Value>, StoreError> {
        let doubts: Vec<(u64, DoubtRow)> = self.inner.ledger.with_state(|state| {
            let rows = state.doubts.from(from).take(limit);
            rows.map(|(seq, row)| (*seq, row.clone())).collect()
        });
        doubts.iter().map(|(seq, row)| self.doubt(caller, *seq, row)).collect()
    }

    fn doubt(
        &self,
        caller: Option<&Caller>,
        intent: u64,
        row: &DoubtRow,
    ) -> Result<Value, StoreError> {
        let call = &row.call;
        let closure = self.inner.ledger.find(&call.inv)?.and_then(|found| found.closure);
        let closed = closure.as_ref().map(|(event, _)| event);
        let asked = call.intent.as_ref();
        let mut value = object([
            ("at", closed.map_or(Value::Null, |event| event.at.into())),
            ("charge", asked.and_then(|row| row.charge).map_or(Value::Null, Value::from)),
            ("closure", closed.map_or(Value::Null, |event| event.seq.into())),
            ("effect", asked.map(|row| row.effect.clone()).into()),
            ("episode", call.episode.to_string().into()),
            ("front", call.front.to_string().into()),
            ("intent", intent.into()),
            ("invocation", call.inv.to_string().into()),
            ("scope", asked.map(|row| row.scope.clone()).into()),
            ("tool", call.tool.as_str().into()),
        ]);
        if !caller.is_some_and(|caller| may_see(caller, Some(&call.episode))) {
            return Ok(value);
        }
        let opening = self.inner.ledger.opening(&call.episode, intent)?.unwrap_or_default();
        let paths = opening.files.into_iter().map(|file| Value::from(file.path)).collect();
        let record = match closed {
            Some(event) => self.plain(&call.episode, event.seq)?.first().copied(),
            None => None,
        };
        if let Value::Object(members) = &mut value {
            members.insert("paths".to_owned(), Value::Array(paths));
            let record = record.map(|hash| format!("sha256:{}", hex(&hash)));
            members.insert("record".to_owned(), record.into());
        }
        Ok(value)
    }
}

fn episode_view(
    state: &State,
    caller: Option<&Caller>,
    name: &EpisodeName,
    now: u64,
) -> Option<EpisodeView> {
    let row = state.episodes_by_name.get(name)?;
    let value = |(id, session): (&B16, &SessionRow)| session_value(state, name, id, session, now);
    let sessions = caller.filter(|caller| may_see(caller, Some(name))).map(|caller| {
        if caller.role == Role::Auditor {
            let own = |(_, session): &(_, &SessionRow)| session.episode.as_ref() == Some(name);
            return state.sessions.iter().filter(own).map(value).collect();
        }
        state.sessions.get(&caller.id).map(|row| value((&caller.id, row))).into_iter().collect()
    });
    Some(EpisodeView {
        name: name.clone(),
        events: state.chains.get(name).map_or(0, |chain| chain.n),
        frozen: state.frozen(name),
        redacted: row.redacted,
        open: state.calls.iter().find(|(_, call)| call.episode == *name).map(|(_, call)| call.inv),
        unresolved: state.doubts.iter().filter(|(_, row)| row.call.episode == *name).count() as u64,
        sessions,
    })
}

fn session_value(
    state: &State,
    episode: &EpisodeName,
    id: &B16,
    session: &SessionRow,
    now: u64,
) -> Value {
    let grant = |grant: &Grant| {
        let spent = state.spent(episode, &grant.effect, &grant.scope);
        let used = spent.charged.saturating_add(spent.reserved);
        object([
            ("budget", grant.budget.into()),
            ("confirm", grant.confirm.into()),
            ("effect", grant.effect.as_str().into()),
            ("expires", grant.expires.into()),
            ("left", grant.budget.saturating_sub(used).into()),
            ("reserved", spent.reserved.into()),
            ("scope", grant.scope.as_str().into()),
            ("spent", spent.charged.into()),
        ])
    };
    object([
        ("expires", session.expires.into()),
        ("grants", Value::Array(session.grants.iter().map(grant).collect())),
        ("live", (session.revoked.is_none() && now < session.expires).into()),
        ("session", id.to_string().into()),
    ])
}
