//! What a host is, read in one round trip, and what preflight makes of it.
//!
//! ```text
//! facts.sh ==> host ==> text --parse--> Facts --preflight (pure, whole fleet)--> Vec<Finding>
//!                                                 mesh (asks every host to reach every other) --^
//! ```
//!
//! Non-goals: changing anything, deciding what to do about a finding (`cli` and `cluster` do).

pub mod facts;
mod gather;
#[cfg(test)]
mod local;
pub mod mesh;
mod os_release;
mod parse;
pub mod preflight;
#[cfg(test)]
mod tests;

pub use gather::{FactsError, gather};
