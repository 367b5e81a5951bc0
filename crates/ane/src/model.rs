//! Any supported file: a network to compile, or a compiled program. The content decides the kind first.

use crate::diagnostic::{Code, Details, Diagnostic, Result, Source};
use crate::files::{self, Folder};
use crate::native;
use anemone_facts::formats;
use anemone_net::Net;
use anemone_net::read::{self, Bytes};
use anemone_program::e5::Descriptor;
use anemone_program::firmware::Package;
use anemone_program::hwx::{self, Container};
use anemone_program::task::image;
use anemone_program::{Program, raw};
use std::path::{Path, PathBuf};

/// Content of a model file.
#[derive(Debug)]
pub enum Model {
    /// A network, and the notes of its reader.
    Net {
        /// The network, checked.
        net: Box<Net>,
        /// Decisions of the reader, such as a default among flexible shapes.
        notes: Vec<String>,
    },
    /// A compiled container.
    Container(Box<Container>),
    /// A raw task stream with kernel data.
    Program(Box<Program>),
    /// A dispatch descriptor, which refers to programs.
    Descriptor(Box<Descriptor>),
    /// A firmware container.
    Package(Box<Package>),
}

/// First bytes of a compiled container, little-endian `0xbeefface`.
const HWX_MAGIC: [u8; 4] = formats::hwx::MAGIC.to_le_bytes();
/// First bytes of a firmware container.
const FIRMWARE_MAGIC: [u8; 4] = formats::firmware::PACKAGE_MAGIC.to_le_bytes();

/// Supported kinds of files, for advice.
const KNOWN: &str = "known: Core ML packages (.mlpackage) and models (.mlmodel), MIL text (.mil), ONNX (.onnx), netplists \
                     (.plist), and compiled programs (.hwx, .anec, .bin, .e5, .anefw, .loaded)";

/// Options of a caller for a model.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Function and extents.
    pub options: read::Options,
    /// Folder that MIL text calls `@model_path`, if it is not the file's own.
    pub model_root: Option<PathBuf>,
}

/// Kinds of files, by content, or by name if the content is ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hwx,
    E5,
    Firmware,
    Anec,
    Bin,
    Net,
    /// The register image of descriptor version 10, which is not a task stream.
    Image,
    Unknown,
}

impl Kind {
    /// Decides by content first. Raw streams have no magic number: they are recognized by consistency.
    fn of(bytes: &[u8], extension: &str) -> Kind {
        if bytes.starts_with(&HWX_MAGIC) {
            return Kind::Hwx;
        }
        if bytes.starts_with(&FIRMWARE_MAGIC) {
            return Kind::Firmware;
        }
        if bytes.get(formats::e5::ROOT_VTABLE_OFFSET..).is_some_and(|b| b.starts_with(&formats::e5::ROOT_VTABLE)) {
            return Kind::E5;
        }
        let named = match extension {
            "hwx" | "loaded" => Kind::Hwx,
            "anec" | "ane" => Kind::Anec,
            "bin" => Kind::Bin,
            "e5" => Kind::E5,
            "anefw" => Kind::Firmware,
            "mlmodel" | "plist" | "mil" | "onnx" => Kind::Net,
            _ => Kind::Unknown,
        };
        let sniffed = read::sniff(bytes);
        match named {
            _ if matches!(sniffed, Some(read::Format::Netplist | read::Format::Mil)) => Kind::Net,
            // An image is recognized by its size alone, which a network may have.
            named if named != Kind::Net && (image::is_image(bytes) || image::is_records(bytes)) => Kind::Image,
            _ if raw::read_anec(bytes).is_ok() => Kind::Anec,
            Kind::Net => named,
            _ if raw::read_bin(bytes).is_ok() => Kind::Bin,
            // A Core ML model is recognized by a single byte, which is less reliable than a name.
            Kind::Unknown if sniffed.is_some() => Kind::Net,
            named => named,
        }
    }
}

