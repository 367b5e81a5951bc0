//! State shared by all tasks of a plan.

use super::Step;
use super::access::Accesses;
use crate::fields::Fields;
use crate::machine::{ChainedResults, Machine};
use crate::memory::{Home, Memory, Region};
use crate::numerics::Parameters;
use anemone_facts::Layout;
use anemone_facts::numerics::Model;
use anemone_kernels::cost;
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::workers::Workers;
use anemone_program::{Port, Program, Task};

/// State shared by all tasks of a plan.
pub(super) struct Common {
    pub(super) layout: &'static Layout,
    pub(super) mac: Option<&'static AccumulatorSpec>,
    pub(super) model: Model,
    pub(super) ports: Vec<Port>,
    pub(super) workers: Workers,
}

impl Common {
    /// The same state for operations that run beside those of this one, with scratch memory of its own.
    pub(super) fn alike(&self) -> Common {
        let &Common { layout, mac, model, ref ports, .. } = self;
        Common { layout, mac, model, ports: ports.clone(), workers: Workers::new() }
    }

    /// Returns true for tile memory, and for scratch memory without a port: only tasks access them.
    pub(super) fn is_own(&self, home: Home) -> bool {
        match home {
            Home::Tile => true,
            Home::Bar(bar) => bar == Program::SCRATCH_BAR && self.ports.iter().all(|port| port.bar != bar),
        }
    }

    /// Memory accesses of a task, computed without bound memory; `None` if unknown.
    pub(super) fn accesses_of(&self, step: &Step) -> Option<Accesses> {
        let (mut nothing, mut nowhere, mut chain) =
            (Memory::new(), Region::unwritten("L2", 0), ChainedResults::default());
        self.machine(&mut nothing, &mut nowhere, &mut chain, &step.task, &step.fields).accesses_of(step)
    }

    pub(super) fn machine<'a>(
        &'a self,
        memory: &'a mut Memory,
        l2: &'a mut Region,
        chain: &'a mut ChainedResults,
        task: &'a Task,
        fields: &'a Fields,
    ) -> Machine<'a> {
        let &Common { layout, mac, model, ref ports, ref workers } = self;
        Machine {
            layout,
            memory,
            constants: None,
            l2,
            chain,
            task,
            fields,
            workers,
            mac,
            model,
            depth: 0,
            source_depth: 0,
            ports,
        }
    }
}

/// Returns true if operations that are worth sharing take long enough for threads to spin throughout a run.
pub(super) fn is_worth_waking(layout: &Layout, tasks: &[Task], model: Model) -> bool {
    let nanos = tasks.iter().map(|task| Fields::of(layout, task).nanos(model.accumulator().is_some()));
    let shared = nanos.filter(|&nanos| nanos >= cost::SHARED_NANOS);
    shared.fold(0, usize::saturating_add) >= cost::AWAKE_NANOS
}
