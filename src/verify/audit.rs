//! The structure and lawfulness of a log: canonical form, both chains, tree, head, fold.

use super::Report;
use crate::event::{Alg, Body, Event, EventError, Front, Key, Use};
use crate::merkle::Head;
use crate::merkle::hash::{Hash, leaf_hash};
use crate::merkle::tree::{FullTile, Tree};
use crate::note::checkpoint::{Checkpoint, CheckpointError, Policy};
use crate::note::key::{KeyType, VerifierKey};
use crate::note::{Note, NoteError};
use crate::state::{State, Unlawful};

/// What the auditor brings along.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The log's verifier keys, from outside. Empty: the log can only be consistent with itself.
    pub keys: Vec<VerifierKey>,
    /// The bytes of a head that the auditor saw before.
    pub seen: Option<Vec<u8>>,
}

/// A running audit. Feed every event from the first, then finish with the head.
#[derive(Debug)]
pub struct Audit {
    /// What is found on the way.
    pub report: Report,
    state: State,
    tree: Tree,
    full: Vec<FullTile>,
    /// Root at the size of the head that was seen before.
    seen: Option<(Head, Option<Hash>)>,
    trust: Trust,
    /// The head that came with the events, when its signature holds.
    signed: Option<Head>,
    /// An event could not be read: what follows cannot be folded.
    blind: bool,
    fold_unknown: u64,
}

impl Audit {
    /// An audit from the first event.
    pub fn new(trust: Trust) -> Self {
        Self::resume(trust, State::new(), Tree::new())
    }

    /// An audit that goes on where `state` and `tree` stand; the caller verified them.
    pub fn resume(trust: Trust, state: State, tree: Tree) -> Self {
        let mut audit = Self {
            report: Report::default(),
            state,
            tree,
            full: Vec::new(),
            seen: None,
            trust,
            signed: None,
            blind: false,
            fold_unknown: 0,
        };
        audit.open_seen();
        audit
    }

    /// The state after the events so far.
    pub fn state(&mut self) -> &mut State {
        &mut self.state
    }

    /// State and tree, to go on with.
    pub fn into_parts(self) -> (Report, State, Tree) {
        (self.report, self.state, self.tree)
    }

    /// The tree over the events so far.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Tiles that filled since the last call, to be compared with what is stored.
    pub fn take_full_tiles(&mut self) -> Vec<FullTile> {
        std::mem::take(&mut self.full)
    }

    fn open_seen(&mut self) {
        let Some(bytes) = self.trust.seen.clone() else { return };
        let parsed = Note::parse(&bytes).map_err(CheckpointError::from);
        let parsed = parsed.and_then(|note| {
            if self.trust.keys.is_empty() {
                return Checkpoint::parse(note.text());
            }
            let checkpoint = Checkpoint::parse(note.text())?;
            open(checkpoint.origin(), &self.trust.keys, &note)?;
            Ok(checkpoint)
        });
        match parsed {
            Ok(checkpoint) => {
                let head = checkpoint.head();
                let root = (head.size == 0).then(|| Tree::new().root());
                checkpoint.origin().clone_into(&mut self.report.origin);
                self.seen = Some((head, root));
            }
            Err(error) => {
                self.report.find("seen-other-log", None, format!("the head seen before: {error}"));
            }
        }
    }

    /// Takes the next event into the tree only: a snapshot stands for what it does. [`Audit::adopt`] ends this.
    pub fn skip(&mut self, bytes: &[u8]) -> Hash {
        let leaf = leaf_hash(bytes);
        self.append(leaf);
        leaf
    }

    /// Goes on with a state whose leaf hash the caller compared with the events skipped.
    pub fn adopt(&mut self, state: State) {
        self.state = state;
        self.report.entries = self.state.entries();
    }

    fn append(&mut self, leaf: Hash) {
        if self.tree.append(leaf, &mut self.full).is_err() {
            let seq = self.tree.size();
            self.report.find("event-malformed", Some(seq), "the tree is full".into());
            return;
        }
        self.report.size = self.tree.size();
        if let Some((head, root)) = &mut self.seen
            && head.size == self.tree.size()
        {
            *root = Some(self.tree.root());
        }
    }

    /// Takes the next event.
    ///
    /// `expected` is the leaf hash that an authenticated tile names, when there is one: it tells a changed leaf from a
    /// changed tree.
    pub fn event(&mut self, bytes: &[u8], expected: Option<&Hash>) {
        let leaf = leaf_hash(bytes);
        let seq = self.tree.size();
        if expected.is_some_and(|hash| *hash != leaf) {
            self.report.find(
                "leaf-changed",
                Some(seq),
                "its bytes are not what the tree holds".into(),
            );
        }
        self.append(leaf);
        match Event::decode(bytes) {
            Ok(event) => self.fold(&event, &leaf),
            Err(error @ EventError::Version { .. }) => {
                self.blind = true;
                self.report.find("kind-unknown", Some(seq), error.to_string());
            }
            Err(EventError::Kind { kind }) => {
                self.blind = true;
                let detail = format!("kind {kind} at leaf {seq} needs a newer worldlog");
                self.report.find("kind-unknown", Some(seq), detail);
            }
            Err(error) => {
                self.blind = true;
                self.report.find("event-malformed", Some(seq), error.to_string());
            }
        }
    }

