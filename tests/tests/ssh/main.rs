//! The installer's SSH against real sshds on the loopback, real sudo, and peers that mean harm.
//!
//! Needs root, openssh-server, sudo and ssh-agent; accounts and sudoers live in a mount namespace.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what a helper did not expect fails the test")]

mod auth;
mod exec;
mod hostile;
mod link;
mod proxy;
mod sshd;
mod trust;
mod upload;
