//! What a host is, read in one round trip, and what preflight makes of it.
//!
//! ```text
//! facts.sh ==> host ==> text --parse--> Facts --preflight (pure, whole fleet)--> Vec<Finding>
//! ```
//!
//! Non-goals: changing anything, deciding what to do about a finding (`cli` and `cluster` do).

pub mod facts;
mod gather;
mod os_release;
mod parse;
pub mod preflight;

pub use gather::{FactsError, gather};
