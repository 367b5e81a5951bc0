//! Diagnostics as values: a stable code, the value found, the limit, advice. Rendering is separate.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::json;
use std::ops::Range;

/// Result of a user-visible operation.
pub type Result<T> = std::result::Result<T, Diagnostic>;

/// Diagnostic code, stable across versions. `1xxx`: the answer is no. `2xxx`: usage or input. `3xxx`: a defect of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Code {
    UnsupportedOp,
    ChipLimit,
    Mismatch,
    Fault,
    BadPlacement,
    Unreadable,
    Malformed,
    BadTensor,
    Usage,
    Unwritable,
    Defect,
}

impl Code {
    /// The code as printed.
    pub fn text(self) -> &'static str {
        match self {
            Code::UnsupportedOp => "ANE1001",
            Code::ChipLimit => "ANE1002",
            Code::Mismatch => "ANE1003",
            Code::Fault => "ANE1004",
            Code::BadPlacement => "ANE1005",
            Code::Unreadable => "ANE2001",
            Code::Malformed => "ANE2002",
            Code::BadTensor => "ANE2003",
            Code::Usage => "ANE2004",
            Code::Unwritable => "ANE2005",
            Code::Defect => "ANE3001",
        }
    }

    /// Every code.
    pub const ALL: [Code; 11] = [
        Code::UnsupportedOp,
        Code::ChipLimit,
        Code::Mismatch,
        Code::Fault,
        Code::BadPlacement,
        Code::Unreadable,
        Code::Malformed,
        Code::BadTensor,
        Code::Usage,
        Code::Unwritable,
        Code::Defect,
    ];

    /// Meaning of the code, and advice.
    pub fn meaning(self) -> (&'static str, &'static str) {
        match self {
            Code::UnsupportedOp => {
                ("an operation cannot be compiled", "rewrite it as the message says, or keep it on the host")
            }
            Code::ChipLimit => ("a quantity exceeds a limit of the chip", "make it smaller, or split the operation"),
            Code::Mismatch => (
                "results differ from the expected ones by more than the tolerance",
                "compare at the index that the message names, or run with `--by-layer`",
            ),
            Code::Fault => (
                "the engine refuses a field of a program, or a task reaches outside of its memory",
                "check the program with `ane dump`",
            ),
            Code::BadPlacement => {
                ("a compiled program does not fit the requested form", "request another form with `--emit`")
            }
            Code::Unreadable => ("a file cannot be read", "check the path and its permissions"),
            Code::Malformed => (
                "a file is damaged, or has another form than its name or content states",
                "write it again, or convert it",
            ),
            Code::BadTensor => {
                ("a tensor does not fit its input or output", "give one of the shape and type that the message names")
            }
            Code::Usage => ("the arguments are wrong", "see `ane --help` or `ane VERB --help`"),
            Code::Unwritable => ("a file cannot be written", "check the folder and its permissions"),
            Code::Defect => ("this program has a defect", "report it with the command line and the file"),
        }
    }

    /// Exit code of the command line: 1 for no, 2 for wrong usage or unreadable input, 3 for a defect of this program.
    pub fn exit(self) -> u8 {
        match &self.text()[3..4] {
            "1" => 1,
            "2" => 2,
            _ => 3,
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Stable code.
    pub code: Code,
    /// Message in one line, with place, value found and limit.
    pub message: String,
    /// File or value concerned.
    pub place: Option<String>,
    /// Advice.
    pub help: Option<String>,
    /// Text concerned, with the places marked.
    pub source: Option<Box<Source>>,
    /// Parts of a message about an operation, for JSON.
    pub details: Option<Box<Details>>,
}

/// The operation of a refusal, and the values compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Kind of the operation.
    pub op: Option<String>,
    /// Name of its result, which names the operation.
    pub output: Option<String>,
    /// The value found.
    pub found: Option<String>,
    /// Allowed value or range; for a refusal of Apple's compiler, the text of Apple's message.
    pub limit: Option<String>,
    /// Compiler target of the chip.
    pub chip: Option<String>,
}

/// A text with marked places.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The file.
    pub path: String,
    /// The complete text.
    pub text: String,
    /// Byte range of each place, its line and column (from one), and its label.
    pub marks: Vec<(Range<usize>, usize, usize, String)>,
}