impl Model {
    /// Reads a file or package, as [`Model::load_with`] with default options.
    pub fn load(path: &Path) -> Result<Model> {
        Model::load_with(path, &Choices::default())
    }

    /// Reads a file or package.
    pub fn load_with(path: &Path, choices: &Choices) -> Result<Model> {
        let options = &choices.options;
        if path.is_dir() {
            // A compiled Core ML model, as in an application.
            let text = path.join("model.mil");
            if text.exists() {
                return Model::load_with(&text, choices);
            }
            if !path.join("Manifest.json").exists() {
                if path.join("model.espresso.net").exists() {
                    let message =
                        "a compiled Core ML model without MIL text: its network is in the older form espresso";
                    return Err(Diagnostic::new(Code::Malformed, message)
                        .at(path.display())
                        .help("give the .mlpackage or .mlmodel that it was compiled from"));
                }
                let message = "a folder without Manifest.json: not a model package";
                return Err(Diagnostic::new(Code::Malformed, message).at(path.display()).help(KNOWN));
            }
            return Model::read_package(path, &Folder::new(path), options);
        }
        let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let files = Folder::new(choices.model_root.as_deref().unwrap_or(beside));
        Model::read(path, files::mapped(path)?, &files, options)
    }

    /// Reads a model package from `files`; `path` is its name in messages.
    pub fn read_package(path: &Path, files: &dyn read::Files, options: &read::Options) -> Result<Model> {
        checked(path, read::read_package(files, options))
    }

    /// Reads a file's bytes. `path` is its name in messages, and its extension decides if the content is ambiguous; `files` provides
    /// the files that the content refers to.
    pub fn read(path: &Path, bytes: Bytes, files: &dyn read::Files, options: &read::Options) -> Result<Model> {
        if bytes.is_empty() {
            return Err(Diagnostic::new(Code::Malformed, "the file is empty").at(path.display()));
        }
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        match Kind::of(&bytes, &extension) {
            Kind::Hwx if hwx::is_loaded(&bytes) => {
                let image = hwx::Image::read_signed(&bytes).map_err(|e| malformed(path, e))?;
                let container = image.to_file().map_err(|e| malformed(path, e))?;
                Ok(Model::Container(Box::new(container)))
            }
            Kind::Hwx => {
                let container = Container::read_shared(&bytes).map_err(|e| malformed(path, e))?;
                if let Some(name) = &options.function {
                    refuse_unloadable(&container).map_err(|d| d.or_at(path.display()))?;
                    let program = container.program_of(name).map_err(|e| malformed(path, e))?;
                    return Ok(Model::Program(Box::new(program)));
                }
                Ok(Model::Container(Box::new(container)))
            }
            Kind::Anec | Kind::Bin | Kind::E5 | Kind::Firmware if options.function.is_some() => {
                let name = options.function.as_deref().unwrap_or_default();
                let message = format!("no function is called `{name}`: this form has a single, unnamed one");
                Err(Diagnostic::new(Code::Usage, message).at(path.display()).help("omit --function"))
            }
            Kind::Anec => Ok(Model::Program(Box::new(raw::read_anec(&bytes).map_err(|e| malformed(path, e))?))),
            Kind::Bin => Ok(Model::Program(Box::new(raw::read_bin(&bytes).map_err(|e| malformed(path, e))?))),
            Kind::E5 => Ok(Model::Descriptor(Box::new(Descriptor::read(&bytes).map_err(|e| malformed(path, e))?))),
            Kind::Firmware => Ok(Model::Package(Box::new(Package::read(&bytes).map_err(|e| malformed(path, e))?))),
            Kind::Net => {
                if read::sniff(&bytes) == Some(read::Format::Mil) || extension == "mil" {
                    let program = program_of_text(path, bytes.into())?;
                    return checked(path, read::read_program(&program, files, options));
                }
                checked(path, read::read_shared(&bytes, files, options))
            }
            Kind::Image => Err(Diagnostic::new(
                Code::UnsupportedOp,
                "the register image of a descriptor of version 10: it can be listed and patched, not executed",
            )
            .at(path.display())
            .help("ane dump FILE --image lists it")),
            Kind::Unknown => {
                let start: String = bytes.iter().take(4).map(|byte| format!(" {byte:02x}")).collect();
                let message = format!("unknown type of file: its first bytes are{start}");
                Err(Diagnostic::new(Code::Malformed, message).at(path.display()).help(KNOWN))
            }
        }
    }
}

