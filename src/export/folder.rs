//! Reading an export tree. Nothing in it is believed.

use super::{ExportError, FORMAT, NO_EPISODE};
use crate::canon;
use crate::event::{B32, EpisodeName, Reader, hex};
use crate::limits;
use crate::merkle::hash::Hash;
use crate::merkle::reader::TileSource;
use crate::merkle::tile::{BundleId, TILE_WIDTH, TileId};
use crate::verify::Payloads;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// `export.json` is short: two keys, a name and a root.
const MANIFEST_BYTES_MAX: usize = 16 * 1024;
/// Openings of one episode: 1,000,000 events with 1 KiB each.
const OPENINGS_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// `export.json`: what the exporter says of its export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the log.
    pub origin: String,
    /// Whether payloads were left out.
    pub public: bool,
    /// Root, in base64.
    pub root: String,
    /// Events.
    pub size: u64,
    /// Verifier keys. They prove nothing: whoever made the export wrote them.
    pub vkeys: Vec<String>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// An export tree.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The tree at `root`.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Whether `root` looks like one.
    pub fn is_one(root: &Path) -> bool {
        root.join("checkpoint").is_file() || root.join("export.json").is_file()
    }

    /// A file's bytes; `None` when there is none.
    fn read(&self, name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, ExportError> {
        let path = self.root.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if absent(&error) => return Ok(None),
            Err(error) => return Err(ExportError::File { path, error }),
        };
        let malformed = |reason: String| ExportError::Malformed { path: path.clone(), reason };
        // A pipe or device would never end.
        if !file.metadata().map_err(ExportError::file(&path))?.is_file() {
            return Err(malformed("it is no file".to_owned()));
        }
        let mut bytes = Vec::new();
        let read = file.take(bytes_max as u64 + 1).read_to_end(&mut bytes);
        read.map_err(ExportError::file(&path))?;
        if bytes.len() > bytes_max {
            return Err(malformed(format!("it has more than {bytes_max} bytes")));
        }
        Ok(Some(bytes))
    }

    /// The signed head.
    ///
    /// # Errors
    /// [`ExportError`].
    pub fn checkpoint(&self) -> Result<Option<Vec<u8>>, ExportError> {
        self.read("checkpoint", limits::NOTE_BYTES_MAX)
    }

    /// What the exporter says.
    ///
    /// # Errors
    /// [`ExportError`]; also when it is of another format.
    pub fn manifest(&self) -> Result<Option<Manifest>, ExportError> {
        let Some(bytes) = self.read("export.json", MANIFEST_BYTES_MAX)? else { return Ok(None) };
        let path = self.root.join("export.json");
        let malformed = |reason: String| ExportError::Malformed { path: path.clone(), reason };
        let value = canon::parse(&bytes).map_err(|error| malformed(error.to_string()))?;
        let text = |name: &str| {
            let found = value.get(name).and_then(canon::Value::as_str).map(str::to_owned);
            found.ok_or_else(|| malformed(format!("`{name}` is no string")))
        };
        if text("export")? != FORMAT {
            return Err(malformed(format!("`export` is not {FORMAT}")));
        }
        let public = value.get("public").and_then(canon::Value::as_bool);
        let public =
            public.ok_or_else(|| malformed("`public` is neither true nor false".to_owned()))?;
        let size = value.get("size").and_then(canon::Value::as_u64);
        let size = size.ok_or_else(|| malformed("`size` is no whole number".to_owned()))?;
        let keys = value.get("vkeys").and_then(canon::Value::as_array).unwrap_or_default();
        let vkeys = keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect();
        Ok(Some(Manifest {
            origin: text("origin")?,
            root: text("root")?,
            public,
            size,
            vkeys,
            bytes,
        }))
    }

    /// An entry bundle as it stands there, and which it is: the full one may stand for a part of it.
    ///
    /// # Errors
    /// [`ExportError`].
    pub fn bundle(&self, id: BundleId) -> Result<Option<(BundleId, Vec<u8>)>, ExportError> {
        let read = |id: BundleId| {
            let found = self.read(&id.to_string(), limits::BUNDLE_BYTES_MAX)?;
            Ok(found.map(|bytes| (id, bytes)))
        };
        if let Some(found) = read(id)? {
            return Ok(Some(found));
        }
        match BundleId::new(id.index(), TILE_WIDTH) {
            Ok(full) if full != id => read(full),
            _ => Ok(None),
        }
    }

    /// A tile as it stands there; the full one may stand for a part of it.
    ///
    /// # Errors
    /// [`ExportError`].
    pub fn tile(&self, id: TileId) -> Result<Option<Vec<u8>>, ExportError> {
        let bytes_max = 32 * usize::from(TILE_WIDTH);
        if let Some(bytes) = self.read(&id.to_string(), bytes_max)? {
            return Ok(Some(bytes));
        }
        match TileId::new(id.level(), id.index(), TILE_WIDTH) {
            Ok(full) if full != id => self.read(&full.to_string(), bytes_max),
            _ => Ok(None),
        }
    }

    /// Whether any payload is here.
    pub fn has_payloads(&self) -> bool {
        ["objects", "openings", "keys"].iter().any(|name| self.root.join(name).exists())
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl TileSource for &Folder {
    type Error = String;

    fn read(&mut self, id: TileId) -> Result<Vec<u8>, String> {
        let found = self.tile(id).map_err(|error| error.to_string())?;
        found.ok_or_else(|| "the file is missing".to_owned())
    }
}

/// Payloads of an export tree.
#[derive(Debug)]
pub struct FolderPayloads<'a> {
    folder: &'a Folder,
    openings: BTreeMap<EpisodeName, Openings>,
}