impl Diagnostic {
    /// A diagnostic without place and help.
    pub fn new(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, message: message.into(), place: None, help: None, source: None, details: None }
    }

    /// Sets the file or value concerned.
    pub fn at(mut self, place: impl std::fmt::Display) -> Diagnostic {
        self.place = Some(place.to_string());
        self
    }

    /// Sets the place, unless it has one.
    pub fn or_at(self, place: impl std::fmt::Display) -> Diagnostic {
        if self.place.is_some() { self } else { self.at(place) }
    }

    /// Sets the advice.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds another advice.
    pub fn or_help(self, help: &str) -> Diagnostic {
        let all = self.help.as_ref().map_or_else(|| help.to_owned(), |first| format!("{first}; or {help}"));
        self.help(all)
    }

    /// Sets the text concerned.
    pub fn pointing(mut self, source: Source) -> Diagnostic {
        self.source = Some(Box::new(source));
        self
    }

    /// Sets the operation concerned: its kind, and the name of its result.
    pub fn about(mut self, op: impl Into<String>, output: impl Into<String>) -> Diagnostic {
        let details = self.details.get_or_insert_default();
        (details.op, details.output) = (Some(op.into()), Some(output.into()));
        self
    }

    /// As text.
    pub fn render(&self, color: bool) -> String {
        let mut group = Group::with_title(Level::ERROR.primary_title(self.message.as_str()).id(self.code.text()));
        if let Some(source) = &self.source {
            let marks = source
                .marks
                .iter()
                .map(|(span, _, _, text)| AnnotationKind::Primary.span(span.clone()).label(text.as_str()));
            let snippet = Snippet::source(source.text.as_str()).path(source.path.as_str()).annotations(marks);
            group = group.element(snippet);
        } else if let Some(place) = &self.place {
            group = group.element(Level::NOTE.message(format!("in {place}")));
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }

    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        let details = self.details.as_deref().cloned().unwrap_or_default();
        let places = self.source.iter().flat_map(|s| &s.marks);
        let places: Vec<_> =
            places.map(|(_, line, column, text)| json!({ "line": line, "column": column, "message": text })).collect();
        json!({
            "schema": "anemone.error/1",
            "code": self.code.text(),
            "message": self.message,
            "place": self.place,
            "help": self.help,
            "op": details.op,
            "output": details.output,
            "found": details.found,
            "limit": details.limit,
            "chip": details.chip,
            "places": places,
        })
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.text(), self.message)
    }
}

impl std::error::Error for Diagnostic {}

impl From<anemone_compile::Error> for Diagnostic {
    fn from(error: anemone_compile::Error) -> Diagnostic {
        use anemone_compile::Error::*;
        use anemone_compile::{PORTS, TASKS};
        let code = match &error {
            NoLayout { .. } | Unsupported { .. } => Code::UnsupportedOp,
            Limit { .. } | Refused(_) | Rule { .. } => Code::ChipLimit,
            Net(_) => Code::Malformed,
            Field { .. } | Reads { .. } => Code::Defect,
            Stopped => Code::Fault,
        };
        let mut diagnostic = Diagnostic::new(code, error.to_string());
        diagnostic.details = details(&error).map(Box::new);
        match error {
            Unsupported { suggestion, .. } => diagnostic.help(suggestion),
            Refused(refused) => diagnostic.help(refused.suggestion),
            Rule { refusal, .. } if !refusal.fix.is_empty() => diagnostic.help(refusal.fix),
            Limit { what: PORTS, .. } => {
                diagnostic.help("give it fewer inputs or outputs; `ane run` divides it into several programs")
            }
            Limit { what: TASKS, .. } => {
                diagnostic.help("divide the network; `ane run` divides it into several programs")
            }
            Limit { .. } | Rule { .. } => diagnostic.help("make it smaller, or split the operation"),
            Field { .. } => {
                diagnostic.help("a layer passed legalization that its registers cannot hold: please report it")
            }
            Reads { .. } => diagnostic.help("this is a defect of the compiler: please report it with the network"),
            _ => diagnostic,
        }
    }
}

/// Details of a compiler error about an operation; `None` if it is about none.
fn details(error: &anemone_compile::Error) -> Option<Details> {
    use anemone_compile::Error::*;
    let named = |op: &str| Details { output: Some(op.to_string()), ..Details::default() };
    Some(match error {
        NoLayout { chip } => Details { chip: Some(chip.to_string()), ..Details::default() },
        Unsupported { op, kind, reason, .. } => {
            Details { op: Some(kind.clone()), found: Some(reason.clone()), ..named(op) }
        }
        Limit { op, found, limit, chip, .. } => Details {
            found: Some(found.to_string()),
            limit: Some(limit.to_string()),
            chip: Some(chip.to_string()),
            ..named(op)
        },
        Refused(refused) => Details {
            op: Some(refused.kind.clone()),
            found: Some(refused.reason.clone()),
            limit: refused.apple.clone(),
            chip: Some(refused.chip.to_string()),
            ..named(&refused.op)
        },
        Rule { op, refusal } => {
            Details { found: Some(refusal.found.clone()), limit: Some(refusal.limit.clone()), ..named(op) }
        }
        Net(_) | Stopped | Field { .. } | Reads { .. } => return None,
    })
}

impl From<anemone_engine::Fault> for Diagnostic {
    fn from(fault: anemone_engine::Fault) -> Diagnostic {
        use anemone_engine::FaultKind::{NotHonoured, Unexplained};
        let diagnostic = Diagnostic::new(Code::Fault, fault.to_string());
        match fault.kind {
            NotHonoured { .. } | Unexplained { .. } => {
                diagnostic.help("--lenient skips fields the engine does not obey; results are then not reliable")
            }
            _ => diagnostic,
        }
    }
}
