//! Compiler, options, library, function.

#![allow(non_camel_case_types)]

use crate::handle::{
    OVERLAPPED_STREAMS, Refusal, Setting, call, give, locked, object, overlap, runtime, set, take, text,
};
use anemone::connection::Device;
use anemone_runtime::cache::Cache;
use anemone_runtime::e5rt::{CompileOptions, Function, Library, Runtime, Step, Watcher};
use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Settings of a compiler: its cache, and the device or broker that it compiles for.
pub struct e5rt_e5_compiler_config(Mutex<Setting>);
/// A compiler, with the device on which its programs run.
pub struct e5rt_e5_compiler(pub(crate) Arc<Runtime>, pub(crate) Device);
/// Options of one compile.
pub struct e5rt_e5_compiler_options(Mutex<CompileOptions>, Mutex<Option<Watcher>>);
/// Called with each step of a compile, on the thread that compiles: `context` as it was given; `step`, one of `content`, `cache`, `compile`,
/// `keep`, `done`, a text that is valid during the call; `done` and `all`, layers whose weights are done, of all layers, in `compile`, both 0 if
/// unknown.
pub type e5rt_progress = Option<unsafe extern "C" fn(context: *mut c_void, step: *const c_char, done: u64, all: u64)>;
/// A compiled model: its functions by name.
pub struct e5rt_program_library(pub(crate) Library);
/// A function of a library, which is loaded onto the device once.
pub struct e5rt_program_function(pub(crate) Function);

fn make(setting: &Setting) -> Result<e5rt_e5_compiler, Refusal> {
    runtime(setting).map(|(runtime, device)| e5rt_e5_compiler(runtime, device))
}

/// Creates a configuration.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_config_create(config: *mut *mut e5rt_e5_compiler_config) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { give(config, || Ok(e5rt_e5_compiler_config(Mutex::default()))) })
}

/// Sets a text of a configuration: `cache_bundle_location`, the folder of the cache; `broker`, the socket of a broker that
/// compiles and executes (the variable ANEMONE_BROKER does the same for every compiler); `quirk`, a defect of the M1's runtime
/// to reproduce in later streams, `overlapped-streams` (also the variable ANEMONE_QUIRK); `route`, the path of submissions to a
/// broker: `broker`, the default, or `direct`, on a separate connection for the program from the broker.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_config_set_string(
    config: *const e5rt_e5_compiler_config,
    key: *const c_char,
    value: *const c_char,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (config, key, value) = (object(config)?, text(key)?, text(value)?);
        match key {
            "cache_bundle_location" => locked(&config.0).cache = Some(PathBuf::from(value)),
            "broker" => locked(&config.0).broker = Some(PathBuf::from(value)),
            "route" if value == "broker" || value == "direct" => locked(&config.0).direct = value == "direct",
            "quirk" if value == OVERLAPPED_STREAMS => overlap().store(true, Ordering::Relaxed),
            "quirk" | "route" => return Err(Refusal::option(value)),
            other => return Err(Refusal::option(other)),
        }
        Ok(())
    })
}

/// Sets a number of a configuration. For a broker: `class_of_service`, 33, 25, 21, 17 or 9, the first the most urgent, 0 for real time,
/// which needs its key; `queue_depth`, the requested number of simultaneous requests; `power_saving`, 1 for aggressive power saving, which
/// needs its key; `wired`, 1 to keep the program's memory when the engine powers off; `long_compile`, 1 for the service of long compiles, which
/// needs its key. For a device of this process: `secure`, 1 to exclude others while a program runs.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_config_set_int(
    config: *const e5rt_e5_compiler_config,
    key: *const c_char,
    value: i64,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (config, key) = (object(config)?, text(key)?);
        let count = u32::try_from(value).map_err(|_| Refusal::Argument("a negative number, or one above 32 bits"));
        let mut setting = locked(&config.0);
        match key {
            "class_of_service" => setting.class = Some(count?),
            "queue_depth" => setting.loading.depth = count?,
            "power_saving" => setting.loading.power_saving = value != 0,
            "wired" => setting.loading.wired = value != 0,
            "long_compile" => setting.loading.long = value != 0,
            "secure" => setting.secure = value != 0,
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
pub unsafe extern "C" fn e5rt_e5_compiler_config_release(config: *mut *mut e5rt_e5_compiler_config) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(config) })
}

/// Creates a compiler without a cache.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_create(compiler: *mut *mut e5rt_e5_compiler) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { give(compiler, || make(&Setting::default())) })
}

/// Creates a compiler with a configuration.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_create_with_config(
    compiler: *mut *mut e5rt_e5_compiler,
    config: *const e5rt_e5_compiler_config,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let setting = locked(&object(config)?.0).clone();
        give(compiler, || make(&setting))
    })
}

/// Releases a compiler.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_release(compiler: *mut *mut e5rt_e5_compiler) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(compiler) })
}

/// Creates options with their defaults.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_options_create(options: *mut *mut e5rt_e5_compiler_options) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { give(options, || Ok(e5rt_e5_compiler_options(Mutex::default(), Mutex::default()))) })
}

/// Sets the engine compiler's options, for example `TargetArchitecture=h13`.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_options_set_custom_ane_compiler_options(
    options: *const e5rt_e5_compiler_options,
    value: *const c_char,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (options, value) = (object(options)?, text(value)?);
        locked(&options.0).custom = value.into();
        Ok(())
    })
}