/// One file of openings, and where each one lies in it.
#[derive(Debug, Default)]
struct Openings {
    bytes: Vec<u8>,
    places: BTreeMap<u64, Range<usize>>,
}

impl<'a> FolderPayloads<'a> {
    /// Those of `folder`.
    pub fn new(folder: &'a Folder) -> Self {
        Self { folder, openings: BTreeMap::new() }
    }

    fn load(&self, episode: &EpisodeName) -> Result<Openings, String> {
        let name = format!("openings/{episode}");
        let read =
            self.folder.read(&name, OPENINGS_BYTES_MAX).map_err(|error| error.to_string())?;
        let bytes = read.unwrap_or_default();
        let mut places = BTreeMap::new();
        let mut reader = Reader::new(&bytes);
        while reader.end().is_err() {
            let one = (|| {
                reader.array_of(2)?;
                let seq = reader.uint()?;
                let start = reader.offset();
                reader.item(1)?;
                Ok((seq, start..reader.offset()))
            })();
            let (seq, place) =
                one.map_err(|error: crate::event::CborError| format!("{name}: {error}"))?;
            if places.last_key_value().is_some_and(|(last, _)| *last >= seq) {
                return Err(format!("{name}: seq {seq} is not in order"));
            }
            places.insert(seq, place);
        }
        Ok(Openings { bytes, places })
    }
}

impl Payloads for FolderPayloads<'_> {
    fn episode_key(&mut self, episode: &EpisodeName) -> Result<Option<Hash>, String> {
        let name = format!("keys/{episode}");
        let Some(bytes) = self.folder.read(&name, 65).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
        let key = text.and_then(B32::from_hex);
        key.map(|key| Some(key.0))
            .ok_or_else(|| format!("{name} does not hold 64 hexadecimal digits and a line feed"))
    }

    fn opening(&mut self, episode: &EpisodeName, seq: u64) -> Result<Option<Vec<u8>>, String> {
        if !self.openings.contains_key(episode) {
            let loaded = self.load(episode);
            // What is malformed is reported once; after that its openings are missing.
            let (kept, result) = match loaded {
                Ok(openings) => (openings, Ok(())),
                Err(error) => (Openings::default(), Err(error)),
            };
            self.openings.insert(episode.clone(), kept);
            result?;
        }
        let found = self.openings.get(episode).and_then(|openings| {
            let place = openings.places.get(&seq)?;
            openings.bytes.get(place.clone())
        });
        Ok(found.map(<[u8]>::to_vec))
    }

    fn object(&mut self, ep: Option<&EpisodeName>, hash: &Hash) -> Result<Option<Vec<u8>>, String> {
        let episode = ep.map_or(NO_EPISODE, |name| name.as_str());
        let name = format!("objects/{episode}/{}", hex(hash));
        self.folder.read(&name, limits::OBJECT_BYTES_MAX).map_err(|error| error.to_string())
    }
}
