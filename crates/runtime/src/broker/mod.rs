//! Who may submit: a daemon on a Unix socket.

pub mod policy;
