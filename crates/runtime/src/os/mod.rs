//! Operating system calls: shared memory, sockets with descriptors, peers.

pub mod shared;
pub mod socket;
