//! Selection from a kernel registry: the first row that accepts, with the reasons for which the rows before it were rejected.

/// Rejected kernels: name and reason.
pub type Rejected = Vec<(&'static str, &'static str)>;

/// Turns a condition into a result, with the reason for the rejection as its error.
pub fn when(holds: bool, else_because: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(else_because) }
}

/// The first row for which `accepts` returns a value. Rows are in order of preference.
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
