//! GELU as converters spell it out, by an error function or a hyperbolic tangent in four to eight operations: whichever operations
//! they are, they are one where their results are those of GELU.

use crate::remarks::Remarks;
use anemone_net::{Binary, GeluMode, Net, OpKind, Unary, ValueId};
use std::collections::{HashMap, HashSet};

/// Most operations of a function spelled out.
const MOST: usize = 12;
/// Largest difference from the function: that of constants in fp16.
const CLOSE: f32 = 1.0 / 4096.0;
/// Arguments at which results are compared, with both signs.
const ARGUMENTS: [f32; 14] = [1.0, 0.0, 0.125, 0.3, 0.5, 0.75, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 20.0, 300.0];

/// Operations by their results.
struct Spelled<'a> {
    net: &'a Net,
    makers: HashMap<ValueId, usize>,
    uses: Vec<usize>,
}

/// Replaces operations on one operand that compute GELU.
pub(super) fn gelus(net: &mut Net, reasons: &mut Remarks) {
    let makers = net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let spelled = Spelled { net, makers, uses: net.read_counts() };
    let mut found = Vec::new();
    let mut within: HashSet<usize> = HashSet::new();
    // The last product is the whole function; products before it are part of it.
    for (at, op) in net.ops.iter().enumerate().rev() {
        if op.kind != OpKind::Binary(Binary::Mul) || within.contains(&at) {
            continue;
        }
        if let Some((mode, x, inside)) = spelled.gelu(at) {
            within.extend(inside.iter().copied().filter(|&i| i != at));
            found.push((at, mode, x, inside.len()));
        }
    }
    for (at, mode, x, count) in found {
        reasons.say(|| format!("{}: {count} operations are a GELU", net.ops[at].name));
        (net.ops[at].kind, net.ops[at].inputs) = (OpKind::Unary(Unary::Gelu(mode)), vec![x]);
    }
    let mut at = 0..;
    net.ops.retain(|_| at.next().is_none_or(|at| !within.contains(&at)));
}

impl Spelled<'_> {
    /// Mode, operand and operations of the GELU that ends in an operation.
    fn gelu(&self, at: usize) -> Option<(GeluMode, ValueId, HashSet<usize>)> {
        let out = self.net.ops[at].outputs[0];
        let mut seen: Vec<ValueId> = vec![out];
        let mut next = 0;
        let mut curved = false;
        while next < seen.len() && seen.len() <= 2 * MOST {
            let id = seen[next];
            next += 1;
            let Some(op) = self.step(id) else { continue };
            curved |= matches!(self.net.ops[op].kind, OpKind::Unary(Unary::Erf | Unary::Tanh));
            for &input in &self.net.ops[op].inputs {
                if self.scalar(input).is_none() && !seen.contains(&input) {
                    seen.push(input);
                }
            }
        }
        if !curved {
            return None;
        }
        let shape = |id: ValueId| &self.net.value(id).ty.shape;
        let operands = seen[1..].iter().copied().filter(|&x| shape(x) == shape(out));
        let fits = |x: ValueId| {
            let mode = [GeluMode::Exact, GeluMode::Tanh].into_iter().find(|mode| self.is_gelu(*mode, out, x))?;
            let mut inside = HashSet::new();
            self.inside(out, x, &mut inside);
            self.alone(&inside, at).then_some((mode, x, inside))
        };
        operands.into_iter().find_map(fits)
    }

    /// The operation that makes a value, if it is one of functions spelled out.
    fn step(&self, id: ValueId) -> Option<usize> {
        let at = *self.makers.get(&id)?;
        let simple = matches!(
            self.net.ops[at].kind,
            OpKind::Unary(Unary::Erf | Unary::Tanh | Unary::Square)
                | OpKind::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Pow)
        );
        (simple && self.net.value(id).ty.dtype.is_float()).then_some(at)
    }

    fn scalar(&self, id: ValueId) -> Option<f32> {
        let data = self.net.value(id).data.as_ref().filter(|data| data.shape.iter().product::<usize>() == 1)?;
        data.data.to_f32().first().copied()
    }

    fn is_gelu(&self, mode: GeluMode, out: ValueId, x: ValueId) -> bool {
        let function = Unary::Gelu(mode);
        let gelu = function.function();
        let near = |argument: f32| {
            let mut left = 8 * MOST;
            let wanted = gelu(argument);
            let made = self.value_at(out, x, argument, &mut left);
            made.is_some_and(|made| (made - wanted).abs() <= CLOSE * wanted.abs().max(1.0))
        };
        ARGUMENTS.iter().all(|&argument| near(argument) && near(-argument))
    }

    /// Value of `id` for one value of `x`; `None` where it depends on another operand.
    fn value_at(&self, id: ValueId, x: ValueId, argument: f32, left: &mut usize) -> Option<f32> {
        if id == x {
            return Some(argument);
        }
        if let Some(scalar) = self.scalar(id) {
            return Some(scalar);
        }
        *left = left.checked_sub(1)?;
        let op = &self.net.ops[self.step(id)?];
        let a = self.value_at(op.inputs[0], x, argument, left)?;
        match op.kind {
            OpKind::Unary(function) => Some(function.function()(a)),
            OpKind::Binary(binary) => {
                let b = self.value_at(*op.inputs.get(1)?, x, argument, left)?;
                Some(match binary {
                    Binary::Add => a + b,
                    Binary::Sub => a - b,
                    Binary::Mul => a * b,
                    Binary::Div => a / b,
                    _ => a.powf(b),
                })
            }
            _ => None,
        }
    }

    /// Adds the operations between `x` and `id`.
    fn inside(&self, id: ValueId, x: ValueId, all: &mut HashSet<usize>) {
        if id == x || self.scalar(id).is_some() {
            return;
        }
        if let Some(at) = self.step(id).filter(|at| all.insert(*at)) {
            self.net.ops[at].inputs.iter().for_each(|&input| self.inside(input, x, all));
        }
    }

    /// Returns true if nothing else reads what the operations before the last one make.
    fn alone(&self, inside: &HashSet<usize>, last: usize) -> bool {
        let reads = |id: ValueId| -> usize {
            inside.iter().map(|&at| self.net.ops[at].inputs.iter().filter(|&&input| input == id).count()).sum()
        };
        inside
            .iter()
            .filter(|&&at| at != last)
            .flat_map(|&at| &self.net.ops[at].outputs)
            .all(|&id| self.uses[id.0 as usize] == reads(id) && !self.net.outputs.contains(&id))
    }
}
