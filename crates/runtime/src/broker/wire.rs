//! Messages between clients, broker and compile service. Control messages are JSON; submissions are the bytes of the request.

use crate::cache::{Bundle, Function};
use crate::e5rt::CompileOptions;
use crate::error::{Code, Error, Result};
use crate::os::BorrowedDescriptor;
use crate::os::socket::{self, Message, Stream};
use anemone_facts::driver::limits::DEFAULT_QOS;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Kinds of messages.
pub mod kind {
    /// A [`super::Ask`], as JSON.
    pub const ASK: u32 = 1;
    /// An [`super::Answer`], as JSON; a bundle's bytes may follow it.
    pub const ANSWER: u32 = 2;
    /// A refusal: code and text.
    pub const REFUSAL: u32 = 3;
    /// A buffer: u64 bytes, one descriptor. The answer is its surface.
    pub const SURFACE: u32 = 4;
    /// Release of a surface: u32.
    pub const DROP: u32 = 5;
    /// A submission: u64 doorbell, u64 limit in milliseconds or 0, the request.
    pub const SUBMIT: u32 = 6;
    /// Four bytes of code, then the reply, or a surface.
    pub const REPLY: u32 = 7;
    /// A chained call: u64 token, u32 inputs, u32 outputs, their surfaces. The answer `UNSUPPORTED` asks for a submission instead.
    pub const CHAINED: u32 = 8;
}

/// Request of a client. Every method has a class of service: that of real time needs its key. The class is the urgency
/// of a compile, or of the requests of an instance that is loaded, shared, adapted or passed on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// The model's content key, without compiling.
    Content {
        /// Path of the model.
        path: String,
        /// Class of service.
        qos: u32,
    },
    /// First message of a sibling: the program that the connection acts for.
    Behalf {
        /// SHA-256 of its executable, hexadecimal.
        digest: String,
        /// Its process number.
        pid: u32,
    },
    /// Compiles a model, through the compile service.
    Compile {
        /// Path of the model.
        path: String,
        /// Options.
        options: CompileOptions,
        /// True for a long compile, which needs a key and goes to a separate service.
        long: bool,
        /// Class of service.
        qos: u32,
    },
    /// Loads a program that this broker compiled.
    Load {
        /// SHA-256 of its image, hexadecimal.
        image: String,
        /// Mask of counters.
        stats_mask: u32,
        /// Requested number of simultaneous requests.
        depth: u32,
        /// Aggressive power saving.
        power_saving: bool,
        /// Weights and scratch stay in memory when the engine goes off.
        wired: bool,
        /// Class of service.
        qos: u32,
    },
    /// Attaches to a resident program of the same identity.
    Share {
        /// Its token.
        token: u64,
        /// Class of service.
        qos: u32,
    },
    /// Creates an instance with adapter weights on a resident base.
    Adapt {
        /// Token of the base.
        base: u64,
        /// Pieces of kernel data: offset, bytes in hexadecimal.
        pieces: Vec<(u64, String)>,
        /// Class of service.
        qos: u32,
    },
    /// Opens a separate connection for one loaded program.
    Direct {
        /// Its token.
        token: u64,
        /// Class of service.
        qos: u32,
    },
    /// Unloads a program.
    Unload {
        /// Its token.
        token: u64,
        /// Class of service.
        qos: u32,
    },
    /// Removes a cache entry, or all entries.
    Purge {
        /// Key; `None` for all entries.
        key: Option<String>,
        /// Class of service.
        qos: u32,
    },
    /// Calls a method of the direct-path client, or of the hint client, by name.
    Method {
        /// True for the hint client.
        hints: bool,
        /// Name.
        name: String,
        /// Arguments.
        numbers: Vec<u64>,
        /// Class of service.
        qos: u32,
    },
    /// Live counters.
    Stat {
        /// Class of service.
        qos: u32,
    },
}

impl Ask {
    /// Class of service.
    pub fn class(&self) -> u32 {
        match self {
            // Sent before the program's first request: the default class.
            Ask::Behalf { .. } => DEFAULT_QOS as u32,
            Ask::Content { qos, .. }
            | Ask::Compile { qos, .. }
            | Ask::Load { qos, .. }
            | Ask::Share { qos, .. }
            | Ask::Adapt { qos, .. }
            | Ask::Direct { qos, .. }
            | Ask::Unload { qos, .. }
            | Ask::Purge { qos, .. }
            | Ask::Method { qos, .. }
            | Ask::Stat { qos } => *qos,
        }
    }

    /// Name of the method.
    pub fn method(&self) -> &'static str {
        match self {
            Ask::Content { .. } => "content",
            Ask::Behalf { .. } => "behalf",
            Ask::Compile { .. } => "compile",
            Ask::Load { .. } => "load",
            Ask::Share { .. } => "share",
            Ask::Adapt { .. } => "adapt",
            Ask::Direct { .. } => "direct",
            Ask::Unload { .. } => "unload",
            Ask::Purge { .. } => "purge",
            Ask::Method { .. } => "method",
            Ask::Stat { .. } => "stat",
        }
    }
}

