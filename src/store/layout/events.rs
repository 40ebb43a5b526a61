//! Events in chunks: the exact bytes of consecutive events, packed into values.
//!
//! A commit makes chunks of its own, so a chunk never changes. An event that cannot share a chunk even with nothing
//! else is kept in parts, and its frame holds its length and its leaf hash instead of its bytes. What an event says, and
//! whether it is an entry, the caller knows.
//!
//! ```text
//! e first_seq:u64 -> 0x01 flags:u8 first_seq:u64 count:u16 entries:u64 frame*count      at most 6,144 bytes
//!                    flags    bit 0: last chunk of its commit; other bits 0
//!                    entries  entries of the log before this chunk
//!                    frame    length:u32 bytes                      length 1..6,120
//!                           | 0x80000000+length:u32 leaf_hash:32    length 6,121..65,535
//! p seq:u64 part:u8 -> bytes; every part but the last has 6,144
//! ```

use std::collections::VecDeque;

use super::{
    Batch, EVENT_PARTS, EVENTS, PAIRS_PER_READ, Pair, Store, StoreError, damaged, just_after,
    number_key, number_of, refused,
};
use crate::limits::{EVENT_BYTES_MAX, STORE_VALUE_BYTES_MAX};
use crate::merkle::hash::{Hash, leaf_hash};

const VERSION: u8 = 1;
const LAST_OF_COMMIT: u8 = 1;
const HEADER_BYTES: usize = 1 + 1 + 8 + 2 + 8;
const SPLIT: u32 = 1 << 31;
/// The longest event that a chunk can hold itself.
const INLINE_BYTES_MAX: usize = STORE_VALUE_BYTES_MAX - HEADER_BYTES - 4;

/// An event on its way into the store.
#[derive(Debug, Clone, Copy)]
pub struct NewEvent<'a> {
    /// Its exact bytes.
    pub bytes: &'a [u8],
    /// Whether it is an entry (a commit event).
    pub entry: bool,
}

/// What the header of a chunk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Seq of its first event.
    pub first_seq: u64,
    /// Number of its events, at least 1.
    pub count: u16,
    /// Entries of the log before its first event.
    pub entries: u64,
    /// The last chunk of its commit.
    pub last_of_commit: bool,
}

impl Chunk {
    /// Seq of the event after its last.
    pub fn end(&self) -> u64 {
        self.first_seq.saturating_add(u64::from(self.count))
    }
}

