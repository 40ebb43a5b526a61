//! Writing an export tree.

use super::walk::{Sink, walk};
use super::{Beside, ExportError, FORMAT, NO_EPISODE};
use crate::canon::{Value, object};
use crate::event::{EpisodeName, Writer, hex};
use crate::ledger::StorePayloads;
use crate::merkle::hash::Hash;
use crate::merkle::tile::{BundleId, TILE_WIDTH, encode_entry};
use crate::merkle::tree::FullTile;
use crate::note::checkpoint::{Checkpoint, Policy};
use crate::note::key::{Signer, VerifierKey};
use crate::note::{Note, cosign};
use crate::store::{Store, layout};
use crate::verify::Payloads;
use base64ct::{Base64, Encoding};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Adds the ML-DSA-44 line to a head that has only the other one.
#[derive(Debug, Clone, Copy)]
pub struct Cosigner<'a> {
    /// The log's second key.
    pub signer: &'a Signer,
    /// POSIX seconds of the signature.
    pub seconds: u64,
}

/// What is to be exported.
pub struct Request<'a> {
    /// From where.
    pub store: &'a dyn Store,
    /// The signed head; its size is the export's.
    pub note: &'a str,
    /// Completes the head.
    pub cosigner: Option<Cosigner<'a>>,
    /// Leaves payloads out.
    pub public: bool,
}

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Events.
    pub size: u64,
    /// Payload objects.
    pub objects: u64,
    /// Name of the log.
    pub origin: String,
    /// Verifier keys of heads, as text: the one that an auditor needs, then the other.
    pub vkeys: Vec<String>,
}

/// Writes the tree of `request` as the folder `dir`, which must not exist.
///
/// # Errors
/// [`ExportError`]. Nothing stands under `dir` then.
pub fn write(dir: &Path, request: &Request<'_>) -> Result<Written, ExportError> {
    let refused = |error: &dyn std::fmt::Display| ExportError::damaged("the signed head", error);
    let note = Note::parse(request.note.as_bytes()).map_err(|error| refused(&error))?;
    let checkpoint = Checkpoint::parse(note.text()).map_err(|error| refused(&error))?;
    let head = checkpoint.head();
    if head.size == 0 {
        return Err(ExportError::Empty);
    }
    let beside = Beside::new(dir, if request.public { 0o755 } else { 0o700 })?;
    let mut sink = Tree::new(&beside.path, request.public);
    let mut payloads = StorePayloads(request.store);
    let payloads = (!request.public).then_some(&mut payloads as &mut dyn Payloads);
    let mut events = layout::events(request.store, 0)
        .map(|item| item.map(|(_, bytes)| bytes).map_err(ExportError::from));
    let walked = walk(&mut events, payloads, head, &mut sink)?;
    sink.end(walked.tree.partials())?;

    // Nothing is signed before the events were seen to have this root under this log's key.
    let policy = Policy::new(&walked.origin, walked.keys.clone(), Vec::new(), 0);
    let policy = policy.map_err(|error| refused(&error))?;
    policy.open_note(&note).map_err(|error| refused(&error))?;
    let note = complete(note, &checkpoint, request.cosigner)?;
    policy.open_note(&note).map_err(|error| refused(&error))?;
    sink.file("checkpoint", note.to_string().as_bytes())?;
    let manifest = manifest(&walked.origin, &walked.keys, head.size, &head.root, request.public);
    sink.file("export.json", &manifest.to_bytes())?;
    beside.keep()?;
    let vkeys = walked.keys.iter().map(ToString::to_string).collect();
    Ok(Written { size: head.size, objects: walked.objects, origin: walked.origin, vkeys })
}

fn complete(
    note: Note,
    checkpoint: &Checkpoint,
    cosigner: Option<Cosigner<'_>>,
) -> Result<Note, ExportError> {
    let Some(Cosigner { signer, seconds }) = cosigner else { return Ok(note) };
    let id = signer.verifier_key().id();
    if note.signatures().iter().any(|line| line.id() == id) {
        return Ok(note);
    }
    let refused = |error: &dyn std::fmt::Display| ExportError::damaged("the signed head", error);
    let line = cosign::cosign(signer, checkpoint, seconds.max(1)).map_err(|e| refused(&e))?;
    let mut lines = note.signatures().to_vec();
    lines.push(line);
    Note::new(note.text(), lines).map_err(|error| refused(&error))
}