/// Answer of the broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", content = "value", rename_all = "snake_case")]
pub enum Answer {
    /// Success without a value.
    Done,
    /// A content key, hexadecimal.
    Content(String),
    /// A compiled function; images and descriptor follow the JSON document.
    Compiled {
        /// Function.
        function: Function,
        /// Size of each following image in bytes.
        image_bytes: Vec<u64>,
        /// Size of the descriptor in bytes, which follows the images.
        descriptor_bytes: u64,
        /// True if it was a cache hit.
        #[serde(default)]
        kept: bool,
    },
    /// A loaded program.
    Loaded {
        /// Token.
        token: u64,
        /// Intermediate buffer.
        intermediate: u64,
        /// Program identity in the firmware.
        program: u32,
        /// Granted number of simultaneous requests.
        depth: u32,
        /// Effective mask of counters.
        stats_mask: u32,
    },
    /// Number of entries removed, or result of a method.
    Count(u64),
    /// Lines returned by a method.
    Lines(Vec<String>),
    /// Counters.
    Stat(serde_json::Value),
}

#[derive(Serialize, Deserialize)]
struct Refused {
    code: u32,
    text: String,
}

fn sent<T: Serialize>(value: &T) -> Vec<u8> {
    // These types have string keys and serializers that do not fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Sends a request.
pub fn ask(socket: &Stream, ask: &Ask) -> Result<()> {
    socket::send(socket, kind::ASK, &sent(ask), &[])
}

/// Sends an answer, followed by bytes after the document.
pub fn answer(socket: &Stream, answer: &Answer, tail: &[&[u8]], descriptors: &[BorrowedDescriptor<'_>]) -> Result<()> {
    let document = sent(answer);
    let length = (document.len() as u64).to_le_bytes();
    let parts: Vec<&[u8]> = [&length[..], &document].into_iter().chain(tail.iter().copied()).collect();
    socket::send_parts(socket, kind::ANSWER, &parts, descriptors)
}

/// Sends a refusal.
pub fn refuse(socket: &Stream, error: &Error) -> Result<()> {
    let refused = Refused { code: error.code().0, text: error.to_string() };
    socket::send(socket, kind::REFUSAL, &sent(&refused), &[])
}

/// The request of a message.
pub fn read_ask(message: &Message) -> Result<Ask> {
    let broken =
        |_| Error::Protocol { what: "a request that cannot be decoded", found: message.body.len() as u64, limit: 0 };
    serde_json::from_slice(&message.body).map_err(broken)
}

/// The answer of a message, and the bytes after it; a refusal becomes the error.
pub fn read_answer(message: &Message) -> Result<(Answer, &[u8])> {
    let broken =
        || Error::Protocol { what: "an answer that cannot be decoded", found: u64::from(message.kind), limit: 0 };
    if message.kind == kind::REFUSAL {
        let refused: Refused = serde_json::from_slice(&message.body).map_err(|_| broken())?;
        tracing::debug!(text = refused.text, "refused");
        return Err(Error::Remote { code: Code(refused.code), text: refused.text });
    }
    let length = usize::try_from(crate::words::u64_at(&message.body, 0)).map_err(|_| broken())?;
    let split = length.checked_add(8).filter(|&n| n <= message.body.len() && length > 0).ok_or_else(broken)?;
    let answer = serde_json::from_slice(&message.body[8..split]).map_err(|_| broken())?;
    Ok((answer, &message.body[split..]))
}

/// The answer for a bundle.
pub fn compiled(bundle: &Bundle, kept: bool) -> Answer {
    Answer::Compiled {
        function: bundle.function.clone(),
        image_bytes: bundle.images.iter().map(|image| image.len() as u64).collect(),
        descriptor_bytes: bundle.descriptor.len() as u64,
        kept,
    }
}

/// Bytes that follow an [`Answer::Compiled`]: images, then the descriptor.
pub fn tail(bundle: &Bundle) -> Vec<&[u8]> {
    bundle.images.iter().map(|image| image.as_ref()).chain([bundle.descriptor.as_slice()]).collect()
}

/// The bundle of an answer.
pub fn read_bundle(answer: Answer, tail: &[u8]) -> Result<Bundle> {
    let Answer::Compiled { function, image_bytes, descriptor_bytes, .. } = answer else {
        return Err(Error::Protocol { what: "an answer without a bundle", found: 0, limit: 0 });
    };
    let limit = image_bytes.iter().fold(descriptor_bytes, |all, &n| all.saturating_add(n));
    let broken = Error::Protocol { what: "bytes of a bundle", found: tail.len() as u64, limit };
    if limit != tail.len() as u64 {
        return Err(broken);
    }
    let mut rest = tail;
    let mut images = Vec::new();
    for bytes in image_bytes {
        // Their sum is the length of the tail.
        let Some((image, after)) = rest.split_at_checked(bytes as usize) else { return Err(broken) };
        images.push(Bytes::copy_from_slice(image).into());
        rest = after;
    }
    Ok(Bundle { images, descriptor: rest.to_vec(), function })
}
