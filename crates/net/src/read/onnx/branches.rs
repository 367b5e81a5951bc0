//! Branches of which the model chooses one when it runs.

use super::node::Node;
use super::subgraph::{graph, inner};
use crate::error::Error;
use crate::graph::ValueId;

/// Both branches, and a selection between their results, for a condition computed at run time.
pub fn both(n: &mut Node, condition: ValueId) -> Result<bool, Error> {
    let condition = n.build().reshape(condition, [])?;
    // A branch for another value of the input, such as another sample rate, may not fit the extents of the others.
    let of_input = n.integer_behind(condition).map(str::to_owned);
    let mut read = |name: &str| {
        let chosen = graph(n, name)?;
        inner(n, chosen, &[]).map_err(|cause| match &of_input {
            Some(input) => n.unsupported(format!(
                "both branches are read, for input `{input}` chooses between them when the network runs. {name}: {cause}. Give `{input}` a value that \
                 is known before (`--value {input}=...`), and only its branch is read"
            )),
            None => cause,
        })
    };
    let (yes, no) = (read("then_branch")?, read("else_branch")?);
    for (i, (&x, &y)) in yes.iter().zip(&no).enumerate() {
        if n.t.build.ty(x) != n.t.build.ty(y) {
            let (x, y) = (n.t.build.ty(x).to_string(), n.t.build.ty(y).to_string());
            let reason = format!("a condition computed at run time between {x} and {y}: the graph is static");
            return Err(n.unsupported(reason));
        }
        let id = n.build().select(condition, x, y)?;
        n.output(i, id);
    }
    n.finish(yes.len())
}
