//! Where things lie: the data directory and what is in it.
//!
//! ```text
//! <data>/store, store.lock       the log
//! <data>/keys/*.seed             the private keys, 0600
//! <data>/workspace/<episode>     worktrees
//! <data>/episodes/*.lock         held while anything runs in a worktree
//! <data>/ballast                 32 MiB, let go of when the disk is full
//! <data>/admin.sock              the operator's socket, 0600, while a server runs
//! <data>/serve.json              where the server listens, while it does
//! <data>/*.token                 tokens that were not shown on a terminal, 0600
//! ```

use super::Failure;
use crate::note::key::VerifierKey;
use crate::store::sled::SledStore;
use crate::store::{StoreError, layout};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes of sled's cache for a verb that looks at a store once.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The data directory, as every verb takes it.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DataArgs {
    /// Data directory [default: `$XDG_DATA_HOME/worldlog`, or ~/.local/share/worldlog].
    #[arg(long, value_name = "D")]
    data: Option<PathBuf>,
}

impl DataArgs {
    /// The directory, absolute.
    pub(super) fn path(&self) -> Result<PathBuf, Failure> {
        let path = match &self.data {
            Some(path) => path.clone(),
            None => home("XDG_DATA_HOME", ".local/share")?.join("worldlog"),
        };
        absolute(&path)
    }
}

/// A folder of the XDG base directories.
fn home(variable: &str, below_home: &str) -> Result<PathBuf, Failure> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(below_home));
    let missing =
        || Failure::usage("there is no home directory: name the data directory with --data");
    named.or_else(home).ok_or_else(missing)
}

/// The path from the root, without asking whether it exists.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// The guard's file.
pub(super) fn guard(given: Option<&Path>, key: &VerifierKey) -> Result<PathBuf, Failure> {
    if let Some(path) = given {
        return absolute(path);
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let path =
        crate::ledger::Guard::default_path(key, variable("XDG_STATE_HOME"), variable("HOME"));
    path.ok_or_else(|| Failure::usage("there is no home directory: name the guard with --guard"))
}

/// The operator's socket.
pub(super) fn socket(data: &Path) -> PathBuf {
    data.join("admin.sock")
}

/// What a running server says of itself.
pub(super) fn serve_json(data: &Path) -> PathBuf {
    data.join("serve.json")
}

/// Where tokens that nobody may see go.
pub(super) fn token(data: &Path, name: &str) -> PathBuf {
    data.join(format!("{name}.token"))
}

/// Whether `path` is a data directory.
pub(super) fn is_data(path: &Path) -> bool {
    path.join("store").join("db").is_file()
}

/// Opens the store of a data directory that is there, to look at it. Fails with `code`.
pub(super) fn open_store(data: &Path, code: u8) -> Result<SledStore, Failure> {
    let fail = |text: String| Failure { code, text };
    if !is_data(data) {
        return Err(fail(no_log(data)));
    }
    SledStore::open_existing(data, CACHE_BYTES).map_err(|error| match error {
        StoreError::Held { .. } => fail(held(data)),
        other => fail(other.to_string()),
    })
}

/// What to say of a directory without a store.
pub(super) fn no_log(data: &Path) -> String {
    let data = data.display();
    format!(
        "{data} holds no log: name another directory with --data, or begin one with `worldlog init`"
    )
}

/// What to say when somebody else has the store.
pub(super) fn held(data: &Path) -> String {
    let json = serve_json(data);
    let pid = std::fs::read(&json).ok().and_then(|bytes| crate::canon::parse(&bytes).ok());
    let pid = pid.and_then(|value| value.get("pid").and_then(crate::canon::Value::as_u64));
    let who = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    format!(
        "{} is held by {who}: stop it first, or work on a copy made by `worldlog export` or `worldlog backup`",
        data.display()
    )
}

/// Whether the store was filled by `import`: it has no private keys and takes no events.
pub(super) fn imported(store: &SledStore) -> bool {
    matches!(layout::meta(store, crate::ledger::IMPORTED), Ok(Some(_)))
}

/// Refuses private keys that others may read.
pub(super) fn check_modes(data: &Path) -> Result<(), Failure> {
    let keys = data.join("keys");
    let seeds = ["head.seed", "cosign.seed", "cose.seed"].map(|name| keys.join(name));
    for path in std::iter::once(keys).chain(seeds) {
        let Ok(metadata) = path.metadata() else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = path.display();
            return Err(Failure::start(format!(
                "{path} can be read by others (mode {mode:04o}): its keys may be known. Run `chmod go= {path}`, and \
                 begin a new log if somebody may have read them"
            )));
        }
    }
    Ok(())
}
