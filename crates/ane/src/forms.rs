//! Compiled forms: encoding of a program in each of them.

use crate::chain::ProgramChain;
use crate::diagnostic::{Code, Diagnostic, Result};
use anemone_facts::chips::Chip;
use anemone_facts::formats::dialects::{BOOK_SCRATCH_SEGMENTS, Convention, Dialect};
use anemone_facts::formats::hwx as rows;
use anemone_facts::formats::raw::anec;
use anemone_net::Net;
use anemone_net::read::Bytes;
use anemone_program::e5::{self, Call, Info, State, Step};
use anemone_program::task::image;
use anemone_program::{Direction, Port, PortOrder, Program, firmware, hwx, images, raw};
use std::collections::HashSet;

/// A form of a compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The compiler's container.
    Hwx,
    /// Raw task stream and kernel data.
    Bin,
    /// The open Linux driver's model file.
    Anec,
    /// Dispatch descriptor of containers.
    E5,
    /// Firmware container.
    Firmware,
    /// Loaded program image, signed.
    Loaded,
    /// Register image of descriptor version 10, a file for each task, with the fields that it has.
    Image,
    /// The same image as sparse register records.
    Records,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 8] =
        [Form::Hwx, Form::Bin, Form::Anec, Form::E5, Form::Firmware, Form::Loaded, Form::Image, Form::Records];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Form::Hwx => "hwx",
            Form::Bin => "bin",
            Form::Anec => "anec",
            Form::E5 => "e5",
            Form::Firmware => "firmware",
            Form::Loaded => "loaded",
            Form::Image => "image",
            Form::Records => "records",
        }
    }

    /// Extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Form::Firmware => "anefw",
            other => other.name(),
        }
    }

    /// The form for a file name's extension.
    pub fn of_extension(extension: &str) -> Option<Form> {
        Form::ALL.into_iter().find(|f| f.extension() == extension)
    }
}

/// Data of file forms in addition to the program.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Layout and banner of the container.
    pub container: hwx::Options,
    /// Tensors kept between calls, for the dispatch descriptor.
    pub states: Vec<State>,
    /// Outputs of which another output has the number of real rows, for the dispatch descriptor.
    pub counted: Vec<e5::Counted>,
    /// Byte offset of the data in the open driver's file; `None` for the usual one.
    pub anec_data: Option<usize>,
    /// Address of the first page of a loaded image; `None` for that of files.
    pub base: Option<u64>,
    /// True if containers use the descriptor's names of the engine's side for procedure and tensors.
    pub engine_names: bool,
}

/// A file of a compiled model.
#[derive(Clone, Debug)]
pub struct File {
    /// Its form.
    pub form: Form,
    /// Its name.
    pub name: String,
    /// Bytes in pieces; weights are shared with the program.
    pub pieces: Vec<Bytes>,
}

impl File {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Returns true for a file without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// The pieces, for writing.
    pub fn parts(&self) -> Vec<&[u8]> {
        self.pieces.iter().map(|piece| &piece[..]).collect()
    }
}

/// The files of a chain in some forms, named after `stem`. Several programs make several files of a form, numbered from 0;
/// the dispatch descriptor and the firmware container contain all programs. `source` is the name of the model's file,
/// `chip` the target recorded in them. Only names are recorded, no paths: the same model gives the same bytes in every
/// folder.
pub fn files(chain: &ProgramChain, chip: &Chip, forms: &[Form], stem: &str, source: &str) -> Result<Vec<File>> {
    files_as(chain, chip, forms, (stem, source), &Dress::default())
}

/// Options of the containers of [`files_as`]: layout, convention and the version of the model's language.
#[derive(Clone, Debug)]
pub struct Dress {
    /// Layout, by compiler version.
    pub dialect: &'static Dialect,
    /// Convention: the book's, or that of Apple's programs.
    pub convention: Convention,
    /// Version of the language component stated by the model; empty if there is none.
    pub component: String,
}

impl Default for Dress {
    fn default() -> Dress {
        let hwx::Options { dialect, component, .. } = hwx::Options::default();
        Dress { dialect, convention: Convention::default(), component }
    }
}

