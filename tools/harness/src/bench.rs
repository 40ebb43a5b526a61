//! Side by side in one run: the ledger and a plain file that does the same syncs.
//!
//! The disk of a shared machine changes from minute to minute, so every figure stands beside one of a plain append file
//! with fdatasync, measured in turns with it; what counts is the ratio, taken pair by pair.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use crate::load::{self, Done};
use serde_json::{Value, json};
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use worldlog::event::Event;
use worldlog::ledger::{InspectOptions, Ledger, inspect};
use worldlog::merkle::hash::sha256;
use worldlog::verify::Trust;

pub(crate) const EVENT_BYTES: usize = 256;
const WRITERS: [usize; 4] = [1, 8, 64, 256];
/// Calls of one submission in the long log: 4 x 160 events are below the cap of a commit.
const CALLS_PER_COMMIT: u64 = 160;

/// Calls that are timed one by one.
const CALLS_ALONE: u64 = 400;

/// What one round measured.
#[derive(Clone)]
pub(crate) struct Round {
    pub(crate) per_second: f64,
    /// Microseconds, sorted.
    latencies: Vec<u64>,
}

impl Round {
    pub(crate) fn new(latencies: &[Duration], elapsed: Duration) -> Self {
        let micros = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut latencies: Vec<u64> = latencies.iter().map(micros).collect();
        latencies.sort_unstable();
        Self { per_second: latencies.len() as f64 / elapsed.as_secs_f64(), latencies }
    }

    pub(crate) fn quantile(&self, part: usize, of: usize) -> u64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get(last * part / of).copied().unwrap_or(0)
    }
}

const HELP: &str = "\
Measures the ledger beside a plain file, and calls over HTTP beside what they cannot go beyond, in one run.

usage: tools/bench [--quick] [--log-only|--http-only] [--json FILE]

  --quick       one round of a quarter of a second where it is three of two, and a log of 100,000 events instead of 1,000,000:
                under half a minute, and figures that tell whether it works, not how fast
  --log-only    the long log: writing, one commit at a tenth and at the end of it, audit, rebuilding, space
  --http-only   calls over HTTP: 1, 8, 32, 64 and 256 sessions, each with a connection and an episode of its own
  --json FILE   writes all figures

Works in a temporary folder below the current one: run it on the disk that is meant, with 4 GiB free, on a machine that does
nothing else. Server, clients and whatever stands beside them share this process and its cores. Disks of shared machines change
from minute to minute: figures that are compared are measured in turns, and what counts is their ratio. Nothing is asserted;
the last table sets the ratios beside what they are meant to reach.";

/// Runs everything and prints tables.
pub(crate) fn run(args: &[&str]) -> Done {
    if args.iter().any(|arg| ["--help", "-h"].contains(arg)) {
        println!("{HELP}");
        return Ok(());
    }
    let json = args.iter().skip_while(|arg| **arg != "--json").nth(1).copied();
    let known = ["--quick", "--log-only", "--http-only", "--json"];
    if let Some(odd) = args.iter().find(|arg| !known.contains(arg) && json != Some(**arg)) {
        return Err(format!("{odd} is not known here; see --help").into());
    }
    let only = |flag: &str| args.contains(&flag);
    let (rounds, seconds, events) =
        if only("--quick") { (1, 0.25, 100_000) } else { (3, 2.0, 1_000_000) };
    let time = Duration::from_secs_f64(seconds);
    let all = !only("--log-only") && !only("--http-only");
    let commits = if all { commits(rounds, time)? } else { Vec::new() };
    let calls = if only("--log-only") { Vec::new() } else { crate::http::run(rounds, time)? };
    let long = if only("--http-only") { Value::Null } else { long_log(events)? };
    let report = json!({ "commits": commits, "calls": calls, "log": long });
    crate::targets::print(&report);
    if let Some(path) = json {
        File::create(path)?.write_all(serde_json::to_string_pretty(&report)?.as_bytes())?;
    }
    Ok(())
}

