//! The auditor: what a log proves, from bytes alone.
//!
//! [`Audit`] takes the events of a log one after another and then its head, and reports *findings*. A finding has a stable
//! code and leads to a *verdict*; the worst verdict decides. Everything here works on bytes that somebody else fetched: no
//! files, no network, no clock, and no trust in who wrote them. `spec/state.md` lists the checks in this order.
//!
//! ```text
//! rewritten > truncated > damaged > unverifiable > fewer witnesses than asked > verified
//! ```

mod audit;
mod payload;
mod proof;

pub use audit::{Audit, Trust, key_id, log_keys, possession_message};
pub use payload::{PayloadAudit, Payloads, Redactions};
pub use proof::proof;

/// What an audit comes to, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// History was changed or forged.
    Rewritten,
    /// History is shorter than a head says.
    Truncated,
    /// Bytes are not what the signed history names.
    Damaged,
    /// Nothing speaks against it, but nothing outside speaks for it.
    Unverifiable,
    /// Fewer witnesses signed than were asked for.
    FewerWitnesses,
    /// All that was asked for holds.
    Verified,
}

impl Verdict {
    /// The exit code of a command.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Rewritten => 3,
            Self::Truncated => 4,
            Self::Damaged => 5,
            Self::Unverifiable => 6,
            Self::FewerWitnesses => 7,
            Self::Verified => 0,
        }
    }

    /// One word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rewritten => "rewritten",
            Self::Truncated => "truncated",
            Self::Damaged => "damaged",
            Self::Unverifiable => "unverifiable",
            Self::FewerWitnesses => "fewer-witnesses",
            Self::Verified => "verified",
        }
    }
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its stable code.
    pub code: &'static str,
    /// Where it leads.
    pub verdict: Verdict,
    /// The leaf at which it was found.
    pub leaf: Option<u64>,
    /// What was found, in words.
    pub detail: String,
}

/// What was checked, and what was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Name of the log.
    pub origin: String,
    /// Events read.
    pub size: u64,
    /// Root of the tree over them.
    pub root: crate::merkle::hash::Hash,
    /// Names and ids of the keys whose signatures verified, as `name+id`.
    pub signed_by: Vec<String>,
    /// Size of the head that was given as seen before, when the log extends it.
    pub extends: Option<u64>,
    /// Entries (committed calls).
    pub entries: u64,
    /// Acts of the operator on files, which no grant limits: the seq and tool of the first [`FINDINGS_MAX`].
    pub operator_acts: Vec<(u64, String)>,
    /// How many there are.
    pub operator_acts_count: u64,
    /// Seals whose state was recomputed.
    pub seals: u64,
    /// Objects whose bytes were hashed.
    pub objects: u64,
    /// Events whose blinded references were opened.
    pub openings: u64,
    /// Objects and openings that are gone because of a redaction.
    pub redacted: u64,
    /// What could not be checked, in words. Never counts as a finding.
    pub unchecked: Vec<String>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Findings beyond the first [`FINDINGS_MAX`], by number only.
    pub more_findings: u64,
}

/// Findings kept in words. A log with one changed leaf early on can yield one for each later event.
pub const FINDINGS_MAX: usize = 100;

impl Report {
    /// The worst verdict.
    pub fn verdict(&self) -> Verdict {
        self.findings.iter().map(|f| f.verdict).min().unwrap_or(Verdict::Verified)
    }

    /// Whoever signed the head did not sign these bytes, so that what they break is damage, and no act of the signer.
    fn nobody_signed_these_events(&mut self) {
        for finding in &mut self.findings {
            let by_the_signer =
                matches!(finding.code, "event-malformed" | "key-unproven" | "key-foreign");
            if by_the_signer || crate::state::Unlawful::CODES.contains(&finding.code) {
                finding.verdict = Verdict::Damaged;
            }
        }
    }

    /// Adds a finding.
    pub fn find(&mut self, code: &'static str, leaf: Option<u64>, detail: String) {
        let verdict = verdict_of(code);
        // The first of each code is always kept: a verdict never hangs on how many there are of another code.
        let first = self.findings.iter().all(|f| f.code != code);
        if self.findings.len() < FINDINGS_MAX || first {
            self.findings.push(Finding { code, verdict, leaf, detail });
        } else {
            self.more_findings += 1;
        }
    }
}

/// Codes of findings about the tree, its heads and its payloads; those about lawfulness are
/// [`crate::state::Unlawful::CODES`].
pub const CODES: &[(&str, Verdict)] = &[
    ("head-forged", Verdict::Rewritten),
    ("head-other-log", Verdict::Rewritten),
    ("seen-inconsistent", Verdict::Rewritten),
    ("seen-other-log", Verdict::Rewritten),
    ("root-differs", Verdict::Damaged),
    ("key-unproven", Verdict::Rewritten),
    ("key-foreign", Verdict::Rewritten),
    ("seen-longer", Verdict::Truncated),
    ("leaf-missing", Verdict::Truncated),
    ("leaf-surplus", Verdict::Damaged),
    ("bundle-missing", Verdict::Truncated),
    ("bundle-cut", Verdict::Truncated),
    ("leaf-changed", Verdict::Damaged),
    ("event-malformed", Verdict::Rewritten),
    ("tile-changed", Verdict::Damaged),
    ("tile-missing", Verdict::Damaged),
    ("head-malformed", Verdict::Damaged),
    ("object-changed", Verdict::Damaged),
    ("object-missing", Verdict::Damaged),
    ("object-not-canonical", Verdict::Damaged),
    ("same-differs", Verdict::Rewritten),
    ("record-differs", Verdict::Rewritten),
    ("opening-differs", Verdict::Damaged),
    ("opening-missing", Verdict::Damaged),
    ("episode-key-missing", Verdict::Damaged),
    ("store-damaged", Verdict::Damaged),
    ("export-differs", Verdict::Damaged),
    ("proof-malformed", Verdict::Damaged),
    ("leaf-not-given", Verdict::Unverifiable),
    ("kind-unknown", Verdict::Unverifiable),
    ("no-key", Verdict::Unverifiable),
    ("head-missing", Verdict::Unverifiable),
    ("proof-refused", Verdict::Rewritten),
];

fn verdict_of(code: &str) -> Verdict {
    let found = CODES.iter().find(|(known, _)| *known == code);
    found.map_or(Verdict::Rewritten, |(_, verdict)| *verdict)
}
