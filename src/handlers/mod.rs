//! Effects on the worktree: what they need to run, what they leave, how recovery tells, and how they are taken back.
//!
//! ```text
//! Effect::parse -> prepare (reads the disk) -> the ledger records evidence and intent -> Permit -> perform -> Done
//!                                                        `-> after a crash: settle (the evidence against the disk)
//! ```
//!
//! Without a [`Permit`] nothing runs, and only the receipt of a durable intent makes one. A handler refuses in its output
//! (`ok: false`; the effect ran); it fails when no such answer can be given. Budgets, grants and events are not known
//! here; how files are reached and replaced is the sandbox's work. Texts and formats: `spec/tools.md`.

mod carry;
mod edit;
mod effect;
mod evidence;
mod list;
mod mkdir;
mod read;
mod remove;
mod replacing;
mod search;
mod undo;
mod view;
mod write;

pub use crate::sandbox::Sealing;
pub use edit::occurrences;
pub use effect::{Effect, OpError};
pub use evidence::{FOLDER, settle};
pub use undo::undo;

use crate::canon::{Value, object};
use crate::event::blind::OpenFile;
use crate::event::hex;
use crate::limits::{FILE_BYTES_MAX, PATH_DEPTH_MAX, PATH_LINKS_MAX};
use crate::merkle::hash::{Hash, sha256};
use crate::sandbox::{DENY_WRITE, Effected, Fault, GIT, TEMPORARY, Thing, Worktree, shown};
use crate::store::Receipt;
use evidence::Touched;
use replacing::Replacement;

/// The right to run the effect of one intent, which is durable.
#[derive(Debug)]
pub struct Permit(());

impl Permit {
    /// A permit for the intent at `intent`, if `receipt` vouches for that event.
    pub fn new(receipt: &Receipt, intent: u64) -> Option<Self> {
        receipt.events().contains(&intent).then_some(Self(()))
    }
}

/// An effect that has looked at the disk and changed nothing.
#[derive(Debug)]
pub struct Prepared {
    /// For the request object: what stands there and what is to stand there. Null when nothing is to be changed.
    pub evidence: Value,
    /// For the intent: the files to be changed.
    pub files: Vec<OpenFile>,
    /// Their content as it is, in the same order; empty for an absent file, [`FOLDER`] for a folder.
    pub before: Vec<Vec<u8>>,
    /// What stands at each path that it would change, also when its content makes it certain to be refused. Empty for an
    /// effect that changes nothing, and where the path itself is refused.
    pub base: Vec<Standing>,
    verb: &'static str,
    path: String,
    work: Work,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Path beneath the worktree, without links.
    pub path: String,
    /// SHA-256 and bytes of the file, or SHA-256 of [`FOLDER`] and 0; `None` when nothing is there.
    pub found: Option<(Hash, u64)>,
}

impl Standing {
    fn of(path: &str, thing: Option<&Thing>) -> Self {
        let size = |thing: &Thing| match thing {
            Thing::File(found) => found.stamp.size,
            Thing::Folder(_) => 0,
        };
        let found = thing.map(|thing| (evidence::content(thing), size(thing)));
        Self { path: path.to_owned(), found }
    }
}

#[derive(Debug)]
enum Work {
    /// Found out before the intent; said after it, because the effect is what is charged.
    Refuse(String),
    Read,
    View(view::Request),
    List(list::Listing),
    Search(search::Search),
    /// There is nothing to be done.
    Stands,
    Replace(Replacement),
    Raise(mkdir::Folders),
    Move(carry::Moving),
    Remove(remove::Gone),
}

/// What every output names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// `sha256:` of what identifies the tool's code.
    pub tool: String,
    /// [`policy_digest`].
    pub policy_digest: String,
}

/// What an effect that changes files answers when it did. All of them answer the same.
pub fn landed(context: &Context) -> Value {
    output(context, true, [])
}

/// An output without `world`: whether it was done, under what policy, by which program, and what else there is to say.
fn output<'a>(
    context: &Context,
    ok: bool,
    members: impl IntoIterator<Item = (&'a str, Value)>,
) -> Value {
    let own = [
        ("ok", Value::from(ok)),
        ("policy_digest", context.policy_digest.as_str().into()),
        ("tool", context.tool.as_str().into()),
    ];
    let members = own.into_iter().chain(members);
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Whether an effect of this name changes nothing but the files that its evidence names: without evidence it left nothing.
pub fn leaves_files_only(effect: &str) -> bool {
    effect.starts_with("Workspace.")
}

/// How a handler ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It answered. The answer may be a refusal.
    Ok,
    /// It could not answer, for this reason. The output is an empty object.
    Failed(String),
}

