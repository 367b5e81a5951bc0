//! Connections and their calls: scalars and structures of exact sizes, synchronous or through a notification port.

use crate::memory::{read, words, write};
use crate::world::{Object, Pending, guarded, world};
use anemone_facts::driver::selectors::ARGUMENT_BLOCK;
use anemone_runtime::Code;
use anemone_runtime::driver::WakePort;
use anemone_runtime::driver::client::Arguments;
use std::ffi::c_void;
use std::sync::Arc;

/// Largest size of a structure in bytes, and largest number of scalars, of any call.
const MAX_STRUCT_BYTES: usize = 1 << 16;
const MAX_SCALARS: usize = 16;

/// Positions in an asynchronous call's reference: the function, and its argument.
const CALLBACK: usize = 1;
const ARGUMENT: usize = 2;

/// Opens a client of a type on a service: 0 control, 1 direct path, 2 hints. The handshake is selector 0, as on the device.
#[unsafe(no_mangle)]
pub extern "C" fn IOServiceOpen(service: u32, _task: u32, kind: u32, to: *mut u32) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        let Some(mut world) = world() else { return Code::NO_RESOURCES.0 };
        if !matches!(world.object(service), Some(Object::Service(_))) {
            return Code::BAD_ARGUMENT.0;
        }
        let client = match world.driver.open(&world.task, kind) {
            Ok(client) => client,
            Err(code) => return code.0,
        };
        let handle = world.add(Object::Connection(Arc::new(client)));
        if write(to.cast(), &handle.to_le_bytes()) {
            return 0;
        }
        world.remove(handle);
        Code::BAD_ARGUMENT.0
    })
}

/// Closes a connection; its programs and maps are released.
#[unsafe(no_mangle)]
pub extern "C" fn IOServiceClose(connection: u32) -> u32 {
    guarded(Code::BAD_ARGUMENT.0, || {
        let Some(mut world) = world() else { return Code::NO_RESOURCES.0 };
        if world.client(connection).is_none() {
            return Code::BAD_ARGUMENT.0;
        }
        let closed = world.remove(connection);
        drop(world);
        if let Some(Object::Connection(client)) = closed {
            client.close();
        }
        0
    })
}

/// Arguments of a call, including the addresses of its results.
struct Call {
    connection: u32,
    selector: u32,
    scalars: (*const u64, u32),
    structure: (*const c_void, usize),
    scalars_out: (*mut u64, *mut u32),
    structure_out: (*mut c_void, *mut usize),
}

impl Call {
    /// Makes the call. With a port, the reply of 40 bytes is copied to the caller's structure when its message is delivered.
    fn make(&self, port: Option<(u32, Vec<u64>)>) -> Result<(), Code> {
        let client = world().ok_or(Code::NO_RESOURCES)?.client(self.connection).ok_or(Code::BAD_ARGUMENT)?;
        let scalars = match self.scalars.1 as usize {
            0 => Vec::new(),
            count if count <= MAX_SCALARS => words(self.scalars.0, count).ok_or(Code::BAD_ARGUMENT)?,
            _ => return Err(Code::BAD_ARGUMENT),
        };
        let structure = match self.structure.1 {
            0 => None,
            bytes if bytes <= MAX_STRUCT_BYTES => Some(read(self.structure.0, bytes).ok_or(Code::BAD_ARGUMENT)?),
            _ => return Err(Code::BAD_ARGUMENT),
        };
        let capacity = |at: *const c_void, bytes: usize| match at.is_null() {
            true => Ok(0),
            false => read(at, bytes)
                .map(|b| b.iter().rev().fold(0, |all: usize, &b| all << 8 | usize::from(b)))
                .ok_or(Code::BAD_ARGUMENT),
        };
        let count = capacity(self.scalars_out.1.cast_const().cast(), 4)?;
        let bytes = capacity(self.structure_out.1.cast_const().cast(), size_of::<usize>())?;
        if count > MAX_SCALARS || bytes > MAX_STRUCT_BYTES {
            return Err(Code::BAD_ARGUMENT);
        }
        let (mut scalars_out, mut output) = (vec![0; count], vec![0; bytes]);
        let (wake, message) = match port {
            None => (None, None),
            Some(_) => {
                let (wake, message) = WakePort::new();
                (Some(wake), Some(message))
            }
        };
        let arguments = Arguments {
            scalars_in: &scalars,
            struct_in: structure.as_deref(),
            scalars_out: &mut scalars_out,
            struct_out: (bytes > 0).then_some(&mut output),
            wake,
        };
        match client.call(self.selector, arguments) {
            Code::SUCCESS => {}
            code => return Err(code),
        }
        if let (Some((port, reference)), Some(message)) = (port, message) {
            let callback = (reference.get(CALLBACK).copied(), reference.get(ARGUMENT).copied());
            let callback = (callback.0.unwrap_or(0), callback.1.unwrap_or(0));
            let mut world = world().ok_or(Code::NO_RESOURCES)?;
            let Some(Object::Port(pending)) = world.object(port) else { return Err(Code::BAD_ARGUMENT) };
            pending.push(Pending { message, callback, output: self.structure_out.0 as u64 });
            return Ok(());
        }
        let scalars: Vec<u8> = scalars_out.iter().flat_map(|s| s.to_le_bytes()).collect();
        let written = (scalars.is_empty() || write(self.scalars_out.0.cast(), &scalars))
            && (output.is_empty() || write(self.structure_out.0, &output));
        if written { Ok(()) } else { Err(Code::BAD_ARGUMENT) }
    }
}

