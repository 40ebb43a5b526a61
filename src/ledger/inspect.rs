//! Reading a whole store the way an auditor would: at start-up, for `fsck`, `verify` and `replay`.

use crate::event::blind::EpisodeKey;
use crate::event::{B16, EpisodeName, Event, Reader};
use crate::merkle::hash::{Hash, sha256};
use crate::merkle::tree::{FullTile, Tree};
use crate::state::{Snapshot, State};
use crate::store::layout;
use crate::store::{Store, StoreError};
use crate::verify::{Audit, PayloadAudit, Payloads, Report, Trust};
use std::collections::BTreeMap;

/// Side key of the newest snapshot's first part; the others follow it.
const SNAPSHOT: &[u8] = b"snapshot";
/// Bytes of a snapshot in one side value: a value's limit, less room for the part's number.
const SNAPSHOT_PART_BYTES: usize = 4_096;
/// A snapshot larger than this is not read. 64 MiB are rows of about 500,000 live claims.
const SNAPSHOT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What an inspection does beyond structure.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Keys and an earlier head from outside.
    pub trust: Trust,
    /// Whether to hash every object and open every reference.
    pub payloads: bool,
    /// Whether a snapshot may stand for the fold of what is before it.
    pub snapshot: bool,
    /// Stop after this many events and leave out the head: the state at an earlier position.
    pub until: Option<u64>,
    /// With `payloads`: look at those of every n-th event only.
    pub sample: Option<u64>,
}

/// What an inspection found.
#[derive(Debug)]
pub struct Inspection {
    /// Findings.
    pub report: Report,
    /// The state after the last event.
    pub state: State,
    /// The tree over the events.
    pub tree: Tree,
    /// The newest signed head.
    pub head: Option<Vec<u8>>,
    /// The position that a snapshot brought, when one was used.
    pub from_snapshot: Option<u64>,
    /// Ends of calls by invocation.
    pub ends: BTreeMap<B16, u64>,
    /// Keys of episodes.
    pub keys: BTreeMap<EpisodeName, EpisodeKey>,
    /// Bytes of objects by episode.
    pub stored: BTreeMap<EpisodeName, u64>,
}

/// Payloads of a store.
#[derive(Debug)]
pub struct StorePayloads<'a, S: Store + ?Sized>(pub &'a S);

impl<S: Store + ?Sized> Payloads for StorePayloads<'_, S> {
    fn episode_key(&mut self, episode: &EpisodeName) -> Result<Option<Hash>, String> {
        layout::episode_key(self.0, episode.as_str()).map_err(|error| error.to_string())
    }

    fn opening(&mut self, episode: &EpisodeName, seq: u64) -> Result<Option<Vec<u8>>, String> {
        layout::opening(self.0, episode.as_str(), seq).map_err(|error| error.to_string())
    }

    fn object(&mut self, ep: Option<&EpisodeName>, hash: &Hash) -> Result<Option<Vec<u8>>, String> {
        let episode = ep.map_or("", |name| name.as_str());
        layout::object_raw(self.0, episode, hash).map_err(|error| error.to_string())
    }
}

/// Hashes the objects of `store` that no event names: what a call left that never reached the log.
pub fn check_objects<S: Store + ?Sized>(store: &S, report: &mut Report) {
    for object in layout::all_objects(store) {
        let name = match object {
            Ok(object) if object.length.is_some() => object.name,
            // Staged and never finished: the next start sweeps it.
            Ok(_) => continue,
            Err(error) => return report.find("store-damaged", None, error.to_string()),
        };
        let words = format!("object sha256:{}", crate::event::hex(&name.hash));
        match layout::object_raw(store, &name.episode, &name.hash) {
            Ok(Some(bytes)) if sha256(&bytes) != name.hash => {
                let detail = format!("{words} has other bytes");
                if report.findings.iter().all(|finding| finding.detail != detail) {
                    report.find("object-changed", None, detail);
                }
            }
            Ok(_) => {}
            Err(error) => report.find("store-damaged", None, format!("{words}: {error}")),
        }
    }
}

/// Reads every event of `store`, and what `options` asks for. What is damaged becomes a finding.
pub fn inspect<S: Store + ?Sized>(store: &S, options: &Options) -> Inspection {
    let snapshot = if options.snapshot { read_snapshot(store) } else { None };
    let snapshot =
        snapshot.filter(|snapshot| options.until.is_none_or(|until| snapshot.seq <= until));
    let mut walk = Walk::new(store, options);
    if let Some(snapshot) = snapshot {
        walk.skip_to(&snapshot);
    }
    walk.events();
    walk.finish()
}

