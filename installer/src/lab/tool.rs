//! Runs this machine's programs. All of them carry the lab's name in their environment, see `processes`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::LabError;

/// The variable with the lab's name.
pub(super) const LAB_ENV: &str = "HOSTSPAN_LAB";
/// The variable with what a process is: a host's name, `dnsmasq`, or empty for a short-lived tool.
pub(super) const ROLE_ENV: &str = "HOSTSPAN_LAB_ROLE";

/// How much of a program's errors goes into ours.
const STDERR_KEEP: usize = 1000;

/// Starts programs for one lab.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    lab: String,
}

impl Tools {
    /// For lab `lab`.
    pub(super) fn new(lab: &str) -> Self {
        Self { lab: lab.to_owned() }
    }

    /// Runs a program to its end and returns what it printed.
    pub(super) async fn run<S: AsRef<OsStr>>(&self, program: &str, args: &[S]) -> Result<String, LabError> {
        self.run_with(program, args, "").await
    }

    /// Likewise, with `stdin`.
    pub(super) async fn run_with<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: &[S],
        stdin: &str,
    ) -> Result<String, LabError> {
        let mut child = self
            .command(program, args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(LabError::io(format!("run {program}")))?;
        if let Some(mut pipe) = child.stdin.take() {
            // A program that ends without reading is judged by its exit status, not by the broken pipe.
            drop(pipe.write_all(stdin.as_bytes()).await);
        }
        let output = child.wait_with_output().await.map_err(LabError::io(format!("wait for {program}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(LabError::Tool {
            command: shown(program, args),
            status: output.status.to_string(),
            stderr: tail(&String::from_utf8_lossy(&output.stderr)),
        })
    }

    /// Runs a long program and hands over each line that it prints, of both streams.
    pub(super) async fn run_lines<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: &[S],
        mut on_line: impl FnMut(&str),
    ) -> Result<(), LabError> {
        let (reader, writer) = std::io::pipe().map_err(LabError::io("make a pipe"))?;
        let mut command = self.command(program, args);
        command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(LabError::io("copy a pipe"))?).stderr(writer);
        let mut child = command.spawn().map_err(LabError::io(format!("run {program}")))?;
        drop(command);
        let reader = tokio::net::unix::pipe::Receiver::from_owned_fd(reader.into())
            .map_err(LabError::io(format!("read from {program}")))?;
        let mut lines = BufReader::new(reader).lines();
        let mut last = String::new();
        while let Some(line) = lines.next_line().await.map_err(LabError::io(format!("read from {program}")))? {
            on_line(&line);
            last = tail(&format!("{last}\n{line}"));
        }
        let status = child.wait().await.map_err(LabError::io(format!("wait for {program}")))?;
        if status.success() {
            return Ok(());
        }
        Err(LabError::Tool { command: shown(program, args), status: status.to_string(), stderr: last })
    }

    /// Starts a program that outlives this process, in a session of its own so that neither Ctrl-C nor a closing terminal
    /// reaches it, and returns its process id.
    pub(super) fn detach<S: AsRef<OsStr>>(
        &self,
        role: &str,
        program: &str,
        args: &[S],
        log: &Path,
    ) -> Result<u32, LabError> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(LabError::io(format!("write {}", log.display())))?;
        let copy = log.try_clone().map_err(LabError::io("copy a file handle"))?;
        let mut command = Command::new("setsid");
        command.arg(program).args(args).env(LAB_ENV, &self.lab).env(ROLE_ENV, role);
        command.env("PATH", search_path()).current_dir("/");
        command.stdin(Stdio::null()).stdout(log).stderr(copy);
        let child = command.spawn().map_err(LabError::io(format!("run {program}")))?;
        child.id().ok_or_else(|| LabError::Io {
            what: format!("start {program}"),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    fn command<S: AsRef<OsStr>>(&self, program: &str, args: &[S]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env(LAB_ENV, &self.lab)
            .env(ROLE_ENV, "")
            .env("LC_ALL", "C")
            .env("PATH", search_path())
            .kill_on_drop(true);
        command
    }
}

/// Where programs are looked for. /usr/sbin is not in every root shell's PATH (`su` without a dash leaves the user's).
pub(super) fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    path.push(":/usr/sbin:/sbin");
    path
}

fn shown<S: AsRef<OsStr>>(program: &str, args: &[S]) -> String {
    let mut text = program.to_owned();
    for arg in args {
        text.push(' ');
        text.push_str(&arg.as_ref().to_string_lossy());
    }
    if let Some((end, _)) = text.char_indices().nth(200) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// The end of `text`, from a line's beginning where there is one.
fn tail(text: &str) -> String {
    let text = text.trim();
    let start = text.len().saturating_sub(STDERR_KEEP);
    let start = (start..text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    let cut = &text[start..];
    match cut.find('\n') {
        Some(newline) if start > 0 => cut[newline + 1..].to_owned(),
        _ => cut.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_names_the_command_and_what_it_said() {
        let err = Tools::new("t").run("sh", &["-c", "echo words >&2; exit 3"]).await.unwrap_err();
        assert_eq!(err.to_string(), "sh -c echo words >&2; exit 3 failed (exit status: 3): words");
    }

    #[tokio::test]
    async fn lines_of_both_streams_are_seen_and_the_last_explain_a_failure() {
        let mut seen = Vec::new();
        let err = Tools::new("t")
            .run_lines("sh", &["-c", "echo one; echo two >&2; exit 1"], |l| seen.push(l.to_owned()))
            .await
            .unwrap_err();
        assert_eq!(seen, ["one", "two"]);
        assert!(err.to_string().ends_with("one\ntwo"), "{err}");
    }

    #[test]
    fn only_the_end_of_a_long_text_is_kept() {
        let text = "ä".repeat(2000) + "\nlast";
        assert_eq!(tail(&text), "last");
        assert_eq!(tail("short"), "short");
    }
}
