//! Factors and addends per column that only products read become part of the products' weights: the gain and offset behind a
//! normalization cost nothing then. Ours; [`super::affines`] does the same for the convolution before them.

use super::affines::{affine, per_channel};
use super::{Builder, Names};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Data, Net, OpKind, Tensor, ValueId, compress};
use std::collections::{HashMap, HashSet};

/// `linear(x * g + b, w, c)` becomes `linear(x, w * g, w · b + c)`, where nothing but products reads the affine. Compressed weights
/// take no factors: they would not stay compressed.
pub(crate) fn forward_affines(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    let mut names = Names::of(net);
    let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
    for (at, op) in net.ops.iter().enumerate() {
        op.inputs.iter().for_each(|&id| readers.entry(id).or_default().push(at));
    }
    let mut gone = HashSet::new();
    // The last one first, so that an offset is gone when its gain is looked at.
    for at in (0..net.ops.len()).rev() {
        let Some((f, x, values)) = columns(net, at) else { continue };
        let out = net.ops[at].outputs[0];
        let products = readers.get(&out).cloned().unwrap_or_default();
        let all = !products.is_empty() && products.iter().all(|&i| takes(net, i, out, f));
        if !all || net.outputs.contains(&out) {
            continue;
        }
        for &product in &products {
            absorb(net, &mut names, product, f, &values);
            net.ops[product].inputs[0] = x;
        }
        reasons.say(|| format!("{} becomes part of the {} products that read it", net.ops[at].name, products.len()));
        let others = readers.entry(x).or_default();
        others.retain(|&reader| reader != at);
        others.extend(products);
        gone.insert(at);
    }
    let mut at = 0;
    net.ops.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
    Ok(())
}

/// A constant per column, added to or multiplied with a live operand of the same extents.
fn columns(net: &Net, at: usize) -> Option<(Binary, ValueId, Vec<f32>)> {
    let op = &net.ops[at];
    let (f, x, constant) = affine(net, op)?;
    let shape = &net.value(x).ty.shape;
    let rank = shape.len();
    if rank == 0 || *shape != net.value(op.outputs[0]).ty.shape {
        return None;
    }
    Some((f, x, per_channel(&constant, rank, rank - 1, shape[rank - 1])?))
}

/// Returns true if an operation is a linear layer with constant weights that reads `value` as its matrix and can absorb `f`: a factor
/// needs weights that are not compressed.
fn takes(net: &Net, at: usize, value: ValueId, f: Binary) -> bool {
    let op = &net.ops[at];
    let constant = |id: &ValueId| net.value(*id).data.is_some();
    let matrix = op.inputs.first() == Some(&value) && op.inputs[1..].iter().all(constant);
    let plain = |id: &ValueId| net.value(*id).data.as_ref().is_some_and(|t| !compress::is_compressed(&t.data));
    op.kind == OpKind::Linear && matrix && (f != Binary::Mul || plain(&op.inputs[1]))
}

fn absorb(net: &mut Net, names: &mut Names, reader: usize, f: Binary, values: &[f32]) {
    let name = net.ops[reader].name.clone();
    let Some(weights) = net.value(net.ops[reader].inputs[1]).data.clone() else { return };
    let mut builder = Builder { net, names, ops: Vec::new(), name };
    let mut data = weights.data.to_f32();
    let rows = data.chunks_exact_mut(values.len().max(1));
    if f == Binary::Mul {
        rows.for_each(|row| row.iter_mut().zip(values).for_each(|(w, v)| *w *= v));
        let id = builder.constant_of("weight", Tensor { shape: weights.shape.clone(), data: Data::F32(data) });
        builder.net.ops[reader].inputs[1] = id;
        return;
    }
    let sign = if f == Binary::Sub { -1.0 } else { 1.0 };
    let sums = rows.map(|row| row.iter().zip(values).map(|(w, v)| f64::from(*w) * f64::from(*v)).sum::<f64>());
    let given = builder.net.ops[reader].inputs.get(2).and_then(|&id| builder.net.value(id).data.clone());
    let given = given.map_or_else(|| vec![0.0; weights.shape[0]], |bias| bias.data.to_f32());
    let bias: Vec<f32> = sums.zip(&given).map(|(sum, &b)| (sign * sum + f64::from(b)) as f32).collect();
    let id = builder.constant("bias", vec![bias.len()], bias);
    let op = &mut builder.net.ops[reader];
    op.inputs.truncate(2);
    op.inputs.push(id);
}

#[cfg(test)]
mod tests {
    use super::super::cases::*;
    use super::*;

    #[test]
    fn gain_and_offset_go_into_the_products_behind() {
        becomes(
            forward_affines,
            r#"net "n" {
  input %x: f16[3, 2]
  const %g: f16[2] = [2.0, 3.0]
  const %b: f16[2] = [1.0, -1.0]
  const %w: f16[1, 2] = [1.0, 2.0]
  %s: f16[3, 2] = mul(%x, %g)
  %t: f16[3, 2] = add(%s, %b)
  %y: f16[3, 1] = linear(%t, %w)
  output %y
}
"#,
            r#"net "n" {
  input %x: f16[3, 2]
  const %y.weight: f32[1, 2] = [2.0, 6.0]
  const %y.bias: f32[1] = [-1.0]
  %y: f16[3, 1] = linear(%x, %y.weight, %y.bias)
  output %y
}
"#,
        );
    }
}
