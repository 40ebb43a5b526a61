//! Transitions: what a tool's arguments ask for, as a plan. Pure functions of their arguments.
//!
//! ```text
//! {"path":"hello.ail"}  --ailang-read-->
//! {"effects":[{"cost":1,"effect":"Workspace.Read","id":"e1","payload":{"op":"read","path":"hello.ail"},"scope":"worktree"}],
//!  "finish":false,"plan":"world/effect-plan/v1","result":null}
//! ```
//!
//! A plan has one effect, or none and a refusal. Equal arguments give equal plans, byte for byte, in every process and at
//! every time: replay runs them again. Whether a plan may run is the broker's decision; whether it has the form of a plan is
//! checked here (`laws`), whoever made it. Arguments, refusals and their order: `spec/tools.md`.

mod edit;
mod laws;
mod plan;
mod read;
mod workspace_list;
mod workspace_mkdir;
mod workspace_move;
mod workspace_read;
mod workspace_remove;
mod workspace_search;
mod write;

pub use laws::{LawError, ParsedPlan, check_finish, check_laws};
pub use plan::PLAN;

use crate::canon::Value;

/// What a plan asks for, or what a session must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Name of the effect.
    pub effect: &'static str,
    /// Where it acts.
    pub scope: &'static str,
    /// Units of budget.
    pub cost: u64,
}

/// The engine that runs the transitions of this module. Any change that a plan can show raises the number.
pub const ENGINE: &str = "rust/1";

/// One tool.
pub trait Transition: Sync {
    /// Its id, as clients call it.
    fn tool(&self) -> &'static str;
    /// Its name for people.
    fn title(&self) -> &'static str;
    /// What it does, for an agent that has to choose.
    fn description(&self) -> &'static str;
    /// The text whose hash pins the logic.
    fn source(&self) -> &'static str;
    /// What runs the source.
    fn engine(&self) -> &'static str {
        ENGINE
    }
    /// What a session must hold to see the tool.
    fn access(&self) -> Demand;
    /// What its plans may ask for.
    fn declared(&self) -> &'static [Demand];
    /// Whether it reshapes the effect's output in a second run.
    fn finish(&self) -> bool {
        false
    }
    /// The JSON Schema of its arguments.
    fn input_schema(&self) -> Value;
    /// The plan for these arguments: always one that keeps the laws.
    fn plan(&self, args: &Value) -> Value;
    /// The output of the second run, where plans ask for one. `results` are
    /// `{"effect","id","output":…/null,"record":"sha256:…","status"}`.
    fn reshape(&self, args: &Value, results: &[Value]) -> Value {
        let _ = (args, results);
        crate::canon::object([])
    }
}

/// All tools, in the bytewise order of their ids.
pub fn all() -> &'static [&'static dyn Transition] {
    &[
        &edit::TOOL,
        &read::TOOL,
        &write::TOOL,
        &workspace_list::TOOL,
        &workspace_mkdir::TOOL,
        &workspace_move::TOOL,
        &workspace_read::TOOL,
        &workspace_remove::TOOL,
        &workspace_search::TOOL,
    ]
}

/// The tool with this id.
pub fn find(tool: &str) -> Option<&'static dyn Transition> {
    all().iter().copied().find(|transition| transition.tool() == tool)
}
