//! `worldlog init`: what a first `serve` does, without serving.

use super::Done;
use super::node::{Node, Options as NodeArgs};
use super::out::Out;
use crate::canon::{Value, object};

/// `init`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Done {
    let node = Node::open(&args.node, true)?;
    let first = node.first_session()?;
    let [head, cosign] = node.ledger().verifier_keys().map(ToString::to_string);
    let (data, origin) = (node.data.display().to_string(), node.ledger().origin().to_owned());
    node.close(true)?;
    if args.json {
        let (name, shown) = match &first {
            Some(first) => first.token.member(),
            None => ("file", Value::Null),
        };
        let session = first.as_ref().map(|first| first.session.to_string());
        out.json(&object([
            ("data", data.into()),
            ("origin", origin.into()),
            ("session", session.into()),
            ("vkey", head.as_str().into()),
            ("vkeys", vec![head.as_str().into(), cosign.into()].into()),
            (name, shown),
        ]));
        return Ok(0);
    }
    out.line(format!("log {origin} in {data}"));
    if let Some(first) = &first {
        out.line(format!("first session {}, {}", first.session, first.token.words()));
    }
    out.line(format!("verifier key {head}"));
    Ok(0)
}
