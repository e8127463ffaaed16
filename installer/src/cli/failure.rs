//! Errors as the command line shows them: what failed, on which host, what to do next, and which code to exit with.

use std::fmt::Write as _;

use serde::Serialize;

use crate::exit::Exit;
use crate::progress::paint::Paint;
use crate::ssh::{RemoteError, RemoteErrorKind};

/// Why a command ended early. Always at least one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the process exits with.
    pub exit: Exit,
    /// What went wrong, one entry a host where hosts failed side by side.
    pub problems: Vec<Problem>,
}

/// One thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The host it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// One sentence.
    pub message: String,
    /// The end of an output, a source line with a mark below it: shown as it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Failure {
    /// A failure with one problem.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        let problem = Problem { host: None, message: message.into(), detail: String::new(), help: None };
        Self { exit, problems: vec![problem] }
    }

    /// Says what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        if let Some(last) = self.problems.last_mut() {
            last.help = Some(help.into());
        }
        self
    }

    /// Wrong usage of the command line that clap cannot see.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Ctrl-C.
    pub fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted")
    }

    /// For people, on standard error.
    pub fn render(&self, paint: Paint) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            let host = problem.host.as_ref().map_or(String::new(), |h| format!("{}: ", paint.bold(h)));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {host}{}", paint.red("error:"), problem.message);
            for line in problem.detail.lines() {
                let _ = writeln!(text, "  {line}");
            }
            for (i, line) in problem.help.iter().flat_map(|h| h.lines()).enumerate() {
                let head = if i == 0 { paint.cyan("help:") } else { "     ".into() };
                let _ = writeln!(text, "  {head} {line}");
            }
        }
        text
    }

    /// For programs, one line on standard error.
    pub fn json(&self) -> String {
        serde_json::json!({"type": "error", "exit": self.exit.code(), "problems": self.problems}).to_string()
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let exit = match error.kind {
            RemoteErrorKind::Unreachable
            | RemoteErrorKind::HostKey
            | RemoteErrorKind::Auth
            | RemoteErrorKind::Sudo
            | RemoteErrorKind::Protocol
            | RemoteErrorKind::LinkLost
            | RemoteErrorKind::Local => Exit::Unreachable,
            RemoteErrorKind::TimedOut | RemoteErrorKind::Upload => Exit::StepFailed,
        };
        let problem =
            Problem { host: Some(error.host), message: error.message, detail: String::new(), help: error.help };
        Self { exit, problems: vec![problem] }
    }
}

/// What nothing more precise is known about: our bug, or this machine's fault (a full disk).
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Bug, format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_host_fault_and_next_step() {
        let failure = Failure::from(RemoteError {
            host: "kvm-02".into(),
            kind: RemoteErrorKind::Unreachable,
            message: "connection refused by 192.0.2.12 port 22".into(),
            help: Some("start sshd there:\n  systemctl start ssh".into()),
        });
        assert_eq!(failure.exit, Exit::Unreachable);
        assert_eq!(
            failure.render(Paint::plain()),
            "error: kvm-02: connection refused by 192.0.2.12 port 22\n  \
               help: start sshd there:\n          systemctl start ssh\n"
        );
    }

    #[test]
    fn programs_get_one_line_with_the_exit_code() {
        let json = Failure::usage("--host names no host").help("use --host kvm-01").json();
        assert_eq!(
            json,
            "{\"type\":\"error\",\"exit\":64,\"problems\":[{\"message\":\"--host names no host\",\
             \"help\":\"use --host kvm-01\"}]}"
        );
    }
}
