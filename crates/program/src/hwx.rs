//! hwx
