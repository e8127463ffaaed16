//! Throwaway hosts on this machine, so that the whole product can be tried, and is tested, without a server.
//!
//! ```text
//!  this machine                      namespace hostspan-NAME-lan             namespaces hostspan-NAME-kvm-0N
//!  hs-xxxxxxxx (.2) ---- veth ----> bridge `lan` .1, DHCP, DNS  <-- veth --> eth0  a Debian with systemd and sshd
//!                                   bridge `second`             <-- veth --> eth1
//! ```
//!
//! Everything has a name that follows from the lab's, and every process carries the lab's name in its environment. So
//! [`down`] needs no record to find what is there, and a lab whose `up` was killed goes away like any other.
//!
//! Non-goals: isolation from hostile hosts (container hosts are privileged), routes out of the lab, speed of disks.

mod cgroup;
pub mod components;
mod container;
mod dirs;
mod disk;
mod error;
mod fleet_file;
mod hosts;
mod images;
mod keys;
mod lan;
mod layout;
mod limits;
mod packages;
mod processes;
mod root;
mod seed;
mod tool;
mod up;
mod vm;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use error::LabError;
pub use hosts::Lab;
pub use packages::{install_packages, missing_packages};
pub use up::{down, up_hosts};

/// What lab to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// Its name: lower-case letters, digits and dashes; at most 32 characters.
    pub name: String,
    /// How many hosts, 1 to 80. They are called `kvm-01`, `kvm-02`, ...
    pub hosts: usize,
    /// What they are.
    pub kind: Kind,
    /// What they run, taken in turn; Debian 12 where empty.
    pub os: Vec<Os>,
    /// One more host, `bastion`, that is not in the fleet file. It and the hosts see each other on a second segment (eth1)
    /// on which this machine has no address, so a host's `second_address` is reached through the bastion only.
    pub bastion: bool,
    /// More Debian packages in the hosts' root. They have no route to a mirror, so all they ever need must be there.
    pub packages: Vec<String>,
    /// The folder that `artifacts.path` of the fleet file names; upstream's sites where absent.
    pub artifacts: Option<PathBuf>,
    /// Memory of each virtual machine in MiB. Containers share this machine's.
    pub memory_mib: u32,
}

impl Options {
    /// One container host with Debian 12.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            hosts: 1,
            kind: Kind::Container,
            os: Vec::new(),
            bastion: false,
            packages: Vec::new(),
            artifacts: None,
            memory_mib: 4096,
        }
    }
}

/// What a host of a lab is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A systemd-nspawn container: up in seconds, on this machine's kernel.
    #[default]
    Container,
    /// A QEMU machine with Debian's own kernel: cgroup v2, VLANs, bonds, /dev/kvm. Emulated where KVM does not work.
    Vm,
}

/// What a host runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Os {
    /// bookworm.
    #[default]
    Debian12,
    /// trixie.
    Debian13,
}

impl Os {
    /// Debian's name for it.
    pub fn suite(self) -> &'static str {
        match self {
            Self::Debian12 => "bookworm",
            Self::Debian13 => "trixie",
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Debian12 => "Debian 12",
            Self::Debian13 => "Debian 13",
        }
    }
}

/// The user with passwordless sudo on every host of a lab.
pub const USER: &str = "ops";
/// The user whose sudo wants a password: the one in [`LabStatus::sudo_password_file`].
pub const PASSWORD_USER: &str = "admin";

/// A lab as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabStatus {
    /// Its name.
    pub name: String,
    /// What its hosts are.
    pub kind: Kind,
    /// Whether `up` came to its end. A lab that is not ready can only be taken down.
    pub ready: bool,
    /// Everything that the lab keeps.
    pub state_dir: PathBuf,
    /// Its fleet file.
    pub fleet_file: PathBuf,
    /// Where the infra cluster's kubeconfig goes; there once a cluster was made.
    pub kubeconfig: PathBuf,
    /// The private key of both users.
    pub identity_file: PathBuf,
    /// The hosts' keys.
    pub known_hosts: PathBuf,
    /// A file with the sudo password of [`PASSWORD_USER`].
    pub sudo_password_file: PathBuf,
    /// Gateway, DHCP and DNS server of the LAN.
    pub gateway: Ipv4Addr,
    /// This machine's network interface in the LAN, for a packet capture.
    pub link: String,
    /// The hosts; the bastion last.
    pub hosts: Vec<HostStatus>,
}

/// A host of a lab as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// What it runs.
    pub os: Os,
    /// Its address on the LAN (eth0).
    pub address: Ipv4Addr,
    /// Its address on the second segment (eth1).
    pub second_address: Ipv4Addr,
    /// Login name with passwordless sudo.
    pub user: String,
    /// The process that runs it, on this machine.
    pub pid: Option<u32>,
    /// Whether it runs.
    pub alive: bool,
    /// What its console printed.
    pub console: PathBuf,
}

/// The state of lab `name`, or `None` if there is no such lab.
pub fn status(name: &str) -> Option<LabStatus> {
    let lab = Lab::open(name).ok()?;
    Some(lab.status())
}
