//! Behaviours by id.
