//! Names, upstream releases and manifests that Hostspan's programs share.
//!
//! Non-goals: talking to anything; a template engine of its own.

pub mod names;
pub mod releases;
