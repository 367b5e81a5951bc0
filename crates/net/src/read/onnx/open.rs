//! Extents that a model leaves open, and inputs whose values are given before the model runs.

use super::{Element, Translator, element, element_name, proto};
use crate::build::beyond::Beyond;
use crate::error::Error;
use crate::graph::{DType, Data, Tensor};
use crate::read::Options;
use std::collections::HashMap;
use std::sync::Arc;

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

impl Translator<'_> {
    /// Makes an input a constant if the options have its values; returns false if they do not.
    ///
    /// Errors: an input of other elements than integers, or of another number of them.
    pub(super) fn bind(&mut self, input: &proto::ValueInfo) -> Result<bool, Error> {
        let Some(values) = self.options.values.get(&input.name) else { return Ok(false) };
        let place = || format!("input `{}`", input.name);
        let tensor = input.ty.as_ref().and_then(|t| t.tensor.as_ref());
        let found =
            tensor.and_then(|t| element(t.element)).filter(|e| matches!(e, Element::Int(8..) | Element::UInt(8..)));
        let (Some(tensor), Some(element)) = (tensor, found) else {
            return Err(Error::WrongType {
                place: place(),
                key: "element type".to_string(),
                found: tensor.map_or("no tensor".to_string(), |t| element_name(t.element)),
                expected: "integers, which alone can have values before the model runs",
            });
        };
        let dims = tensor.shape.as_ref().map_or(&[][..], |s| s.dim.as_slice());
        let extent = |(axis, dim): (usize, &proto::Dim)| {
            let named = dim.param.as_ref().and_then(|name| self.options.extents.get(name));
            let given = named.or_else(|| self.options.extents.get(&format!("{}.{axis}", input.name)));
            given.copied().or(dim.value.and_then(|n| usize::try_from(n).ok()))
        };
        let stated: Vec<Option<usize>> = dims.iter().enumerate().map(extent).collect();
        let known: usize = stated.iter().flatten().fold(1, |n, &extent| n.saturating_mul(extent));
        // One axis that the model leaves open has as many elements as are given.
        let open = stated.iter().filter(|extent| extent.is_none()).count();
        let rest = match open {
            0 => 1,
            1 if known > 0 => values.len() / known,
            _ => {
                let axis = stated.iter().position(Option::is_none).unwrap_or(0);
                return Err(Error::NoExtent {
                    input: input.name.clone(),
                    axis,
                    name: format!("{}.{axis}", input.name),
                });
            }
        };
        let shape: Vec<usize> = stated.iter().map(|extent| extent.unwrap_or(rest)).collect();
        let wanted = known.saturating_mul(rest);
        if values.len() != wanted {
            return Err(Error::OutOfRange {
                place: place(),
                key: "number of given values".to_string(),
                found: values.len() as i64,
                least: wanted as i64,
                most: wanted as i64,
            });
        }
        self.build.budget.spend(&shape)?;
        let clamped = values.iter().map(|&v| v.clamp(i32::MIN.into(), i32::MAX.into()) as i32).collect::<Vec<_>>();
        let data = Data::from_i32(element.dtype().unwrap_or(DType::I32), &clamped);
        let tensor = Tensor { shape, data };
        let name = self.build.fresh(&input.name);
        let id = self.build.value(&name, tensor.ty(), Some(Arc::new(tensor)));
        self.build.note_beyond(id, Beyond::of(values.iter().map(|&v| v.into())));
        self.note_element(id, element);
        self.values.insert(input.name.clone(), id);
        Ok(true)
    }

    /// Refuses values of what is no input of the model.
    pub(super) fn all_bound(&self, graph: &proto::Graph) -> Result<(), Error> {
        let unknown = |name: &&String| graph.input.iter().all(|input| input.name != **name);
        match self.options.values.keys().find(unknown) {
            None => Ok(()),
            Some(name) => Err(Error::Missing {
                place: "the model".to_string(),
                key: format!("input `{name}`, which has a value"),
            }),
        }
    }
}