/// Adds consecutive events from `first_seq` on, all events of this commit, with `entries_before` entries in the log
/// before them. Says so in `batch.events`.
pub fn put_events(
    batch: &mut Batch,
    first_seq: u64,
    entries_before: u64,
    events: &[NewEvent<'_>],
) -> Result<(), StoreError> {
    let end = u64::try_from(events.len()).ok().and_then(|n| first_seq.checked_add(n));
    let end = end.ok_or_else(|| refused(format!("no seq is left after {first_seq}")))?;
    if !batch.events.is_empty() {
        return Err(refused(format!("the batch has events already: {:?}", batch.events)));
    }
    let mut writer = Writer::new(first_seq, entries_before);
    for (seq, event) in (first_seq..end).zip(events) {
        let n = event.bytes.len();
        if n == 0 || n > EVENT_BYTES_MAX {
            return Err(refused(format!("event {seq} has {n} bytes, not 1 to {EVENT_BYTES_MAX}")));
        }
        writer.add(batch, seq, event);
    }
    if !events.is_empty() {
        writer.chunk.last_of_commit = true;
        writer.finish(batch);
    }
    batch.events = first_seq..end;
    Ok(())
}

struct Writer {
    chunk: Chunk,
    /// Entries before the next event.
    entries: u64,
    frames: Vec<u8>,
}

impl Writer {
    fn new(first_seq: u64, entries: u64) -> Self {
        let chunk = Chunk { first_seq, count: 0, entries, last_of_commit: false };
        Self { chunk, entries, frames: Vec::new() }
    }

    fn add(&mut self, batch: &mut Batch, seq: u64, event: &NewEvent<'_>) {
        let split = event.bytes.len() > INLINE_BYTES_MAX;
        let needed = if split { 4 + 32 } else { 4 + event.bytes.len() };
        if self.frames.len() + needed > STORE_VALUE_BYTES_MAX - HEADER_BYTES {
            self.finish(batch);
            *self = Self::new(seq, self.entries);
        }
        // At most 65,535, so the top bit is free.
        let length = u32::try_from(event.bytes.len()).unwrap_or(u32::MAX);
        if split {
            self.frames.extend_from_slice(&(SPLIT | length).to_be_bytes());
            self.frames.extend_from_slice(&leaf_hash(event.bytes));
            for (part, bytes) in (0_u8..).zip(event.bytes.chunks(STORE_VALUE_BYTES_MAX)) {
                batch.put(part_key(seq, part), bytes.to_vec());
            }
        } else {
            self.frames.extend_from_slice(&length.to_be_bytes());
            self.frames.extend_from_slice(event.bytes);
        }
        self.chunk.count += 1;
        self.entries += u64::from(event.entry);
    }

    fn finish(&mut self, batch: &mut Batch) {
        let chunk = self.chunk;
        let mut value = Vec::with_capacity(HEADER_BYTES + self.frames.len());
        value.extend_from_slice(&[VERSION, u8::from(chunk.last_of_commit)]);
        value.extend_from_slice(&chunk.first_seq.to_be_bytes());
        value.extend_from_slice(&chunk.count.to_be_bytes());
        value.extend_from_slice(&chunk.entries.to_be_bytes());
        value.append(&mut self.frames);
        batch.put(number_key(EVENTS, chunk.first_seq), value);
    }
}

/// The number of events: the seq of the next one.
pub fn event_count<S: Store + ?Sized>(store: &S) -> Result<u64, StoreError> {
    Ok(last_chunk(store)?.map_or(0, |chunk| chunk.end()))
}

/// The newest chunk. It has to be the last of its commit.
pub fn last_chunk<S: Store + ?Sized>(store: &S) -> Result<Option<Chunk>, StoreError> {
    let Some(pair) = store.last(&[EVENTS], &[EVENTS + 1])? else { return Ok(None) };
    let (chunk, _) = decode(&pair)?;
    check_end(&chunk)?;
    Ok(Some(chunk))
}

/// The exact bytes of one event; `None` beyond the end of the log.
pub fn event<S: Store + ?Sized>(store: &S, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let (chunk, mut frames) = match store.last(&[EVENTS], &just_after(number_key(EVENTS, seq)))? {
        Some(pair) => {
            let (chunk, frames) = decode(&pair)?;
            (Some(chunk), frames)
        }
        None => (None, Vec::new()),
    };
    let place = chunk.and_then(|chunk| usize::try_from(seq - chunk.first_seq).ok());
    if let Some(place) = place.filter(|place| *place < frames.len()) {
        return whole(store, seq, frames.swap_remove(place)).map(Some);
    }
    // It is beyond this chunk: the end of the log, unless a later chunk says that there is a hole.
    match store.range(&number_key(EVENTS, seq), &[EVENTS + 1], 1)?.first() {
        None => Ok(None),
        Some(pair) => {
            let next = number_of(&pair.0, "event chunk")?;
            let end = chunk.map_or(0, |chunk| chunk.end());
            Err(damaged(chunk_name(next), format!("the events {end} to {next} are missing")))
        }
    }
}

/// All events with `from <= seq`, as they are when they are read. Memory stays bounded however long the log.
pub fn events<S: Store + ?Sized>(store: &S, from: u64) -> Events<'_, S> {
    Events { store, from, next: None, pairs: VecDeque::new(), frames: VecDeque::new(), end: false }
}

