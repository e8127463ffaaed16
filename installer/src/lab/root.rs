//! Debian trees that hosts stand on: built once by mmdebstrap, kept by their content's key, never changed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};

use super::dirs::Dirs;
use super::tool::Tools;
use super::{Kind, LabError, Options, Os, disk};
use crate::progress::{Event, Events};

/// What a plain Debian server has, plus what hostspan's own preflight asks an admin to install: the hosts have no route to
/// a mirror. Nothing that hostspan brings itself is here.
const PACKAGES: &[&str] = &[
    "ca-certificates",
    "conntrack",
    "curl",
    "dbus",
    "ethtool",
    "gpg",
    "iproute2",
    "iptables",
    "iputils-ping",
    "kmod",
    "less",
    "libpam-systemd",
    "nano",
    "netbase",
    "nftables",
    "openssh-server",
    "procps",
    "python3",
    "socat",
    "sudo",
    "systemd",
    "systemd-resolved",
    "systemd-sysv",
    "systemd-timesyncd",
    "udev",
];
/// Of virtual machines only: a kernel, and how to make its initrd.
const VM_PACKAGES: &[&str] = &["initramfs-tools", "linux-image-cloud-amd64", "zstd"];
/// Customises the tree; its first argument.
const HOOK: &str = include_str!("files/customise.sh");
/// Makes a container's control groups and sysctls writable.
const WRITABLE: &str = include_str!("files/writable.sh");

/// A Debian tree to stand on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    os: Os,
    packages: Vec<String>,
}

impl Root {
    /// The tree of a lab's hosts with `os`.
    pub(super) fn of(options: &Options, os: Os) -> Self {
        let own = match options.kind {
            Kind::Container => &[],
            Kind::Vm => VM_PACKAGES,
        };
        let mut packages: Vec<String> = PACKAGES.iter().chain(own).map(|&p| p.to_owned()).collect();
        packages.extend(options.packages.iter().cloned());
        packages.sort();
        packages.dedup();
        Self { os, packages }
    }

    /// Its folder in the cache, named after all that goes into it.
    pub(super) fn path(&self, dirs: &Dirs) -> PathBuf {
        let mut hash = Sha256::new();
        for part in [self.os.suite(), HOOK, WRITABLE].into_iter().chain(self.packages.iter().map(String::as_str)) {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let key: [u8; 32] = hash.finalize().into();
        let key = u64::from_be_bytes([key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]]);
        dirs.roots.join(format!("{}-{key:016x}", self.os.suite()))
    }

    /// Builds it unless it is there. About a minute, from Debian's mirror.
    pub(super) async fn ensure(&self, tools: &Tools, dirs: &Dirs, events: &Events) -> Result<PathBuf, LabError> {
        let path = self.path(dirs);
        if path.exists() {
            return Ok(path);
        }
        disk::create_dir(&dirs.roots)?;
        let lock = wait_for_lock(path.with_added_extension("lock")).await?;
        if !path.exists() {
            self.build(tools, &path, events).await?;
        }
        drop(lock);
        Ok(path)
    }

    async fn build(&self, tools: &Tools, path: &Path, events: &Events) -> Result<(), LabError> {
        events.send(Event::Stage {
            name: "lab-root".into(),
            title: format!("Building a {} tree, once (about a minute)", self.os.title()),
            done: None,
            total: None,
        });
        // What an interrupted build left; the lock says that nobody works on it.
        let half = path.with_added_extension("building");
        disk::remove_dir(&half)?;
        let scripts = tempfile::tempdir().map_err(LabError::io("make a temporary folder"))?;
        let hook = scripts.path().join("customise.sh");
        disk::write(&hook, HOOK)?;
        disk::write(&scripts.path().join("writable.sh"), WRITABLE)?;
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755))
            .map_err(LabError::io("make the hook a program"))?;
        let args = [
            // Killed, it would leave its mounts behind; in a namespace of their own they go with it.
            "--mount".to_owned(),
            "--propagation=slave".into(),
            "mmdebstrap".into(),
            "--mode=root".into(),
            "--variant=minbase".into(),
            format!("--include={}", self.packages.join(",")),
            r#"--aptopt=Acquire::Languages "none""#.into(),
            "--dpkgopt=path-exclude=/usr/share/doc/*".into(),
            "--dpkgopt=path-exclude=/usr/share/man/*".into(),
            format!("--customize-hook={}", hook.display()),
            self.os.suite().into(),
            half.display().to_string(),
        ];
        let on_line = |line: &str| {
            events.send(Event::StepOutput { host: "local".into(), step: "lab-root".into(), line: line.to_owned() });
        };
        tools.run_lines("unshare", &args, on_line).await?;
        fs::rename(&half, path).map_err(LabError::io(format!("rename {}", half.display())))
    }
}

/// Removes what killed builds left, unless somebody is building it right now.
pub(super) fn remove_half_built(dirs: &Dirs) -> Result<(), LabError> {
    for entry in fs::read_dir(&dirs.roots).into_iter().flatten().flatten() {
        let half = entry.path();
        if half.extension().is_none_or(|e| e != "building") {
            continue;
        }
        let lock = half.with_extension("lock");
        let file = fs::File::create(&lock).map_err(LabError::io(format!("lock {}", lock.display())))?;
        if let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            disk::remove_dir(&half)?;
        }
    }
    Ok(())
}

/// Two labs that need the same tree build it once: the second waits.
async fn wait_for_lock(path: PathBuf) -> Result<Flock<fs::File>, LabError> {
    let what = format!("lock {}", path.display());
    let locked = tokio::task::spawn_blocking(move || {
        let file = fs::File::create(&path)?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
    });
    locked.await.map_err(std::io::Error::other).and_then(|r| r).map_err(LabError::io(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_kept_apart_from_those_with_other_content() {
        let dirs = Dirs { labs: "/labs".into(), roots: "/roots".into() };
        let plain = Options::new("demo");
        let path = |options: &Options, os: Os| Root::of(options, os).path(&dirs);
        let container = path(&plain, Os::Debian12);
        assert!(container.starts_with("/roots"));
        assert_eq!(container, path(&Options::new("another"), Os::Debian12));
        assert_ne!(container, path(&plain, Os::Debian13));
        assert_ne!(container, path(&Options { kind: Kind::Vm, ..plain.clone() }, Os::Debian12));
        assert_ne!(container, path(&Options { packages: vec!["docker.io".into()], ..plain }, Os::Debian12));
    }
}
