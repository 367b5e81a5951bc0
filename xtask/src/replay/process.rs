//! Runs the `ane` binary in a folder of its own, with a time limit.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time limit of one command, which is recorded if it is exceeded.
const LIMIT: Duration = Duration::from_secs(120);

/// The binary under replay.
pub struct Binary {
    path: PathBuf,
    /// True if it belongs to the same build as this program.
    pub own: bool,
}

/// Result of a command.
pub struct Done {
    /// Exit code, or the reason if there is none.
    pub exit: String,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Binary {
    /// The given binary, or the one beside this program.
    pub fn new(given: Option<&Path>) -> Result<Binary, String> {
        let beside = || std::env::current_exe().map(|exe| exe.with_file_name("ane")).map_err(|e| e.to_string());
        let path = given.map_or_else(beside, |p| Ok(p.to_path_buf()))?;
        let path =
            path.canonicalize().map_err(|e| format!("{}: {e}; build it: cargo build --workspace", path.display()))?;
        Ok(Binary { path, own: given.is_none() })
    }

    /// Runs it in `folder`, which is also its home, so that the user's configuration and cache have no effect.
    pub fn run(&self, folder: &Path, arguments: &[&str]) -> Result<Done, String> {
        let failed = |e: std::io::Error| format!("{} {}: {e}", self.path.display(), arguments.join(" "));
        let (out, err) = (folder.join(".stdout"), folder.join(".stderr"));
        let mut child = Command::new(&self.path)
            .args(arguments)
            .current_dir(folder)
            .env("HOME", folder)
            .env("XDG_CACHE_HOME", folder)
            .env_remove("ANE_LOG")
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(File::create(&out).map_err(failed)?)
            .stderr(File::create(&err).map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let begun = Instant::now();
        let exit = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break status.code().map_or_else(|| status.to_string(), |code| code.to_string());
            }
            if begun.elapsed() > LIMIT {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                break format!("still running after {} s", LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let (stdout, stderr) = (fs::read(out).map_err(failed)?, fs::read(err).map_err(failed)?);
        Ok(Done { exit, stdout, stderr })
    }
}

/// A temporary folder.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Result<Scratch, String> {
        static SERIAL: AtomicUsize = AtomicUsize::new(0);
        let name = format!("anemone-replay-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