struct Walk<'a, S: Store + ?Sized> {
    store: &'a S,
    options: &'a Options,
    audit: Audit,
    payloads: PayloadAudit,
    from_snapshot: Option<u64>,
    ends: BTreeMap<B16, u64>,
    /// Stored tiles that are not what the events give, with the first leaf that differs.
    tiles: Vec<(String, Option<u64>)>,
    stopped: bool,
}

impl<'a, S: Store + ?Sized> Walk<'a, S> {
    fn new(store: &'a S, options: &'a Options) -> Self {
        Self {
            store,
            options,
            audit: Audit::new(options.trust.clone()),
            payloads: PayloadAudit::default(),
            from_snapshot: None,
            ends: BTreeMap::new(),
            tiles: Vec::new(),
            stopped: false,
        }
    }

    /// Hashes the events that a snapshot stands for. When its leaf hash is not the log's, starts again without it.
    fn skip_to(&mut self, snapshot: &Snapshot) {
        let mut last = None;
        for item in layout::events(self.store, 0).take(usize::try_from(snapshot.seq).unwrap_or(0)) {
            let Ok((seq, bytes)) = item else { break };
            last = Some(self.audit.skip(&bytes));
            self.look(seq, &bytes);
        }
        let here = self.audit.tree().size() == snapshot.seq && last == Some(snapshot.leaf.0);
        match snapshot.restore() {
            Ok(state) if here => {
                self.from_snapshot = Some(snapshot.seq);
                self.audit.adopt(state);
            }
            _ => {
                tracing::warn!(seq = snapshot.seq, "the snapshot does not fit the log: not used");
                *self = Self::new(self.store, self.options);
            }
        }
    }

    fn events(&mut self) {
        let from = self.audit.tree().size();
        let until = self.options.until.unwrap_or(u64::MAX);
        for item in layout::events(self.store, from) {
            match item {
                Ok((seq, _)) if seq >= until => break,
                Ok((seq, bytes)) => {
                    self.audit.event(&bytes, None);
                    self.look(seq, &bytes);
                }
                Err(error) => {
                    let seq = self.audit.tree().size();
                    self.audit.report.find("store-damaged", Some(seq), error.to_string());
                    self.stopped = true;
                    break;
                }
            }
        }
    }

    /// What an event means beside the audit: the end of a call, full tiles, payloads.
    fn look(&mut self, seq: u64, bytes: &[u8]) {
        if let Some(inv) = end_of_call(bytes) {
            self.ends.insert(inv, seq);
        }
        self.compare_tiles();
        if self.options.payloads
            && self.options.sample.is_none_or(|every| seq.is_multiple_of(every.max(1)))
            && let Ok(event) = Event::decode(bytes)
        {
            let mut source = StorePayloads(self.store);
            self.payloads.event(&mut self.audit.report, &event, &mut source);
        }
    }

    fn compare_tiles(&mut self) {
        for tile in self.audit.take_full_tiles() {
            match layout::tile(self.store, tile.id.level(), tile.id.index()) {
                Ok(Some(bytes)) if bytes == tile.to_bytes() => {}
                Ok(Some(bytes)) => {
                    self.tiles
                        .push((format!("{} differs", tile.id), first_difference(&tile, &bytes)));
                }
                Ok(None) => self.tiles.push((format!("{} is missing", tile.id), None)),
                Err(error) => self.tiles.push((error.to_string(), None)),
            }
        }
    }

