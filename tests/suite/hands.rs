//! Sandbox, handlers and transitions. Here: a worktree with neighbours that nobody may reach, and the fixtures of
//! `fixtures/tools/effect`, each run by every means. Below: plans (`plans`), paths that no fixture can hold (`paths`),
//! swaps under the sandbox's feet (`races`), crashes and evidence (`crashes`), permits and refusals (`effects`), what takes a
//! change back (`undo`), listing and searching (`walks`).

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail too")]

mod crashes;
mod effects;
mod paths;
mod plans;
mod races;
mod undo;
mod walks;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;
use worldlog::canon::{self, Value, object};
use worldlog::handlers::{self, Context, Done, Effect, Gate, Permit, Prepared, Status};
use worldlog::sandbox::{Means, Worktree};
use worldlog::store::memory::MemoryStore;
use worldlog::store::{Batch, Store};

const MEANS: [Means; 4] = [
    Means { openat2: true, renameat2: true },
    Means { openat2: true, renameat2: false },
    Means { openat2: false, renameat2: true },
    Means { openat2: false, renameat2: false },
];

/// `worktree`, and beside it `outside/secret` and `worktree_evil/secret`.
struct World {
    dir: TempDir,
}

/// Path below the temporary folder to kind, mode and content (or target).
type Picture = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (folder, mode) in [("worktree", 0o755), ("outside", 0o755), ("worktree_evil", 0o755)] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            fs::set_permissions(dir.path().join(folder), fs::Permissions::from_mode(mode)).unwrap();
        }
        let world = Self { dir };
        world.put("../outside/secret", b"secret", 0o600);
        world.put("../worktree_evil/secret", b"evil secret", 0o600);
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("worktree").join(path)
    }

    fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    fn put(&self, path: &str, bytes: &[u8], mode: u32) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path).unwrap().write_all(bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn get(&self, path: &str) -> Vec<u8> {
        fs::read(self.at(path)).unwrap()
    }

    fn tree(&self, means: Means) -> Worktree {
        Worktree::open_with(&self.at("."), means).unwrap()
    }

    /// The sandbox as it is opened in earnest.
    fn open(&self) -> Worktree {
        Worktree::open(&self.at(".")).unwrap()
    }

    fn picture(&self) -> Picture {
        let mut picture = Picture::new();
        take(self.dir.path(), Path::new(""), &mut picture);
        picture
    }
}

fn take(root: &Path, path: &Path, picture: &mut Picture) {
    for entry in fs::read_dir(root.join(path)).unwrap() {
        let path = path.join(entry.unwrap().file_name());
        let meta = root.join(&path).symlink_metadata().unwrap();
        let kind = meta.file_type();
        let seen = if kind.is_symlink() {
            let target = fs::read_link(root.join(&path)).unwrap();
            ('l', 0, target.into_os_string().into_encoded_bytes())
        } else if kind.is_dir() {
            ('d', meta.mode() & 0o7777, Vec::new())
        } else if kind.is_file() {
            ('f', meta.mode() & 0o7777, fs::read(root.join(&path)).unwrap())
        } else {
            ('s', meta.mode() & 0o7777, Vec::new())
        };
        picture.insert(path.clone(), seen);
        if kind.is_dir() {
            take(root, &path, picture);
        }
    }
}

/// A permit for event 3 of a commit that holds 2, 3 and 4.
fn permit() -> Permit {
    let batch = Batch { events: 2..5, ..Batch::default() };
    Permit::new(&MemoryStore::new().commit(&batch).unwrap(), 3).unwrap()
}

fn context() -> Context {
    Context { tool: "sha256:00ff".to_owned(), policy_digest: "12ab".to_owned() }
}

fn json(text: &str) -> Value {
    canon::parse(text.as_bytes()).unwrap()
}

fn effect(name: &str, payload: &Value) -> Effect {
    Effect::parse(name, payload).unwrap()
}

fn read(path: &str) -> Effect {
    effect("Workspace.Read", &object([("op", "read".into()), ("path", path.into())]))
}

fn write(path: &str, content: &str) -> Effect {
    let members = [("op", "write".into()), ("path", path.into()), ("content", content.into())];
    effect("Workspace.Write", &object(members))
}

fn edit(path: &str, old: &str, new: &str) -> Effect {
    let (old, new) = (("old_text", old.into()), ("new_text", new.into()));
    effect("Workspace.Write", &object([("op", "edit".into()), ("path", path.into()), old, new]))
}

fn op(name: &str, members: &[(&str, &str)]) -> Effect {
    let effect_name = match name {
        "read" | "view" => "Workspace.Read",
        "list" => "Workspace.List",
        "search" => "Workspace.Search",
        _ => "Workspace.Write",
    };
    let members = members.iter().copied().chain([("op", name)]);
    let members = members.map(|(name, text)| (name.to_owned(), Value::from(text)));
    effect(effect_name, &Value::Object(members.collect()))
}

fn mkdir(path: &str) -> Effect {
    op("mkdir", &[("path", path)])
}

fn remove(path: &str) -> Effect {
    op("remove", &[("path", path)])
}

fn carry(from: &str, to: &str) -> Effect {
    op("move", &[("from", from), ("to", to)])
}

fn perform_sealed(tree: &Worktree, prepared: Prepared, seal: &dyn Fn() -> bool) -> Done {
    let gate = Gate { seal, open: &|| true };
    handlers::perform(permit(), tree, prepared, &[7; 16], &context(), gate)
}

