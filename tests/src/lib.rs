//! Host tests, kill matrix, benches and stand-ins of Hostspan.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    reason = "all of this crate is test code"
)]

pub mod binary;
pub mod canary;
pub mod digest;
pub mod fleet;
pub mod golden;
pub mod kubectl;
pub mod labs;
pub mod nodes;
pub mod pods;
pub mod scenario;
