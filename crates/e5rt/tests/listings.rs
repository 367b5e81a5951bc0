//! The listings of the execution model as C, compiled with the system's compiler, linked against the library and run.
//! (J01: every name with the listings' order of arguments; J02: codes, out-parameters; H08: both loops.)
//!
//! For another system, `ANE_C_COMPILER` names the compiler, `ANE_C_LIBRARY` the shared library, and `ANE_C_RUNNER` a script that runs a program;
//! tests of the static library and the broker are then skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
#[cfg(target_os = "linux")]
use {
    anemone::runtime::ModelCompiler,
    anemone_facts::driver::entitlements as keys,
    anemone_runtime::broker::policy::{Known, Policy},
    anemone_runtime::broker::{Broker, Listening},
    anemone_runtime::cache::Cache,
    anemone_runtime::os::socket,
    std::sync::Arc,
    std::sync::atomic::{AtomicBool, Ordering},
};

const ADD_ONE: &str = r#"net "main" {
  input %x: f32[1, 4, 1, 8]
  const %one: f32[1, 1, 1, 1] = [1.0]
  %y: f32[1, 4, 1, 8] = add(%x, %one)
  output %y
}
"#;

/// The library in its two forms.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Shared,
    Static,
}

impl Form {
    /// The file: the one that is named, or in this test's own folder, or in the one above.
    fn file(self) -> Option<PathBuf> {
        if let Some(foreign) = foreign_library() {
            return (self == Form::Shared).then_some(foreign);
        }
        let name = if self == Form::Shared { "libanemone_e5rt.so" } else { "libanemone_e5rt.a" };
        let own = std::env::current_exe().ok()?;
        own.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|file| file.exists())
    }

    /// Linker arguments.
    fn arguments(self, file: &Path) -> Vec<std::ffi::OsString> {
        let folder = file.parent().map_or_else(String::new, |f| f.display().to_string());
        let rest = match self {
            // Windows searches its path for libraries.
            Form::Shared if file.extension().is_some_and(|e| e == "dll") => Vec::new(),
            Form::Shared => vec![format!("-Wl,-rpath,{folder}")],
            Form::Static => ["-lpthread", "-ldl", "-lm", "-lrt", "-lutil", "-lgcc_s"].map(String::from).to_vec(),
        };
        std::iter::once(file.into()).chain(rest.into_iter().map(Into::into)).collect()
    }
}

/// The shared library of another system, if one is tested.
fn foreign_library() -> Option<PathBuf> {
    std::env::var_os("ANE_C_LIBRARY").map(PathBuf::from)
}

/// Path of a program, with the ending that programs of Windows need.
fn program(folder: &Path, name: &str) -> PathBuf {
    let windows = foreign_library().is_some_and(|library| library.extension().is_some_and(|e| e == "dll"));
    folder.join(if windows { format!("{name}.exe") } else { name.to_string() })
}

/// Returns true, with a message, if programs are for another system and cannot reach a broker of this one.
#[cfg(target_os = "linux")]
fn broker_is_out_of_reach() -> bool {
    let foreign = foreign_library().is_some();
    if foreign {
        println!("skipped: a broker identifies a program by its executable, and this one runs in an emulator");
    }
    foreign
}

fn run(source: &str, net: &str, cache: bool, form: Form) -> Option<String> {
    run_with(&Path::new("tests/c").join(source), net, cache, form, None)
}

/// Builds and runs a program on a model, given as text; with a broker's socket, its device and compiler are the broker's.
fn run_with(source: &Path, model_text: &str, cache: bool, form: Form, broker: Option<&Path>) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = program(folder.path(), "program");
    build(source, &binary, form)?;
    let extension = match model_text {
        text if text.starts_with("net") => "net",
        text if text.starts_with('<') => "plist",
        _ => "mil",
    };
    let model = folder.path().join("model").with_extension(extension);
    std::fs::write(&model, model_text).expect("written");
    let mut arguments = vec![model];
    arguments.extend(cache.then(|| folder.path().join("cache")));
    Some(execute(&binary, &arguments, broker))
}

