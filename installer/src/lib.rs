//! hostspan: plain KVM hosts in, an infra cluster out, over SSH.
//!
//! ```text
//! cli --> fleet (what is wanted) --> host (facts, preflight) --> cluster (phases, variables)
//!                                                                   |
//!            progress <-- events -- engine (plan, run, journal) <---+
//!                                       |
//!                                      ssh (the only place that names russh) ==> the host
//! ```
//!
//! Non-goals: an agent on the hosts, a state file on the admin's machine, several control planes (for now).

pub mod artifacts;
pub mod cli;
pub mod cluster;
pub mod engine;
pub mod exit;
pub mod fleet;
pub mod host;
pub mod lab;
pub mod progress;
pub mod secret;
pub mod ssh;
