//! Selection from a kernel registry: the first row that accepts, and why the rows before it do not.

/// Kernels that were rejected: name and reason.
pub type Rejected = Vec<(&'static str, &'static str)>;

/// A condition of a kernel with the reason for its rejection.
pub fn when(holds: bool, else_because: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(else_because) }
}

/// First row for which `accepts` returns a value; rows are in order of preference.
pub fn select<R, T>(
    rows: &'static [R],
    name: impl Fn(&R) -> &'static str,
    accepts: impl Fn(&R) -> Result<T, &'static str>,
) -> (Option<(&'static R, T)>, Rejected) {
    let mut rejected = Vec::new();
    for row in rows {
        match accepts(row) {
            Ok(of) => return (Some((row, of)), rejected),
            Err(why) => rejected.push((name(row), why)),
        }
    }
    (None, rejected)
}
