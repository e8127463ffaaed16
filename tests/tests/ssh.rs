//! The installer's SSH against real sshds on the loopback, real sudo, and peers that mean harm.
//!
//! Needs root, openssh-server, sudo and ssh-agent; accounts and sudoers live in a mount namespace.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what a helper did not expect fails the test")]

#[path = "ssh/auth.rs"]
mod auth;
#[path = "ssh/exec.rs"]
mod exec;
#[path = "ssh/hostile.rs"]
mod hostile;
#[path = "ssh/link.rs"]
mod link;
#[path = "ssh/proxy.rs"]
mod proxy;
#[path = "ssh/sshd.rs"]
mod sshd;
#[path = "ssh/trust.rs"]
mod trust;
#[path = "ssh/upload.rs"]
mod upload;