/// Sets a text: `segmenter`, `custom_ane_compiler_options`, `platform`.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_options_set_string(
    options: *const e5rt_e5_compiler_options,
    key: *const c_char,
    value: *const c_char,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (options, key, value) = (object(options)?, text(key)?, text(value)?);
        let mut options = locked(&options.0);
        match key {
            "segmenter" => options.segmenter = value.into(),
            "custom_ane_compiler_options" => options.custom = value.into(),
            "platform" => options.platform = value.into(),
            other => return Err(Refusal::option(other)),
        }
        Ok(())
    })
}

/// Sets a number: `compute_device_types_mask`, `force_recompilation`, `force_fetch_from_cache`; `strict`, 1 to refuse models that Apple's
/// compiler refuses.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_options_set_int(
    options: *const e5rt_e5_compiler_options,
    key: *const c_char,
    value: i64,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (options, key) = (object(options)?, text(key)?);
        let mut options = locked(&options.0);
        match key {
            "compute_device_types_mask" => options.device_mask = value as u64,
            "force_recompilation" => options.force_recompilation = value != 0,
            "force_fetch_from_cache" => options.force_fetch = value != 0,
            "strict" => options.strict = value != 0,
            other => return Err(Refusal::option(other)),
        }
        Ok(())
    })
}

/// Sets the receiver of the progress of compiles with these options; null for none. In a background compile the function is not
/// called any more once e5rt_compilation_wait has returned the library or the refusal, or e5rt_compilation_cancel or
/// e5rt_compilation_release has returned.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say; `progress` may be called from any thread until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_options_set_progress(
    options: *const e5rt_e5_compiler_options,
    progress: e5rt_progress,
    context: *mut c_void,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let options = object(options)?;
        // An address can be sent between threads, a pointer cannot.
        let context = context.expose_provenance();
        *locked(&options.1) = progress.map(|progress| {
            Watcher::new(move |step: Step| {
                let (done, all) = match step {
                    Step::Compile { done, all } => (done, all),
                    _ => (0, 0),
                };
                let name = match step {
                    Step::Content => c"content",
                    Step::Cache => c"cache",
                    Step::Compile { .. } => c"compile",
                    Step::Keep => c"keep",
                    Step::Done => c"done",
                };
                // SAFETY: the caller gave the function with this context, for calls from any thread.
                progress(std::ptr::with_exposed_provenance_mut(context), name.as_ptr(), done, all);
            })
        });
        Ok(())
    })
}

/// Releases options.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_options_release(options: *mut *mut e5rt_e5_compiler_options) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(options) })
}

/// Compile options of a handle; the defaults if it is null.
///
/// # Safety
/// As for [`object`].
pub(crate) unsafe fn asked(options: *const e5rt_e5_compiler_options) -> CompileOptions {
    // SAFETY: as the caller promises.
    unsafe { options.as_ref() }.map_or_else(CompileOptions::default, |o| locked(&o.0).clone())
}

/// Receivers of the progress of a compile, by handle of its options.
///
/// # Safety
/// As for [`object`].
pub(crate) unsafe fn watcher(options: *const e5rt_e5_compiler_options) -> Option<Watcher> {
    // SAFETY: as the caller promises.
    unsafe { options.as_ref() }.and_then(|o| locked(&o.1).clone())
}

/// Compiles a model, or loads it from the cache by content. Null options are the defaults.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_compile(
    compiler: *const e5rt_e5_compiler,
    path: *const c_char,
    options: *const e5rt_e5_compiler_options,
    library: *mut *mut e5rt_program_library,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (compiler, path) = (object(compiler)?, PathBuf::from(text(path)?));
        let (options, watcher) = (asked(options), watcher(options));
        give(library, || Ok(e5rt_program_library(compiler.0.compile_watched(&path, &options, watcher.as_ref())?)))
    })
}

/// Returns true if a compile would run, and false if the cache has the program.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_e5_compiler_is_new_compile_required(
    compiler: *const e5rt_e5_compiler,
    path: *const c_char,
    options: *const e5rt_e5_compiler_options,
    required: *mut bool,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (compiler, path) = (object(compiler)?, PathBuf::from(text(path)?));
        let options = asked(options);
        set(required, compiler.0.is_new_compile_required(&path, &options)?)
    })
}

/// Opens a library that was exported from a cache.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_program_library_create(
    library: *mut *mut e5rt_program_library,
    path: *const c_char,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let path = PathBuf::from(text(path)?);
        let failed = |e: std::io::Error| anemone_runtime::Error::system("read", path.display(), e);
        give(library, || {
            let file = std::fs::read(&path).map_err(failed)?;
            let bundle = Cache::open_export(&file)?.1;
            Ok(e5rt_program_library(runtime(&Setting::default())?.0.library(bundle)?))
        })
    })
}

/// Gets a function of a library by name.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_program_library_retain_program_function(
    library: *const e5rt_program_library,
    name: *const c_char,
    function: *mut *mut e5rt_program_function,
) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe {
        let (library, name) = (object(library)?, text(name)?);
        give(function, || Ok(e5rt_program_function(library.0.function(name)?)))
    })
}

/// Releases a library.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_program_library_release(library: *mut *mut e5rt_program_library) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(library) })
}

/// Loads a function onto the device, once.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_program_function_load_for_execution(function: *const e5rt_program_function) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { Ok(object(function)?.0.load()?) })
}

/// Releases a function.
///
/// # Safety
/// Pointers are null, or as the conventions at the head of the header say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn e5rt_program_function_release(function: *mut *mut e5rt_program_function) -> i64 {
    // SAFETY: pointers are as the caller promises, and every one is checked for null.
    call(|| unsafe { take(function) })
}
