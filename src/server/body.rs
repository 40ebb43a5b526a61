//! The body of a request: how much, how long, and out of which room.
//!
//! ```text
//! announced > limit ─► TooLarge      ≤ 64 KiB ─► read      more ─► room for the rest, within a second ─► read, or Crowded
//! ```
//!
//! Every connection may have 64 KiB, so that a request of the usual size never waits for those of others. What is beyond it
//! comes out of one room for all (`BODIES_BYTES_MAX`), taken once the first 64 KiB are there: who announces much and sends
//! little holds nothing. The room is held until the answer has left, because what was made of the body lives as long.

use super::http::{Refusal, also, error};
use crate::limits::{BODIES_BYTES_MAX, BODY_WAIT_MS_MAX, SMALL_BODY_BYTES_MAX};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header;
use hyper::http::request::Parts;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Bytes of an unread body that are thrown away so that its sender can read the answer.
const DISCARD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long that may take.
const DISCARD_MAX: Duration = Duration::from_millis(500);

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFault {
    /// More bytes than the front takes.
    TooLarge,
    /// It did not arrive in time.
    Slow,
    /// It ended before its announced end.
    Cut,
    /// There is no room for it now.
    Crowded,
}

/// A body that arrives.
#[derive(Debug)]
pub(super) struct Body {
    incoming: Incoming,
    /// How long all of it may take.
    time: Duration,
    bodies: Arc<Semaphore>,
    room: Option<OwnedSemaphorePermit>,
}

impl Body {
    pub(super) fn new(incoming: Incoming, time: Duration, bodies: &Arc<Semaphore>) -> Self {
        Self { incoming, time, bodies: Arc::clone(bodies), room: None }
    }

    /// Reads at most `limit` bytes. A longer body is refused by its announced length, or else at the first byte too many.
    pub(super) async fn read(&mut self, limit: usize) -> Result<Vec<u8>, BodyFault> {
        if self.incoming.size_hint().lower() > limit as u64 {
            return Err(BodyFault::TooLarge);
        }
        timeout(self.time, self.whole(limit)).await.unwrap_or(Err(BodyFault::Slow))
    }

    async fn whole(&mut self, limit: usize) -> Result<Vec<u8>, BodyFault> {
        // Without an announced length it may become as long as any.
        let announced = self.incoming.size_hint().exact();
        let most = announced.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(limit);
        let mut bytes = Vec::new();
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(|_| BodyFault::Cut)?;
            let Some(data) = frame.data_ref() else { continue };
            let length = bytes.len() + data.len();
            if length > limit {
                return Err(BodyFault::TooLarge);
            }
            if length > SMALL_BODY_BYTES_MAX && self.room.is_none() {
                self.room = Some(self.wait_for_room(most - SMALL_BODY_BYTES_MAX).await?);
                bytes.reserve_exact(most - bytes.len());
            }
            bytes.extend_from_slice(data);
        }
        if announced.is_none() {
            bytes.shrink_to_fit();
            let used = bytes.len().saturating_sub(SMALL_BODY_BYTES_MAX);
            // What splits off is given back: the rest of what it might have become.
            let room = self.room.as_mut();
            drop(room.and_then(|room| room.split(room.num_permits().saturating_sub(used))));
        }
        Ok(bytes)
    }

    async fn wait_for_room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, BodyFault> {
        let bytes = u32::try_from(bytes.min(BODIES_BYTES_MAX)).map_err(|_| BodyFault::Crowded)?;
        let room = Arc::clone(&self.bodies).acquire_many_owned(bytes);
        match timeout(Duration::from_millis(BODY_WAIT_MS_MAX), room).await {
            Ok(Ok(room)) => Ok(room),
            // Nobody closes the semaphore.
            Ok(Err(_)) | Err(_) => Err(BodyFault::Crowded),
        }
    }

    /// Throws away what nobody read. Closing a socket with unread bytes makes the kernel reset it, and the sender would lose
    /// the answer that says why.
    pub(super) async fn discard(&mut self, head: &Parts) {
        // Who waits for 100 Continue has sent nothing, and asking for the body would have it sent.
        if self.incoming.is_end_stream() || head.headers.contains_key(header::EXPECT) {
            return;
        }
        let all = async {
            let mut seen = 0;
            while let Some(Ok(frame)) = self.incoming.frame().await {
                seen += frame.data_ref().map_or(0, Bytes::len);
                if seen > DISCARD_BYTES_MAX {
                    break;
                }
            }
        };
        // Running out of time is the same as running out of patience.
        let _ = timeout(DISCARD_MAX, all).await;
    }

    /// What it still holds, for as long as its answer is under way.
    pub(super) fn into_room(self) -> Option<OwnedSemaphorePermit> {
        self.room
    }
}

/// 503: the server has too many large bodies in hand. Nothing of this one was looked at.
pub(super) fn crowded() -> Refusal {
    let text = "too many large bodies are on their way; nothing of this one was read, send it again in a second";
    let refusal = error(StatusCode::SERVICE_UNAVAILABLE, "Crowded", text);
    also(refusal, header::RETRY_AFTER, "1")
}
