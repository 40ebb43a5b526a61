//! Every limit of the program, as a constant with the sum that justifies it.
//!
//! Names end in their unit and `_MAX`. `spec/limits.md` lists the same values, and a test compares the two. A limit
//! is checked before anything is allocated for what it bounds.

/// One event. An entry bundle carries a length of 16 bits (C2SP tlog-tiles), so a leaf cannot be longer.
pub const EVENT_BYTES_MAX: usize = 65_535;
/// Nesting of arrays and maps in an event, the envelope included. Bodies need four.
pub const EVENT_DEPTH_MAX: usize = 8;
/// Unsigned integers of an event stay below this, so that a JavaScript number holds each of them exactly.
pub const EVENT_UINT_MAX: u64 = (1 << 53) - 1;
/// Text that an event holds in the clear: names of tools, effects, scopes and engines.
pub const EVENT_NAME_BYTES_MAX: usize = 128;
/// Files named by one intent or outcome. 512 entries of three 16-byte tokens are 28 KiB: they fit an event.
pub const EVENT_FILES_MAX: usize = 512;

/// Nesting of a canonical JSON object.
pub const JSON_DEPTH_MAX: usize = 64;
/// Bytes of one JSON number as sent.
pub const JSON_NUMBER_BYTES_MAX: usize = 16_384;
/// Digits of a JSON number's coefficient.
pub const JSON_DIGITS_MAX: usize = 1_024;
/// Magnitude of a JSON number's exponent as sent, and digits that writing it out may take.
pub const JSON_EXPONENT_MAX: i64 = 10_000;

/// Bytes of one value in the store. A sled leaf holds up to 17 values and moves to a file that is never synced when it
/// passes 128 KiB: 17 x 6 KiB = 102 KiB stays below, with keys.
pub const STORE_VALUE_BYTES_MAX: usize = 6 * 1024;
/// Bytes of one key in the store: 17 x (6 KiB + 512 B) = 110.5 KiB, still below the 128 KiB of a leaf.
pub const STORE_KEY_BYTES_MAX: usize = 512;
/// Bytes of a name inside a key of the store: its length is one byte there, and 255 + 36 fit a key.
pub const STORE_NAME_BYTES_MAX: usize = 255;
/// Bytes of sled's cache unless asked otherwise. It counts sizes on disk: the process was measured at 317 MB with it.
pub const STORE_CACHE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes that may be read after an open, or written aside, before the store syncs: half of a sled segment, so that
/// there are never two segments on their way to the disk at once.
pub const STORE_UNSYNCED_BYTES_MAX: usize = 256 * 1024;
/// Bytes by which the store's files may grow for a commit beyond twice its own bytes: the segment that it fills, the
/// next one, and as much again for leaves that sled rewrites: 4 x 512 KiB, doubled.
pub const STORE_GROWTH_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of one commit: half of a sled segment.
pub const COMMIT_BYTES_MAX: usize = 256 * 1024;
/// Events of one commit.
pub const COMMIT_EVENTS_MAX: usize = 1_024;
/// An object up to this size rides in the batch of its event; a larger one is staged before it.
pub const OBJECT_INLINE_BYTES_MAX: usize = 32 * 1024;
/// One object: a file as it was before a write, so that undo can restore it.
pub const OBJECT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A log origin: its length is one byte in the message that an ML-DSA-44 key signs.
pub const ORIGIN_BYTES_MAX: usize = 255;
/// A signed note: 100 signatures, of which each ML-DSA-44 one takes 3,300 bytes.
pub const NOTE_BYTES_MAX: usize = 512 * 1024;
/// Signature lines of one note, as in the Go implementation.
pub const NOTE_SIGNATURES_MAX: usize = 100;
/// Hashes of one proof: a tree of 2^63 leaves is 63 deep.
pub const PROOF_HASHES_MAX: usize = 63;
/// Leaves of a tree. A proof between two sizes takes one hash more than the tree is deep: 62 + 1 = 63 keeps every
/// proof within `PROOF_HASHES_MAX`, which is also what a witness takes (C2SP tlog-witness).
pub const TREE_LEAVES_MAX: u64 = 1 << 62;
/// One entry bundle: 256 entries of 65,535 bytes, each behind a length of two.
pub const BUNDLE_BYTES_MAX: usize = 256 * (2 + EVENT_BYTES_MAX);
/// Authenticated full tiles that a reader keeps at hand: 64 x 8 KiB = 512 KiB. Those of the right edge come on top.
pub const READER_TILES_MAX: usize = 64;
/// Siblings in a proof of the sparse Merkle map: a key has 256 bits.
pub const MAP_SIBLINGS_MAX: usize = 256;
/// The unauthenticated `extra` of a `.tlog-proof`: one event fits.
pub const PROOF_EXTRA_BYTES_MAX: usize = 65_535;
/// A `.tlog-proof`: the note, `extra` in base64 (87,380), 63 hash lines of 45 bytes (2,835) and three short lines.
pub const PROOF_FILE_BYTES_MAX: usize = NOTE_BYTES_MAX + 96 * 1024;
/// The text of a verifier key: a name, and 1,313 bytes in base64 (1,752).
pub const VKEY_BYTES_MAX: usize = ORIGIN_BYTES_MAX + 1 + 8 + 1 + 1_752;
/// POSIX seconds of a cosignature (C2SP tlog-cosignature).
pub const COSIGNATURE_SECONDS_MAX: u64 = (1 << 63) - 1;