/// Builds a program, if there is a C compiler.
fn build(source: &Path, binary: &Path, form: Form) -> Option<()> {
    let compiler = std::env::var("ANE_C_COMPILER").unwrap_or_else(|_| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        println!("skipped: no C compiler called {compiler}");
        return None;
    }
    let library = match form.file() {
        None if foreign_library().is_some() => {
            println!("skipped: of another system, the shared library alone is tested");
            return None;
        }
        file => file.expect("the library beside the test"),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg("-o")
        .arg(binary)
        .args(form.arguments(&library))
        .output()
        .expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(())
}

/// Runs a program that was built; its output.
fn execute(binary: &Path, arguments: &[PathBuf], broker: Option<&Path>) -> String {
    let command = match std::env::var_os("ANE_C_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(binary);
            command
        }
        None => Command::new(binary),
    };
    run_command(command, arguments, broker)
}

fn run_command(mut command: Command, arguments: &[PathBuf], broker: Option<&Path>) -> String {
    command.args(arguments).env_remove("ANEMONE_BROKER").env_remove("ANEMONE_QUIRK");
    command.envs(broker.map(|socket| ("ANEMONE_BROKER", socket)));
    let ran = command.output().expect("runs");
    // Lines end as the program's system ends them.
    let text = String::from_utf8_lossy(&ran.stdout).replace("\r\n", "\n");
    assert!(ran.status.success(), "{:?}: {text}{}", ran.status, String::from_utf8_lossy(&ran.stderr));
    text
}

/// Model, adapter and cache of the program `device.c`.
fn device_arguments(folder: &Path) -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    vec![data.join("identity.net"), data.join("adapter.npz"), folder.join("cache")]
}

#[test]
fn adapters_background_compiles_the_cache_and_methods_from_c() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = program(folder.path(), "device");
    if build(Path::new("tests/c/device.c"), &binary, Form::Shared).is_some() {
        let arguments = device_arguments(folder.path());
        let wanted = "told from content to done, compile 1, wrong 0\ncancelled or ended, told later 0\ncompiled, ended 1\n\
                      base 3c00, adapter 4200\nthrottled 1, wired 0\nkey of 64 digits, removed 1\n\
                      compile required 1\n";
        assert_eq!(execute(&binary, &arguments, None), wanted);
        if foreign_library().is_none() && Command::new("valgrind").arg("--version").output().is_ok() {
            let mut checked = Command::new("valgrind");
            // It does not see writes through the system, so undefined values are not reported.
            checked.args(["-q", "--undef-value-errors=no", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
            checked.arg("--error-exitcode=9").arg(&binary);
            assert_eq!(run_command(checked, &arguments, None), wanted);
        }
    }
}

#[test]
fn j01_j02_frames() {
    for form in [Form::Shared, Form::Static] {
        if let Some(text) = run("frames.c", ADD_ONE, true, form) {
            assert_eq!(text, "frames: 100\n");
        }
    }
}

#[test]
fn a_program_on_linux_needs_the_library_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = program(folder.path(), "program");
    let library = Form::Shared.file().expect("the library beside the test");
    if !library.ends_with("libanemone_e5rt.so") || build(Path::new("tests/c/state.c"), &binary, Form::Shared).is_none()
    {
        return;
    }
    let bytes = std::fs::read(&binary).expect("the program");
    let holds = |name: &str| bytes.windows(name.len()).any(|part| part == name.as_bytes());
    assert!(holds("\0libanemone_e5rt.so\0") && !holds(&format!("{}\0", library.display())));
}

#[test]
fn h01_h08_state() {
    let net = ADD_ONE.replace("%x", "%state_in").replace("%y", "%state_out");
    if let Some(text) = run("state.c", &net, false, Form::Shared) {
        assert_eq!(text, "1 2 3 4\n");
    }
}

