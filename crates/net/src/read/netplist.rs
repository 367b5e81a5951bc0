//! Netplists: property lists that name inputs, units, outputs and weight files of a network.
//!
//! Values have the extents `[N, C, H, W]`, or `[N, C, D, H, W]` if any depth in the netplist is more than one, unless keys of
//! our own (`netplist::own`) state others.

pub mod inline;
mod own;
mod spell;
mod stated;
mod units;
mod weights;

pub use stated::{NetplistOutline, UnitOutline, outline_netplist};

/// Schema versions whose keys are known, the newest last.
const VERSIONS: [&str; 2] = ["1.0.9", "1.0.10"];

use super::property::{Dict, parse};
use super::{Files, Options, Reading, sniff};
use crate::build::Budget;
use crate::error::Error;
use crate::graph::{DType, Data, Net, Op, Surface, Tensor, TensorType, Value, ValueId, elements};
use crate::infer::{infer, sized};
use crate::ops::{OpKind, Unary};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use weights::Weights;

/// Reads a netplist, XML or binary, plain or compressed as in `.espresso.net` files; `files` resolves the weight files, by path as
/// written and then by base name.
///
/// Results have the names of their units, except that the result of a unit which feeds a single network output has the name of that
/// output. Constants of scale and bias units are rounded to the element type of their operand; convolution kernels
/// keep the type of their file. A weight file whose path ends in `zero` contains zeros of any length. Memory layouts of inputs
/// and outputs are kept as [`Surface`]s.
///
/// Errors: keys missing or of the wrong type, weights outside their file ([`Error::OutOfBounds`]) and units or parameters
/// that the graph cannot express ([`Error::Unsupported`]).
pub fn read_netplist(bytes: &[u8], files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    if sniff(bytes) != Some(super::Format::Netplist) {
        return Err(Error::Syntax { place: "netplist".to_string(), reason: "not a property list".to_string() });
    }
    let unpacked = super::packed::unpack(bytes)?;
    let bytes = unpacked.as_deref().unwrap_or(bytes);
    let mut root = parse(bytes, "netplist")?;
    spell::units(&mut root);
    let root = Dict::new(&root, "netplist", "root")?;
    let mut notes = Vec::new();
    let (name, lists) = chosen(&root, options, &mut notes)?;
    let network = root.dict(name)?.ok_or_else(|| root.missing(name))?;
    let network = network.at(format!("network `{name}`"));
    let weights = network.strings("Weights")?.unwrap_or_default();
    let weights = Weights { files, paths: weights, read: HashMap::new(), budget: Budget::default() };
    let deep = is_deep(&network)?;
    let net = Net { name: name.to_string(), ..Net::default() };
    let mut builder = Builder { net, names: HashSet::new(), values: HashMap::new(), weights, deep, notes };
    builder.network(&network, &lists)?;
    Ok((builder.net, builder.notes))
}

/// Lists of inputs, operations and outputs that a procedure states in place of its network's; `None` for lists that it does not state.
type Lists<'a> = [Option<Vec<&'a str>>; 3];

/// An entry point: its network, and its lists; or the number of networks, if it is not one.
type Entry<'a> = Result<(&'a str, Lists<'a>), usize>;

/// Components of a version number.
fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map(|n| n.parse().unwrap_or(u64::MAX)).collect()
}

/// Networks of a netplist; its entry points by name, networks first; and the position among them of the first procedure with lists.
type Entries<'a> = (Vec<&'a str>, Vec<(&'a str, Entry<'a>)>, Option<usize>);

fn entries<'a>(root: &Dict<'a>) -> Result<Entries<'a>, Error> {
    let networks = root.strings("Networks")?.ok_or_else(|| root.missing("Networks"))?;
    let mut entries: Vec<(&str, Entry)> = Vec::new();
    for &name in &networks {
        entries.push((name, Ok((name, Lists::default()))));
    }
    let mut first_procedure = None;
    for procedure in root.array("ProcedureList")?.unwrap_or_default() {
        match procedure.as_string() {
            Some(name) => entries.push((name, Ok((name, Lists::default())))),
            None => {
                let procedure = Dict::new(procedure, "netplist", "ProcedureList")?.at("procedure".to_string());
                let name = procedure.string("Name")?.ok_or_else(|| procedure.missing("Name"))?;
                let lists: Lists = [
                    procedure.strings("InputList")?,
                    procedure.strings("OperationList")?,
                    procedure.strings("OutputList")?,
                ];
                let listed = lists.iter().any(Option::is_some);
                let network = match procedure.strings("Networks")?.as_deref() {
                    Some(&[network]) => Ok(network),
                    None => Ok(match procedure.string("Network")? {
                        Some(network) => network,
                        // A procedure with lists of its own runs the file's only network.
                        None if listed && networks.len() == 1 => networks[0],
                        None => name,
                    }),
                    Some(several) => Err(several.len()),
                };
                if listed && first_procedure.is_none() {
                    first_procedure = Some(entries.len());
                }
                entries.push((name, network.map(|network| (network, lists))));
            }
        }
    }
    Ok((networks, entries, first_procedure))
}

