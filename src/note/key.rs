//! Keys of signed notes: their text, their ids, and the two signature algorithms. The only file that names the
//! crates `ed25519-dalek` and `ml-dsa`.
//!
//! ```text
//! vkey   <name>+<8 lowercase hex digits of the id>+<base64 of (type || public key)>
//! id     the first 4 bytes of SHA-256(name || 0x0A || type || public key)
//! type   0x01 Ed25519 note signature              public key 32 bytes, signature 64
//!        0x04 Ed25519 timestamped cosignature     public key 32 bytes, signature 64
//!        0x06 ML-DSA-44 timestamped cosignature   public key 1,312 bytes, signature 2,420
//! name   1..=255 bytes of UTF-8 without Unicode spaces, characters below 0x20 and '+'
//! ```
//!
//! What each type signs is in `cosign`; here a message is bytes. Signing is deterministic in both algorithms, so that
//! this module needs no randomness. Ed25519 verification is strict: no small-order key or commitment, no second
//! encoding of a number. ML-DSA is in pure mode with an empty context (FIPS 204).

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64, Encoding};
use ed25519_dalek::Signer as _;
use ml_dsa::{Keypair as _, MlDsa44, SignatureEncoding as _, Verifier as _};

use crate::limits;
use crate::merkle::Hex;
use crate::merkle::hash::sha256_parts;

/// Bytes of an Ed25519 public key.
pub const ED25519_KEY_BYTES: usize = 32;
/// Bytes of an Ed25519 signature.
pub const ED25519_SIGNATURE_BYTES: usize = 64;
/// Bytes of an ML-DSA-44 public key.
pub const ML_DSA_44_KEY_BYTES: usize = 1_312;
/// Bytes of an ML-DSA-44 signature.
pub const ML_DSA_44_SIGNATURE_BYTES: usize = 2_420;

/// The four bytes that a signature line carries, so that a verifier finds the key.
pub type KeyId = [u8; 4];

/// Why a name, a key or a raw signature is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A key's text is longer than any key's.
    #[error("key text has {bytes} bytes, more than {max}", max = limits::VKEY_BYTES_MAX)]
    TooLong {
        /// As given.
        bytes: usize,
    },
    /// A key's text is not three parts separated by `+`.
    #[error("key text is not <name>+<id>+<key>")]
    Parts,
    /// The name is not one.
    #[error("key name: {0}")]
    Name(#[from] NameError),
    /// The id is not eight lowercase hex digits.
    #[error("key id is not 8 lowercase hex digits")]
    IdDigits,
    /// The id is that of another key or name.
    #[error("key id is {given}, but name and key have the id {computed}", given = Hex(given), computed = Hex(computed))]
    Id {
        /// As in the text.
        given: KeyId,
        /// Of the name and key in the text.
        computed: KeyId,
    },
    /// The key is not base64 in its one canonical form.
    #[error("key is not canonical base64")]
    Base64,
    /// The type byte is missing or not one of ours.
    #[error("key type {0:#04x} is not supported")]
    Type(u8),
    /// There is nothing, not even a type, in the base64.
    #[error("key is empty")]
    Empty,
    /// The public key has another length than its type's.
    #[error("public key has {actual} bytes instead of {expected}")]
    KeyBytes {
        /// For this type.
        expected: usize,
        /// As given.
        actual: usize,
    },
    /// An Ed25519 public key that is no point of the curve, or not in its one canonical form.
    #[error("public key is not the canonical form of a point")]
    Point,
    /// An Ed25519 public key of small order: signatures by it prove nothing.
    #[error("public key has small order")]
    SmallOrder,
    /// The signature has another length than its type's.
    #[error("signature has {actual} bytes instead of {expected}")]
    SignatureBytes {
        /// For this type.
        expected: usize,
        /// As given.
        actual: usize,
    },
    /// The signature is not by this key, or not over this message.
    #[error("signature does not verify")]
    Signature,
    /// A key of this type does not make this kind of signature.
    #[error("a key of type {0} does not make this kind of signature")]
    Use(KeyType),
    /// Two trusted keys have the same name and id.
    #[error("two trusted keys have the name {name} and the id {id}", id = Hex(id))]
    SameId {
        /// The name of both.
        name: String,
        /// The id of both.
        id: KeyId,
    },
    /// One public key is trusted under two names or types: it would count twice.
    #[error("the keys {first} and {second} are one public key")]
    SameKey {
        /// The name of one.
        first: String,
        /// The name of the other.
        second: String,
    },
}

