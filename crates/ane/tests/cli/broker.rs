//! The daemon as a process: every route gives the same outputs; whoever is killed, the others go on or get a named error.
//!
//! `ANE_KILLS=1000` kills more often.

#![cfg(target_os = "linux")]

use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::e5rt::cast::dense_bytes;
use anemone_runtime::e5rt::{CompileOptions, Runtime, Stream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Daemon {
    folder: tempfile::TempDir,
    child: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ane() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ane"))
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits").join(name)
}

impl Daemon {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("aned.sock")
    }

    fn start(folder: tempfile::TempDir) -> Daemon {
        let child = Daemon::spawn(folder.path());
        let daemon = Daemon { folder, child };
        daemon.wait();
        daemon
    }

    fn spawn(folder: &Path) -> Child {
        let mut command = ane();
        command.args(["broker", "--quiet", "--socket"]).arg(folder.join("aned.sock"));
        command.arg("--cache").arg(folder.join("cache")).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("starts")
    }

    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(10);
        while !self.stat().status.success() {
            assert!(Instant::now() < until, "the broker does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn restart(&mut self) {
        self.child = Daemon::spawn(self.folder.path());
        self.wait();
    }

    fn stat(&self) -> Output {
        ane().args(["stat", "--json", "--socket"]).arg(self.socket()).output().expect("runs")
    }

    fn run_command(&self, via: &str, times: &str) -> Command {
        let mut command = ane();
        command.arg("run").arg(example("digits.mlpackage")).arg("--input").arg(example("image.npy"));
        command.args(["--via", via, "--times", times, "--json"]);
        match via {
            "inprocess" => command.arg("--cache").arg(self.folder.path().join("own")),
            _ => command.arg("--socket").arg(self.socket()),
        };
        command
    }

    fn run(&self, via: &str) -> serde_json::Value {
        let out = self.run_command(via, "3").output().expect("runs");
        assert!(out.status.success(), "{via}: {}", String::from_utf8_lossy(&out.stdout));
        let document: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        document["outputs"].clone()
    }

    fn cache(&self, what: &[&str]) -> Output {
        ane().arg("cache").args(what).arg("--cache").arg(self.folder.path().join("cache")).output().expect("runs")
    }
}

fn plain() -> serde_json::Value {
    let mut command = ane();
    command.arg("run").arg(example("digits.mlpackage")).arg("--input").arg(example("image.npy")).arg("--json");
    let out = command.output().expect("runs");
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    document["outputs"].clone()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn counters_are_told_by_subject() {
    let daemon = Daemon::start(folder());
    daemon.run("broker");
    let out = ane().args(["stat", "--socket"]).arg(daemon.socket()).output().expect("runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    for part in ["requests\n", "modelled time, ns", "resident programs", "idle time before that, ms", "idle armed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Every counter has a subject: none is left under the name that programs read.
    let stat: serde_json::Value = serde_json::from_slice(&daemon.stat().stdout).expect("JSON");
    let left = |name: &&String| text.lines().any(|line| line.split_whitespace().next() == Some(name.as_str()));
    let names = stat.as_object().expect("counters").keys().filter(|name| name.contains('_'));
    assert_eq!(names.filter(left).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn every_route_gives_the_same() {
    let daemon = Daemon::start(folder());
    let expected = plain();
    for via in ["inprocess", "broker", "direct"] {
        assert_eq!(daemon.run(via), expected, "{via}");
    }
    let stat = || -> serde_json::Value { serde_json::from_slice(&daemon.stat().stdout).expect("JSON") };
    // The end of a process is seen a little later.
    let until = Instant::now() + Duration::from_secs(10);
    while stat()["programs"] != 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let stat = stat();
    assert_eq!((&stat["completed"], &stat["compiles"], &stat["programs"]), (&6.into(), &1.into(), &0.into()), "{stat}");
    let second = ane().args(["broker", "--socket"]).arg(daemon.socket()).output().expect("runs");
    assert!(!second.status.success() && String::from_utf8_lossy(&second.stderr).contains("another broker serves"));
    // The entry moves: out of one cache, into another.
    let listed = String::from_utf8_lossy(&daemon.cache(&["ls"]).stdout).into_owned();
    let key = listed.split_whitespace().next().expect("an entry").to_string();
    let file = daemon.folder.path().join("entry.bundle");
    assert!(daemon.cache(&["export", &key[..8], "-o", &file.display().to_string()]).status.success());
    let other = daemon.folder.path().join("other");
    let imported = ane().args(["cache", "import"]).arg(&file).arg("--cache").arg(&other).output().expect("runs");
    assert_eq!(String::from_utf8_lossy(&imported.stdout).trim(), key);
    assert!(daemon.cache(&["verify"]).status.success());
    let trace = daemon.folder.path().join("trace.json");
    let traced = daemon.run_command("direct", "2").arg("--perfetto").arg(&trace).output().expect("runs");
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let text = std::fs::read_to_string(&trace).expect("a trace");
    assert!(text.contains("EVALUATE") && text.contains("firmware (modelled)"));
    // A class of service; that of real time needs a key, and there is no broker to tell in process.
    let classed = |via, class| daemon.run_command(via, "1").args(["--qos", class]).output().expect("runs");
    assert!(classed("direct", "9").status.success());
    for (via, class, text) in [("direct", "0", "realtime"), ("inprocess", "9", "--via broker")] {
        let refused = classed(via, class);
        // With --json a refusal is a document.
        let told = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert!(!refused.status.success() && told.contains(text), "{via} {class}: {told}");
    }
}

/// A sibling serves as the broker does, in a tier of its own, by the policy of the program that it stands for.
#[test]
fn a_sibling_speaks_for_its_user_s_programs() {
    let daemon = Daemon::start(folder());
    let stat = || -> serde_json::Value { serde_json::from_slice(&daemon.stat().stdout).expect("JSON") };
    let own = folder();
    let socket = own.path().join("mine.sock");
    let mut command = ane();
    command.args(["broker", "--quiet", "--socket"]).arg(&socket).arg("--through").arg(daemon.socket());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let sibling = Daemon { folder: own, child };
    let through = |via: &str, times: &str| {
        let known = daemon.run_command(via, times);
        let own = |argument: &std::ffi::OsStr| match argument == daemon.socket() {
            true => socket.clone().into_os_string(),
            false => argument.to_os_string(),
        };
        let mut command = ane();
        command.args(known.get_args().map(own));
        command
    };
    let until = Instant::now() + Duration::from_secs(10);
    while !socket.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let expected = plain();
    for via in ["broker", "direct"] {
        let out = through(via, "3").output().expect("runs");
        let document: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!(document["outputs"], expected, "{via}");
    }
    let mut long = through("broker", "1000000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    while stat()["connections_by_tier"]["per_user"] == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let tiers = stat()["connections_by_tier"].clone();
    assert!(tiers["per_user"] != 0 && tiers["restricted"] == 0, "{tiers}");
    // A program that is killed is gone from the broker too.
    let _ = long.kill();
    let _ = long.wait();
    while stat()["programs"] != 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((&stat()["programs"], &stat()["connections_by_tier"]["per_user"]), (&0.into(), &0.into()));
    // Keys are asked for as without a sibling.
    let refused = through("broker", "1").arg("--power-saving").output().expect("runs");
    let told = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(!refused.status.success() && told.contains("aggressivePowerSaving"), "{told}");
    // Without the broker, its error is told.
    drop(daemon);
    let mut alone = ane();
    alone.arg("run").arg(example("digits.mlpackage")).args(["--via", "broker", "--socket"]).arg(&socket);
    let refused = alone.output().expect("runs");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(matches!(refused.status.code(), Some(1 | 2)) && told.contains("connect"), "{told}");
    drop(sibling);
}

/// Loads and dispatches over and over: the broker has as many descriptors afterwards as before, and about as much memory.
#[test]
fn nothing_is_left_behind() {
    let daemon = Daemon::start(folder());
    let pid = daemon.child.id();
    let runtime = |route| {
        let device = Arc::new(Remote::connect(&daemon.socket(), route).expect("connects"));
        Arc::new(Runtime::new(device.clone(), device, None))
    };
    let first = runtime(Route::Broker).compile(&example("digits.mlpackage"), &CompileOptions::default());
    let bundle = first.expect("compiles").bundle().clone();
    let round = |i: usize| {
        let runtime = runtime(if i.is_multiple_of(2) { Route::Broker } else { Route::Direct });
        let library = runtime.library(bundle.clone()).expect("reads");
        let operation = library.function("main").and_then(|f| f.operation()).expect("loads");
        for info in &library.signature().ports {
            let buffer = runtime.buffer(dense_bytes(info).expect("a size")).expect("memory");
            operation.port(&info.name, info.output).and_then(|p| p.bind(&buffer)).expect("binds");
        }
        let stream = Stream::new(&runtime);
        stream.encode(&operation).expect("encodes");
        (0..50).for_each(|_| stream.execute().expect("a dispatch"));
    };
    let held = || {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let stat: serde_json::Value = serde_json::from_slice(&daemon.stat().stdout).expect("JSON");
            // The one connection is this question's.
            if stat["programs"] == 0 && stat["direct_clients"] == 0 && stat["connections"] == 1 {
                break;
            }
            assert!(Instant::now() < until, "{stat}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // The question's own connection ends a little later.
        std::thread::sleep(Duration::from_millis(200));
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"));
        (descriptors, resident.and_then(|n| n.trim().parse::<u64>().ok()).expect("a number"))
    };
    (0..100).for_each(round);
    let (descriptors, before) = held();
    (0..300).for_each(round);
    let (now, after) = held();
    assert_eq!(now, descriptors);
    // The threads' own heaps settle within this; a load that stayed would cost more than it in 300, 1 KB a dispatch in 15,000.
    assert!(after < before + 8192, "{before} kB, then {after} kB");
    println!("{descriptors} descriptors; {before} kB, {after} kB after 300 loads and 15,000 dispatches");
}

/// Processes whose parent is the given one.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|e| {
        let pid: u32 = e.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(e.path().join("stat")).ok()?;
        let after = stat.rsplit(')').next()?;
        (after.split_whitespace().nth(1)?.parse() == Ok(parent)).then_some(pid)
    })
    .collect()
}

fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
}

#[test]
fn kills() {
    let kills: u32 = std::env::var("ANE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(45);
    let mut daemon = Daemon::start(folder());
    let expected = plain();
    daemon.run("broker");
    let mut seed = 7u64;
    for i in 0..kills {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let pause = Duration::from_millis(seed >> 33 & 63);
        let via = if i % 2 == 0 { "broker" } else { "direct" };
        if i % 3 == 1 {
            // With nothing kept, the service is killed while it compiles.
            let _ = std::fs::remove_dir_all(daemon.folder.path().join("cache"));
        }
        let mut client =
            daemon.run_command(via, "200000").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        std::thread::sleep(pause);
        match i % 3 {
            0 => {
                let _ = client.kill();
                let _ = client.wait();
            }
            1 => {
                children(daemon.child.id()).into_iter().for_each(kill);
                let _ = client.kill();
                let _ = client.wait();
            }
            _ => {
                let _ = daemon.child.kill();
                let _ = daemon.child.wait();
                let killed = Instant::now();
                let out = client.wait_with_output().expect("ends");
                assert!(!out.status.success(), "200000 dispatches are not that fast");
                let text = String::from_utf8_lossy(&out.stdout).into_owned();
                assert!(killed.elapsed() < Duration::from_secs(1), "{:?}: {text}", killed.elapsed());
                assert!(text.contains("broker") || text.contains("rror"), "{text}");
                daemon.restart();
            }
        }
        assert_eq!(daemon.run(via), expected, "after kill {i}");
        assert!(daemon.cache(&["verify"]).status.success());
    }
    daemon.cache(&["gc"]);
    let left: Vec<_> = walk(&daemon.folder.path().join("cache")).into_iter().filter(|p| p.contains(".tmp-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn walk(folder: &Path) -> Vec<String> {
    let mut out = Vec::new();
    for e in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        out.push(e.path().display().to_string());
        if e.path().is_dir() {
            out.extend(walk(&e.path()));
        }
    }
    out
}

#[test]
fn a_cache_that_cannot_be_written() {
    let folder = folder();
    // A file where the folder should be: nothing can be kept there, by no user.
    std::fs::write(folder.path().join("cache"), b"in the way").expect("written");
    let daemon = Daemon::start(folder);
    assert_eq!(daemon.run("broker"), plain());
}

/// Runs a script in a name space of its own, in which `$FULL` is a file system of 16 KiB. `None` where the system does not let
/// us.
fn on_a_small_disk(folder: &Path, script: &str) -> Option<Output> {
    let full = folder.join("full");
    std::fs::create_dir_all(&full).expect("a folder");
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args([
            "-r",
            "-m",
            "sh",
            "-c",
            &format!("mount -t tmpfs -o size=16k none \"$FULL\" || exit 77\n{script}"),
        ]);
        command.env("FULL", &full).env("ANE", env!("CARGO_BIN_EXE_ane")).env("MODEL", example("digits.mlpackage"));
        command.env("IMAGE", example("image.npy")).env("EXPECTED", example("expected.npy")).output()
    };
    let able = shell("exit 0").is_ok_and(|out| out.status.success());
    if !able {
        eprintln!("skipped: no file system can be mounted here (unshare -r -m)");
        return None;
    }
    Some(shell(script).expect("it ran before"))
}

#[test]
fn a_full_disk_costs_the_cache_and_not_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "\"$ANE\" run \"$MODEL\" -i \"$IMAGE\" --expect \"$EXPECTED\" --atol 2e-3 --via inprocess --cache \"$FULL\" || exit $?
        echo entries; \"$ANE\" cache ls --cache \"$FULL\"; find \"$FULL\" -name '.tmp*'; df \"$FULL\" | tail -1 >&2";
    let Some(ran) = on_a_small_disk(folder.path(), script) else { return };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "the result is right: {out}{err}");
    let after = out.split("entries\n").nth(1).expect("the listing");
    assert!(after.trim().is_empty(), "nothing is kept, in whole or in part: {after}");
}

#[test]
fn a_full_disk_leaves_no_part_of_a_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "\"$ANE\" compile \"$MODEL\" -o \"$FULL/out.hwx\"; code=$?; ls -A \"$FULL\"; exit $code";
    let Some(ran) = on_a_small_disk(folder.path(), script) else { return };
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{err}");
    assert!(err.contains("error[ANE2005]") && err.contains("No space left"), "{err}");
    assert!(ran.stdout.is_empty(), "left behind: {}", String::from_utf8_lossy(&ran.stdout));
    // A device that is always full, where there is one.
    if Path::new("/dev/full").exists() {
        let mut dump = ane();
        dump.args(["targets", "m1"]).stdout(std::fs::File::options().write(true).open("/dev/full").expect("it opens"));
        let ran = dump.output().expect("it runs");
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    }
}
