//! Strided layouts of values in the memory of others: reshapes, transposes and slices of views, composed before anything is copied.
//!
//! An axis consists of one or more atoms, each with a stride in bytes that may be smaller than a row's alignment. A layout that the DMA
//! can read is a [`View`]; any other is copied once ([`super::rearrange`]), however many operations led to it.

use super::Lowerer;
use crate::ir::*;

/// Leading axes that a task addresses: groups, channels and rows.
const MOST_AXES: usize = 3;

/// Part of an axis with one stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atom {
    pub extent: usize,
    pub stride_bytes: u64,
}

/// A tensor in memory with arbitrary strides.
#[derive(Clone, Debug)]
pub struct Strided {
    /// The buffer.
    pub buffer: BufferId,
    /// Offset of the first element in bytes.
    pub offset_bytes: u64,
    /// Atoms of every axis, outermost first; none where the extent is 1.
    pub axes: Vec<Vec<Atom>>,
}

impl From<&View> for Strided {
    fn from(view: &View) -> Strided {
        let atom = |extent: usize, stride_bytes: u64| match extent {
            1 => Vec::new(),
            _ => vec![Atom { extent, stride_bytes }],
        };
        let mut axes: Vec<Vec<Atom>> = view.lead.iter().map(|a| atom(a.extent, a.stride_bytes)).collect();
        axes.push(atom(view.width, ELEMENT_BYTES));
        Strided { buffer: view.buffer, offset_bytes: view.offset_bytes, axes }
    }
}

impl Strided {
    /// Exchanges axes: axis `i` of the result is axis `perm[i]`.
    pub fn permuted(&self, perm: &[usize]) -> Strided {
        Strided { axes: perm.iter().map(|&p| self.axes[p].clone()).collect(), ..self.clone() }
    }

    /// Reshapes to other extents with the same element order; `None` if an atom would be split unevenly.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Strided> {
        let mut left: Vec<Atom> = joined(self.axes.iter().flatten().copied()).into_iter().rev().collect();
        let mut axes = Vec::new();
        for &extent in shape {
            let (mut rest, mut atoms) = (extent, Vec::new());
            while rest > 1 {
                let atom = left.pop()?;
                if rest.is_multiple_of(atom.extent) {
                    rest /= atom.extent;
                    atoms.push(atom);
                } else if atom.extent.is_multiple_of(rest) {
                    let inner = atom.extent / rest;
                    atoms.push(Atom { extent: rest, stride_bytes: atom.stride_bytes * inner as u64 });
                    left.push(Atom { extent: inner, ..atom });
                    rest = 1;
                } else {
                    return None;
                }
            }
            axes.push(atoms);
        }
        left.is_empty().then_some(Strided { axes, ..self.clone() })
    }

    /// Elements `begin, begin + stride, ...` before `end` along each axis.
    pub fn sliced(&self, begin: &[usize], end: &[usize], stride: &[usize]) -> Option<Strided> {
        let mut made = self.clone();
        for (i, atoms) in made.axes.iter_mut().enumerate() {
            let whole: usize = atoms.iter().map(|a| a.extent).product();
            let extent = (end[i] - begin[i]).div_ceil(stride[i]);
            if extent == whole {
                continue;
            }
            *atoms = joined(atoms.iter().copied());
            let [atom] = atoms.as_slice() else { return None };
            made.offset_bytes += begin[i] as u64 * atom.stride_bytes;
            let kept = Atom { extent, stride_bytes: atom.stride_bytes * stride[i] as u64 };
            *atoms = if extent == 1 { Vec::new() } else { vec![kept] };
        }
        Some(made)
    }

    /// The tensor as a view, if the DMA can read it.
    pub fn view(&self) -> Option<View> {
        let mut axes: Vec<Option<Atom>> = Vec::new();
        for atoms in &self.axes {
            match joined(atoms.iter().copied()).as_slice() {
                [] => axes.push(None),
                [atom] => axes.push(Some(*atom)),
                _ => return None,
            }
        }
        let (columns, lead) = axes.split_last()?;
        let aligned = lead.iter().flatten().all(|a| a.stride_bytes.is_multiple_of(ROW_ALIGN));
        let contiguous = columns.is_none_or(|a| a.stride_bytes == ELEMENT_BYTES);
        if !aligned || !contiguous || !self.offset_bytes.is_multiple_of(ROW_ALIGN) {
            return None;
        }
        let axis = |a: &Option<Atom>| match a {
            None => Axis { extent: 1, stride_bytes: 0 },
            Some(a) => Axis { extent: a.extent, stride_bytes: a.stride_bytes },
        };
        Some(View {
            buffer: self.buffer,
            offset_bytes: self.offset_bytes,
            lead: lead.iter().map(axis).collect(),
            width: columns.map_or(1, |a| a.extent),
        })
    }
}

/// Merges neighbouring atoms that are contiguous.
fn joined(atoms: impl Iterator<Item = Atom>) -> Vec<Atom> {
    let mut made: Vec<Atom> = Vec::new();
    for atom in atoms.filter(|a| a.extent > 1) {
        match made.last_mut() {
            Some(last) if last.stride_bytes == atom.stride_bytes * atom.extent as u64 => {
                *last = Atom { extent: last.extent * atom.extent, ..atom };
            }
            _ => made.push(atom),
        }
    }
    made
}

impl Lowerer<'_> {
    /// Views whose rows along the innermost axis are one, if a task addresses too few axes for them. Rows with padding stay apart: it is
    /// no element of the source.
    pub(super) fn rows_joined(&self, from: &View, to: &View) -> Option<(View, View)> {
        let views = [from, to];
        let at = (0..to.lead.len()).rev().find(|&i| to.lead[i].extent > 1)?;
        let row_bytes = to.width as u64 * ELEMENT_BYTES;
        let width = to.lead[at].extent * to.width;
        let wide = self.chip.hal.max_tensor_width.is_some_and(|most| width as u64 > most);
        let dense = views.iter().all(|v| v.lead[at].stride_bytes == row_bytes && v.width == to.width);
        if !dense || wide || merged_axes(&views).len() <= MOST_AXES {
            return None;
        }
        let join = |v: &View| {
            let mut lead = v.lead.clone();
            lead[at] = Axis { extent: 1, stride_bytes: 0 };
            View { lead, width, ..v.clone() }
        };
        Some((join(from), join(to)))
    }
}

/// Leading axes of views of equal extents, innermost last, each with one axis per view: neighbours are one where they are contiguous in
/// every view.
pub(super) fn merged_axes(views: &[&View]) -> Vec<Vec<Axis>> {
    let mut merged: Vec<Vec<Axis>> = Vec::new();
    for i in 0..views[0].lead.len() {
        let axes: Vec<Axis> = views.iter().map(|v| v.lead[i]).collect();
        if axes[0].extent == 1 {
            continue;
        }
        if let Some(last) = merged.last_mut()
            && last.iter().zip(&axes).all(|(a, b)| a.stride_bytes == b.stride_bytes * b.extent as u64)
        {
            for (a, b) in last.iter_mut().zip(&axes) {
                *a = Axis { extent: a.extent * b.extent, stride_bytes: b.stride_bytes };
            }
        } else {
            merged.push(axes);
        }
    }
    merged
}
