//! Compiler of models for the runtime: any supported file becomes a bundle of the cache, with host segments for operations without an engine path.

use crate::chain::ProgramChain;
use crate::check;
use crate::compiled::Compiled;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files;
use crate::model::{Choices, Model};
use crate::procedures;
use crate::watch;
use anemone_compile::Error::Stopped;
use anemone_compile::{Activations, Compat, Convention, Options};
use anemone_facts::chips::Chip;
use anemone_facts::silicon;
use anemone_net::{DType, Net};
use anemone_program::{Direction, Element, Program, e5, hwx};
use anemone_runtime::cache::{Bundle, Function, Image, Key, PortInfo, hex};
use anemone_runtime::driver::sign::{sha256, sha256_of};
use anemone_runtime::e5rt::{CompileOptions, Compiler, Step, Watcher};
use rayon::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// Compiles models of [`Model::load`], and networks in text form (`.net`).
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelCompiler;

/// Reads a model file, or a network in text form.
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

/// Code of an element type that a function's port may have.
fn port_code(name: &str, dtype: DType) -> std::result::Result<u8, String> {
    match dtype {
        DType::F16 => Ok(3),
        DType::F32 => Ok(4),
        DType::I32 => Ok(7),
        DType::Bool | DType::I8 | DType::U8 | DType::I16 | DType::U16 => {
            Err(format!("{name}: {} as input or output", dtype.name()))
        }
    }
}

/// The function's ports: from the network, or from programs and host segments.
fn ports(chain: &ProgramChain, net: Option<&Net>) -> std::result::Result<Vec<PortInfo>, String> {
    let mut out = Vec::new();
    for direction in [Direction::Input, Direction::Output] {
        for port in chain.ports(direction) {
            let own = net.and_then(|n| n.find(&port.name).map(|id| &n.value(id).ty)).or(chain.declared(&port.name));
            let dtype = match own {
                Some(ty) => port_code(&port.name, ty.dtype)?,
                None if port.element == Element::Float16 => 3,
                None => return Err(format!("{}: {:?} as input or output", port.name, port.element)),
            };
            let shape = match own {
                Some(ty) => ty.shape.iter().map(|&n| n as u64).collect(),
                None => port.extents().into_iter().map(u64::from).collect(),
            };
            let output = direction == Direction::Output;
            out.push(PortInfo { name: port.name.clone(), dtype, shape, output });
        }
    }
    Ok(out)
}

/// SHA-256 over a network's text and its constants in stored form.
fn content(net: &Net) -> [u8; 32] {
    let (text, blobs) = anemone_net::text::print(net);
    // Most of the time to a first result with a warm cache: on all threads, and without a copy of weights in a mapped file.
    let digests: Vec<[u8; 32]> = blobs.par_iter().map(|blob| sha256_of(|sink| blob.data.stored(sink))).collect();
    sha256(&[text.into_bytes(), digests.concat()].concat())
}

/// Cache key of a compilation: the network's content, the chip, the options, and the digest of the compiler's sources.
/// `None` for compiled models.
pub fn key(model: &Model, chip: &Chip, options: &Options) -> Option<Key> {
    let Model::Net { net, .. } = model else { return None };
    let options = format!("{} {options:?}", chip.target);
    Some(Key::of(&[
        ("net", &content(net)),
        ("options", options.as_bytes()),
        ("build", anemone_compile::sources().as_bytes()),
    ]))
}

/// The program in a bundle of the cache, if it has exactly one.
pub fn program(bundle: &Bundle) -> Option<Program> {
    let [image] = bundle.images.as_slice() else { return None };
    hwx::Container::read(image).ok()?.program().ok()
}

const COMPATS: [(&str, Compat); 2] = [("zin-4.2.1", Compat::Zin421), ("zin-9.509", Compat::Zin9509)];
const ACTIVATIONS: [(&str, Activations); 3] =
    [("fused", Activations::Fused), ("accurate", Activations::Accurate), ("auto", Activations::Auto)];
const CONVENTIONS: [(&str, Convention); 2] = [("samples", Convention::Samples), ("book", Convention::Book)];

