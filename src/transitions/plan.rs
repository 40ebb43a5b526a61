//! What the plans of all tools share: the checks of arguments in their order, and the two forms of a plan.
//!
//! This file is part of the source of every transition that uses it.

use super::{Demand, Transition};
use crate::canon::{Value, object};
use crate::limits::PAYLOAD_BYTES_MAX;

/// The format of a plan.
pub const PLAN: &str = "world/effect-plan/v1";
/// The scope of the effects on files.
pub(super) const WORKTREE: &str = "worktree";

/// A tool whose arguments become the payload of one effect, with the op beside them.
pub(super) struct Shape {
    pub(super) tool: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) source: &'static str,
    pub(super) op: &'static str,
    /// The one demand; access is the same at cost 0.
    pub(super) effect: &'static [Demand; 1],
    /// In the order of the checks.
    pub(super) arguments: &'static [Argument],
}

/// One argument.
pub(super) struct Argument {
    name: &'static str,
    takes: Takes,
    required: bool,
    text: &'static str,
}

/// What an argument may be.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    /// A path beneath the worktree.
    Path,
    /// Any string.
    Text,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// True or false.
    Flag,
    /// A whole number, both ends included.
    Whole(u64, u64),
}

/// An argument that has to be there.
pub(super) const fn required(name: &'static str, takes: Takes, text: &'static str) -> Argument {
    Argument { name, takes, required: true, text }
}

/// An argument that may be left out.
pub(super) const fn optional(name: &'static str, takes: Takes, text: &'static str) -> Argument {
    Argument { name, takes, required: false, text }
}

impl Argument {
    fn check(&self, value: Option<&Value>) -> Result<(), String> {
        let Some(value) = value else {
            if self.required {
                return Err(format!("missing required argument \"{}\"", self.name));
            }
            return Ok(());
        };
        let (fits, what) = match self.takes {
            Takes::Path | Takes::Text => (value.as_str().is_some(), "a string".to_owned()),
            Takes::Choice(words) => (
                value.as_str().is_some_and(|text| words.contains(&text)),
                format!("one of: {}", words.join(", ")),
            ),
            Takes::Flag => (value.as_bool().is_some(), "true or false".to_owned()),
            Takes::Whole(least, most) => (
                value.as_u64().is_some_and(|number| (least..=most).contains(&number)),
                format!("a whole number from {least} to {most}"),
            ),
        };
        if fits { Ok(()) } else { Err(format!("argument \"{}\" must be {what}", self.name)) }
    }

    fn schema(&self) -> Value {
        let mut members = vec![("description", Value::from(self.text))];
        let kind = match self.takes {
            Takes::Path | Takes::Text => "string",
            Takes::Choice(words) => {
                let words: Vec<Value> = words.iter().map(|word| Value::from(*word)).collect();
                members.push(("enum", words.into()));
                "string"
            }
            Takes::Flag => "boolean",
            Takes::Whole(least, most) => {
                members.extend([("minimum", least.into()), ("maximum", most.into())]);
                "integer"
            }
        };
        members.push(("type", kind.into()));
        let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
        Value::Object(members.collect())
    }
}

impl Shape {
    fn payload(&self, args: &Value) -> Result<Value, String> {
        let args = args.as_object().ok_or("arguments must be a JSON object")?;
        let names = || self.arguments.iter().map(|argument| argument.name);
        // Members come in the bytewise order of their names, so the first unknown one is always the same.
        if let Some(unknown) = args.keys().find(|key| !names().any(|name| name == *key)) {
            let admitted = names().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "unknown argument \"{unknown}\"; {} admits only: {admitted}",
                self.tool
            ));
        }
        for argument in self.arguments {
            argument.check(args.get(argument.name))?;
        }
        for argument in self.arguments.iter().filter(|a| matches!(a.takes, Takes::Path)) {
            args.get(argument.name).and_then(Value::as_str).map_or(Ok(()), check_path)?;
        }
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
}

impl Transition for Shape {
    fn tool(&self) -> &'static str {
        self.tool
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn description(&self) -> &'static str {
        self.description
    }

    fn source(&self) -> &'static str {
        self.source
    }

    fn access(&self) -> Demand {
        let [demand] = self.effect;
        Demand { cost: 0, ..*demand }
    }

    fn declared(&self) -> &'static [Demand] {
        self.effect
    }

    /// The JSON Schema of the arguments.
    fn input_schema(&self) -> Value {
        let properties =
            self.arguments.iter().map(|argument| (argument.name.to_owned(), argument.schema()));
        let required = self.arguments.iter().filter(|argument| argument.required);
        let required: Vec<Value> = required.map(|argument| Value::from(argument.name)).collect();
        object([
            ("type", "object".into()),
            ("properties", Value::Object(properties.collect())),
            ("required", required.into()),
            ("additionalProperties", false.into()),
        ])
    }

    /// The plan: the first refusal that applies, or the effect.
    fn plan(&self, args: &Value) -> Value {
        let [demand] = self.effect;
        match self.payload(args) {
            Ok(payload) => effect(*demand, payload),
            Err(refused) => refusal(refused),
        }
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
