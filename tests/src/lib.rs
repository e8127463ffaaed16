//! Host tests, kill matrix, benches and stand-ins of Hostspan.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "all of this crate is test code"
)]

pub mod binary;
pub mod golden;
