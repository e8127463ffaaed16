//! What can go wrong with a lab.

use std::path::PathBuf;

/// Why a lab could not be made, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A name that cannot be part of a host name.
    #[error(
        "{name:?} is no lab name: lower-case letters, digits and dashes, a letter first and no dash last, at most {max} characters"
    )]
    Name {
        /// As given.
        name: String,
        /// The most characters.
        max: usize,
    },
    /// A number of hosts that the LAN cannot hold.
    #[error("a lab has 1 to {max} hosts, not {hosts}")]
    Hosts {
        /// As given.
        hosts: usize,
        /// The most.
        max: usize,
    },
    /// Namespaces and mounts are root's.
    #[error("a lab needs root on this machine: run it with sudo")]
    NotRoot,
    /// Debian packages of this machine.
    #[error("this machine lacks the Debian packages {}; install them with: apt-get install --no-install-recommends {}", .0.join(", "), .0.join(" "))]
    MissingPackages(Vec<String>),
    /// It is there with another shape.
    #[error("the lab {name} is there with {what}; remove it first: hostspan lab down --name {name}")]
    Exists {
        /// The lab.
        name: String,
        /// What differs.
        what: String,
    },
    /// It is not there.
    #[error("there is no lab {0}; make one: hostspan lab up --name {0}")]
    Missing(String),
    /// Another process works on it.
    #[error("another hostspan works on the lab {0} right now; wait for it or stop it")]
    Busy(String),
    /// A host that the lab has not.
    #[error("the lab {lab} has no host {host}; it has {hosts}")]
    NoHost {
        /// The lab.
        lab: String,
        /// As given.
        host: String,
        /// Those that it has.
        hosts: String,
    },
    /// No free subnet.
    #[error("no subnet of 10.128.0.0/10 is free on this machine; remove a lab or a route")]
    NoSubnet,
    /// A program failed.
    #[error("{command} failed ({status}): {stderr}")]
    Tool {
        /// Its command line, shortened.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// A file or process of this machine.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A host that did not come up.
    #[error("{host} did not answer SSH within {seconds} s ({last}); its console is in {}", console.display())]
    NotUp {
        /// The host.
        host: String,
        /// How long was waited.
        seconds: u64,
        /// What the last try said.
        last: String,
        /// Its console.
        console: PathBuf,
    },
    /// A host that must be stopped, or must run, for what was asked.
    #[error("{host} {state}; {help}")]
    HostState {
        /// The host.
        host: String,
        /// What it is.
        state: &'static str,
        /// What to do next.
        help: &'static str,
    },
    /// Something that would not go away.
    #[error("{what} of the lab {lab} would not go away; run hostspan lab down --name {lab} again")]
    Left {
        /// The lab.
        lab: String,
        /// What is left.
        what: String,
    },
}

impl LabError {
    /// For `map_err`: an I/O error with what was tried.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
