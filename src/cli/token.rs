//! Handing a token over: on a terminal, or in a file that only its owner reads. Never anywhere else.

use super::{Failure, out};
use crate::durable;
use std::path::PathBuf;

/// How a token will be handed over.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Standard output is a terminal.
    Terminal,
    /// A new file.
    File(PathBuf),
}

/// What may be said of a token.
#[derive(Debug)]
pub(super) enum Shown {
    /// The token, for the terminal.
    Token(String),
    /// Its file.
    File(PathBuf),
}

impl Delivery {
    /// Decides before the token exists, so that none is made that cannot be handed over.
    pub(super) fn plan(file: Option<PathBuf>, default: PathBuf) -> Result<Self, Failure> {
        let file = match file {
            None if out::on_terminal() => return Ok(Self::Terminal),
            None => default,
            Some(file) => file,
        };
        if file.symlink_metadata().is_ok() {
            return Err(Failure::usage(format!(
                "{} exists already: name a new file with --out, or remove it",
                file.display()
            )));
        }
        Ok(Self::File(file))
    }

    /// Hands over the token of `session`.
    pub(super) fn deliver(self, token: &str, session: &str) -> Result<Shown, Failure> {
        match self {
            Self::Terminal => Ok(Shown::Token(token.to_owned())),
            Self::File(path) => {
                let made = durable::create(&path, format!("{token}\n").as_bytes(), 0o600);
                made.map_err(|error| {
                    Failure::usage(format!(
                        "{}: {error}. The token of session {session} is lost: end it with `worldlog session revoke \
                         {session}` and begin another one",
                        path.display()
                    ))
                })?;
                Ok(Shown::File(path))
            }
        }
    }
}

impl Shown {
    /// Member of a JSON answer.
    pub(super) fn member(&self) -> (&'static str, crate::canon::Value) {
        match self {
            Self::Token(token) => ("token", token.as_str().into()),
            Self::File(path) => ("file", path.display().to_string().into()),
        }
    }

    /// One line.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Token(token) => format!("token {token}"),
            Self::File(path) => format!("token in {}", path.display()),
        }
    }

    /// What follows `Bearer ` in what is to be pasted.
    pub(super) fn bearer(&self) -> String {
        match self {
            Self::Token(token) => token.clone(),
            Self::File(path) => format!("<the line in {}>", path.display()),
        }
    }
}
