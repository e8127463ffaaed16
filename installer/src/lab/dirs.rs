//! Where a lab keeps its things.

use std::path::{Path, PathBuf};

use super::LabError;

/// Folders of all labs.
#[derive(Debug, Clone)]
pub(super) struct Dirs {
    /// `$XDG_STATE_HOME/hostspan/lab`: one folder a lab.
    pub(super) labs: PathBuf,
    /// `$XDG_CACHE_HOME/hostspan/roots`: Debian trees that hosts stand on, by their content's key.
    pub(super) roots: PathBuf,
}

impl Dirs {
    /// From the environment, as the XDG base directory specification has it.
    pub(super) fn from_env() -> Result<Self, LabError> {
        let home = std::env::home_dir().filter(|h| h.is_absolute());
        let base = |variable: &str, below_home: &str| {
            std::env::var_os(variable)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
                .or_else(|| home.as_ref().map(|h| h.join(below_home)))
                .ok_or_else(|| LabError::Io {
                    what: format!("find the home directory (set HOME or {variable})"),
                    source: std::io::ErrorKind::NotFound.into(),
                })
        };
        Ok(Self {
            labs: base("XDG_STATE_HOME", ".local/state")?.join("hostspan/lab"),
            roots: base("XDG_CACHE_HOME", ".cache")?.join("hostspan/roots"),
        })
    }

    /// The folder of one lab.
    pub(super) fn lab(&self, name: &str) -> LabDir {
        LabDir(self.labs.join(name))
    }
}

/// The folder of one lab.
#[derive(Debug, Clone)]
pub(super) struct LabDir(PathBuf);

impl LabDir {
    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What was asked for and how far it got.
    pub(super) fn record(&self) -> PathBuf {
        self.0.join("lab.json")
    }

    /// The fleet file.
    pub(super) fn fleet_file(&self) -> PathBuf {
        self.0.join("fleet.yaml")
    }

    /// The infra cluster's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    /// The private key of both users.
    pub(super) fn identity(&self) -> PathBuf {
        self.0.join("id_ed25519")
    }

    /// The hosts' keys.
    pub(super) fn known_hosts(&self) -> PathBuf {
        self.0.join("known_hosts")
    }

    /// The sudo password of the user that needs one.
    pub(super) fn sudo_password(&self) -> PathBuf {
        self.0.join("sudo-password")
    }

    /// The folders of its hosts, those that are there.
    pub(super) fn hosts(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.0.join("hosts"));
        entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// The folder of one host.
    pub(super) fn host(&self, host: &str) -> HostDir {
        HostDir(self.0.join("hosts").join(host))
    }
}

/// The folder of one host.
#[derive(Debug, Clone)]
pub(super) struct HostDir(PathBuf);

impl HostDir {
    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What the host changed of the Debian tree that it stands on.
    pub(super) fn upper(&self) -> PathBuf {
        self.0.join("upper")
    }

    /// overlayfs' own scratch folder.
    pub(super) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// A container's /var.
    pub(super) fn var(&self) -> PathBuf {
        self.0.join("var")
    }

    /// A virtual machine's disk.
    pub(super) fn disk(&self) -> PathBuf {
        self.0.join("disk.img")
    }

    /// Where the host's root is mounted, in its own mount namespace only.
    pub(super) fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// The script that boots it.
    pub(super) fn boot(&self) -> PathBuf {
        self.0.join("boot.sh")
    }

    /// The process that runs it.
    pub(super) fn pid(&self) -> PathBuf {
        self.0.join("pid")
    }

    /// What its console printed.
    pub(super) fn console(&self) -> PathBuf {
        self.0.join("console.log")
    }

    /// A snapshot.
    pub(super) fn snapshot(&self, label: &str) -> PathBuf {
        self.0.join("snapshots").join(label)
    }
}
