//! Constants of a plan: packed coefficients and activation tables, made once and shared by all tasks that read the same streams.

use crate::fault::FaultKind;
use crate::lut::Table;
use crate::packed::Packed;
use anemone_facts::Field;
use anemone_facts::Layout;
use anemone_facts::numerics::Model;
use anemone_kernels::epilogue::{Activation, ExactEpilogue};
use anemone_program::{Program, Task};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

/// Key of an exact epilogue: activation mode, bits of bias and of scale, bytes of the table record.
type Stages = (u32, u32, u32, Vec<u8>);

/// Reason why coefficients outside of the kernel section are not known at planning.
pub(crate) const FROM_TASKS: &str = "they are results of other tasks, or inputs";

/// Entry limit of each process-wide cache. Expanding a function over all fp16 numbers takes as long as a small program runs.
const MOST_KEPT: usize = 128;
type Kept<K, V> = Mutex<Vec<(K, V)>>;
static TABLES: Kept<Vec<u8>, Activation> = Mutex::new(Vec::new());
static STAGES: Kept<(&'static str, Stages), ExactEpilogue> = Mutex::new(Vec::new());

/// Looks a key up in a process-wide cache, or makes and stores its value. A cache of [`MOST_KEPT`] entries is cleared first. A list, because
/// comparing so few keys takes little beside making a value, and a map is compiled for each pair of types.
fn cached<K: Eq, V: Clone>(
    all: &Kept<K, V>,
    key: K,
    make: impl FnOnce() -> Result<V, FaultKind>,
) -> Result<V, FaultKind> {
    let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
    for (known, value) in lock().iter() {
        if *known == key {
            return Ok(value.clone());
        }
    }
    let made = make()?;
    let mut kept = lock();
    if kept.len() >= MOST_KEPT {
        kept.clear();
    }
    kept.push((key, made.clone()));
    Ok(made)
}

/// Cache key of packed coefficients: their streams and the packed layout, which determine them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PackingKey(pub(crate) Vec<u32>);

/// Limit of packed coefficients, as a multiple of the kernel section. They exceed its size where indices are widened or zeros stored.
const MOST_TIMES_KERNEL: usize = 4;
/// Lower bound of that limit, in bytes.
const ALWAYS_KEPT_BYTES: usize = 64 << 20;

/// Kernel data of a program while it is planned.
pub(crate) struct Constants<'a> {
    pub(crate) bytes: &'a [u8],
    /// True if no task writes the kernel section.
    unchanged: bool,
    /// False if every run packs for itself, as a traced run does: it is slow anyway, and holds a large model's weights only once.
    keeps: bool,
    /// Limit of all distinct packed coefficients, and the bytes kept so far.
    ceiling_bytes: usize,
    kept_bytes: usize,
    packed: HashMap<PackingKey, Packed>,
    /// Tasks whose coefficients exceeded the limit.
    unpacked_tasks: usize,
}

impl Constants<'_> {
    pub(crate) fn of<'a>(program: &'a Program, tasks: &[Task], keeps: bool) -> Constants<'a> {
        let get = |layout: &Layout, task: &Task, field| task.get(layout, field).unwrap_or(0);
        let written = |task: &Task| {
            let layout = program.layout;
            get(layout, task, Field::Wbe) == 1 && get(layout, task, Field::WBase) == u32::from(Program::KERNEL_BAR)
        };
        Constants {
            bytes: &program.kernel,
            unchanged: !tasks.iter().any(written),
            keeps,
            ceiling_bytes: (MOST_TIMES_KERNEL * program.kernel.len()).max(ALWAYS_KEPT_BYTES),
            kept_bytes: 0,
            packed: HashMap::new(),
            unpacked_tasks: 0,
        }
    }

    /// Bytes of packed coefficients kept so far.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Returns true if kernel data behind `bar` is constant: the program has some, and no task writes it.
    pub(crate) fn holds(&self, bar: u8) -> bool {
        self.unchanged && bar == Program::KERNEL_BAR && !self.bytes.is_empty()
    }

    /// Reason why coefficients behind `bar` are not constant, if [`Constants::holds`] is false.
    pub(crate) fn unknown(&self, bar: u8) -> &'static str {
        match bar {
            Program::KERNEL_BAR if self.bytes.is_empty() => "the program has no kernel section",
            Program::KERNEL_BAR => "a task writes the kernel section",
            _ => FROM_TASKS,
        }
    }

    /// Reason why [`Constants::packed`] keeps no more coefficients.
    pub(crate) fn full(&self) -> &'static str {
        if self.keeps {
            "distinct packed coefficients have reached their limit"
        } else {
            "a traced run packs for itself"
        }
    }

    /// Packed coefficients, made once for each key. `None` above the limit: the task then unpacks them in every run.
    pub(crate) fn packed(
        &mut self,
        key: PackingKey,
        pack: impl FnOnce() -> Result<Packed, FaultKind>,
    ) -> Result<Option<Packed>, FaultKind> {
        if !self.keeps {
            return Ok(None);
        }
        match self.packed.entry(key) {
            Entry::Occupied(known) => Ok(Some(known.get().clone())),
            Entry::Vacant(place) => {
                let packed = pack()?;
                let kept_bytes = self.kept_bytes.saturating_add(packed.bytes());
                if kept_bytes > self.ceiling_bytes {
                    self.unpacked_tasks += 1;
                    return Ok(None);
                }
                self.kept_bytes = kept_bytes;
                Ok(Some(place.insert(packed).clone()))
            }
        }
    }

    /// Activation of a table record, expanded over all fp16 numbers; cached across plans.
    pub(crate) fn table(&mut self, record: &[u8]) -> Result<Activation, FaultKind> {
        cached(&TABLES, record.to_vec(), || Ok(Table::read(record)?.activation()))
    }

    /// Epilogue of an exact model, cached across plans by its stages: their fields and the table record.
    pub(crate) fn stages(
        &mut self,
        model: Model,
        key: Stages,
        make: impl FnOnce() -> Result<ExactEpilogue, FaultKind>,
    ) -> Result<ExactEpilogue, FaultKind> {
        cached(&STAGES, (model.name(), key), make)
    }

    /// Remarks on avoidable cost: tasks that unpack their coefficients in every run.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let (tasks, mib) = (self.unpacked_tasks, self.ceiling_bytes >> 20);
        let remark = format!(
            "{tasks} tasks unpack their coefficients in every run: distinct packed coefficients exceed {mib} MiB"
        );
        (tasks > 0).then_some(remark).into_iter().collect()
    }
}
