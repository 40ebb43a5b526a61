//! What was measured, set beside what it is meant to reach. Only ratios and rates that one run can tell.

use serde_json::Value;

/// How a figure is held against its target.
#[derive(Clone, Copy)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// Prints a line for each target whose part was measured.
pub(crate) fn print(report: &Value) {
    let commits = |writers: u64| find(report.get("commits"), &[("writers", writers.into())]);
    let calls = |tool: &str, sessions: u64| {
        find(report.get("calls"), &[("tool", tool.into()), ("sessions", sessions.into())])
    };
    let log = report.get("log");
    let number = |row: Option<&Value>, name: &str| row?.get(name)?.as_f64();
    let ratio = |row: Option<&Value>, over: &str, under: &str| {
        Some(number(row, over)? / number(row, under)?)
    };
    let one = calls("read", 1);
    let lines = [
        (
            "group commits, 64 writers / plain file",
            number(commits(64), "ratio"),
            Target::AtLeast(0.45),
        ),
        (
            "one read, one session / two plain syncs (p50)",
            ratio(one, "p50_us", "plain_p50_us"),
            Target::AtMost(3.0),
        ),
        (
            "one read, one session, p50 in ms",
            number(one, "p50_us").map(|us| us / 1_000.0),
            Target::AtMost(5.0),
        ),
        (
            "reads a second, 32 sessions",
            number(calls("read", 32), "calls_per_s"),
            Target::AtLeast(5_000.0),
        ),
        (
            "writes, 32 sessions / plain program",
            number(calls("write", 32), "of_plain"),
            Target::AtLeast(0.5),
        ),
        ("events a second audited", number(log, "audit_per_s"), Target::AtLeast(250_000.0)),
        ("bytes on disk / bytes of events", number(log, "disk_ratio"), Target::AtMost(2.2)),
        // Flat, and what a disk that is shared adds to that.
        ("one commit, log ten times as long / before", number(log, "growth"), Target::AtMost(1.25)),
    ];
    println!("\n{:48} {:>10} {:>10}", "", "measured", "target");
    for (what, measured, target) in lines {
        let Some(measured) = measured else { continue };
        let (sign, limit, reached) = match target {
            Target::AtLeast(limit) => (">=", limit, measured >= limit),
            Target::AtMost(limit) => ("<=", limit, measured <= limit),
        };
        println!(
            "{what:48} {measured:10.2} {sign:>3} {limit:8.2}  {}",
            if reached { "" } else { "missed" }
        );
    }
}

/// The row of a table whose members are these.
fn find<'a>(table: Option<&'a Value>, members: &[(&str, Value)]) -> Option<&'a Value> {
    let rows = table?.as_array()?;
    rows.iter().find(|row| members.iter().all(|(name, value)| row.get(*name) == Some(value)))
}
