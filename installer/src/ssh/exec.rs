//! One command on one channel: becoming root, knowing when the script really begins, lines, limits, the end.
//!
//! ```text
//! us                                         host
//! exec "sudo -S -k -p PROMPT /bin/sh -c .."  sudo
//!                                  <-- PROMPT on standard error
//! the password -->
//!                                            /bin/sh as root
//!                                  <-- READY on standard output and on standard error
//! the whole script, end of file -->          parses all of it, then runs it
//!                                  <-- output, exit status
//! ```
//!
//! PROMPT and READY carry a random number, so that nothing that a login script or a message of the day prints can be
//! taken for them, and a password is only ever sent to a sudo that asked for it. What comes before READY is dropped.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use tokio::io::AsyncReadExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::secret::Secret;

use super::quote::quote;
use super::session::Opened;
use super::{Finished, KEEP, Line, OnLine};

/// From the start of sudo to a root shell. PAM delays after a wrong password.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest line that is given to `OnLine` in one piece.
const MAX_LINE: usize = 1024 * 1024;
/// What is kept of the output before READY, for the error message and to find the marks in.
const MAX_HEAD: usize = 16 * 1024;
/// Bytes read from a file at a time.
const CHUNK: usize = 256 * 1024;
/// Debian's login PATH has no sbin, and what sudo makes of it depends on its configuration.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How the shell is started.
pub(super) enum Via {
    Direct,
    Sudo,
    SudoPassword(Secret),
}

/// What is sent to the command.
#[derive(Clone)]
pub(super) enum Input<'a> {
    Text(String),
    File { path: &'a Path, on_bytes: &'a (dyn Fn(u64) + Send + Sync) },
}

impl Input<'_> {
    /// A script for a shell that reads its standard input. It becomes the body of a function: the shell has to have read
    /// all of it before it can run any of it.
    pub(super) fn script(script: &str, root: bool) -> Self {
        let home = if root { "HOME=/root; export HOME\n" } else { "" };
        Self::Text(format!(
            "hostspan_script() {{\n:\n{script}\n}}\n\
             PATH={PATH} LC_ALL=C\nexport PATH LC_ALL\n{home}umask 022\ncd /\n\
             hostspan_script </dev/null\nexit $?\n"
        ))
    }

    async fn send(self, write: &ChannelWriteHalf<Msg>) {
        // A failure to send shows as the end of the channel, with the reason in what the host said before.
        match self {
            Self::Text(text) => drop(write.data_bytes(text.into_bytes()).await),
            Self::File { path, on_bytes } => drop(send_file(path, on_bytes, write).await),
        }
    }
}

async fn send_file(
    path: &Path,
    on_bytes: &(dyn Fn(u64) + Send + Sync),
    write: &ChannelWriteHalf<Msg>,
) -> Result<(), russh::Error> {
    let mut file = tokio::fs::File::open(path).await?;
    let mut done = 0;
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        while chunk.len() < CHUNK && file.read_buf(&mut chunk).await? > 0 {}
        if chunk.is_empty() {
            return Ok(());
        }
        done += chunk.len() as u64;
        write.data_bytes(chunk).await?;
        on_bytes(done);
    }
}

/// Why there is no exit status.
#[derive(Debug)]
pub(super) enum Stop {
    Lost {
        started: bool,
    },
    TimedOut {
        after: Duration,
        started: bool,
    },
    /// The shell was never reached: sudo refused, the login shell is /usr/sbin/nologin, ...
    NotStarted {
        said: String,
        code: Option<i32>,
    },
    WrongPassword,
}

/// A channel that closes itself when it is dropped before its end, so that a script that nobody waits for any more is
/// not kept by the server as one of its few sessions.
struct Session {
    read: ChannelReadHalf,
    write: Arc<ChannelWriteHalf<Msg>>,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl Session {
    fn new(opened: Opened) -> Self {
        let (read, write) = opened.channel.split();
        Self { read, write: Arc::new(write), ended: false, _permit: opened.permit }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let write = Arc::clone(&self.write);
            runtime.spawn(async move { write.close().await });
        }
    }
}

