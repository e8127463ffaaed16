//! A throwaway host for tests: the scripts run for real, as root, in a mount namespace with an overlay over this machine's
//! own root, a private /run, and stand-ins for systemd, apt and the kernel's settings. What runs there changes nothing here.

use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::ssh::{Finished, Line, OnLine, Remote, RemoteError, RemoteErrorKind, Request, Upload};

const NEVER: usize = usize::MAX;

/// The throwaway host.
pub(super) struct Sandbox {
    dir: TempDir,
    /// Keeps the mount namespace.
    keeper: std::sync::Mutex<Child>,
    shell: &'static str,
    /// Kills a script with all its processes after this many traced commands.
    kill_at: AtomicUsize,
    /// Loses the link after this many lines; the script lives on.
    cut_at: AtomicUsize,
    /// Commands that the last traced script ran.
    pub traced: AtomicUsize,
    /// Scripts run so far.
    pub runs: AtomicUsize,
}

impl Sandbox {
    /// A new one whose scripts run in `sh`; none where this machine does not let us make it.
    pub fn new() -> Option<Self> {
        Self::with_shell("sh")
    }

    pub fn with_shell(shell: &'static str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("not tested: needs root for a mount namespace");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["upper", "work", "root", "run", "proc-sys/kernel/random", "proc-sys/net/ipv4"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::set_permissions(dir.path().join("upper"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(dir.path().join("proc-swaps"), "Filename\tType\tSize\tUsed\tPriority\n").unwrap();
        let mut keeper = std::process::Command::new("unshare")
            .args(["-m", "bash", "-c", include_str!("mount.sh")])
            .env("D", dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        std::io::BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n", "the throwaway root could not be mounted");
        let sandbox = Self {
            dir,
            keeper: keeper.into(),
            shell,
            kill_at: NEVER.into(),
            cut_at: NEVER.into(),
            traced: 0.into(),
            runs: 0.into(),
        };
        sandbox.write("/proc/sys/kernel/random/boot_id", "boot-1\n", 0o444);
        sandbox.write("/proc/sys/net/ipv4/ip_forward", "0\n", 0o644);
        for (name, text) in [
            ("systemctl", include_str!("systemctl")),
            ("systemd-run", include_str!("systemd-run")),
            ("apt-get", include_str!("apt-get")),
            ("dpkg-query", include_str!("dpkg-query")),
            ("modprobe", include_str!("kernel")),
            ("swapon", include_str!("kernel")),
            ("swapoff", include_str!("kernel")),
            ("journalctl", "#!/bin/sh\necho 'last words of the unit'\n"),
        ] {
            sandbox.write(&format!("/usr/local/sbin/{name}"), text, 0o755);
        }
        for name in ["/srv", "/var/lib/fake/units", "/var/lib/fake/archive", "/var/lib/fake/installed"] {
            std::fs::create_dir_all(sandbox.path(name)).unwrap();
        }
        sandbox.write("/var/lib/fake/log", "", 0o644);
        Some(sandbox)
    }

    /// Where a path of the host is on this machine: through the keeper's namespace, so that both see the same.
    pub fn path(&self, path: &str) -> PathBuf {
        let keeper = self.keeper.lock().unwrap().id();
        PathBuf::from(format!("/proc/{keeper}/root{}/root{path}", self.dir.path().display()))
    }

    pub fn write(&self, path: &str, text: &str, mode: u32) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        let path = self.path(path);
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// A unit that the host knows.
    pub fn unit(&self, name: &str, file: &str, active: &str) {
        for (key, value) in [("load", "loaded"), ("file", file), ("active", active)] {
            self.write(&format!("/var/lib/fake/units/{name}/{key}"), &format!("{value}\n"), 0o644);
        }
    }

    /// The next script is killed after `commands`, as by `kill -9` of everything.
    pub fn kill_at(&self, commands: usize) {
        self.kill_at.store(commands, Ordering::SeqCst);
    }

    /// The next script's link is lost after `lines`.
    pub fn cut_at(&self, lines: usize) {
        self.cut_at.store(lines, Ordering::SeqCst);
    }

    /// Runs a script and gives what it printed.
    pub async fn sh(&self, script: &str) -> String {
        let request = Request { script, root: true, timeout: Duration::from_mins(1) };
        let finished = self.run(request, &mut |_| ()).await.unwrap();
        assert_eq!(finished.code, 0, "{script}: {}{}", finished.stdout, finished.stderr);
        finished.stdout
    }

    fn error(&self, kind: RemoteErrorKind) -> RemoteError {
        RemoteError { host: self.host().into(), kind, message: format!("{kind:?}"), help: None }
    }

    async fn run_script(&self, request: Request<'_>, on_line: OnLine<'_>) -> Result<Finished, RemoteError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let kill_at = self.kill_at.swap(NEVER, Ordering::SeqCst);
        let cut_at = self.cut_at.swap(NEVER, Ordering::SeqCst);
        let traced = kill_at != NEVER;
        let fifo = self.dir.path().join("trace");
        if traced && !fifo.exists() {
            nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        let keeper = self.keeper.lock().unwrap().id().to_string();
        let mut child = Command::new("nsenter")
            .args(["-m", "-t", &keeper, "bash", "-c", include_str!("enter.sh")])
            .env("D", self.dir.path())
            .env("TRACE", if traced { "1" } else { "0" })
            .env("SHELL_OF_HOST", self.shell)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let group = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        let trace = traced.then(|| tokio::task::spawn_blocking(move || follow_trace(&fifo, group, kill_at)));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(request.script.as_bytes()).await.unwrap();
        drop(stdin);
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut err = BufReader::new(child.stderr.take().unwrap()).lines();
        let (mut stdout, mut stderr, mut lines) = (String::new(), String::new(), 0);
        let (mut out_open, mut err_open) = (true, true);
        while out_open || err_open {
            tokio::select! {
                line = out.next_line(), if out_open => match line.unwrap() {
                    Some(line) => {
                        on_line(Line::Out(&line));
                        stdout.push_str(&line);
                        stdout.push('\n');
                        lines += 1;
                        if lines >= cut_at {
                            return Err(self.error(RemoteErrorKind::LinkLost));
                        }
                    }
                    None => out_open = false,
                },
                line = err.next_line(), if err_open => match line.unwrap() {
                    Some(line) => {
                        on_line(Line::Err(&line));
                        stderr.push_str(&line);
                        stderr.push('\n');
                    }
                    None => err_open = false,
                },
            }
        }
        let status = child.wait().await.unwrap();
        if let Some(trace) = trace {
            self.traced.store(trace.await.unwrap(), Ordering::SeqCst);
        }
        match status.code() {
            Some(code) => Ok(Finished { code, stdout, stderr }),
            None => Err(self.error(RemoteErrorKind::Protocol)),
        }
    }
}

/// Counts traced commands and kills the whole group at the one asked for.
fn follow_trace(fifo: &Path, group: Pid, kill_at: usize) -> usize {
    let mut count = 0;
    for line in std::io::BufReader::new(std::fs::File::open(fifo).unwrap()).split(b'\n') {
        if line.unwrap().starts_with(b"+") {
            count += 1;
            if count == kill_at {
                _ = killpg(group, Signal::SIGKILL);
            }
        }
    }
    count
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Ok(keeper) = self.keeper.get_mut() {
            drop(keeper.kill());
            drop(keeper.wait());
        }
    }
}

impl Remote for Sandbox {
    fn host(&self) -> &'static str {
        "sandbox"
    }

    fn run<'a>(&'a self, request: Request<'a>, on_line: OnLine<'a>) -> BoxFuture<'a, Result<Finished, RemoteError>> {
        Box::pin(self.run_script(request, on_line))
    }

    fn upload<'a>(
        &'a self,
        upload: Upload<'a>,
        on_bytes: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let to = self.path(upload.to);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            on_bytes(std::fs::copy(upload.local, to).unwrap());
            Ok(true)
        })
    }

    fn reconnect(&self) -> BoxFuture<'_, Result<(), RemoteError>> {
        Box::pin(async { Ok(()) })
    }
}
