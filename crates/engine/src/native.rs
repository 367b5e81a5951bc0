//! Tasks in this project's own encoding: native layers whose register words are not known.
//!
//! The registers and their meaning are rows of `facts` (`facts::native`, evidence `Own`): class of the layer, operands by base,
//! extents and strides, parameters in the order of the layer's row. Elements in memory are fp16; arithmetic is fp32, rounded
//! once. Indices are stored as numbers, which are exact up to 2048.

mod compute;

use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory::{Home, Memory};
use crate::operand::MemRef;
use anemone_facts::Field::{self, *};
use anemone_facts::native::{
    NATIVES, Native as Row, OWN_BASE, OWN_CARRIER, OWN_OPERANDS, OWN_PARAMS, OWN_RESULT, ParamType,
};
use anemone_kernels::arrays::MapEach;
use anemone_program::Element;

/// Largest number of elements of an operand.
const LIMIT: u64 = 1 << 26;

/// A decoded native-layer task: its row, parameters and operands.
pub(crate) struct Own {
    row: Option<&'static Row>,
    params: Vec<Value>,
    sources: Vec<Place>,
    result: Place,
}

/// Value of a parameter.
#[derive(Clone, Debug)]
enum Value {
    Flag(bool),
    Integer(u32),
    Real(f32),
    Word(&'static str),
    List(Vec<u32>),
}

/// An operand in memory.
#[derive(Clone, Copy)]
struct Place {
    bar: u8,
    base: u64,
    extents: [usize; 4],
    strides: [u64; 3],
}

impl Place {
    fn operand(&self) -> MemRef {
        let [g, c, h, w] = self.extents.map_each(|n| n as u64);
        let [group, channel, row] = self.strides;
        MemRef::new(Home::Bar(self.bar), self.base, &[(g, group), (c, channel), (h, row)], w * Element::Float16.bytes())
    }
}

/// Elements of an operand, widened to fp32.
pub(crate) struct Operand {
    extents: [usize; 4],
    data: Vec<f32>,
}

impl Own {
    /// Memory accesses of the task, reads and writes. A task without work has none.
    pub(crate) fn accesses(&self) -> (Vec<MemRef>, Vec<MemRef>) {
        if self.row.is_none() {
            return (Vec::new(), Vec::new());
        }
        (self.sources.iter().map(Place::operand).collect(), vec![self.result.operand()])
    }

    /// Returns true if an operand is behind base register `bar`.
    pub(crate) fn names(&self, bar: u8) -> bool {
        self.row.is_some() && self.sources.iter().chain([&self.result]).any(|place| place.bar == bar)
    }

    fn value(&self, name: &str) -> Option<&Value> {
        let at = self.row?.params.iter().position(|p| p.name == name)?;
        self.params.get(at)
    }

    fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Flag(true)))
    }

    fn size(&self, name: &str) -> usize {
        match self.value(name) {
            Some(Value::Integer(value)) => *value as usize,
            _ => 0,
        }
    }

    fn real(&self, name: &str) -> f32 {
        match self.value(name) {
            Some(Value::Real(value)) => *value,
            _ => 0.0,
        }
    }

    fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    fn list(&self, name: &str) -> &[u32] {
        match self.value(name) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }

    /// Axis index from a parameter; the last axis by default.
    fn axis(&self, name: &str) -> usize {
        ["Batch", "Channel", "Height", "Width"].iter().position(|a| *a == self.word(name)).unwrap_or(3)
    }
}

/// Decodes parameters, in the order of the row.
fn decode(row: &'static Row, words: &[u32]) -> Result<Vec<Value>, FaultKind> {
    let mut words = words.iter().copied();
    let mut next = || words.next().ok_or_else(|| odd(OwnParam, 0, format!("fewer parameters than {} has", row.tag)));
    let mut values = Vec::with_capacity(row.params.len());
    for param in row.params {
        let word = next()?;
        let wrong = || odd(OwnParam, word, format!("{} of {}", param.name, row.tag));
        values.push(match param.ty {
            ParamType::Flag if word <= 1 => Value::Flag(word == 1),
            ParamType::Integer(least, most) if (least..=most).contains(&i64::from(word)) => Value::Integer(word),
            ParamType::Half | ParamType::Real if f32::from_bits(word).is_finite() => Value::Real(f32::from_bits(word)),
            ParamType::Word(names) => Value::Word(names.get(word as usize).ok_or_else(wrong)?),
            ParamType::Axes | ParamType::Integers(..) | ParamType::PerAxis(..) if word <= OWN_PARAMS => {
                let list = (0..word).map(|_| next()).collect::<Result<Vec<u32>, _>>()?;
                let pairs = matches!(param.ty, ParamType::PerAxis(..));
                let axes = list.iter().step_by(if pairs { 2 } else { 1 });
                let axes_hold = matches!(param.ty, ParamType::Integers(..)) || axes.into_iter().all(|&a| a < 4);
                if !axes_hold || pairs && list.len() % 2 != 0 {
                    return Err(wrong());
                }
                Value::List(list)
            }
            _ => return Err(wrong()),
        });
    }
    Ok(values)
}

fn odd(field: Field, value: u32, reason: String) -> FaultKind {
    FaultKind::Inconsistent { field, value, reason }
}