/// Refuses a container with records that the driver refuses at load.
pub(crate) fn refuse_unloadable(container: &Container) -> Result<()> {
    let Some(first) = container.load_findings().into_iter().next() else { return Ok(()) };
    let message = format!("refused at load by {}: record at {:#x}: {}", first.function, first.offset, first.message);
    Err(Diagnostic::new(Code::Malformed, message).help("`ane check FILE` lists every record that a load refuses"))
}

/// Parses MIL text to a program; errors point into the text.
pub fn program_of_text(path: &Path, bytes: Vec<u8>) -> Result<anemone_net::mil::Program> {
    let text = String::from_utf8(bytes).map_err(|e| malformed(path, format!("MIL text: {e}")))?;
    anemone_net::mil::parse(&text).map_err(|faults| {
        let more = if faults.len() > 1 { format!(" (and {} more)", faults.len() - 1) } else { String::new() };
        let message = format!("MIL text: {}{more}", faults[0]);
        let marks = faults.iter().map(|f| (f.start..f.end, f.line, f.column, format!("expected {}", f.expected)));
        let source = Source { path: path.display().to_string(), marks: marks.collect(), text };
        Diagnostic::new(Code::Malformed, message).at(path.display()).pointing(source)
    })
}

fn malformed(path: &Path, error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::Malformed, error.to_string()).at(path.display())
}

fn checked(path: &Path, reading: std::result::Result<(Net, Vec<String>), anemone_net::Error>) -> Result<Model> {
    let (net, mut notes) = reading.map_err(|e| match e {
        anemone_net::Error::Unsupported { ref op, ref output, ref reason } => {
            let unreachable = native::unreachable(op);
            let found = Some(unreachable.clone().unwrap_or_else(|| reason.clone()));
            let details =
                Box::new(Details { op: Some(op.clone()), output: Some(output.clone()), found, ..Details::default() });
            let message = unreachable.map_or_else(|| e.to_string(), |why| format!("`{output}`: {why}"));
            let refused = Diagnostic::new(Code::UnsupportedOp, message)
                .at(path.display())
                .help("keep this operation on the host, or rewrite it with supported operations");
            Diagnostic { details: Some(details), ..refused }
        }
        anemone_net::Error::NoExtent { ref name, .. } => {
            malformed(path, &e).help(format!("--dim {name}=1, or another extent"))
        }
        anemone_net::Error::OtherExtent { .. } => Diagnostic::new(Code::Usage, e.to_string())
            .at(path.display())
            .help("--shape INPUT=1,3,224,224 and --dim INPUT.AXIS=N take inputs of the model"),
        anemone_net::Error::ExtentsDiffer { .. } => Diagnostic::new(Code::BadTensor, e.to_string()).at(path.display()),
        anemone_net::Error::File { path: ref file, .. } => {
            malformed(path, &e).help(format!("`{file}` is expected beside the model: copy it there"))
        }
        e => match native::contract(&e) {
            Some(contract) => malformed(path, e).help(contract),
            None => malformed(path, e),
        },
    })?;
    match anemone_net::check::check(&net) {
        Ok(()) => {
            notes.extend(native::unsubtracted(&net));
            Ok(Model::Net { net: Box::new(net), notes })
        }
        Err(errors) => {
            let text: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
            Err(malformed(path, text.join("; ")))
        }
    }
}
