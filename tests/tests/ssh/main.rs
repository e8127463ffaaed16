//! The installer's SSH against real sshds on the loopback, real sudo, and peers that mean harm.
//!
//! Needs root, openssh-server, sudo and ssh-agent; accounts and sudoers live in a mount namespace.

mod exec;
mod sshd;
mod upload;
