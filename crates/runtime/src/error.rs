//! Errors of the crate.

use crate::words::{u32_at, u64_at};
use anemone_facts::driver::codes;
use anemone_facts::driver::structures::reply;

/// A return code of the driver, as the client sees it. The table is `anemone_facts::driver::codes`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

macro_rules! code_names {
    ( $( $name:ident ),* ) => {
        impl Code {
            $( #[doc = concat!("`", stringify!($name), "` of the table.")] pub const $name: Code = Code(codes::$name as u32); )*
        }
    };
}
code_names!(
    SUCCESS,
    USAGE_UNSUPPORTED,
    ERROR,
    NO_MEMORY,
    NO_RESOURCES,
    NOT_PRIVILEGED,
    BAD_ARGUMENT,
    CLOSED,
    UNSUPPORTED,
    NOT_OPEN,
    BUSY,
    TIMEOUT,
    NOT_READY,
    NOT_PERMITTED,
    NO_COMPLETION,
    ABORTED,
    NOT_FOUND
);

impl Code {
    /// Name of the code in the table; empty if it has none.
    pub fn name(self) -> &'static str {
        codes::CODES.iter().find(|c| c.value == u64::from(self.0)).map_or("", |c| c.name)
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#010x} {}", self.0, self.name())
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// Error of the runtime, with its reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver or the firmware model refused.
    #[error("{what}: {code}")]
    Driver {
        /// Requested operation.
        what: &'static str,
        /// The code.
        code: Code,
    },
    /// The three components of the driver have different versions.
    #[error("component {component} has version {found}, the others have {expected}")]
    ComponentVersion {
        /// Bundle.
        component: &'static str,
        /// Its version.
        found: String,
        /// The first component's version.
        expected: String,
    },
    /// An operating system call failed.
    #[error("{}", call(what, path, error))]
    System {
        /// Operation that failed.
        what: &'static str,
        /// Path or name; empty if there is none.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The caller's compiler refused.
    #[error("compile: {0}")]
    Compile(String),
    /// A host segment failed; the text names it.
    #[error("{0}")]
    Host(String),
    /// The last run gave infinities or NaN in an output.
    #[error("output {port}: {count} of {elements} elements are infinite or NaN, the first at {first}")]
    NotFinite {
        /// Output.
        port: String,
        /// Number of such elements.
        count: usize,
        /// Number of elements.
        elements: usize,
        /// Position of the first one in the dense tensor.
        first: usize,
    },
    /// A stored bundle does not match its key.
    #[error("cache entry {key}: {what}")]
    Corrupt {
        /// Key of the entry.
        key: String,
        /// Defect.
        what: &'static str,
    },
    /// A program, port or function of that name does not exist.
    #[error("no {what} is called {name}")]
    Unknown {
        /// Kind of object.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Wrong size of a buffer or number.
    #[error("{what}: {found} bytes, {expected} are needed")]
    Size {
        /// Object.
        what: String,
        /// Size found.
        found: u64,
        /// Required size.
        expected: u64,
    },
    /// Call that is not allowed in the object's state.
    #[error("{what} in state {state}")]
    State {
        /// The call.
        what: &'static str,
        /// The state.
        state: &'static str,
    },
    /// An event or stream did not finish in time.
    #[error("{what}: not done after {waited_ms} ms: {code}")]
    Timeout {
        /// Operation that was waited for.
        what: &'static str,
        /// Waited time in milliseconds.
        waited_ms: u64,
        /// Code of the request.
        code: Code,
    },
    /// The engine accessed an unmapped device address.
    #[error("submit: translation fault: {} of device address {address:#x}, which is not mapped{}",
        if *write { "write" } else { "read" }, task.map_or(String::new(), |task| format!(", by task {task}")))]
    Translation {
        /// The address.
        address: u64,
        /// True for a write access.
        write: bool,
        /// Task of the program, if it is known.
        task: Option<u32>,
    },
    /// The other side of a connection violated the protocol.
    #[error("protocol: {what}: {found}, limit {limit}")]
    Protocol {
        /// Violation.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Limit or expected value.
        limit: u64,
    },
    /// The broker's policy denies the method to this peer.
    #[error("method {method} needs {key}")]
    Denied {
        /// The method.
        method: &'static str,
        /// The entitlement.
        key: &'static str,
    },
    /// The process has reached its limit of programs.
    #[error("the process has {limit} programs loaded: must re-compile")]
    Recompile {
        /// Limit of programs per process.
        limit: u64,
    },
    /// Refusal by the broker.
    #[error("broker: {text}")]
    Remote {
        /// Its code.
        code: Code,
        /// Its text.
        text: String,
    },
    /// Another broker serves the socket.
    #[error("another broker serves {socket}")]
    Taken {
        /// The socket.
        socket: String,
    },
    /// A policy file that cannot be used.
    #[error("policy: {0}")]
    Policy(String),
}

/// A failed call of the system in words, without the number of its error.
fn call(what: &str, path: &str, error: &std::io::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or_default();
    if path.is_empty() { format!("{what}: {reason}") } else { format!("{what} {path}: {reason}") }
}

impl Error {
    /// Error for a code of the driver.
    pub fn driver(what: &'static str, code: Code) -> Error {
        Error::Driver { what, code }
    }

    /// Error for the code of a submission: a translation fault if the reply has one.
    pub(crate) fn submission(code: Code, answer: &[u8]) -> Error {
        let kind =
            answer.get(reply::FAULT_KIND..reply::FAULT_KIND + 4).map_or(0, |_| u32_at(answer, reply::FAULT_KIND));
        if code == Code::SUCCESS || kind == 0 {
            return Error::driver("submit", code);
        }
        let task = Some(u32_at(answer, reply::FAULT_TASK)).filter(|&task| task != u32::MAX);
        Error::Translation { address: u64_at(answer, reply::FAULT_ADDRESS), write: kind == 2, task }
    }

    /// Error of the operating system.
    pub fn system(what: &'static str, path: impl std::fmt::Display, error: std::io::Error) -> Error {
        Error::System { what, path: path.to_string(), error }
    }

    /// The code that a client of the driver or the broker sees.
    pub fn code(&self) -> Code {
        match self {
            Error::Driver { code, .. } | Error::Timeout { code, .. } | Error::Remote { code, .. } => *code,
            Error::Taken { .. } => Code::BUSY,
            Error::Recompile { .. } => Code::NO_RESOURCES,
            Error::ComponentVersion { .. } => Code::NOT_READY,
            Error::System { .. }
            | Error::Compile(_)
            | Error::Host(_)
            | Error::NotFinite { .. }
            | Error::Corrupt { .. }
            | Error::Policy(_) => Code::ERROR,
            Error::Unknown { .. } => Code::NOT_FOUND,
            Error::Size { .. } | Error::Protocol { .. } => Code::BAD_ARGUMENT,
            Error::State { .. } => Code::NOT_READY,
            Error::Denied { .. } => Code::NOT_PRIVILEGED,
            Error::Translation { .. } => Code::ABORTED,
        }
    }
}

/// Result of the crate.
pub type Result<T> = std::result::Result<T, Error>;
