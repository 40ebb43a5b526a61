//! Keys and notes that we make ourselves: what we sign, we and the others read.

use worldlog::limits::{NOTE_BYTES_MAX, PROOF_FILE_BYTES_MAX};
use worldlog::merkle::Head;
use worldlog::merkle::hash::sha256;
use worldlog::note::bundle::{Bundle, BundleError};
use worldlog::note::checkpoint::{
    Checkpoint, CheckpointError, Extensions, Policy, PolicyError, VerifiedCheckpoint,
};
use worldlog::note::cosign::{Subtree, cosign, sign_note, subtree_message};
use worldlog::note::key::{self, KeyError, KeyType, Keyring, NameError, Signer, VerifierKey};
use worldlog::note::{Note, NoteError, SignatureFault};

use super::{ORIGIN, golden, log_signer, witness_signer};

const SECONDS: u64 = 1_767_000_000;

fn pq(name: &str) -> Signer {
    Signer::from_seed(name, KeyType::MlDsa44, &sha256(b"tlog-try pq key")).unwrap()
}

fn checkpoint(head: Head) -> Checkpoint {
    Checkpoint::new(ORIGIN, head).unwrap()
}

fn public(signers: &[&Signer]) -> Vec<VerifierKey> {
    signers.iter().map(|signer| signer.verifier_key().clone()).collect()
}

/// Our signatures are byte for byte those of the golden log, which others made and verified.
#[test]
fn signing_is_deterministic_and_agrees_with_the_golden_log() {
    let file = super::fixtures().join("vectors/tlog-vectors.json");
    let vectors: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let expected = vectors["golden_log"]["checkpoint_70000"].as_str().unwrap();
    let checkpoint = checkpoint(golden().0.head());
    let text = checkpoint.to_string();
    let lines = vec![
        sign_note(&log_signer(), &text).unwrap(),
        cosign(&witness_signer(), &checkpoint, SECONDS).unwrap(),
    ];
    assert_eq!(Note::new(&text, lines).unwrap().to_string(), expected);
}

/// The head as the server publishes it: Ed25519 and ML-DSA-44, both in the name of the origin.
fn published() -> (Policy, Note) {
    let (log, pq, witness) = (log_signer(), pq(ORIGIN), witness_signer());
    let checkpoint = checkpoint(golden().0.head());
    let text = checkpoint.to_string();
    let lines = vec![
        sign_note(&log, &text).unwrap(),
        cosign(&pq, &checkpoint, SECONDS).unwrap(),
        cosign(&witness, &checkpoint, SECONDS + 1).unwrap(),
    ];
    let policy = Policy::new(ORIGIN, public(&[&log, &pq]), public(&[&witness]), 1).unwrap();
    (policy, Note::new(&text, lines).unwrap())
}

fn open(policy: &Policy, note: &Note) -> VerifiedCheckpoint {
    policy.open(note.to_string().as_bytes()).unwrap()
}

#[test]
fn a_published_head_tells_who_signed_it() {
    let (policy, note) = published();
    let verified = open(&policy, &note);
    assert_eq!((verified.origin(), verified.head()), (ORIGIN, golden().0.head()));
    let log: Vec<_> =
        verified.log().iter().map(|s| (s.name.as_str(), s.kind, s.timestamp)).collect();
    assert_eq!(log, [(ORIGIN, KeyType::Ed25519, None), (ORIGIN, KeyType::MlDsa44, Some(SECONDS))]);
    assert_eq!(verified.witnesses().len(), 1);
    assert_eq!(verified.witnesses()[0].timestamp, Some(SECONDS + 1));
    // Either key of the log is enough for whoever trusts only that one.
    for key in policy.log_keys() {
        let one = Policy::new(ORIGIN, vec![key.clone()], Vec::new(), 0).unwrap();
        let verified = open(&one, &note);
        assert_eq!((verified.log().len(), verified.witnesses().len()), (1, 0));
        assert_eq!(verified.log()[0].id, key.id());
    }
}

