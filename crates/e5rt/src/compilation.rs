//! Background compiles.

#![allow(non_camel_case_types)]

use crate::compiler::{asked, e5rt_e5_compiler, e5rt_e5_compiler_options, e5rt_program_library, watcher};
use crate::handle::{Refusal, call, give, locked, object, set, take, text};
use anemone_runtime::e5rt::{Library, Step, Watcher};
use anemone_runtime::{Code, Error};
use std::ffi::c_char;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// A background compile.
pub struct e5rt_compilation(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Thread that is calling the caller's function.
    telling: Mutex<Option<ThreadId>>,
    changed: Condvar,
    told: Condvar,
}

impl Shared {
    /// Reports a step to the caller, unless the compile was released or cancelled.
    fn tell(&self, watcher: &Watcher, step: Step) {
        {
            let mut telling = locked(&self.telling);
            if !matches!(*locked(&self.state), State::Running) {
                return;
            }
            *telling = Some(std::thread::current().id());
        }
        watcher.tell(step);
        *locked(&self.telling) = None;
        self.told.notify_all();
    }

    /// Ends a running compile for its waiters. The caller's function is not called afterwards; a running call is waited for,
    /// unless it is the one that cancels.
    fn cancel(&self) {
        {
            let mut state = locked(&self.state);
            if matches!(*state, State::Running) {
                *state = State::Cancelled;
                self.changed.notify_all();
            }
        }
        let mut telling = locked(&self.telling);
        while telling.is_some_and(|thread| thread != std::thread::current().id()) {
            telling = self.told.wait(telling).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for e5rt_compilation {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[derive(Default)]
enum State {
    #[default]
    Running,
    Cancelled,
    /// The library, or the refusal, with the same code and text for every wait.
    Ended(Result<Library, (Code, String)>),
}

/// Longest wait in milliseconds.
const MOST_MS: u64 = 1 << 40;

/// Compiles a model in the background, or loads it from the cache. Null options are the defaults.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_compile_async(
    compiler: *const e5rt_e5_compiler,
    path: *const c_char,
    options: *const e5rt_e5_compiler_options,
    compilation: *mut *mut e5rt_compilation,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (runtime, path) = (Arc::clone(&object(compiler)?.0), PathBuf::from(text(path)?));
        let (options, watcher) = (asked(options), watcher(options));
        give(compilation, || {
            let shared = Arc::<Shared>::default();
            let own = Arc::clone(&shared);
            let (weak, stopper) = (Arc::downgrade(&shared), Arc::downgrade(&shared));
            let tell = move |step| {
                if let (Some(shared), Some(teller)) = (weak.upgrade(), &watcher) {
                    shared.tell(teller, step);
                }
            };
            let runs = move || stopper.upgrade().is_some_and(|shared| matches!(*locked(&shared.state), State::Running));
            let watcher = Watcher::new(tell).until(move || !runs());
            let work = move || {
                let ended = runtime
                    .compile_watched(&path, &options, Some(&watcher))
                    .map_err(|error| (error.code(), error.to_string()));
                let mut state = locked(&own.state);
                if matches!(*state, State::Running) {
                    *state = State::Ended(ended);
                    own.changed.notify_all();
                }
            };
            let spawned = std::thread::Builder::new().name("e5rt-compile".into()).spawn(work);
            spawned.map_err(|error| Error::system("spawn", "", error))?;
            Ok(e5rt_compilation(shared))
        })
    })
}

/// Waits for a compile, and returns its library; each call returns a new object. E5RT_TIMEOUT if it has not ended, E5RT_CANCELLED if it was
/// cancelled, else the reason of its failure.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_compilation_wait(
    compilation: *const e5rt_compilation,
    timeout_ms: u64,
    library: *mut *mut e5rt_program_library,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let shared = &object(compilation)?.0;
        give(library, || {
            let until = Instant::now() + Duration::from_millis(timeout_ms.min(MOST_MS));
            let mut state = locked(&shared.state);
            loop {
                match &*state {
                    State::Ended(Ok(library)) => return Ok(e5rt_program_library(library.clone())),
                    State::Ended(Err((code, said))) => {
                        let (code, text) = (*code, said.clone());
                        return Err(match code {
                            Code::ERROR => Error::Compile(text).into(),
                            code => Error::Remote { code, text }.into(),
                        });
                    }
                    State::Cancelled => return Err(Refusal::Cancelled),
                    State::Running => {}
                }
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let (what, waited_ms) = ("compile", timeout_ms);
                    return Err(Error::Timeout { what, waited_ms, code: Code::TIMEOUT }.into());
                }
                let waited = shared.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            }
        })
    })
}