/// Bytes of objects that one episode may store.
pub const EPISODE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Milliseconds that a client waits for one call.
pub const INVOCATION_MS_MAX: u64 = 20_000;
/// Milliseconds of one plan: 20 s less the effect's 10 s, and less 6 s in which finish, outcome and commit fit.
pub const PLAN_MS_MAX: u64 = 4_000;
/// Milliseconds of one effect: a program's 8 s, and 2 s to start and to read what it left.
pub const EFFECT_MS_MAX: u64 = 10_000;
/// Milliseconds of one finish run.
pub const FINISH_MS_MAX: u64 = 2_000;
/// Milliseconds kept after the effect's deadline for the finish run (2 s) and for writing down what came of it (4 s).
pub const WIND_UP_MS_MAX: u64 = 6_000;
/// Calls that wait for one episode. At 1 ms a call the last one waits an eighth of a second; each holds its arguments, at
/// most 4 MiB: 512 MiB.
pub const CALLS_WAITING_MAX: usize = 128;
/// Entries looked through for the content that a session last saw of a file, when a write is refused because it moved on.
pub const SEEN_SEARCH_MAX: u64 = 1_000;
/// Changes of one file that are looked through for how it was at a leaf: four reads each, some 10 microseconds: 0.4 s.
pub const FILES_SEARCH_MAX: u64 = 10_000;
/// Connections at once, each with a handle and at most 64 KiB of a head and as much of a body: 128 MiB.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Connections that wait in the kernel for one of those places: as many again.
pub const WAITING_CONNECTIONS_MAX: i32 = 1_024;
/// Bytes of a request's body that every connection may have, so that no request of a usual size waits for those of others.
pub const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all bodies beyond that, from their arrival until the answer leaves: 64 of the largest, 4 MiB. A body, its parsed
/// arguments and the plan made of them are about three times as much: 768 MiB.
pub const BODIES_BYTES_MAX: usize = 64 * 4 * 1024 * 1024;
/// Milliseconds that a body waits for its share of them; then 503. Large ones are read in some 10 ms, so that a burst passes.
pub const BODY_WAIT_MS_MAX: u64 = 1_000;
/// Bytes of answers that have not left, beyond which a client that takes nothing of its own for a second loses it. The
/// largest answer shows an object of 8 MiB twice, the second time escaped: some 32 MiB, and eight of them.
pub const ANSWERS_BYTES_MAX: usize = 8 * 32 * 1024 * 1024;
/// Bytes of the answers to one batch after which no further message of it begins. One answer always fits.
pub const BATCH_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Live streams at once. Each wakes for every head: at 1,000 heads a second 64 of them take a fraction of one core.
pub const STREAMS_MAX: usize = 64;
/// Events that the indexes beside the log make up for at once: some 20 microseconds each, 0.4 s in a second.
pub const BESIDE_CATCH_UP_MAX: u64 = 20_000;
/// Calls that an episode's description lists: five reads each.
pub const EPISODE_CALLS_MAX: usize = 50;
/// Files that a story lists; an intent may hold 512.
pub const STORY_FILES_MAX: usize = 100;
/// Events looked through for one page of objects of a kind.
pub const KINDS_SEARCH_MAX: u64 = 5_000;
/// Entries looked through for calls that wait for approval, and tokens of previews remembered for the same purpose.
pub const APPROVALS_SEARCH_MAX: u64 = 1_000;
/// Bytes of outputs on one page of a session's calls: the page ends with the first output that reaches it, so that any
/// output fits and no page is larger than two.
pub const LISTED_BYTES_MAX: usize = OBJECT_BYTES_MAX;