/// Durable commits with N writers that each wait for their own.
fn commits(rounds: usize, time: Duration) -> Result<Vec<Value>, Box<dyn Error>> {
    println!(
        "durable commits, one event of {EVENT_BYTES} bytes each, {rounds} rounds of {time:?}\n"
    );
    println!("writers   plain/s   ledger/s   ratio    p50 us    p99 us   plain p50   plain p99");
    let mut table = Vec::new();
    for writers in WRITERS {
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            let folder = tempfile::tempdir_in(".")?;
            let plain = plain_round(folder.path(), writers, time)?;
            let folder = tempfile::tempdir_in(".")?;
            pairs.push((plain, ledger_round(folder.path(), writers, time)?));
        }
        pairs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let Some((plain, ours)) = pairs.get(pairs.len() / 2) else { continue };
        let ratio = ratio(&(plain.clone(), ours.clone()));
        let (p50, p99) = (ours.quantile(1, 2), ours.quantile(99, 100));
        let (plain50, plain99) = (plain.quantile(1, 2), plain.quantile(99, 100));
        println!(
            "{writers:7} {:9.0} {:10.0} {ratio:7.2} {p50:9} {p99:9} {plain50:11} {plain99:11}",
            plain.per_second, ours.per_second
        );
        table.push(json!({
            "writers": writers, "plain_per_s": plain.per_second, "ledger_per_s": ours.per_second,
            "ratio": ratio, "p50_us": p50, "p99_us": p99, "plain_p50_us": plain50, "plain_p99_us": plain99,
        }));
    }
    println!();
    Ok(table)
}

fn ratio((plain, ours): &(Round, Round)) -> f64 {
    ours.per_second / plain.per_second
}

/// Runs `writers` threads for `time`; each calls what `make` gives it again and again.
pub(crate) fn drive<F>(
    writers: usize,
    time: Duration,
    make: impl Fn(usize) -> F,
) -> Result<Round, Box<dyn Error>>
where
    F: FnMut(u64) -> Result<(), String> + Send + 'static,
{
    let (stop, start) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(writers + 1)));
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let (stop, start, mut act) = (Arc::clone(&stop), Arc::clone(&start), make(writer));
            thread::spawn(move || {
                let mut latencies = Vec::new();
                start.wait();
                let mut number = (writer as u64) << 32;
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    act(number)?;
                    number += 1;
                    latencies.push(began.elapsed());
                }
                Ok::<_, String>(latencies)
            })
        })
        .collect();
    start.wait();
    let began = Instant::now();
    thread::sleep(time);
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for thread in threads {
        latencies.extend(thread.join().map_err(|_| "a writer panicked")??);
    }
    Ok(Round::new(&latencies, began.elapsed()))
}

pub(crate) fn ledger_round(
    folder: &Path,
    writers: usize,
    time: Duration,
) -> Result<Round, Box<dyn Error>> {
    let ledger = load::ledger(folder)?;
    drive(writers, time, |_| {
        let ledger = ledger.clone();
        move |number| {
            let committed = ledger.commit_blocking(load::event(number, EVENT_BYTES));
            committed.map(drop).map_err(|error| error.to_string())
        }
    })
}

pub(crate) type Append = (Vec<u8>, Sender<()>);

/// The same with a file: one thread appends whatever waits, syncs once, answers.
pub(crate) fn plain_round(
    folder: &Path,
    writers: usize,
    time: Duration,
) -> Result<Round, Box<dyn Error>> {
    let mut file = File::create(folder.join("plain"))?;
    let (queue, waiting) = sync_channel::<Append>(4_096);
    let appender = thread::spawn(move || append(&mut file, &waiting));
    let round = drive(writers, time, |_| {
        let queue = queue.clone();
        move |number| {
            let block = sha256(&number.to_be_bytes());
            let bytes: Vec<u8> = block.iter().cycle().take(EVENT_BYTES).copied().collect();
            let (answer, done) = channel();
            queue.send((bytes, answer)).map_err(|error| error.to_string())?;
            done.recv().map_err(|error| error.to_string())
        }
    });
    drop(queue);
    appender.join().map_err(|_| "the appender panicked")?.map_err(|error| error.to_string())?;
    round
}

pub(crate) fn append(file: &mut File, waiting: &Receiver<Append>) -> std::io::Result<()> {
    while let Ok(first) = waiting.recv() {
        let mut group = vec![first];
        group.extend(waiting.try_iter().take(1_023));
        let mut bytes = Vec::new();
        for (event, _) in &group {
            bytes.extend_from_slice(&(event.len() as u64).to_be_bytes());
            bytes.extend_from_slice(event);
        }
        file.write_all(&bytes)?;
        rustix::fs::fdatasync(&*file)?;
        for (_, answer) in group {
            // A writer that has stopped does not wait any more.
            let _ = answer.send(());
        }
    }
    Ok(())
}

fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let began = Instant::now();
    let done = work();
    (began.elapsed().as_secs_f64(), done)
}

/// Calls that go on where the last ones ended.
struct Calls<'a> {
    ledger: &'a Ledger,
    transition: u64,
    next: u64,
}

