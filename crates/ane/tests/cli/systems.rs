//! Differences between systems: line ends, names of files, folders that are absent or cannot be written.

use crate::ane;
use crate::harness::*;

const MIL: &str = "program(1.3)
{
    // A comment ends with its line.
    func main<ios18>(tensor<fp16, [1, 3, 1, 16]> x) {
        tensor<fp16, [1, 3, 1, 16]> y = relu(x = x)[name = string(\"y\")];
    } -> (y);
}
";

#[test]
fn text_inputs_may_end_their_lines_as_windows_does() {
    let scratch = Scratch::new();
    let windows = |text: &str| text.replace('\n', "\r\n");
    let (plain, other) = (scratch.file("a.mil", MIL), scratch.file("b.mil", windows(MIL)));
    let (one, two) = (scratch.out("a.bin"), scratch.out("b.bin"));
    ane!("compile", plain, "-o", one).fine();
    ane!("compile", other, "-o", two).fine();
    let bytes = |path: &String| std::fs::read(path).expect("written");
    assert_eq!(bytes(&one), bytes(&two));
    let wrong = scratch.file("c.mil", windows(&MIL.replace("fp16, [1, 3, 1, 16]> y", "half, [1]> y")));
    ane!("compile", wrong, "-o", scratch.out("c.hwx")).refused(2, "ANE2002", &["c.mil:5:"]);
    // A netplist, a listing, labels.
    let netplist = scratch.relu();
    let text = std::fs::read_to_string(&netplist).expect("XML");
    std::fs::write(&netplist, windows(&text)).expect("written");
    ane!("compile", netplist, "-o", scratch.out("d.hwx")).fine();
    let (container, again) = (scratch.out("e.hwx"), scratch.out("f.hwx"));
    ane!("compile", plain, "-o", container).fine();
    let listing = scratch.file("e.asm", windows(&ane!("dump", container, "--asm").fine().out));
    ane!("asm", listing, "-o", again).fine();
    assert_eq!(bytes(&again), bytes(&container));
    let [package, image, _] = digits();
    let names = std::fs::read_to_string(example("labels.txt")).expect("labels");
    let labels = scratch.file("labels.txt", windows(&names));
    let ran = ane!("run", package, "-i", image, "--labels", labels).fine();
    assert!(ran.out.contains("class 8, probability"), "{ran:?}");
}

#[test]
fn names_with_spaces_and_letters_of_any_language() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let out = scratch.out("mein Netz \u{e4}\u{6f22}.hwx");
    ane!("compile", package, "-o", out).fine();
    ane!("run", out, "-i", image).fine();
    let listed = ane!("dump", out, "--part", "header").fine();
    assert!(!listed.out.is_empty());
    let absent = scratch.path("kein Netz \u{e4}.hwx");
    ane!("run", absent).refused(2, "ANE2001", &[&absent]);
}

#[test]
fn a_cache_that_cannot_be_written_costs_time_and_no_result() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let file = scratch.file("file", "x");
    let (plain, other) = (scratch.out("a.bin"), scratch.out("b.bin"));
    ane!("compile", package, "-o", plain).fine();
    let compiled = ane!("compile", package, "-o", other, "--cache", format!("{file}/below")).fine();
    assert!(compiled.err.contains("warning: the compiled program is not cached: "), "{compiled:?}");
    let bytes = |path: &String| std::fs::read(path).expect("written");
    assert_eq!(bytes(&plain), bytes(&other));
    let [_, image, _] = digits();
    let ran = ane!("run", package, "-i", image, "--via", "inprocess", "--cache", format!("{file}/below")).fine();
    assert!(ran.err.contains("not cached: ") && ran.err.contains("--cache FOLDER"), "{ran:?}");
}

#[test]
fn a_cache_below_a_long_path() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    // Older calls of Windows take 260 characters.
    let deep = (0..4).fold(scratch.path("cache"), |path, _| format!("{path}/{}", "x".repeat(90)));
    for found in ["cache miss", "cache hit"] {
        let ran = ane!("run", package, "-i", image, "--via", "inprocess", "--cache", deep, "-v").fine();
        assert!(ran.out.contains(found) || ran.err.contains(found), "{ran:?}");
    }
}