/// As [`files`], with containers by `dress`.
pub fn files_as(
    chain: &ProgramChain,
    chip: &Chip,
    forms: &[Form],
    (stem, source): (&str, &str),
    dress: &Dress,
) -> Result<Vec<File>> {
    let programs = chain.programs();
    let several = programs.len() > 1;
    let name = |at: usize, form: Form| match several {
        true => format!("{stem}_{at}.{}", form.extension()),
        false => format!("{stem}.{}", form.extension()),
    };
    // Beside a descriptor, containers have only the engine's programs.
    let described = forms.contains(&Form::E5);
    let book = dress.convention == Convention::Book;
    let around = |at: usize| {
        let container = hwx::Options {
            dialect: dress.dialect,
            component: dress.component.clone(),
            scratch_segments: if book { BOOK_SCRATCH_SEGMENTS } else { 1 },
            // In the book, tasks have the alignment of weights.
            text_align_log2: if book { rows::KERNEL.align_log2 } else { rows::TEXT.align_log2 },
            // Native layers for a chip with unknown registers are encoded in those of another.
            target: chip.layout.map_or(String::new(), |_| chip.target.to_string()),
            netplist_path: source.to_string(),
            output_path: name(at, Form::Hwx),
            ..hwx::Options::default()
        };
        let engine_names = described && book;
        let (states, counted) = (chain.states().to_vec(), chain.counted().to_vec());
        WriteOptions { container, states, counted, engine_names, ..WriteOptions::default() }
    };
    for form in forms.iter().filter(|form| **form != Form::E5 && !(described && **form == Form::Hwx)) {
        chain.check_no_host(form.name())?;
    }
    let mut all = Vec::new();
    for &form in forms {
        let whole =
            |bytes: Vec<u8>| File { form, name: format!("{stem}.{}", form.extension()), pieces: vec![bytes.into()] };
        match form {
            Form::E5 => {
                let containers: Vec<Vec<u8>> =
                    programs.iter().enumerate().map(|(at, p)| container(p, &around(at))).collect::<Result<_>>()?;
                let hosts = chain.host_calls();
                check_names(chain)?;
                let steps = chain.steps(&containers, &hosts);
                all.push(whole(descriptor(&steps, &around(0), chain.name(), [chain.inputs(), chain.outputs()])));
            }
            Form::Firmware => {
                let programs: Vec<&Program> = programs.iter().collect();
                all.push(whole(firmware::from_programs(&programs).map_err(refused)?.write()));
            }
            Form::Image | Form::Records => {
                let several = several || programs.iter().any(|p| p.tasks().is_ok_and(|tasks| tasks.len() > 1));
                let images = programs.iter().map(|p| task_images(p, &around(0))).collect::<Result<Vec<_>>>()?;
                for (at, image) in images.iter().flatten().enumerate() {
                    let extension = form.extension();
                    let name = if several { format!("{stem}_{at}.{extension}") } else { format!("{stem}.{extension}") };
                    all.push(File { form, name, pieces: vec![image_bytes(image, form).into()] });
                }
            }
            Form::Hwx => {
                for (at, program) in programs.iter().enumerate() {
                    all.push(File { form, name: name(at, form), pieces: container_file(program, &around(at))? });
                }
            }
            Form::Bin | Form::Anec | Form::Loaded => {
                for (at, program) in programs.iter().enumerate() {
                    let pieces = vec![encode(program, form, &around(at))?.into()];
                    all.push(File { form, name: name(at, form), pieces });
                }
            }
        }
    }
    Ok(all)
}

/// One container of several procedures; `source` is the name of the model's file, which is recorded in it.
///
/// Errors: programs that cannot share a container.
pub fn procedures(programs: &[Program], chip: &Chip, source: &str, dialect: &'static Dialect) -> Result<File> {
    let stem = std::path::Path::new(source).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("{stem}.{}", Form::Hwx.extension());
    let target = chip.layout.map_or(String::new(), |_| chip.target.to_string());
    let options = hwx::Options {
        dialect,
        target,
        netplist_path: source.to_string(),
        output_path: name.clone(),
        ..hwx::Options::default()
    };
    let ordered = programs.iter().map(|p| in_order(p, dialect)).collect::<Result<Vec<_>>>()?;
    let bytes = hwx::from_programs(&ordered, &options).map_err(refused)?.write();
    Ok(File { form: Form::Hwx, name, pieces: vec![bytes.into()] })
}

/// A program with its ports in the dialect's order. If they are in order, base registers are kept, since the compiler assigned them:
/// 9.509 by name.
fn in_order(program: &Program, dialect: &Dialect) -> Result<Program> {
    let later = |port: &Port| port.direction == Direction::Output;
    match dialect.inputs_first && !program.ports.iter().is_sorted_by_key(later) {
        true => program.with_ports_in_order(PortOrder::InputsFirst).map_err(refused),
        false => Ok(program.clone()),
    }
}