fn code(result: Result<(), Code>) -> u32 {
    result.err().unwrap_or(Code::SUCCESS).0
}

/// Calls a selector with scalars and structures.
#[unsafe(no_mangle)]
pub extern "C" fn IOConnectCallMethod(
    connection: u32,
    selector: u32,
    input: *const u64,
    input_count: u32,
    input_struct: *const c_void,
    input_bytes: usize,
    output: *mut u64,
    output_count: *mut u32,
    output_struct: *mut c_void,
    output_bytes: *mut usize,
) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        let call = Call {
            connection,
            selector,
            scalars: (input, input_count),
            structure: (input_struct, input_bytes),
            scalars_out: (output, output_count),
            structure_out: (output_struct, output_bytes),
        };
        code(call.make(None))
    })
}

/// Calls a selector with an argument block whose fields are at the book's offsets (Listing 27.2); its pointers are the caller's own, and
/// counts and sizes of results are its capacities. A block with a wake port is unsupported: such calls use
/// `IOConnectCallAsyncMethod`.
#[unsafe(no_mangle)]
pub extern "C" fn AnemoneExternalMethod(connection: u32, selector: u32, block: *mut c_void) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        let at = |name: &str| {
            let place = ARGUMENT_BLOCK.iter().find(|(_, field)| *field == name).map(|(offset, _)| *offset);
            place.map(|offset| block.wrapping_byte_add(offset)).ok_or(Code::BAD_ARGUMENT)
        };
        let word = |name: &str| words(at(name)?.cast_const().cast(), 1).ok_or(Code::BAD_ARGUMENT).map(|all| all[0]);
        let short = |name: &str| {
            let bytes = read(at(name)?, 4).ok_or(Code::BAD_ARGUMENT)?;
            Ok::<u32, Code>(bytes.iter().rev().fold(0, |all, &b| all << 8 | u32::from(b)))
        };
        let make = || {
            if short("asyncWakePort")? != 0 {
                return Err(Code::UNSUPPORTED);
            }
            let call = Call {
                connection,
                selector,
                scalars: (word("scalarInput")? as *const u64, short("scalarInputCount")?),
                structure: (word("structureInput")? as *const c_void, word("structureInputSize")? as usize),
                scalars_out: (word("scalarOutput")? as *mut u64, at("scalarOutputCount")?.cast()),
                structure_out: (word("structureOutput")? as *mut c_void, at("structureOutputSize")?.cast()),
            };
            call.make(None)
        };
        code(make())
    })
}

/// Calls a selector with scalars only.
#[unsafe(no_mangle)]
pub extern "C" fn IOConnectCallScalarMethod(
    connection: u32,
    selector: u32,
    input: *const u64,
    input_count: u32,
    output: *mut u64,
    output_count: *mut u32,
) -> u32 {
    let (none, nothing) = (std::ptr::null(), std::ptr::null_mut());
    let no_bytes = std::ptr::null_mut();
    IOConnectCallMethod(connection, selector, input, input_count, none, 0, output, output_count, nothing, no_bytes)
}

