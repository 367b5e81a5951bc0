//! Parts shared by all calls: codes, pointers, the last error, and the device of the process.

use anemone::connection::Device;
use anemone::host::Evaluator;
use anemone::runtime::ModelCompiler;
use anemone_runtime::broker::client::{Loading, Remote, Route};
use anemone_runtime::cache::Cache;
use anemone_runtime::driver::sign::Signer;
use anemone_runtime::driver::{Config, Driver};
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{Quirks, Runtime};
use anemone_runtime::{Code, Error};
use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Codes of the calls. Numbers are ours: no source has the vendor's.
pub mod status {
    /// The call did what it states, and every result behind a pointer is written.
    pub const E5RT_SUCCESS: i64 = 0;
    /// A pointer is null, a text is not UTF-8, or a number is out of range.
    pub const E5RT_INVALID_ARGUMENT: i64 = 1;
    /// No function, port, option or setting has that name; the message has the name.
    pub const E5RT_NOT_FOUND: i64 = 2;
    /// The model was refused, or a compiled file is damaged; the message has the reason.
    pub const E5RT_COMPILE_FAILED: i64 = 3;
    /// A buffer or tensor does not have the size or the form that its port needs.
    pub const E5RT_SIZE_MISMATCH: i64 = 4;
    /// The state of the object does not allow the call; the message has the reason.
    pub const E5RT_INVALID_STATE: i64 = 5;
    /// The call reached its time limit, or the device aborted the request.
    pub const E5RT_TIMEOUT: i64 = 6;
    /// The device or the broker refused or failed the request; the message has the device's own code.
    pub const E5RT_DEVICE: i64 = 7;
    /// The operating system refused; the message has its reason.
    pub const E5RT_SYSTEM: i64 = 8;
    /// A defect of this library: the call caught a panic.
    pub const E5RT_DEFECT: i64 = 9;
    /// An output of the last run has an infinity or NaN.
    pub const E5RT_NOT_FINITE: i64 = 10;
    /// The compile was cancelled.
    pub const E5RT_CANCELLED: i64 = 11;
    /// The broker's policy or the driver does not give the caller the right; the message names the entitlement.
    pub const E5RT_NOT_PRIVILEGED: i64 = 12;
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

pub(crate) enum Refusal {
    Argument(&'static str),
    NotFound(String),
    Tensor(String),
    Cancelled,
    Runtime(Error),
}

impl Refusal {
    /// Error for an unknown option.
    pub(crate) fn option(name: &str) -> Refusal {
        Refusal::NotFound(format!("no option is called {name}"))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Runtime(error)
    }
}

pub(crate) type Done = Result<(), Refusal>;

/// Runs a call: returns its code, and keeps the message for the thread. Panics do not leave it.
pub(crate) fn call(work: impl FnOnce() -> Done) -> i64 {
    let refusal = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return status::E5RT_SUCCESS,
        Ok(Err(refusal)) => refusal,
        Err(_) => {
            LAST.with_borrow_mut(|last| *last = "this library has a defect".into());
            return status::E5RT_DEFECT;
        }
    };
    let (code, text) = match refusal {
        Refusal::Argument(what) => (status::E5RT_INVALID_ARGUMENT, format!("invalid argument: {what}")),
        Refusal::NotFound(what) => (status::E5RT_NOT_FOUND, what),
        Refusal::Tensor(what) => (status::E5RT_SIZE_MISMATCH, what),
        Refusal::Cancelled => (status::E5RT_CANCELLED, "the compile was cancelled".into()),
        Refusal::Runtime(error) => {
            let code = match &error {
                Error::Unknown { .. } => status::E5RT_NOT_FOUND,
                Error::Compile(_) | Error::Corrupt { .. } => status::E5RT_COMPILE_FAILED,
                Error::Size { .. } => status::E5RT_SIZE_MISMATCH,
                Error::NotFinite { .. } => status::E5RT_NOT_FINITE,
                Error::State { .. } => status::E5RT_INVALID_STATE,
                Error::Timeout { .. } => status::E5RT_TIMEOUT,
                Error::Denied { .. } | Error::Remote { code: Code::NOT_PRIVILEGED, .. } => status::E5RT_NOT_PRIVILEGED,
                Error::Driver { code: Code::NOT_PRIVILEGED, .. } => status::E5RT_NOT_PRIVILEGED,
                Error::Driver { code: Code::ABORTED | Code::TIMEOUT, .. } => status::E5RT_TIMEOUT,
                Error::System { .. } => status::E5RT_SYSTEM,
                _ => status::E5RT_DEVICE,
            };
            (code, error.to_string())
        }
    };
    LAST.with_borrow_mut(|last| *last = text);
    code
}

/// Copies the message of the thread's last error, with a terminating zero, truncated to `bytes`.
///
/// # Safety
/// `text` is null or has space for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_last_error_message(text: *mut c_char, bytes: usize) -> i64 {
    // SAFETY: as the caller promises.
    match LAST.with_borrow(|last| unsafe { put_text(text, bytes, last) }) {
        Ok(()) => status::E5RT_SUCCESS,
        Err(_) => status::E5RT_INVALID_ARGUMENT,
    }
}