fn manifest(origin: &str, keys: &[VerifierKey], size: u64, root: &Hash, public: bool) -> Value {
    let vkeys: Vec<Value> = keys.iter().map(|key| key.to_string().into()).collect();
    object([
        ("export", FORMAT.into()),
        ("origin", origin.into()),
        ("public", public.into()),
        ("root", Base64::encode_string(root).into()),
        ("size", size.into()),
        ("vkey", vkeys.first().cloned().unwrap_or(Value::Null)),
        ("vkeys", vkeys.into()),
    ])
}

/// The files of one export, in the order of the walk.
struct Tree {
    root: PathBuf,
    file_mode: u32,
    folder_mode: u32,
    bundle: Vec<u8>,
    /// Events in `bundle`.
    width: u16,
    /// Full bundles written.
    bundles: u64,
}

impl Tree {
    fn new(root: &Path, public: bool) -> Self {
        let (file_mode, folder_mode) = if public { (0o644, 0o755) } else { (0o600, 0o700) };
        let root = root.to_owned();
        Self { root, file_mode, folder_mode, bundle: Vec::new(), width: 0, bundles: 0 }
    }

    fn path(&self, name: &str) -> Result<PathBuf, ExportError> {
        let path = self.root.join(name);
        if let Some(parent) = path.parent() {
            let mut folders = DirBuilder::new();
            let made = folders.recursive(true).mode(self.folder_mode).create(parent);
            made.map_err(ExportError::file(parent))?;
        }
        Ok(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let path = self.path(name)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(self.file_mode).open(&path);
        file.and_then(|mut file| file.write_all(bytes)).map_err(ExportError::file(&path))
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let path = self.path(name)?;
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(self.file_mode).open(&path);
        file.and_then(|mut file| file.write_all(bytes)).map_err(ExportError::file(&path))
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        if self.width == 0 {
            return Ok(());
        }
        let id = BundleId::new(self.bundles, self.width)
            .map_err(|error| ExportError::damaged(format!("bundle {}", self.bundles), error))?;
        self.file(&id.to_string(), &self.bundle)?;
        self.bundles += 1;
        self.bundle.clear();
        self.width = 0;
        Ok(())
    }

    /// What a log of exactly this size has at its right edge.
    fn end<'a>(
        &mut self,
        partials: impl Iterator<Item = (crate::merkle::tile::TileId, &'a [Hash])>,
    ) -> Result<(), ExportError> {
        self.flush()?;
        for (id, hashes) in partials {
            self.file(&id.to_string(), &hashes.concat())?;
        }
        Ok(())
    }
}

fn object_name(episode: Option<&EpisodeName>, hash: &Hash) -> String {
    let episode = episode.map_or(NO_EPISODE, |name| name.as_str());
    format!("objects/{episode}/{}", hex(hash))
}

impl Sink for Tree {
    fn event(&mut self, seq: u64, bytes: &[u8], _entry: bool) -> Result<(), ExportError> {
        encode_entry(bytes, &mut self.bundle)
            .map_err(|error| ExportError::damaged(format!("leaf {seq}"), error))?;
        self.width += 1;
        if self.width == TILE_WIDTH { self.flush() } else { Ok(()) }
    }

    fn tile(&mut self, tile: &FullTile) -> Result<(), ExportError> {
        self.file(&tile.id.to_string(), &tile.to_bytes())
    }

    fn key(&mut self, episode: &EpisodeName, key: &Hash) -> Result<(), ExportError> {
        self.file(&format!("keys/{episode}"), format!("{}\n", hex(key)).as_bytes())
    }

    fn opening(
        &mut self,
        episode: &EpisodeName,
        seq: u64,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        let mut writer = Writer::with_capacity(bytes.len() + 10);
        writer.array(2);
        writer.uint(seq);
        writer.splice(bytes);
        self.append(&format!("openings/{episode}"), &writer.finish())
    }

    fn wants(&mut self, episode: Option<&EpisodeName>, hash: &Hash) -> Result<bool, ExportError> {
        Ok(!self.root.join(object_name(episode, hash)).exists())
    }

    fn object(
        &mut self,
        episode: Option<&EpisodeName>,
        hash: &Hash,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        self.file(&object_name(episode, hash), bytes)
    }
}