#[test]
fn programs_of_another_version_are_named_and_not_read() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let cache = scratch.path("cache");
    let keep = |out: &str| ane!("compile", package, "-o", scratch.out(out), "--cache", cache).fine();
    keep("a.hwx");
    let family = std::path::Path::new(&cache).join("com.apple.e5rt.e5bundlecache");
    let own = std::fs::read_dir(&family).expect("listed").next().expect("a build").expect("readable").path();
    std::fs::rename(&own, family.join("anemone-0.0.0")).expect("renamed");
    let listed = ane!("cache", "ls", "--cache", cache).fine();
    assert!(listed.out.is_empty() && listed.err.contains("not read: 1 programs of another version"), "{listed:?}");
    assert!(listed.err.contains("anemone-0.0.0"), "{listed:?}");
    keep("b.hwx");
    assert_eq!(ane!("cache", "ls", "--cache", cache).fine().out.lines().count(), 1);
}

/// Entries are named by what they are compiled from and by the compiler's sources, and hold the same bytes on every
/// processor: what this build makes, the one under test (`ANE_BINARY`) finds, and the other way round.
#[test]
fn a_cache_is_shared_by_builds_for_several_architectures() {
    let [package, image, _] = digits();
    let own = env!("CARGO_BIN_EXE_ane").to_string();
    let tested = std::env::var("ANE_BINARY").unwrap_or_else(|_| own.clone());
    for builds in [[&own, &tested], [&tested, &own]] {
        let scratch = Scratch::new();
        let cache = scratch.path("cache");
        let run = |binary: &String, out: &str| {
            let arguments = ["run", &package, "-i", &image, "--via", "inprocess", "--cache", &cache, "-v", "-o", out];
            let ran = std::process::Command::new(binary).args(arguments).output().expect("starts");
            let text = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success(), "{binary}: {text}");
            text
        };
        let outs = [scratch.out("first.npy"), scratch.out("second.npy")];
        let (first, second) = (run(builds[0], &outs[0]), run(builds[1], &outs[1]));
        assert!(first.contains("cache miss") && second.contains("cache hit"), "{first}\n{second}");
        let bytes = outs.map(|path| std::fs::read(path).expect("written"));
        assert_eq!(bytes[0], bytes[1]);
        assert_eq!(ane!("cache", "ls", "--cache", cache).fine().out.lines().count(), 1);
    }
}

#[test]
fn what_lies_on_the_network_is_named_as_such() {
    for (name, wanted) in [
        ("https://host/model.onnx", "this is a URL"),
        ("smb://server/share/model.mlpackage", "this is a URL"),
        ("\\\\server\\share\\model.mlpackage", "a network share"),
        ("//server/share/model.mlpackage", "a network share"),
    ] {
        ane!("check", name).refused(2, "ANE2001", &[name, wanted]);
        ane!("run", name).refused(2, "ANE2001", &[name, wanted]);
    }
}

