//! Constants as the kernel section has them: packed coefficients, and the form in which each kernel streams.

pub(crate) mod form;
pub(crate) mod pack;