/// The chunk in which the entry number `entry` is, if the log has one (entries are counted from 0): the last one with at
/// most that many entries before it. The caller knows which of its events are entries.
pub fn entry_chunk<S: Store + ?Sized>(store: &S, entry: u64) -> Result<Option<Chunk>, StoreError> {
    let Some(last) = last_chunk(store)? else { return Ok(None) };
    // The answer begins at `low` or later, and before `high`.
    let (mut low, mut high, mut best) = (0, last.end(), None);
    while low < high {
        let middle = low + (high - low) / 2;
        let to = just_after(number_key(EVENTS, middle));
        let Some(pair) = store.last(&number_key(EVENTS, low), &to)? else {
            return Err(damaged(chunk_name(low), "it is missing".to_owned()));
        };
        let (chunk, _) = decode(&pair)?;
        if chunk.end() <= middle {
            let reason = format!("the events {} to {middle} are missing", chunk.end());
            return Err(damaged(chunk_name(chunk.first_seq), reason));
        }
        if chunk.entries <= entry {
            low = chunk.end();
            best = Some(chunk);
        } else {
            high = chunk.first_seq;
        }
    }
    Ok(best)
}

/// Walks events in the order of their seqs. Yields an error once, and then nothing more.
#[derive(Debug)]
pub struct Events<'a, S: Store + ?Sized> {
    store: &'a S,
    from: u64,
    /// The last chunk that was opened.
    next: Option<Chunk>,
    pairs: VecDeque<Pair>,
    frames: VecDeque<(u64, Frame)>,
    /// The store has no pairs after `pairs`.
    end: bool,
}

impl<S: Store + ?Sized> Iterator for Events<'_, S> {
    type Item = Result<(u64, Vec<u8>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.step().transpose()?;
        if found.is_err() {
            self.pairs.clear();
            self.frames.clear();
            self.next = None;
            self.end = true;
        }
        Some(found)
    }
}

impl<S: Store + ?Sized> Events<'_, S> {
    fn step(&mut self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        loop {
            if let Some((seq, frame)) = self.frames.pop_front() {
                return whole(self.store, seq, frame).map(|bytes| Some((seq, bytes)));
            }
            let Some(pair) = self.pairs.pop_front() else {
                if !self.fetch()? {
                    return Ok(None);
                }
                continue;
            };
            let (chunk, frames) = decode(&pair)?;
            match self.next {
                Some(before) => check_follows(&before, &chunk)?,
                None if chunk.first_seq > self.from => {
                    let reason = format!("event {} should come before it", self.from);
                    return Err(damaged(chunk_name(chunk.first_seq), reason));
                }
                None => {}
            }
            self.next = Some(chunk);
            let from = self.from;
            let numbered = (chunk.first_seq..).zip(frames);
            self.frames = numbered.filter(|(seq, _)| *seq >= from).collect();
        }
    }

    /// Fills `pairs`; false at the end of the log.
    fn fetch(&mut self) -> Result<bool, StoreError> {
        if !self.end {
            let from = match self.next {
                Some(chunk) => number_key(EVENTS, chunk.end()),
                None => self.start()?,
            };
            let pairs = self.store.range(&from, &[EVENTS + 1], PAIRS_PER_READ)?;
            self.end = pairs.len() < PAIRS_PER_READ;
            self.pairs = pairs.into();
        }
        if self.pairs.is_empty()
            && let Some(chunk) = self.next
        {
            check_end(&chunk)?;
        }
        Ok(!self.pairs.is_empty())
    }

    /// The key of the chunk that holds `from`, or of the place where it would be.
    fn start(&self) -> Result<Vec<u8>, StoreError> {
        let after = just_after(number_key(EVENTS, self.from));
        let Some(pair) = self.store.last(&[EVENTS], &after)? else {
            return Ok(number_key(EVENTS, 0));
        };
        Ok(pair.0)
    }
}

/// One event as its chunk has it.
#[derive(Debug)]
enum Frame {
    Inline(Vec<u8>),
    Split { length: usize, leaf: Hash },
}

