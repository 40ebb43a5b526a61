
mod event; // spec/event.md: the decoder against the CDDL and against fixtures of another implementation
mod canon; // spec/canon.md: parser and printer against fixtures of another implementation