/// Names of the procedures of a netplist, in the order of its `ProcedureList`: each is an entry point of the compiled program. Empty
/// for other files.
///
/// Errors: those of [`read_netplist`] that concern the list.
pub fn netplist_procedures(bytes: &[u8]) -> Result<Vec<String>, Error> {
    if sniff(bytes) != Some(super::Format::Netplist) {
        return Ok(Vec::new());
    }
    let unpacked = super::packed::unpack(bytes)?;
    let root = parse(unpacked.as_deref().unwrap_or(bytes), "netplist")?;
    let root = Dict::new(&root, "netplist", "root")?;
    let (networks, entries, _) = entries(&root)?;
    Ok(entries[networks.len()..].iter().map(|(name, _)| name.to_string()).collect())
}

/// The network to read, and the lists that replace its own. A list of procedures names several entry points, each with
/// its network.
///
/// Errors: a schema that is newer than the known versions.
fn chosen<'a>(root: &Dict<'a>, options: &Options, notes: &mut Vec<String>) -> Result<(&'a str, Lists<'a>), Error> {
    let newest = VERSIONS[VERSIONS.len() - 1];
    if let Some(version) = root.string("Version")?.filter(|v| !VERSIONS.contains(v)) {
        if numbers(version) > numbers(newest) {
            let reason = format!("the schema is newer than {newest}, the newest that is known");
            return Err(Error::Unsupported { op: "Version".into(), output: version.into(), reason });
        }
        notes.push(format!("schema version {version}; versions {} are known", VERSIONS.join(" and ")));
    }
    let (networks, mut entries, first_procedure) = entries(root)?;
    let first_procedure = first_procedure.map(|at| entries[at].clone());
    entries.dedup();
    let told = || {
        let mut names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
        names.dedup();
        names.join(", ")
    };
    let (name, entry) = match &options.function {
        // A procedure takes precedence over a network of the same name.
        Some(wanted) => {
            let found = entries.iter().rev().find(|(name, _)| name == wanted).cloned();
            found.ok_or_else(|| Error::NoFunction { name: wanted.clone(), known: told() })?
        }
        None => {
            let first = entries.first().cloned().ok_or_else(|| root.missing("Networks"))?;
            // If networks have no lists, procedures do.
            let own = root.dict(first.0)?.is_none_or(|n| n.has("Inputs") || n.has("InputList"));
            first_procedure.filter(|_| !own).unwrap_or(first)
        }
    };
    let (network, lists) = entry.map_err(|several| {
        let (op, reason) = ("procedure".to_string(), format!("it runs {several} networks"));
        Error::Unsupported { op, output: name.to_string(), reason }
    })?;
    if options.function.is_none() && networks.len() > 1 {
        notes.push(format!("the netplist has {}; `{network}` is read", told()));
    }
    Ok((network, lists))
}

