//! Translation of units to layers of the net, with their parameters.

use super::*;

impl Call<'_, '_> {
    pub(super) fn conv(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        let params = self.params()?;
        match params.string("Type")? {
            None | Some("Conv") => {}
            Some(other) => return Err(self.no_word("Type", other, &self.words("Type"))),
        }
        // A single group has no kernel to share.
        let keys = [
            "KernelHeight",
            "KernelWidth",
            "KernelDepth",
            "KernelIndex",
            "KernelOffset",
            "KernelType",
            "Step",
            "Type",
            "KernelDilationX",
            "KernelDilationY",
            "PadTop",
            "PadBot",
            "PadLeft",
            "PadRight",
            "PadFront",
            "PadBack",
            "Groups",
            "NumGroups",
        ];
        let groups = match (params.has("Groups"), params.has("NumGroups")) {
            (true, _) => params.extent("Groups", 1)?,
            (_, true) => params.extent("NumGroups", 1)?,
            _ => self.unit.dict.extent("NumGroups", 1)?,
        };
        let shares: &[&str] = if groups == 1 { &["KernelGroupReuse"] } else { &[] };
        self.understands(&[&keys, shares].concat())?;
        let rank = self.rank();
        let [_, channels, ..] = own::five(&self.ty(x).shape);
        if !(3..=5).contains(&rank) {
            return Err(self.unsupported(&format!("convolution of {rank} axes")));
        }
        if !channels.is_multiple_of(groups) {
            return Err(self.unsupported(&format!("{groups} groups of {channels} channels")));
        }
        if !self.unit.dict.has("OutputChannels") {
            return Err(self.unit.dict.missing("OutputChannels"));
        }
        let mut shape = vec![self.unit.dict.extent("OutputChannels", 1)?, channels / groups];
        shape.extend(self.spatial(&params, ["KernelWidth", "KernelHeight", "KernelDepth"], 1)?);
        let kernel = dtype(&params, "KernelType")?.ok_or_else(|| self.missing("KernelType"))?;
        let (kernel, count) = kernel_type(&params.place, kernel, shape)?;
        let tensor = match self.builder.form(&self.unit.dict, &kernel)? {
            Some(tensor) => tensor,
            None => {
                let (index, offset) = (params.size("KernelIndex", 0)?, params.size("KernelOffset", 0)?);
                let data = self.builder.weights.elements(self.unit.name, index, offset, kernel.dtype, count)?;
                Tensor { shape: kernel.shape.clone(), data }
            }
        };
        let name = self.fresh("kernel");
        let weight = self.builder.add_value(&name, kernel, Some(tensor), None);
        let mut dilations = vec![1; rank - 2];
        for (dilation, key) in dilations.iter_mut().rev().zip(["KernelDilationX", "KernelDilationY"]) {
            *dilation = params.extent(key, 1)?;
        }
        let (strides, pads) = (self.steps(&params)?, self.pads(&params)?);
        self.give(OpKind::Conv { strides, pads, dilations, groups }, &[x, weight], None)
    }

