//! How a program gets to the machine: broker, driver, loading, devices.
//!
//! This room is empty and waits. It will hold
//!
//! - the broker: who may submit, and a cache of compiled programs;
//! - the driver: selectors, argument sizes, states and refusals, as rows of `facts` state them;
//! - loading: a program bound to buffers, with base addresses assigned;
//! - devices: a software device over `engine`, and a hardware device that is compiled on Apple systems only.
//!
//! It may touch `facts`, `program` and `engine`. It must not see `net` or `compile`: what it is handed is a program, never
//! a model. Calls to the operating system, and `unsafe`, stay within the hardware device.