/// Runs `command` in a shell and sees it through.
pub(super) async fn converse(
    opened: Opened,
    via: &Via,
    command: &str,
    input: Input<'_>,
    timeout: Duration,
    on_line: OnLine<'_>,
) -> Result<Finished, Stop> {
    let mut session = Session::new(opened);
    let number: u64 = rand::random();
    let (ready, prompt) = (format!("hostspan-ready-{number:016x}"), format!("hostspan-password-{number:016x}"));
    let shell = format!("/bin/sh -c {}", quote(&format!("echo {ready}; echo {ready} >&2; {command}")));
    let line = match via {
        Via::Direct => shell,
        Via::Sudo => format!("sudo -n {shell}"),
        Via::SudoPassword(_) => format!("sudo -S -k -p {prompt} {shell}"),
    };
    if session.write.exec(true, line).await.is_err() {
        return Err(Stop::Lost { started: false });
    }

    let write = Arc::clone(&session.write);
    let whole = async |input: Input<'_>| {
        input.send(&write).await;
        drop(write.eof().await);
    };
    let mut input = Some(input);
    // Where no password can be asked for, the script may go out at once: a sudo that refuses does not read it.
    let mut sending: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = match via {
        Via::Direct | Via::Sudo => input.take().map(|input| Box::pin(whole(input)) as _),
        Via::SudoPassword(_) => None,
    };
    let (mut out, mut err) = (Output::new(&ready), Output::new(&ready));
    let mut code = None;
    let mut password_sent = false;
    let mut limit = START_TIMEOUT;
    let mut deadline = Instant::now() + limit;
    loop {
        let message = tokio::select! {
            message = session.read.wait() => message,
            () = finish(&mut sending) => { sending = None; continue }
            () = tokio::time::sleep_until(deadline) => {
                return Err(Stop::TimedOut { after: limit, started: out.started });
            }
        };
        match message {
            Some(ChannelMsg::Data { data }) => {
                let before = out.started;
                out.take(&data, &mut |line| on_line(Line::Out(line)));
                if out.started && !before {
                    limit = timeout;
                    deadline = Instant::now() + limit;
                    if let Some(input) = input.take() {
                        let password = sending.take();
                        sending = Some(Box::pin(async {
                            if let Some(password) = password {
                                password.await;
                            }
                            whole(input).await;
                        }));
                    }
                }
            }
            Some(ChannelMsg::ExtendedData { data, .. }) => {
                err.take(&data, &mut |line| on_line(Line::Err(line)));
                if let Via::SudoPassword(password) = via
                    && !out.started
                {
                    match err.count(&prompt) {
                        0 => {}
                        1 if password_sent => {}
                        1 => {
                            password_sent = true;
                            let line = format!("{}\n", password.expose()).into_bytes();
                            let write = &write;
                            sending = Some(Box::pin(async move { drop(write.data_bytes(line).await) }));
                        }
                        _ => return Err(Stop::WrongPassword),
                    }
                }
            }
            Some(ChannelMsg::ExitStatus { exit_status }) => code = i32::try_from(exit_status).ok(),
            Some(ChannelMsg::ExitSignal { signal_name, .. }) => code = Some(128 + number_of(&signal_name)),
            Some(ChannelMsg::Failure) => {
                return Err(Stop::NotStarted { said: "the server does not run commands".into(), code: None });
            }
            Some(_) => {}
            None => break,
        }
    }
    session.ended = true;
    match (out.started, code) {
        (true, Some(code)) => Ok(Finished {
            code,
            stdout: out.finish(&mut |line| on_line(Line::Out(line))),
            stderr: err.finish(&mut |line| on_line(Line::Err(line))),
        }),
        (false, Some(code)) => {
            if password_sent && err.says("incorrect password") {
                return Err(Stop::WrongPassword);
            }
            Err(Stop::NotStarted { said: err.head_text(), code: Some(code) })
        }
        (started, None) => Err(Stop::Lost { started }),
    }
}

