//! Extents that a model leaves open.

use super::proto;
use crate::error::Error;
use crate::read::Options;
use std::collections::HashMap;

/// Options with extents for the symbolic dimensions of inputs, from the shapes of arrays.
pub(super) fn with_extents(graph: &proto::Graph, options: &Options) -> Result<Options, Error> {
    let mut all = options.clone();
    if options.shapes.is_empty() {
        return Ok(all);
    }
    let constant = |input: &&proto::ValueInfo| graph.initializer.iter().all(|tensor| tensor.name != input.name);
    let inputs: Vec<_> = graph.input.iter().filter(constant).collect();
    let mut found: HashMap<String, usize> = HashMap::new();
    for input in &inputs {
        let tensor = input.ty.as_ref().and_then(|t| t.tensor.as_ref());
        let dims = tensor.and_then(|t| t.shape.as_ref()).map_or(&[][..], |s| s.dim.as_slice());
        let given = options.shape_of(&input.name, inputs.len() == 1).filter(|shape| shape.len() == dims.len());
        for (axis, (dim, &second)) in dims.iter().zip(given.unwrap_or_default()).enumerate() {
            let at = format!("{}.{axis}", input.name);
            let name = dim.param.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| at.clone());
            if dim.value.is_some() || options.extents.contains_key(&name) || options.extents.contains_key(&at) {
                continue;
            }
            let first = *found.entry(name.clone()).or_insert(second);
            if first != second {
                return Err(Error::ExtentsDiffer { name, first, input: input.name.clone(), second });
            }
        }
    }
    all.extents.extend(found);
    Ok(all)
}
