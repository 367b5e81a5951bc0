//! Layouts, one file per generation: position of each field of the vocabulary; and the generation of a container.

mod bare;
mod h13;
mod h14;
mod h15;
mod h16;
mod h17;
mod h18;
mod h18g;
mod samples;
mod shared;
pub mod v10;

use crate::table::Layout;

pub use h13::H13;
pub use h14::H14;
pub use h15::{H15, M11};
pub use h16::H16;
pub use h17::H17;
pub use h18::H18;
pub use h18g::H18G;
pub use samples::{SAMPLED, Sampled};

/// Generations with rows, oldest first.
pub static KNOWN: &[&Layout] = &[&H13, &H14, &H15, &M11, &H16, &H17, &H18, &H18G];

/// The register layout of a task descriptor version. Versions without rows have a layout with the header's chain alone;
/// `None` where that is not known either.
pub fn of_version(version: u32) -> Option<&'static Layout> {
    KNOWN.iter().chain(bare::BARE).find(|l| l.td_version == version).copied()
}

/// The register layout by its name in listings.
pub fn by_name(name: &str) -> Option<&'static Layout> {
    KNOWN.iter().chain(bare::BARE).find(|l| l.generation == name).copied()
}