    fn fold(&mut self, event: &Event, leaf: &Hash) {
        if let Body::Genesis(genesis) = &event.body {
            self.keys(&genesis.origin, &genesis.keys, event.seq);
        }
        if let Body::Key(key) = &event.body {
            let origin = self.state.origin().to_owned();
            self.keys(&origin, std::slice::from_ref(key), event.seq);
        }
        if self.blind {
            // The fold has a hole, so that nothing it says about later events is worth reporting.
            return;
        }
        match self.state.check(event) {
            Ok(()) => self.report.seals += u64::from(matches!(event.body, Body::Seal(_))),
            Err(Unlawful::FoldUnknown) => self.fold_unknown += 1,
            Err(unlawful) => {
                let detail = format!("{} event: {}", event.body.kind(), unlawful.code());
                self.report.find(unlawful.code(), Some(event.seq), detail);
            }
        }
        if let Body::Plan(plan) = &event.body
            && plan.front == Front::Admin
        {
            self.report.operator_acts_count += 1;
            if self.report.operator_acts.len() < super::FINDINGS_MAX {
                self.report.operator_acts.push((event.seq, plan.tool.clone()));
            }
        }
        self.state.apply(event, leaf);
        // An audit never goes back, and remembering how would grow with the log.
        self.state.settle();
        self.report.entries = self.state.entries();
    }

    /// Each key signs that it is possessed.
    fn keys(&mut self, origin: &str, keys: &[Key], seq: u64) {
        for key in keys {
            if let Err(reason) = check_key(origin, key) {
                self.report.find("key-unproven", Some(seq), format!("key {}: {reason}", key.id));
            }
        }
    }

    /// Compares the events with the head that came with them, and the head with the keys and the earlier head.
    pub fn finish(&mut self, head: Option<&[u8]>) {
        self.report.root = self.tree.root();
        let origin = self.state.origin().to_owned();
        if self.report.origin.is_empty() {
            self.report.origin.clone_from(&origin);
        } else if !origin.is_empty() && self.report.origin != origin {
            let detail =
                format!("this log is {origin}, the head seen before is {}", self.report.origin);
            self.report.find("seen-other-log", None, detail);
            self.report.origin.clone_from(&origin);
        }
        if self.fold_unknown > 0 {
            let count = self.fold_unknown;
            self.report
                .unchecked
                .push(format!("state not recomputed at {count} seals of another fold"));
        }
        match head {
            Some(bytes) => self.head(&origin, bytes),
            None => self.report.find("head-missing", None, "there is no signed head".into()),
        }
        self.compare_seen();
    }

    fn head(&mut self, origin: &str, bytes: &[u8]) {
        let note = match Note::parse(bytes) {
            Ok(note) => note,
            Err(error) => {
                self.report.find("head-malformed", None, error.to_string());
                return;
            }
        };
        let keys = if self.trust.keys.is_empty() {
            let inside = log_keys(&self.state, origin);
            let ids: Vec<String> = inside.iter().map(ToString::to_string).collect();
            let id = ids.first().map_or("none", |text| text.split('+').nth(1).unwrap_or("none"));
            let detail = format!("consistent with key {id} found inside; no key was given");
            self.report.find("no-key", None, detail);
            inside
        } else {
            self.trust.keys.clone()
        };
        // Without a readable genesis the log has no name of its own; the key's, or the head's, is the one to go by.
        let named = Checkpoint::parse(note.text()).map(|checkpoint| checkpoint.origin().to_owned());
        let named = keys.first().map(|key| key.name().to_owned()).or(named.ok());
        let origin = if origin.is_empty() { named.as_deref().unwrap_or("") } else { origin };
        if !keys.is_empty() {
            self.signatures(origin, &keys, &note);
        }
        let Ok(checkpoint) = Checkpoint::parse(note.text()) else { return };
        let signed = checkpoint.head();
        let size = self.tree.size();
        if signed.size > size {
            let detail = format!("the head covers {} events, {size} are here", signed.size);
            self.report.find("leaf-missing", Some(size), detail);
        } else if signed.size < size {
            let detail = format!("the head covers {} events, {size} are here", signed.size);
            self.report.find("leaf-surplus", Some(signed.size), detail);
        } else if signed.root != self.tree.root() {
            self.report.find(
                "root-differs",
                None,
                "the events do not have the root that was signed".into(),
            );
        }
        let signed_here = signed == self.tree.head() && !self.report.signed_by.is_empty();
        self.signed = Some(signed).filter(|_| !self.report.signed_by.is_empty());
        if !signed_here {
            self.report.nobody_signed_these_events();
        }
    }

