//! The operator's socket: `<data>/admin.sock`, mode 0600, in a folder that only its owner enters.
//!
//! ```text
//! request   one line of JSON, at most 64 KiB                       (request.rs)
//! answer    {"ok":true,"result":…} LF, or {"code":n,"error":"…","ok":false} LF
//! ```
//!
//! One request a connection, each in its own thread, at most eight at once. There is no other way to the operator's acts
//! over any network.

use super::{Failure, place, request};
use crate::canon::{self, Value, object};
use crate::service::Service;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of a request: a session with 64 grants has less than 16 KiB.
pub(super) const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// How long a client may take to send its line.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at once.
const CONNECTIONS_MAX: usize = 8;
/// How long a shutdown waits for requests that run: 100 x 50 ms.
const DRAIN_TRIES: u32 = 100;
const DRAIN_PAUSE: Duration = Duration::from_millis(50);

/// A socket that answers, until [`Admin::stop`].
pub(super) struct Admin {
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    active: Arc<AtomicUsize>,
}

impl Admin {
    /// Begins to answer. The caller holds the store's lock, so that a socket which is there is nobody's.
    pub(super) fn start(data: &Path, service: Service) -> Result<Self, Failure> {
        let path = place::socket(data);
        let failed = |error: std::io::Error| Failure::start(format!("{}: {error}", path.display()));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let admin = Self {
            path: path.clone(),
            stopping: Arc::new(AtomicBool::new(false)),
            active: Arc::new(AtomicUsize::new(0)),
        };
        let (stopping, active) = (Arc::clone(&admin.stopping), Arc::clone(&admin.active));
        let data = data.to_owned();
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || accept(&listener, &data, &service, &stopping, &active))
            .map_err(failed)?;
        Ok(admin)
    }

    /// Takes no more requests, and waits a while for those that run.
    pub(super) fn stop(self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(UnixStream::connect(&self.path));
        let _ = std::fs::remove_file(&self.path);
        for _ in 0..DRAIN_TRIES {
            if self.active.load(Ordering::SeqCst) == 0 {
                return;
            }
            std::thread::sleep(DRAIN_PAUSE);
        }
        tracing::warn!("a request of the admin socket did not end in time");
    }
}

/// Counts a connection for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn accept(
    listener: &UnixListener,
    data: &Path,
    service: &Service,
    stopping: &AtomicBool,
    active: &Arc<AtomicUsize>,
) {
    for stream in listener.incoming() {
        if stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = stream else { continue };
        let busy = active.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX;
        let counted = Counted(Arc::clone(active));
        if busy {
            answer(&mut stream, &Err(Failure::usage("too many requests at once; try again")));
            continue;
        }
        let (data, service) = (data.to_owned(), service.clone());
        let spawned =
            std::thread::Builder::new().name("admin request".to_owned()).spawn(move || {
                let result = serve(&stream, &service, &data);
                answer(&mut stream, &result);
                drop(counted);
            });
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread for a request of the admin socket");
        }
    }
}

fn serve(stream: &UnixStream, service: &Service, data: &Path) -> Result<Value, Failure> {
    stream.set_read_timeout(Some(SEND_TIMEOUT)).map_err(Failure::usage)?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream).take(REQUEST_BYTES_MAX);
    reader.read_until(b'\n', &mut line).map_err(Failure::usage)?;
    if line.pop() != Some(b'\n') {
        return Err(Failure::usage(format!(
            "the request is no line of at most {REQUEST_BYTES_MAX} bytes"
        )));
    }
    let value =
        canon::parse(&line).map_err(|error| Failure::usage(format!("the request: {error}")))?;
    request::perform(service, data, &value)
}

fn answer(stream: &mut UnixStream, result: &Result<Value, Failure>) {
    let value = match result {
        Ok(result) => object([("ok", true.into()), ("result", result.clone())]),
        Err(failure) => object([
            ("code", u64::from(failure.code).into()),
            ("error", failure.text.as_str().into()),
            ("ok", false.into()),
        ]),
    };
    let mut line = value.to_bytes();
    line.push(b'\n');
    // Who asked may be gone; what was done is in the log.
    let _ = stream.write_all(&line);
}
