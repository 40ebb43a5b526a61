//! The log's three keys, as seeds in files that only their owner reads.
//!
//! ```text
//! <data>/keys/head.seed     Ed25519, signs every head (note type 0x01)
//! <data>/keys/cosign.seed   ML-DSA-44, signs about one head a second (note type 0x06)
//! <data>/keys/cose.seed     Ed25519, signs COSE receipts
//! ```
//!
//! A file holds 64 hexadecimal digits and a line feed. No key serves two kinds of signature.

use crate::durable;
use crate::entropy::{Entropy, NoEntropy};
use crate::event::{Alg, B32, Key, KeyReason, Use, hex};
use crate::merkle::hash::{Hash, sha256};
use crate::note::key::{KeyError, KeyType, Signer, VerifierKey};
use crate::verify::{key_id, possession_message};
use std::io;
use std::path::{Path, PathBuf};

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file of seeds cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        error: io::Error,
    },
    /// A file of seeds does not hold one.
    #[error("{path} does not hold 64 hexadecimal digits and a line feed")]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// No random bytes.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// The origin cannot name a key.
    #[error("origin: {0}")]
    Key(#[from] KeyError),
}

/// The seeds of the three keys.
pub struct Seeds {
    head: Hash,
    cosign: Hash,
    cose: Hash,
}

impl Seeds {
    /// New random seeds.
    ///
    /// # Errors
    /// [`KeysError::Entropy`].
    pub fn draw(entropy: &dyn Entropy) -> Result<Self, KeysError> {
        Ok(Self { head: entropy.bytes32()?, cosign: entropy.bytes32()?, cose: entropy.bytes32()? })
    }

    /// Reads the seeds below a data directory, or draws and keeps them when there are none.
    ///
    /// # Errors
    /// [`KeysError`], naming the file.
    pub fn load_or_draw(data: &Path, entropy: &dyn Entropy) -> Result<Self, KeysError> {
        let folder = data.join("keys");
        durable::create_folder(&folder)
            .map_err(|error| KeysError::File { path: folder.clone(), error })?;
        let one = |name: &str| Self::load_or_draw_one(&folder.join(name), entropy);
        Ok(Self { head: one("head.seed")?, cosign: one("cosign.seed")?, cose: one("cose.seed")? })
    }

    /// Reads the seeds below a data directory; `None` when there are none.
    ///
    /// # Errors
    /// [`KeysError`], naming the file.
    pub fn load(data: &Path) -> Result<Option<Self>, KeysError> {
        let one = |name: &str| Self::load_one(&data.join("keys").join(name));
        Ok(match (one("head.seed")?, one("cosign.seed")?, one("cose.seed")?) {
            (Some(head), Some(cosign), Some(cose)) => Some(Self { head, cosign, cose }),
            _ => None,
        })
    }

    fn load_one(path: &Path) -> Result<Option<Hash>, KeysError> {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let seed = text.strip_suffix('\n').and_then(B32::from_hex);
                let malformed = || KeysError::Malformed { path: path.to_owned() };
                Ok(Some(seed.ok_or_else(malformed)?.0))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(KeysError::File { path: path.to_owned(), error }),
        }
    }

    fn load_or_draw_one(path: &Path, entropy: &dyn Entropy) -> Result<Hash, KeysError> {
        if let Some(seed) = Self::load_one(path)? {
            return Ok(seed);
        }
        let seed = entropy.bytes32()?;
        durable::create(path, format!("{}\n", hex(&seed)).as_bytes(), 0o600)
            .map_err(|error| KeysError::File { path: path.to_owned(), error })?;
        Ok(seed)
    }

    /// The origin of a log that was given none: it names the head key.
    ///
    /// # Errors
    /// [`KeysError::Key`], which does not happen for this name.
    pub fn default_origin(&self) -> Result<String, KeysError> {
        let signer = Signer::from_seed("worldlog.local", KeyType::Ed25519, &self.head)?;
        let digest = sha256(signer.verifier_key().public_bytes());
        let id: String = hex(&digest).chars().take(8).collect();
        Ok(format!("worldlog.local/{id}"))
    }
}

/// The keys under the log's name.
#[derive(Debug)]
pub struct Keys {
    origin: String,
    /// Signs every head.
    pub head: Signer,
    /// Signs a head a second.
    pub cosign: Signer,
    /// Signs receipts.
    pub cose: Signer,
}

impl Keys {
    /// The keys of the log `origin`.
    ///
    /// # Errors
    /// [`KeysError::Key`] when the origin cannot name a key.
    pub fn new(origin: &str, seeds: &Seeds) -> Result<Self, KeysError> {
        Ok(Self {
            origin: origin.to_owned(),
            head: Signer::from_seed(origin, KeyType::Ed25519, &seeds.head)?,
            cosign: Signer::from_seed(origin, KeyType::MlDsa44, &seeds.cosign)?,
            cose: Signer::from_seed(origin, KeyType::Ed25519, &seeds.cose)?,
        })
    }

    /// Name of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The key that an auditor needs.
    pub fn verifier_key(&self) -> &VerifierKey {
        self.head.verifier_key()
    }

    /// The keys as genesis publishes them.
    pub fn published(&self) -> Vec<Key> {
        let one = |signer: &Signer, alg, usage| {
            let public = signer.verifier_key().public_bytes().to_vec();
            Key {
                id: key_id(&self.origin, usage, &public),
                alg,
                pop: crate::event::Blob(signer.sign_raw(&possession_message(
                    &self.origin,
                    usage,
                    &public,
                ))),
                public: crate::event::Blob(public),
                usage,
                from: 0,
                until: None,
                reason: KeyReason::Genesis,
            }
        };
        vec![
            one(&self.head, Alg::Ed25519, Use::Head),
            one(&self.cosign, Alg::MlDsa44, Use::Cosign),
            one(&self.cose, Alg::Ed25519, Use::Cose),
        ]
    }
}