/// Options of the compiler as a request states them behind its target: ` Key=value` for each that is no default.
pub fn custom(options: &Options) -> String {
    fn pair<T: PartialEq + Default>(key: &str, names: &[(&str, T)], value: &T) -> String {
        let name = names.iter().find(|(_, known)| known == value && *value != T::default());
        name.map_or(String::new(), |(name, _)| format!(" {key}={name}"))
    }
    pair("Compat", &COMPATS, &options.compat)
        + &pair("Activations", &ACTIVATIONS, &options.activations)
        + &pair("Convention", &CONVENTIONS, &options.convention)
}

/// Reads what [`custom`] writes; other keys are Apple's and have no effect. Errors: a value that its key does not have.
fn options(custom: &str) -> std::result::Result<Options, String> {
    fn named<T: Copy>(key: &str, names: &[(&str, T)], value: &str) -> std::result::Result<T, String> {
        let found = names.iter().find(|(name, _)| *name == value);
        let all = || names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        found.map(|(_, value)| *value).ok_or_else(|| format!("{key}={value}: the values are {}", all()))
    }
    let mut options = Options::default();
    for (key, value) in custom.split([',', ' ', ';']).filter_map(|pair| pair.split_once('=')) {
        match key {
            "Compat" => options.compat = named(key, &COMPATS, value)?,
            "Activations" => options.activations = named(key, &ACTIVATIONS, value)?,
            "Convention" => options.convention = named(key, &CONVENTIONS, value)?,
            _ => {}
        }
    }
    Ok(options)
}

impl Compiler for ModelCompiler {
    fn compile_watched(
        &self,
        model: &Path,
        options: &CompileOptions,
        watcher: &Watcher,
    ) -> std::result::Result<Bundle, String> {
        let (teller, stopper) = (watcher.clone(), watcher.clone());
        let tell = move |p: anemone_compile::Progress| {
            teller.tell(Step::Compile { done: p.done as u64, all: p.layers as u64 });
        };
        let watcher = watch::Watcher { tell: Arc::new(tell), stopped: Arc::new(move || stopper.stopped()) };
        watch::watched(watcher, || self.compile(model, options))
    }

    fn content(&self, model: &Path) -> std::result::Result<[u8; 32], String> {
        let choices = Choices::default();
        let names = procedures::several(model, &choices).unwrap_or_default();
        match load(model).map_err(|d| d.render(false))? {
            // The content includes all procedures of a netplist.
            Model::Net { .. } if !names.is_empty() => {
                let nets = procedures::networks(model, &choices, &names).map_err(|d| d.render(false))?;
                let named = |(net, _): &(Net, _)| [net.name.as_bytes(), &content(net)].concat();
                let all: Vec<u8> = nets.iter().flat_map(named).collect();
                Ok(sha256(&[&all, anemone_compile::sources().as_bytes()].concat()))
            }
            Model::Net { net, .. } => Ok(sha256(&[&content(&net)[..], anemone_compile::sources().as_bytes()].concat())),
            _ => Ok(sha256(&files::read(model).map_err(|d| d.render(false))?)),
        }
    }

    fn compile(&self, model: &Path, asked: &CompileOptions) -> std::result::Result<Bundle, String> {
        let compiler = options(&asked.custom)?;
        let custom = asked.custom.split([',', ' ', ';']).find_map(|o| o.strip_prefix("TargetArchitecture="));
        let target = custom.unwrap_or(&asked.platform);
        let chip = silicon::by_name(target).ok_or_else(|| format!("no chip is known as {target}"))?;
        if asked.strict {
            let refused = check::refused(model, &Choices::default(), chip, true).map_err(|d| d.render(false))?;
            refused.first.map_or(Ok(()), |d| Err(d.render(false)))?;
        }
        let several = procedures::chains(model, chip, &compiler).map_err(|d| d.render(false))?;
        if let Some(chains) = several {
            return bundle_of_procedures(&chains, chip);
        }
        let loaded = load(model).map_err(|d| d.render(false))?;
        let engine_only = asked.strict || asked.segmenter == ENGINE_ONLY;
        let (mut chain, net) = match loaded {
            Model::Net { net, .. } if !engine_only => {
                let chain = ProgramChain::whole(&net, chip, &compiler).map_err(|d| d.render(false))?.0;
                (chain, Some(net))
            }
            other => other.chain(model, chip, &compiler).map_err(|d| d.render(false))?,
        };
        bundle_of(&mut chain, net.as_deref(), chip)
    }
}

