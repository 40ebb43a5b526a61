//! Conversations with the program, walked from `fixtures/cli`.
//!
//! ```text
//! $ ARGUMENTS          runs the program; `{dir}`, `{data}` and what was captured are filled in
//! < LINE               its standard input
//! > PATTERN            the next line of standard output; `*` stands for anything, `{=name}` captures, `...` skips the rest
//! ! PATTERN            the next line of standard error
//! = CODE               its exit code; 0 unless it is given
//! @ write PATH TEXT    makes a file
//! ```

use super::{Home, read, text};
use std::collections::BTreeMap;
use std::path::Path;

type Values = BTreeMap<String, String>;

#[derive(Debug, Default)]
struct Step {
    line: usize,
    args: String,
    stdin: String,
    out: Vec<String>,
    err: Vec<String>,
    code: i32,
}

#[test]
fn conversations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cli");
    let mut count = 0;
    for entry in folder.read_dir().expect("fixtures/cli") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "case") {
            converse(&path);
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} conversations in fixtures/cli");
}

fn converse(path: &Path) {
    let home = Home::new();
    let mut values = Values::new();
    values.insert("dir".to_owned(), text(home.dir.path()).to_owned());
    values.insert("data".to_owned(), text(&home.data()).to_owned());
    let mut step: Option<Step> = None;
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    for (number, line) in (1..).zip(read(path).lines()) {
        let (mark, rest) = line.split_at(line.len().min(2));
        match (mark, &mut step) {
            ("$ ", _) => {
                finish(name, &home, step.take(), &mut values);
                step = Some(Step { line: number, args: rest.to_owned(), ..Step::default() });
            }
            ("@ ", _) => {
                finish(name, &home, step.take(), &mut values);
                act(&fill(rest, &values));
            }
            ("< ", Some(step)) => step.stdin.extend([rest, "\n"]),
            ("> ", Some(step)) => step.out.push(rest.to_owned()),
            ("! ", Some(step)) => step.err.push(rest.to_owned()),
            ("= ", Some(step)) => step.code = rest.parse().expect("an exit code"),
            (_, None) | ("" | "# ", _) => {}
            _ => panic!("{name}:{number}: {line:?} is no line of a conversation"),
        }
    }
    assert!(step.is_some(), "{name} runs nothing at its end");
    finish(name, &home, step, &mut values);
}

fn act(what: &str) {
    let parts: Vec<&str> = what.splitn(3, ' ').collect();
    match parts.as_slice() {
        ["write", path, content] => std::fs::write(path, content).expect("a file"),
        _ => panic!("{what:?} is no act"),
    }
}

fn finish(name: &str, home: &Home, step: Option<Step>, values: &mut Values) {
    let Some(step) = step else { return };
    let args = fill(&step.args, values);
    let ran = home.run_with(&args.split_whitespace().collect::<Vec<_>>(), &step.stdin);
    let place = format!("{name}:{}: {args}", step.line);
    let all = format!("\nstdout:\n{}\nstderr:\n{}", ran.out, ran.err);
    assert_eq!(ran.code, step.code, "{place}: exit code{all}");
    compare(&place, &all, &step.out, &ran.out, values);
    compare(&place, &all, &step.err, &ran.err, values);
}

fn compare(place: &str, all: &str, patterns: &[String], text: &str, values: &mut Values) {
    let mut lines = text.lines();
    for pattern in patterns {
        if pattern == "..." {
            return;
        }
        let line = lines.next().unwrap_or_else(|| panic!("{place}: no line for {pattern:?}{all}"));
        let pattern = fill(pattern, values);
        let (pattern, captured) = match pattern.split_once("{=") {
            Some((before, name)) => {
                let name = name.trim_end_matches('}').to_owned();
                let value = line.strip_prefix(before).unwrap_or_default().to_owned();
                (format!("{before}*"), Some((name, value)))
            }
            None => (pattern, None),
        };
        assert!(fits(&pattern, line), "{place}: {line:?} does not fit {pattern:?}{all}");
        values.extend(captured);
    }
    let rest: Vec<_> = lines.collect();
    assert!(rest.is_empty(), "{place}: not expected: {rest:#?}");
}

fn fill(text: &str, values: &Values) -> String {
    let replace = |text: String, (name, value): (&String, &String)| {
        text.replace(&format!("{{{name}}}"), value)
    };
    values.iter().fold(text.to_owned(), replace)
}

/// Whether `line` is `pattern`, in which `*` stands for anything.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = line.strip_prefix(parts.next().unwrap_or("")) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    let mut rest = rest;
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn the_patterns_of_conversations_can_fail() {
    assert!(fits("a*c", "abc") && fits("a*", "a") && fits("*", "") && fits("a*b*c", "a-b-b-c"));
    assert!(!fits("a", "ab") && !fits("a*c", "abd") && !fits("a*b*c", "a-c") && !fits("b*", "ab"));
}