/// Copies a text out, with a terminating zero, truncated to `bytes`.
///
/// # Safety
/// `to` is null or has space for `bytes`.
pub(crate) unsafe fn put_text(to: *mut c_char, bytes: usize, text: &str) -> Done {
    if to.is_null() || bytes == 0 {
        return Err(Refusal::Argument("a null text"));
    }
    let n = text.len().min(bytes - 1);
    // SAFETY: the caller gives space for `bytes`, and n + 1 is at most that.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), n);
        to.add(n).write(0);
    }
    Ok(())
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The object behind a handle.
///
/// # Safety
/// `handle` is null, or came from [`give`] and was not taken back.
pub(crate) unsafe fn object<'a, T>(handle: *const T) -> Result<&'a T, Refusal> {
    // SAFETY: as the caller promises.
    unsafe { handle.as_ref() }.ok_or(Refusal::Argument("a null handle"))
}

/// Passes a new object to the caller.
///
/// # Safety
/// `out` is null or may be written.
pub(crate) unsafe fn give<T>(out: *mut *mut T, make: impl FnOnce() -> Result<T, Refusal>) -> Done {
    if out.is_null() {
        return Err(Refusal::Argument("a null out-parameter"));
    }
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: not null, and writable as the caller promises.
    unsafe { out.write(made) };
    Ok(())
}

/// Takes an object back from the caller, and sets its handle to null.
///
/// # Safety
/// `handle` is null or may be written, and holds null or what [`give`] gave.
pub(crate) unsafe fn take<T>(handle: *mut *mut T) -> Done {
    if handle.is_null() {
        return Err(Refusal::Argument("a null handle"));
    }
    // SAFETY: not null, and readable and writable as the caller promises.
    let object = unsafe { handle.replace(std::ptr::null_mut()) };
    if object.is_null() {
        return Err(Refusal::Argument("a handle that was released"));
    }
    // SAFETY: it came from a box in `give`, and nobody takes it twice: the handle is null now.
    drop(unsafe { Box::from_raw(object) });
    Ok(())
}

/// Writes a value to an out-parameter.
///
/// # Safety
/// `out` is null or may be written.
pub(crate) unsafe fn set<T>(out: *mut T, value: T) -> Done {
    if out.is_null() {
        return Err(Refusal::Argument("a null out-parameter"));
    }
    // SAFETY: not null, and writable as the caller promises.
    unsafe { out.write(value) };
    Ok(())
}

/// A text from the caller.
///
/// # Safety
/// `text` is null or ends in a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Refusal> {
    if text.is_null() {
        return Err(Refusal::Argument("a null text"));
    }
    // SAFETY: it ends in a zero byte, as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Refusal::Argument("a text that is not UTF-8"))
}

