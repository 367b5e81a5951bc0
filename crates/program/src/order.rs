//! Sorting of short lists by one piece of code: the standard library's sort takes 4 KB of a distributed program for each type of elements and each
//! comparison. Code that sorts thousands of elements, or in every run, calls the standard library.

use std::cmp::Ordering;

/// Sorts elements by a key, stably.
///
/// ```
/// let mut names = ["mul", "add", "relu", "abs"];
/// anemone_program::order::by_key(&mut names, |name| name.len());
/// assert_eq!(names, ["mul", "add", "abs", "relu"]);
/// ```
pub fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts elements by a comparison, stably.
pub fn by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut wanted = places(items.len(), &|a, b| compare(&items[a], &items[b]));
    // Each cycle of places, until an element's own place is reached.
    for start in 0..items.len() {
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut wanted[at], at);
            if from == start || from == at {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

/// Places of the elements in sorted order.
fn places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|&a, &b| compare(a, b));
    places
}
