//! Committed files that are made from code: a test fails when one differs, `UPDATE_GOLDEN=1` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;

use crate::binary::root;

/// Compares `made` with the committed file at `path` (below the repository's root).
pub fn check(path: &str, made: &str) {
    let file = root().join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, made).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    let first = committed.lines().zip(made.lines()).position(|(a, b)| a != b);
    let line = first.unwrap_or_else(|| committed.lines().count().min(made.lines().count()));
    assert!(
        committed == made,
        "{path} differs from what the code makes, first in line {}:\n- {}\n+ {}\nWrite it anew: UPDATE_GOLDEN=1 cargo \
         test --workspace --test golden",
        line + 1,
        committed.lines().nth(line).unwrap_or("(end)"),
        made.lines().nth(line).unwrap_or("(end)"),
    );
}

/// Names of files in a folder below the repository's root, sorted.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The reference of a command line in Markdown: its own help, then each command's, whose shared options are told once.
pub fn reference(mut command: Command) -> String {
    let mut text = format!(
        "# Command line\n\nMade from the program's own help; `hostspan COMMAND --help` shows the same.\n\n```text\n{}```\n",
        help(&mut command)
    );
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        describe(&mut text, command.get_name(), sub);
    }
    text
}

fn describe(text: &mut String, parent: &str, command: &Command) {
    let name = format!("{parent} {}", command.get_name());
    let mut alone = command.clone().bin_name(&name).disable_help_flag(true).disable_help_subcommand(true);
    write!(text, "\n## {name}\n\n```text\n{}```\n", help(&mut alone)).unwrap();
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        describe(text, &name, sub);
    }
}

fn help(command: &mut Command) -> String {
    *command = command.clone().term_width(100);
    let mut text = String::new();
    for line in command.render_help().to_string().lines() {
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    text
}
