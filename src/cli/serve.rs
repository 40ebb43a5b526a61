//! `worldlog serve`: the server, from the keys to the last seal.

use super::admin::Admin;
use super::node::{First, Node, Options as NodeArgs};
use super::out::Out;
use super::tend::Tender;
use super::{Done, Failure, place};
use crate::canon::{Value, object};
use crate::durable;
use crate::limits::CONNECTIONS_MAX;
use crate::server;
use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

/// `serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Address and port; port 0 takes a free one, which <data>/serve.json tells.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7644")]
    listen: SocketAddr,
    /// Listen on an address that others reach. Put TLS in front.
    #[arg(long, requires = "host")]
    allow_remote: bool,
    /// A name that clients may call the server by, besides the loopback ones; may be repeated.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    if !args.listen.ip().is_loopback() && !args.allow_remote {
        return Err(Failure::usage(format!(
            "--listen {}: others reach this address. Take a loopback one, or add --allow-remote and --host NAME and put \
             TLS in front",
            args.listen
        )));
    }
    begin_tracing();
    let connections = connections();
    let node = Node::open(&args.node, true)?;
    let failed = |error: std::io::Error| {
        Failure::start(format!("{}: {error}; choose another one with --listen", args.listen))
    };
    // After the store, so that a second server is told of the first and not of its port.
    let listener = TcpListener::bind(args.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let url = format!("http://{}", listener.local_addr().map_err(failed)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::start(format!("the runtime: {error}")))?;
    let first = node.first_session()?;
    let admin = Admin::start(&node.data, node.service.clone())?;
    let tender = Tender::start(node.ledger().clone())?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        let stop = signals()?;
        // Whoever waits for the announcement finds the welcome.
        welcome(out, &node, first.as_ref(), &url);
        let announced = Announced::new(&node, &url)?;
        let hosts = args.host.clone();
        let config = server::Config { hosts, connections, ..server::Config::default() };
        let served = server::serve(node.service.clone(), listener, config, stop).await;
        drop(announced);
        served.map_err(|error| Failure::start(format!("the server: {error}")))
    });
    admin.stop();
    // Calls that run on without a client end before the last seal.
    drop(runtime);
    tender.stop();
    node.close(true)?;
    served.map(|()| 0)
}

/// Raises the number of handles as far as it may be, and tells for how many connections that is enough: for half of them,
/// because each episode's lock, the store and the paths of effects need handles too. A usual shell gives 1,024, which the
/// connections alone would use up, and then effects would fail.
fn connections() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let handles = if raised.is_ok() { maximum } else { current };
    let half =
        handles.map_or(CONNECTIONS_MAX, |all| usize::try_from(all / 2).unwrap_or(CONNECTIONS_MAX));
    if half < CONNECTIONS_MAX {
        tracing::warn!(
            connections = half,
            "fewer connections at once: raise the limit of open files (ulimit -Hn)"
        );
    }
    half.clamp(1, CONNECTIONS_MAX)
}

fn begin_tracing() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("WORLDLOG_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("worldlog=info"));
    // Only a second call fails, and there is none.
    let _ = tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
}

/// Ends with the first SIGINT or SIGTERM. The handlers stand when this returns.
fn signals() -> Result<impl Future<Output = ()> + Send, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error: std::io::Error| Failure::start(format!("signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("stopping");
    })
}

/// `serve.json`, for as long as the server listens.
struct Announced(PathBuf);

impl Announced {
    fn new(node: &Node, url: &str) -> Result<Self, Failure> {
        let path = place::serve_json(&node.data);
        let [head, cosign] = node.ledger().verifier_keys().map(ToString::to_string);
        let value = object([
            ("pid", u64::from(std::process::id()).into()),
            ("url", url.into()),
            ("vkey", head.as_str().into()),
            ("vkeys", vec![Value::from(head.as_str()), cosign.into()].into()),
        ]);
        durable::replace(&path, &value.to_bytes(), 0o600)
            .map_err(|error| Failure::start(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // A file that stays names a process that is gone, and the next start replaces it.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn welcome(out: &mut Out, node: &Node, first: Option<&First>, url: &str) {
    if let Some(first) = first {
        let bearer = format!("Bearer {}", first.token.bearer());
        let entry = object([
            ("headers", object([("Authorization", bearer.into())])),
            ("type", "http".into()),
            ("url", format!("{url}/mcp").into()),
        ]);
        out.line("for an MCP client:");
        out.json(&object([("mcpServers", object([("worldlog", entry)]))]));
        out.line(first.token.words());
    }
    out.line(format!("verifier key {}", node.ledger().verifier_keys().map(ToString::to_string)[0]));
    out.line(format!("listening on {url}"));
}
