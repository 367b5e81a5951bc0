//! Runs the binary with a time limit, makes files to feed it, and asserts how it refuses.

use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// No run of these small files may take longer.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Largest slow-down by an emulator.
const EMULATED: u32 = 6;

/// Result of a command.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; `None` when a signal or the time limit ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Arguments from anything that displays.
#[macro_export]
macro_rules! ane {
    ($($argument:expr),* $(,)?) => { $crate::harness::run(&[$(format!("{}", $argument)),*]) };
}

pub fn command(arguments: &[String]) -> Command {
    // Another binary, or what runs it, for example under an emulator.
    let other = std::env::var_os("ANE_BINARY");
    let mut command = Command::new(other.unwrap_or_else(|| env!("CARGO_BIN_EXE_ane").into()));
    command.args(arguments).env_remove("RUST_BACKTRACE").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns true, and prints it, if the binary under test is for one of these systems, which lack the subject of the test.
pub fn absent_on(systems: &[&str]) -> bool {
    static SYSTEM: OnceLock<String> = OnceLock::new();
    let system = SYSTEM.get_or_init(|| match std::env::var_os("ANE_BINARY") {
        None => std::env::consts::OS.into(),
        Some(_) => {
            // The first line of its doctor: `yes version  ane 0.1.0, build 0, linux on x86_64`.
            let told = ane!("doctor").fine().out;
            let found = ["windows", "macos"].into_iter().find(|name| told.contains(&format!(", {name} on ")));
            found.unwrap_or("linux").into()
        }
    });
    let absent = systems.contains(&system.as_str());
    if absent {
        eprintln!("skipped: nothing of the kind on {system}");
    }
    absent
}

/// Runs `ane`; stopped when it passes the time limit, with exit code `None`.
pub fn run(arguments: &[String]) -> Ran {
    let child = command(arguments).spawn().expect("the binary starts");
    finish(child, arguments)
}

pub fn finish(mut child: Child, arguments: &[String]) -> Ran {
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let limit = if std::env::var_os("ANE_BINARY").is_some() { TIME_LIMIT * EMULATED } else { TIME_LIMIT };
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait().expect("the process can be waited for") {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            eprintln!("no end after {limit:?}: ane {}", arguments.join(" "));
        }
    };
    let text = |thread: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&thread.join().expect("the reader ends")).into_owned()
    };
    Ran { code: status.code(), out: text(out), err: text(err) }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

impl Ran {
    /// The command succeeded.
    #[track_caller]
    pub fn fine(self) -> Ran {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// It refused with this exit code and diagnostic code, and the message has all of `parts`.
    #[track_caller]
    pub fn refused(self, exit: i32, code: &str, parts: &[&str]) -> Ran {
        assert_eq!(self.code, Some(exit), "{self:?}");
        assert!(self.err.contains(&format!("error[{code}]: ")), "{code} is missing: {self:?}");
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is missing: {self:?}");
        }
        self
    }

    /// The message says, in the words of the system that the binary is for, that a file is absent.
    #[track_caller]
    pub fn says_absent(self) -> Ran {
        // Unix, Windows (file, path), Wine (file, path).
        let words =
            ["No such file", "cannot find the file", "cannot find the path", "File not found", "Path not found"];
        assert!(words.iter().any(|w| self.err.contains(w)), "{self:?}");
        self
    }

    /// Standard output as the one JSON document that it must be, of this schema.
    #[track_caller]
    pub fn json(&self, schema: &str) -> Value {
        let document: Value = serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("no JSON: {e}: {self:?}"));
        assert_eq!(document["schema"], schema, "{document}");
        document
    }
}

/// A folder for a test's files, with a folder `out` that commands write to.
pub struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Scratch {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(dir.path().join("out")).expect("its folder");
        Scratch { dir }
    }

    /// Path of a file to be made by the test.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Path of a file to be written by a command.
    pub fn out(&self, name: &str) -> String {
        self.path(&format!("out/{name}"))
    }

    /// Makes a file; its path.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(Path::new(&path).parent().expect("a parent")).expect("its folder");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// Nothing was written to `out`, whole or in part.
    #[track_caller]
    pub fn nothing_written(&self) {
        let left: Vec<PathBuf> = crate::common::entries(&self.dir.path().join("out"));
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// A copy of the digits package; its path.
    pub fn digits(&self) -> Package {
        let path = PathBuf::from(self.path("digits.mlpackage"));
        copy(&example("digits.mlpackage"), &path);
        Package { path }
    }

    /// A netplist with one ReLU.
    pub fn relu(&self) -> String {
        self.file("relu.plist", netplist("Neuron", "<key>Type</key><string>ReLU</string>", 3, 16))
    }

    /// A netplist with one 1x1 convolution of three channels and its weight file of 36 bytes.
    pub fn conv(&self) -> (String, String) {
        let weights: Vec<u8> = (0..9).flat_map(|i| (i as f32 / 4.0 - 1.0).to_le_bytes()).collect();
        (self.file("conv.plist", netplist("Conv", CONV, 3, 16)), self.file("conv.weights", weights))
    }
}