/// Why a name cannot be that of a key or a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is nothing.
    #[error("is empty")]
    Empty,
    /// More than `ORIGIN_BYTES_MAX` bytes.
    #[error("has {bytes} bytes, more than {max}", max = limits::ORIGIN_BYTES_MAX)]
    TooLong {
        /// As given.
        bytes: usize,
    },
    /// A Unicode space, a character below 0x20, or `+`.
    #[error("contains {0:?}")]
    Character(char),
}

/// Checks the grammar of a key name, which is also that of our origins.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > limits::ORIGIN_BYTES_MAX {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    match name.chars().find(|c| c.is_whitespace() || *c < ' ' || *c == '+') {
        Some(character) => Err(NameError::Character(character)),
        None => Ok(()),
    }
}

/// What a key is for. The number is the type byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum KeyType {
    /// 0x01: an Ed25519 signature over the text of a note.
    Ed25519 = 0x01,
    /// 0x04: an Ed25519 signature over a time and a checkpoint.
    Ed25519Cosignature = 0x04,
    /// 0x06: an ML-DSA-44 signature over a cosigner, a time and a subtree.
    MlDsa44 = 0x06,
}

impl KeyType {
    fn from_byte(byte: u8) -> Result<Self, KeyError> {
        match byte {
            0x01 => Ok(Self::Ed25519),
            0x04 => Ok(Self::Ed25519Cosignature),
            0x06 => Ok(Self::MlDsa44),
            other => Err(KeyError::Type(other)),
        }
    }

    /// The type byte.
    pub fn byte(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.byte())
    }
}

/// A public key with its name and use. Whoever holds one has a key that is neither malformed nor of small order.
#[derive(Clone, PartialEq)]
pub struct VerifierKey {
    name: String,
    id: KeyId,
    kind: KeyType,
    bytes: Vec<u8>,
    key: PublicKey,
}

#[derive(Clone, PartialEq)]
enum PublicKey {
    Ed25519(Box<ed25519_dalek::VerifyingKey>),
    MlDsa44(Box<ml_dsa::VerifyingKey<MlDsa44>>),
}

impl VerifierKey {
    /// A key of `kind` from its raw public bytes.
    pub fn new(name: &str, kind: KeyType, public: &[u8]) -> Result<Self, KeyError> {
        check_name(name)?;
        let key = match kind {
            KeyType::Ed25519 | KeyType::Ed25519Cosignature => {
                PublicKey::Ed25519(Box::new(ed25519_key(public)?))
            }
            KeyType::MlDsa44 => PublicKey::MlDsa44(Box::new(ml_dsa_44_key(public)?)),
        };
        let id = key_id(name, kind, public);
        Ok(Self { name: name.to_owned(), id, kind, bytes: public.to_vec(), key })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The type.
    pub fn kind(&self) -> KeyType {
        self.kind
    }

    /// The raw public key: 32 or 1,312 bytes.
    pub fn public_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Verifies a raw signature over `message`, without regard to what the type of the key says about messages.
    pub fn verify_raw(&self, message: &[u8], signature: &[u8]) -> Result<(), KeyError> {
        match &self.key {
            PublicKey::Ed25519(key) => verify_ed25519(key, message, signature),
            PublicKey::MlDsa44(key) => verify_ml_dsa_44(key, message, signature),
        }
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typed = [&[self.kind.byte()], self.bytes.as_slice()].concat();
        write!(f, "{}+{}+{}", self.name, Hex(&self.id), Base64::encode_string(&typed))
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({}+{})", self.name, Hex(&self.id))
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.len() > limits::VKEY_BYTES_MAX {
            return Err(KeyError::TooLong { bytes: text.len() });
        }
        // The base64 may contain `+` itself; name and id may not.
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::Parts);
        };
        check_name(name)?;
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if id.len() != 8 || !id.bytes().all(digit) {
            return Err(KeyError::IdDigits);
        }
        let given = u32::from_str_radix(id, 16).map_err(|_| KeyError::IdDigits)?.to_be_bytes();
        let typed = Base64::decode_vec(key).map_err(|_| KeyError::Base64)?;
        let (kind, public) = typed.split_first().ok_or(KeyError::Empty)?;
        let key = Self::new(name, KeyType::from_byte(*kind)?, public)?;
        if key.id != given {
            return Err(KeyError::Id { given, computed: key.id });
        }
        Ok(key)
    }
}

