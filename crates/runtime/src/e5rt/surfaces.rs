//! Buffers as surfaces: a buffer whose bytes have the layout of a port is the port's memory on the device, and nothing is cast.

use super::Buffer;
use super::device::Loaded;
use crate::driver::task::lock;
use crate::error::Result;
use std::sync::{Arc, Mutex, Weak};

/// Surfaces that a loaded program has for buffers of the caller. A buffer has one surface, so that a buffer on two ports is one state.
#[derive(Default)]
pub(super) struct Surfaces(Mutex<Vec<(Weak<Buffer>, u32)>>);

impl Surfaces {
    /// The surface of a buffer, made for its first call. Buffers that the caller dropped since give theirs back.
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

    /// Takes all of them back.
    pub fn release(&self, loaded: &dyn Loaded) {
        lock(&self.0).drain(..).for_each(|(_, surface)| loaded.remove_surface(surface));
    }
}