impl Machine<'_> {
    /// Returns true for a task in this project's own encoding.
    pub(crate) fn is_own(&self) -> bool {
        self.task.register(OWN_BASE).is_some()
    }

    /// Decodes an own task.
    pub(crate) fn prepare_own(&self) -> Result<Own, FaultKind> {
        let at = |field, i| self.task.get_at(self.layout, field, i).unwrap_or(0);
        let place = |i: u32| Place {
            bar: at(OwnBar, i) as u8,
            base: at(OwnBase, i).into(),
            extents: [OwnGroups, OwnChannels, OwnRows, OwnColumns].map_each(|field| at(field, i) as usize),
            strides: [OwnGroupStride, OwnChannelStride, OwnRowStride].map_each(|field| at(field, i).into()),
        };
        let (class, sources) = (self.get(OwnKind), self.get(OwnSources));
        if class == OWN_CARRIER {
            return Ok(Own { row: None, params: Vec::new(), sources: Vec::new(), result: place(OWN_RESULT) });
        }
        let row = NATIVES.iter().find(|row| row.class() == Some(class));
        let row = row.ok_or_else(|| odd(OwnKind, class, "no native layer has this class".into()))?;
        let most = row.validator().map_or(OWN_OPERANDS, |v| u32::from(v.most)).min(OWN_OPERANDS - 1);
        if sources == 0 || sources > most {
            return Err(odd(OwnSources, sources, format!("{} takes 1 to {most}", row.tag)));
        }
        let words: Vec<u32> = (0..OWN_PARAMS).map_while(|i| self.task.get_at(self.layout, OwnParam, i)).collect();
        let params = decode(row, &words)?;
        let own = Own { row: Some(row), params, sources: (0..sources).map(place).collect(), result: place(OWN_RESULT) };
        for place in own.sources.iter().chain([&own.result]) {
            let elements = place.extents.iter().try_fold(1u64, |n, &e| n.checked_mul(e as u64)).unwrap_or(u64::MAX);
            if elements > LIMIT {
                return Err(FaultKind::TooLarge { elements, limit: LIMIT });
            }
            if elements == 0 {
                return Err(odd(OwnColumns, 0, "an operand has no elements".into()));
            }
        }
        Ok(own)
    }

    /// Executes an own task.
    pub(crate) fn own(&mut self, own: &Own) -> Result<(), FaultKind> {
        let Some(row) = own.row else { return Ok(()) };
        own.sources.iter().chain([&own.result]).try_for_each(|place| within(self.memory, place))?;
        let operands = own.sources.iter().map(|place| load(self.memory, place)).collect::<Result<Vec<_>, _>>()?;
        let result = compute::compute(own, row, &operands, own.result.extents)?;
        store(self.memory, &own.result, &result)
    }
}

/// Offset of every row of an operand: in memory, in bytes (even), and in its elements.
fn rows(place: &Place) -> impl Iterator<Item = Result<(u64, usize), FaultKind>> + use<> {
    let Place { base, extents: [n, c, h, w], strides: [groups, channels, rows], .. } = *place;
    (0..n * c * h).map(move |i| {
        let (g, k, r) = ((i / (c * h)) as u64, (i / h % c) as u64, (i % h) as u64);
        let step = |sum: u64, at: u64, stride: u64| at.checked_mul(stride).and_then(|s| sum.checked_add(s));
        let address = step(base, g, groups).and_then(|a| step(a, k, channels)).and_then(|a| step(a, r, rows));
        match address {
            Some(address) if address % 2 == 0 => Ok((address, i * w)),
            _ => Err(odd(OwnBase, base as u32, "an address that is odd or past all memory".into())),
        }
    })
}

/// Checks that an operand lies within its region, before anything of its size is allocated.
fn within(memory: &Memory, place: &Place) -> Result<(), FaultKind> {
    let region = memory.region(place.bar).ok_or(FaultKind::Unbound { field: OwnBar, bar: place.bar })?;
    let [n, c, h, w] = place.extents.map_each(|e| e as u64);
    let [groups, channels, rows] = place.strides;
    let last = [(n, groups), (c, channels), (h, rows)];
    let start =
        last.iter().fold(place.base, |sum, (extent, stride)| sum.saturating_add((extent - 1).saturating_mul(*stride)));
    let (bytes, limit) = (2 * w, region.len() as u64);
    if start.saturating_add(bytes) <= limit {
        return Ok(());
    }
    Err(FaultKind::Stray { field: OwnBase, region: format!("BAR {}", place.bar), address: start, bytes, limit })
}

fn load(memory: &Memory, place: &Place) -> Result<Operand, FaultKind> {
    let region = memory.region(place.bar).ok_or(FaultKind::Unbound { field: OwnBar, bar: place.bar })?;
    let width = place.extents[3];
    let mut data = vec![0.0; place.extents.iter().product()];
    for row in rows(place) {
        let (address, at) = row?;
        region.read_row(OwnBase, address, Element::Float16, &mut data[at..at + width])?;
    }
    Ok(Operand { extents: place.extents, data })
}

fn store(memory: &mut Memory, place: &Place, data: &[f32]) -> Result<(), FaultKind> {
    let region = memory.region_mut(place.bar).ok_or(FaultKind::Unbound { field: OwnBar, bar: place.bar })?;
    let width = place.extents[3];
    for row in rows(place) {
        let (address, at) = row?;
        region.write_row(OwnBase, address, Element::Float16, &data[at..at + width])?;
    }
    Ok(())
}
