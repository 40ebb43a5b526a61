//! What the server spends on its clients at most: places, bytes, and how long a silent one keeps them.
//!
//! ```text
//!            connect ─► Head ─► Serving ─► Idle ─► Head …
//! closed after   head_timeout      │    idle_timeout; after head_timeout when every place is taken
//!                                  └── an answer that nobody takes: read_timeout; 1 s when too many bytes wait to leave
//! ```
//!
//! | spent | at most | beyond it |
//! |---|---|---|
//! | places for connections | `CONNECTIONS_MAX` | the next one waits in the kernel, and who is idle has to go |
//! | the first 64 KiB of a body | one for each place | - |
//! | the rest of all bodies | `BODIES_BYTES_MAX` | a body waits a second, then 503 (`body`) |
//! | answers on their way | `ANSWERS_BYTES_MAX` | whoever does not read his has to go |
//!
//! All of it comes back by `Drop`, so that it does not matter where in its life a connection ends. What a request means is
//! not known here.

use super::Config;
use crate::limits::{ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, WAITING_CONNECTIONS_MAX};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

/// How often a connection that others need is looked at again.
const LOOK: Duration = Duration::from_secs(1);
/// How long a reader may pause while too many bytes of answers wait.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What all connections share.
#[derive(Debug)]
pub(super) struct Load {
    places: Arc<Semaphore>,
    /// Whether the next connection waits for a place.
    full: AtomicBool,
    /// Bytes of bodies beyond what each place has.
    pub(super) bodies: Arc<Semaphore>,
    /// Bytes of answers that have not left.
    answers: AtomicUsize,
}

impl Load {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            full: AtomicBool::new(false),
            bodies: Arc::new(Semaphore::new(BODIES_BYTES_MAX)),
            answers: AtomicUsize::new(0),
        }
    }

    /// Has what is beyond the places wait in the kernel. The default queue is an eighth of a burst, and who does not fit in
    /// it tries again after a whole second.
    pub(super) fn queue(listener: &TcpListener) -> io::Result<()> {
        Ok(rustix::net::listen(listener, WAITING_CONNECTIONS_MAX)?)
    }

    /// The place comes first, so that what is beyond the limit waits in the kernel and holds nothing here.
    pub(super) async fn accept(
        &self,
        listener: &TcpListener,
    ) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let place = if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            place
        } else {
            self.full.store(true, Ordering::Relaxed);
            let place = Arc::clone(&self.places).acquire_owned().await;
            self.full.store(false, Ordering::Relaxed);
            place.map_err(io::Error::other)?
        };
        let (stream, _) = listener.accept().await?;
        Ok((stream, place))
    }
}

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It sends the head of a request, or is new.
    Head,
    /// Its request is worked on, or the answer leaves.
    Serving,
    /// It has its answer.
    Idle,
}

/// One connection, as its transport, its requests and its alarm see it. They run in one task: the lock is never waited for.
#[derive(Debug)]
pub(super) struct Connection {
    load: Arc<Load>,
    config: Config,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    doing: Doing,
    since: Instant,
    /// Since when the kernel takes no more of the answer.
    stalled: Option<Instant>,
    /// The whole answer is with the transport.
    handed: bool,
    /// Bytes of it that count as on their way.
    owed: usize,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn new(load: &Arc<Load>, config: &Config, place: OwnedSemaphorePermit) -> Self {
        let state = State {
            doing: Doing::Head,
            since: Instant::now(),
            stalled: None,
            handed: false,
            owed: 0,
            _place: place,
        };
        Self { load: Arc::clone(load), config: config.clone(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A head is complete.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        (state.doing, state.handed) = (Doing::Serving, false);
    }

    /// The answer, counted until it has left. `room` is what its request still holds.
    pub(super) fn answer(
        self: &Arc<Self>,
        response: super::http::Response,
        room: Option<OwnedSemaphorePermit>,
    ) -> hyper::Response<Leaving> {
        response.map(|inner| {
            let bytes = usize::try_from(inner.size_hint().lower()).unwrap_or(usize::MAX);
            self.load.answers.fetch_add(bytes, Ordering::Relaxed);
            self.state().owed += bytes;
            Leaving { inner, connection: Arc::clone(self), _room: room }
        })
    }

    /// Everything that was to be sent is with the kernel.
    fn flushed(&self) {
        let mut state = self.state();
        if state.doing == Doing::Serving && state.handed {
            (state.doing, state.since) = (Doing::Idle, Instant::now());
            self.pay(&mut state);
        }
    }

    fn pay(&self, state: &mut State) {
        self.load.answers.fetch_sub(std::mem::take(&mut state.owed), Ordering::Relaxed);
    }

    /// Why it has to end now, or when to ask again.
    fn look(&self) -> Result<Option<Instant>, &'static str> {
        let (state, config, now) = (self.state(), &self.config, Instant::now());
        // Patience when others need what it holds, and at most; whether they do.
        let (since, short, long, needed, why) = match (state.stalled, state.doing) {
            (Some(since), _) => {
                let needed = self.load.answers.load(Ordering::Relaxed) > ANSWERS_BYTES_MAX;
                (since, PAUSE_MAX, config.read_timeout, needed, "nobody takes the answer")
            }
            (None, Doing::Head) => {
                let long = config.head_timeout;
                (state.since, long, long, false, "the head did not arrive in time")
            }
            (None, Doing::Idle) => {
                let needed = self.load.full.load(Ordering::Relaxed);
                (state.since, config.head_timeout, config.idle_timeout, needed, "idle")
            }
            (None, Doing::Serving) => return Ok(None),
        };
        let short = short.min(long);
        if now >= since + long || needed && now >= since + short {
            return Err(why);
        }
        Ok(Some((since + long).min((since + short).max(now + LOOK))))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.load.answers.fetch_sub(std::mem::take(&mut state.owed), Ordering::Relaxed);
    }
}

/// Tells when a connection has to end. To be polled after the transport, in the same task.
#[derive(Debug)]
pub(super) struct Alarm {
    connection: Arc<Connection>,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self { connection, sleep: Box::pin(sleep_until(Instant::now())) }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<&'static str> {
        loop {
            let next = match self.connection.look() {
                Err(why) => return Poll::Ready(why),
                Ok(None) => return Poll::Pending,
                Ok(Some(next)) => next,
            };
            // A timer that fires early is cheaper than one that is set for every request.
            if self.sleep.is_elapsed() || self.sleep.deadline() > next {
                self.sleep.as_mut().reset(next);
            }
            if self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// The transport, which tells what moves.
#[derive(Debug)]
pub(super) struct Transport {
    stream: TcpStream,
    connection: Arc<Connection>,
}

impl Transport {
    pub(super) fn new(stream: TcpStream, connection: Arc<Connection>) -> Self {
        Self { stream, connection }
    }

    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        let mut state = self.connection.state();
        match polled {
            Poll::Pending => {
                state.stalled.get_or_insert_with(Instant::now);
            }
            Poll::Ready(_) => state.stalled = None,
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if self.connection.state().stalled.is_some() {
            // The kernel would go on offering what nobody takes for minutes. Without it there is nothing to do about that.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            let mut state = self.connection.state();
            if state.doing == Doing::Idle {
                (state.doing, state.since) = (Doing::Head, Instant::now());
            }
        }
        polled
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.connection.flushed();
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A body on its way out. It goes when its last byte is with the transport.
pub(super) struct Leaving {
    inner: UnsyncBoxBody<Bytes, Infallible>,
    connection: Arc<Connection>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Body for Leaving {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.connection.state().handed = true;
    }
}
