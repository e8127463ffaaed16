//! Where passphrases and the sudo password come from: a terminal or a file, never argv.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};

use super::context::Context;
use super::failure::Failure;
use crate::exit::Exit;
use crate::secret::Secret;
use crate::ssh::Prompt;

/// Answers what SSH asks. Asking at most once a run is `ssh`'s part.
pub(super) struct Secrets {
    sudo: Sudo,
    /// Standard error is shared with a progress display that may be at work: a question needs a line of its own.
    terminal: bool,
}

enum Sudo {
    /// Nobody said that there is one.
    None,
    /// Asked on the terminal before the run, or read from the file.
    Known(Secret),
}

impl Secrets {
    /// Asks or reads the sudo password now, before any progress is shown.
    pub(super) fn collect(ctx: &Context) -> Result<Self, Failure> {
        let terminal = std::fs::File::open("/dev/tty").is_ok();
        let sudo = match (&ctx.global.sudo_password_file, ctx.global.ask_sudo_password) {
            (Some(file), _) => Sudo::Known(read_file(file)?),
            (None, true) => Sudo::Known(ask("sudo password of the hosts: ").ok_or_else(|| {
                Failure::usage("cannot ask for the sudo password: there is no terminal")
                    .help("put it into a file that only you can read, and pass --sudo-password-file FILE")
            })?),
            (None, false) => Sudo::None,
        };
        Ok(Self { sudo, terminal })
    }
}

impl Prompt for Secrets {
    fn key_passphrase(&self, file: &Path) -> Option<Secret> {
        self.terminal.then(|| ask(&format!("\npassphrase of {}: ", file.display()))).flatten()
    }

    fn sudo_password(&self, _user: &str, _host: &str) -> Option<Secret> {
        match &self.sudo {
            Sudo::None => None,
            Sudo::Known(password) => Some(password.clone()),
        }
    }
}

fn read_file(file: &PathBuf) -> Result<Secret, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::Usage, format!("the sudo password file {} cannot be read: {error}", file.display()))
    })?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(Failure::usage(format!("the first line of {} is empty", file.display()))
            .help("put the sudo password there, nothing else"));
    }
    Ok(Secret::new(line))
}

/// How the terminal was before a question switched its echo off.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Asks without echo; `None` where there is no terminal.
fn ask(question: &str) -> Option<Secret> {
    let tty = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = tcgetattr(&tty).ok();
    let answer = rpassword::prompt_password(question).ok();
    restore_terminal();
    answer.map(Secret::new)
}

/// Switches the echo on again if a question was interrupted. Called before the process ends.
pub fn restore_terminal() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Some(before), Ok(mut tty)) = (before, std::fs::OpenOptions::new().write(true).open("/dev/tty")) {
        // Nothing can be done about a terminal that is gone.
        let _ = tcsetattr(&tty, SetArg::TCSANOW, &before);
        drop(tty.flush());
    }
}
