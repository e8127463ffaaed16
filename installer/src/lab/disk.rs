//! Files of the lab. Errors name the path.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use futures::future::join_all;

use super::LabError;

/// Makes a folder and its parents.
pub(super) fn create_dir(path: &Path) -> Result<(), LabError> {
    fs::create_dir_all(path).map_err(LabError::io(format!("make the folder {}", path.display())))
}

/// Writes a file of this machine (0644). Written by rename: a killed `up` leaves no half file behind.
pub(super) fn write(path: &Path, content: &str) -> Result<(), LabError> {
    write_mode(path, content, 0o644)
}

/// Likewise, readable by its owner only.
pub(super) fn write_private(path: &Path, content: &str) -> Result<(), LabError> {
    write_mode(path, content, 0o600)
}

fn write_mode(path: &Path, content: &str, mode: u32) -> Result<(), LabError> {
    let half = path.with_added_extension("new");
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(&half)?;
        file.write_all(content.as_bytes())?;
        fs::rename(&half, path)
    };
    write().map_err(LabError::io(format!("write {}", path.display())))
}

/// Reads a text file.
pub(super) fn read(path: &Path) -> Result<String, LabError> {
    fs::read_to_string(path).map_err(LabError::io(format!("read {}", path.display())))
}

/// Removes a file that may not be there.
pub(super) fn remove_file(path: &Path) -> Result<(), LabError> {
    absent_is_fine(fs::remove_file(path)).map_err(LabError::io(format!("remove {}", path.display())))
}

/// Removes a folder that may not be there, with all that is in it.
pub(super) fn remove_dir(path: &Path) -> Result<(), LabError> {
    absent_is_fine(fs::remove_dir_all(path)).map_err(LabError::io(format!("remove {}", path.display())))
}

/// Removes folders at the same time: thousands of small files take seconds on a file system that discards blocks at once.
pub(super) async fn remove_dirs(paths: Vec<PathBuf>) -> Result<(), LabError> {
    let removals = paths.into_iter().map(|path| tokio::task::spawn_blocking(move || remove_dir(&path)));
    for removed in join_all(removals).await {
        removed.map_err(std::io::Error::other).map_err(LabError::io("remove folders"))??;
    }
    Ok(())
}

/// Removes a file or a folder that may not be there.
pub(super) fn remove(path: &Path) -> Result<(), LabError> {
    if path.is_dir() { remove_dir(path) } else { remove_file(path) }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// An overlay's upper folder, over a lower one.
#[derive(Debug)]
pub(super) struct Upper<'a> {
    /// What the host changes.
    pub(super) upper: &'a Path,
    /// What it stands on.
    pub(super) lower: &'a Path,
}

impl Upper<'_> {
    /// Writes `file` (relative to the root) for user `uid`. Folders above it keep the owner and mode that they have below;
    /// new ones are `uid`'s own.
    pub(super) fn put(&self, file: &str, content: &str, mode: u32, uid: u32) -> Result<(), LabError> {
        let target = self.upper.join(file);
        let write = || -> io::Result<()> {
            self.folders(Path::new(file).parent().unwrap_or(Path::new("")), uid)?;
            fs::write(&target, content)?;
            fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
            std::os::unix::fs::chown(&target, Some(uid), Some(uid))
        };
        write().map_err(LabError::io(format!("write {}", target.display())))
    }

    fn folders(&self, relative: &Path, uid: u32) -> io::Result<()> {
        let target = self.upper.join(relative);
        if target.is_dir() {
            return Ok(());
        }
        if let Some(parent) = relative.parent() {
            self.folders(parent, uid)?;
        }
        fs::create_dir(&target)?;
        let (mode, uid, gid) = match fs::metadata(self.lower.join(relative)) {
            Ok(below) => (below.mode() & 0o7777, below.uid(), below.gid()),
            Err(_) => (if uid == 0 { 0o755 } else { 0o700 }, uid, uid),
        };
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
        std::os::unix::fs::chown(&target, Some(uid), Some(gid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_keep_the_mode_of_the_tree_below() {
        let dir = tempfile::tempdir().unwrap();
        let (upper, lower) = (dir.path().join("u"), dir.path().join("l"));
        fs::create_dir_all(lower.join("home/x")).unwrap();
        fs::set_permissions(lower.join("home/x"), fs::Permissions::from_mode(0o750)).unwrap();
        fs::create_dir(&upper).unwrap();
        let uid = nix::unistd::getuid().as_raw();
        Upper { upper: &upper, lower: &lower }.put("home/x/.ssh/keys", "k", 0o600, uid).unwrap();
        let mode = |p: &str| fs::metadata(upper.join(p)).unwrap().mode() & 0o7777;
        assert_eq!(mode("home/x"), 0o750);
        assert_eq!(mode("home/x/.ssh/keys"), 0o600);
    }

    #[test]
    fn removing_what_is_not_there_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        remove_file(&dir.path().join("a")).unwrap();
        remove_dir(&dir.path().join("a")).unwrap();
        fs::write(dir.path().join("b"), "").unwrap();
        remove(&dir.path().join("b")).unwrap();
        assert!(!dir.path().join("b").exists());
    }
}
