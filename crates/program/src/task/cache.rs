//! Primitives of the compute cache, for which later versions have a DMA engine.

/// A primitive of the compute cache of later versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePrimitive {
    /// An atomic operation on a counter.
    Atomic,
    /// A counter.
    Counter,
    /// Wait for an event.
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
