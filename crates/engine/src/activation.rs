//! Activation function of a task, from its fields.

use crate::constants::Constants;
use crate::fault::FaultKind;
use crate::lut::Table;
use crate::machine::Machine;
use anemone_facts::Field::*;
use anemone_facts::code::{neural, nonlinear};
use anemone_facts::lut::RECORD_BYTES;
use anemone_kernels::epilogue::Activation;

impl Machine<'_> {
    pub(crate) fn prepare_activation(&self, constants: &mut Constants) -> Result<Activation, FaultKind> {
        if self.added() != 0.0 && self.get(NeOpMode) == neural::BYPASS {
            return Err(self.inconsistent(AccBias, "a bypass adds nothing"));
        }
        match self.get(NonlinearMode) {
            nonlinear::NONE => Ok(Activation::None),
            nonlinear::RELU => Ok(Activation::Relu),
            nonlinear::LUT => {
                if constants.holds(self.bar(KBase0, Kbe0)?) {
                    constants.table(self.table_record(RECORD_BYTES as u64)?)
                } else {
                    Ok(Activation::Unread)
                }
            }
            value => {
                Err(FaultKind::NotHonoured { field: NonlinearMode, value, reason: "none, relu and lut are executed" })
            }
        }
    }

    /// The activation table of this task.
    pub(crate) fn activation(&self) -> Result<Activation, FaultKind> {
        Ok(Table::read(self.table_record(RECORD_BYTES as u64)?)?.activation())
    }
}
