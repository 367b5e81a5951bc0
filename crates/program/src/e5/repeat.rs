//! Counted loops: one processor call begins the iterations, another ends them, and the calls between them are one iteration.
//!
//! The begin call reads first values and scanned tensors and writes the inputs of one iteration; the end call reads its results
//! and writes the results of the loop. A reader that executes all calls in order executes the first iteration.

use super::{HostCall, HostTensor};
use anemone_facts::driver::IO_TYPES;
use anemone_facts::formats::e5::LOOP_LANGUAGE;

/// Largest number of iterations of a loop.
const MOST_TURNS: u64 = 1 << 32;

/// Initial value of a tensor of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A tensor, by name.
    Tensor(String),
    /// Its dense bytes.
    Constant(Vec<u8>),
}

/// A loop-carried value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// First value.
    pub start: Source,
    /// Tensor that an iteration reads.
    pub now: HostTensor,
    /// Name of the tensor with the value for the next iteration.
    pub next: String,
    /// Name of the result: the value after the last iteration.
    pub last: String,
}

/// A tensor with one slice per iteration, concatenated along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// The whole tensor: a source, or the name of the result.
    pub whole: Source,
    /// Slice of one iteration.
    pub part: HostTensor,
    /// Axis of the slices.
    pub axis: usize,
    /// True if the first iteration has the last slice.
    pub backwards: bool,
}

impl Scanned {
    /// Contiguous runs of an iteration's slice: position in the whole, position in the slice, length.
    pub fn runs(&self, turn: u64, turns: u64) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let (outer, inner) = self.part.shape.split_at(self.axis.min(self.part.shape.len()));
        let product = |extents: &[u64]| extents.iter().product::<u64>() as usize;
        let (count, length) = (product(outer), product(inner));
        let at = if self.backwards { turns - 1 - turn } else { turn } as usize;
        let turns = turns as usize;
        (0..count).map(move |i| ((i * turns + at) * length, i * length, length))
    }

    /// Declaration of the whole tensor under this name.
    fn tensor(&self, name: &str, turns: u64) -> HostTensor {
        let mut tensor = HostTensor { name: name.to_string(), ..self.part.clone() };
        if let Some(extent) = tensor.shape.get_mut(self.axis) {
            *extent = extent.saturating_mul(turns);
        }
        tensor
    }
}

/// A loop with a known number of iterations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repeat {
    /// Name.
    pub name: String,
    /// Number of iterations.
    pub turns: u64,
    /// Loop-carried values.
    pub carried: Vec<Carried>,
    /// Tensors of which each iteration reads a slice.
    pub scanned: Vec<Scanned>,
    /// Tensors of which each iteration writes a slice.
    pub collected: Vec<Scanned>,
}

/// Role of a processor call in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Begin of the iterations.
    Begin,
    /// End of the iterations.
    End,
}

impl Mark {
    /// The role of a call; `None` for calls that are not part of a loop.
    pub fn of(call: &HostCall) -> Option<Mark> {
        match call.code.split_whitespace().next() {
            _ if call.language != LOOP_LANGUAGE => None,
            Some("begin") => Some(Mark::Begin),
            _ => Some(Mark::End),
        }
    }
}

/// Size of a dense tensor in bytes; `None` for an unknown element type or extents out of range.
pub(super) fn dense_bytes(tensor: &HostTensor) -> Option<usize> {
    let bits = IO_TYPES.get(tensor.storage as usize)?.1;
    let elements = tensor.shape.iter().try_fold(1u64, |all, &n| all.checked_mul(n))?;
    usize::try_from(elements.checked_mul(u64::from(bits.div_ceil(8)))?).ok()
}

impl Repeat {
    /// The begin call of the loop.
    pub fn begin(&self) -> HostCall {
        let mut call = HostCall { name: self.name.clone(), language: LOOP_LANGUAGE.into(), ..HostCall::default() };
        call.code = format!("begin {}\n", self.turns);
        let mut source = |from: &Source, tensor: HostTensor| match from {
            Source::Tensor(_) => {
                call.inputs.push(tensor);
                "tensor"
            }
            Source::Constant(bytes) => {
                call.constants.extend_from_slice(bytes);
                "constant"
            }
        };
        for carried in &self.carried {
            let name = if let Source::Tensor(name) = &carried.start { name } else { "" };
            let from = source(&carried.start, HostTensor { name: name.to_string(), ..carried.now.clone() });
            call.code.push_str(&format!("carry {from}\n"));
            call.outputs.push(carried.now.clone());
        }
        for scanned in &self.scanned {
            let name = if let Source::Tensor(name) = &scanned.whole { name } else { "" };
            let from = source(&scanned.whole, scanned.tensor(name, self.turns));
            let way = if scanned.backwards { "backwards" } else { "forwards" };
            call.code.push_str(&format!("scan {from} {} {way}\n", scanned.axis));
            call.outputs.push(scanned.part.clone());
        }
        call
    }