/// A copy of the digits package that a test may damage.
pub struct Package {
    pub path: PathBuf,
}

impl std::fmt::Display for Package {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.path.display().fmt(f)
    }
}

impl Package {
    pub const MODEL: &str = "Data/com.apple.CoreML/model.mlmodel";
    pub const WEIGHTS: &str = "Data/com.apple.CoreML/weights/weight.bin";
    pub const MANIFEST: &str = "Manifest.json";

    /// Changes the bytes of one of its files.
    pub fn change(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.path.join(file);
        let mut bytes = std::fs::read(&path).expect("a file of the package");
        change(&mut bytes);
        std::fs::write(&path, bytes).expect("a file of the package");
    }
}

/// Copies what lies in a folder into another, which is made.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in crate::common::entries(from) {
        let target = to.join(entry.file_name().expect("a name"));
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            std::fs::write(target, std::fs::read(&entry).expect("a file")).expect("a copy");
        }
    }
}

/// A file of the example.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits").join(name)
}

/// The example's package, image and expected output.
pub fn digits() -> [String; 3] {
    ["digits.mlpackage", "image.npy", "expected.npy"].map(|name| example(name).display().to_string())
}

const CONV: &str = "\
<key>KernelWidth</key><integer>1</integer><key>KernelHeight</key><integer>1</integer>
<key>KernelIndex</key><integer>0</integer><key>KernelOffset</key><integer>0</integer>
<key>KernelType</key><string>Float32</string><key>Type</key><string>Conv</string>";

/// A netplist with one unit from `x` to `y`, one row high.
pub fn netplist(kind: &str, params: &str, channels: usize, width: usize) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<plist version="1.0"><dict>
<key>Networks</key><array><string>small</string></array>
<key>small</key><dict>
  <key>Inputs</key><array><string>x</string></array>
  <key>Units</key><array><string>layer</string></array>
  <key>Outputs</key><array><string>y</string></array>
  <key>Weights</key><array><string>conv.weights</string></array>
  <key>x</key><dict>
    <key>InputChannels</key><integer>{channels}</integer><key>InputHeight</key><integer>1</integer>
    <key>InputWidth</key><integer>{width}</integer><key>InputType</key><string>Float16</string>
  </dict>
  <key>layer</key><dict>
    <key>Bottom</key><string>x</string><key>Name</key><string>layer</string>
    <key>OutputChannels</key><integer>{channels}</integer><key>OutputType</key><string>Float16</string>
    <key>Type</key><string>{kind}</string>
    <key>Params</key><dict>{params}</dict>
  </dict>
  <key>y</key><dict><key>Bottom</key><string>layer</string></dict>
</dict>
</dict></plist>
"#
    )
}

/// A `.npy` file with this header.
pub fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A `.npy` file of fp32 zeros.
pub fn zeros(shape: &[usize]) -> Vec<u8> {
    let extents: String = shape.iter().map(|n| format!("{n},")).collect();
    npy("<f4", false, &format!("({extents})"), &vec![0; 4 * shape.iter().product::<usize>()])
}

/// An array of fp32 with one value throughout.
pub fn filled(shape: &[usize], value: f32) -> Vec<u8> {
    let extents: String = shape.iter().map(|n| format!("{n},")).collect();
    let data: Vec<u8> = (0..shape.iter().product()).flat_map(|_: usize| value.to_le_bytes()).collect();
    npy("<f4", false, &format!("({extents})"), &data)
}

/// Replaces the first occurrence.
pub fn replace(bytes: &mut Vec<u8>, from: &[u8], to: &[u8]) {
    let at = bytes.windows(from.len()).position(|w| w == from).expect("the bytes to replace");
    bytes.splice(at..at + from.len(), to.iter().copied());
}