async fn finish(sending: &mut Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>>) {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

/// A shell that was ended by a signal counts as its parent shell would count it.
fn number_of(signal: &Sig) -> i32 {
    match signal {
        Sig::HUP => 1,
        Sig::INT => 2,
        Sig::QUIT => 3,
        Sig::ILL => 4,
        Sig::ABRT => 6,
        Sig::FPE => 8,
        Sig::KILL => 9,
        Sig::USR1 => 10,
        Sig::SEGV => 11,
        Sig::PIPE => 13,
        Sig::ALRM => 14,
        Sig::TERM => 15,
        Sig::Custom(_) => 127,
    }
}

/// One of the two output streams: dropped up to READY, then split into lines and kept from its end.
struct Output {
    ready: Vec<u8>,
    started: bool,
    head: Vec<u8>,
    kept: Vec<u8>,
    line: Vec<u8>,
}

impl Output {
    fn new(ready: &str) -> Self {
        let ready = format!("{ready}\n").into_bytes();
        Self { ready, started: false, head: Vec::new(), kept: Vec::new(), line: Vec::new() }
    }

    fn take(&mut self, data: &[u8], on_line: &mut dyn FnMut(&str)) {
        if self.started {
            self.body(data, on_line);
            return;
        }
        self.head.extend_from_slice(data);
        if let Some(at) = find(&self.head, &self.ready) {
            self.started = true;
            let body = self.head.split_off(at + self.ready.len());
            self.body(&body, on_line);
        } else if self.head.len() > 2 * MAX_HEAD {
            self.head.drain(..self.head.len() - MAX_HEAD);
        }
    }

    fn body(&mut self, data: &[u8], on_line: &mut dyn FnMut(&str)) {
        self.kept.extend_from_slice(data);
        if self.kept.len() > 2 * KEEP {
            self.kept.drain(..self.kept.len() - KEEP);
        }
        for piece in data.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") {
                self.line.pop();
                self.emit(on_line);
            } else if self.line.len() >= MAX_LINE {
                self.emit(on_line);
            }
        }
    }

    fn emit(&mut self, on_line: &mut dyn FnMut(&str)) {
        on_line(&String::from_utf8_lossy(&self.line));
        self.line.clear();
    }

    fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.head).matches(text).count()
    }

    fn says(&self, text: &str) -> bool {
        self.count(text) > 0
    }

    /// What was said before READY, on one line.
    fn head_text(&self) -> String {
        let text = String::from_utf8_lossy(&self.head);
        let words: Vec<&str> = text.split(char::is_whitespace).filter(|word| !word.is_empty()).collect();
        let joined = words.join(" ");
        joined.chars().filter(|c| !c.is_control()).take(500).collect()
    }

    fn finish(mut self, on_line: &mut dyn FnMut(&str)) -> String {
        if !self.line.is_empty() {
            self.emit(on_line);
        }
        let from = self.kept.len().saturating_sub(KEEP);
        String::from_utf8_lossy(&self.kept[from..]).into_owned()
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::{KEEP, MAX_LINE, Output};

    fn feed(pieces: &[&[u8]]) -> (Vec<String>, String, bool) {
        let mut output = Output::new("READY");
        let mut lines = Vec::new();
        for piece in pieces {
            output.take(piece, &mut |line| lines.push(line.to_owned()));
        }
        let started = output.started;
        let kept = output.finish(&mut |line| lines.push(line.to_owned()));
        (lines, kept, started)
    }

    #[test]
    fn nothing_before_ready_counts_however_it_is_cut() {
        for at in 0..20 {
            let whole = b"motd\nREADY\none\ntwo\n";
            let (lines, kept, started) = feed(&[&whole[..at], &whole[at..]]);
            assert_eq!((lines, kept.as_str(), started), (vec!["one".into(), "two".into()], "one\ntwo\n", true));
        }
        assert!(!feed(&[b"READ", b"Y"]).2);
    }

    #[test]
    fn memory_is_bounded() {
        let noise = vec![b'x'; 64 * 1024];
        let mut output = Output::new("READY");
        for _ in 0..1000 {
            output.take(&noise, &mut |_| {});
            assert!(output.head.len() < 200 * 1024);
        }
        output.take(b"\nREADY\n", &mut |_| {});
        let mut longest = 0;
        for _ in 0..1000 {
            output.take(&noise, &mut |line| longest = longest.max(line.len()));
            assert!(output.kept.len() <= 2 * KEEP + noise.len() && output.line.len() <= MAX_LINE + noise.len());
        }
        assert!(longest >= MAX_LINE && longest <= MAX_LINE + noise.len());
        assert_eq!(output.finish(&mut |_| {}).len(), KEEP);
    }

    #[test]
    fn lines_that_are_not_utf8_come_through() {
        assert_eq!(feed(&[b"READY\na\xffb\n"]).0, ["a\u{fffd}b"]);
    }
}