/// Runs `ane` where a script has mounted something over a folder: exit code, and what it printed. No code where nothing can be mounted.
#[cfg(target_os = "linux")]
fn mounted(script: &str, folder: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let binary = std::env::var("ANE_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ane").into());
    let mut command = std::process::Command::new("unshare");
    command.args(["-r", "-m", "sh", "-c", script, folder, &binary]).args(arguments);
    let Ok(ran) = command.output() else { return (None, String::new()) };
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// Memory that processes share has no file there.
#[test]
#[cfg(target_os = "linux")]
fn no_folder_of_shared_memory_is_needed() {
    if absent_on(&["macos", "windows"]) {
        return;
    }
    let [package, image, _] = digits();
    let script = "mount -t tmpfs -o ro none \"$0\" && exec \"$@\" || exit 77";
    let run = |arguments: &[&str]| mounted(script, "/dev/shm", arguments);
    if run(&["--version"]).0 != Some(0) {
        eprintln!("skipped: nothing can be mounted over /dev/shm here (unshare -r -m)");
        return;
    }
    let (scratch, plain) = (Scratch::new(), ["run", &package, "-i", &image]);
    let cache = scratch.path("cache");
    for arguments in [&plain[..], &[&plain[..], &["--via", "inprocess", "--cache", &cache]].concat()] {
        let (code, err) = run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_is_read_only_is_named_and_nothing_is_left() {
    if absent_on(&["macos", "windows"]) {
        return;
    }
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let folder = scratch.path("fixed");
    std::fs::create_dir(&folder).expect("a folder");
    let script = "mount -t tmpfs none \"$0\" && mount -o remount,ro \"$0\" && exec \"$@\" || exit 77";
    let run = |arguments: &[&str]| mounted(script, &folder, arguments);
    if run(&["--version"]).0 != Some(0) {
        eprintln!("skipped: no file system can be mounted here (unshare -r -m)");
        return;
    }
    let out = format!("{folder}/out.hwx");
    for arguments in [
        &["compile", &package, "-o", &out] as &[&str],
        &["compile", &package, "-o", &format!("{folder}/new/")],
        &["convert", &package, "-o", &format!("{folder}/x.mlpackage")],
        &["run", &package, "-i", &image, "-o", &format!("{folder}/y.npy")],
        &["check", &package, "--html", &format!("{folder}/x.html")],
    ] {
        let (code, err) = run(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        assert!(err.contains("error[ANE2005]") && err.contains("Read-only file system"), "{arguments:?}: {err}");
        assert!(err.contains(&folder), "{arguments:?}: {err}");
    }
    let (code, err) = run(&["broker", "--socket", &format!("{folder}/aned.sock")]);
    assert!(code == Some(2) && err.contains("Read-only file system") && err.contains("aned."), "{err}");
    let (code, err) = run(&["run", &package, "-i", &image, "--via", "inprocess", "--cache", &folder]);
    assert!(code == Some(0) && err.contains("not cached: ") && err.contains("Read-only file system"), "{err}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_path_that_is_too_long_for_a_socket() {
    if absent_on(&["macos", "windows"]) {
        return;
    }
    let [package, image, _] = digits();
    let long = format!("/tmp/{}", "x".repeat(120));
    let wanted: &[&str] = &["at most 107 bytes, this one 125", "choose a shorter folder"];
    ane!("broker", "--socket", long).refused(2, "ANE2001", wanted);
    ane!("stat", "--socket", long).refused(2, "ANE2001", wanted);
    ane!("run", package, "-i", image, "--via", "broker", "--socket", long).refused(2, "ANE2001", wanted);
}

/// Runs under the emulator of such a system (`ANE_BINARY`).
#[test]
fn a_system_without_the_broker_says_so() {
    if !absent_on(&["macos", "windows"]) {
        ane!("doctor").fine().out.lines().find(|line| line.starts_with("yes broker")).expect("a broker");
        return;
    }
    let [package, image, _] = digits();
    ane!("broker").refused(2, "ANE2004", &["there is no broker on ", "--via inprocess"]);
    ane!("stat", "--socket", "x.sock").refused(2, "ANE2004", &["there is no broker on ", "--via inprocess"]);
    ane!("run", package, "-i", image, "--via", "broker").refused(2, "ANE2004", &["there is no broker on "]);
}

#[test]
fn folders_of_the_user_that_are_not_known() {
    // Wine sets the folders itself.
    if absent_on(&["windows"]) {
        return;
    }
    let [package, image, _] = digits();
    let bare = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|a| a.to_string()).collect();
        let mut command = command(&arguments);
        for variable in ["HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "LOCALAPPDATA"] {
            command.env_remove(variable);
        }
        finish(command.spawn().expect("starts"), &arguments)
    };
    bare(&["cache", "ls"]).refused(2, "ANE2004", &["the cache has no default folder", "is set", "--cache FOLDER"]);
    bare(&["stat"]).refused(2, "ANE2004", &["the broker's socket has no default path", "--socket PATH"]);
    // Commands that need none of them work.
    bare(&["run", &package, "-i", &image]).fine();
    let doctor = bare(&["doctor"]).fine();
    assert!(doctor.out.contains("cache folder") && doctor.out.contains("broker"), "{doctor:?}");
}
