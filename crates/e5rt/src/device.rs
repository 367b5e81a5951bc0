//! Adapters, the cache, and the device behind a compiler: its methods and counters.

use crate::compiler::{asked, e5rt_e5_compiler, e5rt_e5_compiler_options, e5rt_program_library};
use crate::handle::{Refusal, call, give, object, put_text, set, text};
use anemone::connection::{Device, adapter_pieces};
use anemone::tensor::read_npz;
use anemone_runtime::Error;
use anemone_runtime::cache::{Key, hex};
use anemone_runtime::driver::methods::Answer;
use anemone_runtime::e5rt::Compiler;
use std::ffi::c_char;
use std::path::Path;

/// Creates a library with replaced weights on the same base: the arrays of a file `.npz`, by the names that `ane patch` lists for the compiled
/// program. Its functions are instances of the resident base, and share all other data with it. The library must have one
/// program and no host segments; a broker requires the key of adapter weights when a function is loaded.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_program_library_create_with_adapter(
    library: *mut *mut e5rt_program_library,
    base: *const e5rt_program_library,
    path: *const c_char,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (base, path) = (&object(base)?.0, text(path)?);
        let refused = |diagnostic: anemone::Diagnostic| Refusal::Tensor(diagnostic.to_string());
        give(library, || {
            let arrays = read_npz(Path::new(path)).map_err(refused)?;
            let pieces = adapter_pieces(base, arrays).map_err(refused)?;
            Ok(e5rt_program_library(base.adapted(pieces)?))
        })
    })
}

/// Copies the cache key of a model with options, 64 hexadecimal digits, for e5rt_e5_compiler_purge. Null options are the defaults; for a
/// broker, only keys of the defaults are available.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_get_cache_key(
    compiler: *const e5rt_e5_compiler,
    path: *const c_char,
    options: *const e5rt_e5_compiler_options,
    entry: *mut c_char,
    bytes: usize,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (compiler, path) = (object(compiler)?, Path::new(text(path)?));
        let found = match &compiler.1 {
            Device::There(_) if !options.is_null() => return Err(Refusal::Argument("options for the key of a broker")),
            Device::There(remote) => hex(&remote.content(path).map_err(Error::Compile)?),
            Device::Here(_) => compiler.0.key(path, &asked(options))?.text().to_string(),
        };
        put_text(entry, bytes, &found)
    })
}

/// Removes one program from the cache by its key, or all of them, for which a broker requires an entitlement. The cache is the
/// broker's, or the folder of the configuration; without either, nothing is removed.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_purge(
    compiler: *const e5rt_e5_compiler,
    entry: *const c_char,
    removed: *mut u64,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let compiler = object(compiler)?;
        let key = if entry.is_null() { None } else { Some(text(entry)?) };
        let count = match (&compiler.1, compiler.0.cache()) {
            (Device::There(remote), _) => remote.purge(key.map(String::from))?,
            (Device::Here(_), None) => 0,
            (Device::Here(_), Some(cache)) => {
                let wanted = key.map(Key::parse).transpose()?;
                let entries = cache.list();
                let all = entries.iter().filter(|e| wanted.as_ref().is_none_or(|key| *key == e.key));
                all.filter(|e| cache.remove(&e.key)).count() as u64
            }
        };
        set(removed, count)
    })
}

/// Calls a method of the driver by name, `ANE_PowerOff` or `PowerOff`: power, gating, throttling, mappings, hints and others in
/// `ane driver list`. The answer is a decimal number, or lines. A broker's driver grants the rights of its policy.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say; `numbers` has `count` of them, and is null if that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_call_method(
    compiler: *const e5rt_e5_compiler,
    name: *const c_char,
    numbers: *const u64,
    count: usize,
    answer: *mut c_char,
    bytes: usize,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (compiler, name) = (object(compiler)?, text(name)?);
        let given = match (numbers.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(Refusal::Argument("a null array of numbers")),
            (false, count) => std::slice::from_raw_parts(numbers, count),
        };
        let done = match &compiler.1 {
            Device::Here(device) => device.method(name, given)?,
            Device::There(remote) => remote.method_named(name, given)?,
        };
        let said = match done {
            Answer::Number(n) => n.to_string(),
            Answer::Lines(lines) => lines.join("\n"),
        };
        put_text(answer, bytes, &said)
    })
}

/// Copies the counters of the compiler's device, and of its broker if it has one, as the JSON of `ane stat --json`. The
/// complete text fits into 64 KiB.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_get_counters(
    compiler: *const e5rt_e5_compiler,
    counters: *mut c_char,
    bytes: usize,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let found = match &object(compiler)?.1 {
            Device::Here(device) => device.driver().stat(),
            Device::There(remote) => remote.stat()?,
        };
        put_text(counters, bytes, &found.to_string())
    })
}