    fn finish(mut self) -> Inspection {
        let whole = self.options.until.is_none();
        let head = match layout::last_head(self.store) {
            Ok(head) => head.map(|(_, bytes)| bytes),
            Err(error) => {
                self.audit.report.find("store-damaged", None, error.to_string());
                None
            }
        };
        if whole {
            self.audit.finish(head.as_deref());
        } else {
            self.audit.report.root = self.audit.tree().root();
        }
        let (mut report, state, tree) = self.audit.into_parts();
        // When the events have the signed root, a tile that differs is itself at fault; else it names the leaf that is.
        let changed = report.findings.iter().any(|finding| finding.code == "root-differs");
        for (detail, leaf) in self.tiles {
            let code = match (changed, leaf) {
                (true, Some(_)) => "leaf-changed",
                (_, None) => "tile-missing",
                _ => "tile-changed",
            };
            report.find(code, leaf, detail);
        }
        if self.options.payloads {
            self.payloads.finish(&mut report, &state);
        }
        let (mut keys, mut stored) = (BTreeMap::new(), BTreeMap::new());
        if !self.stopped {
            collect(self.store, &state, &mut keys, &mut stored, &mut report);
        }
        let (from_snapshot, ends) = (self.from_snapshot, self.ends);
        Inspection { report, state, tree, head, from_snapshot, ends, keys, stored }
    }
}

fn first_difference(tile: &FullTile, stored: &[u8]) -> Option<u64> {
    let pairs = tile.hashes.iter().zip(stored.chunks_exact(32));
    let offset = pairs.into_iter().position(|(hash, bytes)| hash != bytes)? as u64;
    (tile.id.level() == 0).then(|| (tile.id.index() << 8) + offset)
}

/// The invocation of a commit or closure, from its header alone.
fn end_of_call(bytes: &[u8]) -> Option<B16> {
    let mut reader = Reader::new(bytes);
    reader.array_of(8).ok()?;
    for _ in 0..3 {
        reader.uint().ok()?;
    }
    reader.array::<32>().ok()?;
    if !matches!(reader.text().ok()?, "commit" | "closure") {
        return None;
    }
    reader.item(1).ok()?;
    reader.array().ok().map(B16::from)
}

fn collect<S: Store + ?Sized>(
    store: &S,
    state: &State,
    keys: &mut BTreeMap<EpisodeName, EpisodeKey>,
    stored: &mut BTreeMap<EpisodeName, u64>,
    report: &mut Report,
) {
    for (name, row) in state.episodes_by_name.iter() {
        match layout::episode_key(store, name.as_str()) {
            Ok(Some(key)) => drop(keys.insert(name.clone(), EpisodeKey::new(key))),
            Ok(None) if row.redacted => {}
            Ok(None) => {
                report.find(
                    "episode-key-missing",
                    None,
                    format!("the key of episode {name} is missing"),
                );
            }
            Err(error) => report.find("store-damaged", None, error.to_string()),
        }
    }
    for object in layout::all_objects(store) {
        match object {
            Ok(object) => {
                if let (Some(name), Some(length)) =
                    (EpisodeName::parse(&object.name.episode), object.length)
                {
                    *stored.entry(name).or_default() += length as u64;
                }
            }
            Err(error) => {
                report.find("store-damaged", None, error.to_string());
                return;
            }
        }
    }
}

/// Writes a snapshot aside: a part's number and a hash of the whole stand before each part.
///
/// # Errors
/// What the store says; a snapshot that is not there is no harm.
pub(super) fn write_snapshot<S: Store + ?Sized>(store: &S, bytes: &[u8]) -> Result<(), StoreError> {
    let parts = bytes.chunks(SNAPSHOT_PART_BYTES);
    let mut pairs: Vec<_> =
        (0_u32..).zip(parts).map(|(number, part)| (part_key(number), part.to_vec())).collect();
    let mut header = (bytes.len() as u64).to_be_bytes().to_vec();
    header.extend_from_slice(&sha256(bytes));
    pairs.push((SNAPSHOT.to_vec(), header));
    store.side_put(&pairs)
}

fn part_key(number: u32) -> Vec<u8> {
    [SNAPSHOT, b"/", &number.to_be_bytes()].concat()
}

fn read_snapshot<S: Store + ?Sized>(store: &S) -> Option<Snapshot> {
    let header = store.side_get(SNAPSHOT).ok()??;
    let (length, hash) = header.split_first_chunk::<8>()?;
    let length =
        Some(u64::from_be_bytes(*length)).filter(|length| *length <= SNAPSHOT_BYTES_MAX)?;
    let length = usize::try_from(length).ok()?;
    let mut bytes = Vec::new();
    let mut number = 0;
    while bytes.len() < length {
        bytes.extend(store.side_get(&part_key(number)).ok()??);
        number += 1;
    }
    // Parts of an older snapshot among them would give another hash.
    let whole = bytes.len() == length && sha256(&bytes) == hash;
    whole.then(|| Snapshot::parse(&bytes).ok()).flatten()
}
