//! Messages with descriptors over Unix sockets, and the identity of the peer.

use crate::error::{Error, Result};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Largest number of descriptors of a message.
pub const MAX_DESCRIPTORS: usize = 16;
/// Largest message in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;
const HEAD_BYTES: usize = 8;

/// A message: a kind, bytes, descriptors.
#[derive(Debug, Default)]
pub struct Message {
    /// Kind of the message; see `wire` of the broker.
    pub kind: u32,
    /// Content.
    pub body: Vec<u8>,
    /// Descriptors sent with it.
    pub descriptors: Vec<OwnedFd>,
}

/// A connection.
pub type Stream = UnixStream;

/// Largest number of parts of a message in one system call.
const MAX_PARTS: usize = 64;
/// Longest path of a socket: the kernel's field has 108 bytes, the last of them zero.
pub const MAX_PATH_BYTES: usize = 107;

/// A listening socket.
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Listener {
    /// Listens at a path, accessible to this user only.
    pub fn bind(path: &Path) -> Result<Listener> {
        let fail = |what| move |e| Error::system(what, path.display(), e);
        let listener = UnixListener::bind(checked(path)?).map_err(fail("bind"))?;
        // Each peer is identified; other users are refused at their first message.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(fail("protect"))?;
        listener.set_nonblocking(true).map_err(fail("listen"))?;
        Ok(Listener(listener))
    }

    /// The next connection, if there is one in time.
    pub fn accept_within(&self, time: Duration) -> std::io::Result<Option<Stream>> {
        if !ready(&self.0, time) {
            return Ok(None);
        }
        match self.0.accept() {
            Ok((socket, _)) => Ok(Some(socket)),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// A path that is short enough for a socket.
fn checked(path: &Path) -> Result<&Path> {
    let found = path.as_os_str().len();
    if found <= MAX_PATH_BYTES {
        return Ok(path);
    }
    let text = format!("a socket's path has at most {MAX_PATH_BYTES} bytes, this one {found}; choose a shorter folder");
    Err(Error::system("socket", path.display(), std::io::Error::new(std::io::ErrorKind::InvalidInput, text)))
}

/// Returns true if there is data to read before the time is over. A signal does not end the wait.
fn ready(file: &impl AsFd, time: Duration) -> bool {
    let end = std::time::Instant::now().checked_add(time);
    loop {
        let left = end.map_or(time, |end| end.saturating_duration_since(std::time::Instant::now()));
        let mut wanted = [rustix::event::PollFd::new(file, rustix::event::PollFlags::IN)];
        let left = rustix::event::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match rustix::event::poll(&mut wanted, Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            other => return matches!(other, Ok(1..)),
        }
    }
}

/// Connects to a broker.
pub fn connect(path: &Path) -> Result<Stream> {
    UnixStream::connect(checked(path)?).map_err(|e| Error::system("connect to the broker at", path.display(), e))
}

/// Two ends of a connection.
pub fn pair() -> Result<(Stream, Stream)> {
    UnixStream::pair().map_err(|e| Error::system("socketpair", "", e))
}

/// Standard input as a socket.
pub fn standard_input() -> Result<Stream> {
    let own = std::io::stdin().as_fd().try_clone_to_owned();
    own.map(Stream::from).map_err(|e| Error::system("use standard input as a socket", "", e))
}

/// A socket as a child's standard input.
pub fn into_input(socket: Stream) -> Stdio {
    Stdio::from(OwnedFd::from(socket))
}

/// A socket as a descriptor, to be passed on.
pub fn descriptor(socket: &Stream) -> BorrowedFd<'_> {
    socket.as_fd()
}

/// A descriptor that came with a message, to be passed on.
pub fn borrowed(file: &OwnedFd) -> BorrowedFd<'_> {
    file.as_fd()
}

/// A socket from a passed descriptor.
pub fn from_descriptor(file: OwnedFd) -> Stream {
    Stream::from(file)
}

/// Sets the read time-out after which a receiver checks its deadline while a peer is silent.
pub fn set_tick(socket: &Stream) -> Result<()> {
    socket.set_read_timeout(Some(TICK)).map_err(|e| Error::system("socket", "", e))
}

/// Returns true if the socket becomes readable within the time.
pub fn readable_within(socket: &Stream, time: Duration) -> bool {
    ready(socket, time)
}

/// Ends a connection for both sides.
pub fn shut(socket: &Stream) {
    // It may have ended already.
    let _ = socket.shutdown(std::net::Shutdown::Both);
}

/// The user of this process.
pub fn own_user() -> u32 {
    rustix::process::getuid().as_raw()
}

fn failed(what: &'static str) -> impl Fn(Errno) -> Error {
    move |e| Error::system(what, "", e.into())
}

fn ended(what: &'static str) -> Error {
    Error::system(what, "", std::io::ErrorKind::UnexpectedEof.into())
}

/// Sends a message. Descriptors go with its first byte.
pub fn send(socket: &Stream, kind: u32, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    send_parts(socket, kind, &[body], descriptors)
}

/// As [`send`], with a body in parts, which are not copied.
pub fn send_parts(socket: &Stream, kind: u32, parts: &[&[u8]], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    if bytes > MAX_MESSAGE_BYTES || descriptors.len() > MAX_DESCRIPTORS {
        let limit = MAX_MESSAGE_BYTES as u64;
        return Err(Error::Protocol { what: "message too large", found: bytes as u64, limit });
    }
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&kind.to_le_bytes());
    head[4..].copy_from_slice(&(bytes as u32).to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let mut slices: Vec<IoSlice<'_>> = [&head[..]].iter().chain(parts).map(|part| IoSlice::new(part)).collect();
    let (mut left, mut all) = (HEAD_BYTES + bytes, slices.as_mut_slice());
    while left > 0 {
        match sendmsg(socket, &all[..all.len().min(MAX_PARTS)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(n) => {
                left -= n;
                IoSlice::advance_slices(&mut all, n);
                ancillary.clear();
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(failed("send")(e)),
        }
    }
    Ok(())
}

/// Time limit from a message's first byte to its last, besides the allowance for its length.
const MESSAGE_TIME: Duration = Duration::from_secs(5);
/// Least transfer rate in the allowance: 16 MB per second.
const BYTES_A_MILLISECOND: usize = 1 << 14;
/// Time that a receiver polls for a message before it sleeps: waking a thread takes longer than most messages take to arrive.
/// Meanwhile it yields the core to other work.
const AWAKE: Duration = Duration::from_micros(60);
/// Read time-out after which a receiver checks its deadline.
pub const TICK: Duration = Duration::from_millis(500);

/// Receives a message; `None` if the peer closed between messages. A body longer than `limit_bytes` is refused before
/// it is read. A peer may be silent between messages, but not within one: this needs a read time-out on the socket, for
/// which [`TICK`] is meant.
pub fn receive(socket: &Stream, limit_bytes: usize) -> Result<Option<Message>> {
    receive_from(socket, limit_bytes, None, MESSAGE_TIME)
}

/// As [`receive`], from a peer that must begin its message within that time.
pub fn receive_within(socket: &Stream, limit_bytes: usize, time: Duration) -> Result<Option<Message>> {
    receive_from(socket, limit_bytes, Some(Instant::now()), time)
}

fn receive_from(
    socket: &Stream,
    limit_bytes: usize,
    mut began: Option<Instant>,
    head_time: Duration,
) -> Result<Option<Message>> {
    let mut head = [0; HEAD_BYTES];
    let mut descriptors = Vec::new();
    let got = fill(socket, &mut head, &mut descriptors, &mut began, head_time)?;
    began = Some(Instant::now());
    if got == 0 {
        return Ok(None);
    }
    if got < HEAD_BYTES {
        return Err(ended("receive"));
    }
    let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if length > limit_bytes {
        return Err(Error::Protocol { what: "message too large", found: length as u64, limit: limit_bytes as u64 });
    }
    let time = MESSAGE_TIME + Duration::from_millis((length / BYTES_A_MILLISECOND) as u64);
    let mut body = Vec::new();
    while body.len() < length {
        // Grown as bytes arrive, so that a claimed length alone allocates nothing.
        let from = body.len();
        body.resize(length.min(from + (1 << 20)), 0);
        if fill(socket, &mut body[from..], &mut descriptors, &mut began, time)? < body.len() - from {
            return Err(ended("receive"));
        }
    }
    Ok(Some(Message { kind, body, descriptors }))
}

/// Reads until `to` is full or the peer has disconnected; returns the number of bytes read.
fn fill(
    socket: &Stream,
    to: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
    began: &mut Option<Instant>,
    time: Duration,
) -> Result<usize> {
    let mut got = 0;
    let mut quiet: Option<Instant> = None;
    while got < to.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut to[got..])];
        let mut flags = RecvFlags::CMSG_CLOEXEC;
        if got == 0 && quiet.is_none_or(|at| at.elapsed() < AWAKE) {
            quiet.get_or_insert_with(Instant::now);
            flags |= RecvFlags::DONTWAIT;
        }
        let received = match recvmsg(socket, &mut parts, &mut ancillary, flags) {
            Ok(received) => received.bytes,
            Err(Errno::AGAIN) if flags.contains(RecvFlags::DONTWAIT) => {
                std::thread::yield_now();
                continue;
            }
            Err(Errno::INTR | Errno::AGAIN) if began.is_none_or(|at| at.elapsed() < time) => continue,
            Err(e) => return Err(failed("receive")(e)),
        };
        began.get_or_insert_with(Instant::now);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(all) = message {
                descriptors.extend(all);
            }
        }
        if descriptors.len() > MAX_DESCRIPTORS {
            let found = descriptors.len() as u64;
            return Err(Error::Protocol { what: "too many descriptors", found, limit: MAX_DESCRIPTORS as u64 });
        }
        if received == 0 {
            break;
        }
        got += received;
        if got < to.len() && began.is_some_and(|at| at.elapsed() >= time) {
            return Err(failed("receive")(Errno::TIMEDOUT));
        }
    }
    Ok(got)
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