/// go-tuf#733, python-tuf#1091, dsse#51: one key is one witness, whatever it calls itself.
#[test]
fn one_key_does_not_count_twice() {
    let seed = sha256(b"tlog-try witness key");
    let named = |name, kind| Signer::from_seed(name, kind, &seed).unwrap();
    let w1 = witness_signer();
    let w2 = named("witness.example/w2", KeyType::Ed25519Cosignature);
    let note_key = named("witness.example/w1", KeyType::Ed25519);
    let log = public(&[&log_signer()]);
    let same = |second: &str| {
        let first = "witness.example/w1".to_owned();
        Err(KeyError::SameKey { first, second: second.to_owned() })
    };
    for (other, second) in [(&w2, "witness.example/w2"), (&note_key, "witness.example/w1")] {
        assert_eq!(Keyring::new(public(&[&w1, other])).map(|_| ()), same(second));
    }
    let twice = Keyring::new(public(&[&w1, &w1])).unwrap_err();
    assert!(matches!(twice, KeyError::SameId { .. }));
    let policy = Policy::new(ORIGIN, log.clone(), public(&[&w1, &w2]), 2);
    assert_eq!(policy.map(|_| ()), same("witness.example/w2").map_err(PolicyError::Keys));
    // With one of the names trusted, lines under both do not make a quorum of two, nor do two lines of one.
    let other = pq("pq.example");
    let policy = Policy::new(ORIGIN, log, public(&[&w1, &other]), 2).unwrap();
    let checkpoint = checkpoint(golden().0.head());
    let text = checkpoint.to_string();
    let log = sign_note(&log_signer(), &text).unwrap();
    let line = |signer: &Signer, seconds| cosign(signer, &checkpoint, seconds).unwrap();
    let lines = vec![log.clone(), line(&w1, SECONDS), line(&w2, SECONDS)];
    let error = policy.open_note(&Note::new(&text, lines).unwrap()).unwrap_err();
    assert_eq!(error, CheckpointError::Quorum { needed: 2, actual: 1 });
    let lines = vec![log.clone(), line(&w1, SECONDS), line(&w1, SECONDS + 1)];
    let error = policy.open_note(&Note::new(&text, lines).unwrap()).unwrap_err();
    assert!(matches!(error, CheckpointError::Note(NoteError::Duplicate { line: 7, .. })));
    let lines = vec![line(&other, SECONDS), log, line(&w1, SECONDS)];
    assert_eq!(policy.open_note(&Note::new(&text, lines).unwrap()).unwrap().witnesses().len(), 2);
}

