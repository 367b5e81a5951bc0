//! Translation of each kind of unit.

use super::{Builder, Unit, dtype};
use crate::error::Error;
use crate::graph::{DType, Data, Tensor, TensorType, ValueId, elements};
use crate::infer::sized;
use crate::native::{KeyType, NEURONS, Named, Native, Schema, named};
use crate::netplist::own;
use crate::ops::{Binary, GeluMode, OpKind, PoolKind, ReduceKind, Unary};
use crate::read::property::{Dict, wrong};
use half::f16;

/// Keys of a unit that carry no meaning of their own: names, and types of operands that the operands have anyway.
const PLAIN_KEYS: [&str; 13] = [
    own::FORM,
    own::OPERATION,
    own::SHAPE,
    "Bottom",
    "InputType",
    "Name",
    "NumGroups",
    "OutputChannels",
    "OutputType",
    "Params",
    "Type",
    "UnescapedBottom",
    "UnescapedName",
];

/// Parameters that say the default in so many words; any other value is refused.
const DEFAULTS: [(&str, &str); 8] = [
    ("KernelMode", "Dense"),
    ("PaddingMode", "Zero"),
    ("KernelGroupReuse", "false"),
    ("KernelMutable", "false"),
    ("BiasMutable", "false"),
    ("ScaleMutable", "false"),
    ("BiasShift", "0"),
    ("ScaleShift", "0"),
];

/// Layers whose validator asks for a float output.
const FLOAT_OUTPUT: [&str; 2] = ["LayerNormalization", "Softmax"];

/// Why a table of one's own has no unit: the chapter on the compiler gives the reason.
const CLOSED_TABLE: &str = "a table of one's own has no unit that compiles: its 33 knots are no parameter of any parser, and the \
    table's place in a program is written by the compiler alone; `ane lut FILE.npy --compose PACKAGE` makes any 33 knots \
    from linear, relu and linear";

/// One unit being translated.
struct Call<'b, 'a> {
    builder: &'b mut Builder<'a>,
    unit: &'b Unit<'a>,
    /// Name of the result.
    result: &'b str,
    inputs: Vec<ValueId>,
    params: Option<Dict<'a>>,
}

impl<'a> Builder<'a> {
    /// Adds the operations of a unit; its result is named `result`.
    pub(super) fn unit(&mut self, unit: &Unit<'a>, result: &str) -> Result<(), Error> {
        let place = &unit.dict.place;
        let unknown = |name: &str| Error::UnknownName { place: place.clone(), name: name.to_string() };
        let inputs = unit.bottoms.iter().map(|b| self.values.get(*b).copied().ok_or_else(|| unknown(b)));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        if let Some(key) = unit.dict.keys().find(|key| !PLAIN_KEYS.contains(key)) {
            self.notes.push(format!("{place}: `{key}` is not read"));
        }
        let params = unit.dict.dict("Params")?;
        let mut call = Call { builder: self, unit, result, inputs, params };
        let id = call.translate().map_err(|e| call.of_params(e))?;
        call.states_channels(id)?;
        if self.values.insert(unit.name.to_string(), id).is_some() {
            return Err(Error::DefinedTwice { op: place.clone(), value: unit.name.to_string() });
        }
        Ok(())
    }
}

