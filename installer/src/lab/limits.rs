//! Limits of this machine that all container hosts share, since they are all root here. Raised for the first lab, put back
//! with the last one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::LabError;
use super::dirs::Dirs;
use super::disk;

/// What a lab needs: three hosts of a cluster hold some 200 inotify instances, and the kernel's default is 128 a user.
const NEEDED: &[(&str, u64)] = &[("fs/inotify/max_user_instances", 8192), ("fs/inotify/max_user_watches", 524_288)];

/// The values from before the first lab.
fn file(dirs: &Dirs) -> PathBuf {
    dirs.labs.join(".limits.json")
}

/// Raises what is too low.
pub(super) fn raise(dirs: &Dirs) -> Result<(), LabError> {
    let mut before = saved(dirs)?;
    let low: Vec<(&str, u64)> =
        NEEDED.iter().copied().filter(|(key, needed)| value(key).is_some_and(|v| v < *needed)).collect();
    for (key, _) in &low {
        if let Some(v) = value(key) {
            before.entry((*key).to_owned()).or_insert(v);
        }
    }
    if low.is_empty() {
        return Ok(());
    }
    // First the note, then the change.
    let text = serde_json::to_string(&before).map_err(std::io::Error::from).map_err(LabError::io("note limits"))?;
    disk::write(&file(dirs), &text)?;
    low.iter().try_for_each(|(key, needed)| set(key, *needed))
}

/// Puts the old values back, unless another lab is still there.
pub(super) fn restore(dirs: &Dirs) -> Result<(), LabError> {
    let labs = fs::read_dir(&dirs.labs).into_iter().flatten().flatten();
    if labs.into_iter().any(|entry| entry.file_type().is_ok_and(|t| t.is_dir())) {
        return Ok(());
    }
    for (key, old) in saved(dirs)? {
        // Someone else's later change is not ours to take back.
        if NEEDED.iter().any(|(k, needed)| *k == key && value(k) == Some(*needed)) {
            set(&key, old)?;
        }
    }
    disk::remove_file(&file(dirs))
}

fn saved(dirs: &Dirs) -> Result<BTreeMap<String, u64>, LabError> {
    let path = file(dirs);
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = disk::read(&path)?;
    serde_json::from_str(&text).map_err(std::io::Error::from).map_err(LabError::io(format!("read {}", path.display())))
}

fn path(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key)
}

fn value(key: &str) -> Option<u64> {
    fs::read_to_string(path(key)).ok()?.trim().parse().ok()
}

fn set(key: &str, value: u64) -> Result<(), LabError> {
    let path = path(key);
    fs::write(&path, value.to_string()).map_err(LabError::io(format!("write {}", path.display())))
}
