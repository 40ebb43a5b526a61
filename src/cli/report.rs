//! What a verification found, in words or JSON, and what auditors bring along.

use super::out::Out;
use super::{Failure, place};
use crate::canon::{Value, object};
use crate::event::hex;
use crate::limits::{NOTE_BYTES_MAX, VKEY_BYTES_MAX};
use crate::note::key::VerifierKey;
use crate::verify::{Report, Verdict};
use std::io::Read;
use std::path::Path;

/// Verifier keys that were given as text, or as files with one a line.
pub(super) fn keys(given: &[String]) -> Result<Vec<VerifierKey>, Failure> {
    let mut keys: Vec<VerifierKey> = Vec::new();
    for text in given {
        let parsed = text.parse::<VerifierKey>();
        let path = Path::new(text);
        let lines = match parsed {
            Ok(key) => vec![key],
            // A key contains '+', so that a name without one can only be a file's.
            Err(error) if !path.exists() && text.contains('+') => {
                return Err(Failure::usage(format!("--vkey {text}: {error}")));
            }
            Err(_) => keys_in(path)?,
        };
        for key in lines {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    Ok(keys)
}

fn keys_in(path: &Path) -> Result<Vec<VerifierKey>, Failure> {
    let wrong = |text: String| Failure::usage(format!("--vkey {}: {text}", path.display()));
    let bytes = file(path, 16 * VKEY_BYTES_MAX).map_err(|failure| wrong(failure.text))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is no text".to_owned()))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<VerifierKey> = lines
        .map(|line| line.parse::<VerifierKey>().map_err(|error| wrong(error.to_string())))
        .collect::<Result<_, _>>()?;
    if keys.is_empty() { Err(wrong("it holds no verifier key".to_owned())) } else { Ok(keys) }
}

/// The head that an auditor saw before.
pub(super) fn seen(path: Option<&Path>) -> Result<Option<Vec<u8>>, Failure> {
    let read = |path: &Path| {
        let found = file(path, NOTE_BYTES_MAX);
        found.map_err(|failure| Failure::usage(format!("--seen {}", failure.text)))
    };
    path.map(read).transpose()
}

/// A file of the auditor's, at most `bytes_max` long.
pub(super) fn file(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let failed = |text: String| Failure::usage(format!("{}: {text}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(error.to_string()))?;
    if bytes.len() > bytes_max {
        return Err(failed(format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Refuses keys of several logs: a verdict is about one.
pub(super) fn one_log(keys: &[VerifierKey]) -> Result<(), Failure> {
    let mut names = keys.iter().map(VerifierKey::name);
    let first = names.next();
    match names.find(|name| Some(*name) != first) {
        Some(other) => Err(Failure::usage(format!(
            "--vkey: the keys are of two logs, {} and {other}; give those of one",
            first.unwrap_or_default()
        ))),
        None => Ok(()),
    }
}

/// Prints the report, and returns the verdict's exit code.
pub(super) fn print(report: &Report, what: &Path, json: bool, out: &mut Out) -> u8 {
    let verdict = report.verdict();
    if json {
        out.json(&to_value(report));
        return verdict.exit_code();
    }
    if let Ok(what) = place::absolute(what) {
        out.line(format!("checked {}", what.display()));
    }
    for line in words(report) {
        out.line(line);
    }
    for finding in &report.findings {
        let leaf = finding.leaf.map_or_else(String::new, |leaf| format!(" at leaf {leaf}"));
        out.line(format!("finding {}{leaf}: {}", finding.code, finding.detail));
    }
    if report.more_findings > 0 {
        out.line(format!("and {} findings more", report.more_findings));
    }
    out.line(format!("VERDICT: {}", sentence(report, verdict)));
    verdict.exit_code()
}

fn words(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let origin = if report.origin.is_empty() { "unnamed" } else { &report.origin };
    lines.push(format!("log {origin}, {} events, root {}", report.size, hex(&report.root)));
    let mut count = |number: u64, text: &str| {
        if number > 0 {
            lines.push(format!("{number} {text}"));
        }
    };
    count(report.entries, "committed calls");
    count(report.seals, "seals whose state was recomputed");
    count(report.openings, "events whose hidden references were opened");
    count(report.objects, "payloads hashed");
    count(report.redacted, "payloads redacted: their hashes and proofs hold");
    count(report.operator_acts_count, "acts of the operator, which no grant limits");
    for (leaf, tool) in &report.operator_acts {
        lines.push(format!("  leaf {leaf}: {tool}"));
    }
    for key in &report.signed_by {
        lines.push(format!("signed by {key}"));
    }
    if let Some(size) = report.extends {
        lines.push(format!("extends the head of {size} events that was seen before"));
    }
    lines.extend(report.unchecked.iter().map(|text| format!("not checked: {text}")));
    lines
}

fn sentence(report: &Report, verdict: Verdict) -> String {
    let no_key = report.findings.iter().find(|finding| finding.code == "no-key");
    match (verdict, no_key) {
        (Verdict::Unverifiable, Some(finding)) => {
            format!("{}: {}", verdict.as_str(), finding.detail)
        }
        _ => verdict.as_str().to_owned(),
    }
}

fn to_value(report: &Report) -> Value {
    let strings = |texts: &[String]| {
        Value::from(texts.iter().map(|text| text.as_str().into()).collect::<Vec<Value>>())
    };
    let finding = |finding: &crate::verify::Finding| {
        object([
            ("code", finding.code.into()),
            ("detail", finding.detail.as_str().into()),
            ("leaf", finding.leaf.into()),
            ("verdict", finding.verdict.as_str().into()),
        ])
    };
    let verdict = report.verdict();
    object([
        ("entries", report.entries.into()),
        ("exit", u64::from(verdict.exit_code()).into()),
        ("extends", report.extends.into()),
        ("findings", report.findings.iter().map(finding).collect::<Vec<_>>().into()),
        ("more_findings", report.more_findings.into()),
        ("objects", report.objects.into()),
        ("openings", report.openings.into()),
        ("operator_acts", report.operator_acts_count.into()),
        ("origin", report.origin.as_str().into()),
        ("redacted", report.redacted.into()),
        ("root", hex(&report.root).into()),
        ("seals", report.seals.into()),
        ("signed_by", strings(&report.signed_by)),
        ("size", report.size.into()),
        ("unchecked", strings(&report.unchecked)),
        ("verdict", verdict.as_str().into()),
    ])
}
