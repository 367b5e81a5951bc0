//! Scratch memory.

use std::any::Any;

/// Bytes of a cache line, which is also the width of the longest vectors.
pub const LINE_BYTES: usize = 64;

/// The first `elements` of a buffer, aligned to a cache line; their previous contents are not cleared.
pub fn scratch_slice<T: Copy + Default>(buffer: &mut Vec<T>, elements: usize) -> &mut [T] {
    let line = LINE_BYTES / size_of::<T>();
    if buffer.len() < elements + line {
        buffer.resize(elements + line, T::default());
    }
    let first = buffer.as_ptr().align_offset(LINE_BYTES).min(line);
    &mut buffer[first..][..elements]
}

/// Scratch buffers of kernels, keyed by type, so that the arena depends on none of its users. A kernel takes its buffers and puts them
/// back, so that they keep the capacity of the largest task.
#[derive(Default)]
pub struct Arena(Vec<Box<dyn Any + Send>>);

impl Arena {
    /// Takes the buffers of type `T` out of the arena, or creates empty ones if there are none.
    pub fn take<T: Any + Send + Default>(&mut self) -> Box<T> {
        match self.0.iter().position(|buffers| buffers.is::<T>()) {
            Some(i) => self.0.swap_remove(i).downcast().unwrap_or_default(),
            None => Box::default(),
        }
    }

    /// Returns buffers to the arena.
    pub fn put<T: Any + Send>(&mut self, buffers: Box<T>) {
        self.0.push(buffers);
    }
}
