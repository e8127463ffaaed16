//! Finds a lab's processes. Each carries the lab's name in its environment from its first instruction on, so there is no
//! moment at which one exists that nobody could find, and a process id that was given to someone else is never taken for
//! ours.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::tool::{LAB_ENV, ROLE_ENV};
use super::{LabError, cgroup};

/// How long killed processes may take to go: one in the middle of a large write takes seconds.
const GONE: Duration = Duration::from_secs(30);

/// Processes that were started for `lab`, those inside containers excepted.
pub(super) fn of_lab(lab: &str) -> BTreeSet<u32> {
    all().filter(|(_, env)| has(env, LAB_ENV, lab)).map(|(pid, _)| pid).collect()
}

/// Whether process `pid` was started for `lab` as `role`, and runs.
pub(super) fn is(pid: u32, lab: &str, role: &str) -> bool {
    environ(pid).is_some_and(|env| has(&env, LAB_ENV, lab) && has(&env, ROLE_ENV, role))
}

/// Kills every process that `find` names until it names none and those are gone. Fresh ones that a dying one had just
/// started are met in the next round.
pub(super) async fn kill_all(lab: &str, find: impl Fn() -> BTreeSet<u32>) -> Result<(), LabError> {
    let began = Instant::now();
    let mut dying = BTreeSet::new();
    loop {
        dying.extend(find());
        dying.retain(|pid| is_there(*pid));
        let pids = &dying;
        if pids.is_empty() {
            return Ok(());
        }
        if began.elapsed() > GONE {
            let left: Vec<String> = pids.iter().map(u32::to_string).collect();
            return Err(LabError::Left { lab: lab.to_owned(), what: format!("processes {}", left.join(", ")) });
        }
        for pid in pids {
            if let Ok(pid) = i32::try_from(*pid) {
                // It may have ended by itself since it was found.
                _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Whether a process still holds files and mounts: one that ended but was not waited for holds none.
fn is_there(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X'])))
}

/// Every process of a host: what runs it, and what runs in it.
pub(super) fn of_host(lab: &str, host: &str) -> BTreeSet<u32> {
    let mut pids: BTreeSet<u32> =
        all().filter(|(_, env)| has(env, LAB_ENV, lab) && has(env, ROLE_ENV, host)).map(|(pid, _)| pid).collect();
    pids.extend(cgroup::processes(lab, Some(host)));
    pids
}

fn all() -> impl Iterator<Item = (u32, Vec<u8>)> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, environ(pid)?)))
}

/// A process that ended but was not waited for yet has an empty environment, and so counts as gone.
fn environ(pid: u32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/environ")).ok()
}

fn has(environ: &[u8], variable: &str, value: &str) -> bool {
    environ.split(|b| *b == 0).any(|entry| {
        entry.strip_prefix(variable.as_bytes()).and_then(|e| e.strip_prefix(b"=")) == Some(value.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_matched_whole() {
        let env = b"PATH=/bin\0HOSTSPAN_LAB=demo\0HOSTSPAN_LAB_ROLE=kvm-01\0";
        assert!(has(env, LAB_ENV, "demo"));
        assert!(!has(env, LAB_ENV, "dem"));
        assert!(!has(env, LAB_ENV, "demo2"));
        assert!(has(env, ROLE_ENV, "kvm-01"));
    }

    #[tokio::test]
    async fn a_labs_processes_are_found_and_killed_and_no_others() {
        let start = |lab: &str| std::process::Command::new("sleep").arg("60").env(LAB_ENV, lab).spawn().unwrap();
        let (mut ours, mut other) = (start("unit-ours"), start("unit-other"));
        assert_eq!(of_lab("unit-ours"), BTreeSet::from([ours.id()]));
        kill_all("unit-ours", || of_lab("unit-ours")).await.unwrap();
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