/// Register images of a program's tasks; if the first page of a load is given, with the device addresses of that load.
fn task_images(program: &Program, around: &WriteOptions) -> Result<Vec<image::Descriptor>> {
    let Some(base) = around.base else { return images::of_program(program).map_err(refused) };
    let read = hwx::Container::read(&container(program, around)?).map_err(refused)?;
    let loaded = hwx::Image::map(&read, base).map_err(refused)?;
    let run = loaded.container.run_states().next().map(|(_, run)| run);
    let address =
        |register: u8| run.as_ref().map(|run| run.base(usize::from(register))).filter(|&address| address != 0);
    images::of_program_at(program, &address).map_err(refused)
}

fn image_bytes(descriptor: &image::Descriptor, form: Form) -> Vec<u8> {
    match form {
        Form::Records => image::write_records(&descriptor.image.records(0)),
        _ => descriptor.write(),
    }
}

fn refused(error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::BadPlacement, error.to_string())
}

/// A container's bytes.
fn container(program: &Program, around: &WriteOptions) -> Result<Vec<u8>> {
    Ok(container_file(program, around)?.concat())
}

/// A container's file.
fn container_file(program: &Program, around: &WriteOptions) -> Result<Vec<Bytes>> {
    let ordered = in_order(program, around.container.dialect)?;
    let named = around.engine_names.then(|| e5::with_engine_names(&ordered));
    hwx::to_file(named.as_ref().unwrap_or(&ordered), &around.container).map_err(refused)
}

/// Refuses tensors whose names could be mistaken for those of the engine's side.
fn check_names(chain: &ProgramChain) -> Result<()> {
    fn ends(net: &Net) -> impl Iterator<Item = &str> {
        net.inputs.iter().chain(&net.outputs).map(|&id| net.value(id).name.as_str())
    }
    let hosts = chain.hosts().iter().flat_map(|(_, net)| ends(net));
    let all: HashSet<&str> =
        chain.programs().iter().flat_map(|p| &p.ports).map(|p| p.name.as_str()).chain(hosts).collect();
    let clash = all.iter().find(|name| name.strip_suffix(e5::ENGINE_SUFFIX).is_some_and(|plain| all.contains(plain)));
    clash.map_or(Ok(()), |name| {
        let suffix = e5::ENGINE_SUFFIX;
        let message = format!("tensor {name}: in a dispatch descriptor, names that end in {suffix} are the engine's");
        Err(Diagnostic::new(Code::BadPlacement, message).help("give the tensor another name"))
    })
}

/// A dispatch descriptor's bytes.
fn descriptor(steps: &[Step], around: &WriteOptions, function: &str, [inputs, outputs]: [&[String]; 2]) -> Vec<u8> {
    let entry = |key: &str, value: &str| (key.to_string(), value.to_string());
    let target = match around.container.target.as_str() {
        "" => steps
            .iter()
            .find_map(|step| if let Step::Engine(call) = step { Some(call) } else { None })
            .map_or("", |c| c.program.layout.generation),
        target => target,
    };
    let info = Info {
        function: function.to_string(),
        entries: vec![
            entry("compiler", concat!("anemone ", env!("CARGO_PKG_VERSION"))),
            entry("input-file-path", &around.container.netplist_path),
            entry("built-for-profiling", "0"),
            entry("on-device-compilation", "0"),
        ],
        options: format!("-t {target}"),
        outputs: outputs.to_vec(),
        counted: around.counted.clone(),
    };
    e5::from_steps(steps, inputs, &around.states, &info).write()
}

/// Refuses states that are not one input and one output of equal shape, or that share a port.
fn check_states(program: &Program, states: &[State]) -> Result<()> {
    let port = |name: &String, direction| {
        program.ports_of(direction).find(|p| p.name == *name).ok_or_else(|| {
            let known: Vec<&str> = program.ports_of(direction).map(|p| p.name.as_str()).collect();
            let (side, sides) = match direction {
                Direction::Input => ("input", "inputs"),
                Direction::Output => ("output", "outputs"),
            };
            let message = format!("state: no {side} is called {name}");
            Diagnostic::new(Code::Usage, message).help(format!("{sides}: {}", known.join(", ")))
        })
    };
    for (at, state) in states.iter().enumerate() {
        let (input, output) = (port(&state.input, Direction::Input)?, port(&state.output, Direction::Output)?);
        let refuse = |message: String| Err(Diagnostic::new(Code::Usage, message));
        let (i, o) = (input.extents(), output.extents());
        if (&i, input.element) != (&o, output.element) {
            return refuse(format!("state {}: {i:?}, {} is {o:?}", state.input, state.output));
        }
        if let Some(other) = states[..at].iter().find(|s| s.input == state.input || s.output == state.output) {
            return refuse(format!(
                "states {}={} and {}={} share a port",
                other.input, other.output, state.input, state.output
            ));
        }
    }
    Ok(())
}

