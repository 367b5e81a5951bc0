//! Conversion of models to other forms, and compression of their weights with its cost.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files::{self, Folder};
use crate::model::{Choices, Model, program_of_text};
use anemone_net::compress::{Method, Summary, compress};
use anemone_net::read::Files;
use anemone_net::{Data, Net, Tensor, draw, eval, loops, mil, netplist, read};
use std::path::{Path, PathBuf};

/// Forms that a network can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NetForm {
    Mil,
    Netplist,
    /// A netplist of schema 1.0.9.
    NetplistFlat,
    Mlpackage,
    Dot,
    Json,
}

impl NetForm {
    /// Every form with its name and the extension of its file.
    pub const ALL: [(NetForm, &'static str, &'static str); 6] = [
        (NetForm::Mil, "mil", "mil"),
        (NetForm::Netplist, "netplist", "plist"),
        (NetForm::NetplistFlat, "netplist-1.0.9", "plist"),
        (NetForm::Mlpackage, "mlpackage", "mlpackage"),
        (NetForm::Dot, "dot", "dot"),
        (NetForm::Json, "json", "json"),
    ];

    /// The form of that name, or of files with that extension.
    pub fn of(text: &str) -> Option<NetForm> {
        NetForm::ALL.iter().find(|(_, name, extension)| *name == text || *extension == text).map(|row| row.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        NetForm::ALL.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }
}

/// One file of a form: its path relative to the destination (empty for the destination itself) and its bytes.
pub type Part = (PathBuf, Vec<u8>);

/// The network in a form. MIL text has its weights in `weights/weight.bin` beside it, a netplist in `net.weights`.
pub fn encode(net: &Net, form: NetForm) -> Result<Vec<Part>> {
    let refused = |e: anemone_net::Error| match e {
        anemone_net::Error::Unsupported { .. } => Diagnostic::new(Code::UnsupportedOp, e.to_string())
            .help("use another form: mil and mlpackage support the most"),
        e => Diagnostic::new(Code::Defect, e.to_string()),
    };
    let own = PathBuf::new;
    if loops::any(net) {
        return encode(&loops::unrolled(net).map_err(refused)?, form);
    }
    Ok(match form {
        NetForm::Dot => vec![(own(), draw::dot(net).into_bytes())],
        NetForm::Json => vec![(own(), format!("{:#}\n", draw::json(net)).into_bytes())],
        NetForm::Netplist | NetForm::NetplistFlat => {
            let version =
                if form == NetForm::Netplist { netplist::Version::Procedures } else { netplist::Version::Flat };
            let (xml, weights) = netplist::write_as(net, version).map_err(refused)?;
            vec![(own(), xml), (Path::new("..").join(netplist::WEIGHTS), weights)]
        }
        NetForm::Mil => {
            let written = mil::write(net).map_err(refused)?;
            let text = mil::print(&written.program).into_bytes();
            vec![(own(), text), (Path::new("../weights/weight.bin").into(), written.weights)]
        }
        NetForm::Mlpackage => {
            let written = mil::write(net).map_err(refused)?;
            let model = mil::model(net, &written);
            let data = Path::new("Data/com.apple.CoreML");
            vec![
                ("Manifest.json".into(), mil::manifest().into_bytes()),
                (data.join("model.mlmodel"), model),
                (data.join("weights/weight.bin"), written.weights),
            ]
        }
    })
}

/// The MIL program in a file, if it has one, without translation.
pub fn program(path: &Path) -> Result<Option<mil::Program>> {
    let malformed = |e: anemone_net::Error| Diagnostic::new(Code::Malformed, e.to_string()).at(path.display());
    if path.is_dir() {
        return read::package_program(&Folder::new(path)).map(Some).map_err(malformed);
    }
    let bytes = files::read(path)?;
    match read::sniff(&bytes) {
        Some(read::Format::Mil) => program_of_text(path, bytes).map(Some),
        _ => Ok(None),
    }
}

/// Files with a program's constants that exist, each with its path beside the text, and the names of missing ones.
pub fn constants(model: &Path, names: &[String]) -> (Vec<Part>, Vec<String>) {
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    let beside = model.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for name in names {
        let bytes = match model.is_dir() {
            true => read::package_file(&Folder::new(model), name).ok(),
            false => Folder::new(beside).read(name).ok(),
        };
        match bytes {
            Some(bytes) => parts.push((Path::new("..").join(name), bytes.to_vec())),
            None => missing.push(name.clone()),
        }
    }
    (parts, missing)
}

/// Cost of compression: size of the weights and error of the result.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Number of constants and their sizes.
    pub summary: Summary,
    /// Root mean square change of all outputs relative to that of the outputs, on random inputs.
    pub relative_error: f32,
    /// Largest change of an output relative to the largest output.
    pub largest_error: f32,
}

/// Compresses the weights and evaluates the network before and after, on random inputs from `seed`.
pub fn shrink(net: &mut Net, method: Method, seed: u64) -> Result<Cost> {
    let failed = |e: anemone_net::Error| Diagnostic::new(Code::Usage, e.to_string());
    let inputs = random_inputs(net, seed);
    let before = eval::eval(net, &inputs).map_err(failed)?;
    let summary = compress(net, method).map_err(failed)?;
    let after = eval::eval(net, &inputs).map_err(failed)?;
    let (mut change, mut size, mut worst, mut largest) = (0f64, 0f64, 0f32, 0f32);
    for (a, b) in before.iter().zip(&after) {
        for (x, y) in a.data.to_f32().into_iter().zip(b.data.to_f32()) {
            change += f64::from(x - y).powi(2);
            size += f64::from(x).powi(2);
            worst = worst.max((x - y).abs());
            largest = largest.max(x.abs());
        }
    }
    let share = |a: f64, b: f64| if b > 0.0 { (a / b) as f32 } else { 0.0 };
    let relative_error = share(change.sqrt(), size.sqrt());
    Ok(Cost { summary, relative_error, largest_error: share(worst.into(), largest.into()) })
}

/// Random inputs from a seed: floats in -1..1, small integers, zeros for states.
pub fn random_inputs(net: &Net, seed: u64) -> Vec<Tensor> {
    let input = |(i, &id): (usize, &anemone_net::ValueId)| {
        let ty = &net.value(id).ty;
        let state = net.states.iter().any(|s| s.input == id);
        let values = match state {
            true => vec![0.0; ty.elements()],
            false => crate::tensor::random_as(ty.dtype, seed.wrapping_add(i as u64), ty.elements()),
        };
        let data = if ty.dtype.is_float() { Data::F32(values) } else { Data::from_f32(ty.dtype, &values) };
        Tensor { shape: ty.shape.clone(), data }
    };
    net.inputs.iter().enumerate().map(input).collect()
}

/// Reads a model that is a network.
pub fn network(path: &Path, choices: &Choices) -> Result<(Net, Vec<String>)> {
    match Model::load_with(path, choices)? {
        Model::Net { net, notes } => Ok((*net, notes)),
        _ => Err(Diagnostic::new(Code::Usage, "the file is a compiled program, not a network").at(path.display())),
    }
}