    fn signatures(&mut self, origin: &str, keys: &[VerifierKey], note: &Note) {
        match open(origin, keys, note) {
            Ok(signed) => {
                self.check_foreign(origin, &signed);
                self.report.signed_by = signed;
            }
            Err(error @ CheckpointError::OtherOrigin { .. }) => {
                self.report.find("head-other-log", None, error.to_string());
            }
            Err(CheckpointError::Note(
                error @ (NoteError::Untrusted | NoteError::Signature { .. }),
            )) => {
                self.report.find("head-forged", None, error.to_string());
            }
            Err(error) => self.report.find("head-malformed", None, error.to_string()),
        }
    }

    /// A key that signs the head without standing in the log would be a second authority that no event explains. Damaged
    /// bytes may have swallowed the event that names it, so that this is said of signed events only.
    fn check_foreign(&mut self, origin: &str, signed: &[String]) {
        let named = |key: &VerifierKey| format!("{}+{}", key.name(), crate::event::hex(&key.id()));
        let own: Vec<String> = log_keys(&self.state, origin).iter().map(named).collect();
        for name in signed.iter().filter(|name| !self.blind && !own.contains(name)) {
            self.report.find("key-foreign", None, format!("no event publishes the key {name}"));
        }
    }

    fn compare_seen(&mut self) {
        let Some((head, root)) = self.seen else { return };
        match root {
            _ if head.size > self.tree.size() => {
                let detail = format!(
                    "a head of {} events was seen, {} are here",
                    head.size,
                    self.tree.size()
                );
                self.report.find("seen-longer", Some(self.tree.size()), detail);
            }
            Some(root) if root == head.root => self.report.extends = Some(head.size),
            // Whoever signed the newer head did not sign these events. Only the heads can be compared, if at all.
            _ if self.signed == Some(head) => self.report.extends = Some(head.size),
            _ if self
                .signed
                .is_some_and(|signed| signed != self.tree.head() && signed.size != head.size) =>
            {
                let words = format!(
                    "whether the log extends the head of {} events: it is damaged",
                    head.size
                );
                self.report.unchecked.push(words);
            }
            _ => {
                let detail =
                    format!("the first {} events are not those of the head seen before", head.size);
                self.report.find("seen-inconsistent", None, detail);
            }
        }
    }
}

/// Verifies a head's signatures, and returns whose they are.
pub(super) fn open(
    origin: &str,
    keys: &[VerifierKey],
    note: &Note,
) -> Result<Vec<String>, CheckpointError> {
    let refused = |error: crate::note::checkpoint::PolicyError| CheckpointError::OtherOrigin {
        expected: origin.to_owned(),
        actual: error.to_string(),
    };
    let policy = Policy::new(origin, keys.to_vec(), Vec::new(), 0).map_err(refused)?;
    let verified = policy.open_note(note)?;
    let name =
        |signed: &crate::note::Signed| format!("{}+{}", signed.name, crate::event::hex(&signed.id));
    Ok(verified.log().iter().map(name).collect())
}

/// The keys for heads that the log names itself.
pub fn log_keys(state: &State, origin: &str) -> Vec<VerifierKey> {
    let rows = state.keys.iter().map(|(_, row)| row);
    let keys = rows.filter_map(|row| {
        let kind = note_type(row.usage)?;
        VerifierKey::new(origin, kind, &row.public.0).ok()
    });
    let mut keys: Vec<_> = keys.collect();
    // The key that an auditor is given first.
    keys.sort_by_key(|key| key.kind().byte());
    keys
}

fn note_type(usage: Use) -> Option<KeyType> {
    match usage {
        Use::Head => Some(KeyType::Ed25519),
        Use::Cosign => Some(KeyType::MlDsa44),
        Use::Cose => None,
    }
}

/// What a key signs to show that it is possessed: `worldlog/pop/v1`, origin and use as lines, then the raw public key.
pub fn possession_message(origin: &str, usage: Use, public: &[u8]) -> Vec<u8> {
    let mut message = format!("worldlog/pop/v1\n{origin}\n{usage}\n").into_bytes();
    message.extend_from_slice(public);
    message
}

/// The id of a key: the first four bytes of SHA-256(origin, LF, type, public key).
pub fn key_id(origin: &str, usage: Use, public: &[u8]) -> crate::event::B4 {
    if let Some(kind) = note_type(usage) {
        return crate::note::key::key_id(origin, kind, public).into();
    }
    // A COSE key signs no notes, so its id takes the private type byte of signed notes and a name.
    let kind: &[u8] = b"\xffworldlog/cose/v1";
    let [a, b, c, d, ..] =
        crate::merkle::hash::sha256_parts(&[origin.as_bytes(), b"\n", kind, public]);
    [a, b, c, d].into()
}

fn check_key(origin: &str, key: &Key) -> Result<(), String> {
    if key.id != key_id(origin, key.usage, &key.public.0) {
        return Err("its id is not the hash of the key".to_owned());
    }
    let kind = match key.alg {
        Alg::Ed25519 => KeyType::Ed25519,
        Alg::MlDsa44 => KeyType::MlDsa44,
    };
    let verifier = VerifierKey::new(origin, kind, &key.public.0).map_err(|e| e.to_string())?;
    let message = possession_message(origin, key.usage, &key.public.0);
    verifier.verify_raw(&message, &key.pop.0).map_err(|error| error.to_string())
}
