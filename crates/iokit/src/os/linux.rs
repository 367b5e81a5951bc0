//! Memory through `/proc/self/mem`: an unmapped address is an error, not a fault.

use anemone_runtime::driver::task;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

/// The process's memory.
#[derive(Debug)]
pub struct Own(File);

impl Own {
    /// Opens it. Errors: the system does not support it.
    pub fn open() -> std::io::Result<Own> {
        OpenOptions::new().read(true).write(true).open("/proc/self/mem").map(Own)
    }
}

impl task::Memory for Own {
    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        self.0.read_exact_at(to, address).is_ok()
    }

    fn write(&self, address: u64, from: &[u8]) -> bool {
        self.0.write_all_at(from, address).is_ok()
    }
}
