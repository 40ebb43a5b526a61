//! From an effect's name and payload to a request that a handler takes.
//!
//! An effect has a closed list of ops, and an op a closed list of members. Checked in this order: the effect, aliases of
//! `op` in another case, `op` itself, the list, unknown members, members in the order of the op.

use std::collections::BTreeMap;

use super::{carry, edit, list, mkdir, read, remove, search, view, write};
use crate::canon::Value;

/// An effect that a handler can prepare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// `Workspace.Read`, op `read`.
    Read(read::Request),
    /// `Workspace.Read`, op `view`.
    View(view::Request),
    /// `Workspace.List`, op `list`.
    List(list::Request),
    /// `Workspace.Search`, op `search`.
    Search(search::Request),
    /// `Workspace.Write`, op `write`.
    Write(write::Request),
    /// `Workspace.Write`, op `edit`.
    Edit(edit::Request),
    /// `Workspace.Write`, op `mkdir`.
    Mkdir(mkdir::Request),
    /// `Workspace.Write`, op `move`.
    Move(carry::Request),
    /// `Workspace.Write`, op `remove`.
    Remove(remove::Request),
}

/// Why no handler takes an effect. It is recorded as failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The op is not of this effect.
    #[error("broker: {effect} refuses op {op:?}: not in this effect's op allowlist")]
    NotAllowed {
        /// Name of the effect.
        effect: String,
        /// The op asked for.
        op: String,
    },
    /// The effect or its payload is not one that a handler knows.
    #[error("broker: {effect} refused: {why}")]
    Refused {
        /// Name of the effect.
        effect: String,
        /// What is wrong.
        why: String,
    },
}

impl OpError {
    fn refused(effect: &str, why: String) -> Self {
        Self::Refused { effect: effect.to_owned(), why }
    }
}

/// The members of a payload whose names are all known.
pub(super) struct Payload<'a> {
    effect: &'a str,
    members: &'a BTreeMap<String, Value>,
}

impl Payload<'_> {
    fn wrong(&self, name: &str, what: &str) -> OpError {
        OpError::refused(self.effect, format!("payload key {name:?} must be {what}"))
    }

    /// A string that has to be there.
    pub(super) fn text(&self, name: &str) -> Result<&str, OpError> {
        let text = self.members.get(name).and_then(Value::as_str);
        text.ok_or_else(|| self.wrong(name, "a string"))
    }

    /// A string that may be left out.
    pub(super) fn maybe_text(&self, name: &str) -> Result<Option<String>, OpError> {
        if !self.members.contains_key(name) {
            return Ok(None);
        }
        self.text(name).map(|text| Some(text.to_owned()))
    }

    /// One of `words`, of which the first stands for none.
    pub(super) fn word(&self, name: &str, words: &[&'static str]) -> Result<&'static str, OpError> {
        let given = self.members.get(name).map(Value::as_str);
        let found = match given {
            None => words.first(),
            Some(text) => words.iter().find(|word| text == Some(**word)),
        };
        let found = found.copied();
        found.ok_or_else(|| self.wrong(name, &format!("one of: {}", words.join(", "))))
    }

    /// True or false; false when it is left out.
    pub(super) fn flag(&self, name: &str) -> Result<bool, OpError> {
        let Some(value) = self.members.get(name) else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong(name, "true or false"))
    }

    /// A whole number within these bounds, if it is there.
    pub(super) fn whole(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, OpError> {
        let Some(value) = self.members.get(name) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (least..=most).contains(number));
        let wrong = || self.wrong(name, &format!("a whole number from {least} to {most}"));
        number.map(Some).ok_or_else(wrong)
    }
}

impl Effect {
    /// Finds the handler and checks the payload.
    ///
    /// # Errors
    /// [`OpError`] for the first fault.
    pub fn parse(effect: &str, payload: &Value) -> Result<Self, OpError> {
        let refused = |why: String| OpError::refused(effect, why);
        let ops: &[(&str, &[&str])] = match effect {
            "Workspace.Read" => &[("read", read::MEMBERS), ("view", view::MEMBERS)],
            "Workspace.List" => &[("list", list::MEMBERS)],
            "Workspace.Search" => &[("search", search::MEMBERS)],
            "Workspace.Write" => &[
                ("write", write::MEMBERS),
                ("edit", edit::MEMBERS),
                ("mkdir", mkdir::MEMBERS),
                ("move", carry::MEMBERS),
                ("remove", remove::MEMBERS),
            ],
            _ => return Err(refused("no handler serves this effect".to_owned())),
        };
        let members = payload
            .as_object()
            .ok_or_else(|| refused("the payload is not an object".to_owned()))?;
        // A reader that folds case would see another op than we do.
        if let Some(alias) =
            members.keys().find(|name| *name != "op" && name.eq_ignore_ascii_case("op"))
        {
            return Err(refused(format!("payload key {alias:?} is a case variant of \"op\"")));
        }
        let payload = Payload { effect, members };
        let op = payload.text("op")?;
        let Some((_, known)) = ops.iter().find(|(own, _)| *own == op) else {
            return Err(OpError::NotAllowed { effect: effect.to_owned(), op: op.to_owned() });
        };
        if let Some(name) =
            members.keys().find(|name| *name != "op" && !known.contains(&name.as_str()))
        {
            return Err(refused(format!("payload key {name:?} is not one of op {op:?}")));
        }
        match op {
            "read" => read::parse(&payload).map(Self::Read),
            "view" => view::parse(&payload).map(Self::View),
            "list" => list::parse(&payload).map(Self::List),
            "search" => search::parse(&payload).map(Self::Search),
            "write" => write::parse(&payload).map(Self::Write),
            "edit" => edit::parse(&payload).map(Self::Edit),
            "mkdir" => mkdir::parse(&payload).map(Self::Mkdir),
            "move" => carry::parse(&payload).map(Self::Move),
            _ => remove::parse(&payload).map(Self::Remove),
        }
    }
}
