
mod event; // spec/event.md: the decoder against the CDDL and against fixtures of another implementation
mod canon; // spec/canon.md: parser and printer against fixtures of another implementation
mod state; // spec/state.md: lawfulness by table, the fold, undo, digest and snapshot
mod limits; // spec/limits.md against src/limits.rs, as text
