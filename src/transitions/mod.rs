//! stub
use crate::canon::Value;
use crate::event::Demand;
pub trait Transition: Send + Sync {
    fn tool(&self) -> &'static str;
    fn title(&self) -> &'static str;
    fn description(&self) -> &'static str;
    fn source(&self) -> &'static str;
    fn engine(&self) -> &'static str;
    fn access(&self) -> Demand;
    fn declared(&self) -> Vec<Demand>;
    fn finish(&self) -> bool;
    fn input_schema(&self) -> Value;
    fn plan(&self, args: &Value) -> Value;
}
pub fn all() -> Vec<&'static dyn Transition> {
    vec![]
}
#[derive(Debug)]
pub struct PlannedEffect {
    pub id: String,
    pub effect: String,
    pub scope: String,
    pub cost: u64,
    pub payload: Value,
}
#[derive(Debug)]
pub enum ParsedPlan {
    Result(Value),
    Effect(PlannedEffect),
}
#[derive(Debug, thiserror::Error)]
#[error("law")]
pub struct LawError;
pub fn check_laws(_p: &Value, _d: &[Demand]) -> Result<ParsedPlan, LawError> {
    Err(LawError)
}
