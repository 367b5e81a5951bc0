//! Bad input of every selector through the public functions: the model's return code, no crash, and nothing left behind.

#![cfg(target_os = "linux")]

use anemone_facts::driver::codes;
use anemone_facts::driver::selectors::{self, Client, Selector};
use anemone_facts::driver::structures::{
    active, arguments, chain, create, destroy, handshake, inputs, instance, map, outputs, prepare, request, status,
};
use anemone_iokit::*;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

const BAD_ARGUMENT: u32 = codes::BAD_ARGUMENT as u32;
const NOT_FOUND: u32 = codes::NOT_FOUND as u32;
const NOT_READY: u32 = codes::NOT_READY as u32;
/// Bytes of the test's surfaces: more than any port of the model.
const SURFACE_BYTES: i64 = 1 << 16;

/// An open connection of a type, after its handshake.
struct Connection(u32);

impl Connection {
    fn open(kind: u32) -> Connection {
        let name = CString::new("H11ANEIn").expect("a name");
        let service = IOServiceGetMatchingService(0, IOServiceMatching(name.as_ptr()));
        let mut connect = 0;
        assert_eq!(IOServiceOpen(service, 0, kind, &mut connect), 0);
        let own = Connection(connect);
        let mut hello = vec![0; handshake::BYTES];
        hello[handshake::USAGE_OR_TOKEN] = 1;
        assert_eq!(own.call(0, &[], &hello, 0, handshake::BYTES).0, 0);
        own
    }

    /// A call with these sizes; the code, and what came out.
    fn call(
        &self,
        selector: u32,
        scalars: &[u64],
        structure: &[u8],
        scalars_out: usize,
        bytes: usize,
    ) -> (u32, Vec<u8>) {
        let (mut numbers, mut out) = (vec![0u64; scalars_out.max(1)], vec![0u8; bytes.max(1)]);
        let (mut count, mut size) = (scalars_out as u32, bytes);
        let input: *const c_void = if structure.is_empty() { null() } else { structure.as_ptr().cast() };
        let code = IOConnectCallMethod(
            self.0,
            selector,
            scalars.as_ptr(),
            scalars.len() as u32,
            input,
            structure.len(),
            if scalars_out > 0 { numbers.as_mut_ptr() } else { null_mut() },
            if scalars_out > 0 { &mut count } else { null_mut() },
            if bytes > 0 { out.as_mut_ptr().cast() } else { null_mut() },
            if bytes > 0 { &mut size } else { null_mut() },
        );
        (code, out)
    }

    /// A call of exact sizes with this structure; the code alone.
    fn exact(&self, row: &Selector, structure: &[u8]) -> u32 {
        let scalars = vec![0; row.scalars_in as usize];
        self.call(row.index, &scalars, structure, row.scalars_out as usize, row.struct_out_bytes as usize).0
    }

    /// A number of the device's state.
    fn status(&self, at: usize) -> u32 {
        let (code, out) = self.call(7, &[], &[], 0, status::BYTES);
        assert_eq!(code, 0);
        u32::from_le_bytes([out[at], out[at + 1], out[at + 2], out[at + 3]])
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        assert_eq!(IOServiceClose(self.0), 0);
        assert_eq!(IOServiceClose(self.0), BAD_ARGUMENT, "closed already");
    }
}

