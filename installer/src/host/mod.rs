//! What a host is, read in one round trip, and what preflight makes of it.

pub mod facts;
