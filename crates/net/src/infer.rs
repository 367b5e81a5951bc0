//! Type inference: result types from operand types, for [`crate::check`] and for frontends.

mod spatial;

pub(crate) use spatial::windows;

use crate::error::Error;
use crate::graph::{DType, MAX_ELEMENTS, MAX_RANK, TensorType};
use crate::ops::{Binary, EdgeMode, OpKind, ScatterMode, Unary};

/// Result types of an operation on operands of these types.
///
/// `declared` is the result type the model states. [`OpKind::Reshape`], [`OpKind::Broadcast`] and [`OpKind::Resize`]
/// take their extents from it, [`OpKind::Cast`] its element type, and give [`Error::NotDeclared`] without; all others
/// ignore it.
///
/// Errors name the operation, the operand and the numbers that do not fit. Extents of zero and results of more than
/// [`MAX_ELEMENTS`] elements are errors.
pub fn infer(kind: &OpKind, inputs: &[&TensorType], declared: Option<&TensorType>) -> Result<Vec<TensorType>, Error> {
    let name = kind.name();
    let (least, most) = arity(kind);
    if inputs.len() < least || inputs.len() > most {
        return Err(Error::Arity { kind: name.to_string(), found: inputs.len(), least, most });
    }
    for (operand, input) in inputs.iter().enumerate() {
        sized(input, || format!("{name}: operand {operand}"))?;
    }
    if let OpKind::Loop(l) = kind {
        let results = l.types(inputs)?;
        results.iter().try_for_each(|ty| sized(ty, || format!("{name}: result")))?;
        return Ok(results);
    }
    let result = Infer { name, inputs }.result(kind, declared)?;
    sized(&result, || format!("{name}: result"))?;
    Ok(vec![result])
}

/// As [`infer`] for one result, with extents of zero.
pub(crate) fn infer_open(kind: &OpKind, inputs: &[&TensorType], declared: Option<&TensorType>) -> Option<TensorType> {
    let (least, most) = arity(kind);
    let fits = (least..=most).contains(&inputs.len());
    fits.then(|| Infer { name: kind.name(), inputs }.result(kind, declared).ok()).flatten()
}

/// Least and greatest number of operands.
pub fn arity(kind: &OpKind) -> (usize, usize) {
    match kind {
        OpKind::Conv { .. } | OpKind::ConvTranspose { .. } | OpKind::Linear => (2, 3),
        OpKind::MatMul { .. } | OpKind::Combine | OpKind::Binary(_) | OpKind::Gather { .. } => (2, 2),
        OpKind::GatherAlong { .. } | OpKind::GatherNd { .. } | OpKind::Sample { .. } => (2, 2),
        OpKind::Suppress { .. } => (2, 3),
        OpKind::Select | OpKind::ScatterAlong { .. } | OpKind::ScatterNd { .. } => (3, 3),
        OpKind::Concat { .. } | OpKind::Loop(_) => (1, usize::MAX),
        OpKind::BatchNorm { .. } => (3, 5),
        OpKind::LayerNorm { .. } | OpKind::InstanceNorm { .. } => (1, 3),
        OpKind::Native(native) => (native.schema().least, native.schema().most),
        _ => (1, 1),
    }
}

/// Refuses zero extents, too high ranks and too many elements.
pub(crate) fn sized(ty: &TensorType, what: impl Fn() -> String) -> Result<(), Error> {
    if ty.shape.len() > MAX_RANK {
        let (found, most) = (ty.shape.len() as u64, MAX_RANK as u64);
        return Err(Error::Attribute { kind: "type", what: "rank", found, least: 0, most }.in_op(&what()));
    }
    if let Some(axis) = ty.shape.iter().position(|&d| d == 0) {
        return Err(Error::Empty { what: what(), axis });
    }
    if ty.elements() > MAX_ELEMENTS {
        let (shape, elements) = (ty.shape.clone(), ty.elements());
        return Err(Error::TooLarge { what: what(), shape, elements, limit: MAX_ELEMENTS });
    }
    Ok(())
}

/// Common extents of operands under numpy's rule: aligned at the last axis, extents equal or one.
pub(crate) fn broadcast(kind: &'static str, x: &[usize], y: &[usize]) -> Result<Vec<usize>, Error> {
    let rank = x.len().max(y.len());
    let at = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    (0..rank)
        .map(|axis| match (at(x, axis), at(y, axis)) {
            (a, b) if a == b => Ok(a),
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            _ => Err(Error::Broadcast { kind, x: x.to_vec(), y: y.to_vec() }),
        })
        .collect()
}

