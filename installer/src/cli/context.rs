//! What every command needs: the options that all share, the two output streams, questions, the stop signal.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::failure::Failure;
use crate::engine::{Cancel, Stop};
use crate::progress::paint::{Colour, Paint};
use crate::progress::{Display, Event, View, Wish};

/// Options that every command takes, before or after its name.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// The fleet file; `-` reads it from standard input
    #[arg(short, long, global = true, value_name = "FILE", default_value = "fleet.yaml", help_heading = HOSTS)]
    pub fleet: PathBuf,

    /// Only this host (repeatable)
    #[arg(long, global = true, value_name = "NAME", help_heading = HOSTS)]
    pub host: Vec<String>,

    /// How many hosts are worked on at once
    #[arg(long, global = true, value_name = "N", default_value_t = 32, help_heading = HOSTS,
          value_parser = clap::value_parser!(u16).range(1..=512))]
    pub parallel: u16,

    /// Trust the key of a host that known_hosts does not know, and record it
    #[arg(long, global = true, help_heading = HOSTS)]
    pub accept_new: bool,

    /// Ask for the sudo password
    #[arg(long, global = true, help_heading = HOSTS)]
    pub ask_sudo_password: bool,

    /// Read the sudo password from the first line of a file
    #[arg(long, global = true, value_name = "FILE", env = "HOSTSPAN_SUDO_PASSWORD_FILE", hide_env_values = true,
          conflicts_with = "ask_sudo_password", help_heading = HOSTS)]
    pub sudo_password_file: Option<PathBuf>,

    /// What results look like on standard output
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "text", help_heading = OUTPUT)]
    pub output: Format,

    /// Show what steps print; twice for our log, three times for all of it
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = OUTPUT)]
    pub verbose: u8,

    /// No progress at all, only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = OUTPUT)]
    pub quiet: bool,

    /// Plain lines instead of bars
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub no_progress: bool,

    /// When to colour; NO_COLOR counts as `never` unless this says otherwise
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = OUTPUT)]
    pub color: Colour,

    /// Answer every question with yes
    #[arg(short, long, global = true)]
    pub yes: bool,

    /// Print help
    // The short form for both flags: all that a command has to say fits on a screen.
    #[arg(short, long, global = true, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
}

const HOSTS: &str = "Host options";
const OUTPUT: &str = "Output options";

/// What results look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON document on standard output; progress and errors as JSON lines on standard error.
    Json,
}

/// What a command works with.
#[derive(Debug, Clone)]
pub struct Context {
    /// The shared options.
    pub global: GlobalArgs,
    /// Colour of standard output.
    pub paint: Paint,
    /// Colour of standard error.
    pub paint_err: Paint,
    /// How progress is shown.
    pub view: View,
    /// Whether Ctrl-C was pressed.
    pub cancel: Cancel,
}

impl Context {
    /// Reads the terminal's properties.
    pub fn new(global: GlobalArgs, cancel: Cancel) -> Self {
        let stderr = std::io::stderr();
        let wish = Wish {
            json: global.output == Format::Json,
            quiet: global.quiet,
            verbose: global.verbose > 0,
            no_progress: global.no_progress,
            terminal: stderr.is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb"),
        };
        Self {
            paint: Paint::for_stream(global.color, &std::io::stdout()),
            paint_err: Paint::for_stream(global.color, &stderr),
            view: wish.view(),
            global,
            cancel,
        }
    }

    /// Whether results are for programs.
    pub fn json(&self) -> bool {
        self.global.output == Format::Json
    }

    /// Writes a result, with a newline, to standard output. A reader that went away is no error of ours.
    pub fn print(text: &str) {
        drop(writeln!(std::io::stdout(), "{}", text.trim_end_matches('\n')));
    }

    /// Starts a progress display that also tells about Ctrl-C.
    pub fn display(&self) -> Display {
        let display = Display::start(self.view, self.paint_err);
        let (events, cancel) = (display.events(), self.cancel.clone());
        tokio::spawn(async move {
            cancel.reached(Stop::AfterStep).await;
            let message = "stopping after the running step; Ctrl-C again stops at once".into();
            events.send(Event::Warning { host: None, message });
        });
        display
    }

    /// Writes one JSON document to standard output.
    pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?;
        Self::print(&text);
        Ok(())
    }

    /// Whether Ctrl-C was pressed.
    pub fn interrupted(&self) -> bool {
        self.cancel.stop() > Stop::No
    }

    /// Asks a yes-or-no question. `--yes` answers it; without a terminal and without `--yes` it is an error, since
    /// nobody can have meant it.
    pub async fn confirm(&self, question: &str) -> Result<bool, Failure> {
        if self.global.yes {
            return Ok(true);
        }
        let answer = self.ask(&format!("{question} [y/N]"), "pass --yes to go on without being asked").await?;
        Ok(matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Asks for a line of text on the terminal; `otherwise` says what to do where there is none.
    pub async fn ask(&self, question: &str, otherwise: &str) -> Result<String, Failure> {
        if !std::io::stdin().is_terminal() {
            let fault = format!("cannot ask \"{question}\": standard input is not a terminal");
            return Err(Failure::usage(fault).help(otherwise));
        }
        drop(write!(std::io::stderr(), "{} ", self.paint_err.bold(question)));
        let read = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        tokio::select! {
            line = read => Ok(line.map_err(anyhow::Error::from)?.map_err(anyhow::Error::from)?.trim().to_owned()),
            () = self.cancel.reached(Stop::AfterStep) => Err(Failure::interrupted()),
        }
    }
}