/// Queries the kernel for the peer's process, and hashes its executable. The process is pinned while its executable is
/// opened, so that a reused process number cannot take its place.
pub fn peer(socket: &Stream) -> Result<Peer> {
    let credentials = rustix::net::sockopt::socket_peercred(socket).map_err(failed("peer credentials"))?;
    let pid = credentials.pid;
    let pinned =
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).map_err(failed("pidfd_open"))?;
    let digest = digest_of(&format!("/proc/{}/exe", pid.as_raw_nonzero()))?;
    // If the process has ended meanwhile, its number may be reused: its pidfd is then readable.
    let mut ended_yet = [rustix::event::PollFd::new(&pinned, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    if rustix::event::poll(&mut ended_yet, Some(&now)).map_err(failed("poll"))? > 0 {
        return Err(ended("the peer"));
    }
    Ok(Peer { pid: pid.as_raw_nonzero().get() as u32, uid: credentials.uid.as_raw(), digest })
}

/// Identification of a file's content: device, number, size, and the times of its last changes, the last of which users cannot set.
type Stamp = [i64; 6];

/// Largest number of cached digests.
const MAX_DIGESTS: usize = 256;
static DIGESTS: Mutex<BTreeMap<Stamp, String>> = Mutex::new(BTreeMap::new());

/// SHA-256 of this process's executable, in hexadecimal.
pub fn own_digest() -> Result<String> {
    digest_of("/proc/self/exe")
}

/// SHA-256 of a file, in hexadecimal. Cached as long as the file does not change.
pub fn digest_of(path: &str) -> Result<String> {
    let fail = |what: &'static str| move |e: std::io::Error| Error::system(what, path, e);
    let mut file = std::fs::File::open(path).map_err(fail("open"))?;
    let m = file.metadata().map_err(fail("look at"))?;
    let stamp = [m.dev() as i64, m.ino() as i64, m.size() as i64, m.mtime_nsec(), m.ctime(), m.ctime_nsec()];
    let digests = || DIGESTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = digests().get(&stamp) {
        return Ok(known.clone());
    }
    let mut hash = Sha256::new();
    std::io::copy(&mut file, &mut hash).map_err(fail("read"))?;
    let digest = crate::words::hex(&hash.finalize());
    let mut all = digests();
    if all.len() >= MAX_DIGESTS {
        all.pop_first();
    }
    all.insert(stamp, digest.clone());
    Ok(digest)
}