impl Calls<'_> {
    /// Up to call `until`, many in a commit.
    fn grow(&mut self, until: u64) -> Done {
        while self.next < until {
            let count = CALLS_PER_COMMIT.min(until - self.next);
            self.ledger.commit_blocking(load::calls(self.transition, self.next, count)?)?;
            self.next += count;
        }
        Ok(())
    }

    /// Some more, each in a commit of its own.
    fn alone(&mut self) -> Result<Round, Box<dyn Error>> {
        let (mut latencies, whole) = (Vec::new(), Instant::now());
        for _ in 0..CALLS_ALONE {
            let began = Instant::now();
            self.ledger.commit_blocking(load::calls(self.transition, self.next, 1)?)?;
            latencies.push(began.elapsed());
            self.next += 1;
        }
        Ok(Round::new(&latencies, whole.elapsed()))
    }
}

/// A long log of whole calls: building, space, audit, rebuilding with and without a snapshot.
fn long_log(events: u64) -> Result<Value, Box<dyn Error>> {
    let folder = tempfile::tempdir_in(".")?;
    let ledger = load::ledger(folder.path())?;
    let mut calls = Calls { transition: load::begin(&ledger)?, ledger: &ledger, next: 0 };
    let total = events / 4;
    calls.grow(total / 10)?;
    let short = calls.alone()?;
    let first = calls.next;
    let (build, done) = seconds(|| calls.grow(total));
    done?;
    let long = calls.alone()?;
    ledger.seal()?;
    ledger.tend()?;
    let size = ledger.published().head.size;
    let store = Arc::clone(ledger.store());
    let payload: u64 = worldlog::store::layout::events(store.as_ref(), 0)
        .map(|item| item.map_or(0, |(_, bytes)| bytes.len() as u64))
        .sum();
    let trust = Trust { keys: vec![ledger.verifier_keys()[0].clone()], seen: None };
    let options = InspectOptions { trust, ..InspectOptions::default() };
    let (audit, found) = seconds(|| inspect(store.as_ref(), &options));
    if !found.report.findings.is_empty() {
        return Err(format!("the log is not sound: {:?}", found.report.findings).into());
    }
    ledger.snapshot(0, true).ok_or("no snapshot was written")?;
    let with = InspectOptions { snapshot: true, ..options };
    let (snapshot, found) = seconds(|| inspect(store.as_ref(), &with));
    if found.from_snapshot.is_none() {
        return Err("the snapshot was not used".into());
    }
    let (scan, hashed) = seconds(|| raw_hash(store.as_ref()));
    let (parse, parsed) = seconds(|| parsed(store.as_ref()));
    if parsed != size {
        return Err(format!("{parsed} of {size} events parse").into());
    }
    let disk = folder_bytes(folder.path())?;
    let rate = |time: f64| size as f64 / time;
    println!("a log of {size} events, {} bytes each\n", payload / size);
    let written = 4.0 * (total - first) as f64 / build;
    let growth = long.quantile(1, 2) as f64 / short.quantile(1, 2) as f64;
    println!("written, {CALLS_PER_COMMIT} calls a commit     {written:10.0} events/s");
    println!(
        "one call, one commit, p50        {:10} us; at a tenth of the log {} us",
        long.quantile(1, 2),
        short.quantile(1, 2)
    );
    println!("read and SHA-256 only            {:10.0} events/s ({hashed} bytes)", rate(scan));
    println!("read and parse                   {:10.0} events/s", rate(parse));
    println!("audit: structure and lawfulness  {:10.0} events/s", rate(audit));
    println!("rebuild from a snapshot          {snapshot:10.2} s (every leaf hashed again)");
    println!("on disk                          {:10.0} bytes an event", disk as f64 / size as f64);
    println!("on disk / event bytes            {:10.2}", disk as f64 / payload as f64);
    Ok(json!({
        "events": size, "event_bytes": payload / size, "written_per_s": written,
        "commit_p50_us": long.quantile(1, 2), "commit_p50_at_a_tenth_us": short.quantile(1, 2), "growth": growth,
        "scan_per_s": rate(scan), "parse_per_s": rate(parse), "audit_per_s": rate(audit), "snapshot_s": snapshot,
        "disk_bytes_per_event": disk as f64 / size as f64, "disk_ratio": disk as f64 / payload as f64,
    }))
}

fn parsed(store: &dyn worldlog::store::Store) -> u64 {
    let events = worldlog::store::layout::events(store, 0).filter_map(Result::ok);
    events.filter(|(_, bytes)| Event::decode(bytes).is_ok()).count() as u64
}

fn raw_hash(store: &dyn worldlog::store::Store) -> u64 {
    worldlog::store::layout::events(store, 0)
        .filter_map(Result::ok)
        .map(|(_, bytes)| {
            std::hint::black_box(sha256(&bytes));
            bytes.len() as u64
        })
        .sum()
}

fn folder_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        total += if meta.is_dir() { folder_bytes(&entry.path())? } else { meta.len() };
    }
    Ok(total)
}
