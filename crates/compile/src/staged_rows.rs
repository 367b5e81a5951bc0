//! Rows of a computed matrix that are staged together as coefficients of products.

use anemone_facts::kernel::ENGINES;
use anemone_facts::staging::PRODUCT_LANES;

/// Largest number of interleaved rows of a matrix in a stream.
pub(crate) const MOST_LANES: usize = PRODUCT_LANES[0];
/// Most whole products whose rows one task stages.
pub(crate) const MOST_PASSES: usize = 128;
/// Largest number of rows that one task stages: whole products, and at most the channels of a chip.
const MOST_STAGED: usize = MOST_PASSES * ENGINES * MOST_LANES;

/// Rows of a matrix whose coefficients one task stages, several times where rows overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    /// The first row.
    pub start: usize,
    /// Rows of a product, or of several that legalization makes of it.
    pub count: usize,
    pub lanes: usize,
    /// Products of as many rows.
    pub times: usize,
    /// Rows from one to the next.
    pub step: usize,
}

impl Staged {
    pub fn once(start: usize, count: usize, lanes: usize) -> Staged {
        Staged { start, count, lanes, times: 1, step: 0 }
    }

    /// The same products, each staged by itself.
    pub fn apart(&self) -> impl Iterator<Item = Staged> + use<> {
        let Staged { start, count, lanes, times, step } = *self;
        (0..times).map(move |i| Staged::once(start + i * step, count, lanes))
    }
}

/// Most rows in full passes, and the rest in passes of fewer lanes. Legalization splits them into products.
pub(crate) fn mixed(rows: usize) -> Vec<Staged> {
    let full = ENGINES * MOST_LANES;
    let whole = rows / full * full;
    let staged = |start| Staged::once(start, MOST_STAGED.min(whole - start), MOST_LANES);
    let mut pieces: Vec<_> = (0..whole).step_by(MOST_STAGED).map(staged).collect();
    let mut start = whole;
    while start < rows {
        let (count, lanes) = rows_at_once(rows - start);
        pieces.push(Staged::once(start, count, lanes));
        start += count;
    }
    pieces
}

/// Full passes with the same lanes, of which the last computes rows again that the one before it computed: a pass of several lanes is full. All
/// are staged by one task where they can be equally far apart.
fn overlapping(rows: usize, lanes: usize) -> Option<Vec<Staged>> {
    let count = ENGINES * lanes;
    let rest = rows.checked_sub(count).filter(|rest| !rest.is_multiple_of(count))?;
    let further = rest.div_ceil(count);
    if rest.is_multiple_of(further) {
        return Some(vec![Staged { start: 0, count, lanes, times: further + 1, step: rest / further }]);
    }
    let whole = further * count;
    (whole <= MOST_PASSES * count).then(|| vec![Staged::once(0, whole, lanes), Staged::once(rest, count, lanes)])
}

/// Rows that take a task to be staged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Staging {
    /// Those of several lanes.
    Interleaved,
    /// All.
    All,
    /// All but those that are staged at once, which the task that computes them does.
    Computed,
}

/// As [`mixed`], or most rows with the same lanes and the rest as [`mixed`], or in passes that overlap, by the number of tasks, then by that of
/// passes over single rows. Engines of a pass of several lanes are a power of two.
pub(crate) fn in_few_tasks(rows: usize, staging: Staging) -> Vec<Staged> {
    let equal = |lanes: usize| {
        let streams = rows / lanes;
        let last = streams % ENGINES;
        let whole = (streams - last + if last > 0 { 1 << last.ilog2() } else { 0 }) * lanes;
        let most = MOST_PASSES * ENGINES * lanes;
        let mut pieces: Vec<_> =
            (0..whole).step_by(most).map(|at| Staged::once(at, most.min(whole - at), lanes)).collect();
        pieces.extend(mixed(rows - whole).into_iter().map(|rest| Staged { start: whole + rest.start, ..rest }));
        pieces
    };
    let passes = |piece: &Staged| piece.times * piece.count.div_ceil(ENGINES * piece.lanes);
    let tasks = |piece: &Staged| passes(piece) + usize::from(staging != Staging::Interleaved || piece.lanes > 1);
    let cost = |pieces: &Vec<Staged>| {
        let lanes: usize = pieces.iter().map(|piece| passes(piece) * piece.lanes).sum();
        let stored = staging == Staging::Computed && matches!(pieces.as_slice(), [Staged { times: 1, .. }]);
        (pieces.iter().map(tasks).sum::<usize>() - usize::from(stored), lanes)
    };
    let single = (rows <= MOST_PASSES * ENGINES).then(|| vec![Staged::once(0, rows, 1)]);
    let all = std::iter::once(mixed(rows)).chain(PRODUCT_LANES.into_iter().map(equal)).chain(single);
    let all = all.chain(PRODUCT_LANES.into_iter().filter_map(|lanes| overlapping(rows, lanes)));
    all.min_by_key(cost).unwrap_or_default()
}

/// Tasks of a product of a computed matrix of `rows` with another, its staging included.
pub(crate) fn tasks(rows: usize) -> usize {
    let pieces = in_few_tasks(rows, Staging::All);
    pieces.iter().map(|piece| 1 + piece.times * piece.count.div_ceil(ENGINES * piece.lanes)).sum()
}

/// Output rows of one product with run-time coefficients, and lanes per engine: the number that fills sixteen engines evenly.
pub(crate) fn rows_at_once(rows: usize) -> (usize, usize) {
    let lanes = PRODUCT_LANES.into_iter().find(|lanes| rows >= ENGINES * lanes).unwrap_or(1);
    (rows.min(ENGINES * lanes), lanes)
}
