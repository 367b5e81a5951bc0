//! Operations, ports, buffers, streams, events.

#![allow(non_camel_case_types)]

use crate::compiler::e5rt_program_function;
use crate::handle::{Refusal, call, give, object, set, shared, take, text};
use anemone_runtime::e5rt::{Buffer, Event, Function, IoPort, Operation, Stream};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

/// How an operation is made.
pub struct e5rt_precompiled_compute_op_create_options(Function);
/// An operation.
pub struct e5rt_execution_stream_operation(Arc<Operation>);
/// A port of an operation.
pub struct e5rt_io_port(IoPort);
/// A buffer.
pub struct e5rt_buffer_object(Arc<Buffer>);
/// A stream.
pub struct e5rt_execution_stream(Stream);
/// An event.
pub struct e5rt_async_event(Arc<Event>);

/// Options for an operation of a function.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_precompiled_compute_op_create_options_create_with_program_function(
    options: *mut *mut e5rt_precompiled_compute_op_create_options,
    function: *const e5rt_program_function,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let function = object(function)?.0.clone();
        give(options, || Ok(e5rt_precompiled_compute_op_create_options(function)))
    })
}

/// Releases options.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_precompiled_compute_op_create_options_release(
    options: *mut *mut e5rt_precompiled_compute_op_create_options,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(options) })
}

/// Makes an operation; its program is loaded if it was not.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(
    operation: *mut *mut e5rt_execution_stream_operation,
    options: *const e5rt_precompiled_compute_op_create_options,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let options = object(options)?;
        give(operation, || Ok(e5rt_execution_stream_operation(options.0.operation()?)))
    })
}

/// An input port, by name.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_operation_retain_input_port(
    operation: *const e5rt_execution_stream_operation,
    name: *const c_char,
    port: *mut *mut e5rt_io_port,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (operation, name) = (object(operation)?, text(name)?);
        give(port, || Ok(e5rt_io_port(operation.0.port(name, false)?)))
    })
}

/// An output port, by name.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_operation_retain_output_port(
    operation: *const e5rt_execution_stream_operation,
    name: *const c_char,
    port: *mut *mut e5rt_io_port,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (operation, name) = (object(operation)?, text(name)?);
        give(port, || Ok(e5rt_io_port(operation.0.port(name, true)?)))
    })
}

/// Prepares an operation; encoding does it if nobody did.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_operation_prepare_op_for_encode(
    operation: *const e5rt_execution_stream_operation,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        object(operation)?.0.prepare();
        Ok(())
    })
}

/// Releases an operation.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_operation_release(
    operation: *mut *mut e5rt_execution_stream_operation,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(operation) })
}

/// Binds a buffer to a port. One buffer on an output and an input port is resident state.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_io_port_bind_buffer_object(
    port: *const e5rt_io_port,
    buffer: *const e5rt_buffer_object,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(port)?.0.bind(&object(buffer)?.0)?) })
}

/// Bytes of a port's tensor: dense, in the network's element type.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_io_port_get_size(port: *const e5rt_io_port, bytes: *mut usize) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let found = anemone_runtime::e5rt::cast::dense_bytes(object(port)?.0.info());
        set(bytes, found.unwrap_or(0) as usize)
    })
}

/// Releases a port.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_io_port_release(port: *mut *mut e5rt_io_port) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(port) })
}

/// Makes a buffer of zeros; type 0 is the only one.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_buffer_object_alloc(
    buffer: *mut *mut e5rt_buffer_object,
    bytes: usize,
    kind: u32,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        if kind != 0 {
            return Err(Refusal::Argument("a buffer type other than 0"));
        }
        give(buffer, || Ok(e5rt_buffer_object(Buffer::new(bytes as u64)?)))
    })
}

/// Address of a buffer's bytes; good until the buffer and all ports it is bound to are released. Not to be touched while a stream with it executes.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_buffer_object_get_data_ptr(
    buffer: *const e5rt_buffer_object,
    data: *mut *mut c_void,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { set(data, object(buffer)?.0.shared().address().cast()) })
}

/// Bytes of a buffer.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_buffer_object_get_size(buffer: *const e5rt_buffer_object, bytes: *mut usize) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { set(bytes, object(buffer)?.0.shared().len()) })
}

/// Releases a buffer.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_buffer_object_release(buffer: *mut *mut e5rt_buffer_object) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(buffer) })
}

/// Makes an empty stream.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_create(stream: *mut *mut e5rt_execution_stream) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { give(stream, || Ok(e5rt_execution_stream(Stream::new(&shared()?)))) })
}

/// Appends an operation; every port must have a buffer.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_encode_operation(
    stream: *const e5rt_execution_stream,
    operation: *const e5rt_execution_stream_operation,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(stream)?.0.encode(&object(operation)?.0).map(drop)?) })
}

/// Runs what is encoded, until done.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_execute_sync(stream: *const e5rt_execution_stream) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(stream)?.0.execute()?) })
}

/// Runs what is encoded in the background. With a time-out above 0, what is not done then is aborted. The event fires at the end.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_submit_async(
    stream: *const e5rt_execution_stream,
    timeout_ms: u64,
    submission: *mut u64,
    complete: *mut *mut e5rt_async_event,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let limit = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        if submission.is_null() {
            return Err(Refusal::Argument("a null out-parameter"));
        }
        let stream = object(stream)?;
        give(complete, || {
            let (id, event) = stream.0.submit(limit)?;
            set(submission, id)?;
            Ok(e5rt_async_event(event))
        })
    })
}

/// Empties a stream; bindings and buffers stay.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_reset(stream: *const e5rt_execution_stream) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        object(stream)?.0.reset();
        Ok(())
    })
}

/// Releases a stream.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_release(stream: *mut *mut e5rt_execution_stream) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(stream) })
}

/// Waits for an event; the code is how the work ended.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_async_event_sync_wait(event: *const e5rt_async_event, timeout_ms: u64) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(event)?.0.wait(Duration::from_millis(timeout_ms.min(1 << 40)))?) })
}

/// Whether an event has fired.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_async_event_is_done(event: *const e5rt_async_event, done: *mut bool) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { set(done, object(event)?.0.is_done()) })
}

/// Releases an event.
///
/// # Safety
/// Pointers are null, or as the front page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_async_event_release(event: *mut *mut e5rt_async_event) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(event) })
}