fn put(structure: &mut [u8], at: usize, value: u64, bytes: usize) {
    structure[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
}

fn surface(bytes: i64) -> *mut c_void {
    let properties = CFDictionaryCreateMutable(null(), 0, null(), null());
    let key = CString::new("IOSurfaceAllocSize").expect("a name");
    let number = CFNumberCreate(null(), 4, std::ptr::from_ref(&bytes).cast());
    CFDictionarySetValue(properties, __CFStringMakeConstantString(key.as_ptr()), number);
    let made = IOSurfaceCreate(properties);
    CFRelease(number);
    CFRelease(properties);
    assert!(!made.is_null());
    made
}

/// A model of one input and one output, created and prepared; its token.
fn program(connection: &Connection) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one.mil");
    let text = "program(1.0)\n{\n  func main<ios16>(tensor<fp16, [1, 8, 1, 16]> x) {\n    tensor<fp16, [1, 8, 1, 16]> y = \
                relu(x = x)[name = string(\"y\")];\n  } -> (y);\n}\n";
    std::fs::write(&path, text).expect("written");
    let path = CString::new(path.display().to_string()).expect("a path");
    let mut bytes = 0;
    AnemoneCreateProgram(path.as_ptr(), null_mut(), &mut bytes);
    let mut image = vec![0u8; bytes];
    assert_eq!(AnemoneCreateProgram(path.as_ptr(), image.as_mut_ptr().cast(), &mut bytes), 0);
    let (mut blob, mut made) = (vec![0; arguments::BYTES], vec![0u8; 24]);
    put(&mut blob, arguments::IMAGE, image.as_ptr().addr() as u64, 8);
    put(&mut blob, arguments::IMAGE_BYTES, bytes as u64, 8);
    let mut ask = vec![0; create::BYTES];
    put(&mut ask, create::ARGUMENTS, blob.as_ptr().addr() as u64, 8);
    put(&mut ask, create::ARGUMENTS_BYTES, arguments::BYTES as u64, 8);
    put(&mut ask, create::RESULT, made.as_mut_ptr().addr() as u64, 8);
    put(&mut ask, create::RESULT_BYTES, 24, 8);
    assert_eq!(connection.call(3, &[], &ask, 0, 0).0, 0);
    u64::from_le_bytes(made[..8].try_into().expect("8 bytes"))
}

fn of_token(bytes: usize, at: usize, token: u64) -> Vec<u8> {
    let mut structure = vec![0; bytes];
    put(&mut structure, at, token, 8);
    structure
}

fn prepared(connection: &Connection, token: u64) {
    assert_eq!(connection.call(4, &[], &of_token(prepare::BYTES, prepare::TOKEN, token), 0, prepare::BYTES).0, 0);
}

/// A request of one input and one output.
fn asked(token: u64, from: u32, to: u32) -> Vec<u8> {
    let mut ask = of_token(request::BYTES, request::TOKEN, token);
    put(&mut ask, request::PRIORITY, 5, 4);
    put(&mut ask, request::QOS, 21, 4);
    put(&mut ask, request::COUNTS, 1 | 1 << 8, 4);
    put(&mut ask, request::CATEGORY, 2, 4);
    put(&mut ask, request::SURFACES, from.into(), 8);
    put(&mut ask, request::SURFACES + 8, to.into(), 8);
    ask
}

#[test]
fn every_other_size_of_every_selector_is_a_bad_argument() {
    for (kind, client, rows) in [(0, Client::Control, 17), (1, Client::Direct, 9)] {
        let connection = Connection::open(kind);
        let table = selectors::of(client);
        assert_eq!(table.len(), rows);
        for row in table {
            let right =
                [row.scalars_in, row.struct_in_bytes, row.scalars_out, row.struct_out_bytes].map(|n| n as usize);
            let wrong = (0..4).flat_map(|i| {
                [right[i].wrapping_sub(1), right[i] + 1, right[i] + 8, 0].into_iter().map(move |n| (i, n))
            });
            for (i, n) in wrong.filter(|&(i, n)| n != right[i] && n < 1 << 12) {
                let mut sizes = right;
                sizes[i] = n;
                let (scalars, structure) = (vec![0; sizes[0]], vec![0u8; sizes[1]]);
                let (code, _) = connection.call(row.index, &scalars, &structure, sizes[2], sizes[3]);
                assert_eq!(code, BAD_ARGUMENT, "{} with {sizes:?} for {right:?}", row.name);
            }
        }
        let beyond = connection.call(rows as u32, &[], &[], 0, 0).0;
        assert!([BAD_ARGUMENT, codes::UNSUPPORTED as u32].contains(&beyond), "{beyond:#x}");
        assert_eq!(connection.call(u32::MAX, &[], &[], 0, 0).0, beyond);
    }
}

