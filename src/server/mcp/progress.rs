//! A call whose client wants to hear how far it is.
//!
//! ```text
//! event: message
//! data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1,"message":"planned"}}
//! …
//! event: message
//! data: {"jsonrpc":"2.0","id":7,"result":{…}}
//! ```
//!
//! A call that has its answer within [`PATIENCE`] is answered as any other, failures as JSON; only a longer one becomes a
//! stream. `progress` counts the notifications, so that it rises strictly. A client that leaves stops nothing but a call which
//! still waits for its episode.

use super::super::http::{self, Response};
use super::{SSE, Success, sse};
use crate::service::Phase;
use hyper::body::Bytes;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

/// How long an answer may take before a stream begins.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);
/// Between two notifications of a call that only goes on. Proxies cut streams that are silent for minutes.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Events that a slow client may be behind; beyond it the call's news wait, and the call does not.
const BEHIND_MAX: usize = 8;

/// A call under way: what it will answer, as text of JSON-RPC.
pub(super) type Calling = Pin<Box<dyn Future<Output = Result<Success, String>> + Send>>;

/// Waits for the answer, and streams what happens meanwhile once it takes longer. `token` and `id` are raw text.
pub(super) async fn watch(
    mut calling: Calling,
    phases: mpsc::UnboundedReceiver<Phase>,
    token: &str,
    id: &str,
) -> Result<Result<Success, String>, Response> {
    tokio::select! {
        biased;
        done = &mut calling => return Ok(done),
        () = sleep(PATIENCE) => {}
    }
    let (parts, body) = mpsc::channel(BEHIND_MAX);
    let told = Told { parts, token: token.to_owned(), count: 0 };
    tokio::spawn(told.go_on(calling, phases, id.to_owned()));
    Err(super::undisturbed(http::stream(SSE, body)))
}

/// What a client has been told.
struct Told {
    parts: mpsc::Sender<Bytes>,
    token: String,
    count: u64,
}

impl Told {
    async fn go_on(
        mut self,
        mut calling: Calling,
        mut phases: mpsc::UnboundedReceiver<Phase>,
        id: String,
    ) {
        let mut beat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut phase = "waiting";
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                reached = phases.recv(), if open => match reached {
                    Some(reached) => {
                        phase = reached.as_str();
                        self.tell(phase);
                    }
                    None => open = false,
                },
                done = &mut calling => {
                    let text = match done {
                        Ok(success) => super::rpc::result(&id, &success.result),
                        Err(failure) => failure,
                    };
                    // The client may be gone; the call is in the log all the same.
                    let _ = self.parts.send(Bytes::from(sse(&text))).await;
                    return;
                }
                _ = beat.tick() => self.tell(phase),
                // Dropping the call stops it only while it waits for its episode.
                () = self.parts.closed() => return,
            }
        }
    }

    /// A notification is dropped when the client is behind: the next one says more.
    fn tell(&mut self, phase: &str) {
        self.count += 1;
        let (token, count) = (&self.token, self.count);
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"message":"{phase}","progress":{count},"progressToken":{token}}}}}"#
        );
        let _ = self.parts.try_send(Bytes::from(sse(&text)));
    }
}
