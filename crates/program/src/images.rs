//! Tasks of a compiled program as register images of version 10, as far as its fields are known: dimensions, DMA strides, and
//! the address slots that the loader fills in.

use crate::program::Program;
use crate::task::StreamError;
use crate::task::Task;
use crate::task::image::{BarKind, CustomBar, Descriptor, Image, ImageError};
use anemone_facts::layout::{M11, v10};
use anemone_facts::{Field, Layout};

/// Error for a program whose tasks cannot be written as images.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EmitError {
    /// The stream cannot be followed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A field of a task does not fit.
    #[error("task {task}: {error}")]
    Field {
        /// Position of the task.
        task: usize,
        /// Reason why it does not fit.
        error: ImageError,
    },
}

/// Dimensions: fields whose value is copied unchanged.
const DIMENSIONS: [Field; 6] = [Field::Win, Field::Hin, Field::Cin, Field::Cout, Field::OcgSize, Field::NumGroups];

/// A DMA engine: its address slot, its enable field, its strides with the extent that each steps over.
struct Engine {
    slot: u32,
    base: Field,
    used: Option<Field>,
    strides: [(Field, Field); 3],
}

const ENGINES: [Engine; 3] = [
    Engine {
        slot: 0x1344,
        base: Field::RBase0,
        used: Some(Field::Rbe0),
        strides: [
            (Field::Src1RowStride, Field::Hin),
            (Field::Src1PlaneStride, Field::Cin),
            (Field::Src1GroupStride, Field::NumGroups),
        ],
    },
    Engine {
        slot: 0x134a,
        base: Field::RBase1,
        used: Some(Field::Rbe1),
        strides: [
            (Field::Src2RowStride, Field::Hin),
            (Field::Src2PlaneStride, Field::Cin),
            (Field::Src2GroupStride, Field::NumGroups),
        ],
    },
    Engine {
        slot: 0x1442,
        base: Field::WBase,
        used: Some(Field::Wbe),
        strides: [
            (Field::DstRowStride, Field::Hout),
            (Field::DstPlaneStride, Field::Cout),
            (Field::DstGroupStride, Field::NumGroups),
        ],
    },
];

/// As [`of_program`], for one load: `address` returns the device address of a base register, which is written to the address slots.
pub fn of_program_at(program: &Program, address: &dyn Fn(u8) -> Option<u64>) -> Result<Vec<Descriptor>, EmitError> {
    let mut all = of_program(program)?;
    let tasks = program.tasks()?;
    for (at, (task, descriptor)) in tasks.iter().zip(&mut all).enumerate() {
        for bar in descriptor.bars.clone() {
            let engine = ENGINES.iter().find(|engine| engine.slot == bar.register);
            let register = engine.and_then(|engine| task.get(program.layout, engine.base));
            let value = register.and_then(|register| address(u8::try_from(register).ok()?));
            if let Some(value) = value {
                let fail = |error| EmitError::Field { task: at, error };
                bar.apply(&mut descriptor.image, value).map_err(fail)?;
            }
        }
    }
    Ok(all)
}

/// A descriptor for each task, in the order of the chain. Strides along an extent of one keep their default, and so do
/// fields without a row in version 10.
pub fn of_program(program: &Program) -> Result<Vec<Descriptor>, EmitError> {
    let tasks = program.tasks()?;
    let image = |(at, task)| of_task(program.layout, task).map_err(|error| EmitError::Field { task: at, error });
    tasks.iter().enumerate().map(image).collect()
}

fn of_task(layout: &Layout, task: &Task) -> Result<Descriptor, ImageError> {
    let mut out = Descriptor::default();
    for field in DIMENSIONS {
        if let Some(value) = task.get(layout, field) {
            put(&mut out.image, field, value)?;
        }
    }
    for engine in ENGINES {
        if engine.used.is_some_and(|used| task.get(layout, used) != Some(1)) || task.get(layout, engine.base).is_none()
        {
            continue;
        }
        for (stride, extent) in engine.strides {
            let steps = task.get(layout, extent).unwrap_or(0) > 1;
            if let Some(value) = task.get(layout, stride).filter(|_| steps) {
                bounded(layout, stride, value)?;
                put(&mut out.image, stride, value)?;
            }
        }
        out.bars.push(CustomBar { register: engine.slot, bit: 0, width: 64, kind: BarKind::Address });
    }
    Ok(out)
}

/// Refuses a stride beyond the generation's bound. The field is signed, unlike the registers of the M1.
fn bounded(layout: &Layout, field: Field, value: u32) -> Result<(), ImageError> {
    let (step, most) = (1i128 << v10::STRIDE_BIT, i128::from(v10::stride_bound(layout.generation)));
    let bytes = i128::from(value) * step;
    let inside = bytes < most;
    let error =
        || ImageError::Range { what: format!("{field:?}"), value: bytes, least: -most, most: most - step, step };
    inside.then_some(()).ok_or_else(error)
}

/// Writes the raw bits of a field at its place in version 10.
fn put(image: &mut Image, field: Field, value: u32) -> Result<(), ImageError> {
    let Some(row) = M11.row(field) else { return Ok(()) };
    if value > row.mask() >> row.lo {
        let most = i128::from(row.mask() >> row.lo);
        return Err(ImageError::Range { what: format!("{field:?}"), value: value.into(), least: 0, most, step: 1 });
    }
    let register = row.addr / 4;
    let word = image.register(register)? & !row.mask() | value << row.lo;
    image.set_register(register, word)
}
