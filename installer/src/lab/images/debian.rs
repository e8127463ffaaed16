//! Files of Debian packages, taken without installing them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::Entry;
use crate::artifacts::ArtifactError;
use crate::lab::components::{ComponentError, output};

/// Names of the .deb files that a folder was made from.
const LIST: &str = "packages.txt";

/// A package with all that it depends on, unpacked.
pub(super) struct Unpacked {
    root: PathBuf,
    /// Names of the .deb files, with their versions.
    pub(super) packages: String,
}

impl Unpacked {
    /// From the cache, else fetched with this machine's apt. Once fetched it stays as it is until the cache is cleared.
    pub(super) async fn package(name: &str, cache: &Path, scratch: &Path) -> Result<Self, ComponentError> {
        let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or("unknown");
        let target = cache.join(format!("debian-{codename}-{name}"));
        let list = target.join(LIST);
        if !list.exists() {
            fetch(name, scratch).await?;
            std::fs::rename(scratch.join("out"), &target).map_err(ArtifactError::io("create", &target))?;
        }
        let packages = std::fs::read_to_string(&list).map_err(ArtifactError::io("read", &list))?;
        Ok(Self { root: target.join("root"), packages })
    }

    /// Its files whose path `keep` accepts, for an image.
    pub(super) fn entries(&self, keep: impl Fn(&str) -> bool) -> io::Result<BTreeMap<String, Entry>> {
        let mut entries = BTreeMap::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for item in std::fs::read_dir(folder)? {
                let item = item?;
                let (path, kind) = (item.path(), item.file_type()?);
                let name = path.strip_prefix(&self.root).unwrap_or(&path).to_string_lossy().into_owned();
                if kind.is_dir() {
                    folders.push(path);
                } else if keep(&name) {
                    let entry = if kind.is_symlink() {
                        Entry::Link(std::fs::read_link(&path)?.to_string_lossy().into_owned())
                    } else {
                        let mode = item.metadata()?.permissions().mode() & 0o755;
                        Entry::File(path, mode)
                    };
                    entries.insert(name, entry);
                }
            }
        }
        // Since Debian 13 packages have no files in /lib any more; a machine's own links lead there, an image has none.
        for dir in ["lib", "lib64"] {
            let (old, new) = (format!("{dir}/"), format!("usr/{dir}/"));
            if entries.keys().any(|path| path.starts_with(&new)) && !entries.keys().any(|path| path.starts_with(&old)) {
                entries.insert(dir.to_owned(), Entry::Link(format!("usr/{dir}")));
            }
        }
        Ok(entries)
    }
}

async fn fetch(name: &str, scratch: &Path) -> Result<(), ComponentError> {
    let (out, debs) = (scratch.join("out"), scratch.join("debs"));
    for dir in [&out, &debs] {
        std::fs::create_dir_all(dir).map_err(ArtifactError::io("create", dir))?;
    }
    let mut apt = Command::new("apt-cache");
    apt.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"]);
    apt.args(["--no-breaks", "--no-replaces", "--no-enhances", name]).env("LC_ALL", "C");
    let tree = output(&mut apt).await.map_err(ComponentError::apt)?;
    let packages = closure(&tree);
    output(Command::new("apt-get").arg("download").args(&packages).current_dir(&debs).env("LC_ALL", "C"))
        .await
        .map_err(ComponentError::apt)?;
    let mut names = Vec::new();
    for item in std::fs::read_dir(&debs).map_err(ArtifactError::io("read", &debs))? {
        let path = item.map_err(ArtifactError::io("read", &debs))?.path();
        output(Command::new("dpkg-deb").arg("--extract").arg(&path).arg(out.join("root"))).await?;
        names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    let list = out.join(LIST);
    std::fs::write(&list, names.join("\n")).map_err(ArtifactError::io("write", &list))?;
    Ok(())
}

/// Names at the left margin of `apt-cache depends --recurse`; what is indented says why, `<x>` is virtual.
fn closure(tree: &str) -> Vec<&str> {
    tree.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_alphanumeric())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_real_packages_only() {
        let tree = "nftables\n  Depends: libnftables1\n |Depends: libedit2\n  Depends: <libc-any>\nlibc6\n<libc-any>\n    libc6\n";
        assert_eq!(closure(tree), ["nftables", "libc6"]);
    }
}
