//! Row strides that avoid bank conflicts.

use anemone_facts::staging::BANKS;

/// Smallest stride of at least `units` that puts rows read together into different banks: the search over
/// `(address / 16) mod 64` of the book, chapter 22. `step` is the distance of the rows in the window.
pub(crate) fn spread(units: u64, step: u64, (rows, gap): (u64, u64)) -> u64 {
    (units..units + BANKS).find(|&s| bank_gap(s * step, rows) >= gap).unwrap_or(units)
}

/// [`spread`] for rows that are accessed together in several ways.
pub(crate) fn spread_all(units: u64, ways: &[(u64, u64)]) -> u64 {
    let apart = |&s: &u64| ways.iter().all(|&(rows, gap)| bank_gap(s, rows) >= gap);
    (units..units + BANKS).find(apart).unwrap_or(units)
}

/// Smallest distance between the banks of `rows` rows that are `stride` units apart.
fn bank_gap(stride: u64, rows: u64) -> u64 {
    let mut banks: Vec<u64> = (0..rows).map(|i| i * stride % BANKS).collect();
    banks.sort_unstable();
    let around = banks[0] + BANKS - banks[banks.len() - 1];
    banks.windows(2).map(|w| w[1] - w[0]).chain([around]).min().unwrap_or(BANKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anemone_facts::staging::{NEURAL_BANKS, PLANAR_BANKS};

    #[test]
    fn rows_are_spread_as_in_known_programs() {
        // Row units, step, engine and the stride that 9.509 chose.
        let seen = [
            (0x40, 1, NEURAL_BANKS, 0x43),
            (0x80, 1, NEURAL_BANKS, 0x83),
            (0x100, 1, NEURAL_BANKS, 0x103),
            (0x20, 1, NEURAL_BANKS, 0x22),
            (0x100, 2, NEURAL_BANKS, 0x102),
            (0x80, 2, NEURAL_BANKS, 0x82),
            (0x40, 1, PLANAR_BANKS, 0x42),
            (0x200, 1, PLANAR_BANKS, 0x202),
            (0x1, 1, PLANAR_BANKS, 0x2),
            (0x54, 1, PLANAR_BANKS, 0x54),
            (0x100, 1, PLANAR_BANKS, 0x102),
        ];
        for (units, step, engine, expected) in seen {
            assert_eq!(spread(units, step, engine), expected, "{units:#x} step {step}");
        }
    }
}
