//! Core ML packages: the manifest, the model file and the function to read.

use super::blob::Blobs;
use super::mil::Translator;
use super::{Bytes, Files, Options, Reading};
use crate::error::Error;
use crate::mil::proto::{
    ArrayFeatureType, Extent, FeatureDescription, Function, Kind, Model, ModelDescription, NeuralNetwork, Program,
    SizeRange, TypeKind,
};
use crate::outline::{Origin, Outline};
use prost::Message;

const MANIFEST: &str = "Manifest.json";

/// Reads an `.mlpackage` through its `Manifest.json`; `files` resolves paths relative to the package.
///
/// Errors: those of [`read_mlmodel`], and a manifest that cannot be read, is not JSON or names no root model.
pub fn read_package(files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    options.without_values()?;
    let (spec, package) = open(files)?;
    options.taken_by(read_mlmodel(&spec, &package, options)?)
}

/// The MIL program of a package, with all its functions; weights stay in their files.
pub fn package_program(files: &dyn Files) -> Result<Program, Error> {
    let (spec, _) = open(files)?;
    program_of(&spec).map(|(program, _)| program)
}

/// A file of a package that its program refers to.
pub fn package_file(files: &dyn Files, path: &str) -> Result<Bytes, Error> {
    let (_, package) = open(files)?;
    package.read(path).map_err(|reason| Error::File { path: path.to_string(), reason })
}

/// The model file of a package, and the files beside it.
fn open<'a>(files: &'a dyn Files) -> Result<(Bytes, Package<'a>), Error> {
    let bytes = files.read(MANIFEST).map_err(|reason| Error::File { path: MANIFEST.to_string(), reason })?;
    let manifest: serde_json::Value = serde_json::from_slice(&bytes)
        .map_err(|e| Error::Syntax { place: MANIFEST.to_string(), reason: e.to_string() })?;
    let missing = |key: &str| Error::Missing { place: MANIFEST.to_string(), key: key.to_string() };
    let root = manifest["rootModelIdentifier"].as_str().ok_or_else(|| missing("rootModelIdentifier"))?;
    let items = manifest["itemInfoEntries"].as_object().ok_or_else(|| missing("itemInfoEntries"))?;
    let path = items.get(root).and_then(|item| item["path"].as_str()).ok_or_else(|| missing(root))?;
    let model = format!("Data/{path}");
    let spec = files.read(&model).map_err(|reason| Error::File { path: model.clone(), reason })?;
    let folder = model.rsplit_once('/').map_or("", |(folder, _)| folder).to_string();
    let items = items.values().filter_map(|item| item["path"].as_str()).map(|path| format!("Data/{path}")).collect();
    Ok((spec, Package { files, folder, items }))
}

/// Files beside the root model of a package.
struct Package<'a> {
    files: &'a dyn Files,
    /// Folder of the model file.
    folder: String,
    /// Paths of the manifest's items.
    items: Vec<String>,
}

impl Files for Package<'_> {
    /// Reads a file beside the model, or else from the manifest's item with the path's first component.
    fn read(&self, path: &str) -> Result<Bytes, String> {
        let beside = self.files.read(&format!("{}/{path}", self.folder));
        let Some((first, rest)) = path.split_once('/').filter(|_| beside.is_err()) else { return beside };
        let item = self.items.iter().find(|item| item.rsplit('/').next() == Some(first));
        item.and_then(|item| self.files.read(&format!("{item}/{rest}")).ok()).map_or(beside, Ok)
    }
}

/// Reads the ML Program in a Core ML model file; `files` resolves references of the form `@model_path/...`, without that
/// prefix.
///
/// The requested function is read, else the default one. Flexible shapes take their default, unless extents are
/// requested; image inputs are tensors `[1, C, H, W]`; both give notes. States become inputs and outputs. Compressed
/// weights keep their stored form.
///
/// Errors: a model of another kind, an operation or attribute that the graph cannot express ([`Error::Unsupported`]),
/// malformed data, and weights outside their file.
pub fn read_mlmodel(spec: &[u8], files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    let (program, description) = program_of(spec)?;
    translate(&program, &description, Blobs::new(files), options)
}