#[test]
fn foreign_and_stale_tokens_are_not_found() {
    let (control, direct) = (Connection::open(0), Connection::open(1));
    let stale = program(&control);
    prepared(&control, stale);
    let gone = of_token(destroy::BYTES, destroy::TOKEN, stale);
    assert_eq!(control.call(6, &[], &gone, 0, 0).0, 0);
    assert_eq!(control.call(6, &[], &gone, 0, 0).0, NOT_FOUND, "destroyed twice");
    let (a, b) = (surface(SURFACE_BYTES), surface(SURFACE_BYTES));
    for token in [0, 1, stale, !stale, u64::MAX] {
        let ask = asked(token, IOSurfaceGetID(a), IOSurfaceGetID(b));
        let mut copy = of_token(instance::BYTES, instance::BASE, token);
        let (mut result, blob) = ([0u8; 24], [0u8; 8]);
        put(&mut copy, instance::ARGUMENTS, blob.as_ptr().addr() as u64, 8);
        put(&mut copy, instance::RESULT, result.as_mut_ptr().addr() as u64, 8);
        let mut ready = of_token(inputs::BYTES, inputs::TOKEN, token);
        put(&mut ready, inputs::INPUTS, 1, 4);
        let of = |client: Client, index: usize| &selectors::of(client)[index];
        for (connection, row, structure) in [
            (&control, of(Client::Control, 2), ask.clone()),
            (&control, of(Client::Control, 4), of_token(prepare::BYTES, prepare::TOKEN, token)),
            (&control, of(Client::Control, 5), of_token(prepare::BYTES, prepare::TOKEN, token)),
            (&control, of(Client::Control, 6), of_token(destroy::BYTES, destroy::TOKEN, token)),
            (&control, of(Client::Control, 8), copy),
            (&control, of(Client::Control, 9), of_token(chain::BYTES, chain::TOKEN, token)),
            (&direct, of(Client::Direct, 2), ask),
            (&direct, of(Client::Direct, 3), of_token(outputs::BYTES, outputs::TOKEN, token)),
            (&direct, of(Client::Direct, 4), ready),
            (&direct, of(Client::Direct, 8), of_token(active::BYTES, active::TOKEN, token)),
        ] {
            assert_eq!(connection.exact(row, &structure), NOT_FOUND, "{} of {token:#x}", row.name);
        }
    }
    // A program that is not prepared takes no request.
    let token = program(&control);
    let ask = asked(token, IOSurfaceGetID(a), IOSurfaceGetID(b));
    assert_eq!(control.exact(&selectors::of(Client::Control)[2], &ask), NOT_READY);
    // Pointers that lead nowhere.
    for at in [create::ARGUMENTS, create::RESULT] {
        let (blob, mut made) = (vec![0u8; arguments::BYTES], vec![0u8; 24]);
        let mut ask = vec![0; create::BYTES];
        put(&mut ask, create::ARGUMENTS, blob.as_ptr().addr() as u64, 8);
        put(&mut ask, create::ARGUMENTS_BYTES, arguments::BYTES as u64, 8);
        put(&mut ask, create::RESULT, made.as_mut_ptr().addr() as u64, 8);
        put(&mut ask, create::RESULT_BYTES, 24, 8);
        put(&mut ask, at, 16, 8);
        assert_ne!(control.call(3, &[], &ask, 0, 0).0, 0, "nothing is mapped at 16");
    }
    assert_eq!([a, b].map(|s| AnemoneReleaseSurface(s)), [0, 0]);
}