#[test]
fn extension_lines_are_represented_and_refused() {
    let head = golden().0.head();
    let text = format!("{}frozen\n", checkpoint(head));
    let extended = Checkpoint::parse(&text).unwrap();
    assert_eq!(
        (extended.to_string(), extended.extensions()),
        (text.clone(), &["frozen".into()][..])
    );
    let (log, pq, witness) = (log_signer(), pq("pq.example"), witness_signer());
    for signer in [&pq, &witness] {
        assert_eq!(cosign(signer, &extended, SECONDS), Err(SignatureFault::Extensions));
    }
    let note = Note::new(&text, vec![sign_note(&log, &text).unwrap()]).unwrap();
    let policy = Policy::new(ORIGIN, public(&[&log]), public(&[&pq]), 0).unwrap();
    assert_eq!(policy.open_note(&note), Err(CheckpointError::Extensions { lines: 1 }));
    let lenient = policy.with_extensions(Extensions::Allow);
    assert_eq!(lenient.open_note(&note).unwrap().checkpoint(), &extended);
    // An ML-DSA-44 line made for the three lines does not vouch for a fourth.
    let borrowed = cosign(&pq, &checkpoint(head), SECONDS).unwrap();
    let note = Note::new(&text, vec![note.signatures()[0].clone(), borrowed]).unwrap();
    match lenient.open_note(&note) {
        Err(CheckpointError::Note(NoteError::Signature { cause, .. })) => {
            assert_eq!(cause, SignatureFault::Extensions);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bundle_is_made_and_read() {
    let (policy, note) = published();
    let (tree, full) = golden();
    let mut reader =
        worldlog::merkle::reader::Reader::open(tree.head(), Stored(tree, full)).unwrap();
    let proof = reader.inclusion_proof(69_999, 70_000).unwrap();
    let bundle = Bundle::new(69_999, proof, note).unwrap();
    let bundle = bundle.with_extra(b"hint".to_vec()).unwrap();
    assert_eq!(bundle.extra(), Some(b"hint".as_slice()));
    let parsed = Bundle::parse(bundle.to_string().as_bytes()).unwrap();
    assert_eq!(parsed, bundle);
    let verified = parsed.verify(&policy, b"event-69999").unwrap();
    assert_eq!(verified.included.index, 69_999);
    assert_eq!(verified.checkpoint.log().len(), 2);
    assert_eq!(parsed.with_extra(Vec::new()).unwrap_err(), BundleError::Extra);
}

struct Stored<'a>(&'a worldlog::merkle::tree::Tree, &'a [worldlog::merkle::tree::FullTile]);

impl worldlog::merkle::reader::TileSource for Stored<'_> {
    type Error = ();

    fn read(&mut self, id: worldlog::merkle::tile::TileId) -> Result<Vec<u8>, ()> {
        let partial = self.0.partials().find(|(partial, _)| *partial == id);
        let full = || self.1.iter().find(|tile| tile.id == id).map(|tile| tile.hashes.concat());
        partial.map(|(_, hashes)| hashes.concat()).or_else(full).ok_or(())
    }
}

#[test]
fn limits_are_checked_before_anything_else() {
    let long = vec![0xff; NOTE_BYTES_MAX + 1];
    assert_eq!(Note::parse(&long), Err(NoteError::TooLong { bytes: long.len() }));
    assert_eq!(Note::parse(&long[1..]), Err(NoteError::NotUtf8 { at: 0 }));
    let long = vec![0xff; PROOF_FILE_BYTES_MAX + 1];
    assert_eq!(Bundle::parse(&long), Err(BundleError::TooLong { bytes: long.len() }));
    assert_eq!(Bundle::parse(&long[1..]), Err(BundleError::NoCheckpoint));
}

#[test]
fn a_policy_says_what_is_wrong_with_its_keys() {
    let (log, witness, pq) = (log_signer(), witness_signer(), pq(ORIGIN));
    let new = |origin, log: &[&Signer], witnesses: &[&Signer], quorum| {
        Policy::new(origin, public(log), public(witnesses), quorum).map(|_| ()).unwrap_err()
    };
    assert_eq!(new("a b", &[&log], &[], 0), PolicyError::Origin(NameError::Character(' ')));
    assert_eq!(new(ORIGIN, &[], &[], 0), PolicyError::NoLogKey);
    let error = new("other.example", &[&log], &[], 0);
    assert!(matches!(error, PolicyError::LogKeyName { .. }), "{error}");
    let named = Signer::from_seed(ORIGIN, KeyType::Ed25519Cosignature, &[7; 32]).unwrap();
    let error = new(ORIGIN, &[&named], &[], 0);
    assert!(matches!(error, PolicyError::LogKeyType { .. }), "{error}");
    for wrong in [&log, &pq] {
        let error = new(ORIGIN, &[&log], &[wrong], 0);
        assert!(matches!(error, PolicyError::WitnessKey { .. }), "{error}");
    }
    let error = new(ORIGIN, &[&log], &[&witness], 2);
    assert_eq!(error, PolicyError::Quorum { quorum: 2, witnesses: 1 });
}

#[test]
fn keys_sign_what_their_type_signs_and_nothing_else() {
    let (log, pq, witness) = (log_signer(), pq(ORIGIN), witness_signer());
    let checkpoint = checkpoint(golden().0.head());
    for signer in [&pq, &witness] {
        let kind = signer.verifier_key().kind();
        assert_eq!(sign_note(signer, "text\n"), Err(KeyError::Use(kind)));
    }
    let wrong = SignatureFault::Key(KeyError::Use(KeyType::Ed25519));
    assert_eq!(cosign(&log, &checkpoint, SECONDS), Err(wrong));
    assert_eq!(cosign(&pq, &checkpoint, 1 << 63), Err(SignatureFault::Timestamp(1 << 63)));
    // A cosignature under a text that is no checkpoint says nothing.
    let line = cosign(&witness, &checkpoint, SECONDS).unwrap();
    let note = Note::new("no checkpoint\n", vec![line]).unwrap();
    match note.verify(&Keyring::new(public(&[&witness])).unwrap()) {
        Err(NoteError::Signature { cause, line: 3, .. }) => {
            assert_eq!(cause, SignatureFault::NoCheckpoint);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn raw_signatures_prove_possession() {
    for kind in [KeyType::Ed25519, KeyType::Ed25519Cosignature, KeyType::MlDsa44] {
        let signer = Signer::from_seed("a.example", kind, &[9; 32]).unwrap();
        let key: VerifierKey = signer.verifier_key().to_string().parse().unwrap();
        let signature = signer.sign_raw(b"message");
        assert_eq!(signature, signer.sign_raw(b"message"), "deterministic");
        key.verify_raw(b"message", &signature).unwrap();
        assert_eq!(key.verify_raw(b"massage", &signature), Err(KeyError::Signature));
        let expected = signature.len();
        let short = key.verify_raw(b"message", &signature[1..]);
        assert_eq!(short, Err(KeyError::SignatureBytes { expected, actual: expected - 1 }));
        for at in [0, expected / 2, expected - 1] {
            let mut changed = signature.clone();
            changed[at] ^= 1;
            assert_eq!(key.verify_raw(b"message", &changed), Err(KeyError::Signature), "byte {at}");
        }
        assert!(!format!("{signer:?}").contains("09"), "a secret is printed");
    }
}

/// Keys without a name, for COSE and for proofs of possession, are the same keys.
#[test]
fn bare_keys_agree_with_named_ones() {
    let seed = [9; 32];
    let named = |kind| Signer::from_seed("a.example", kind, &seed).unwrap();
    let (ed, pq) = (named(KeyType::Ed25519), named(KeyType::MlDsa44));
    let public = (key::ed25519_public(&seed), key::ml_dsa_44_public(&seed));
    assert_eq!(public.0, ed.verifier_key().public_bytes());
    assert_eq!(public.1, pq.verifier_key().public_bytes());
    let made = (key::ed25519_sign(&seed, b"pop"), key::ml_dsa_44_sign(&seed, b"pop"));
    assert_eq!((made.0.as_slice(), &made.1), (&*ed.sign_raw(b"pop"), &pq.sign_raw(b"pop")));
    key::ed25519_verify(&public.0, b"pop", &made.0).unwrap();
    key::ml_dsa_44_verify(&public.1, b"pop", &made.1).unwrap();
    assert_eq!(key::ed25519_verify(&public.0, b"pup", &made.0), Err(KeyError::Signature));
    assert_eq!(key::ml_dsa_44_verify(&public.1, b"pup", &made.1), Err(KeyError::Signature));
    // A key of small order verifies nothing, not even what the equation would admit.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let admitted = [neutral, [0; 32]].concat();
    assert_eq!(key::ed25519_verify(&neutral, b"pop", &admitted), Err(KeyError::SmallOrder));
}

#[test]
fn subtree_messages_are_laid_out_as_specified() {
    let subtree = Subtree {
        cosigner: "w",
        timestamp: 0x0102,
        origin: "log",
        start: 0,
        end: 5,
        root: [0xab; 32],
    };
    let mut expected = b"subtree/v1\n\0\x01w".to_vec();
    expected.extend(b"\0\0\0\0\0\0\x01\x02\x03log");
    expected.extend([[0; 8], [0, 0, 0, 0, 0, 0, 0, 5]].concat());
    expected.extend([0xab; 32]);
    assert_eq!(subtree_message(&subtree).unwrap(), expected);
    for (start, end, timestamp) in [(6, 5, 0), (3, 3, 0), (2, 5, 1)] {
        let wrong = Subtree { start, end, timestamp, ..subtree };
        let fault = SignatureFault::Subtree { start, end, timestamp };
        assert_eq!(subtree_message(&wrong), Err(fault));
    }
    subtree_message(&Subtree { start: 4, end: 5, timestamp: 0, ..subtree }).unwrap();
    let long = "n".repeat(256);
    let error = subtree_message(&Subtree { origin: &long, ..subtree });
    assert_eq!(error, Err(SignatureFault::Name(NameError::TooLong { bytes: 256 })));
}
