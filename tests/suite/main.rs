
mod event; // spec/event.md: the decoder against the CDDL and against fixtures of another implementation
