//! A host over one SSH connection: dialled again when the link was lost, never more than a few channels at a time.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use russh::client::{Handle, Msg};
use russh::{Channel, ChannelMsg};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::secret::Secret;

use super::client::{Client, is_loss};
use super::connect::{Dialer, HangUp};
use super::exec::{Input, Stop, Via, converse};
use super::target::Target;
use super::{Finished, OnLine, Remote, RemoteError, RemoteErrorKind, Request, Upload, upload};

/// sshd's `MaxSessions` is 10 where nobody changed it.
const MAX_CHANNELS: usize = 8;
/// How long sshd may take to open a channel.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection with those to the jump hosts that it goes through.
#[derive(Default)]
pub(super) struct Link {
    /// The nearest jump host first, the host itself last.
    hops: Vec<Handle<Client>>,
    pub(super) hang_up: Option<HangUp>,
}

impl Link {
    pub(super) fn push(&mut self, handle: Handle<Client>) {
        self.hops.push(handle);
    }

    pub(super) fn last(&self) -> Option<&Handle<Client>> {
        self.hops.last()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.hops.iter().any(Handle::is_closed)
    }
}

/// An open channel with its place among the few of its host.
pub(super) struct Opened {
    pub(super) channel: Channel<Msg>,
    pub(super) permit: OwnedSemaphorePermit,
}

/// A host over SSH.
pub struct SshRemote {
    target: Target,
    dialer: Arc<Dialer>,
    link: Mutex<Option<Arc<Link>>>,
    channels: Arc<Semaphore>,
    root: Mutex<Root>,
}

/// How to become root, as far as it is known.
#[derive(Clone)]
enum Root {
    /// sudo without a password has not failed yet.
    Free,
    Password(Secret),
    /// It does not work, and trying again could lock the account.
    Refused(RemoteError),
}

impl SshRemote {
    pub(super) fn new(target: Target, dialer: Arc<Dialer>, link: Link) -> Self {
        Self {
            target,
            dialer,
            link: Mutex::new(Some(Arc::new(link))),
            channels: Arc::new(Semaphore::new(MAX_CHANNELS)),
            root: Mutex::new(Root::Free),
        }
    }

    pub(super) fn error(&self, kind: RemoteErrorKind, message: impl Into<String>) -> RemoteError {
        RemoteError::new(&self.target.host, kind, message)
    }

    /// The connection, opened anew where it was lost.
    async fn link(&self) -> Result<Arc<Link>, RemoteError> {
        let mut slot = self.link.lock().await;
        if let Some(link) = slot.as_ref().filter(|link| !link.is_lost()) {
            return Ok(Arc::clone(link));
        }
        *slot = None;
        let link = Arc::new(self.dialer.dial(&self.target).await?);
        *slot = Some(Arc::clone(&link));
        Ok(link)
    }

    /// A new channel. A link that turns out to be dead is replaced once: nothing has run yet.
    async fn open(&self) -> Result<Opened, RemoteError> {
        let Ok(permit) = Arc::clone(&self.channels).acquire_owned().await else {
            return Err(self.error(RemoteErrorKind::LinkLost, "the connection was given up"));
        };
        let mut replaced = false;
        loop {
            let link = self.link().await?;
            let Some(handle) = link.last() else {
                return Err(self.error(RemoteErrorKind::LinkLost, "there is no connection"));
            };
            let message = match tokio::time::timeout(OPEN_TIMEOUT, handle.channel_open_session()).await {
                Ok(Ok(channel)) => return Ok(Opened { channel, permit }),
                Ok(Err(error)) if !is_loss(&error) => {
                    return Err(self
                        .error(RemoteErrorKind::Protocol, format!("the server opened no session: {error}"))
                        .with_help(format!("allow at least {MAX_CHANNELS} sessions (MaxSessions in sshd_config)")));
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no session was opened within {} s", OPEN_TIMEOUT.as_secs()),
            };
            if replaced {
                return Err(self.error(RemoteErrorKind::LinkLost, message));
            }
            replaced = true;
            self.forget(&link).await;
        }
    }

    /// A channel with a subsystem of sshd on it.
    pub(super) async fn subsystem(&self, name: &str) -> Result<Opened, RemoteError> {
        let mut opened = self.open().await?;
        let lost = |_| self.error(RemoteErrorKind::LinkLost, "the link was lost");
        opened.channel.request_subsystem(true, name).await.map_err(lost)?;
        loop {
            match opened.channel.wait().await {
                Some(ChannelMsg::Success) => return Ok(opened),
                Some(ChannelMsg::Failure) => {
                    return Err(self.error(RemoteErrorKind::Protocol, format!("the server has no {name} subsystem")));
                }
                Some(_) => {}
                None => return Err(self.error(RemoteErrorKind::LinkLost, "the link was lost")),
            }
        }
    }

    /// Drops a link that is of no more use, unless somebody has replaced it already.
    async fn forget(&self, link: &Arc<Link>) {
        let mut slot = self.link.lock().await;
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            *slot = None;
        }
    }

