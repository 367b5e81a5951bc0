//! Row strides that avoid bank conflicts.

use anemone_facts::staging::BANKS;

/// Smallest stride of at least `units` that puts rows read together into different banks: the search over
/// `(address / 16) mod 64` of the book, chapter 22. `step` is the distance of the rows in the window.
pub fn spread(units: u64, step: u64, (rows, gap): (u64, u64)) -> u64 {
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