/// Calls a selector with structures only.
#[unsafe(no_mangle)]
pub extern "C" fn IOConnectCallStructMethod(
    connection: u32,
    selector: u32,
    input_struct: *const c_void,
    input_bytes: usize,
    output_struct: *mut c_void,
    output_bytes: *mut usize,
) -> u32 {
    let (none, no_count) = (std::ptr::null_mut(), std::ptr::null_mut());
    let input = std::ptr::null();
    IOConnectCallMethod(
        connection,
        selector,
        input,
        0,
        input_struct,
        input_bytes,
        none,
        no_count,
        output_struct,
        output_bytes,
    )
}

/// Calls a selector that reports its completion on a notification port: the function in word 1 of the reference is called with the
/// argument in word 2 by a run loop that has the port's source, or by `AnemoneWait`.
#[unsafe(no_mangle)]
pub extern "C" fn IOConnectCallAsyncMethod(
    connection: u32,
    selector: u32,
    wake_port: u32,
    reference: *const u64,
    reference_count: u32,
    input: *const u64,
    input_count: u32,
    input_struct: *const c_void,
    input_bytes: usize,
    output: *mut u64,
    output_count: *mut u32,
    output_struct: *mut c_void,
    output_bytes: *mut usize,
) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        let known = world().is_some_and(|mut w| matches!(w.object(wake_port), Some(Object::Port(_))));
        let reference = words(reference, (reference_count as usize).min(8));
        let (true, Some(reference)) = (known, reference) else { return Code::BAD_ARGUMENT.0 };
        let call = Call {
            connection,
            selector,
            scalars: (input, input_count),
            structure: (input_struct, input_bytes),
            scalars_out: (output, output_count),
            structure_out: (output_struct, output_bytes),
        };
        code(call.make(Some((wake_port, reference))))
    })
}

/// As [`IOConnectCallAsyncMethod`], with structures only.
#[unsafe(no_mangle)]
pub extern "C" fn IOConnectCallAsyncStructMethod(
    connection: u32,
    selector: u32,
    wake_port: u32,
    reference: *const u64,
    reference_count: u32,
    input_struct: *const c_void,
    input_bytes: usize,
    output_struct: *mut c_void,
    output_bytes: *mut usize,
) -> u32 {
    let (input, output, count) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut());
    IOConnectCallAsyncMethod(
        connection,
        selector,
        wake_port,
        reference,
        reference_count,
        input,
        0,
        input_struct,
        input_bytes,
        output,
        count,
        output_struct,
        output_bytes,
    )
}

/// As [`IOConnectCallAsyncMethod`], with scalars only.
#[unsafe(no_mangle)]
pub extern "C" fn IOConnectCallAsyncScalarMethod(
    connection: u32,
    selector: u32,
    wake_port: u32,
    reference: *const u64,
    reference_count: u32,
    input: *const u64,
    input_count: u32,
    output: *mut u64,
    output_count: *mut u32,
) -> u32 {
    let (none, nothing, bytes) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut());
    IOConnectCallAsyncMethod(
        connection,
        selector,
        wake_port,
        reference,
        reference_count,
        input,
        input_count,
        none,
        0,
        output,
        output_count,
        nothing,
        bytes,
    )
}

/// Maps memory of the driver: that of a surface of the process, whose identity is the memory type. The memory is shared with the surface.
#[unsafe(no_mangle)]
pub extern "C" fn IOConnectMapMemory64(
    connection: u32,
    kind: u32,
    _task: u32,
    address: *mut u64,
    bytes: *mut u64,
    _options: u32,
) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        if world().is_none_or(|mut w| w.client(connection).is_none()) {
            return Code::BAD_ARGUMENT.0;
        }
        let Some(shared) = crate::surfaces::by_id(kind) else { return Code::NOT_FOUND.0 };
        let (at, length) = (shared.address() as u64, shared.len() as u64);
        let told = write(address.cast(), &at.to_le_bytes()) && write(bytes.cast(), &length.to_le_bytes());
        if told { Code::SUCCESS.0 } else { Code::BAD_ARGUMENT.0 }
    })
}

/// Removes such a mapping; the surface stays. Refused unless the address is that of the mapping.
#[unsafe(no_mangle)]
pub extern "C" fn IOConnectUnmapMemory64(connection: u32, kind: u32, _task: u32, address: u64) -> u32 {
    guarded(Code::NO_RESOURCES.0, || {
        let known = world().is_some_and(|mut w| w.client(connection).is_some());
        let mapped = crate::surfaces::by_id(kind).is_some_and(|shared| shared.address() as u64 == address);
        if known && mapped { Code::SUCCESS.0 } else { Code::BAD_ARGUMENT.0 }
    })
}
