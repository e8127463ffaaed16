//! The only place that names russh. Everything else sees a host through [`Remote`].
//!
//! ```text
//! fleet.yaml + ssh_config --> Target --Dialer::connect--> SshRemote: Remote
//!                                         |                  |
//!                  known_hosts, keys, agent, jump hosts      +-- exec (sudo, one script a channel)
//!                                                            +-- upload (SFTP, else a shell's `cat`)
//! ```
//!
//! Non-goals: passwords and certificates for logging in, forwarding of ports or agents, terminals, compression.

mod auth;
mod client;
mod config;
mod connect;
mod exec;
mod known_hosts;
mod pattern;
mod prompt;
mod quote;
mod session;
mod target;
#[cfg(test)]
mod tests;
mod trust;
mod upload;

use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;

pub use config::Jump;
pub use connect::Dialer;
pub use known_hosts::{KnownHosts, Place, Verdict};
pub use prompt::{NoPrompt, Prompt};
pub use quote::quote;
pub use session::SshRemote;
pub use target::{Endpoint, Options, Target};

/// A line that a remote script printed while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// From standard output, without its newline.
    Out(&'a str),
    /// From standard error, without its newline.
    Err(&'a str),
}

/// Receives the lines of a running script.
pub type OnLine<'a> = &'a mut (dyn FnMut(Line<'_>) + Send);

/// A script to run on a host.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// POSIX shell text. It is sent on standard input, whole before any of it runs, so that a link that is cut in the
    /// middle of sending runs nothing; its own standard input is empty. Never in argv: it may hold secrets.
    pub script: &'a str,
    /// Run as root (through sudo where the login is another user).
    pub root: bool,
    /// The longest that the script may take, counted from its start.
    pub timeout: Duration,
}

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The exit status.
    pub code: i32,
    /// Standard output; at most [`KEEP`] bytes from its end, longer output is only seen by `OnLine`.
    pub stdout: String,
    /// Standard error, bounded likewise.
    pub stderr: String,
}

/// Bytes of a stream that [`Finished`] keeps.
pub const KEEP: usize = 8 * 1024 * 1024;

/// A file to bring to a host.
#[derive(Debug, Clone)]
pub struct Upload<'a> {
    /// The file on this machine.
    pub local: &'a Path,
    /// Its SHA-256 in lower-case hex, verified on the host before `to` exists.
    pub sha256: &'a str,
    /// Absolute path on the host. Written by rename, owner root, mode 0600, parent directories made (0755).
    pub to: &'a str,
}

/// A host as the engine sees it. One implementation speaks SSH, another (in tests) is scripted.
pub trait Remote: Send + Sync {
    /// The host's name in the fleet file.
    fn host(&self) -> &str;

    /// Runs a script; a non-zero exit status is not an error here.
    ///
    /// # Errors
    /// [`RemoteError`] when the script could not be started or its end was not seen.
    fn run<'a>(&'a self, request: Request<'a>, on_line: OnLine<'a>) -> BoxFuture<'a, Result<Finished, RemoteError>>;

    /// Uploads a file. Skipped, with `false`, when `to` is there already with that digest.
    /// `on_bytes` is told the bytes sent so far.
    ///
    /// # Errors
    /// [`RemoteError`] when the file could not be sent or its digest on the host differs.
    fn upload<'a>(
        &'a self,
        upload: Upload<'a>,
        on_bytes: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<bool, RemoteError>>;

    /// Opens a new connection for the next call, the old one being of no more use (a reboot, a network switch).
    ///
    /// # Errors
    /// As for the first connection.
    fn reconnect(&self) -> BoxFuture<'_, Result<(), RemoteError>>;
}

/// Why a host could not be talked to. Each text says what to do next; `kind` is for exit codes and retries.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{host}: {message}")]
pub struct RemoteError {
    /// The host's name in the fleet file.
    pub host: String,
    /// What kind of failure this is.
    pub kind: RemoteErrorKind,
    /// What failed and why, one sentence.
    pub message: String,
    /// What to do next, where it is known: a command to run or a setting to change.
    pub help: Option<String>,
}

impl RemoteError {
    fn new(host: &str, kind: RemoteErrorKind, message: impl Into<String>) -> Self {
        Self { host: host.to_owned(), kind, message: message.into(), help: None }
    }

    pub(crate) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// Kinds of [`RemoteError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteErrorKind {
    /// No TCP connection, a name that does not resolve, a time-out before authentication.
    Unreachable,
    /// The host key is unknown, changed or revoked. Never retried.
    HostKey,
    /// No key or agent identity was accepted. Never retried.
    Auth,
    /// sudo wants a password that we do not have, refused it, or is not there. Never retried.
    Sudo,
    /// The peer broke the protocol or asked for something unsafe. Never retried.
    Protocol,
    /// The link was lost while something ran; it may still be running there.
    LinkLost,
    /// The script took longer than its time-out.
    TimedOut,
    /// A file could not be written or verified.
    Upload,
    /// Something on this machine: a key file, known_hosts, ssh_config.
    Local,
}

impl RemoteErrorKind {
    /// Whether trying again can help without a person changing something.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::LinkLost | Self::TimedOut)
    }
}
