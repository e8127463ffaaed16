//! Finds a lab's processes. Each carries the lab's name in its environment from its first instruction on, so there is no
//! moment at which one exists that nobody could find, and a process id that was given to someone else is never taken for
//! ours.

use std::collections::{BTreeMap, BTreeSet};
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
    // With the time each began: the id of one that has gone may be anybody's a moment later.
    let mut dying: BTreeMap<u32, u64> = BTreeMap::new();
    loop {
        for pid in find() {
            if let Some(start) = started(pid) {
                dying.entry(pid).or_insert(start);
            }
        }
        dying.retain(|pid, start| started(*pid) == Some(*start));
        if dying.is_empty() {
            return Ok(());
        }
        if began.elapsed() > GONE {
            let left: Vec<String> = dying.keys().map(u32::to_string).collect();
            return Err(LabError::Left { lab: lab.to_owned(), what: format!("processes {}", left.join(", ")) });
        }
        for pid in dying.keys() {
            if let Ok(pid) = i32::try_from(*pid) {
                // It may have ended by itself since it was found.
                _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// When a process began, in clock ticks since this machine's boot; `None` for one that holds no files and mounts any more,
/// because it is gone or ended and was not waited for.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything. After it: the state, which is field 3, ... and the start, which is field 22.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
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

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_id() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let began = started(child.id()).unwrap();
        assert!(began >= started(std::process::id()).unwrap());
        assert_eq!(started(child.id()), Some(began));
        child.kill().unwrap();
        while started(child.id()).is_some() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
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