    /// Gain and offset control: scale, then bias, each one number or one per channel.
    pub(super) fn scale_and_bias(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["BiasScalar", "ScaleScalar", "BiasScaleGroupData"])?;
        let scale = self.factor("Scale", x, 1.0)?;
        let bias = self.factor("Bias", x, 0.0)?;
        match (scale, bias) {
            (None, None) => self.give(OpKind::Unary(Unary::Identity), &[x], None),
            (Some(scale), None) => self.give(OpKind::Binary(Binary::Mul), &[x, scale], None),
            (None, Some(bias)) => self.give(OpKind::Binary(Binary::Add), &[x, bias], None),
            (Some(scale), Some(bias)) => {
                let scaled = self.emit("scaled", OpKind::Binary(Binary::Mul), &[x, scale])?;
                self.give(OpKind::Binary(Binary::Add), &[scaled, bias], None)
            }
        }
    }

    /// The scale or bias of a unit as a constant; `None` if it is absent or neutral.
    fn factor(&mut self, prefix: &str, x: ValueId, neutral: f32) -> Result<Option<ValueId>, Error> {
        let Some(params) = self.params.clone() else { return Ok(None) };
        let ty = self.ty(x);
        let group = params.dict("BiasScaleGroupData")?.filter(|g| g.has(&format!("{prefix}Count")));
        let scalar = half_float(&params, &format!("{prefix}Scalar"))?;
        let data = match (scalar, group) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => return Err(self.unsupported(&format!("both a scalar and a vector {prefix}"))),
            (Some(value), None) if value == neutral => return Ok(None),
            (Some(value), None) => Data::F32(vec![value]),
            (None, Some(group)) => {
                let key = |name: &str| format!("{prefix}{name}");
                let count = group.extent(&key("Count"), 1)?;
                let [_, channels, ..] = own::five(&ty.shape);
                if count != 1 && count != channels {
                    return Err(self.unsupported(&format!("{count} elements of {prefix} for {channels} channels")));
                }
                let dtype = dtype(&group, &key("Type"))?.unwrap_or(DType::F16);
                let (index, offset) = (group.size(&key("Index"), 0)?, group.size(&key("Offset"), 0)?);
                self.builder.weights.elements(self.unit.name, index, offset, dtype, count)?
            }
        };
        let name = self.fresh(&prefix.to_lowercase());
        Ok(Some(self.builder.add_channels(&name, ty.shape.len(), ty.dtype, data)))
    }

    pub(super) fn neuron(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        let params = self.params()?;
        let name = params.string("Type")?.ok_or_else(|| self.missing("Type"))?;
        let (keys, unary): (&[&str], Unary) = match name {
            "ReLU" => (&[], Unary::Relu),
            "Sigmoid" | "SigmoidHighPrecision" => (&[], Unary::Sigmoid),
            "Tanh" => (&[], Unary::Tanh),
            "Sign" => (&[], Unary::Sign),
            "GELU" => (&[], Unary::Gelu(GeluMode::Exact)),
            "Sqrt" => (&[], Unary::Sqrt),
            "Rsqrt" => (&[], Unary::Rsqrt { epsilon: 0.0 }),
            "Inv" => (&[], Unary::Inverse { epsilon: 0.0 }),
            "Exp2" => (&[], Unary::Exp2),
            "Log2" => (&[], Unary::Log2),
            "Sin" => (&[], Unary::Sin),
            "Cos" => (&[], Unary::Cos),
            "Ceil" => (&[], Unary::Ceil),
            "Floor" => (&[], Unary::Floor),
            "RoundNearest" => (&[], Unary::Round),
            "ELU" => {
                let alpha = half_float(&params, "EluAlpha")?.ok_or_else(|| self.missing("EluAlpha"))?;
                (&["EluAlpha"], Unary::Elu { alpha })
            }
            "LeakyReLU" => {
                let alpha = half_float(&params, "ReluSlope")?.ok_or_else(|| self.missing("ReluSlope"))?;
                if half_float(&params, "ReluOffset")?.is_some_and(|offset| offset != 0.0) {
                    return Err(self.unsupported("parameter `ReluOffset` other than 0"));
                }
                (&["ReluSlope", "ReluOffset"], Unary::LeakyRelu { alpha })
            }
            "ClampedReLU" => {
                let min = half_float(&params, "ReluMin")?.ok_or_else(|| self.missing("ReluMin"))?;
                let max = half_float(&params, "ReluMax")?.ok_or_else(|| self.missing("ReluMax"))?;
                (&["ReluMin", "ReluMax"], Unary::Clip { min, max })
            }
            "CustomLUT" | "Custom" | "NeuronCustom" => return Err(self.unsupported(CLOSED_TABLE)),
            other => return Err(self.no_word("Type", other, NEURONS)),
        };
        self.understands(&[&["Type"], keys].concat())?;
        self.give(OpKind::Unary(unary), &[x], None)
    }

    pub(super) fn elementwise(&mut self) -> Result<ValueId, Error> {
        let params = self.params()?;
        self.understands(&["Type", "Scale"])?;
        let name = params.string("Type")?.ok_or_else(|| self.missing("Type"))?;
        let unary = match name {
            "Abs" => Some(Unary::Abs),
            _ => None,
        };
        let kind = match (unary, name) {
            (Some(unary), _) => OpKind::Unary(unary),
            (None, "Add") => OpKind::Binary(Binary::Add),
            (None, "Sub") => OpKind::Binary(Binary::Sub),
            (None, "Mult") => OpKind::Binary(Binary::Mul),
            (None, "Max") => OpKind::Binary(Binary::Max),
            (None, "Min") => OpKind::Binary(Binary::Min),
            (None, "GreaterThan") => OpKind::Binary(Binary::Greater),
            (None, "LessThan") => OpKind::Binary(Binary::Less),
            (None, "Equal") => OpKind::Binary(Binary::Equal),
            (None, "NotEqual") => OpKind::Binary(Binary::NotEqual),
            (None, other) => return Err(self.no_word("Type", other, &self.words("Type"))),
        };
        let inputs = self.inputs.clone();
        match half_float(&params, "Scale")?.filter(|&scale| scale != 1.0) {
            None => self.give(kind, &inputs, None),
            Some(scale) => {
                let computed = self.emit("unscaled", kind, &inputs)?;
                let name = self.fresh("scale");
                let ty = self.ty(computed);
                let scale = self.builder.add_channels(&name, ty.shape.len(), ty.dtype, Data::F32(vec![scale]));
                self.give(OpKind::Binary(Binary::Mul), &[computed, scale], None)
            }
        }
    }

    pub(super) fn broadcast(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["BroadcastInfo"])?;
        let params = self.params()?;
        let mut ty = self.ty(x);
        for info in params.array("BroadcastInfo")?.ok_or_else(|| self.missing("BroadcastInfo"))? {
            let info = Dict::new(info, &params.place, "BroadcastInfo")?;
            let name =
                info.string("Dimension")?.ok_or_else(|| self.entry_lacks(&info, "BroadcastInfo", "Dimension"))?;
            if !info.has("Size") {
                return Err(self.entry_lacks(&info, "BroadcastInfo", "Size"));
            }
            // Values without depth have a depth of one, the only size that is possible then.
            if let Some(axis) = self.axis(name)? {
                ty.shape[axis] = info.extent("Size", 1)?;
            }
        }
        self.give(OpKind::Broadcast, &[x], Some(ty))
    }

    pub(super) fn reshape(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["ReshapedBatch", "ReshapedChannel", "ReshapedDepth", "ReshapedHeight", "ReshapedWidth"])?;
        let params = self.params()?;
        let ty = self.ty(x);
        if let Some(shape) = super::super::own::stated(&self.unit.dict)? {
            return self.give(OpKind::Reshape, &[x], Some(TensorType { dtype: ty.dtype, shape }));
        }
        let mut shape = vec![params.extent("ReshapedBatch", 1)?, params.extent("ReshapedChannel", 1)?];
        if self.builder.deep {
            shape.push(params.extent("ReshapedDepth", 1)?);
            if shape[2] > 1 || own::five(&ty.shape)[2] > 1 {
                return Err(self.unsupported("a depth above one: the order of its elements is not known"));
            }
        }
        shape.extend([params.extent("ReshapedHeight", 1)?, params.extent("ReshapedWidth", 1)?]);
        self.give(OpKind::Reshape, &[x], Some(TensorType { dtype: ty.dtype, shape }))
    }

    /// A slice of one axis.
    pub(super) fn view(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["Dimension", "Offset", "Size", "Step"])?;
        let params = self.params()?;
        let axis = self.dimension("Dimension")?.ok_or_else(|| self.missing("Dimension"))?;
        let shape = self.ty(x).shape;
        let step = params.extent("Step", 1)?;
        if !params.has("Size") {
            return Err(self.missing("Size"));
        }
        let (mut begin, mut end, mut stride) = (vec![0; shape.len()], shape.clone(), vec![1; shape.len()]);
        begin[axis] = params.size("Offset", 0)?;
        end[axis] = begin[axis].saturating_add((params.extent("Size", 1)? - 1).saturating_mul(step)).saturating_add(1);
        stride[axis] = step;
        self.give(OpKind::Slice { begin, end, stride }, &[x], None)
    }

    pub(super) fn reduction(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["Dimension", "Type"])?;
        let params = self.params()?;
        let kind = match params.string("Type")?.ok_or_else(|| self.missing("Type"))? {
            "Sum" => ReduceKind::Sum,
            "Avg" => ReduceKind::Mean,
            "Max" => ReduceKind::Max,
            "Min" => ReduceKind::Min,
            other => return Err(self.no_word("Type", other, &self.words("Type"))),
        };
        let names = params.strings("Dimension")?.ok_or_else(|| self.missing("Dimension"))?;
        let axes = names.into_iter().map(|name| self.axis(name)).collect::<Result<Vec<_>, _>>()?;
        let mut axes: Vec<usize> = axes.into_iter().flatten().collect();
        axes.sort_unstable();
        axes.dedup();
        let stated = super::super::own::stated(&self.unit.dict)?;
        let keep_dims = stated.is_none_or(|shape| shape.len() == self.rank());
        self.give(OpKind::Reduce { kind, axes, keep_dims }, &[x], None)
    }

    pub(super) fn pooling(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        let params = self.params()?;
        self.understands(&[
            "KernelHeight",
            "KernelWidth",
            "KernelDepth",
            "Step",
            "Type",
            "AverageCountExcludePadding",
            "PadTop",
            "PadBot",
            "PadLeft",
            "PadRight",
            "PadFront",
            "PadBack",
            "PaddingMode",
        ])?;
        let pads = self.pads(&params)?;
        let padded = pads.iter().any(|&p| p != (0, 0));
        let kind = match params.string("Type")?.ok_or_else(|| self.missing("Type"))? {
            "Max" => PoolKind::Max,
            "Avg" => PoolKind::Average { exclude_padding: params.flag("AverageCountExcludePadding")? },
            other => return Err(self.no_word("Type", other, &self.words("Type"))),
        };
        // The padding value matters only if there is padding: zeros for means, minus infinity for maxima.
        let expected = if kind == PoolKind::Max { "Negative" } else { "Zero" };
        if padded && params.string("PaddingMode")?.is_some_and(|mode| mode != expected) {
            return Err(self.unsupported(&format!("`PaddingMode` other than {expected}")));
        }
        let kernel = self.spatial(&params, ["KernelWidth", "KernelHeight", "KernelDepth"], 1)?;
        let strides = self.steps(&params)?;
        self.give(OpKind::Pool { kind, kernel, strides, pads, ceil_mode: false }, &[x], None)
    }

    pub(super) fn transpose(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["TransposeDimensions"])?;
        let params = self.params()?;
        let mut perm: Vec<usize> = (0..self.ty(x).shape.len()).collect();
        for pair in params.array("TransposeDimensions")?.ok_or_else(|| self.missing("TransposeDimensions"))? {
            let pair = Dict::new(pair, &params.place, "TransposeDimensions")?;
            let lacks = |key| self.entry_lacks(&pair, "TransposeDimensions", key);
            let axis = |key| self.axis(pair.string(key)?.ok_or_else(|| lacks(key))?);
            if let (Some(to), Some(from)) = (axis("TransposeDestinationDimension")?, axis("TransposeSourceDimension")?)
            {
                perm[to] = from;
            }
        }
        self.give(OpKind::Transpose { perm }, &[x], None)
    }
}

/// An fp16 number given as the integer of its bits.
fn half_float(params: &Dict, key: &str) -> Result<Option<f32>, Error> {
    let Some(found) = params.integer(key)? else { return Ok(None) };
    // Patterns with the sign bit set may be written as negative 16-bit numbers.
    let (least, most) = (i64::from(i16::MIN), i64::from(u16::MAX));
    if !(least..=most).contains(&found) {
        return Err(Error::OutOfRange { place: params.place.clone(), key: key.to_string(), found, least, most });
    }
    Ok(Some(f16::from_bits(found as u16).to_f32()))
}

/// Type and number of elements of a kernel, within the bounds of any tensor.
fn kernel_type(place: &str, dtype: DType, shape: Vec<usize>) -> Result<(TensorType, usize), Error> {
    let ty = TensorType { dtype, shape };
    sized(&ty, || place.to_string())?;
    let count = elements(&ty.shape);
    Ok((ty, count))
}
