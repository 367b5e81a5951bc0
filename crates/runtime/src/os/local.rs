//! Systems without the broker's calls: memory of this process only, and no sockets.

use crate::error::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};

/// A descriptor; none can be passed here.
#[derive(Debug)]
pub enum Descriptor {}
/// Borrowed descriptor: its owner closes it.
pub type BorrowedDescriptor<'a> = &'a Descriptor;

/// Error for a call that this system lacks.
fn absent<T>(what: &'static str) -> Result<T> {
    let system = super::NAME;
    let text = format!("{what}: not on {system}; the broker runs on linux, everything else in this process");
    Err(Error::system("broker", "", std::io::Error::new(std::io::ErrorKind::Unsupported, text)))
}

/// Memory of this process.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
}

impl Memory {
    /// New memory, all zero.
    pub fn new(bytes: u64) -> Result<Memory> {
        let map = MmapOptions::new().len(bytes as usize).map_anon().map_err(|e| Error::system("mmap", "", e))?;
        Ok(Memory { map: map.into() })
    }

    /// Memory of a descriptor passed by a peer.
    pub fn adopt(file: Descriptor, _: u64) -> Result<Memory> {
        match file {}
    }

    /// The mapping.
    pub fn mapping(&self) -> &MmapRaw {
        &self.map
    }

    /// The descriptor, to be passed on.
    pub fn descriptor(&self) -> Result<BorrowedDescriptor<'_>> {
        absent("memory passed to another process")
    }
}

/// Confinement, which this system lacks.
pub fn confine() -> Result<bool> {
    absent("confinement of the compile service")
}

/// Sockets, which cannot be created.
pub mod socket {
    use super::{BorrowedDescriptor, Descriptor, absent};
    use crate::error::Result;
    use std::path::Path;
    use std::time::Duration;

    /// Most bytes of one message.
    pub const MAX_MESSAGE_BYTES: usize = 1 << 30;
    /// Read time-out of receivers on systems with sockets.
    pub const TICK: Duration = Duration::from_millis(500);

    /// A connection.
    #[derive(Debug)]
    pub enum Stream {}

    /// A listening socket.
    #[derive(Debug)]
    pub enum Listener {}

    /// A message: a kind, bytes, descriptors.
    #[derive(Debug, Default)]
    pub struct Message {
        /// Kind of the message.
        pub kind: u32,
        /// Content.
        pub body: Vec<u8>,
        /// Descriptors that came with it.
        pub descriptors: Vec<Descriptor>,
    }

    /// Peer of a socket, as reported by the kernel.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Peer {
        /// Process.
        pub pid: u32,
        /// User.
        pub uid: u32,
        /// SHA-256 of the executable, in hexadecimal.
        pub digest: String,
    }

    impl Listener {
        /// Listens at a path, accessible to this user only.
        pub fn bind(_: &Path) -> Result<Listener> {
            absent("a socket that listens")
        }

        /// The next connection, if there is one in time.
        pub fn accept_within(&self, _: Duration) -> std::io::Result<Option<Stream>> {
            match *self {}
        }
    }

    /// Connects to a broker.
    pub fn connect(_: &Path) -> Result<Stream> {
        absent("a connection to a broker")
    }

    /// Two ends of a connection.
    pub fn pair() -> Result<(Stream, Stream)> {
        absent("a pair of sockets")
    }

    /// Standard input as a socket.
    pub fn standard_input() -> Result<Stream> {
        absent("a socket as standard input")
    }

    /// A socket as a child's standard input.
    pub fn into_input(socket: Stream) -> std::process::Stdio {
        match socket {}
    }

    /// A socket as a descriptor, to be passed on.
    pub fn descriptor(socket: &Stream) -> BorrowedDescriptor<'_> {
        match *socket {}
    }

    /// A descriptor that came with a message, to be passed on.
    pub fn borrowed(file: &Descriptor) -> BorrowedDescriptor<'_> {
        file
    }

    /// A socket from a passed descriptor.
    pub fn from_descriptor(file: Descriptor) -> Stream {
        match file {}
    }

    /// Sets the read time-out after which a receiver checks its deadline while a peer is silent.
    pub fn set_tick(socket: &Stream) -> Result<()> {
        match *socket {}
    }

    /// Returns true if the socket becomes readable within the time.
    pub fn readable_within(socket: &Stream, _: Duration) -> bool {
        match *socket {}
    }

    /// Ends a connection for both sides.
    pub fn shut(socket: &Stream) {
        match *socket {}
    }

    /// Sends a message.
    pub fn send(socket: &Stream, _: u32, _: &[u8], _: &[BorrowedDescriptor<'_>]) -> Result<()> {
        match *socket {}
    }

    /// Sends a message in parts.
    pub fn send_parts(socket: &Stream, _: u32, _: &[&[u8]], _: &[BorrowedDescriptor<'_>]) -> Result<()> {
        match *socket {}
    }

    /// Receives a message.
    pub fn receive(socket: &Stream, _: usize) -> Result<Option<Message>> {
        match *socket {}
    }

    /// Receives a message that must begin in time.
    pub fn receive_within(socket: &Stream, _: usize, _: Duration) -> Result<Option<Message>> {
        match *socket {}
    }

    /// Identity of the peer.
    pub fn peer(socket: &Stream) -> Result<Peer> {
        match *socket {}
    }

    /// SHA-256 of this process's executable, in hexadecimal.
    pub fn own_digest() -> Result<String> {
        absent("the digest of this program")
    }

    /// The user of this process.
    pub fn own_user() -> u32 {
        0
    }
}