#[test]
fn surfaces_that_are_unknown_small_or_gone_are_refused_and_others_go_on() {
    let control = Connection::open(0);
    let direct = Connection::open(1);
    let token = program(&control);
    prepared(&control, token);
    let row = &selectors::of(Client::Control)[2];
    let (from, to, small) = (surface(SURFACE_BYTES), surface(SURFACE_BYTES), surface(8));
    let [from_id, to_id, small_id] = [from, to, small].map(|s| IOSurfaceGetID(s));
    assert_eq!(control.exact(row, &asked(token, from_id, to_id)), 0);
    for (a, b, wanted) in [
        (0, to_id, NOT_FOUND),
        (from_id, 0x7fff_ffff, NOT_FOUND),
        (small_id, to_id, BAD_ARGUMENT),
        (from_id, small_id, BAD_ARGUMENT),
    ] {
        assert_eq!(control.exact(row, &asked(token, a, b)), wanted, "{a} to {b}");
    }
    // Too many surfaces, a priority that does not exist, a doorbell beyond the last.
    for (at, value) in [(request::COUNTS, 0xffff), (request::COUNTS, 2 | 1 << 8), (request::PRIORITY, 8)] {
        let mut ask = asked(token, from_id, to_id);
        put(&mut ask, at, value, 4);
        assert_eq!(control.exact(row, &ask), BAD_ARGUMENT, "{value:#x} at {at:#x}");
    }
    let ask = asked(token, from_id, to_id);
    assert_eq!(control.call(2, &[32], &ask, 0, row.struct_out_bytes as usize).0, BAD_ARGUMENT);
    // Mappings of no surface, and of one that is gone; one that was never mapped is not taken back.
    let session = 0;
    let mut mapping = of_token(map::BYTES, map::TOKEN, token);
    put(&mut mapping, map::USAGE, 1, 4);
    put(&mut mapping, map::COUNT, 1, 4);
    assert_ne!(direct.call(5, &[session], &mapping, 1, 0).0, 0);
    put(&mut mapping, map::SURFACES, from_id.into(), 8);
    assert_ne!(direct.call(6, &[], &mapping, 0, 0).0, 0, "never mapped");
    assert_eq!(AnemoneReleaseSurface(from), 0);
    assert_eq!(AnemoneReleaseSurface(from), BAD_ARGUMENT, "released twice");
    assert_eq!(control.exact(row, &asked(token, from_id, to_id)), NOT_FOUND);
    let other = surface(SURFACE_BYTES);
    assert_eq!(control.exact(row, &asked(token, IOSurfaceGetID(other), to_id)), 0, "the program runs on");
    assert_eq!([to, small, other].map(|s| AnemoneReleaseSurface(s)), [0; 3]);
}

#[test]
fn a_wake_port_that_died_loses_its_message_alone() {
    let control = Connection::open(0);
    let token = program(&control);
    prepared(&control, token);
    let (from, to) = (surface(SURFACE_BYTES), surface(SURFACE_BYTES));
    let ask = asked(token, IOSurfaceGetID(from), IOSurfaceGetID(to));
    let mut reply = vec![0u8; 40];
    let mut sent = |port: u32| {
        let (doorbell, reference, mut size) = (0u64, [0u64; 8], reply.len());
        IOConnectCallAsyncMethod(
            control.0,
            2,
            port,
            reference.as_ptr(),
            reference.len() as u32,
            &doorbell,
            1,
            ask.as_ptr().cast(),
            ask.len(),
            null_mut(),
            null_mut(),
            reply.as_mut_ptr().cast(),
            &mut size,
        )
    };
    let dying = IONotificationPortCreate(0);
    let number = IONotificationPortGetMachPort(dying);
    assert_eq!(sent(number), 0);
    IONotificationPortDestroy(dying);
    assert_eq!(sent(number), BAD_ARGUMENT, "no port any more");
    let living = IONotificationPortCreate(0);
    assert_eq!(sent(IONotificationPortGetMachPort(living)), 0);
    assert_eq!(AnemoneWait(living, 10_000), 0);
    IONotificationPortDestroy(living);
    while control.status(status::PENDING) > 0 {
        std::thread::yield_now();
    }
    assert_eq!([from, to].map(|s| AnemoneReleaseSurface(s)), [0, 0]);
}

#[test]
fn selectors_from_two_threads_leave_nothing_behind() {
    let watch = Connection::open(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..4 {
                    let control = Connection::open(0);
                    let (from, to) = (surface(SURFACE_BYTES), surface(SURFACE_BYTES));
                    let token = program(&control);
                    prepared(&control, token);
                    for i in 0..50u64 {
                        let row = &selectors::of(Client::Control)[2];
                        let stray = if i % 3 == 0 { token } else { !token };
                        let code = control.exact(row, &asked(stray, IOSurfaceGetID(from), IOSurfaceGetID(to)));
                        assert_eq!(code, if i % 3 == 0 { 0 } else { NOT_FOUND });
                        control.status(status::PROGRAMS);
                    }
                    // Every other program goes with its connection.
                    if token.is_multiple_of(2) {
                        control.call(6, &[], &of_token(destroy::BYTES, destroy::TOKEN, token), 0, 0);
                    }
                    drop(control);
                    assert_eq!([from, to].map(|s| AnemoneReleaseSurface(s)), [0, 0]);
                }
            });
        }
    });
    assert_eq!(watch.status(status::PENDING), 0);
}
