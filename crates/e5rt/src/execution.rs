//! Operations, ports, buffers, streams, events.

#![allow(non_camel_case_types)]

use crate::compiler::e5rt_program_function;
use crate::handle::{Refusal, call, give, locked, object, put_text, set, shared, take, text};
use anemone_runtime::e5rt::{Buffer, Event, Function, IoPort, Operation, Stream, StreamConfig};
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Options of an operation: the function that it executes.
pub struct e5rt_precompiled_compute_op_create_options(Function, Mutex<String>);
/// An operation of a stream: one call of a function with its bound buffers.
pub struct e5rt_execution_stream_operation(Arc<Operation>, String);
/// An input, output or state of an operation, to which a buffer is bound.
pub struct e5rt_io_port(IoPort);
/// Memory for a tensor, which can be bound to ports of several operations.
pub struct e5rt_buffer_object(Arc<Buffer>);
/// Settings of a stream.
pub struct e5rt_execution_stream_config(Mutex<StreamConfig>);
/// A stream: operations that are submitted in order.
pub struct e5rt_execution_stream(Stream);
/// An event, which fires once with the result of an operation or a submission.
pub struct e5rt_async_event(Arc<Event>);

/// Creates options for an operation that executes a function.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_precompiled_compute_op_create_options_create_with_program_function(
    options: *mut *mut e5rt_precompiled_compute_op_create_options,
    function: *const e5rt_program_function,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let function = object(function)?.0.clone();
        give(options, || Ok(e5rt_precompiled_compute_op_create_options(function, Mutex::default())))
    })
}

/// Releases options.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_precompiled_compute_op_create_options_release(
    options: *mut *mut e5rt_precompiled_compute_op_create_options,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(options) })
}

/// Creates an operation; loads its program if necessary.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(
    operation: *mut *mut e5rt_execution_stream_operation,
    options: *const e5rt_precompiled_compute_op_create_options,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let options = object(options)?;
        let name = locked(&options.1).clone();
        give(operation, || Ok(e5rt_execution_stream_operation(options.0.operation()?, name)))
    })
}

/// Gets an input port by name.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
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

/// Gets an output port by name.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
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

/// Prepares an operation; otherwise its first encoding does.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
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

/// Checks the numbers in the operation's outputs after the last run: `E5RT_NOT_FINITE` if an element of a float output is
/// infinite or NaN; the message has the first such output, the number of such elements, and the first position. The engine
/// computes in fp16: numbers beyond 65504 become infinite.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_operation_check_numbers(
    operation: *const e5rt_execution_stream_operation,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(operation)?.0.check_numbers()?) })
}

/// Copies the name of an operation.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_operation_get_name(
    operation: *const e5rt_execution_stream_operation,
    name: *mut c_char,
    bytes: usize,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { put_text(name, bytes, &object(operation)?.1) })
}

/// Releases an operation.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
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
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_io_port_bind_buffer_object(
    port: *const e5rt_io_port,
    buffer: *const e5rt_buffer_object,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(port)?.0.bind(&object(buffer)?.0)?) })
}

/// Returns the size of a port's tensor in bytes: dense, in the network's element type.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
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
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_io_port_release(port: *mut *mut e5rt_io_port) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(port) })
}

/// Allocates a buffer of zeros; the type must be 0.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
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

/// Returns the address of a buffer's bytes, valid until the buffer and all ports that it is bound to are released. The caller must not access
/// them while a stream with the buffer executes.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_buffer_object_get_data_ptr(
    buffer: *const e5rt_buffer_object,
    data: *mut *mut c_void,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { set(data, object(buffer)?.0.shared().address().cast()) })
}

/// Returns the size of a buffer.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_buffer_object_get_size(buffer: *const e5rt_buffer_object, bytes: *mut usize) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { set(bytes, object(buffer)?.0.shared().len()) })
}

/// Releases a buffer.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_buffer_object_release(buffer: *mut *mut e5rt_buffer_object) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(buffer) })
}

/// Sets a text: `operation_name`, the name of the operation in messages.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_precompiled_compute_op_create_options_set_string(
    options: *const e5rt_precompiled_compute_op_create_options,
    key: *const c_char,
    value: *const c_char,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (options, key, value) = (object(options)?, text(key)?, text(value)?);
        match key {
            "operation_name" => *locked(&options.1) = value.into(),
            other => return Err(Refusal::option(other)),
        }
        Ok(())
    })
}

/// Creates a stream configuration with its defaults.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_config_create(config: *mut *mut e5rt_execution_stream_config) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { give(config, || Ok(e5rt_execution_stream_config(Mutex::default()))) })
}

/// Sets a switch: `enable_concurrent_sync_execution`, `enable_low_latency_async_events`, `skip_io_fences` (without effect, since there are no
/// fences).
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_config_set_int(
    config: *const e5rt_execution_stream_config,
    key: *const c_char,
    value: i64,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (config, key) = (object(config)?, text(key)?);
        let mut config = locked(&config.0);
        match key {
            "enable_concurrent_sync_execution" => config.concurrent_execution = value != 0,
            "enable_low_latency_async_events" => config.low_latency_events = value != 0,
            "skip_io_fences" => {}
            other => return Err(Refusal::option(other)),
        }
        Ok(())
    })
}

/// Releases a configuration.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_config_release(config: *mut *mut e5rt_execution_stream_config) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(config) })
}

/// Creates an empty stream with a configuration.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_create_with_config(
    stream: *mut *mut e5rt_execution_stream,
    config: *const e5rt_execution_stream_config,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let config = *locked(&object(config)?.0);
        give(stream, || Ok(e5rt_execution_stream(Stream::with(&shared()?, config))))
    })
}

/// Creates an empty stream.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_create(stream: *mut *mut e5rt_execution_stream) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { give(stream, || Ok(e5rt_execution_stream(Stream::new(&shared()?)))) })
}

/// Appends an operation; every port must have a buffer.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_encode_operation(
    stream: *const e5rt_execution_stream,
    operation: *const e5rt_execution_stream_operation,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(stream)?.0.encode(&object(operation)?.0).map(drop)?) })
}

/// Runs the encoded operations, and waits for them.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_execute_sync(stream: *const e5rt_execution_stream) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(stream)?.0.execute()?) })
}

/// Runs the encoded operations in the background. With a time-out above 0, unfinished work is then aborted. The event fires at the end.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
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

/// Removes the encoded operations of a stream; bindings and buffers stay.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
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
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_execution_stream_release(stream: *mut *mut e5rt_execution_stream) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(stream) })
}

/// Waits for an event. The code is that of the work: E5RT_SUCCESS, or the reason of its failure; E5RT_TIMEOUT if it has not ended.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_async_event_sync_wait(event: *const e5rt_async_event, timeout_ms: u64) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(event)?.0.wait(Duration::from_millis(timeout_ms.min(1 << 40)))?) })
}

/// Returns true if an event has fired.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_async_event_is_done(event: *const e5rt_async_event, done: *mut bool) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { set(done, object(event)?.0.is_done()) })
}

/// Releases an event.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_async_event_release(event: *mut *mut e5rt_async_event) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(event) })
}