/// Reads MIL text; `files` resolves references of the form `@model_path/...`, without that prefix. Inputs with unknown extents
/// take them from the options.
pub fn read_mil(text: &[u8], files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    read_program(&mil_program(text)?, files, options)
}

fn mil_program(text: &[u8]) -> Result<Program, Error> {
    let syntax = |reason: String| Error::Syntax { place: "MIL text".to_string(), reason };
    let text = std::str::from_utf8(text).map_err(|e| syntax(e.to_string()))?;
    crate::mil::parse(text).map_err(|faults| {
        let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
        syntax(all.join("; "))
    })
}

/// Reads a function of a MIL program.
pub fn read_program(program: &Program, files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    options.taken_by(translate(program, &ModelDescription::default(), Blobs::as_compiler(files), options)?)
}

fn program_of(spec: &[u8]) -> Result<(Program, ModelDescription), Error> {
    let place = || "model".to_string();
    let model = Model::decode(spec).map_err(|e| Error::Syntax { place: place(), reason: e.to_string() })?;
    match model.kind {
        None => Err(Error::Missing { place: place(), key: "model type".to_string() }),
        Some(Kind::MlProgram(program)) => Ok((program, model.description.unwrap_or_default())),
        Some(other) => Err(other_kind(&other)),
    }
}

fn translate(
    program: &Program,
    description: &ModelDescription,
    blobs: Blobs,
    options: &Options,
) -> Result<Reading, Error> {
    let mut notes = Vec::new();
    let (name, function) = chosen_function(program, description, options, &mut notes)?;
    let features = features(description, name);
    let extents = |input: &str| {
        let feature = features.iter().find(|f| f.name == input);
        let mut shape = feature.and_then(default_shape);
        let ty = function.inputs.iter().find(|i| i.name == input)?.ty.as_ref()?;
        if let Some(TypeKind::Tensor(tensor)) = &ty.kind {
            let given =
                options.shape_of(input, function.inputs.len() == 1).filter(|s| s.len() == tensor.dimensions.len());
            let open = |a: usize| !matches!(tensor.dimensions[a].extent, Some(Extent::Constant(_)));
            let of_array = |a: usize| given.filter(|_| open(a)).map(|shape| &shape[a]);
            let asked = (0..tensor.dimensions.len())
                .map(|a| options.extents.get(&format!("{input}.{a}")).or_else(|| of_array(a)));
            let asked: Vec<Option<i64>> = asked.map(|n| n.and_then(|&n| i64::try_from(n).ok())).collect();
            if asked.iter().any(Option::is_some) {
                // If no extents are known, zeros are refused later with the input's name.
                let mut whole = shape.unwrap_or_else(|| vec![-1; asked.len()]);
                whole.iter_mut().zip(asked).for_each(|(e, a)| *e = a.unwrap_or(*e));
                shape = Some(whole);
            }
        }
        shape
    };
    let mut translator = Translator::new(name, blobs);
    translator.function(function, &extents, &mut notes)?;
    for feature in features {
        let shape = translator.build.net.inputs.iter().map(|&id| translator.build.net.value(id));
        let shape = shape.filter(|v| v.name == feature.name).map(|v| v.ty.shape.clone()).next();
        note_feature(feature, shape.as_deref(), &mut notes)?;
    }
    notes.append(&mut translator.notes);
    let net = translator.build.finish();
    if !net.states.is_empty() {
        let names: Vec<&str> = net.states.iter().map(|s| s.name.as_str()).collect();
        notes.push(format!(
            "states {}: inputs that begin as zeros, and outputs with what they become",
            names.join(", ")
        ));
    }
    Ok((net, notes))
}

/// Outline of a package; see [`outline_mlmodel`].
pub fn outline_package(files: &dyn Files, options: &Options) -> Result<Outline, Error> {
    outline_mlmodel(&open(files)?.0, options)
}

/// Outline of the ML Program in a Core ML model file, without translation and without its weights.
///
/// Errors: a model of another kind, anything malformed.
pub fn outline_mlmodel(spec: &[u8], options: &Options) -> Result<Outline, Error> {
    let (program, description) = program_of(spec)?;
    declare(&program, &description, options, Origin::Model)
}

/// Outline of MIL text; see [`outline_mlmodel`].
pub fn outline_mil(text: &[u8], options: &Options) -> Result<Outline, Error> {
    declare(&mil_program(text)?, &ModelDescription::default(), options, Origin::MilText)
}

