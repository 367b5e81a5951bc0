//! Descriptors of tasks in this project's own encoding, and the task that names the target family of a program in another chip's form.

use crate::error::{Error, Result};
use crate::ir::{Layer, Own};
use crate::memory::Placed;
use anemone_facts::chips::Chip;
use anemone_facts::native::{FAMILIES, OWN_BASE, OWN_CARRIER, OWN_RESULT};
use anemone_facts::{Field, Layout, native as rows};
use anemone_program::task::encode_stream;
use anemone_program::{FieldError, Program, Run, Task};

/// The descriptor of an own task: the header of the chain, and the register block of such tasks.
pub(crate) fn task(
    layout: &'static Layout,
    own: &Own,
    layer: &Layer,
    placed: &Placed,
    index: usize,
    count: usize,
) -> std::result::Result<Task, FieldError> {
    let mut task = blank(layout, own.params.len());
    let last = index + 1 == count;
    let header = [
        (Field::Tid, index as u32),
        (Field::Lnid, u32::from(index > 0)),
        (Field::Eon, u32::from(last)),
        (Field::TBase, Program::STREAM_BAR as u32),
        (Field::Tbe, u32::from(!last)),
        (Field::OwnKind, own.class),
        (Field::OwnSources, layer.sources.len() as u32),
    ];
    header.into_iter().try_for_each(|(field, value)| task.set(layout, field, value))?;
    let sources = layer.sources.iter().enumerate().map(|(i, view)| (i as u32, view));
    for (at, view) in sources.chain([(OWN_RESULT, &layer.result)]) {
        let address = placed.addresses[view.buffer.0 as usize];
        let (bar, base) = address.map_or((0, 0), |a| (a.bar, a.offset_bytes + view.offset_bytes));
        let [groups, channels, rows] = view.axes;
        let words = [
            (Field::OwnBar, u64::from(bar)),
            (Field::OwnBase, base),
            (Field::OwnGroups, groups.extent as u64),
            (Field::OwnChannels, channels.extent as u64),
            (Field::OwnRows, rows.extent as u64),
            (Field::OwnColumns, view.width as u64),
            (Field::OwnGroupStride, groups.stride_bytes),
            (Field::OwnChannelStride, channels.stride_bytes),
            (Field::OwnRowStride, rows.stride_bytes),
        ];
        for (field, value) in words {
            let raw = u32::try_from(value).map_err(|_| FieldError::Range { field, value, max: u32::MAX })?;
            task.set_at(layout, field, at, raw)?;
        }
    }
    own.params.iter().zip(0..).try_for_each(|(&word, i)| task.set_at(layout, Field::OwnParam, i, word))?;
    Ok(task)
}

/// An empty descriptor with registers for the operands and a number of parameters.
fn blank(layout: &Layout, params: usize) -> Task {
    let words = |field| layout.row(field).map_or(0, |row| (row.addr - OWN_BASE) as usize / 4);
    let operands = words(Field::OwnRowStride) + rows::OWN_OPERANDS as usize;
    let mut runs = vec![Run::consecutive(OWN_BASE, vec![0; operands])];
    if params > 0 {
        runs.push(Run::consecutive(OWN_BASE + 4 * words(Field::OwnParam) as u32, vec![0; params]));
    }
    Task { offset: 0, header: vec![0; layout.header_words as usize], runs }
}

/// Adds the task that names the target family, if the program is in another chip's form, and refers to it from every own task.
pub(crate) fn name_family(mut program: Program, chip: &Chip) -> Result<Program> {
    let layout = program.layout;
    let defect = |e: String| Error::Net(format!("a program's own tasks are not read again: {e}"));
    let mut tasks = program.tasks().map_err(|e| defect(e.to_string()))?;
    let family = FAMILIES.iter().position(|f| *f == chip.family).unwrap_or(0) as u32;
    let mut mark = Task { runs: vec![Run::consecutive(OWN_BASE, vec![0])], ..blank(layout, 0) };
    let field = |source| Error::Field { layer: program.name.clone(), source };
    mark.set(layout, Field::OwnKind, OWN_CARRIER).map_err(field)?;
    mark.set(layout, Field::Tid, tasks.len() as u32).map_err(field)?;
    tasks.push(mark);
    for task in tasks.iter_mut().filter(|t| t.register(OWN_BASE).is_some()) {
        task.set(layout, Field::OwnFamily, family).map_err(field)?;
    }
    program.stream = encode_stream(layout, &mut tasks).map_err(field)?;
    Ok(program)
}
