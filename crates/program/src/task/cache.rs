//! Primitives of the compute cache, which later versions have a DMA engine for.

/// A primitive of the compute cache, that later versions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePrimitive {
    /// An atomic operation on a counter.
    Atomic,
    /// A counter.
    Counter,
    /// An event that is waited for.
    WaitEvent,
}

impl CachePrimitive {
    /// Every primitive.
    pub const ALL: [CachePrimitive; 3] = [CachePrimitive::Atomic, CachePrimitive::Counter, CachePrimitive::WaitEvent];

    /// Name.
    pub const fn name(self) -> &'static str {
        match self {
            CachePrimitive::Atomic => "atomic",
            CachePrimitive::Counter => "counter",
            CachePrimitive::WaitEvent => "wait-event",
        }
    }
}