/// Returns true if a compile has ended: done, failed or cancelled.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_compilation_is_done(compilation: *const e5rt_compilation, ended: *mut bool) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { set(ended, !matches!(*locked(&object(compilation)?.0.state), State::Running)) })
}

/// Cancels a compile: waits for it end with E5RT_CANCELLED at once. Its thread ends before the compiler's next pass or the next layer's
/// weights; in a broker the compile goes on to its end. A compile that has ended is not changed.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_compilation_cancel(compilation: *const e5rt_compilation) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        object(compilation)?.0.cancel();
        Ok(())
    })
}

/// Releases a compile; a running one is cancelled.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_compilation_release(compilation: *mut *mut e5rt_compilation) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(compilation) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::status;
    use anemone::connection::Device;
    use anemone_runtime::cache::Bundle;
    use anemone_runtime::e5rt::device::InProcess;
    use anemone_runtime::e5rt::{CompileOptions, Compiler, Runtime};
    use std::path::Path;
    use std::ptr;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A compiler that waits until it may go on, or nobody wants its result; it says which.
    struct Waits(Mutex<Receiver<()>>, Mutex<Sender<&'static str>>);

    impl Compiler for Waits {
        fn content(&self, _: &Path) -> Result<[u8; 32], String> {
            Ok([0; 32])
        }

        fn compile(&self, _: &Path, _: &CompileOptions) -> Result<Bundle, String> {
            Err("a compile that nobody watches".into())
        }

        fn compile_watched(&self, _: &Path, _: &CompileOptions, watcher: &Watcher) -> Result<Bundle, String> {
            let end = loop {
                if watcher.stopped() {
                    break "it was stopped";
                }
                if locked(&self.0).recv_timeout(Duration::from_millis(1)).is_ok() {
                    break "it was let go on";
                }
            };
            locked(&self.1).send(end).map_err(|e| e.to_string())?;
            Err(end.into())
        }
    }

    #[test]
    fn a_compile_times_out_is_cancelled_and_keeps_its_end() {
        let (go_on, waits) = channel();
        let (end, ended) = channel();
        let compiler = Waits(Mutex::new(waits), Mutex::new(end));
        let device = Arc::new(InProcess::start().expect("a driver"));
        let runtime = Arc::new(Runtime::new(device.clone(), Arc::new(compiler), None));
        let compiler = e5rt_e5_compiler(runtime, Device::Here(device));
        let (mut first, mut second, mut library) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: every pointer is one of this library, or to a variable of the right type, or null.
        unsafe {
            let begin = |at: &mut *mut e5rt_compilation| {
                e5rt_e5_compiler_compile_async(&compiler, c"model".as_ptr(), ptr::null(), at)
            };
            assert_eq!((begin(&mut first), begin(&mut second)), (status::E5RT_SUCCESS, status::E5RT_SUCCESS));
            assert_eq!(e5rt_compilation_wait(first, 1, &mut library), status::E5RT_TIMEOUT);
            assert_eq!(e5rt_compilation_cancel(second), status::E5RT_SUCCESS);
            assert_eq!(e5rt_compilation_wait(second, 600_000, &mut library), status::E5RT_CANCELLED);
            // A compile that is cancelled before the compiler is called does not call it.
            let stopped = ended.recv_timeout(Duration::from_secs(5));
            assert!(stopped.is_err() || stopped == Ok("it was stopped"), "{stopped:?}");
            go_on.send(()).expect("it waits");
            assert_eq!(ended.recv_timeout(Duration::from_secs(600)), Ok("it was let go on"));
            for _ in 0..2 {
                assert_eq!(e5rt_compilation_wait(first, 600_000, &mut library), status::E5RT_COMPILE_FAILED);
            }
            assert_eq!(e5rt_compilation_cancel(first), status::E5RT_SUCCESS);
            assert_eq!(e5rt_compilation_wait(first, 0, &mut library), status::E5RT_COMPILE_FAILED);
            assert_eq!(e5rt_compilation_release(&mut first), status::E5RT_SUCCESS);
            assert_eq!(e5rt_compilation_release(&mut second), status::E5RT_SUCCESS);
        }
        assert!(library.is_null());
    }
}