/// Outline of a model file; `None` if its format declares no program (netplists, ONNX) or is unknown.
pub fn outline(bytes: &[u8], options: &Options) -> Option<Result<Outline, Error>> {
    match super::sniff(bytes)? {
        super::Format::MlModel => Some(outline_mlmodel(bytes, options)),
        super::Format::Mil => Some(outline_mil(bytes, options)),
        super::Format::Netplist | super::Format::Onnx => None,
    }
}

fn declare(
    program: &Program,
    description: &ModelDescription,
    options: &Options,
    origin: Origin,
) -> Result<Outline, Error> {
    let (name, function) = chosen_function(program, description, options, &mut Vec::new())?;
    let mut outline = super::outline::outline(name, function, origin);
    // Flexible inputs have their default shape, as in the reader.
    for input in &mut outline.inputs {
        let feature = features(description, name).iter().find(|f| f.name == input.name);
        if let Some(shape) = feature.and_then(default_shape).filter(|s| s.len() == input.ty.shape.len()) {
            input.ty.shape.iter_mut().zip(shape).for_each(|(d, n)| *d = d.or(usize::try_from(n).ok()));
        }
        let array = feature.and_then(|f| f.ty.as_ref()).and_then(|ty| ty.multi_array.as_ref());
        if let Some(shapes) = array.and_then(flexible) {
            let taken = input.ty.extents();
            outline.conditions.push(format!("input `{}` takes {shapes}; {taken:?} is checked", input.name));
        }
    }
    Ok(outline)
}

fn other_kind(kind: &Kind) -> Error {
    let convert = "convert it with coremltools for deployment target iOS 15 or later, which gives an ML Program";
    let layers = |what: &str, network: &NeuralNetwork| {
        let names: Vec<&str> = network.layers.iter().take(3).map(|l| l.name.as_str()).collect();
        let more = if network.layers.len() > 3 { ", ..." } else { "" };
        match names.as_slice() {
            [] => what.to_string(),
            _ => format!("{what} of {} layers ({}{more})", network.layers.len(), names.join(", ")),
        }
    };
    let (found, help) = match kind {
        Kind::NeuralNetwork(n) => (layers("neural network", n), convert),
        Kind::NeuralNetworkClassifier(n) => (layers("neural network classifier", n), convert),
        Kind::NeuralNetworkRegressor(n) => (layers("neural network regressor", n), convert),
        Kind::Pipeline(_) | Kind::PipelineClassifier(_) | Kind::PipelineRegressor(_) => {
            ("pipeline".to_string(), "extract its ML Program and read that")
        }
        Kind::SerializedModel(_) => ("serialized model".to_string(), "read the model that it was made from"),
        Kind::MlProgram(_) | Kind::CustomModel(_) => ("custom model".to_string(), "its code is not in the file"),
    };
    Error::ModelKind { found, help }
}

fn chosen_function<'a>(
    program: &'a Program,
    description: &ModelDescription,
    options: &Options,
    notes: &mut Vec<String>,
) -> Result<(&'a str, &'a Function), Error> {
    let wanted = match (&options.function, description.default_function_name.as_str()) {
        (Some(name), _) => name,
        (None, "") => "main",
        (None, name) => name,
    };
    let only = program.functions.iter().next().filter(|_| program.functions.len() == 1 && options.function.is_none());
    let found = program.functions.get_key_value(wanted).or(only);
    let names = || program.functions.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let (name, function) = found.ok_or_else(|| Error::NoFunction { name: wanted.to_string(), known: names() })?;
    if program.functions.len() > 1 && options.function.is_none() {
        notes.push(format!("the model has the functions {}; `{name}` is read", names()));
    }
    Ok((name, function))
}

/// Descriptions of the function's inputs; models with one function have them at the top.
fn features<'a>(description: &'a ModelDescription, function: &str) -> &'a [FeatureDescription] {
    let own = description.functions.iter().find(|f| f.name == function).map(|f| f.input.as_slice());
    own.unwrap_or(&description.input)
}