/// What an effect came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// How it ended.
    pub status: Status,
    /// The tool's output, an object without `world`.
    pub output: Value,
    /// Files whose content the session now knows.
    pub seen: Vec<OpenFile>,
}

/// The reason of an effect that its deadline stopped before the point of no return. Nothing was changed.
pub const DEADLINE: &str = "deadline";

/// Looks at the disk, and changes nothing there.
pub fn prepare(tree: &Worktree, effect: &Effect) -> Prepared {
    match effect {
        Effect::Read(request) => read::prepare(request),
        Effect::View(request) => view::prepare(request),
        Effect::List(request) => list::prepare(request),
        Effect::Search(request) => search::prepare(request),
        Effect::Write(request) => write::prepare(tree, request),
        Effect::Edit(request) => edit::prepare(tree, request),
        Effect::Mkdir(request) => mkdir::prepare(tree, request),
        Effect::Move(request) => carry::prepare(tree, request),
        Effect::Remove(request) => remove::prepare(tree, request),
    }
}

/// How a handler and its deadline agree on which of them came first.
#[derive(Clone, Copy)]
pub struct Gate<'a> {
    /// Asked at most once, right before the point of no return, by what has one. `false`: the deadline has closed the call,
    /// and nothing may happen.
    pub seal: Sealing<'a>,
    /// Asked again and again by what takes long and has no such point. `false`: nobody waits for it any more.
    pub open: &'a dyn Fn() -> bool,
}

/// Runs what was prepared. `unique` names the temporary file and must differ from call to call: the invocation. Reads and
/// refusals do not ask for the seal, for they have no point of no return.
#[expect(clippy::needless_pass_by_value, reason = "one permit, one effect: it is used up")]
pub fn perform(
    permit: Permit,
    tree: &Worktree,
    prepared: Prepared,
    unique: &[u8; 16],
    context: &Context,
    gate: Gate<'_>,
) -> Done {
    let Permit(()) = permit;
    let Prepared { verb, path, work, files, .. } = prepared;
    let after = files.into_iter().filter(|file| file.second.is_some());
    let after = after.map(|file| OpenFile { path: file.path, first: file.second, second: None });
    let after = after.collect();
    let call = Call { tree, verb, path: &path, unique, context, gate, after };
    match work {
        Work::Refuse(text) => call.refused(text),
        Work::Read => read::perform(&call),
        Work::View(request) => view::perform(&call, &request),
        Work::List(listing) => list::perform(&call, &listing),
        Work::Search(search) => search::perform(&call, &search),
        Work::Stands => call.changed(),
        Work::Replace(replacement) => replacing::perform(&call, &replacement),
        Work::Raise(folders) => mkdir::perform(&call, &folders),
        Work::Move(moving) => carry::perform(&call, &moving),
        Work::Remove(gone) => remove::perform(&call, &gone),
    }
}

impl Prepared {
    fn refusal(verb: &'static str, path: &str, why: &str) -> Self {
        let refuse = Work::Refuse(format!("{verb} {}: {why}", shown(path)));
        Self::harmless(verb, path, refuse)
    }

    fn harmless(verb: &'static str, path: &str, work: Work) -> Self {
        Self {
            evidence: Value::Null,
            files: Vec::new(),
            before: Vec::new(),
            base: Vec::new(),
            verb,
            path: path.to_owned(),
            work,
        }
    }

    /// An effect that changes what stands at these paths.
    fn change(verb: &'static str, path: &str, touched: Vec<Touched>, work: Work) -> Self {
        let base = touched.iter().map(|t| Standing::of(&t.path, t.before.as_ref())).collect();
        let evidence = evidence::record(&touched);
        let files = touched.iter().map(Touched::open).collect();
        let bytes = |touched: Touched| match touched.before {
            Some(Thing::File(found)) => found.bytes,
            Some(Thing::Folder(_)) => FOLDER.to_vec(),
            None => Vec::new(),
        };
        let before = touched.into_iter().map(bytes).collect();
        Self { evidence, files, before, base, verb, path: path.to_owned(), work }
    }

    /// A refusal of an effect that would have changed what stands there.
    fn over(self, base: Vec<Standing>) -> Self {
        Self { base, ..self }
    }

    /// The refusal that is already certain, if there is one.
    pub fn refused(&self) -> Option<&str> {
        match &self.work {
            Work::Refuse(text) => Some(text),
            _ => None,
        }
    }