fn perform(tree: &Worktree, prepared: Prepared) -> Done {
    perform_sealed(tree, prepared, &|| true)
}

fn run(tree: &Worktree, effect: &Effect) -> Done {
    perform(tree, handlers::prepare(tree, effect))
}

/// The whole output, as bytes.
fn output(ok: bool, member: Option<(&str, &str)>) -> String {
    let mut members = BTreeMap::from([
        ("ok".to_owned(), Value::from(ok)),
        ("policy_digest".to_owned(), "12ab".into()),
        ("tool".to_owned(), "sha256:00ff".into()),
    ]);
    members.extend(member.map(|(name, text)| (name.to_owned(), Value::from(text))));
    text(&Value::Object(members))
}

/// A good output with these members.
fn answer(members: &str) -> String {
    let Value::Object(mut all) = json(members) else { panic!("{members}") };
    let Value::Object(own) = json(&output(true, None)) else { panic!() };
    all.extend(own);
    text(&Value::Object(all))
}

fn text(value: &Value) -> String {
    String::from_utf8(value.to_bytes()).unwrap()
}

fn refused(why: &str) -> String {
    output(false, Some(("refused", why)))
}

/// The files of a folder of fixtures, by name; there must be some.
fn fixtures(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tools").join(folder);
    let mut files: Vec<_> =
        fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} holds no fixture");
    files
        .into_iter()
        .map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap()))
        .collect()
}

/// The lines of a fixture as keyword and rest, comments left out.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// `PATH MODE CONTENT`, where content is a JSON string, or hex digits.
fn file_line(rest: &str, hex: bool) -> (&str, u32, Vec<u8>) {
    let mut parts = rest.splitn(3, ' ');
    let (path, mode) = (parts.next().unwrap(), parts.next().unwrap());
    let content = parts.next().unwrap();
    let bytes = if hex {
        let digits = content.as_bytes().chunks(2);
        digits
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect()
    } else {
        json(content).as_str().unwrap().as_bytes().to_vec()
    };
    (path, u32::from_str_radix(mode, 8).unwrap(), bytes)
}

fn set_up(world: &World, keyword: &str, rest: &str) -> bool {
    match keyword {
        "file" | "hex" => {
            let (path, mode, bytes) = file_line(rest, keyword == "hex");
            world.put(path, &bytes, mode);
        }
        "dir" => fs::create_dir_all(world.at(rest)).unwrap(),
        "fifo" => mkfifoat(CWD, world.at(rest), Mode::from_raw_mode(0o644)).unwrap(),
        "socket" => drop(UnixListener::bind(world.at(rest)).unwrap()),
        "link" | "hard" => {
            let (name, target) = rest.split_once(' ').unwrap();
            fs::create_dir_all(world.at(name).parent().unwrap()).unwrap();
            if keyword == "hard" {
                fs::hard_link(world.at(target), world.at(name)).unwrap();
            } else {
                let root = world.at("");
                let target =
                    target.replace("@worktree", root.to_str().unwrap().trim_end_matches('/'));
                symlink(target, world.at(name)).unwrap();
            }
        }
        _ => return false,
    }
    true
}

fn run_fixture(name: &str, fixture: &str, means: Means) {
    let world = World::new();
    let (mut effect, mut payload, mut wanted) = ("", Value::Null, String::new());
    let (mut after, mut gone) = (Picture::new(), Vec::new());
    for (keyword, rest) in lines(fixture) {
        match keyword {
            _ if set_up(&world, keyword, rest) => {}
            "effect" => effect = rest,
            "payload" => payload = json(rest),
            "refused" => wanted = refused(rest),
            "content" => wanted = output(true, Some(("content", json(rest).as_str().unwrap()))),
            "answer" => wanted = answer(rest),
            "ok" => wanted = output(true, None),
            "gone" => gone.push(Path::new("worktree").join(rest)),
            "afterdir" => {
                let (path, mode) = rest.split_once(' ').unwrap();
                let mode = u32::from_str_radix(mode, 8).unwrap();
                after.insert(Path::new("worktree").join(path), ('d', mode, Vec::new()));
            }
            "after" | "afterhex" => {
                let (path, mode, bytes) = file_line(rest, keyword == "afterhex");
                let path = Path::new("worktree").join(path);
                for folder in path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()) {
                    after.insert(folder.to_owned(), ('d', 0o755, Vec::new()));
                }
                after.insert(path, ('f', mode, bytes));
            }
            _ => panic!("{name}: what is {keyword}?"),
        }
    }
    let mut expected = world.picture();
    expected.retain(|path, _| !gone.contains(path));
    expected.extend(after);
    let done = run(&world.tree(means), &Effect::parse(effect, &payload).unwrap());
    assert_eq!(done.status, Status::Ok, "{name} {means:?}");
    assert_eq!(text(&done.output), wanted, "{name} {means:?}");
    assert_eq!(world.picture(), expected, "{name} {means:?}");
    let said = text(&done.output);
    assert!(!said.contains(world.dir.path().to_str().unwrap()), "{name} names the host: {said}");
}

#[test]
fn effect_fixtures() {
    for (name, fixture) in fixtures("effect") {
        for means in MEANS {
            run_fixture(&name, &fixture, means);
        }
    }
}

#[test]
fn this_kernel_offers_openat2() {
    // If not, half of the runs above would have tested the walk twice.
    assert!(World::new().open().means().openat2);
}
