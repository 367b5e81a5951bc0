//! Dead code elimination: removes operations whose results are not read, and elements of constants that nothing reads. Ours.

use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::Net;

/// Removes operations whose results are not read. Constants that earlier passes replaced lose their elements, which take as much memory as the
/// new ones.
pub fn remove_dead(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    let mut live: Vec<bool> = vec![false; net.values.len()];
    net.outputs.iter().for_each(|o| live[o.0 as usize] = true);
    let mut ops = std::mem::take(&mut net.ops);
    ops.reverse();
    ops.retain(|op| {
        let needed = op.outputs.iter().any(|o| live[o.0 as usize]);
        if !needed {
            reasons.say(|| format!("{}: its results are not read", op.name));
        }
        if needed {
            op.inputs.iter().for_each(|i| live[i.0 as usize] = true);
        }
        needed
    });
    ops.reverse();
    net.ops = ops;
    net.states.iter().for_each(|state| live[state.output.0 as usize] = true);
    net.values.iter_mut().zip(&live).filter(|(_, live)| !**live).for_each(|(value, _)| value.data = None);
    Ok(())
}