fn default_shape(feature: &FeatureDescription) -> Option<Vec<i64>> {
    let ty = feature.ty.as_ref()?;
    if let Some(image) = &ty.image {
        return Some(vec![1, channels(image.color_space), image.height, image.width]);
    }
    let array = ty.multi_array.as_ref()?;
    let enumerated = || array.enumerated_shapes.as_ref()?.shapes.first().map(|s| s.shape.clone());
    // The least extents in the range, but at least 1.
    let least = |r: &SizeRange| i64::try_from(r.lower_bound.max(1)).unwrap_or(i64::MAX);
    let ranged = || array.shape_range.as_ref().map(|r| r.size_ranges.iter().map(least).collect());
    if array.shape.is_empty() { enumerated().or_else(ranged) } else { Some(array.shape.clone()) }
}

/// Number of channels of a colour space; grey ones have the numbers 10 and 40.
fn channels(color_space: i32) -> i64 {
    if matches!(color_space, 10 | 40) { 1 } else { 3 }
}

/// Adds notes on an input for the caller; `shape` is the selected one. Refuses a shape that the model does not accept.
fn note_feature(feature: &FeatureDescription, shape: Option<&[usize]>, notes: &mut Vec<String>) -> Result<(), Error> {
    let name = &feature.name;
    let Some(ty) = &feature.ty else { return Ok(()) };
    if let Some(image) = &ty.image {
        let space = match image.color_space {
            10 => "8-bit grey",
            20 => "RGB",
            30 => "BGR",
            40 => "16-bit float grey",
            _ => "of unknown colour space",
        };
        notes.push(format!(
            "input `{name}` is an image, {space}, {} wide, {} high: a tensor [1, {}, {}, {}] of pixels from 0 \
             to 255 here",
            image.width,
            image.height,
            channels(image.color_space),
            image.height,
            image.width
        ));
    }
    let Some(array) = &ty.multi_array else { return Ok(()) };
    let Some(flexible) = flexible(array) else { return Ok(()) };
    let own = default_shape(feature).unwrap_or_default();
    let same = shape.is_none_or(|s| s.iter().map(|&d| d as i64).eq(own.iter().copied()));
    let read = shape.map_or_else(|| format!("{own:?}"), |s| format!("{s:?}"));
    if let Some(shape) = shape.filter(|shape| !same && !takes(array, shape)) {
        return Err(Error::InputShape { input: name.clone(), found: shape.to_vec(), takes: flexible });
    }
    let which = if same { "its default" } else { "as requested," };
    notes.push(format!("input `{name}` takes {flexible}; {which} {read} is read"));
    Ok(())
}

/// Returns true if an input with flexible shapes accepts this one.
fn takes(array: &ArrayFeatureType, shape: &[usize]) -> bool {
    let own: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
    match (&array.enumerated_shapes, &array.shape_range) {
        (Some(shapes), _) => shapes.shapes.iter().any(|s| s.shape == own) || array.shape == own,
        (None, Some(range)) => {
            let within = |(r, &n): (&SizeRange, &i64)| {
                i64::try_from(r.lower_bound).is_ok_and(|low| low <= n) && (r.upper_bound < 0 || n <= r.upper_bound)
            };
            range.size_ranges.len() == own.len() && range.size_ranges.iter().zip(&own).all(within)
        }
        (None, None) => true,
    }
}

/// Description of the shapes that an input accepts, if there are several.
fn flexible(array: &ArrayFeatureType) -> Option<String> {
    Some(match (&array.enumerated_shapes, &array.shape_range) {
        (Some(shapes), _) => {
            let few: Vec<String> = shapes.shapes.iter().take(4).map(|s| format!("{:?}", s.shape)).collect();
            let more = if shapes.shapes.len() > few.len() { ", ..." } else { "" };
            format!("one of {} shapes ({}{more})", shapes.shapes.len(), few.join(", "))
        }
        (None, Some(range)) => {
            let bound = |r: &SizeRange| match (r.lower_bound, r.upper_bound) {
                (low, high) if i64::try_from(low) == Ok(high) => low.to_string(),
                (low, high) if high < 0 => format!("{low} or more"),
                (low, high) => format!("{low} to {high}"),
            };
            let extents: Vec<String> = range.size_ranges.iter().map(bound).collect();
            format!("a range of shapes ({})", extents.join(", "))
        }
        (None, None) => return None,
    })
}