/// A secret key with its name and use. It is never printed, and its memory is cleared when it is dropped.
pub struct Signer {
    public: VerifierKey,
    secret: Secret,
}

enum Secret {
    Ed25519(Box<ed25519_dalek::SigningKey>),
    MlDsa44(Box<ml_dsa::SigningKey<MlDsa44>>),
}

impl Signer {
    /// The key of `kind` that the seed of 32 random bytes stands for (RFC 8032 section 5.1.5; FIPS 204 algorithm 6).
    pub fn from_seed(name: &str, kind: KeyType, seed: &[u8; 32]) -> Result<Self, KeyError> {
        let (secret, public) = match kind {
            KeyType::Ed25519 | KeyType::Ed25519Cosignature => {
                let secret = ed25519_dalek::SigningKey::from_bytes(seed);
                let public = secret.verifying_key().to_bytes().to_vec();
                (Secret::Ed25519(Box::new(secret)), public)
            }
            KeyType::MlDsa44 => {
                let secret = ml_dsa::SigningKey::<MlDsa44>::from_seed(&(*seed).into());
                let public = secret.verifying_key().encode().to_vec();
                (Secret::MlDsa44(Box::new(secret)), public)
            }
        };
        Ok(Self { public: VerifierKey::new(name, kind, &public)?, secret })
    }

    /// The public half.
    pub fn verifier_key(&self) -> &VerifierKey {
        &self.public
    }

    /// The raw signature over `message`: 64 or 2,420 bytes.
    ///
    /// Whoever signs something that is no note (a proof of possession) must make sure that the message cannot be read
    /// as one.
    pub fn sign_raw(&self, message: &[u8]) -> Vec<u8> {
        match &self.secret {
            Secret::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
            Secret::MlDsa44(key) => key.sign(message).to_bytes().to_vec(),
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({}+{})", self.public.name, Hex(&self.public.id))
    }
}

/// Keys that are trusted together. No two have the same name and id, and no public key is there twice, under whatever
/// name or type: counting keys is then counting holders.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    keys: Vec<VerifierKey>,
}

impl Keyring {
    /// A ring of these keys.
    pub fn new(keys: Vec<VerifierKey>) -> Result<Self, KeyError> {
        let mut seen: Vec<&VerifierKey> = Vec::with_capacity(keys.len());
        for key in &keys {
            for other in &seen {
                if other.name == key.name && other.id == key.id {
                    return Err(KeyError::SameId { name: key.name.clone(), id: key.id });
                }
                if other.bytes == key.bytes {
                    return Err(KeyError::SameKey {
                        first: other.name.clone(),
                        second: key.name.clone(),
                    });
                }
            }
            seen.push(key);
        }
        Ok(Self { keys })
    }

    /// The key with this name and id.
    pub fn find(&self, name: &str, id: KeyId) -> Option<&VerifierKey> {
        self.keys.iter().find(|key| key.name == name && key.id == id)
    }

    /// All keys, in the order in which they were given.
    pub fn keys(&self) -> &[VerifierKey] {
        &self.keys
    }
}

/// The Ed25519 public key of a seed, for keys that have no name (COSE, a proof of possession).
pub fn ed25519_public(seed: &[u8; 32]) -> [u8; ED25519_KEY_BYTES] {
    ed25519_dalek::SigningKey::from_bytes(seed).verifying_key().to_bytes()
}

/// The Ed25519 signature over `message` by the key of a seed.
pub fn ed25519_sign(seed: &[u8; 32], message: &[u8]) -> [u8; ED25519_SIGNATURE_BYTES] {
    ed25519_dalek::SigningKey::from_bytes(seed).sign(message).to_bytes()
}

