//! Notification ports, and the run loop that calls back.

use crate::foundation::CFTypeRef;
use crate::memory::write;
use crate::world::{Object, Pending, guarded, world};
use anemone_runtime::Code;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

/// Interval between two polls of a wait.
const POLL: Duration = Duration::from_micros(100);

/// Results of a run loop, with CoreFoundation's numbers: without sources, after the time limit, after a message.
const FINISHED: i32 = 1;
const TIMED_OUT: i32 = 3;
const HANDLED: i32 = 4;
/// Result of [`AnemoneWait`] after the time limit.
const WAIT_TIMED_OUT: u32 = 5;

thread_local! {
    /// Ports whose sources are in this thread's run loop.
    static SOURCES: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// A port for the messages of asynchronous calls, as an opaque pointer; null without a driver.
#[unsafe(no_mangle)]
pub extern "C" fn IONotificationPortCreate(_main_port: u32) -> *mut c_void {
    guarded(std::ptr::null_mut(), || {
        world().map_or(std::ptr::null_mut(), |mut w| w.add(Object::Port(Vec::new())) as usize as *mut c_void)
    })
}

/// The port's number, for calls.
#[unsafe(no_mangle)]
pub extern "C" fn IONotificationPortGetMachPort(port: *mut c_void) -> u32 {
    u32::try_from(port as usize).unwrap_or(0)
}

/// The port's source, for a run loop.
#[unsafe(no_mangle)]
pub extern "C" fn IONotificationPortGetRunLoopSource(port: *mut c_void) -> *mut c_void {
    port
}

/// Destroys a port. Messages of its calls are dropped.
#[unsafe(no_mangle)]
pub extern "C" fn IONotificationPortDestroy(port: *mut c_void) {
    let port = IONotificationPortGetMachPort(port);
    guarded((), || {
        if let Some(mut world) = world()
            && matches!(world.object(port), Some(Object::Port(_)))
        {
            world.remove(port);
        }
    });
}

/// This thread's run loop.
#[unsafe(no_mangle)]
pub extern "C" fn CFRunLoopGetCurrent() -> *mut c_void {
    std::ptr::without_provenance_mut(1)
}

/// Adds a port's source to this thread's run loop.
#[unsafe(no_mangle)]
pub extern "C" fn CFRunLoopAddSource(_run_loop: *mut c_void, source: *mut c_void, _mode: CFTypeRef) {
    let port = IONotificationPortGetMachPort(source);
    SOURCES.with_borrow_mut(|all| {
        if !all.contains(&port) {
            all.push(port);
        }
    });
}

/// Removes a port's source from this thread's run loop.
#[unsafe(no_mangle)]
pub extern "C" fn CFRunLoopRemoveSource(_run_loop: *mut c_void, source: *mut c_void, _mode: CFTypeRef) {
    let port = IONotificationPortGetMachPort(source);
    SOURCES.with_borrow_mut(|all| all.retain(|&p| p != port));
}

/// Runs this thread's run loop for a number of seconds, or until one message is delivered if `one` is set. Returns 1 without
/// sources, 3 after the time limit, 4 after a message.
#[unsafe(no_mangle)]
pub extern "C" fn CFRunLoopRunInMode(_mode: CFTypeRef, seconds: f64, one: u8) -> i32 {
    guarded(FINISHED, || {
        let ports = SOURCES.with_borrow(Vec::clone);
        if ports.is_empty() {
            return FINISHED;
        }
        let seconds = if seconds.is_finite() { seconds.clamp(0.0, 1e6) } else { 1e6 };
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let mut delivered = false;
        loop {
            delivered |= ports.iter().any(|&port| deliver(port));
            if (delivered && one != 0) || Instant::now() >= end {
                return if delivered && one != 0 { HANDLED } else { TIMED_OUT };
            }
            std::thread::sleep(POLL);
        }
    })
}

/// Waits for one message of a port and calls its function: returns 0, or 5 after the time limit.
#[unsafe(no_mangle)]
pub extern "C" fn AnemoneWait(port: *mut c_void, milliseconds: u32) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        let port = IONotificationPortGetMachPort(port);
        if !world().is_some_and(|mut w| matches!(w.object(port), Some(Object::Port(_)))) {
            return Code::BAD_ARGUMENT.0;
        }
        let end = Instant::now() + Duration::from_millis(milliseconds.into());
        loop {
            if deliver(port) {
                return 0;
            }
            if Instant::now() >= end {
                return WAIT_TIMED_OUT;
            }
            std::thread::sleep(POLL);
        }
    })
}

/// Delivers the first arrived message of a port: copies its reply to the caller and calls the callback. Returns false if
/// there is none.
fn deliver(port: u32) -> bool {
    let Some(mut world) = world() else { return false };
    let Some(Object::Port(pending)) = world.object(port) else { return false };
    let mut found = None;
    for (at, Pending { message, .. }) in pending.iter().enumerate() {
        match message.try_recv() {
            Ok(message) => found = Some((at, Some(message))),
            Err(TryRecvError::Disconnected) => found = Some((at, None)),
            Err(TryRecvError::Empty) => continue,
        }
        break;
    }
    let Some((at, message)) = found else { return false };
    let Pending { callback: (function, argument), output, .. } = pending.remove(at);
    // The function may call this library, so the lock must be released.
    drop(world);
    let code = message.as_ref().map_or(Code::CLOSED, |m| m.code);
    if let Some(message) = &message {
        write(output as usize as *mut c_void, &message.reply);
    }
    if function != 0 {
        // SAFETY: word 1 of an asynchronous call's reference is a function of this type, as the header requires of the caller.
        let function: extern "C" fn(*mut c_void, u32, *mut *mut c_void, u32) =
            unsafe { std::mem::transmute::<usize, _>(function as usize) };
        function(argument as usize as *mut c_void, code.0, std::ptr::null_mut(), 0);
    }
    true
}