/// Returns true if any tensor of the network has a depth of more than one.
fn is_deep(network: &Dict) -> Result<bool, Error> {
    for key in network.keys() {
        // Keys that hold lists of names are not entries.
        let Ok(Some(entry)) = network.dict(key) else { continue };
        let params = entry.dict("Params")?;
        for dict in [Some(&entry), params.as_ref()].into_iter().flatten() {
            for key in ["InputDepth", "ConstantDepth", "ReshapedDepth", "KernelDepth"] {
                if dict.size(key, 1)? > 1 {
                    return Ok(true);
                }
            }
            for info in dict.array("BroadcastInfo")?.unwrap_or_default() {
                let info = Dict::new(info, &dict.place, "BroadcastInfo")?;
                if info.string("Dimension")? == Some("Depth") && info.size("Size", 1)? > 1 {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

struct Builder<'a> {
    net: Net,
    names: HashSet<String>,
    /// Values by their name in the netplist: inputs, constants and units.
    values: HashMap<String, ValueId>,
    weights: Weights<'a>,
    deep: bool,
    notes: Vec<String>,
}

impl<'a> Builder<'a> {
    fn network(&mut self, network: &Dict<'a>, lists: &Lists<'a>) -> Result<(), Error> {
        // Two spellings of the same lists are in use; those of a procedure take precedence.
        let list = |at: usize, names: [&str; 2]| match &lists[at] {
            Some(list) => Ok(list.clone()),
            None => {
                let [first, second] = names.map(|name| network.strings(name));
                first?.or(second?).ok_or_else(|| network.missing(names[0]))
            }
        };
        let inputs = list(0, ["Inputs", "InputList"])?;
        let units = list(1, ["Units", "OperationList"])?;
        let outputs = list(2, ["Outputs", "OutputList"])?;
        for name in &inputs {
            let entry = entry(network, name, "input")?;
            let ty = self.tensor_type(&entry, "Input")?;
            let surface = surface(&entry, "Input", &ty)?;
            let id = self.define(&entry.place, name, ty, None, surface)?;
            self.net.inputs.push(id);
        }
        let states = network.strings("States")?.unwrap_or_default();
        states.iter().try_for_each(|name| self.state_input(network, name))?;
        let constants = ["Constants", crate::netplist::own::CONSTANTS].map(|key| network.strings(key));
        for list in constants {
            for name in list?.unwrap_or_default() {
                self.constant(network, name)?;
            }
        }
        let units = units.iter().map(|name| Unit::new(network, name)).collect::<Result<Vec<Unit>, Error>>()?;
        let outputs = outputs.iter().map(|name| Output::new(network, name)).collect::<Result<Vec<_>, Error>>()?;
        let names = result_names(&units, &outputs);
        for index in self.order(&units)? {
            let unit = &units[index];
            let result = names.get(unit.name).copied().unwrap_or(unit.name);
            self.unit(unit, result)?;
        }
        for output in &outputs {
            let id = self.output(output)?;
            self.net.outputs.push(id);
        }
        states.iter().try_for_each(|name| self.live_state(name, &units))?;
        self.states(network)
    }

    /// Units in an order in which their operands come first, otherwise in the order of the list.
    fn order(&self, units: &[Unit]) -> Result<Vec<usize>, Error> {
        let positions: HashMap<&str, usize> = units.iter().enumerate().map(|(i, u)| (u.name, i)).collect();
        let mut waiting: Vec<usize> = vec![0; units.len()];
        let mut users: Vec<Vec<usize>> = vec![vec![]; units.len()];
        for (index, unit) in units.iter().enumerate() {
            for bottom in &unit.bottoms {
                if let Some(&at) = positions.get(bottom) {
                    waiting[index] += 1;
                    users[at].push(index);
                } else if !self.values.contains_key(*bottom) {
                    return Err(Error::UnknownName { place: unit.dict.place.clone(), name: bottom.to_string() });
                }
            }
        }
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..units.len()).filter(|&i| waiting[i] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(units.len());
        while let Some(Reverse(index)) = ready.pop() {
            order.push(index);
            for &user in &users[index] {
                waiting[user] -= 1;
                if waiting[user] == 0 {
                    ready.push(Reverse(user));
                }
            }
        }
        let Some(index) = (0..units.len()).find(|&i| waiting[i] > 0) else { return Ok(order) };
        let waits = |b: &&&str| positions.get(**b).is_some_and(|&at| waiting[at] > 0);
        let value = units[index].bottoms.iter().find(waits).unwrap_or(&units[index].name).to_string();
        Err(Error::NotDefined { op: units[index].dict.place.clone(), value })
    }

    /// The extents and type under an entry's keys with this prefix.
    fn tensor_type(&self, entry: &Dict, prefix: &str) -> Result<TensorType, Error> {
        let extent = |key: &str| entry.extent(&format!("{prefix}{key}"), 1);
        let batch = match prefix {
            "Input" => entry.extent("BatchSize", 1)?,
            _ => extent("BatchSize")?,
        };
        let mut shape = vec![batch, extent("Channels")?];
        if self.deep {
            shape.push(extent("Depth")?);
        }
        shape.extend([extent("Height")?, extent("Width")?]);
        if let Some(stated) = own::shape(entry, elements(&shape))? {
            shape = stated;
        }
        let key = format!("{prefix}Type");
        let dtype = dtype(entry, &key)?.ok_or_else(|| entry.missing(&key))?;
        Ok(TensorType { dtype, shape })
    }

    fn constant(&mut self, network: &Dict<'a>, name: &str) -> Result<(), Error> {
        let entry = entry(network, name, "constant")?;
        let ty = self.tensor_type(&entry, "Constant")?;
        sized(&ty, || entry.place.clone())?;
        let tensor = match self.form(&entry, &ty)? {
            Some(tensor) => tensor,
            None => {
                let index = entry.size("ConstantIndex", 0)?;
                let offset = entry.size("ConstantByteOffset", 0)?;
                let data = self.weights.elements(name, index, offset, ty.dtype, ty.elements())?;
                Tensor { shape: ty.shape.clone(), data }
            }
        };
        self.define(&entry.place, name, ty, Some(tensor), None)?;
        Ok(())
    }

    /// Adds a value with its name in the netplist.
    fn define(
        &mut self,
        place: &str,
        name: &str,
        ty: TensorType,
        data: Option<Tensor>,
        surface: Option<Surface>,
    ) -> Result<ValueId, Error> {
        sized(&ty, || place.to_string())?;
        let id = self.add_value(name, ty, data, surface);
        if self.values.insert(name.to_string(), id).is_some() {
            return Err(Error::DefinedTwice { op: place.to_string(), value: name.to_string() });
        }
        Ok(id)
    }

    fn add_value(&mut self, name: &str, ty: TensorType, data: Option<Tensor>, surface: Option<Surface>) -> ValueId {
        self.names.insert(name.to_string());
        self.net.add_value(Value { name: name.to_string(), ty, data: data.map(Arc::new), surface })
    }

    /// Adds a constant of that rank, with its elements along the channels.
    fn add_channels(&mut self, name: &str, rank: usize, dtype: DType, data: Data) -> ValueId {
        let mut shape = vec![1; rank.max(1)];
        shape[usize::from(rank > 1)] = data.len();
        let tensor = Tensor { shape, data }.cast(dtype);
        self.add_value(name, tensor.ty(), Some(tensor), None)
    }

    /// Adds an operation with its result.
    fn add_op(
        &mut self,
        name: &str,
        result: &str,
        kind: OpKind,
        inputs: &[ValueId],
        declared: Option<TensorType>,
    ) -> Result<ValueId, Error> {
        let types: Vec<&TensorType> = inputs.iter().map(|&id| &self.net.value(id).ty).collect();
        let types = infer(&kind, &types, declared.as_ref()).map_err(|e| e.in_op(&format!("unit `{name}`")))?;
        let ty = types.into_iter().next().expect("every operation has one result");
        let output = self.add_value(result, ty, None, None);
        self.net.ops.push(Op { name: name.to_string(), kind, inputs: inputs.to_vec(), outputs: vec![output] });
        Ok(output)
    }

    /// Adds the network output: the value that already has its name, else a copy or conversion of the value that it names.
    fn output(&mut self, output: &Output) -> Result<ValueId, Error> {
        let place = &output.dict.place;
        let unknown = || Error::UnknownName { place: place.clone(), name: output.bottom.to_string() };
        let from = *self.values.get(output.bottom).ok_or_else(unknown)?;
        let ty = self.net.value(from).ty.clone();
        let dtype = dtype(&output.dict, "OutputType")?.unwrap_or(ty.dtype);
        let id = if self.net.value(from).name == output.name {
            if dtype != ty.dtype {
                return Err(Error::TypeMismatch {
                    op: place.clone(),
                    value: output.name.to_string(),
                    found: ty.clone(),
                    expected: TensorType { dtype, ..ty },
                });
            }
            from
        } else if dtype == ty.dtype {
            self.add_op(output.name, output.name, OpKind::Unary(Unary::Identity), &[from], None)?
        } else {
            let declared = TensorType { dtype, ..ty };
            self.add_op(output.name, output.name, OpKind::Cast, &[from], Some(declared))?
        };
        let ty = self.net.value(id).ty.clone();
        let surface = surface(&output.dict, "Output", &ty)?;
        self.net.values[id.0 as usize].surface = surface;
        Ok(id)
    }
}

/// Result names of the units that feed a single network output of the same element type.
fn result_names<'a>(units: &[Unit<'a>], outputs: &[Output<'a>]) -> HashMap<&'a str, &'a str> {
    let mut fed: HashMap<&str, usize> = HashMap::new();
    for output in outputs {
        *fed.entry(output.bottom).or_default() += 1;
    }
    let types: HashMap<&str, Option<&str>> = units.iter().map(|u| (u.name, u.output_type)).collect();
    let renames = outputs.iter().filter(|o| {
        let same = |ty: &Option<&str>| o.output_type.is_none() || ty.is_none() || o.output_type == *ty;
        fed.get(o.bottom) == Some(&1) && types.get(o.bottom).is_some_and(same)
    });
    renames.map(|o| (o.bottom, o.name)).collect()
}

/// One unit of the network.
struct Unit<'a> {
    name: &'a str,
    kind: &'a str,
    bottoms: Vec<&'a str>,
    output_type: Option<&'a str>,
    dict: Dict<'a>,
}

impl<'a> Unit<'a> {
    fn new(network: &Dict<'a>, name: &'a str) -> Result<Self, Error> {
        let dict = entry(network, name, "unit")?;
        let kind = dict.string("Type")?.ok_or_else(|| dict.missing("Type"))?;
        let bottoms = dict.strings("Bottom")?.ok_or_else(|| dict.missing("Bottom"))?;
        let output_type = dict.string("OutputType")?;
        Ok(Unit { name, kind, bottoms, output_type, dict })
    }
}

/// One output of the network.
struct Output<'a> {
    name: &'a str,
    bottom: &'a str,
    output_type: Option<&'a str>,
    dict: Dict<'a>,
}

impl<'a> Output<'a> {
    fn new(network: &Dict<'a>, name: &'a str) -> Result<Self, Error> {
        let dict = entry(network, name, "output")?;
        let bottoms = dict.strings("Bottom")?.unwrap_or_default();
        let &[bottom] = bottoms.as_slice() else { return Err(dict.missing("Bottom")) };
        let output_type = dict.string("OutputType")?;
        Ok(Output { name, bottom, output_type, dict })
    }
}

fn entry<'a>(network: &Dict<'a>, name: &str, what: &str) -> Result<Dict<'a>, Error> {
    let dict = network.dict(name)?.ok_or_else(|| network.missing(name))?;
    Ok(dict.at(format!("{what} `{name}`")))
}

