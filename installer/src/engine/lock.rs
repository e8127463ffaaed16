//! Who works on a host. The lock is a file on the host that names its run; a run on this same machine whose process is
//! gone is known to be dead, and need not be waited for.

use std::fs;

/// What names this run on the hosts.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// Unique, and tells this machine whether the process still lives: `random.boot.pid-namespace.pid.start-time`.
    pub token: String,
    /// For people.
    pub owner: String,
}

impl Identity {
    /// This process's, with a fresh random part.
    pub fn new() -> Self {
        let random: u64 = rand::random();
        let pid = std::process::id();
        let place = Place::here();
        let start = start_time(pid).unwrap_or_default();
        let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
        let machine = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        let machine = machine.unwrap_or_else(|_| "unknown".into());
        Self {
            token: format!("{random:016x}.{}.{}.{pid}.{start}", place.boot, place.namespace),
            owner: format!("{user}@{machine} (process {pid})").replace(char::is_control, " "),
        }
    }
}

/// Whether the run of this token was one of this machine, and its process is gone.
pub(super) fn is_dead(token: &str) -> bool {
    let here = Place::here();
    let fields: Vec<&str> = token.split('.').collect();
    let [_, boot, namespace, pid, start] = fields[..] else { return false };
    let Ok(pid) = pid.parse() else { return false };
    !here.boot.is_empty()
        && here.boot == boot
        && here.namespace == namespace
        && start_time(pid).as_deref() != Some(start)
}

/// Where process ids mean what they mean here. Empty on systems without /proc, where nothing is ever known to be dead.
struct Place {
    boot: String,
    namespace: String,
}

impl Place {
    fn here() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let digits = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        Self { boot: boot.trim().into(), namespace: digits }
    }
}

/// When a process started, in the kernel's ticks: a pid alone may be somebody else's by now.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name, which may hold blanks and brackets.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_dead_when_its_process_is_gone_and_never_when_it_was_another_machines() {
        let me = Identity::new();
        assert!(!is_dead(&me.token));
        let mut gone: Vec<&str> = me.token.split('.').collect();
        gone[4] = "1";
        assert!(is_dead(&gone.join(".")));
        gone[1] = "another-boot";
        assert!(!is_dead(&gone.join(".")));
        assert!(!is_dead("nonsense"));
    }
}