impl<'a> Call<'_, 'a> {
    fn translate(&mut self) -> Result<ValueId, Error> {
        if let Some(id) = self.own_operation()? {
            return Ok(id);
        }
        match self.unit.kind {
            "Conv" | "Linear" => self.conv(),
            "GOC" => self.scale_and_bias(),
            "Neuron" => self.neuron(),
            "ScaledElementWise" | "ElementWise" => self.elementwise(),
            "Concat" => {
                self.understands(&["Dimension"])?;
                let axis = self.dimension("Dimension")?.unwrap_or(usize::from(self.rank() > 1));
                let inputs = self.inputs.clone();
                self.give(OpKind::Concat { axis }, &inputs, None)
            }
            "Broadcast" => self.broadcast(),
            "Reshape" => self.reshape(),
            "InputView" => self.view(),
            // Conversion alone gives them; no data moves.
            "TensorToTensorBuffer" | "TensorBufferToTensor" => {
                // With a state as its second operand it writes the state, which the network's list then takes.
                let x = match *self.inputs.as_slice() {
                    [x, state] if self.unit.written_state().is_some() && self.ty(state) == self.ty(x) => x,
                    _ => self.one()?,
                };
                self.give(OpKind::Unary(Unary::Identity), &[x], None)
            }
            "Softmax" => {
                self.understands(&["Dimension"])?;
                let axis = self.dimension("Dimension")?.ok_or_else(|| self.missing("Dimension"))?;
                let x = self.one()?;
                self.give(OpKind::Softmax { axis }, &[x], None)
            }
            "Reduction" => self.reduction(),
            "Pooling" => self.pooling(),
            "Transpose" => self.transpose(),
            tag => match Schema::of_tag(tag) {
                Some(schema) => self.native(schema),
                None => Err(self.unsupported("no translation for this kind of unit")),
            },
        }
    }

    /// The operation that a key of our own states.
    fn own_operation(&mut self) -> Result<Option<ValueId>, Error> {
        let Some(dict) = self.unit.dict.value(own::OPERATION) else { return Ok(None) };
        let place = &self.unit.dict.place;
        let entry = dict.as_dictionary().ok_or_else(|| wrong(place, own::OPERATION, dict, "a dictionary"))?;
        let kind = own::read_operation(entry)
            .map_err(|reason| Error::Syntax { place: format!("{place}, `{}`", own::OPERATION), reason })?;
        let wanted = dtype(&self.unit.dict, "OutputType")?.ok_or_else(|| self.unit.dict.missing("OutputType"))?;
        let shape = super::own::stated(&self.unit.dict)?;
        let declared = shape.map(|shape| TensorType { dtype: wanted, shape });
        let inputs = self.inputs.clone();
        self.give(kind, &inputs, declared).map(Some)
    }

    /// A native layer, its parameters as they are.
    fn native(&mut self, schema: &'static Schema) -> Result<ValueId, Error> {
        let given = self.params.as_ref().map_or_else(Vec::new, Dict::raw);
        let native = Native::read_unit(schema, self.unit.name, &given)?;
        let inputs = self.inputs.clone();
        self.give(OpKind::Native(Box::new(native)), &inputs, None)
    }

    /// Refuses a unit that states other channels than its result has.
    fn states_channels(&self, id: ValueId) -> Result<(), Error> {
        let dict = &self.unit.dict;
        let [_, channels, ..] = own::five(&self.ty(id).shape);
        if dict.has("OutputChannels") {
            let stated = dict.extent("OutputChannels", 1)?;
            if stated != channels {
                let (place, key, only) = (dict.place.clone(), "OutputChannels".to_string(), channels as i64);
                return Err(Error::OutOfRange { place, key, found: stated as i64, least: only, most: only });
            }
        }
        Ok(())
    }

    /// Unit that the `Type` names.
    fn named(&self) -> Option<Named> {
        named(self.unit.kind)
    }

    /// A refusal of one parameter, in the words of the layer's parser.
    fn invalid(&self, key: &str, reason: String) -> Error {
        match self.named() {
            None => self.unsupported(&format!("parameter `{key}`: {reason}")),
            Some(named) => Error::InvalidParam {
                unit: self.unit.name.to_string(),
                layer: named.tag,
                key: key.chars().take(60).collect(),
                reason,
            },
        }
    }

    /// Values that a parameter allows, in words.
    fn allowed(&self, key: &str) -> String {
        let ty = self.named().and_then(|named| Some(named.key(key)?.ty));
        ty.map_or_else(|| "another value".to_string(), |ty| ty.describe())
    }

    /// Words that a parameter may be.
    fn words(&self, key: &str) -> Vec<&'static str> {
        match self.named().and_then(|named| Some(named.key(key)?.ty)) {
            Some(KeyType::Word(words)) => words.to_vec(),
            _ => Vec::new(),
        }
    }

    /// A refusal of a word, with those that are allowed and the nearest.
    fn no_word(&self, key: &str, found: &str, known: &[&'static str]) -> Error {
        let near = crate::native::nearest_of(found, known.iter().copied());
        let near = near.map_or(String::new(), |near| format!(", the nearest is `{near}`"));
        let found: String = found.chars().take(40).collect();
        self.invalid(key, format!("`{found}` where {} is expected{near}", known.join(" or ")))
    }

    /// Faults in the unit's `Params` as the layer's parser names them.
    fn of_params(&self, error: Error) -> Error {
        let of_params = |place: &str| place.ends_with("`Params`");
        match error {
            Error::Missing { place, key } if of_params(&place) => {
                self.invalid(&key, format!("missing; it is {}", self.allowed(&key)))
            }
            Error::WrongType { place, key, found, .. } if of_params(&place) => {
                self.invalid(&key, format!("{found} where {} is expected", self.allowed(&key)))
            }
            Error::OutOfRange { place, key, found, least, most } if of_params(&place) => {
                self.invalid(&key, format!("{found} where {least} to {most} is expected"))
            }
            other => other,
        }
    }

    fn unsupported(&self, reason: &str) -> Error {
        let (op, output) = (self.unit.kind.to_string(), self.unit.name.to_string());
        Error::Unsupported { op, output, reason: reason.to_string() }
    }

    fn missing(&self, key: &str) -> Error {
        Error::Missing { place: format!("{}, `Params`", self.unit.dict.place), key: key.to_string() }
    }

    fn params(&self) -> Result<Dict<'a>, Error> {
        self.params.clone().ok_or_else(|| self.unit.dict.missing("Params"))
    }

    /// Refuses parameters other than these and those that state a default.
    fn understands(&self, keys: &[&str]) -> Result<(), Error> {
        let Some(params) = &self.params else { return Ok(()) };
        for key in params.keys().filter(|key| !keys.contains(key)) {
            let expected = DEFAULTS.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
            let states_default = match expected {
                None => false,
                Some("false") => !params.flag(key)?,
                Some("0") => params.integer(key)? == Some(0),
                Some(text) => params.string(key)? == Some(text),
            };
            if !states_default {
                let near = crate::native::nearest_of(key, keys.iter().copied());
                return Err(self.invalid(
                    key,
                    match (expected, near) {
                        (Some(expected), _) => format!("a value other than {expected} is not carried"),
                        (None, Some(near)) => format!("no parameter of this layer, the nearest is `{near}`"),
                        (None, None) => "no parameter of this layer, which has none".to_string(),
                    },
                ));
            }
        }
        Ok(())
    }

    fn ty(&self, id: ValueId) -> TensorType {
        self.builder.net.value(id).ty.clone()
    }

    /// The only operand.
    fn one(&self) -> Result<ValueId, Error> {
        match self.inputs.as_slice() {
            &[x] => Ok(x),
            others => {
                Err(Error::Arity { kind: "unit", found: others.len(), least: 1, most: 1 }.in_op(&self.unit.dict.place))
            }
        }
    }

    /// Rank of the first operand.
    fn rank(&self) -> usize {
        self.inputs.first().map_or(0, |&x| self.builder.net.value(x).ty.shape.len())
    }

    /// The axis that a name stands for; `None` for one that the values do not have.
    fn axis(&self, name: &str) -> Result<Option<usize>, Error> {
        let names = own::axis_names(self.rank()).unwrap_or_default();
        match names.iter().position(|known| *known == name) {
            Some(axis) => Ok(Some(axis)),
            None if ["Batch", "Channel", "Depth", "Height", "Width"].contains(&name) => Ok(None),
            None => Err(self.no_word("Dimension", name, &crate::native::AXES)),
        }
    }

    /// Spatial axes of the first operand, at most three.
    fn spatial_axes(&self) -> usize {
        self.rank().saturating_sub(2).min(3)
    }

    /// The one axis that a parameter names.
    fn dimension(&self, key: &str) -> Result<Option<usize>, Error> {
        let names = self.params.as_ref().map(|p| p.strings(key)).transpose()?.flatten();
        match names.as_deref() {
            None => Ok(None),
            Some(&[name]) => match self.axis(name)? {
                Some(axis) => Ok(Some(axis)),
                None => Err(self.unsupported(&format!("dimension `{name}` of values without it"))),
            },
            Some(names) => Err(self.unsupported(&format!("{} dimensions", names.len()))),
        }
    }

    /// Adds an operation whose result is named after the unit with a suffix.
    fn emit(&mut self, suffix: &str, kind: OpKind, inputs: &[ValueId]) -> Result<ValueId, Error> {
        let name = self.fresh(suffix);
        self.builder.add_op(&name, &name, kind, inputs, None)
    }

    fn fresh(&mut self, suffix: &str) -> String {
        let mut name = format!("{}.{suffix}", self.unit.name);
        while !self.builder.names.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Adds the last operation, and the conversion to the unit's output type where that is another.
    fn give(&mut self, kind: OpKind, inputs: &[ValueId], declared: Option<TensorType>) -> Result<ValueId, Error> {
        let wanted = dtype(&self.unit.dict, "OutputType")?;
        if FLOAT_OUTPUT.contains(&self.unit.kind) && wanted.is_some_and(|dtype| !dtype.is_float()) {
            let found = format!("`{}`", self.unit.output_type.unwrap_or_default());
            let (place, key) = (self.unit.dict.place.clone(), "OutputType".to_string());
            return Err(Error::WrongType {
                place,
                key,
                found,
                expected: "Float16 or Float32: this layer has a float output",
            });
        }
        let types: Vec<TensorType> = inputs.iter().map(|&id| self.ty(id)).collect();
        let types: Vec<&TensorType> = types.iter().collect();
        let found = crate::infer::infer(&kind, &types, declared.as_ref())
            .map_err(|e| e.in_op(&self.unit.dict.place))?
            .swap_remove(0);
        match wanted.filter(|&dtype| dtype != found.dtype) {
            None => self.builder.add_op(self.unit.name, self.result, kind, inputs, declared),
            Some(dtype) => {
                let name = self.fresh("computed");
                let computed = self.builder.add_op(&name, &name, kind, inputs, declared)?;
                let declared = TensorType { dtype, ..found };
                self.builder.add_op(self.unit.name, self.result, OpKind::Cast, &[computed], Some(declared))
            }
        }
    }

    /// A list of sizes per spatial axis from keys named after width, height and depth, in the order of the axes.
    fn spatial(&self, params: &Dict, keys: [&str; 3], default: usize) -> Result<Vec<usize>, Error> {
        let [width, height, depth] = keys;
        let keys = [depth, height, width];
        let absent = keys.len() - self.spatial_axes();
        if let Some(key) = keys.iter().take(absent).find(|key| params.size(key, default) != Ok(default)) {
            return Err(self.unsupported(&format!("`{key}` of values without that axis")));
        }
        keys.iter().skip(absent).map(|key| params.size(key, default)).collect()
    }

    /// Steps per spatial axis; the netplist lists width first.
    fn steps(&self, params: &Dict) -> Result<Vec<usize>, Error> {
        let spatial = self.spatial_axes();
        let mut steps = vec![1; spatial];
        for (i, value) in params.array("Step")?.unwrap_or_default().iter().enumerate() {
            let step = value.as_unsigned_integer().and_then(|v| usize::try_from(v).ok());
            let step = step.ok_or_else(|| wrong(&params.place, "Step", value, "positive integers"))?;
            match spatial.checked_sub(i + 1) {
                Some(axis) => steps[axis] = step,
                None if step == 1 => {}
                None => return Err(self.unsupported(&format!("step {step} along axis {i}"))),
            }
        }
        Ok(steps)
    }

    fn pads(&self, params: &Dict) -> Result<Vec<(usize, usize)>, Error> {
        let before = self.spatial(params, ["PadLeft", "PadTop", "PadFront"], 0)?;
        let after = self.spatial(params, ["PadRight", "PadBot", "PadBack"], 0)?;
        Ok(before.into_iter().zip(after).collect())
    }

    fn conv(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        let params = self.params()?;
        match params.string("Type")? {
            None | Some("Conv") => {}
            Some(other) => return Err(self.unsupported(&format!("convolution of type `{other}`"))),
        }
        // One group has nothing to share a kernel with.
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
    fn scale_and_bias(&mut self) -> Result<ValueId, Error> {
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

    /// The scale or bias of a unit as a constant; `None` where it is absent or does nothing.
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

    fn neuron(&mut self) -> Result<ValueId, Error> {
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

    fn elementwise(&mut self) -> Result<ValueId, Error> {
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

    fn broadcast(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["BroadcastInfo"])?;
        let params = self.params()?;
        let mut ty = self.ty(x);
        for info in params.array("BroadcastInfo")?.ok_or_else(|| self.missing("BroadcastInfo"))? {
            let info = Dict::new(info, &params.place, "BroadcastInfo")?;
            let name = info.string("Dimension")?.ok_or_else(|| info.missing("Dimension"))?;
            if !info.has("Size") {
                return Err(info.missing("Size"));
            }
            // Values without depth have a depth of one, the only size that can be asked for then.
            if let Some(axis) = self.axis(name)? {
                ty.shape[axis] = info.extent("Size", 1)?;
            }
        }
        self.give(OpKind::Broadcast, &[x], Some(ty))
    }

    fn reshape(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["ReshapedBatch", "ReshapedChannel", "ReshapedDepth", "ReshapedHeight", "ReshapedWidth"])?;
        let params = self.params()?;
        let ty = self.ty(x);
        if let Some(shape) = super::own::stated(&self.unit.dict)? {
            return self.give(OpKind::Reshape, &[x], Some(TensorType { dtype: ty.dtype, shape }));
        }
        let mut shape = vec![params.extent("ReshapedBatch", 1)?, params.extent("ReshapedChannel", 1)?];
        if self.builder.deep {
            shape.push(params.extent("ReshapedDepth", 1)?);
            if shape[2] > 1 || own::five(&ty.shape)[2] > 1 {
                return Err(self.unsupported("depth of more than one: the order of its elements is not known"));
            }
        }
        shape.extend([params.extent("ReshapedHeight", 1)?, params.extent("ReshapedWidth", 1)?]);
        self.give(OpKind::Reshape, &[x], Some(TensorType { dtype: ty.dtype, shape }))
    }

    /// A range of one axis.
    fn view(&mut self) -> Result<ValueId, Error> {
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

    fn reduction(&mut self) -> Result<ValueId, Error> {
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
        let stated = super::own::stated(&self.unit.dict)?;
        let keep_dims = stated.is_none_or(|shape| shape.len() == self.rank());
        self.give(OpKind::Reduce { kind, axes, keep_dims }, &[x], None)
    }

    fn pooling(&mut self) -> Result<ValueId, Error> {
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
        // What lies in the padding matters only where there is some: zeros for means, nothing for maxima.
        let expected = if kind == PoolKind::Max { "Negative" } else { "Zero" };
        if padded && params.string("PaddingMode")?.is_some_and(|mode| mode != expected) {
            return Err(self.unsupported(&format!("`PaddingMode` other than {expected}")));
        }
        let kernel = self.spatial(&params, ["KernelWidth", "KernelHeight", "KernelDepth"], 1)?;
        let strides = self.steps(&params)?;
        self.give(OpKind::Pool { kind, kernel, strides, pads, ceil_mode: false }, &[x], None)
    }

    fn transpose(&mut self) -> Result<ValueId, Error> {
        let x = self.one()?;
        self.understands(&["TransposeDimensions"])?;
        let params = self.params()?;
        let mut perm: Vec<usize> = (0..self.ty(x).shape.len()).collect();
        for pair in params.array("TransposeDimensions")?.ok_or_else(|| self.missing("TransposeDimensions"))? {
            let pair = Dict::new(pair, &params.place, "TransposeDimensions")?;
            let axis = |key: &str| self.axis(pair.string(key)?.ok_or_else(|| pair.missing(key))?);
            if let (Some(to), Some(from)) = (axis("TransposeDestinationDimension")?, axis("TransposeSourceDimension")?)
            {
                perm[to] = from;
            }
        }
        self.give(OpKind::Transpose { perm }, &[x], None)
    }
}

/// A 16-bit float given by its bit pattern as an integer.
fn half_float(params: &Dict, key: &str) -> Result<Option<f32>, Error> {
    let Some(found) = params.integer(key)? else { return Ok(None) };
    // Patterns with the sign bit set may be written as negative 16-bit numbers.
    let (least, most) = (i64::from(i16::MIN), i64::from(u16::MAX));
    if !(least..=most).contains(&found) {
        return Err(Error::OutOfRange { place: params.place.clone(), key: key.to_string(), found, least, most });
    }
    Ok(Some(f16::from_bits(found as u16).to_f32()))
}

/// Elements of a kernel, bounded like any tensor.
fn kernel_type(place: &str, dtype: DType, shape: Vec<usize>) -> Result<(TensorType, usize), Error> {
    let ty = TensorType { dtype, shape };
    sized(&ty, || place.to_string())?;
    let count = elements(&ty.shape);
    Ok((ty, count))
}