/// The bytes of an event, put together when it is in parts.
fn whole<S: Store + ?Sized>(store: &S, seq: u64, frame: Frame) -> Result<Vec<u8>, StoreError> {
    let (length, leaf) = match frame {
        Frame::Inline(bytes) => return Ok(bytes),
        Frame::Split { length, leaf } => (length, leaf),
    };
    let bad = |reason: String| damaged(format!("event {seq}"), reason);
    let parts = length.div_ceil(STORE_VALUE_BYTES_MAX);
    // One more than there should be, so that one too many is noticed.
    let pairs = store.range(&part_key(seq, 0), &just_after(part_key(seq, u8::MAX)), parts + 1)?;
    let mut bytes = Vec::with_capacity(length);
    for (part, (key, value)) in (0_u8..).zip(&pairs) {
        let expected = (length - bytes.len()).min(STORE_VALUE_BYTES_MAX);
        if *key != part_key(seq, part) || value.len() != expected || expected == 0 {
            return Err(bad(format!("part {part} is missing or has a wrong length")));
        }
        bytes.extend_from_slice(value);
    }
    if bytes.len() != length {
        return Err(bad(format!("{} bytes in its parts instead of {length}", bytes.len())));
    }
    if leaf_hash(&bytes) != leaf {
        return Err(bad("its parts do not have the hash that its chunk names".to_owned()));
    }
    Ok(bytes)
}

fn check_follows(before: &Chunk, chunk: &Chunk) -> Result<(), StoreError> {
    let bad = |reason| Err(damaged(chunk_name(chunk.first_seq), reason));
    if chunk.first_seq != before.end() {
        return bad(format!("event {} should come here", before.end()));
    }
    let entries = chunk.entries.checked_sub(before.entries);
    if entries.is_none_or(|n| n > u64::from(before.count)) {
        return bad(format!(
            "{} entries before it, {} before the last chunk",
            chunk.entries, before.entries
        ));
    }
    Ok(())
}

fn check_end(chunk: &Chunk) -> Result<(), StoreError> {
    if chunk.last_of_commit {
        return Ok(());
    }
    let reason = "the log ends here, in the middle of a commit".to_owned();
    Err(damaged(chunk_name(chunk.first_seq), reason))
}

fn decode(pair: &Pair) -> Result<(Chunk, Vec<Frame>), StoreError> {
    let seq = number_of(&pair.0, "event chunk")?;
    let bad = |reason: &str| damaged(chunk_name(seq), reason.to_owned());
    let mut bytes = pair.1.as_slice();
    let [version, flags] = take(&mut bytes).ok_or_else(|| bad("no header"))?;
    let first_seq = u64::from_be_bytes(take(&mut bytes).ok_or_else(|| bad("no first seq"))?);
    let count = u16::from_be_bytes(take(&mut bytes).ok_or_else(|| bad("no count"))?);
    let entries = u64::from_be_bytes(take(&mut bytes).ok_or_else(|| bad("no entries"))?);
    if version != VERSION || flags & !LAST_OF_COMMIT != 0 {
        return Err(bad("an unknown version or flag"));
    }
    if first_seq != seq || count == 0 || entries > first_seq {
        return Err(bad("its header contradicts its key"));
    }
    let mut frames = Vec::with_capacity(usize::from(count).min(bytes.len() / 5));
    for _ in 0..count {
        frames.push(take_frame(&mut bytes).ok_or_else(|| bad("a frame is malformed"))?);
    }
    if !bytes.is_empty() {
        return Err(bad("bytes follow the last frame"));
    }
    let last_of_commit = flags & LAST_OF_COMMIT != 0;
    Ok((Chunk { first_seq, count, entries, last_of_commit }, frames))
}

fn take_frame(bytes: &mut &[u8]) -> Option<Frame> {
    let word = u32::from_be_bytes(take(bytes)?);
    let length = usize::try_from(word & !SPLIT).ok()?;
    if word & SPLIT != 0 {
        let fits = (INLINE_BYTES_MAX + 1..=EVENT_BYTES_MAX).contains(&length);
        return fits.then_some(Frame::Split { length, leaf: take(bytes)? });
    }
    if length == 0 {
        return None;
    }
    let (event, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(Frame::Inline(event.to_vec()))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

fn part_key(seq: u64, part: u8) -> Vec<u8> {
    let mut key = number_key(EVENT_PARTS, seq);
    key.push(part);
    key
}

fn chunk_name(seq: u64) -> String {
    format!("event chunk {seq}")
}
