//! The server: one listener, one table of paths, a front behind each.
//!
//! ```text
//! accept ─► [1,024 places] ─► head within 5 s ─► Host, Origin ─► path ─► front ─► answer, taken within 30 s
//! ```
//!
//! | path | front |
//! |---|---|
//! | `/mcp`, `/mcp/` | `mcp` (`spec/mcp.md`) |
//! | `/a2a`, `/a2a/`, `/.well-known/agent.json`, `/.well-known/agent-card.json` | `a2a` (`spec/a2a.md`) |
//! | `/v1/…`, `/checkpoint`, `/tile/…` | `provenance` (`spec/provenance.md`) |
//!
//! A front turns a request into a call of [`Service`] and its answer into bytes; it decides nothing. Fronts do not know
//! each other: what several of them need is in `http`, `body`, `rpc` and `beside`; what clients may cost is in `load`. No path is ever redirected, because a client
//! that follows loses its token. TLS is somebody else's: the listener is meant for loopback.

mod a2a;
mod beside;
mod body;
mod http;
mod load;
mod mcp;
mod provenance;
mod rpc;

use crate::limits::{CONNECTIONS_MAX, STREAMS_MAX};
use crate::service::Service;
use body::Body;
use http::{Gate, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use load::{Alarm, Connection, Leaving, Load, Transport};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Bytes of a request's head, and of what is read at once.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long answers may take to leave after the signal to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// First pause after a failed accept; it doubles up to [`ACCEPT_PAUSE_MAX`].
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause: a process out of file descriptors looks again once a second.
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What an operator may set.
#[derive(Debug, Clone)]
pub struct Config {
    /// Names of Host and Origin that are allowed besides the loopback ones: `NAME` or `NAME:PORT`.
    pub hosts: Vec<String>,
    /// Connections at once. Beyond it they wait in the kernel's queue.
    pub connections: usize,
    /// How long a request's head may take, the first one from the connection on.
    pub head_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// How long a connection may be kept without a request. Where every place is taken, as long as a head.
    pub idle_timeout: Duration,
    /// How long nothing of an answer may be read by its client.
    pub read_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            connections: CONNECTIONS_MAX,
            head_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            read_timeout: Duration::from_secs(30),
        }
    }
}

/// What a request is answered with.
struct Rim {
    service: Service,
    gate: Gate,
    config: Config,
    load: Arc<Load>,
    /// Places for live streams.
    streams: Arc<Semaphore>,
    /// Changes when the server is to stop: what has no end of its own ends then.
    stopped: watch::Receiver<()>,
}

impl Rim {
    async fn answer(
        &self,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
    ) -> hyper::Response<Leaving> {
        connection.begin();
        let (head, incoming) = request.into_parts();
        let mut body = Body::new(incoming, self.config.body_timeout, &self.load.bodies);
        let mut response = match self.gate.check(&head) {
            Ok(()) => self.route(&head, &mut body).await,
            Err(refusal) => refusal.into(),
        };
        body.discard(&head).await;
        http::harden(&mut response);
        connection.answer(response, body.into_room())
    }

    async fn route(&self, head: &Parts, body: &mut Body) -> Response {
        let path = head.uri.path();
        match path {
            "/mcp" | "/mcp/" => mcp::answer(self, head, body).await,
            "/a2a" | "/a2a/" => a2a::answer(self, head, body).await,
            _ if a2a::has_card(path) => a2a::card(self, head),
            _ if provenance::has(path) => provenance::answer(self, head).await,
            // Also what a client asks for after a 401: there is no OAuth here, and it has to notice.
            _ => http::not_found("there is nothing at this path").into(),
        }
    }
}

/// Serves until `shutdown` resolves, and then until the answers under way have left, at most ten seconds.
///
/// A call whose answer is cut off goes on: it is detached from its connection, and its receipt tells what became of it.
///
/// # Errors
/// The listener has no address. A failed accept is no error: it is tried again.
pub async fn serve(
    service: Service,
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let gate = Gate::new(listener.local_addr()?.port(), &config.hosts);
    let (stop, stopped) = watch::channel(());
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    Load::queue(&listener)?;
    let load = Arc::new(Load::new(config.connections));
    let rim =
        Rim { service, gate, config, load: Arc::clone(&load), streams, stopped: stopped.clone() };
    let rim = Arc::new(rim);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut pause = ACCEPT_PAUSE;
    loop {
        let accepted = tokio::select! {
            accepted = load.accept(&listener) => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, place)) => {
                pause = ACCEPT_PAUSE;
                let connection = Arc::new(Connection::new(&load, &rim.config, place));
                connections.spawn(attend(Arc::clone(&rim), stream, connection, stopped.clone()));
            }
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection was accepted");
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = &mut shutdown => break,
                }
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
    drop(listener);
    // Nobody may be listening any more, and then there is nothing to stop.
    let _ = stop.send(());
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        tracing::warn!("connections were cut off at the end of the drain");
    }
    connections.shutdown().await;
    Ok(())
}

/// Errors of the connection that was to be accepted, not of the listener.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Serves one connection until it ends, by itself or because it took too long over something.
async fn attend(
    rim: Arc<Rim>,
    stream: TcpStream,
    connection: Arc<Connection>,
    mut stopped: watch::Receiver<()>,
) {
    // Answers are small; waiting for more to send would only make them late.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let transport = TokioIo::new(Transport::new(stream, Arc::clone(&connection)));
    let mut alarm = Alarm::new(Arc::clone(&connection));
    let service = service_fn(move |request| {
        let (rim, connection) = (Arc::clone(&rim), Arc::clone(&connection));
        async move { Ok::<_, Infallible>(rim.answer(&connection, request).await) }
    });
    let mut serving = pin!(builder.serve_connection(transport, service));
    let mut stopping = false;
    loop {
        tokio::select! {
            // The alarm looks at what the transport did in the same turn.
            biased;
            served = serving.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            why = poll_fn(|context| alarm.poll(context)) => {
                tracing::debug!(why, "a connection was ended");
                return;
            }
            _ = stopped.changed(), if !stopping => {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}