struct Infer<'a> {
    name: &'static str,
    inputs: &'a [&'a TensorType],
}

impl Infer<'_> {
    fn result(&self, kind: &OpKind, declared: Option<&TensorType>) -> Result<TensorType, Error> {
        let x = self.inputs[0];
        let same = |shape: Vec<usize>| TensorType { dtype: x.dtype, shape };
        Ok(match kind {
            OpKind::Conv { strides, pads, dilations, groups } => same(self.conv(strides, pads, dilations, *groups)?),
            OpKind::ConvTranspose { strides, pads, output_pads, dilations, groups } => {
                same(self.conv_transpose(strides, pads, output_pads, dilations, *groups)?)
            }
            OpKind::MatMul { transpose_x, transpose_y } => same(self.matmul(*transpose_x, *transpose_y)?),
            OpKind::Linear | OpKind::Combine => same(self.linear()?),
            OpKind::Unary(unary) => self.unary(unary)?,
            OpKind::Binary(binary) => self.binary(*binary)?,
            OpKind::Select => self.select()?,
            OpKind::Pool { kernel, strides, pads, ceil_mode, .. } => {
                same(self.pool(kernel, strides, pads, *ceil_mode)?)
            }
            OpKind::Reduce { axes, keep_dims, .. } => same(self.reduce(axes, *keep_dims)?),
            OpKind::Softmax { axis } => {
                self.float(0)?;
                self.axis(*axis, x.shape.len())?;
                x.clone()
            }
            OpKind::Concat { axis } => same(self.concat(*axis)?),
            OpKind::Reshape => {
                let to = self.declared(declared)?;
                let (found, expected) = (x.elements(), to.elements());
                if found != expected {
                    return Err(Error::ElementCount { kind: self.name, found, expected });
                }
                same(to.shape.clone())
            }
            OpKind::Broadcast => {
                let to = self.declared(declared)?;
                if broadcast(self.name, &x.shape, &to.shape)? != to.shape {
                    return Err(Error::Broadcast { kind: self.name, x: x.shape.clone(), y: to.shape.clone() });
                }
                same(to.shape.clone())
            }
            OpKind::Native(native) => crate::native::result(native, self.inputs)?,
            OpKind::Loop(l) => l.types(self.inputs)?.swap_remove(0),
            OpKind::Transpose { perm } => same(self.transpose(perm)?),
            OpKind::Slice { begin, end, stride } => same(self.slice(begin, end, stride)?),
            OpKind::Gather { axis } => same(self.gather(*axis)?),
            OpKind::GatherAlong { axis } => same(self.along(*axis)?),
            OpKind::GatherNd { batch_dims } => same(self.gather_nd(*batch_dims)?),
            OpKind::ScatterAlong { axis, mode } => {
                let updates = self.along(*axis)?;
                self.updates(&updates, *mode)?
            }
            OpKind::ScatterNd { mode } => {
                let updates = self.gather_nd(0)?;
                self.updates(&updates, *mode)?
            }
            OpKind::ArgReduce { axis, keep_dims, .. } => {
                TensorType { dtype: DType::I32, shape: self.reduce(&[*axis], *keep_dims)? }
            }
            OpKind::ArgSort { axis, .. } => {
                self.axis(*axis, x.shape.len())?;
                TensorType { dtype: DType::I32, shape: x.shape.clone() }
            }
            OpKind::Suppress { most, .. } => self.suppress(*most)?,
            OpKind::Sample { .. } => same(self.sample()?),
            OpKind::BatchNorm { .. } => {
                self.float(0)?;
                self.rank(0, 2, MAX_RANK)?;
                self.parameters(&x.shape[1..2])?;
                x.clone()
            }
            OpKind::InstanceNorm { .. } => {
                self.float(0)?;
                self.rank(0, 3, MAX_RANK)?;
                self.parameters(&x.shape[1..2])?;
                x.clone()
            }
            OpKind::LayerNorm { axes, .. } => {
                self.float(0)?;
                self.axes(axes, x.shape.len())?;
                let shape: Vec<usize> = axes.iter().map(|&a| x.shape[a]).collect();
                self.parameters(&shape)?;
                x.clone()
            }
            OpKind::Pad { pads, .. } => same(self.pad(pads, None)?),
            OpKind::PadEdge { pads, mode } => same(self.pad(pads, Some(*mode))?),
            OpKind::Resize { .. } => {
                let to = self.declared(declared)?;
                self.float(0)?;
                self.rank(0, to.shape.len(), to.shape.len())?;
                same(to.shape.clone())
            }
            OpKind::Cast => TensorType { dtype: self.declared(declared)?.dtype, shape: x.shape.clone() },
        })
    }

    fn declared<'d>(&self, declared: Option<&'d TensorType>) -> Result<&'d TensorType, Error> {
        declared.ok_or(Error::NotDeclared { kind: self.name })
    }

    fn rank(&self, operand: usize, least: usize, most: usize) -> Result<usize, Error> {
        let found = self.inputs[operand].shape.len();
        if found < least || found > most {
            return Err(Error::Rank { kind: self.name, operand, found, least, most });
        }
        Ok(found)
    }

    fn extent(&self, operand: usize, axis: usize, expected: usize) -> Result<(), Error> {
        let found = self.inputs[operand].shape[axis];
        if found != expected {
            return Err(Error::Extent { kind: self.name, operand, axis, found, expected });
        }
        Ok(())
    }

    fn float(&self, operand: usize) -> Result<(), Error> {
        let found = self.inputs[operand].dtype;
        if !found.is_float() {
            return Err(Error::ElementType { kind: self.name, operand, found, expected: "f16 or f32" });
        }
        Ok(())
    }

    fn number(&self, operand: usize) -> Result<(), Error> {
        let found = self.inputs[operand].dtype;
        if found == DType::Bool {
            return Err(Error::ElementType { kind: self.name, operand, found, expected: "numbers" });
        }
        Ok(())
    }

    /// Requires the operand to have the element type of operand `like`.
    fn alike(&self, operand: usize, like: usize) -> Result<(), Error> {
        let (found, expected) = (self.inputs[operand].dtype, self.inputs[like].dtype.name());
        if found.name() != expected {
            return Err(Error::ElementType { kind: self.name, operand, found, expected });
        }
        Ok(())
    }

    fn length(&self, what: &'static str, found: usize, expected: usize) -> Result<(), Error> {
        if found != expected {
            return Err(Error::AttributeLength { kind: self.name, what, found, expected });
        }
        Ok(())
    }

    fn between(&self, what: &'static str, found: usize, least: usize, most: usize) -> Result<(), Error> {
        if found < least || found > most {
            let (found, least, most) = (found as u64, least as u64, most as u64);
            return Err(Error::Attribute { kind: self.name, what, found, least, most });
        }
        Ok(())
    }

    /// Places of the boxes that stay, for each picture.
    fn suppress(&self, most: usize) -> Result<TensorType, Error> {
        self.float(0)?;
        self.rank(0, 3, 3)?;
        self.rank(1, 3, 3)?;
        self.extent(0, 2, 4)?;
        let extents = [self.inputs[0].shape[0], self.inputs[0].shape[1]];
        self.extent(1, 0, extents[0])?;
        self.extent(1, 1, extents[1])?;
        if self.inputs.len() > 2 {
            self.float(2)?;
            self.rank(2, 1, 1)?;
            self.extent(2, 0, 1)?;
        }
        self.between("most", most, 1, u32::MAX as usize)?;
        Ok(TensorType { dtype: DType::I32, shape: vec![extents[0], most] })
    }

    fn axis(&self, axis: usize, rank: usize) -> Result<(), Error> {
        if rank == 0 {
            return Err(Error::Rank { kind: self.name, operand: 0, found: 0, least: 1, most: MAX_RANK });
        }
        self.between("axis", axis, 0, rank - 1)
    }

    /// Requires sorted axes without repetition.
    fn axes(&self, axes: &[usize], rank: usize) -> Result<(), Error> {
        let mut least = 0;
        for &axis in axes {
            self.axis(axis, rank)?;
            self.between("axis", axis, least, rank - 1)?;
            least = axis + 1;
        }
        Ok(())
    }

    /// Requires every operand after the first to have this shape.
    fn parameters(&self, shape: &[usize]) -> Result<(), Error> {
        for operand in 1..self.inputs.len() {
            self.float(operand)?;
            self.rank(operand, shape.len(), shape.len())?;
            for (axis, &extent) in shape.iter().enumerate() {
                self.extent(operand, axis, extent)?;
            }
        }
        Ok(())
    }

    fn matmul(&self, transpose_x: bool, transpose_y: bool) -> Result<Vec<usize>, Error> {
        let (x, y) = (self.inputs[0], self.inputs[1]);
        let (rx, ry) = (self.rank(0, 2, MAX_RANK)?, self.rank(1, 2, MAX_RANK)?);
        self.number(0)?;
        self.alike(1, 0)?;
        let (m, k) = (x.shape[rx - 2], x.shape[rx - 1]);
        let (m, k) = if transpose_x { (k, m) } else { (m, k) };
        let (inner, n) = if transpose_y { (ry - 1, ry - 2) } else { (ry - 2, ry - 1) };
        self.extent(1, inner, k)?;
        let mut shape = broadcast(self.name, &x.shape[..rx - 2], &y.shape[..ry - 2])?;
        shape.extend([m, y.shape[n]]);
        Ok(shape)
    }

    fn linear(&self) -> Result<Vec<usize>, Error> {
        let (x, w) = (self.inputs[0], self.inputs[1]);
        let rank = self.rank(0, 1, MAX_RANK)?;
        self.rank(1, 2, 2)?;
        self.number(0)?;
        self.number(1)?;
        self.extent(1, 1, x.shape[rank - 1])?;
        self.bias(w.shape[0])?;
        let mut shape = x.shape.clone();
        shape[rank - 1] = w.shape[0];
        Ok(shape)
    }

    fn unary(&self, unary: &Unary) -> Result<TensorType, Error> {
        if *unary != Unary::Identity {
            if unary.takes_integers() { self.number(0)? } else { self.float(0)? }
        }
        Ok(self.inputs[0].clone())
    }

    fn binary(&self, binary: Binary) -> Result<TensorType, Error> {
        let (x, y) = (self.inputs[0], self.inputs[1]);
        // Minimum and maximum of truth values are "and" and "or".
        if !matches!(binary, Binary::Max | Binary::Min | Binary::Equal | Binary::NotEqual) {
            self.number(0)?;
        }
        if binary.is_of_bits() && self.inputs[0].dtype.is_float() {
            let found = self.inputs[0].dtype;
            return Err(Error::ElementType { kind: self.name, operand: 0, found, expected: "integers" });
        }
        self.alike(1, 0)?;
        let dtype = if binary.is_comparison() { DType::Bool } else { x.dtype };
        Ok(TensorType { dtype, shape: broadcast(self.name, &x.shape, &y.shape)? })
    }

    fn select(&self) -> Result<TensorType, Error> {
        let (condition, x, y) = (self.inputs[0], self.inputs[1], self.inputs[2]);
        if condition.dtype != DType::Bool {
            let found = condition.dtype;
            return Err(Error::ElementType { kind: self.name, operand: 0, found, expected: "bool" });
        }
        self.alike(2, 1)?;
        let shape = broadcast(self.name, &x.shape, &y.shape)?;
        Ok(TensorType { dtype: x.dtype, shape: broadcast(self.name, &condition.shape, &shape)? })
    }

    fn reduce(&self, axes: &[usize], keep_dims: bool) -> Result<Vec<usize>, Error> {
        let x = self.inputs[0];
        self.number(0)?;
        self.axes(axes, x.shape.len())?;
        let kept = x.shape.iter().enumerate().filter_map(|(axis, &extent)| match axes.contains(&axis) {
            false => Some(extent),
            true if keep_dims => Some(1),
            true => None,
        });
        Ok(kept.collect())
    }

    fn concat(&self, axis: usize) -> Result<Vec<usize>, Error> {
        let x = self.inputs[0];
        self.axis(axis, x.shape.len())?;
        let mut shape = x.shape.clone();
        for (operand, input) in self.inputs.iter().enumerate().skip(1) {
            self.rank(operand, shape.len(), shape.len())?;
            self.alike(operand, 0)?;
            for other in (0..shape.len()).filter(|&a| a != axis) {
                self.extent(operand, other, shape[other])?;
            }
            shape[axis] = shape[axis].saturating_add(input.shape[axis]);
        }
        Ok(shape)
    }

    fn transpose(&self, perm: &[usize]) -> Result<Vec<usize>, Error> {
        let x = self.inputs[0];
        self.length("perm", perm.len(), x.shape.len())?;
        let mut seen = [false; MAX_RANK];
        for &axis in perm {
            self.axis(axis, x.shape.len())?;
            if std::mem::replace(&mut seen[axis], true) {
                let (found, limit) = (axis as u64, x.shape.len() as u64 - 1);
                return Err(Error::Attribute {
                    kind: self.name,
                    what: "repeated axis in perm",
                    found,
                    least: 0,
                    most: limit,
                });
            }
        }
        Ok(perm.iter().map(|&axis| x.shape[axis]).collect())
    }

    fn slice(&self, begin: &[usize], end: &[usize], stride: &[usize]) -> Result<Vec<usize>, Error> {
        let x = self.inputs[0];
        let rank = x.shape.len();
        self.length("begin", begin.len(), rank)?;
        self.length("end", end.len(), rank)?;
        self.length("stride", stride.len(), rank)?;
        (0..rank)
            .map(|i| {
                self.between("end", end[i], 1, x.shape[i])?;
                self.between("begin", begin[i], 0, end[i] - 1)?;
                self.between("stride", stride[i], 1, MAX_ELEMENTS)?;
                Ok((end[i] - begin[i]).div_ceil(stride[i]))
            })
            .collect()
    }

    fn indices(&self) -> Result<&TensorType, Error> {
        let found = self.inputs[1].dtype;
        if !found.is_integer() {
            return Err(Error::ElementType { kind: self.name, operand: 1, found, expected: "integers" });
        }
        Ok(self.inputs[1])
    }

    /// Extents of elements that indices along one axis name.
    fn along(&self, axis: usize) -> Result<Vec<usize>, Error> {
        let (x, indices) = (self.inputs[0], self.indices()?);
        self.axis(axis, x.shape.len())?;
        self.rank(1, x.shape.len(), x.shape.len())?;
        for other in (0..x.shape.len()).filter(|&a| a != axis) {
            // Fewer along another axis leave the rest of it alone.
            self.between("extent of indices", indices.shape[other], 1, x.shape[other])?;
        }
        Ok(indices.shape.clone())
    }

    /// Extents of elements that lists of positions name.
    fn gather_nd(&self, batch_dims: usize) -> Result<Vec<usize>, Error> {
        let (x, indices) = (self.inputs[0], self.indices()?);
        let rank = self.rank(1, 1, MAX_RANK)?;
        self.between("batch_dims", batch_dims, 0, (rank - 1).min(x.shape.len()))?;
        let depth = indices.shape[rank - 1];
        self.between("positions of an index", depth, 1, x.shape.len() - batch_dims)?;
        for axis in 0..batch_dims {
            self.extent(1, axis, x.shape[axis])?;
        }
        Ok([&indices.shape[..rank - 1], &x.shape[batch_dims + depth..]].concat())
    }

    /// Requires updates of these extents; the result is as the first operand.
    fn updates(&self, shape: &[usize], mode: ScatterMode) -> Result<TensorType, Error> {
        if mode != ScatterMode::Update {
            self.number(0)?;
        }
        self.alike(2, 0)?;
        self.rank(2, shape.len(), shape.len())?;
        for (axis, &extent) in shape.iter().enumerate() {
            self.extent(2, axis, extent)?;
        }
        Ok(self.inputs[0].clone())
    }

    fn sample(&self) -> Result<Vec<usize>, Error> {
        let (x, coordinates) = (self.inputs[0], self.inputs[1]);
        self.float(0)?;
        self.float(1)?;
        self.rank(0, 4, 4)?;
        self.rank(1, 4, 4)?;
        self.extent(1, 0, x.shape[0])?;
        self.extent(1, 3, 2)?;
        Ok(vec![x.shape[0], x.shape[1], coordinates.shape[1], coordinates.shape[2]])
    }

    fn gather(&self, axis: usize) -> Result<Vec<usize>, Error> {
        let (x, indices) = (self.inputs[0], self.indices()?);
        self.axis(axis, x.shape.len())?;
        Ok([&x.shape[..axis], &indices.shape, &x.shape[axis + 1..]].concat())
    }

    fn pad(&self, pads: &[(usize, usize)], edge: Option<EdgeMode>) -> Result<Vec<usize>, Error> {
        let x = self.inputs[0];
        self.length("pads", pads.len(), x.shape.len())?;
        if edge.is_some() {
            self.number(0)?;
        }
        pads.iter()
            .zip(&x.shape)
            .map(|(&(before, after), &extent)| {
                let most = if edge == Some(EdgeMode::Reflect) { extent - 1 } else { MAX_ELEMENTS };
                self.between("pads", before, 0, most)?;
                self.between("pads", after, 0, most)?;
                Ok(extent + before + after)
            })
            .collect()
    }
}