    /// Starts `command` (a shell's words, after which `input` is its standard input) and sees it through.
    pub(super) async fn execute(
        &self,
        root: bool,
        command: &str,
        input: Input<'_>,
        timeout: Duration,
        on_line: OnLine<'_>,
    ) -> Result<Finished, RemoteError> {
        if !root || self.target.endpoint.user == "root" {
            let end = converse(self.open().await?, &Via::Direct, command, input, timeout, on_line).await;
            return end.map_err(|stop| self.explain(stop));
        }
        let known = self.root.lock().await.clone();
        let password = match known {
            Root::Refused(error) => return Err(error),
            Root::Password(password) => password,
            Root::Free => {
                let opened = self.open().await?;
                match converse(opened, &Via::Sudo, command, input.clone(), timeout, on_line).await {
                    Err(Stop::NotStarted { said, code }) => self.password(&said, code).await?,
                    end => return end.map_err(|stop| self.explain(stop)),
                }
            }
        };
        let via = Via::SudoPassword(password.clone());
        let end = converse(self.open().await?, &via, command, input, timeout, on_line).await;
        let refused = match end {
            Err(Stop::WrongPassword) => self
                .error(
                    RemoteErrorKind::Sudo,
                    format!("sudo did not take the password of {}", self.target.endpoint.user),
                )
                .with_help("run again with the right one (--ask-sudo-password)"),
            Err(Stop::NotStarted { said, .. }) => {
                let user = &self.target.endpoint.user;
                self.error(RemoteErrorKind::Sudo, format!("sudo did not start a shell: {said}")).with_help(format!(
                    "allow {user} all commands (`sudo -l` as {user} shows what it may do), or log in as another user"
                ))
            }
            end => {
                *self.root.lock().await = Root::Password(password);
                return end.map_err(|stop| self.explain(stop));
            }
        };
        *self.root.lock().await = Root::Refused(refused.clone());
        Err(refused)
    }

    /// The password for sudo, after it refused to go without.
    async fn password(&self, said: &str, code: Option<i32>) -> Result<Secret, RemoteError> {
        let user = &self.target.endpoint.user;
        let refused = if code == Some(127) {
            self.error(RemoteErrorKind::Sudo, "sudo is not installed on the host")
                .with_help("install it and allow the login user to use it, or log in as root")
        } else {
            match self.dialer.answers().sudo_password(user, &self.target.host).await {
                Some(password) if password.expose().contains(['\n', '\0']) => {
                    self.error(RemoteErrorKind::Sudo, "the password for sudo has a line break in it")
                }
                Some(password) => return Ok(password),
                None => self
                    .error(RemoteErrorKind::Sudo, format!("sudo wants a password of {user}, and there is none ({said})"))
                    .with_help(format!(
                        "run again with --ask-sudo-password, or allow it without one: `{user} ALL=(ALL) NOPASSWD: ALL` in \
                         /etc/sudoers.d/{user}"
                    )),
            }
        };
        *self.root.lock().await = Root::Refused(refused.clone());
        Err(refused)
    }

    fn explain(&self, stop: Stop) -> RemoteError {
        match stop {
            Stop::Lost { started } => {
                let still = if started { "; it may still be running there" } else { "" };
                self.error(RemoteErrorKind::LinkLost, format!("the link was lost while a script ran{still}"))
            }
            Stop::TimedOut { after, started: true } => self.error(
                RemoteErrorKind::TimedOut,
                format!("a script took longer than {} s; it may still be running there", after.as_secs()),
            ),
            Stop::TimedOut { after, started: false } => {
                self.error(RemoteErrorKind::TimedOut, format!("no shell was started within {} s", after.as_secs()))
            }
            Stop::NotStarted { said, code } => {
                let code = code.map_or(String::new(), |code| format!(" (exit status {code})"));
                self.error(RemoteErrorKind::Protocol, format!("the login shell did not run /bin/sh{code}: {said}"))
                    .with_help(format!("log in as {} by hand and look", self.target.endpoint))
            }
            Stop::WrongPassword => self.error(RemoteErrorKind::Sudo, "sudo did not take the password"),
        }
    }
}

impl Remote for SshRemote {
    fn host(&self) -> &str {
        &self.target.host
    }

    fn run<'a>(&'a self, request: Request<'a>, on_line: OnLine<'a>) -> BoxFuture<'a, Result<Finished, RemoteError>> {
        Box::pin(async move {
            let input = Input::script(request.script, request.root);
            self.execute(request.root, "exec /bin/sh", input, request.timeout, on_line).await
        })
    }

    fn upload<'a>(
        &'a self,
        upload: Upload<'a>,
        on_bytes: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(upload::upload(self, upload, on_bytes))
    }

    fn reconnect(&self) -> BoxFuture<'_, Result<(), RemoteError>> {
        Box::pin(async move {
            *self.link.lock().await = None;
            self.link().await.map(drop)
        })
    }
}
