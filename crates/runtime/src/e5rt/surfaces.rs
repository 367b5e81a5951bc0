//! Buffers as surfaces: a buffer with the layout of a port is the port's memory on the device, without a cast.

use super::Buffer;
use super::device::Loaded;
use crate::driver::task::lock;
use crate::error::Result;
use std::sync::{Arc, Mutex, Weak};

/// Surfaces of a loaded program for the caller's buffers. A buffer has one surface, so that a buffer on two ports is one state.
#[derive(Default)]
pub(super) struct Surfaces(Mutex<Vec<(Weak<Buffer>, u32)>>);

impl Surfaces {
    /// The surface of a buffer, created at its first call. Surfaces of dropped buffers are released.
    pub fn of(&self, buffer: &Arc<Buffer>, loaded: &dyn Loaded) -> Result<u32> {
        let mut kept = lock(&self.0);
        if let Some((_, surface)) = kept.iter().find(|(own, _)| own.as_ptr() == Arc::as_ptr(buffer)) {
            return Ok(*surface);
        }
        kept.retain(|(own, surface)| {
            let lives = own.strong_count() > 0;
            if !lives {
                loaded.remove_surface(*surface);
            }
            lives
        });
        let surface = loaded.add_surface(Arc::clone(&buffer.shared))?;
        kept.push((Arc::downgrade(buffer), surface));
        Ok(surface)
    }

    /// Releases all surfaces.
    pub fn release(&self, loaded: &dyn Loaded) {
        lock(&self.0).drain(..).for_each(|(_, surface)| loaded.remove_surface(surface));
    }
}