    /// The end call of the loop.
    pub fn end(&self) -> HostCall {
        let mut call = HostCall { name: self.name.clone(), language: LOOP_LANGUAGE.into(), ..HostCall::default() };
        call.code = "end\n".to_string();
        for carried in &self.carried {
            call.code.push_str("carry\n");
            call.inputs.push(HostTensor { name: carried.next.clone(), ..carried.now.clone() });
            call.outputs.push(HostTensor { name: carried.last.clone(), ..carried.now.clone() });
        }
        for collected in &self.collected {
            let way = if collected.backwards { "backwards" } else { "forwards" };
            call.code.push_str(&format!("collect {} {way}\n", collected.axis));
            call.inputs.push(collected.part.clone());
            let name = if let Source::Tensor(name) = &collected.whole { name } else { "" };
            call.outputs.push(collected.tensor(name, self.turns));
        }
        call
    }

    /// The loop of a begin and an end call. Errors: the missing part.
    pub fn of(begin: &HostCall, end: &HostCall) -> Result<Repeat, String> {
        let mut lines = begin.code.lines();
        let turns = lines.next().and_then(|line| line.strip_prefix("begin ")?.parse().ok());
        let turns = turns.filter(|turns| (1..=MOST_TURNS).contains(turns)).ok_or("no number of iterations")?;
        let mut repeat = Repeat { name: begin.name.clone(), turns, ..Repeat::default() };
        let (mut inputs, mut rest) = (begin.inputs.iter(), &begin.constants[..]);
        let mut nexts = end.inputs.iter().zip(&end.outputs);
        let mut outputs = begin.outputs.iter();
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let part = outputs.next().ok_or("fewer tensors than the code names")?;
            let mut source = |word: &str, bytes: Option<usize>| match word {
                "tensor" => inputs.next().map(|t| Source::Tensor(t.name.clone())).ok_or("a source is missing"),
                _ => {
                    let (own, after) = bytes.and_then(|n| rest.split_at_checked(n)).ok_or("constants are truncated")?;
                    rest = after;
                    Ok(Source::Constant(own.to_vec()))
                }
            };
            match words[..] {
                ["carry", from] => {
                    let start = source(from, dense_bytes(part))?;
                    let (next, last) = nexts.next().ok_or("a carried value without a next one")?;
                    let (next, last) = (next.name.clone(), last.name.clone());
                    repeat.carried.push(Carried { start, now: part.clone(), next, last });
                }
                ["scan", from, axis, way] => {
                    let (axis, backwards) = scan(axis, way, part)?;
                    let mut scanned =
                        Scanned { whole: Source::Constant(Vec::new()), part: part.clone(), axis, backwards };
                    scanned.whole = source(from, dense_bytes(&scanned.tensor("", turns)))?;
                    repeat.scanned.push(scanned);
                }
                _ => return Err(format!("unknown line {line:?}")),
            }
        }
        for line in end.code.lines().filter(|line| line.starts_with("collect")) {
            let [_, axis, way] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(format!("unknown line {line:?}"));
            };
            let (part, whole) = nexts.next().ok_or("fewer results than the code names")?;
            let (axis, backwards) = scan(axis, way, part)?;
            let whole = Source::Tensor(whole.name.clone());
            repeat.collected.push(Scanned { whole, part: part.clone(), axis, backwards });
        }
        let whole = repeat.scanned.iter().chain(&repeat.collected).map(|s| s.tensor("", turns));
        if whole.chain(repeat.carried.iter().map(|c| c.now.clone())).any(|tensor| dense_bytes(&tensor).is_none()) {
            return Err("a tensor without a size".into());
        }
        match repeat.begin() == *begin && repeat.end() == *end {
            true => Ok(repeat),
            false => Err("its two calls do not belong together".into()),
        }
    }
}

fn scan(axis: &str, way: &str, part: &HostTensor) -> Result<(usize, bool), String> {
    let axis = axis.parse().ok().filter(|&axis: &usize| axis < part.shape.len());
    let backwards = ["forwards", "backwards"].iter().position(|w| *w == way);
    axis.zip(backwards.map(|at| at == 1)).ok_or_else(|| format!("unknown axis or direction of {}", part.name))
}
