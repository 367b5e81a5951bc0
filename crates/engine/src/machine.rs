//! One task at work: the memory it sees and the fields it reads.

<<<<<<< ours
use crate::fault::FaultKind;
=======
use crate::fault::{Fault, FaultKind};
use crate::honours::{Treatment, executes, treatment};
>>>>>>> theirs
use crate::memory::{Memory, Region};
use crate::plan::{Fields, Work};
use crate::tensor::Tensor;
use crate::work::Workers;
use anemone_facts::numerics::{Mac, Model};
use anemone_facts::{Field, Layout};
use anemone_program::{Port, Program, Task};

/// State between tasks, and the task at hand.
pub(crate) struct Machine<'a> {
    pub(crate) layout: &'static Layout,
    pub(crate) memory: &'a mut Memory,
    /// The kernel section while the task is planned, before any memory is bound.
    pub(crate) constants: Option<&'a [u8]>,
    pub(crate) l2: &'a mut Region,
    /// Result of the task before, where it was chained.
    pub(crate) chain: &'a mut Option<Tensor>,
    pub(crate) task: &'a Task,
    pub(crate) fields: &'a Fields,
    pub(crate) workers: &'a Workers,
    /// The array's arithmetic; `None` is fp32 sums.
    pub(crate) mac: Option<&'static Mac>,
<<<<<<< ours
    /// How everything else computes.
    pub(crate) model: Model,
    /// Where inputs and outputs of the program stand.
    pub(crate) ports: &'a [Port],
=======
}

/// Executes a program against bound memory. Outputs are in their regions afterwards.
pub fn run(program: &Program, memory: &mut Memory, options: Options) -> Result<Outcome, Fault> {
    if !executes(program.layout) {
        let kind = FaultKind::Generation { generation: program.layout.generation };
        return Err(Fault { task: None, offset: 0, kind });
    }
    let tasks = program.tasks().map_err(|e| Fault { task: None, offset: 0, kind: e.into() })?;
    let mut passed_over = Vec::new();
    let mut l2 = Region::unwritten("L2", tile_memory_bytes(program.layout));
    let mut chain = None;
    for (index, task) in tasks.iter().enumerate() {
        let fault = |kind| Fault { task: Some(index), offset: task.offset, kind };
        let strays = check_fields(program.layout, task);
        if options.lenient {
            passed_over.extend(strays.into_iter().map(fault));
        } else if let Some(kind) = strays.into_iter().next() {
            return Err(fault(kind));
        }
        let mut machine = Machine { layout: program.layout, memory, l2, chain, task, mac: options.model.mac() };
        machine.execute().map_err(fault)?;
        (l2, chain) = (machine.l2, machine.chain);
    }
    let incomplete =
        program.ports_of(Direction::Output).filter(|p| !port_written(memory, p)).map(|p| p.name.clone()).collect();
    Ok(Outcome { tasks: tasks.len(), passed_over, incomplete })
}

/// What the address field of a source in tile memory can reach.
fn tile_memory_bytes(layout: &Layout) -> usize {
    layout.row(Field::SrcL2Base).map_or(0, |row| (row.max() as usize + 1) << row.lo)
}

fn port_written(memory: &Memory, port: &anemone_program::Port) -> bool {
    let Some(region) = memory.region(port.bar) else { return false };
    let (s, row) = (port.strides, port.shape.w as u64 * port.element.bytes());
    (0..port.shape.n as u64).all(|n| {
        (0..port.shape.c as u64).all(|c| {
            (0..port.shape.h as u64)
                .all(|h| region.is_written(n * s.batch_bytes + c * s.plane_bytes + h * s.row_bytes, row))
        })
    })
}

/// Fields with a value the engine does not obey, and bits that no row explains.
fn check_fields(layout: &'static Layout, task: &Task) -> Vec<FaultKind> {
    let unexplained = task.unexplained(layout).into_iter().map(|(space, addr, bits)| FaultKind::Unexplained {
        space: match space {
            Space::Header => "header word",
            Space::Register => "register",
        },
        addr,
        bits,
    });
    let refused = layout.rows.iter().flat_map(|row| {
        (0..row.count as u32).filter_map(move |i| match treatment(row.field) {
            Treatment::Only(values, reason) => {
                let value = task.get_at(layout, row.field, i)?;
                (!values.contains(&value)).then_some(FaultKind::NotHonoured { field: row.field, value, reason })
            }
            Treatment::Obeyed | Treatment::NoEffect => None,
        })
    });
    unexplained.chain(refused).collect()
>>>>>>> theirs
}

impl Machine<'_> {
    pub(crate) fn execute(&mut self, work: &Work) -> Result<(), FaultKind> {
        match work {
            Work::Neural(neural) => self.neural(neural),
            Work::Planar => self.planar(),
        }
    }

    /// Raw bits of a field; 0 where the descriptor does not write its register.
    pub(crate) fn get(&self, field: Field) -> u32 {
        self.fields.get(field)
    }

    /// As [`Machine::get`], for sizes.
    pub(crate) fn size(&self, field: Field) -> usize {
        self.get(field) as usize
    }

    /// Byte quantity of a shifted field.
    pub(crate) fn bytes(&self, field: Field) -> u64 {
        u64::from(self.get(field)) << self.layout.row(field).map_or(0, |row| row.lo)
    }

    /// fp16 field as a number.
    pub(crate) fn half(&self, field: Field) -> f32 {
        half::f16::from_bits(self.get(field) as u16).to_f32()
    }

    /// The base register that a field names.
    pub(crate) fn bar(&self, base: Field, enable: Field) -> Result<u8, FaultKind> {
        self.require(enable, 1, "the base register is used")?;
        Ok(self.get(base) as u8)
    }

    /// Kernel data at an address behind `KBase0`.
    pub(crate) fn kernel_bytes(&self, address: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        let bar = self.bar(Field::KBase0, Field::Kbe0)?;
        if let Some(constants) = self.constants.filter(|_| bar == Program::KERNEL_BAR) {
            let end = address.checked_add(bytes).filter(|&end| end <= constants.len() as u64);
            return end.map(|end| &constants[address as usize..end as usize]).ok_or_else(|| FaultKind::Stray {
                field: Field::CoeffBase,
                region: format!("BAR {bar}"),
                address,
                bytes,
                limit: constants.len() as u64,
            });
        }
        let region = self.memory.region(bar).ok_or(FaultKind::Unbound { field: Field::KBase0, bar })?;
        region.read_bytes(Field::CoeffBase, address, bytes as usize)
    }

    pub(crate) fn require(&self, field: Field, wanted: u32, reason: &str) -> Result<(), FaultKind> {
        let value = self.get(field);
        if value == wanted {
            return Ok(());
        }
        Err(FaultKind::Inconsistent { field, value, reason: format!("{wanted} expected: {reason}") })
    }
}
