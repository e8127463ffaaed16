//! `hostspan man`: the manual pages.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::context::Context;
use super::failure::Failure;
use crate::exit::Exit;

/// Print the manual page, or write one for every command
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  hostspan man | man -l -
  hostspan man --dir /usr/local/share/man/man1")]
pub struct Man {
    /// Write hostspan.1, hostspan-apply.1 and so on into this folder instead
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        if let Some(dir) = &self.dir {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            clap_mangen::generate_to(super::command(), dir)
                .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
        } else {
            let mut page = Vec::new();
            clap_mangen::Man::new(super::command()).render(&mut page).context("cannot write the manual page")?;
            Context::print(&String::from_utf8_lossy(&page));
        }
        Ok(Exit::Done)
    }
}
