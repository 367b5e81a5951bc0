//! Functions that converters spell out in parts become what they are: a part that changes nothing where another one is zero goes
//! away.

use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, Unary, ValueId};
use std::collections::HashMap;

/// `select(x >= c, x, 0) * sigmoid_hard(x)` becomes `x * sigmoid_hard(x)` where the second factor is zero below `c`: hard swish
/// as Core ML's converter writes it.
pub(crate) fn recognize(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    for at in 0..net.ops.len() {
        if net.ops[at].kind != OpKind::Binary(Binary::Mul) {
            continue;
        }
        for side in [0, 1] {
            let maker = |id: ValueId| makers.get(&id).map(|&at| &net.ops[at]);
            let [gate, other] = [net.ops[at].inputs[side], net.ops[at].inputs[1 - side]];
            let found = maker(gate).zip(maker(other)).and_then(|(gate, other)| whole(net, gate, other, &makers));
            if let Some(x) = found {
                reasons.say(|| format!("{}: the threshold lies where the other factor is zero", net.ops[at].name));
                net.ops[at].inputs[side] = x;
                break;
            }
        }
    }
    Ok(())
}

/// Operand `x` of a gate `select(x >= least, x, 0)` that is zero only where the other factor, a hard sigmoid of `x`, is zero: the
/// product does not need the gate.
fn whole(net: &Net, gate: &Op, other: &Op, makers: &HashMap<ValueId, usize>) -> Option<ValueId> {
    let OpKind::Unary(Unary::SigmoidHard { alpha, beta }) = other.kind else { return None };
    let (OpKind::Select, &[condition, x, zero]) = (&gate.kind, gate.inputs.as_slice()) else { return None };
    let compared = &net.ops[*makers.get(&condition)?];
    let least = number(net, *compared.inputs.get(1)?)?;
    let greater = matches!(compared.kind, OpKind::Binary(Binary::GreaterEqual | Binary::Greater));
    let same = other.inputs == [x] && compared.inputs[0] == x && number(net, zero)? == 0.0;
    (greater && same && alpha > 0.0 && -beta / alpha >= least).then_some(x)
}

/// The only number of a constant.
fn number(net: &Net, id: ValueId) -> Option<f32> {
    let data = net.value(id).data.as_ref()?.data.to_f32();
    data.first().copied().filter(|first| data.iter().all(|x| x == first))
}

#[cfg(test)]
mod tests {
    use super::super::cases::*;
    use super::*;

    const BEFORE: &str = r#"net "n" {
  input %x: f16[4]
  const %c: f16[1] = [-3.0]
  const %z: f16[1] = [0.0]
  %p: bool[4] = greater_equal(%x, %c)
  %t: f16[4] = select(%p, %x, %z)
  %h: f16[4] = sigmoid_hard(%x) alpha=ALPHA beta=0.5
  %y: f16[4] = mul(%t, %h)
  output %y
}
"#;

    #[test]
    fn hard_swish_needs_no_threshold() {
        let before = BEFORE.replace("ALPHA", "0.125");
        becomes(recognize, &before, &before);
        let before = BEFORE.replace("ALPHA", "0.25");
        becomes(recognize, &before, &before.replace("mul(%t", "mul(%x"));
    }
}
