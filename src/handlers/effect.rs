//! From an effect's name and payload to a request that a handler takes.
//!
//! An effect has a closed list of ops, and an op a closed list of members, all strings. Checked in this order: the effect,
//! aliases of `op` in another case, `op` itself, the list, unknown members, members in the order of the op.

use super::{edit, read, write};
use crate::canon::Value;

/// An effect that a handler can prepare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// `Workspace.Read`, op `read`.
    Read(read::Request),
    /// `Workspace.Write`, op `write`.
    Write(write::Request),
    /// `Workspace.Write`, op `edit`.
    Edit(edit::Request),
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

impl Effect {
    /// Finds the handler and checks the payload.
    ///
    /// # Errors
    /// [`OpError`] for the first fault.
    pub fn parse(effect: &str, payload: &Value) -> Result<Self, OpError> {
        let refused = |why: String| OpError::Refused { effect: effect.to_owned(), why };
        let ops: &[&str] = match effect {
            "Workspace.Read" => &["read"],
            "Workspace.Write" => &["write", "edit"],
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
        let text = |name: &str| {
            let text = members.get(name).and_then(Value::as_str);
            text.ok_or_else(|| refused(format!("payload key {name:?} must be a string")))
        };
        let op = text("op")?;
        if !ops.contains(&op) {
            return Err(OpError::NotAllowed { effect: effect.to_owned(), op: op.to_owned() });
        }
        let known = match op {
            "read" => read::MEMBERS,
            "write" => write::MEMBERS,
            _ => edit::MEMBERS,
        };
        if let Some(name) =
            members.keys().find(|name| *name != "op" && !known.contains(&name.as_str()))
        {
            return Err(refused(format!("payload key {name:?} is not one of op {op:?}")));
        }
        match op {
            "read" => read::parse(text).map(Self::Read),
            "write" => write::parse(text).map(Self::Write),
            _ => edit::parse(text).map(Self::Edit),
        }
    }
}
