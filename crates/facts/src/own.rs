//! The register block of tasks in this project's own encoding, which no Apple descriptor has.

/// First register of the block of tasks in this project's own encoding, at the end of the 26 bits that a run can
/// address. No known layout has a register above `0x20000`. The fields are in the H13 layout, evidence `Own`.
pub const OWN_BASE: u32 = 0x3f0_0000;
/// Registers of the block.
pub const OWN_WORDS: u32 = 64 + OWN_PARAMS;
/// Operands of an own task: five sources, then the result.
pub const OWN_OPERANDS: u32 = 6;
/// Index of the result among the operands.
pub const OWN_RESULT: u32 = OWN_OPERANDS - 1;
/// Registers for parameters, which are those of the layer's row in order: a flag, an integer, or the index of a word in
/// its list in one register each, half and single precision as the bits of a single; a list as its length and its elements.
pub const OWN_PARAMS: u32 = 48;
/// `OwnKind` of a task without effect that names the family of a program in the H13's form.
pub const OWN_CARRIER: u32 = 0;
