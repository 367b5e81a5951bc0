//! Scratch memory.

/// Bytes of a cache line, and of the longest vectors.
pub const LINE_BYTES: usize = 64;

/// `elements` of a buffer, with whatever they held before. They begin where a cache line does.
pub fn room<T: Copy + Default>(buffer: &mut Vec<T>, elements: usize) -> &mut [T] {
    let line = LINE_BYTES / size_of::<T>();
    if buffer.len() < elements + line {
        buffer.resize(elements + line, T::default());
    }
    let first = buffer.as_ptr().align_offset(LINE_BYTES).min(line);
    &mut buffer[first..][..elements]
}
