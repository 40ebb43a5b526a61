//! Everything that links the crate, in one binary.

// Both stores against one contract, the layout on top of them, faults and damage.
mod store;
// Sandbox, handlers, transitions: paths that try to leave, effects end to end, crashes between their steps.
mod hands;
