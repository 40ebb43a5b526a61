//! Entries as they are committed, as server-sent events.
//!
//! ```text
//! GET /v1/stream            from the next entry on; `?from=N` or `Last-Event-ID: N` says where
//!   ◄─ id: 41 LF data: {"at":…,"entry":41,…} LF LF
//!   ◄─ : LF LF              nothing happened for a while
//! ```
//!
//! A stream reads the log at its client's pace: there is no queue, so that nothing is lost and a slow client holds nothing. It
//! wakes when a head is published. It has no end of its own.

use super::super::Rim;
use super::super::http::{self, Refusal, Response};
use super::read;
use crate::service::{LogEntry, Service};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName};
use hyper::http::request::Parts;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

/// Server-sent events.
const SSE: &str = "text/event-stream";
/// Between two signs of life: proxies cut what is silent for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Entries read at once.
const PAGE: usize = 100;

pub(super) async fn begin(rim: &Rim, head: &Parts) -> Result<Response, Refusal> {
    let service = &rim.service;
    let token = http::bearer(&head.headers).map_err(http::unauthorized)?.map(str::to_owned);
    let [from] = http::query(head, ["from"])?;
    let resumed = http::single(&head.headers, &HeaderName::from_static("last-event-id"));
    let from = match (resumed, from) {
        (Ok(Some(last)), _) => http::index(last).and_then(|last| last.checked_add(1)),
        (Ok(None), Some(text)) => http::index(text),
        // The state is ahead of what is durable, and may be taken back.
        (Ok(None), None) => Some(read(service, head, Service::entries).await?),
        (Err(()), _) => None,
    };
    let from =
        from.ok_or_else(|| http::bad_request("from and Last-Event-ID are the index of an entry"))?;
    let place = Arc::clone(&rim.streams).try_acquire_owned().map_err(|_| {
        let text = "too many live streams; come back in a second, or page through /v1/log";
        let refusal = http::error(StatusCode::SERVICE_UNAVAILABLE, "StreamLimit", text);
        http::also(refusal, header::RETRY_AFTER, "1")
    })?;
    let (parts, body) = mpsc::channel(1);
    let (service, stopped) = (service.clone(), rim.stopped.clone());
    let live = Live { service, token, next: from, parts, stopped, _place: place };
    tokio::spawn(live.run());
    let response = http::stream(SSE, body);
    Ok(http::with(response, HeaderName::from_static("x-accel-buffering"), "no"))
}

/// One stream.
struct Live {
    service: Service,
    /// Looked at again for each page: a session that is over sees no more.
    token: Option<String>,
    next: u64,
    parts: mpsc::Sender<Bytes>,
    stopped: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
}

impl Live {
    async fn run(mut self) {
        let mut heads = self.service.ledger().heads();
        loop {
            // Before the look, so that what is published meanwhile wakes it again.
            heads.borrow_and_update();
            match self.page().await {
                Some(true) => continue,
                Some(false) => {}
                None => return,
            }
            tokio::select! {
                changed = heads.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    if self.parts.send(Bytes::from_static(b":\n\n")).await.is_err() {
                        return;
                    }
                }
                () = self.parts.closed() => return,
                _ = self.stopped.changed() => return,
            }
        }
    }

    /// Sends what there is. Whether there may be more; none when the client or its session is gone, or the log cannot be read.
    async fn page(&mut self) -> Option<bool> {
        let caller = match &self.token {
            Some(token) => Some(self.service.authenticate(Some(token)).ok()?),
            None => None,
        };
        let (service, next) = (self.service.clone(), self.next);
        let read =
            tokio::task::spawn_blocking(move || service.log(caller.as_ref(), next, PAGE)).await;
        let entries: Vec<LogEntry> = match read {
            Ok(Ok(entries)) => entries,
            Ok(Err(error)) => {
                tracing::error!(%error, "a live stream ends: the log cannot be read");
                return None;
            }
            Err(_) => return None,
        };
        for entry in &entries {
            let json = entry.to_value().to_bytes();
            let text = format!("id: {}\ndata: {}\n\n", entry.entry, String::from_utf8_lossy(&json));
            tokio::select! {
                sent = self.parts.send(Bytes::from(text)) => sent.ok()?,
                _ = self.stopped.changed() => return None,
            }
            self.next = entry.entry + 1;
        }
        Some(entries.len() == PAGE)
    }
}
