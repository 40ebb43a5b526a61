//! The laws of a plan, checked for every plan before the broker sees it, whichever engine made it.
//!
//! ```text
//! shape  members: effects, finish, plan, result; of an effect: cost, effect, id, payload, scope
//! L1     at most one effect
//! L2     an effect's id is [a-z0-9]{1,16}, and no other effect's
//! L3     (effect, scope, cost) is one that the transition declared
//! L4     the payload is an object of at most 1 MiB in canonical form
//! L5     reserved: the order of several effects
//! L6     `world` is not a member of the plan, its result or a finish output; `effects` not one of a finish output
//! L7     there is a result, and it is an object, exactly when there is no effect; finish needs an effect
//! ```
//!
//! Checked in the order L6 (plan), shape, L1, L2, L3, L4, L6 (result), L7.

use std::collections::BTreeMap;

use super::Demand;
use super::plan::PLAN;
use crate::canon::Value;
use crate::limits::PAYLOAD_BYTES_MAX;

/// A plan that keeps the laws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedPlan {
    /// One effect.
    Effect {
        /// Its id within the plan.
        id: String,
        /// What it asks for.
        demand: Demand,
        /// For the handler.
        payload: Value,
        /// Whether the output is reshaped by a second run.
        finish: bool,
    },
    /// No effect: the tool's output.
    Result(Value),
}

/// A plan, or a finish output, that breaks a law.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("coordinator: effect plan violates {law}: {reason}")]
pub struct LawError {
    /// `shape`, or `L1` to `L7`.
    pub law: &'static str,
    /// What is wrong.
    pub reason: String,
}

fn broken<T>(law: &'static str, reason: impl Into<String>) -> Result<T, LawError> {
    Err(LawError { law, reason: reason.into() })
}

/// Checks a plan of a transition that declared these demands.
///
/// # Errors
/// [`LawError`] for the first law that it breaks.
pub fn check_laws(plan: &Value, declared: &[Demand]) -> Result<ParsedPlan, LawError> {
    let Some(members) = plan.as_object() else { return broken("shape", "a plan is an object") };
    no_world(members, "plan")?;
    closed(members, &["effects", "finish", "plan", "result"], "plan")?;
    let (Some(effects), Some(finish), Some(format), Some(result)) = (
        members.get("effects").and_then(Value::as_array),
        members.get("finish").and_then(Value::as_bool),
        members.get("plan").and_then(Value::as_str),
        members.get("result"),
    ) else {
        return broken("shape", "effects is an array, finish a boolean, plan a string");
    };
    if format != PLAN {
        return broken("shape", format!("plan is not \"{PLAN}\""));
    }
    let effect = match effects {
        [] => None,
        [effect] => Some(check_effect(effect, declared)?),
        more => return broken("L1", format!("{} effects; at most one", more.len())),
    };
    if let Some(members) = result.as_object() {
        no_world(members, "result")?;
    }
    match effect {
        Some(_) if *result != Value::Null => broken("L7", "an effect and a result"),
        Some((id, demand, payload)) => Ok(ParsedPlan::Effect { id, demand, payload, finish }),
        None if finish => broken("L7", "finish without an effect"),
        None if result.as_object().is_none() => {
            broken("L7", "neither an effect nor a result object")
        }
        None => Ok(ParsedPlan::Result(result.clone())),
    }
}

/// Checks the output of a finish run.
///
/// # Errors
/// [`LawError`]: not an object, or a reserved member.
pub fn check_finish(output: &Value) -> Result<(), LawError> {
    let Some(members) = output.as_object() else {
        return broken("shape", "a finish output is an object");
    };
    no_world(members, "finish output")?;
    if members.contains_key("effects") {
        return broken("L6", "finish output has the member \"effects\"");
    }
    Ok(())
}

fn check_effect(effect: &Value, declared: &[Demand]) -> Result<(String, Demand, Value), LawError> {
    let Some(members) = effect.as_object() else {
        return broken("shape", "an effect is an object");
    };
    closed(members, &["cost", "effect", "id", "payload", "scope"], "effect")?;
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let (Some(id), Some(name), Some(scope), Some(cost), Some(payload)) = (
        text("id"),
        text("effect"),
        text("scope"),
        members.get("cost").and_then(Value::as_u64),
        members.get("payload"),
    ) else {
        return broken("shape", "id, effect and scope are strings, cost a whole number");
    };
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !(1..=16).contains(&id.len()) || !id.bytes().all(letter) {
        return broken("L2", "an effect's id is [a-z0-9]{1,16}");
    }
    let asked =
        |demand: &&Demand| demand.effect == name && demand.scope == scope && demand.cost == cost;
    let Some(demand) = declared.iter().find(asked) else {
        return broken("L3", format!("({name}, {scope}, {cost}) is not declared"));
    };
    if payload.as_object().is_none() {
        return broken("L4", "a payload is an object");
    }
    let bytes = payload.to_bytes().len();
    if bytes > PAYLOAD_BYTES_MAX {
        return broken(
            "L4",
            format!("the payload is {bytes} bytes; the limit is {PAYLOAD_BYTES_MAX}"),
        );
    }
    Ok((id.to_owned(), *demand, payload.clone()))
}

fn no_world(members: &BTreeMap<String, Value>, whose: &str) -> Result<(), LawError> {
    if members.contains_key("world") {
        return broken("L6", format!("{whose} has the member \"world\""));
    }
    Ok(())
}

fn closed(members: &BTreeMap<String, Value>, names: &[&str], whose: &str) -> Result<(), LawError> {
    if let Some(unknown) = members.keys().find(|name| !names.contains(&name.as_str())) {
        return broken("shape", format!("{whose} has the member \"{unknown}\""));
    }
    if let Some(missing) = names.iter().find(|name| !members.contains_key(**name)) {
        return broken("shape", format!("{whose} lacks the member \"{missing}\""));
    }
    Ok(())
}
