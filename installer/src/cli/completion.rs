//! `hostspan completion`: a completion script for a shell.

use clap::Args;
use clap_complete::Shell;

use super::context::Context;
use crate::exit::Exit;

/// Print a completion script
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  hostspan completion bash > /etc/bash_completion.d/hostspan
  hostspan completion zsh  > ~/.zfunc/_hostspan
  hostspan completion fish > ~/.config/fish/completions/hostspan.fish")]
pub struct Completion {
    /// The shell
    shell: Shell,
}

impl Completion {
    pub(super) fn run(&self) -> Exit {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), super::NAME, &mut script);
        Context::print(&String::from_utf8_lossy(&script));
        Exit::Done
    }
}