    /// The same effect refused, because what stands at `path` is not what the session last saw, or expects (`None`:
    /// nothing). For whoever compares `base` with that. What was expected at a path that the effect does not change is not
    /// promised either.
    #[must_use]
    pub fn moved_on(self, path: &str, seen: Option<&Hash>) -> Self {
        let why = match self.base.iter().find(|standing| standing.path == path) {
            None => {
                format!(
                    "{} was expected at {}, which is no path that this call changes",
                    named(seen),
                    shown(path)
                )
            }
            Some(standing) => {
                let file = if self.base.len() == 1 {
                    "the file".to_owned()
                } else {
                    format!("the file {}", shown(path))
                };
                format!(
                    "{file} changed since this session last saw it: it was {}, it is {}; read it again",
                    named(seen),
                    named(standing.found.as_ref().map(|(sha256, _)| sha256))
                )
            }
        };
        Self::refusal(self.verb, &self.path, &why).over(self.base)
    }
}

/// One run of a handler.
struct Call<'a> {
    tree: &'a Worktree,
    verb: &'static str,
    path: &'a str,
    unique: &'a [u8; 16],
    context: &'a Context,
    gate: Gate<'a>,
    /// What the session knows when all is as it was to be.
    after: Vec<OpenFile>,
}

impl Call<'_> {
    fn unique(&self) -> u64 {
        u64::from_be_bytes(self.unique.first_chunk().copied().unwrap_or_default())
    }

    /// An answer that makes the content of a file known.
    fn told<'m>(
        &self,
        members: impl IntoIterator<Item = (&'m str, Value)>,
        path: &str,
        content: Hash,
    ) -> Done {
        let seen = OpenFile { path: path.to_owned(), first: Some(content), second: None };
        Done { seen: vec![seen], ..self.answered(members) }
    }

    fn answered<'m>(&self, members: impl IntoIterator<Item = (&'m str, Value)>) -> Done {
        let output = output(self.context, true, members);
        Done { status: Status::Ok, output, seen: Vec::new() }
    }

    fn changed(&self) -> Done {
        Done { status: Status::Ok, output: landed(self.context), seen: self.after.clone() }
    }

    /// What came of a change; `stale` says what to answer when what stood there moved on.
    fn ended(
        &self,
        effected: Result<Effected, Fault>,
        stale: impl Fn(Option<&Hash>) -> String,
    ) -> Done {
        match effected {
            Ok(Effected::Done) => self.changed(),
            Ok(Effected::Stopped) => failed(DEADLINE.to_owned()),
            Ok(Effected::Stale { now }) => self.refuse(&stale(now.as_ref())),
            Ok(Effected::Unsure { reason }) => failed(reason),
            Err(fault) => self.refuse(&fault),
        }
    }

    fn refused(&self, text: String) -> Done {
        let output = output(self.context, false, [("refused", text.into())]);
        Done { status: Status::Ok, output, seen: Vec::new() }
    }

    fn refuse(&self, why: &dyn std::fmt::Display) -> Done {
        self.refused(format!("{} {}: {why}", self.verb, shown(self.path)))
    }
}

/// What is there is not what was recorded.
fn stale(was: Option<&Hash>, now: Option<&Hash>) -> String {
    if was == Some(&evidence::folder()) {
        return "the folder changed while this call waited; list it again".to_owned();
    }
    format!(
        "the file changed while this call waited: it was {}, it is {}; read it again",
        named(was),
        named(now)
    )
}

fn failed(reason: String) -> Done {
    Done { status: Status::Failed(reason), output: object([]), seen: Vec::new() }
}

/// A content hash in a text.
fn named(hash: Option<&Hash>) -> String {
    match hash {
        None => "absent".to_owned(),
        Some(hash) if *hash == evidence::folder() => "a folder".to_owned(),
        Some(hash) => format!("sha256:{}", hex(hash)),
    }
}

/// What the sandbox allows, as an object.
pub fn policy() -> Value {
    let number = |limit: usize| Value::from(limit as u64);
    object([
        ("policy", "worldlog/sandbox-policy/v1".into()),
        ("case", "ascii-fold".into()),
        ("fs_deny_write", DENY_WRITE.map(Value::from).to_vec().into()),
        ("fs_deny_write_any_folder", vec![GIT.into(), TEMPORARY.into()].into()),
        ("file_bytes_max", number(FILE_BYTES_MAX)),
        ("path_depth_max", number(PATH_DEPTH_MAX)),
        ("path_links_max", number(PATH_LINKS_MAX)),
    ])
}

/// Hex SHA-256 of the canonical bytes of [`policy`].
pub fn policy_digest() -> String {
    hex(&sha256(&policy().to_bytes()))
}
