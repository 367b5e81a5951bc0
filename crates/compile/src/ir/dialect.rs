//! Names of layers in the dialect of the book's chapters 22 and 26 (`anec.convolution`, `anec.matmul`), which the text form has before
//! the unit and the function of a task.

use super::*;
use anemone_facts::native as rows;
use anemone_net::native::{self, MIL_PREFIX, Schema};

impl Layer {
    /// Name of the layer in the dialect, with its prefix: the operation that the task computes, whatever its epilogue holds. A task
    /// that only moves elements is a view, or a transpose.
    pub fn dialect(&self) -> String {
        let name = match &self.kind {
            Kind::Conv { .. } => "convolution",
            Kind::Product { .. } => "matmul",
            Kind::Neuron { nonlinear: Nonlinear::Relu, .. } => "relu",
            Kind::Neuron { nonlinear: Nonlinear::Table(table), .. } => return of_table(table),
            Kind::Neuron { add, post_scale, nonlinear: Nonlinear::None } => {
                self.affine(*add == 0.0 && *post_scale == 1.0)
            }
            Kind::SumChannels { .. } => "reduce_sum",
            Kind::MaxChannels => "reduce_max",
            Kind::MulChannels { .. } => "mul",
            Kind::Planar { op, .. } => match op {
                PlanarOp::Add => "add",
                PlanarOp::Sub => "sub",
                PlanarOp::Mul => "mul",
                PlanarOp::Max => "max",
                PlanarOp::Min => "min",
            },
            Kind::ChannelAffine { .. } => "dynamic_gain_offset_control",
            Kind::Deviation { .. } | Kind::InverseRms { .. } => "layer_norm",
            Kind::Pool { window: Window::UNIT, abs: true, .. } => "abs",
            Kind::Pool { window: Window::UNIT, affine, .. } => self.affine(*affine == Affine::UNIT),
            Kind::Pool { op: PoolOp::Max, .. } => "max_pool",
            Kind::Pool { op: PoolOp::Sum, .. } => "average_pool",
            Kind::Reduce { op: PoolOp::Max, .. } => "reduce_max",
            Kind::Reduce { op: PoolOp::Sum, .. } => "reduce_sum",
            Kind::Own(own) => return of_own(own),
        };
        format!("{MIL_PREFIX}{name}")
    }

    fn affine(&self, unit: bool) -> &'static str {
        match (unit, self.transpose) {
            (true, true) => "transpose",
            (true, false) => "input_view",
            (false, _) => "gain_offset_control",
        }
    }
}

/// Name of a function that the dialect has, else of the unit that has a table of its own.
fn of_table(table: &Table) -> String {
    let known = native::named(&table.name).is_some_and(|named| named.tag == "Neuron");
    format!("{MIL_PREFIX}{}", if known { table.name.as_str() } else { "neuron" })
}

fn of_own(own: &Own) -> String {
    let schema = rows::by_tag(own.tag).and_then(|row| Schema::of_tag(row.tag));
    schema.map_or_else(|| format!("{MIL_PREFIX}{}", own.tag.to_lowercase()), Schema::mil_name)
}
