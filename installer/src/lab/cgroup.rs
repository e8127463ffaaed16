//! Control groups of container hosts: one folder a host in every hierarchy that is mounted, whichever version.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{LabError, layout};

/// How long a group may stay busy after its last process was killed.
const EMPTY: Duration = Duration::from_secs(10);

/// Whether this machine has the unified hierarchy (cgroup v2) at /sys/fs/cgroup.
pub(super) fn is_unified() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// The groups of `lab`, or of one of its hosts, that exist.
fn groups(lab: &str, host: Option<&str>) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    hierarchies(&mounts)
        .map(|root| {
            let group = root.join(layout::cgroup(lab));
            host.map_or_else(|| group.clone(), |host| group.join(host))
        })
        .filter(|group| group.is_dir())
        .collect()
}

/// Mount points of cgroup hierarchies.
fn hierarchies(mountinfo: &str) -> impl Iterator<Item = PathBuf> {
    mountinfo.lines().filter_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let kind = kind.split(' ').next()?;
        matches!(kind, "cgroup" | "cgroup2").then(|| fields.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

/// Processes in the groups of `lab`, or of one of its hosts.
pub(super) fn processes(lab: &str, host: Option<&str>) -> BTreeSet<u32> {
    let mut pids = BTreeSet::new();
    for group in groups(lab, host) {
        walk(&group, &mut |dir| {
            let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            // 0 is a process that this namespace cannot see.
            pids.extend(text.lines().filter_map(|l| l.parse::<u32>().ok()).filter(|pid| *pid != 0));
        });
    }
    pids
}

/// Removes the groups of `lab`. Its processes must be dead.
pub(super) async fn remove(lab: &str) -> Result<(), LabError> {
    let began = Instant::now();
    loop {
        let left = groups(lab, None);
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > EMPTY {
            let left: Vec<String> = left.iter().map(|p| p.display().to_string()).collect();
            return Err(LabError::Left { lab: lab.to_owned(), what: format!("control groups {}", left.join(", ")) });
        }
        for group in left {
            // A group stays busy until the kernel has reaped its last process; the next round meets it again.
            walk(&group, &mut |dir| drop(fs::remove_dir(dir)));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Calls `each` for `dir` and every folder below it, the deepest first.
fn walk(dir: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            walk(&entry.path(), each);
        }
    }
    each(dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let mountinfo = "24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                         25 24 0:23 / /sys/fs/cgroup/pids rw,relatime shared:3 - cgroup cgroup rw,pids\n\
                         26 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found: Vec<PathBuf> = hierarchies(mountinfo).collect();
        assert_eq!(found, [Path::new("/sys/fs/cgroup/pids"), Path::new("/sys/fs/cgroup/unified")]);
    }

    #[test]
    fn the_deepest_folder_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let mut seen = Vec::new();
        walk(dir.path(), &mut |d| seen.push(d.strip_prefix(dir.path()).unwrap().to_path_buf()));
        assert_eq!(seen, [Path::new("a/b"), Path::new("a"), Path::new("")]);
    }
}
