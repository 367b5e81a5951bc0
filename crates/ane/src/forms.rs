//! Compiled forms: a program written in any of them.

use crate::diagnostic::{Code, Diagnostic, Result};
use anemone_facts::formats::raw::anec;
use anemone_program::e5::{self, Call, Info, State};
use anemone_program::{PortOrder, Program, firmware, hwx, raw};

/// A form of a compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The compiler's container.
    Hwx,
    /// Raw task stream and kernel data.
    Bin,
    /// The open Linux driver's model file.
    Anec,
    /// Dispatch descriptor over the container.
    E5,
    /// Firmware container.
    Firmware,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 5] = [Form::Hwx, Form::Bin, Form::Anec, Form::E5, Form::Firmware];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Form::Hwx => "hwx",
            Form::Bin => "bin",
            Form::Anec => "anec",
            Form::E5 => "e5",
            Form::Firmware => "firmware",
        }
    }

    /// Extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Form::Firmware => "anefw",
            other => other.name(),
        }
    }

    /// The form of a file name's extension.
    pub fn of_extension(extension: &str) -> Option<Form> {
        Form::ALL.into_iter().find(|f| f.extension() == extension)
    }
}

/// What forms hold beside the program.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// What the container says about its making.
    pub container: hwx::Options,
    /// Tensors held from call to call, for the dispatch descriptor.
    pub states: Vec<State>,
    /// Byte offset of the data in the open driver's file; its usual place when `None`.
    pub anec_data: Option<usize>,
}

/// A program's bytes in a form.
pub fn encode(program: &Program, form: Form, around: &Surroundings) -> Result<Vec<u8>> {
    let refused = |e: &dyn std::fmt::Display| Diagnostic::new(Code::BadPlacement, e.to_string());
    let container = || {
        // Earlier dialects keep the base registers that the program has: its compiler chose them.
        let ordered = match around.container.dialect.inputs_first {
            true => &program.with_ports_in_order(PortOrder::InputsFirst).map_err(|e| refused(&e))?,
            false => program,
        };
        Ok(hwx::from_program(ordered, &around.container).map_err(|e| refused(&e))?.write())
    };
    match form {
        Form::Hwx => container(),
        Form::Bin => Ok(raw::write_bin(program)),
        Form::Anec => {
            let ordered = program.with_ports_in_order(PortOrder::OutputsFirst).map_err(|e| refused(&e))?;
            raw::write_anec_at(&ordered, around.anec_data.unwrap_or(anec::DATA)).map_err(|e| refused(&e))
        }
        Form::E5 => {
            for name in around.states.iter().flat_map(|s| [&s.input, &s.output]) {
                if !program.ports.iter().any(|p| p.name == *name) {
                    let known: Vec<&str> = program.ports.iter().map(|p| p.name.as_str()).collect();
                    let message = format!("no port is called {name}");
                    return Err(Diagnostic::new(Code::Usage, message).help(format!("ports: {}", known.join(", "))));
                }
            }
            let entry = |key: &str, value: &str| (key.to_string(), value.to_string());
            let info = Info {
                function: program.name.clone(),
                entries: vec![
                    entry("compiler", concat!("anemone ", env!("CARGO_PKG_VERSION"))),
                    entry("input-file-path", &around.container.netplist_path),
                    entry("built-for-profiling", "0"),
                    entry("on-device-compilation", "0"),
                ],
                options: format!("-t {}", program.layout.generation),
            };
            let bytes = container()?;
            Ok(e5::from_calls(&[Call { program, container: &bytes }], &around.states, &info).write())
        }
        Form::Firmware => Ok(firmware::from_programs(&[program]).map_err(|e| refused(&e))?.write()),
    }
}