/// Memory layout of an input or output, if the entry states one: strides, or interleaved channels, whose strides are then dense.
fn surface(entry: &Dict, prefix: &str, ty: &TensorType) -> Result<Option<Surface>, Error> {
    let key = |name: &str| format!("{prefix}{name}");
    let (row, plane) = (key("RowStride"), key("PlaneStride"));
    if !entry.has(&row) && !entry.has(&plane) {
        let interleave = entry.extent(&key("Interleave"), 1)?;
        let [_, _, _, rows, columns] = crate::netplist::own::five(&ty.shape);
        let row_bytes = (columns * ty.dtype.bytes() * interleave).next_multiple_of(64) as u64;
        let plane_bytes = row_bytes * rows as u64;
        return Ok((interleave > 1).then_some(Surface { row_bytes, plane_bytes, interleave: interleave as u32 }));
    }
    if let Some(missing) = [&row, &plane].into_iter().find(|key| !entry.has(key)) {
        return Err(entry.missing(missing));
    }
    Ok(Some(Surface {
        row_bytes: entry.size(&row, 0)? as u64,
        plane_bytes: entry.size(&plane, 0)? as u64,
        interleave: entry.extent(&key("Interleave"), 1)? as u32,
    }))
}

/// The element type that a key names.
fn dtype(entry: &Dict, key: &str) -> Result<Option<DType>, Error> {
    let Some(name) = entry.string(key)? else { return Ok(None) };
    Ok(Some(match name {
        "Float16" => DType::F16,
        "Float32" => DType::F32,
        "Int8" => DType::I8,
        "UInt8" => DType::U8,
        "Int16" => DType::I16,
        "UInt16" => DType::U16,
        "Int32" => DType::I32,
        // This crate writes it for truth values.
        "Bool" => DType::Bool,
        "E4M3" => {
            let reason = "E4M3 is not supported on this architecture: int8, or a palette of weights".to_string();
            return Err(Error::Unsupported { op: key.to_string(), output: entry.place.clone(), reason });
        }
        _ => {
            let (place, key, found) = (entry.place.clone(), key.to_string(), format!("`{name}`"));
            return Err(Error::WrongType { place, key, found, expected: "an element type" });
        }
    }))
}
