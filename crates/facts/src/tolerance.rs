//! Tolerances of the operation suite and of whole networks against plain arithmetic, with their reasons.

/// A permitted difference, relative to the largest expected magnitude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Name in reports.
    pub name: &'static str,
    /// Difference relative to the largest expected magnitude.
    pub share: f32,
    /// Results that it applies to.
    pub applies: &'static str,
    /// Reason of the size.
    pub reason: &'static str,
}

/// Arithmetic without tables.
pub static ROUNDING: Tolerance = Tolerance {
    name: "rounding",
    share: 2e-3,
    applies: "every operation, unless another row is named",
    reason: "fp16 has 11 digits: one rounding costs 4.9e-4 of a value; a lowering rounds up to four times on its way",
};

/// Activation tables.
pub static TABLE: Tolerance = Tolerance {
    name: "table",
    share: 1.2e-2,
    applies: "activation functions, division, powers, softmax, normalization, and what is made of them",
    reason: "33 knots and straight lines between them; the sample programs' own tables are up to 1.1e-2 off",
};

/// The arc tangent.
pub static ARC_TANGENT: Tolerance = Tolerance {
    name: "arc tangent",
    share: 2.6e-2,
    applies: "atan",
    reason: "Apple's own pair of tables is this far off between 2 and 4; the book reports 0.04 to 0.12 near the seams",
};

/// Exact models against `fast`.
pub static MODELS: Tolerance = Tolerance {
    name: "models",
    share: 2e-3,
    applies: "an exact model's result against that of fast, with 0.25 as the least magnitude",
    reason: "the array resolves 2^-16 in absolute terms, so small sums differ by more than their own rounding",
};

/// Factor on the error of a network that fp16 rounding after every operation causes.
pub const NETWORK_FACTOR: f32 = 4.0;

/// Whole networks.
pub static NETWORK: Tolerance = Tolerance {
    name: "network",
    share: 2e-3,
    applies: "networks, where this is more than four times what rounding every result to fp16 costs them",
    reason: "the cost of rounding is measured for each network; a network that hides it still rounds its result",
};

/// All rows.
pub static TOLERANCES: [&Tolerance; 5] = [&ROUNDING, &TABLE, &ARC_TANGENT, &MODELS, &NETWORK];
