//! Models for the runtime: any supported file becomes a bundle of the cache.

use crate::chain::written_states;
use crate::compiled::Compiled;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use crate::model::Model;
use anemone_compile::Options;
use anemone_facts::chips::{self, Chip};
use anemone_net::{DType, Net};
use anemone_program::{Element, Program, e5, hwx};
use anemone_runtime::cache::{Bundle, Function, Key, PortInfo};
use anemone_runtime::driver::sign::sha256;
use anemone_runtime::e5rt::{CompileOptions, Compiler};
use std::path::Path;

/// Compiles what [`Model::load`] reads, and networks in text form (`.net`).
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelCompiler;

/// Reads a model file, also a network in text form.
fn load(path: &Path) -> Result<Model> {
    if path.extension().is_none_or(|e| e != "net") {
        return Model::load(path);
    }
    let malformed = |e: String| Diagnostic::new(Code::Malformed, e).at(path.display());
    let text = String::from_utf8(files::read(path)?).map_err(|e| malformed(e.to_string()))?;
    let net = anemone_net::text::parse(&text, &[]).map_err(|e| malformed(e.to_string()))?;
    anemone_net::check::check(&net).map_err(|all| malformed(all.first().map_or(String::new(), |e| e.to_string())))?;
    Ok(Model::Net { net: Box::new(net), notes: Vec::new() })
}

/// The function's ports: as the network has them, or as the program does.
fn ports(program: &Program, net: Option<&Net>) -> std::result::Result<Vec<PortInfo>, String> {
    let mut out = Vec::new();
    for port in &program.ports {
        let s = port.shape;
        let value = net.and_then(|n| n.find(&port.name).map(|id| n.value(id)));
        let dtype = match value.map(|v| v.ty.dtype) {
            Some(DType::F16) => 3,
            Some(DType::F32) => 4,
            Some(DType::I32) => 7,
            Some(other) => return Err(format!("{}: {} as input or output", port.name, other.name())),
            None if port.element == Element::Float16 => 3,
            None => return Err(format!("{}: {:?} as input or output", port.name, port.element)),
        };
        let shape = match value {
            Some(v) => v.ty.shape.iter().map(|&n| n as u64).collect(),
            None => [s.n, s.c, s.h, s.w].map(u64::from).to_vec(),
        };
        let output = port.direction == anemone_program::Direction::Output;
        out.push(PortInfo { name: port.name.clone(), dtype, shape, output });
    }
    Ok(out)
}

/// SHA-256 over a network's text and its constants as they are stored.
fn content(net: &Net) -> [u8; 32] {
    let (text, blobs) = anemone_net::text::print(net);
    let mut all = text.into_bytes();
    for blob in blobs {
        let mut stored = Vec::new();
        blob.data.stored(&mut |bytes| stored.extend_from_slice(bytes));
        all.extend_from_slice(&sha256(&stored));
    }
    sha256(&all)
}

/// What a network compiles to depends on: its content, the chip, the options, and this build of the program, by size and
/// time of its file. `None` for what is compiled already, or where the build cannot be told.
pub fn key(model: &Model, chip: &Chip, options: &Options) -> Option<Key> {
    let Model::Net { net, .. } = model else { return None };
    let own = std::env::current_exe().ok()?.metadata().ok()?;
    let (system, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let build = format!("{system} {arch} {} {:?}", own.len(), own.modified().ok()?);
    let options = format!("{} {options:?}", chip.target);
    Some(Key::of(&[("net", &content(net)), ("options", options.as_bytes()), ("build", build.as_bytes())]))
}

/// The program that a bundle of the cache holds, if it is one.
pub fn program(bundle: &Bundle) -> Option<Program> {
    hwx::Container::read(&bundle.image).ok()?.program().ok()
}

impl Compiler for ModelCompiler {
    fn content(&self, model: &Path) -> std::result::Result<[u8; 32], String> {
        match load(model).map_err(|d| d.render(false))? {
            Model::Net { net, .. } => Ok(content(&net)),
            _ => Ok(sha256(&files::read(model).map_err(|d| d.render(false))?)),
        }
    }

    fn compile(&self, model: &Path, options: &CompileOptions) -> std::result::Result<Bundle, String> {
        let custom = options.custom.split([',', ' ', ';']).find_map(|o| o.strip_prefix("TargetArchitecture="));
        let target = custom.unwrap_or(&options.platform);
        let chip = chips::by_name(target).ok_or_else(|| format!("no chip is known as {target}"))?;
        let loaded = load(model).map_err(|d| d.render(false))?;
        let compiled = loaded.compile(chip, &Options::default(), &mut ()).map_err(|d| d.render(false))?;
        bundle(&compiled, chip)
    }
}

/// A compiled model as a bundle.
pub fn bundle(compiled: &Compiled, chip: &Chip) -> std::result::Result<Bundle, String> {
    let Compiled { program, net } = compiled;
    let target = chip.layout.map_or(String::new(), |_| chip.target.to_string());
    let image = hwx::from_program(program, &hwx::Options { target, ..hwx::Options::default() })
        .map_err(|e| e.to_string())?
        .write();
    let info = e5::Info { function: "main".into(), ..e5::Info::default() };
    let call = e5::Call { program, container: &image };
    let states = net.as_deref().map(written_states).unwrap_or_default();
    let descriptor = e5::from_calls(&[call], &states, &info).write();
    let function = Function { name: "main".into(), ports: ports(program, net.as_deref())? };
    Ok(Bundle { image, descriptor, function })
}
