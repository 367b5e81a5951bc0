//! Lowering of native layers without known registers: one task of this project's own each.

use super::Lowerer;
use crate::error::Result;
use crate::ir::Own;
use crate::ir::{Kind, View};
use anemone_net::Op;
use anemone_net::native::Native;
use std::sync::Arc;

impl Lowerer<'_> {
    pub(super) fn native(&mut self, op: &Op, native: &Native) -> Result<()> {
        let Some(own) = Own::of(native) else {
            return Err(self.unsupported("its parameters are more than fit a task", "shorter lists"));
        };
        let four = |lowerer: &Self, view: View| {
            view.nchw().ok_or_else(|| lowerer.unsupported("an operand of more than four axes", "reshape it before"))
        };
        let mut sources = Vec::new();
        for &id in &op.inputs {
            let view = self.view(id)?;
            sources.push(four(self, view)?);
        }
        let view = self.result(op.outputs[0]);
        let result = four(self, view)?;
        let broadcast = vec![[false; 3]; sources.len()];
        self.push(Kind::Own(Arc::new(own)), sources, broadcast, result, false);
        Ok(())
    }
}
