//! The real `hostspan`, run as a user runs it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The binary, built first: cargo builds it only for tests of its own package. With every target of the whole workspace,
/// as `tests/run` does: another selection has other features, and would build half of the dependencies again.
pub fn path() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        // What cargo tells a test about its package would reach ring's build script, which then builds itself anew.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
                cargo.env_remove(name);
            }
        }
        let built = cargo
            .args(["build", "--quiet", "--locked", "--workspace", "--all-targets"])
            .current_dir(root())
            .status()
            .unwrap();
        assert!(built.success(), "the binary does not build");
        // target/debug/deps/TEST-HASH -> target/debug/hostspan
        std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("hostspan")
    })
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; a signal panics.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A command with a clean environment in `dir`: no colour variables, no terminal, no home directory but `dir`.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(path());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

/// Runs `hostspan ARGS` in `dir`.
pub fn run<A: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = A>) -> Ended {
    ended(command(dir).args(args).output().unwrap())
}

/// What a finished process left.
pub fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code().expect("ended by a signal"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