/// A file that a tool reads, writes or edits. A write keeps what it replaces as an object, so the two are the same.
pub const FILE_BYTES_MAX: usize = OBJECT_BYTES_MAX;
/// A path as a tool names it: what Linux takes, without its final NUL.
pub const PATH_BYTES_MAX: usize = 4_095;
/// Folders above a file. While a path with links is resolved, each is one open handle: 256 of the 1,024 that a process
/// has by default.
pub const PATH_DEPTH_MAX: usize = 256;
/// Symbolic links followed for one path, as in the kernel.
pub const PATH_LINKS_MAX: usize = 40;
/// Times that a path or a file is looked at again because it changed under the look.
pub const PATH_TRIES_MAX: usize = 16;
/// Bytes of a path repeated in a refusal. A payload of 1 MiB may be one path.
pub const PATH_SHOWN_BYTES_MAX: usize = 1_024;
/// Names that a listing or a search looks at. At 2 microseconds a name for reading, sorting and rules, under half a second;
/// at 100 bytes a name, 20 MB if they are all in one folder.
pub const WALK_NAMES_MAX: usize = 200_000;
/// One `.gitignore`; a longer one counts as absent. The longest in wide use has 12 KiB.
pub const IGNORE_BYTES_MAX: usize = 64 * 1024;
/// A `glob` argument.
pub const GLOB_BYTES_MAX: usize = 1_024;
/// Entries of one listing. At 100 bytes each, 1 MB for an agent to read.
pub const LIST_ENTRIES_MAX: u64 = 10_000;
/// Bytes that the entries of a listing or the lines of a search take as JSON. What comes after it is cut off and said.
pub const WALK_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Matches of one search.
pub const SEARCH_MATCHES_MAX: u64 = 2_000;
/// Lines of context on each side of a match.
pub const SEARCH_CONTEXT_LINES_MAX: u64 = 20;
/// Bytes shown of a line that matches, or stands near one.
pub const SEARCH_LINE_BYTES_MAX: usize = 500;
/// A line that is searched; a file with a longer one counts as too large. The worst expressions were measured at 6 us a
/// byte, and none is stopped within a line: a second and a half.
pub const SEARCH_LINE_READ_BYTES_MAX: usize = 256 * 1024;
/// Bytes of all files that a search reads: at 200 MB/s for a usual expression, a second and a half of an effect's ten.
pub const SEARCH_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// A `pattern` argument.
pub const PATTERN_BYTES_MAX: usize = 4 * 1024;
/// A compiled expression, and as much again for what it keeps while it searches.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Room in an output object for the members that are not the file's content: two digests and `world`, below 1 KiB.
pub const OUTPUT_FRAME_BYTES_MAX: usize = 4 * 1024;
/// The payload of a planned effect, as canonical JSON (plan law L4).
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
