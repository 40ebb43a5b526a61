//! What the plans of all tools share: the checks of arguments in their order, and the two forms of a plan.
//!
//! This file is part of the source of every transition that uses it.

use super::Demand;
use crate::canon::{Value, object};
use crate::limits::PAYLOAD_BYTES_MAX;

/// The format of a plan.
pub const PLAN: &str = "world/effect-plan/v1";
/// The scope of the effects on files.
pub(super) const WORKTREE: &str = "worktree";

/// A tool whose arguments are all required strings, of which `path` comes first.
pub(super) struct Shape {
    pub(super) tool: &'static str,
    pub(super) op: &'static str,
    pub(super) effect: Demand,
    /// Names and descriptions, in the order of the schema.
    pub(super) arguments: &'static [(&'static str, &'static str)],
}

impl Shape {
    /// The plan: the first refusal that applies, or the effect.
    pub(super) fn plan(&self, args: &Value) -> Value {
        match self.payload(args) {
            Ok(payload) => effect(self.effect, payload),
            Err(refused) => refusal(refused),
        }
    }

    fn payload(&self, args: &Value) -> Result<Value, String> {
        let args = args.as_object().ok_or("arguments must be a JSON object")?;
        let names = || self.arguments.iter().map(|(name, _)| *name);
        // Members come in the bytewise order of their names, so the first unknown one is always the same.
        if let Some(unknown) = args.keys().find(|key| !names().any(|name| name == *key)) {
            let admitted = names().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "unknown argument \"{unknown}\"; {} admits only: {admitted}",
                self.tool
            ));
        }
        for name in names() {
            let value =
                args.get(name).ok_or_else(|| format!("missing required argument \"{name}\""))?;
            value.as_str().ok_or_else(|| format!("argument \"{name}\" must be a string"))?;
        }
        check_path(args.get("path").and_then(Value::as_str).unwrap_or(""))?;
        let mut payload = args.clone();
        payload.insert("op".to_owned(), self.op.into());
        let payload = Value::Object(payload);
        let bytes = payload.to_bytes().len();
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(format!(
                "the arguments take {bytes} bytes as a payload; the limit is {PAYLOAD_BYTES_MAX}"
            ));
        }
        Ok(payload)
    }

    /// The JSON Schema of the arguments.
    pub(super) fn schema(&self) -> Value {
        let property =
            |text: &str| object([("type", "string".into()), ("description", text.into())]);
        let properties =
            self.arguments.iter().map(|(name, text)| ((*name).to_owned(), property(text)));
        let required =
            self.arguments.iter().map(|(name, _)| Value::from(*name)).collect::<Vec<_>>();
        object([
            ("type", "object".into()),
            ("properties", Value::Object(properties.collect())),
            ("required", required.into()),
            ("additionalProperties", false.into()),
        ])
    }
}

/// A path by its text. Where it leads is found out by the sandbox.
fn check_path(path: &str) -> Result<(), String> {
    let refused = path.is_empty()
        || path.starts_with('/')
        || path.starts_with('-')
        || path == ".."
        || path.starts_with("../")
        || path.ends_with("/..")
        || path.contains("/../");
    if refused {
        return Err(format!(
            "path \"{path}\" refused: it must be relative and non-empty, with no \"..\" segment and no leading \"-\""
        ));
    }
    Ok(())
}

fn effect(demand: Demand, payload: Value) -> Value {
    let effect = object([
        ("id", "e1".into()),
        ("effect", demand.effect.into()),
        ("scope", demand.scope.into()),
        ("cost", demand.cost.into()),
        ("payload", payload),
    ]);
    plan(vec![effect], Value::Null)
}

fn refusal(refused: String) -> Value {
    plan(Vec::new(), object([("ok", false.into()), ("refused", refused.into())]))
}

fn plan(effects: Vec<Value>, result: Value) -> Value {
    object([
        ("plan", PLAN.into()),
        ("effects", effects.into()),
        ("finish", false.into()),
        ("result", result),
    ])
}
