//! A secret that must show nowhere: a poller over every process of this machine, those of container hosts included.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Looks for a text in the arguments and environments of all processes until it is asked what it saw.
#[derive(Debug)]
pub struct Canary {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What a poller saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many times it went through all processes.
    pub rounds: usize,
    /// `cmdline of 4711 (sudo)`: where the text was.
    pub places: BTreeSet<String>,
}

impl Canary {
    /// Starts looking.
    pub fn watch(secret: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, secret) = (Arc::clone(&stop), secret.as_bytes().to_vec());
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !told.load(Ordering::Relaxed) {
                seen.rounds += 1;
                round(&secret, &mut seen.places);
            }
            seen
        });
        Self { stop, thread }
    }

    /// Stops looking and tells.
    pub fn seen(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn round(secret: &[u8], places: &mut BTreeSet<String>) {
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        for file in ["cmdline", "environ"] {
            // Processes go while they are looked at.
            let Ok(bytes) = fs::read(entry.path().join(file)) else { continue };
            if bytes.windows(secret.len()).any(|window| window == secret) {
                let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                places.insert(format!("{file} of {name} ({})", comm.trim()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn arguments_and_environments_are_seen() {
        // Put together here, so that the marks are not among this test's own arguments.
        let (argument, variable) = ("canary-argument".repeat(2), "canary-variable".repeat(2));
        for (mark, place) in [(&argument, "cmdline"), (&variable, "environ")] {
            let canary = Canary::watch(mark);
            let shown =
                Command::new("sh").args(["-c", "sleep 0.5; :", &argument]).env("MARK", &variable).status().unwrap();
            let seen = canary.seen();
            assert!(shown.success() && seen.places.iter().any(|seen| seen.starts_with(place)), "{seen:?}");
        }
    }
}