/// Name of the segmenter without host segments, which refuses operations without an engine path.
pub const ENGINE_ONLY: &str = "engine-only";

/// A compiled model as a bundle.
pub fn bundle(compiled: &Compiled, chip: &Chip) -> std::result::Result<Bundle, String> {
    let Compiled { program, net } = compiled;
    let mut chain = match net {
        Some(net) => ProgramChain::of_network(net, program.clone()),
        None => ProgramChain::from(program.clone()),
    };
    bundle_of(&mut chain, net.as_deref(), chip)
}

/// Procedures as a bundle: one image with all of them, and a function for each. The descriptor is that of the first.
fn bundle_of_procedures(chains: &[(ProgramChain, Option<Net>)], chip: &Chip) -> std::result::Result<Bundle, String> {
    let target = chip.layout.map_or(String::new(), |_| chip.target.to_string());
    let options = hwx::Options { target, ..hwx::Options::default() };
    let programs: Vec<Program> = chains.iter().flat_map(|(chain, _)| chain.programs()).cloned().collect();
    let image = hwx::from_programs(&programs, &options).map_err(|e| e.to_string())?.write();
    let function = |((chain, net), program): (&(ProgramChain, Option<Net>), &Program)| {
        let ports = ports(chain, net.as_ref())?;
        Ok(Function { name: program.name.clone(), ports, further: Vec::new() })
    };
    let functions = chains.iter().zip(&programs).map(function).collect::<std::result::Result<Vec<_>, String>>()?;
    let mut functions = functions.into_iter();
    let mut function = functions.next().unwrap_or_default();
    function.further = functions.collect();
    let (first, images) = (&chains[0].0, vec![image]);
    let info = e5::Info { function: function.name.clone(), counted: first.counted().to_vec(), ..e5::Info::default() };
    let steps = first.steps(&images, &[]);
    let descriptor = e5::from_steps(&steps, first.inputs(), first.states(), &info).write();
    Ok(Bundle { images: images.into_iter().map(Image::from).collect(), descriptor, function })
}

/// The chain of a bundle, whose images have its kernel data; `path` is its model.
pub fn chain(path: &Path, bundle: &Bundle) -> Result<ProgramChain> {
    let malformed = |e: &dyn std::fmt::Display| Diagnostic::new(Code::Malformed, e.to_string()).at(path.display());
    let descriptor = e5::Descriptor::read(&bundle.descriptor).map_err(|e| malformed(&e))?;
    ProgramChain::described(path, &descriptor, &mut |call| {
        let image = bundle.images.iter().find(|image| hex(&image.hash()) == call.hash);
        let image = image.ok_or_else(|| malformed(&format!("{}: no image has the hash {}", call.name, call.hash)))?;
        let container = hwx::Container::read_shared(image).map_err(|e| malformed(&e))?;
        container.program().map_err(|e| malformed(&e))
    })
}

/// A chain as a bundle. Kernel data moves from the chain to the images.
pub fn bundle_of(chain: &mut ProgramChain, net: Option<&Net>, chip: &Chip) -> std::result::Result<Bundle, String> {
    let target = chip.layout.map_or(String::new(), |_| chip.target.to_string());
    let options = hwx::Options { target, ..hwx::Options::default() };
    let wanted = || if watch::stopped() { Err(Stopped.to_string()) } else { Ok(()) };
    let image = |program: &Program| {
        wanted()?;
        let pieces = hwx::to_file(program, &options).map_err(|e| e.to_string())?;
        wanted()?;
        let image = Image::from(files::joined(&pieces));
        wanted()?;
        Ok(image)
    };
    let images = chain.programs().iter().map(image).collect::<std::result::Result<Vec<_>, String>>()?;
    chain.strip();
    files::release();
    let hosts = chain.host_calls();
    let outputs = if images.len() == 1 && hosts.is_empty() { Vec::new() } else { chain.outputs().to_vec() };
    let counted = chain.counted().to_vec();
    let info = e5::Info { function: "main".into(), outputs, counted, ..e5::Info::default() };
    let steps = chain.steps(&images, &hosts);
    let descriptor = e5::from_steps(&steps, chain.inputs(), chain.states(), &info).write();
    let function = Function { name: "main".into(), ports: ports(chain, net)?, further: Vec::new() };
    Ok(Bundle { images, descriptor, function })
}
