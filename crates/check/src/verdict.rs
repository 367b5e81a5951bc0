//! Verdict on one operation: its place, and the refusal with its evidence.

use super::legal::Refusal;
use anemone_facts::Basis;

/// Placement of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A layer of the engine.
    Native,
    /// Several layers of the engine, or an emulation by them.
    Decomposed,
    /// No layer of its own: fused into a neighbour, or removed before the engine runs.
    Folded,
    /// A layer in a segment of its own.
    Cut,
    /// CPU or GPU only.
    Host,
    /// The engine has the operation, but does not support this form of it.
    Rejected,
}

impl Place {
    /// Every place.
    pub const ALL: [Place; 6] =
        [Place::Native, Place::Decomposed, Place::Folded, Place::Cut, Place::Host, Place::Rejected];

    /// Name in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Native => "native",
            Place::Decomposed => "decomposed",
            Place::Folded => "folded",
            Place::Cut => "cut",
            Place::Host => "host",
            Place::Rejected => "rejected",
        }
    }

    /// Name in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Place::Native => "supported",
            Place::Decomposed => "decomposed",
            Place::Folded => "fused",
            Place::Cut => "graph break",
            Place::Host | Place::Rejected => "falls back to CPU",
        }
    }

    /// Returns true if the work is done on the engine or there is none.
    pub const fn on_engine(self) -> bool {
        !matches!(self, Place::Host | Place::Rejected)
    }
}

/// Verdict on one operation for one chip and route.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Placement.
    pub place: Place,
    /// Layers of the operation, or the layer that it is fused into, in words.
    pub into: String,
    /// Reason of a refusal.
    pub refusal: Option<Refusal>,
    /// Replacement by this compiler where Apple's refuses, in words.
    pub own: Option<&'static str>,
    /// Evidence for the verdict.
    pub basis: Basis,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
    /// Numbers of the chip that the verdict depends on and no source gives.
    pub unknown: Vec<&'static str>,
    /// Position of the operation that it is fused into.
    pub fused: Option<usize>,
    /// Contradictions between sources about what the chip supports of the operation.
    pub differ: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

impl Verdict {
    pub(super) fn new(place: Place, into: impl Into<String>, basis: Basis, source: &'static str) -> Verdict {
        Verdict {
            place,
            into: into.into(),
            refusal: None,
            own: None,
            basis,
            source,
            unknown: Vec::new(),
            fused: None,
            differ: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Verdict for an operation that this compiler leaves to the host, although Apple's is not known to.
    pub(super) fn for_host(reason: &str) -> Verdict {
        let fix = "`ane run` computes it on the host between programs".to_string();
        Verdict::refused(Place::Host, host("E18", Basis::Decoded, reason.to_string(), fix))
    }

    /// Verdict for an operation that this compiler cannot read in the form that the model has.
    pub(super) fn unread(reason: &str) -> Verdict {
        let fix = "rewrite it with operations that are read".to_string();
        Verdict::refused(Place::Rejected, host("E18", Basis::Decoded, reason.to_string(), fix))
    }

    pub(super) fn refused(place: Place, refusal: Refusal) -> Verdict {
        let (basis, source) = (refusal.basis, refusal.source);
        Verdict { refusal: Some(refusal), ..Verdict::new(place, "", basis, source) }
    }
}

pub(super) fn host(code: &'static str, basis: Basis, message: String, fix: String) -> Refusal {
    Refusal {
        code,
        cause: message.clone(),
        message,
        quantity: "operation",
        found: String::new(),
        limit: String::new(),
        apple: None,
        stage: "family",
        basis,
        source: "op-matrix",
        fix,
    }
}