/// The driver of the process, shared by streams of every compiler.
fn driver() -> Result<(Arc<Driver>, Signer), Refusal> {
    static DRIVER: OnceLock<(Arc<Driver>, Signer)> = OnceLock::new();
    if let Some(driver) = DRIVER.get() {
        return Ok(driver.clone());
    }
    let made = Driver::start(Config::default())?;
    Ok(DRIVER.get_or_init(|| made).clone())
}

/// Size limit of the cache in bytes.
const CACHE_BYTES: u64 = 4 << 30;

/// Environment variable with a broker's socket, for programs that do not set one.
const BROKER: &str = "ANEMONE_BROKER";
/// Environment variable with a defect of the M1's runtime to reproduce, for programs that do not set one.
const QUIRK: &str = "ANEMONE_QUIRK";
/// The only known defect: the second of two overlapped streams never completes.
pub(crate) const OVERLAPPED_STREAMS: &str = "overlapped-streams";

/// Configuration of a runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setting {
    /// Folder of the cache; `None` for no cache.
    pub cache: Option<PathBuf>,
    /// Socket of the broker; `None` for a device in this process.
    pub broker: Option<PathBuf>,
    /// True if submissions use a direct connection from the broker.
    pub direct: bool,
    /// Class of service of all requests to the broker.
    pub class: Option<u32>,
    /// Options for loads and compiles by the broker.
    pub loading: Loading,
    /// True if programs run in secure mode.
    pub secure: bool,
}

/// Flag that reproduces the defect in the process's streams, except existing ones.
pub(crate) fn overlap() -> &'static AtomicBool {
    static OVERLAP: OnceLock<AtomicBool> = OnceLock::new();
    OVERLAP.get_or_init(|| AtomicBool::new(std::env::var(QUIRK).is_ok_and(|quirk| quirk == OVERLAPPED_STREAMS)))
}

/// A runtime, with its device. A broker compiles and caches programs itself; host segments run in this process in either
/// case.
pub(crate) fn runtime(setting: &Setting) -> Result<(Arc<Runtime>, Device), Refusal> {
    let broker = setting.broker.clone().or_else(|| std::env::var_os(BROKER).map(PathBuf::from));
    let (runtime, device) = match broker {
        Some(_) if setting.secure => return Err(Refusal::Argument("secure mode of a broker's device")),
        Some(socket) => {
            let route = if setting.direct { Route::Direct } else { Route::Broker };
            let remote = Remote::connect(&socket, route)?.with_loading(setting.loading);
            let remote = Arc::new(setting.class.into_iter().fold(remote, Remote::with_class));
            (Runtime::new(remote.clone(), remote.clone(), None), Device::There(remote))
        }
        None => {
            let (driver, signer) = driver()?;
            let device = InProcess::with(driver, signer);
            let device = Arc::new(if setting.secure { device.secure() } else { device });
            let cache = setting.cache.as_deref().map(|folder| Cache::new(folder, CACHE_BYTES));
            (Runtime::new(device.clone(), Arc::new(ModelCompiler), cache), Device::Here(device))
        }
    };
    let quirks = Quirks { stream_overlap: overlap().load(Ordering::Relaxed) };
    Ok((Arc::new(runtime.with_host(Arc::new(Evaluator)).with_quirks(quirks)), device))
}

/// The runtime of streams, which are not created by a compiler.
pub(crate) fn shared() -> Result<Arc<Runtime>, Refusal> {
    static SHARED: OnceLock<Arc<Runtime>> = OnceLock::new();
    if let Some(runtime) = SHARED.get() {
        return Ok(Arc::clone(runtime));
    }
    let (made, _) = runtime(&Setting::default())?;
    Ok(Arc::clone(SHARED.get_or_init(|| made)))
}
