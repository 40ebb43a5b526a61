//! Auditing an export tree: every check of [`crate::verify`], with the leaf hashes that its own tiles prove.

use super::{ExportError, Folder, FolderPayloads};
use crate::event::Event;
use crate::merkle::Head;
use crate::merkle::hash::Hash;
use crate::merkle::reader::Reader;
use crate::merkle::tile::{BundleId, TILE_WIDTH, TileId, tiles};
use crate::note::Note;
use crate::note::checkpoint::Checkpoint;
use crate::state::State;
use crate::verify::{Audit, PayloadAudit, Report, Trust};
use base64ct::{Base64, Encoding};

/// What an inspection does.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Keys and an earlier head from outside.
    pub trust: Trust,
    /// Stop after this many events and leave out the head: the state at an earlier position.
    pub until: Option<u64>,
}

/// Audits the tree at `folder`. What is damaged becomes a finding.
pub fn inspect(folder: &Folder, options: &Options) -> (Report, State) {
    let mut audit = Audit::new(options.trust.clone());
    let checkpoint = match folder.checkpoint() {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            audit.report.find("store-damaged", None, error.to_string());
            None
        }
    };
    let head = checkpoint.as_ref().and_then(|bytes| {
        let note = Note::parse(bytes).ok()?;
        Checkpoint::parse(note.text()).ok().map(|checkpoint| checkpoint.head())
    });
    let claimed = head.map_or(0, |head| head.size);
    let public = manifest(folder, head, &mut audit.report);
    let payloads = !public || folder.has_payloads();
    let mut walk = Walk {
        folder,
        size: options.until.map_or(claimed, |until| until.min(claimed)),
        head,
        audit,
        payloads: payloads.then(|| (PayloadAudit::default(), FolderPayloads::new(folder))),
        tiles: Vec::new(),
    };
    walk.events();
    if options.until.is_some() {
        walk.audit.report.root = walk.audit.tree().root();
    } else {
        walk.audit.finish(checkpoint.as_deref());
        walk.compare_tiles();
    }
    let Walk { audit, payloads, .. } = walk;
    let (mut report, state, _) = audit.into_parts();
    match payloads {
        Some((payloads, _)) if options.until.is_none() => payloads.finish(&mut report, &state),
        Some(_) => {}
        None => report.unchecked.push("payloads: a public export has none".to_owned()),
    }
    (report, state)
}

/// Compares what the exporter says with the head, and returns whether payloads were left out.
fn manifest(folder: &Folder, head: Option<Head>, report: &mut Report) -> bool {
    match folder.manifest() {
        Ok(Some(manifest)) => {
            let same = head.is_none_or(|head| {
                head.size == manifest.size && Base64::encode_string(&head.root) == manifest.root
            });
            if !same {
                let detail = "export.json has another size or root than the checkpoint".to_owned();
                report.find("export-differs", None, detail);
            }
            manifest.public
        }
        // The tree alone is a C2SP log, as a mirror has it.
        Ok(None) => {
            report.unchecked.push("export.json: there is none".to_owned());
            true
        }
        Err(error) => {
            report.find("export-differs", None, error.to_string());
            false
        }
    }
}

