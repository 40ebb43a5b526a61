//! The only source of randomness: keys, tokens, names of sessions and invocations.

use crate::merkle::hash::{Hash, sha256_parts};
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random bytes.
pub trait Entropy: Send + Sync {
    /// 32 bytes that nobody can foretell.
    ///
    /// # Errors
    /// [`NoEntropy`] when the system has none to give; the caller must not go on with other bytes.
    fn bytes32(&self) -> Result<Hash, NoEntropy>;

    /// 16 of them.
    ///
    /// # Errors
    /// As [`Entropy::bytes32`].
    fn bytes16(&self) -> Result<[u8; 16], NoEntropy> {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = self.bytes32()?;
        Ok([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
    }
}

/// The system gave no random bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random bytes: {reason}")]
pub struct NoEntropy {
    /// What it said.
    pub reason: String,
}

/// The random numbers of the system.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bytes32(&self) -> Result<Hash, NoEntropy> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| NoEntropy { reason: error.to_string() })?;
        Ok(bytes)
    }
}

/// The same bytes in every run, for tests: SHA-256 of a seed and a counter.
#[derive(Debug)]
pub struct SeededEntropy {
    seed: u64,
    drawn: AtomicU64,
}

impl SeededEntropy {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: AtomicU64::new(0) }
    }
}

impl Entropy for SeededEntropy {
    fn bytes32(&self) -> Result<Hash, NoEntropy> {
        let draw = self.drawn.fetch_add(1, Ordering::SeqCst);
        Ok(sha256_parts(&[&self.seed.to_be_bytes(), &draw.to_be_bytes()]))
    }
}