/// Rows of a table by their numbers: more rows than the engine chooses among, then twice. Twice the row 597 is beyond fp16.
fn rows() -> String {
    let row = |i: usize| if i == 597 { 60000.0 } else { i as f32 / 2.0 };
    let table: Vec<String> = (0..600 * 8).map(|i| format!("{:?}", row(i / 8))).collect();
    format!(
        "net \"rows\" {{\n  input %ids: i32[2]\n  const %t: f32[600, 8] = [{}]\n  %r: f32[2, 8] = gather(%t, %ids) axis=0\n  \
         %y: f32[2, 8] = add(%r, %r)\n  output %y\n}}\n",
        table.join(", ")
    )
}

const ROWS: &str = "8 bytes in, 64 bytes out\n599 3\n0\n\
                    output y: 8 of 16 elements are infinite or NaN, the first at 0\n";

/// Two procedures: a ReLU, and the hyperbolic tangent of it.
fn two_procedures() -> String {
    let list = |key: &str, names: &[&str]| {
        let names: String = names.iter().map(|name| format!("<string>{name}</string>")).collect();
        format!("<key>{key}</key><array>{names}</array>")
    };
    let procedure = |name: &str, units: &[&str], output: &str| {
        let lists = [list("InputList", &["x"]), list("OperationList", units), list("OutputList", &[output])].concat();
        format!("<dict><key>Name</key><string>{name}</string>{lists}</dict>")
    };
    let unit = |name: &str, kind: &str, bottom: &str| {
        format!(
            "<key>{name}</key><dict><key>Type</key><string>Neuron</string><key>Bottom</key><string>{bottom}</string>\
             <key>OutputType</key><string>Float16</string>\
             <key>Params</key><dict><key>Type</key><string>{kind}</string></dict></dict>"
        )
    };
    let output = |name: &str, bottom: &str| {
        format!(
            "<key>{name}</key><dict><key>Bottom</key><string>{bottom}</string>\
             <key>OutputType</key><string>Float16</string></dict>"
        )
    };
    let input = "<key>x</key><dict><key>InputChannels</key><integer>8</integer><key>InputWidth</key><integer>16</integer>\
                 <key>InputHeight</key><integer>1</integer><key>InputType</key><string>Float16</string></dict>";
    let units = [unit("a", "ReLU", "x"), unit("b", "Tanh", "a"), output("y", "a"), output("z", "b")].concat();
    let procedures = [procedure("p1", &["a"], "y"), procedure("p2", &["a", "b"], "z")].concat();
    let networks = list("Networks", &["net"]);
    format!(
        "<plist version=\"1.0\"><dict><key>Version</key><string>1.0.10</string>{networks}\
         <key>ProcedureList</key><array>{procedures}</array><key>net</key><dict>{input}{units}</dict></dict></plist>"
    )
}

#[test]
fn procedures_of_one_container_are_functions_from_c() {
    if let Some(text) = run("procedures.c", &two_procedures(), false, Form::Shared) {
        assert_eq!(text, "p1 3c0\np2 3a1\np3 refused\n");
    }
}

#[test]
fn host_segments_run_from_c() {
    if let Some(text) = run("hosts.c", &rows(), false, Form::Shared) {
        assert_eq!(text, ROWS);
    }
}

