//! stub
use crate::canon::Value;
use crate::event::Evidence;
use crate::event::blind::OpenFile;
use crate::sandbox::Worktree;
use crate::store::Receipt;
use std::sync::Arc;
#[derive(Debug)]
pub struct Permit(u64);
impl Permit {
    pub fn new(r: &Receipt, intent: u64) -> Option<Self> {
        r.events().contains(&intent).then_some(Self(intent))
    }
}
#[derive(Debug, Clone)]
pub struct Context {
    pub tool: String,
    pub policy_digest: String,
}
#[derive(Debug)]
pub struct Effect;
#[derive(Debug, thiserror::Error)]
#[error("op")]
pub struct OpError;
impl Effect {
    pub fn parse(_e: &str, _p: &Value) -> Result<Self, OpError> {
        Err(OpError)
    }
}
#[derive(Debug)]
pub struct Prepared;
impl Prepared {
    pub fn failed(_: String) -> Self {
        Self
    }
    pub fn evidence(&self) -> Value {
        Value::Null
    }
    pub fn files(&self) -> &[OpenFile] {
        &[]
    }
    pub fn before(&self) -> &[Arc<Vec<u8>>] {
        &[]
    }
}
#[derive(Debug)]
pub struct Done {
    pub failure: Option<String>,
    pub output: Value,
    pub seen: Vec<OpenFile>,
}
pub fn prepare(_t: &Worktree, _e: &Effect) -> Prepared {
    Prepared
}
pub fn perform(
    _p: Permit,
    _t: &Worktree,
    _r: Prepared,
    _u: &[u8; 16],
    _c: &Context,
    _s: &dyn Fn() -> bool,
) -> Done {
    Done { failure: None, output: Value::Null, seen: vec![] }
}
pub fn settle(_t: &Worktree, _e: &Value) -> Evidence {
    Evidence::Other
}
pub fn harmless(_e: &str) -> bool {
    true
}
pub fn landed_output(_c: &Context) -> Value {
    Value::Null
}
pub fn policy_digest() -> String {
    String::new()
}