struct Walk<'a> {
    folder: &'a Folder,
    /// Events to read.
    size: u64,
    head: Option<Head>,
    audit: Audit,
    payloads: Option<(PayloadAudit, FolderPayloads<'a>)>,
    /// Full tiles that are not what the events give.
    tiles: Vec<(TileId, &'static str)>,
}

impl Walk<'_> {
    fn events(&mut self) {
        let mut reader = self.head.and_then(|head| Reader::open(head, self.folder).ok());
        let mut next = 0;
        while next < self.size {
            let whole = self.head.map_or(self.size, |head| head.size);
            let width = u16::try_from((whole - next).min(256)).unwrap_or(256);
            let Ok(id) = BundleId::new(next >> 8, width) else { return };
            let leaves = reader
                .as_mut()
                .and_then(|reader| reader.tile(id.leaves()).map(<[Hash]>::to_vec).ok());
            let (found, bytes) = match self.folder.bundle(id) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.audit.report.find(
                        "bundle-missing",
                        Some(next),
                        format!("{id} is missing"),
                    );
                    return;
                }
                Err(error) => {
                    self.audit.report.find("store-damaged", Some(next), error.to_string());
                    return;
                }
            };
            let wanted = usize::try_from(self.size - next).unwrap_or(usize::MAX).min(256);
            if !self.bundle(id, &bytes, leaves.as_deref(), wanted) {
                return;
            }
            let rest = prefix(&bytes, usize::from(found.width())).1.len();
            if rest > 0 {
                let detail = format!("{found} has {rest} bytes after its last event");
                self.audit.report.find("leaf-surplus", Some(self.audit.tree().size()), detail);
            }
            next += 256;
        }
    }

    /// Takes the events of one bundle. Returns whether it was whole: what follows a cut one has no place.
    fn bundle(
        &mut self,
        id: BundleId,
        bytes: &[u8],
        leaves: Option<&[Hash]>,
        wanted: usize,
    ) -> bool {
        let width = usize::from(id.width());
        let (entries, _) = prefix(bytes, width);
        for (offset, entry) in entries.iter().take(wanted).enumerate() {
            self.audit.event(entry, leaves.and_then(|leaves| leaves.get(offset)));
            self.full_tiles();
            if let (Some((audit, source)), Ok(event)) = (&mut self.payloads, Event::decode(entry)) {
                audit.event(&mut self.audit.report, &event, source);
            }
        }
        if entries.len() < width {
            let seq = (id.index() << 8) + entries.len() as u64;
            let detail = format!("{id} ends after {} of its {width} events", entries.len());
            self.audit.report.find("bundle-cut", Some(seq), detail);
            return false;
        }
        true
    }

    fn full_tiles(&mut self) {
        for tile in self.audit.take_full_tiles() {
            self.compare(tile.id, &tile.to_bytes());
        }
    }

    fn compare(&mut self, id: TileId, bytes: &[u8]) {
        // The full tile may stand for a part of it; nothing else may be longer.
        let full = 32 * usize::from(TILE_WIDTH);
        let fits = |found: &[u8]| {
            found.get(..bytes.len()) == Some(bytes) && [bytes.len(), full].contains(&found.len())
        };
        match self.folder.tile(id) {
            Ok(Some(found)) if fits(&found) => {}
            Ok(Some(_)) => self.tiles.push((id, "tile-changed")),
            Ok(None) => self.tiles.push((id, "tile-missing")),
            Err(error) => self.audit.report.find("store-damaged", None, error.to_string()),
        }
    }

    /// When the events have the signed root, a tile that differs from them is itself at fault. Otherwise each tile is
    /// judged by the root alone.
    fn compare_tiles(&mut self) {
        let Some(head) = self.head else { return };
        if head == self.audit.tree().head() {
            let edge: Vec<_> =
                self.audit.tree().partials().map(|(id, hashes)| (id, hashes.concat())).collect();
            for (id, bytes) in edge {
                self.compare(id, &bytes);
            }
            for (id, code) in std::mem::take(&mut self.tiles) {
                let what =
                    if code == "tile-missing" { "is missing" } else { "is not the events' tile" };
                self.audit.report.find(code, None, format!("{id} {what}"));
            }
            return;
        }
        let mut reader = match Reader::open(head, self.folder) {
            Ok(reader) => reader,
            Err(error) => {
                self.audit.report.find("tile-changed", None, error.to_string());
                return;
            }
        };
        for id in tiles(head.size) {
            if let Err(error) = reader.tile(id) {
                self.audit.report.find("tile-changed", None, error.to_string());
            }
        }
    }
}

/// The first entries of a bundle, at most `count`, and what follows them.
fn prefix(bytes: &[u8], count: usize) -> (Vec<&[u8]>, &[u8]) {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while entries.len() < count {
        let Some((length, tail)) = rest.split_first_chunk::<2>() else { break };
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((entry, tail)) = tail.split_at_checked(length) else { break };
        entries.push(entry);
        rest = tail;
    }
    (entries, rest)
}

/// Every event of a tree in order, for whoever compares the root in the end.
pub(super) fn events(
    folder: &Folder,
    size: u64,
) -> impl Iterator<Item = Result<Vec<u8>, ExportError>> + '_ {
    let bundles = (0..size.div_ceil(256)).map(move |index| {
        let width = u16::try_from((size - (index << 8)).min(256)).unwrap_or(256);
        let place = || format!("bundle {index}");
        let id = BundleId::new(index, width).map_err(|e| ExportError::damaged(place(), e))?;
        let (_, bytes) =
            folder.bundle(id)?.ok_or_else(|| ExportError::damaged(place(), "it is missing"))?;
        let (entries, _) = prefix(&bytes, usize::from(width));
        Ok(entries.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
    });
    bundles.flat_map(|bundle: Result<Vec<Vec<u8>>, ExportError>| match bundle {
        Ok(entries) => entries.into_iter().map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    })
}
