//! Core ML packages: the manifest, the model file and the function to read.

use super::blob::Blobs;
use super::mil::Builder;
use super::proto::{ArrayFeatureType, FeatureDescription, Function, Kind, Model, ModelDescription, Program};
use super::{Files, Reading};
use crate::error::Error;
use prost::Message;

const MANIFEST: &str = "Manifest.json";

/// Reads an `.mlpackage` through its `Manifest.json`; `files` gives paths relative to the package.
///
/// Errors: what [`read_mlmodel`] gives, and a manifest that cannot be read, is no JSON or names no root model.
pub fn read_package(files: &dyn Files) -> Result<Reading, Error> {
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
    read_mlmodel(&spec, &Package { files, folder, items })
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
    /// Looks beside the model first, then in the manifest's item of the path's first name.
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let beside = self.files.read(&format!("{}/{path}", self.folder));
        let Some((first, rest)) = path.split_once('/').filter(|_| beside.is_err()) else { return beside };
        let item = self.items.iter().find(|item| item.rsplit('/').next() == Some(first));
        item.and_then(|item| self.files.read(&format!("{item}/{rest}")).ok()).map_or(beside, Ok)
    }
}

/// Reads the ML Program in a Core ML model file; `files` gives what it refers to as `@model_path/...`, without that
/// prefix.
///
/// The default function is taken. Flexible shapes take their default, image inputs are tensors `[1, C, H, W]`; both
/// are noted. Weights stored compressed are decompressed.
///
/// Errors: a model of another kind, an operation or attribute that the graph cannot express ([`Error::Unsupported`]),
/// anything malformed, and weights outside their file.
pub fn read_mlmodel(spec: &[u8], files: &dyn Files) -> Result<Reading, Error> {
    let place = || "model".to_string();
    let model = Model::decode(spec).map_err(|e| Error::Syntax { place: place(), reason: e.to_string() })?;
    let description = model.description.unwrap_or_default();
    let Some(kind) = model.kind else {
        return Err(Error::Missing { place: place(), key: "model type".to_string() });
    };
    let program = match kind {
        Kind::MlProgram(program) => program,
        other => return Err(other_kind(&other)),
    };
    let mut notes = Vec::new();
    let (name, function) = default_function(&program, &description, &mut notes)?;
    let features = features(&description, name);
    let defaults = |input: &str| {
        let feature = features.iter().find(|f| f.name == input)?;
        default_shape(feature)
    };
    let mut builder = Builder::new(name, Blobs::new(files));
    builder.function(function, &defaults, &mut notes)?;
    for feature in features {
        note_feature(feature, &mut notes);
    }
    notes.append(&mut builder.notes);
    Ok((builder.net, notes))
}

fn other_kind(kind: &Kind) -> Error {
    let convert = "convert it with coremltools for deployment target iOS 15 or later, which gives an ML Program";
    let (found, help) = match kind {
        Kind::NeuralNetwork(_) => ("neural network", convert),
        Kind::NeuralNetworkClassifier(_) => ("neural network classifier", convert),
        Kind::NeuralNetworkRegressor(_) => ("neural network regressor", convert),
        Kind::Pipeline(_) | Kind::PipelineClassifier(_) | Kind::PipelineRegressor(_) => {
            ("pipeline", "take its ML Program out and read that alone")
        }
        Kind::SerializedModel(_) => ("serialized model", "give the model it was made from"),
        Kind::MlProgram(_) | Kind::CustomModel(_) => ("custom model", "its code is not in the file"),
    };
    Error::ModelKind { found, help }
}

fn default_function<'a>(
    program: &'a Program,
    description: &ModelDescription,
    notes: &mut Vec<String>,
) -> Result<(&'a str, &'a Function), Error> {
    let wanted = match description.default_function_name.as_str() {
        "" => "main",
        name => name,
    };
    let only = program.functions.iter().next().filter(|_| program.functions.len() == 1);
    let found = program.functions.get_key_value(wanted).or(only);
    let (name, function) = found.ok_or(Error::Missing { place: "functions".to_string(), key: wanted.to_string() })?;
    if program.functions.len() > 1 {
        notes.push(format!("the model has {} functions; `{name}` is read", program.functions.len()));
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
    if array.shape.is_empty() { enumerated() } else { Some(array.shape.clone()) }
}

/// Channels of a colour space: grey ones have the numbers 10 and 40.
fn channels(color_space: i32) -> i64 {
    if matches!(color_space, 10 | 40) { 1 } else { 3 }
}

fn note_feature(feature: &FeatureDescription, notes: &mut Vec<String>) {
    let name = &feature.name;
    let Some(ty) = &feature.ty else { return };
    if let Some(image) = &ty.image {
        let space = match image.color_space {
            10 => "8-bit grey",
            20 => "RGB",
            30 => "BGR",
            40 => "16-bit float grey",
            _ => "of unknown colour space",
        };
        notes.push(format!(
            "input `{name}` is an image, {space}, {} wide, {} high: a tensor [1, {}, {}, {}] here; scaling and bias of \
             pixels are the caller's",
            image.width,
            image.height,
            channels(image.color_space),
            image.height,
            image.width
        ));
    }
    if let Some(ArrayFeatureType { shape, enumerated_shapes, shape_range, .. }) = &ty.multi_array
        && (enumerated_shapes.is_some() || shape_range.is_some())
    {
        let flexible = match enumerated_shapes {
            Some(shapes) => format!("one of {} shapes", shapes.shapes.len()),
            None => "a range of shapes".to_string(),
        };
        notes.push(format!("input `{name}` takes {flexible}; its default {shape:?} is read"));
    }
}