/// First port that a raw stream of the program loses; `None` if it keeps all. The stream has
/// no header: its reader derives extents from the tasks that read and write a port.
pub fn lost_in_stream(program: &Program) -> Option<String> {
    let read = match raw::read_bin(&raw::write_bin(program)) {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    let same = |port: &Port| {
        let found = read.ports.iter().find(|p| (p.bar, p.direction) == (port.bar, port.direction));
        found.is_some_and(|found| places(found).eq(places(port)))
    };
    if read.ports.len() != program.ports.len() {
        return Some(format!("{} ports would be read instead of {}", read.ports.len(), program.ports.len()));
    }
    // Without names, ports are identified by position.
    for direction in [Direction::Input, Direction::Output] {
        let own: Vec<u8> = program.ports_of(direction).map(|p| p.bar).collect();
        if let Some(at) = read.ports_of(direction).zip(&own).position(|(p, bar)| p.bar != *bar) {
            let place = program.ports.iter().filter(|p| p.direction == direction).nth(at);
            let name = place.map_or("", |p| p.name.as_str());
            let what = if direction == Direction::Input { "input" } else { "output" };
            return Some(format!("{what} {at} is {name}, but another tensor would be read instead"));
        }
    }
    program.ports.iter().find(|port| !same(port)).map(|port| {
        let found = read.ports.iter().find(|p| p.bar == port.bar).map_or(port.shape, |p| p.shape);
        let (s, f) = (port.shape, found);
        format!("port {} is {:?} and would be read as {:?}", port.name, [s.n, s.c, s.h, s.w], [f.n, f.c, f.h, f.w])
    })
}

/// Byte offset of every element of a port, in order.
fn places(port: &Port) -> impl Iterator<Item = u64> {
    let (s, d, bytes) = (port.shape, port.strides, port.element.bytes());
    let row = move |n: u32, c: u32, h: u32| {
        u64::from(n) * d.batch_bytes + u64::from(c) * d.plane_bytes + u64::from(h) * d.row_bytes
    };
    (0..s.n).flat_map(move |n| {
        (0..s.c)
            .flat_map(move |c| (0..s.h).flat_map(move |h| (0..s.w).map(move |w| row(n, c, h) + u64::from(w) * bytes)))
    })
}

/// The bytes of a program in a form.
pub fn encode(program: &Program, form: Form, around: &WriteOptions) -> Result<Vec<u8>> {
    match form {
        Form::Hwx => container(program, around),
        Form::Bin => match lost_in_stream(program) {
            Some(lost) => Err(Diagnostic::new(
                Code::UnsupportedOp,
                format!("a raw stream does not state its ports, and they do not follow from its tasks: {lost}"),
            )
            .help("write another form: hwx, anec, e5 or firmware")),
            None => Ok(raw::write_bin(program)),
        },
        Form::Anec => {
            let ordered = program.with_ports_in_order(PortOrder::OutputsFirst).map_err(refused)?;
            raw::write_anec_at(&ordered, around.anec_data.unwrap_or(anec::DATA)).map_err(refused)
        }
        Form::E5 => {
            check_states(program, &around.states)?;
            let bytes = container(program, around)?;
            Ok(descriptor(&[Step::Engine(Call { program, container: &bytes })], around, &program.name, [&[], &[]]))
        }
        Form::Firmware => Ok(firmware::from_programs(&[program]).map_err(refused)?.write()),
        Form::Loaded => {
            let read = hwx::Container::read(&container(program, around)?).map_err(refused)?;
            let base = around.base.unwrap_or(anemone_facts::formats::hwx::VM_BASE);
            Ok(hwx::Image::map(&read, base).map_err(refused)?.sign())
        }
        Form::Image | Form::Records => match task_images(program, around)?.as_slice() {
            [image] => Ok(image_bytes(image, form)),
            images => {
                let message = format!("a register image has one task; the program has {}", images.len());
                let help = "`ane compile -o FOLDER --emit image` writes a file for each";
                Err(Diagnostic::new(Code::BadPlacement, message).help(help))
            }
        },
    }
}