/// Verifies an Ed25519 signature as strictly as [`VerifierKey::verify_raw`], the key included.
pub fn ed25519_verify(public: &[u8], message: &[u8], signature: &[u8]) -> Result<(), KeyError> {
    verify_ed25519(&ed25519_key(public)?, message, signature)
}

/// The ML-DSA-44 public key of a seed: 1,312 bytes.
pub fn ml_dsa_44_public(seed: &[u8; 32]) -> Vec<u8> {
    ml_dsa::SigningKey::<MlDsa44>::from_seed(&(*seed).into()).verifying_key().encode().to_vec()
}

/// The deterministic ML-DSA-44 signature over `message` by the key of a seed: 2,420 bytes.
pub fn ml_dsa_44_sign(seed: &[u8; 32], message: &[u8]) -> Vec<u8> {
    ml_dsa::SigningKey::<MlDsa44>::from_seed(&(*seed).into()).sign(message).to_bytes().to_vec()
}

/// Verifies an ML-DSA-44 signature: pure mode, empty context.
pub fn ml_dsa_44_verify(public: &[u8], message: &[u8], signature: &[u8]) -> Result<(), KeyError> {
    verify_ml_dsa_44(&ml_dsa_44_key(public)?, message, signature)
}

/// The id of a key: the first four bytes of SHA-256(name || 0x0A || type || public key).
pub fn key_id(name: &str, kind: KeyType, public: &[u8]) -> KeyId {
    let [a, b, c, d, ..] = sha256_parts(&[name.as_bytes(), b"\n", &[kind.byte()], public]);
    [a, b, c, d]
}

fn ed25519_key(public: &[u8]) -> Result<ed25519_dalek::VerifyingKey, KeyError> {
    let bytes = public
        .try_into()
        .map_err(|_| KeyError::KeyBytes { expected: ED25519_KEY_BYTES, actual: public.len() })?;
    if !canonical_y(bytes) {
        return Err(KeyError::Point);
    }
    let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::Point)?;
    if key.is_weak() { Err(KeyError::SmallOrder) } else { Ok(key) }
}

fn verify_ed25519(
    key: &ed25519_dalek::VerifyingKey,
    message: &[u8],
    signature: &[u8],
) -> Result<(), KeyError> {
    let wrong =
        KeyError::SignatureBytes { expected: ED25519_SIGNATURE_BYTES, actual: signature.len() };
    let signature = ed25519_dalek::Signature::from_slice(signature).map_err(|_| wrong)?;
    key.verify_strict(message, &signature).map_err(|_| KeyError::Signature)
}

/// Whether the y coordinate (little-endian, 255 bits) is below 2^255 - 19. The library reduces it silently, and then
/// one key would have two encodings, two ids and two votes.
fn canonical_y(bytes: &[u8; ED25519_KEY_BYTES]) -> bool {
    let [lowest, middle @ .., highest] = bytes;
    *lowest < 0xed || *highest & 0x7f != 0x7f || middle.iter().any(|byte| *byte != 0xff)
}

fn ml_dsa_44_key(public: &[u8]) -> Result<ml_dsa::VerifyingKey<MlDsa44>, KeyError> {
    let encoded = ml_dsa::EncodedVerifyingKey::<MlDsa44>::try_from(public)
        .map_err(|_| KeyError::KeyBytes { expected: ML_DSA_44_KEY_BYTES, actual: public.len() })?;
    Ok(ml_dsa::VerifyingKey::<MlDsa44>::decode(&encoded))
}

fn verify_ml_dsa_44(
    key: &ml_dsa::VerifyingKey<MlDsa44>,
    message: &[u8],
    signature: &[u8],
) -> Result<(), KeyError> {
    if signature.len() != ML_DSA_44_SIGNATURE_BYTES {
        return Err(KeyError::SignatureBytes {
            expected: ML_DSA_44_SIGNATURE_BYTES,
            actual: signature.len(),
        });
    }
    let signature =
        ml_dsa::Signature::<MlDsa44>::try_from(signature).map_err(|_| KeyError::Signature)?;
    key.verify(message, &signature).map_err(|_| KeyError::Signature)
}