/// A broker of this process at a socket, until it is dropped.
#[cfg(target_os = "linux")]
struct Serving {
    broker: Arc<Broker>,
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[cfg(target_os = "linux")]
impl Serving {
    fn new(folder: &Path, policy: Policy) -> Serving {
        let socket = folder.join("aned.sock");
        let cache = Cache::new(&folder.join("brokers"), 1 << 30);
        let broker = Broker::new(policy, Arc::new(ModelCompiler), Some(cache)).expect("a broker");
        let listening = Listening::bind(&socket).expect("listens");
        let stop = Arc::new(AtomicBool::new(false));
        let (served, stopped) = (broker.clone(), stop.clone());
        let thread = std::thread::spawn(move || listening.serve(&served, &stopped).expect("serves"));
        Serving { broker, socket, stop, thread: Some(thread) }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().is_none_or(|thread| thread.join().is_ok());
        assert!(ended || std::thread::panicking(), "the broker ends");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_broker_compiles_and_executes_for_c() {
    if broker_is_out_of_reach() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let serving = Serving::new(folder.path(), Policy::default());
    let text = run_with(Path::new("tests/c/hosts.c"), &rows(), false, Form::Shared, Some(&serving.socket));
    if let Some(text) = text {
        assert_eq!(text, ROWS);
        let stat = serving.broker.stat();
        // The engine's part of four runs, of which one ended on the host.
        assert_eq!((&stat["compiles"], &stat["completed"]), (&1.into(), &3.into()), "{stat}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_broker_gives_c_what_its_policy_allows() {
    if broker_is_out_of_reach() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let binary = program(folder.path(), "device");
    if build(Path::new("tests/c/device.c"), &binary, Form::Shared).is_none() {
        return;
    }
    let digest = socket::digest_of(binary.to_str().expect("a name in UTF-8")).expect("the program's digest");
    let known = |keys: &[&str]| {
        let entitlements = keys.iter().map(|key| key.to_string()).collect();
        let known = Known { digest: digest.clone(), team: "A".into(), entitlements, privileged: true };
        Policy { identity: vec![known], ..Policy::default() }
    };
    let serving = Serving::new(folder.path(), known(&[keys::LONG_COMPILE, keys::ADAPTER_WEIGHT]));
    let mut arguments = device_arguments(folder.path());
    let text = execute(&binary, &arguments, Some(&serving.socket));
    let rest = "throttled 1, wired 1\nkey of 64 digits, removed 1\ncompile required 1\n";
    let told = "told from content to done, compile 1, wrong 0\ncancelled or ended, told later 0";
    assert_eq!(text, format!("{told}\ncompiled, ended 1\nbase 3c00, adapter 4200\n{rest}"));
    let stat = serving.broker.stat();
    assert_eq!((&stat["long_compiles"], &stat["purged"]), (&1.into(), &1.into()), "{stat}");
    // The most urgent class has the first queue of those that are not reserved.
    assert_eq!(stat["engine_requests_by_queue"][3], 2, "{stat}");
    serving.broker.set_policy(known(&[keys::LONG_COMPILE]));
    arguments.push("refused".into());
    let text = execute(&binary, &arguments, Some(&serving.socket));
    assert!(text.contains("needs com.apple.aned.private.adapterWeight.allow"), "{text}");
}

#[test]
fn a_network_is_trained_from_c() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/train");
    let step = std::fs::read_to_string(example.join("step.mil")).expect("the example");
    let Some(text) = run_with(&example.join("train.c"), &step, false, Form::Shared, None) else { return };
    let losses: Vec<f32> = text.lines().filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    assert_eq!(losses.len(), 11, "{text}");
    assert!(losses[10] < 0.1 * losses[0], "{text}");
}

#[test]
fn j01_names_of_the_header() {
    let header = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/anemone_e5rt.h"));
    let header = header.expect("the header");
    for name in [
        "e5rt_e5_compiler_compile",
        "e5rt_program_library_retain_program_function",
        "e5rt_program_function_load_for_execution",
        "e5rt_execution_stream_encode_operation",
        "e5rt_execution_stream_execute_sync",
        "e5rt_buffer_object_alloc",
        "e5rt_execution_stream_operation_retain_output_port",
        "e5rt_execution_stream_operation_retain_input_port",
        "e5rt_io_port_bind_buffer_object",
        "e5rt_execution_stream_reset",
        "e5rt_precompiled_compute_op_create_options_create_with_program_function",
        "e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options",
        "e5rt_execution_stream_create",
        "e5rt_execution_stream_operation_prepare_op_for_encode",
    ] {
        assert!(header.contains(&format!("int64_t {name}(")), "{name}");
    }
}
