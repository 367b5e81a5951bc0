//! Translation of each kind of unit.

mod layers;

use super::{Builder, Unit, dtype};
use crate::error::Error;
use crate::graph::{DType, Data, Tensor, TensorType, ValueId, elements};
use crate::infer::sized;
use crate::native::{KeyType, NEURONS, Named, Native, Schema, named};
use crate::netplist::own;
use crate::ops::{Binary, GeluMode, OpKind, PoolKind, ReduceKind, Unary};
use crate::read::property::{Dict, wrong};
use half::f16;

/// Keys of a unit without meaning of their own: names, and types of operands, which are known from the operands.
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

/// Parameters that may only state the default; any other value is refused.
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

/// Layers whose validator requires a float output.
const FLOAT_OUTPUT: [&str; 2] = ["LayerNormalization", "Softmax"];

/// Reason why custom tables have no unit, from the chapter on the compiler.
const CLOSED_TABLE: &str = "a table of one's own has no unit that compiles: its 33 knots are no parameter of any parser, and the \
    table's place in a program is written by the compiler alone; `ane lut FILE.npy --compose PACKAGE` makes any 33 knots \
    from linear, relu and linear";

/// A unit under translation.
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
            // The conversion of the type is all: no data moves.
            "TensorToTensorBuffer" | "TensorBufferToTensor" => {
                // With a state as second operand it writes the state, which the list of the network then reads.
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

    /// The operation in a key of our own.
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

    /// A native layer with its parameters unchanged.
    fn native(&mut self, schema: &'static Schema) -> Result<ValueId, Error> {
        let given = self.params.as_ref().map_or_else(Vec::new, Dict::raw);
        let native = Native::read_unit(schema, self.unit.name, &given)?;
        let inputs = self.inputs.clone();
        self.give(OpKind::Native(Box::new(native)), &inputs, None)
    }

    /// Refuses a unit that states a number of channels other than that of its result.
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

    /// The unit that `Type` denotes.
    fn named(&self) -> Option<Named> {
        named(self.unit.kind)
    }

    /// Error for one parameter, in the form of the layer's parser.
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

    /// Allowed values of a parameter, in words.
    fn allowed(&self, key: &str) -> String {
        let ty = self.named().and_then(|named| Some(named.key(key)?.ty));
        ty.map_or_else(|| "another value".to_string(), |ty| ty.describe())
    }

    /// Allowed words of a parameter.
    fn words(&self, key: &str) -> Vec<&'static str> {
        match self.named().and_then(|named| Some(named.key(key)?.ty)) {
            Some(KeyType::Word(words)) => words.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Error for a word, with the allowed ones and the nearest.
    fn no_word(&self, key: &str, found: &str, known: &[&'static str]) -> Error {
        let near = crate::native::nearest_of(found, known.iter().copied());
        let near = near.map_or(String::new(), |near| format!(", the nearest is `{near}`"));
        let found: String = found.chars().take(40).collect();
        self.invalid(key, format!("`{found}` where {} is expected{near}", known.join(" or ")))
    }

    /// Converts errors about the unit's `Params` to the form of the layer's parser.
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

    /// A refusal of an entry of a list without one of its keys; a key that it has in its place is named.
    fn entry_lacks(&self, entry: &Dict, list: &str, key: &'static str) -> Error {
        let allowed = if key == "Size" { crate::native::EXTENT } else { crate::native::AXIS };
        let known = ["Dimension", "Size", "TransposeDestinationDimension", "TransposeSourceDimension"];
        let other = entry.keys().find(|other| !known.contains(other));
        let other = other.map_or(String::new(), |other| format!("; `{other}` is none of its keys"));
        self.invalid(list, format!("an entry without `{key}`, which is {}{other}", allowed.describe()))
    }

    fn params(&self) -> Result<Dict<'a>, Error> {
        self.params.clone().ok_or_else(|| self.unit.dict.missing("Params"))
    }

    /// Refuses parameters except these and those that state a default.
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
                        (Some(expected), _) => format!("values other than {expected} are not supported"),
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

    /// The single operand.
    fn one(&self) -> Result<ValueId, Error> {
        match self.inputs.as_slice() {
            &[x] => Ok(x),
            others => {
                let (kind, found) = (self.unit.kind.to_string(), others.len());
                Err(Error::Arity { kind, found, least: 1, most: 1 }.in_op(&self.unit.dict.place))
            }
        }
    }

    /// Rank of the first operand.
    fn rank(&self) -> usize {
        self.inputs.first().map_or(0, |&x| self.builder.net.value(x).ty.shape.len())
    }

    /// The axis of that name; `None` if the values do not have it.
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

    /// The single axis that a parameter names.
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

    /// Adds an operation whose result has the unit's name with a suffix.
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

    /// Adds the last operation, and a conversion to the unit's output type if that differs.
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

    /// Sizes per spatial axis, in the order of the axes, from keys for width, height and depth.
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
}
