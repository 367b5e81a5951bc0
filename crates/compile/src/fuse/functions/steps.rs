//! A function of one number as the layers that compute it, evaluated.

use super::{Candidate, Elements, MOST_LAYERS, Uses};
use crate::functions::FUNCTIONS;
use crate::ir::*;
use crate::lut::Lookup;
use anemone_program::order;

/// Origin of a step's operand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    Argument,
    /// Position of the step that computes it.
    Step(usize),
    Elsewhere,
}

/// A layer of a function: steps before it make its operands.
pub(super) struct Step<'a> {
    layer: &'a Layer,
    sources: Vec<Origin>,
    /// The function of its table.
    function: Option<Function>,
}

/// The function of a table: the one that it was made for, if known.
enum Function {
    Exact(fn(f64) -> f64),
    Lookup(Box<Lookup>),
}

/// The layers of a function in the order in which they run.
pub(super) fn steps<'a>(graph: &'a Graph, uses: &Uses, (layers, argument): &Candidate) -> Vec<Step<'a>> {
    let mut ordered = layers.clone();
    order::by(&mut ordered, Ord::cmp);
    let step = |&at: &usize| {
        let layer = &graph.layers[at];
        let from = |(v, &elements): (&View4, &Elements)| match v.elements() == argument.elements() {
            true => Origin::Argument,
            false => {
                let writer = uses.elementwise(elements, at).and_then(|w| ordered.binary_search(&w).ok());
                writer.map_or(Origin::Elsewhere, Origin::Step)
            }
        };
        let function = match &layer.kind {
            Kind::Neuron { nonlinear: Nonlinear::Table(table), .. } => {
                let exact = FUNCTIONS.iter().find(|f| f.name == table.name);
                Some(exact.map_or_else(|| Function::Lookup(table.lookup().into()), |f| Function::Exact(f.exact)))
            }
            _ => None,
        };
        Step { layer, sources: layer.sources.iter().zip(&uses.sources[at]).map(from).collect(), function }
    };
    ordered.iter().map(step).collect()
}

/// The value of the last step where the argument is `x`.
pub(super) fn value(steps: &[Step], x: f64) -> f64 {
    value_with(steps, x, None)
}

/// The same where the step at a position has another value.
pub(super) fn value_with(steps: &[Step], x: f64, other: Option<(usize, f64)>) -> f64 {
    let mut values = [f64::NAN; MOST_LAYERS + 1];
    for (at, step) in steps.iter().enumerate() {
        if let Some((_, value)) = other.filter(|&(position, _)| position == at) {
            values[at] = value;
            continue;
        }
        let source = |i: usize| match step.sources[i] {
            Origin::Argument => x,
            Origin::Step(at) => values[at],
            Origin::Elsewhere => f64::NAN,
        };
        values[at] = step.value(source);
    }
    steps.len().checked_sub(1).map_or(f64::NAN, |last| values[last])
}

impl Step<'_> {
    fn value(&self, source: impl Fn(usize) -> f64) -> f64 {
        let affine = |a: &Affine, y: f64| y * f64::from(a.final_scale) * f64::from(a.scale) + f64::from(a.bias);
        let rectified = |on: bool, y: f64| if on && y < 0.0 { 0.0 } else { y };
        match &self.layer.kind {
            Kind::Neuron { add, post_scale, nonlinear } => {
                let y = (source(0) + f64::from(*add)) * f64::from(*post_scale);
                match &self.function {
                    Some(Function::Exact(function)) => function(y),
                    Some(Function::Lookup(lookup)) => lookup.value(y),
                    None => rectified(matches!(nonlinear, Nonlinear::Relu), y),
                }
            }
            Kind::Pool { abs, affine: a, relu, .. } => {
                let y = source(0) * f64::from(a.pre_scale);
                rectified(*relu, affine(a, if *abs { y.abs() } else { y }))
            }
            Kind::Planar { op, affine: a, relu } => {
                let first = source(0) * f64::from(a.pre_scale);
                let second = rectified(self.layer.second_relu, source(1));
                let y = match op {
                    PlanarOp::Add => first + second,
                    PlanarOp::Sub => first - second,
                    PlanarOp::Mul => first * second,
                    PlanarOp::Max => first.max(second),
                    PlanarOp::Min => first.min(second),
                };
                rectified(*relu, affine(a, y))
            }
            _ => f64::NAN,
        }
    }
}

/// Cache key of a function: kind and parameters of each layer, with the origins of its operands.
pub(super) fn text(steps: &[Step]) -> String {
    let line = |step: &Step| format!("{:?} {} {:?}\n", step.layer.kind, step.layer.second_relu, step.sources);
    steps.iter().map(line).collect()
}
