//! Playbooks from text, and users' playbooks from files and folders.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::check::check;
use crate::model::{Action, Playbook};
use crate::render::template_fault;
use crate::yaml::{self, BadFile, Finding, Places};

/// The folder of templates beside a playbook.
const TEMPLATE_FOLDER: &str = "files";

/// Why a playbook cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaybookError {
    /// A file or folder cannot be read.
    #[error("{path}: {cause}")]
    Unreadable {
        /// The file or folder.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// A folder has no playbook in it.
    #[error("{path}: there is no .yaml file in this folder")]
    NothingThere {
        /// The folder.
        path: String,
    },
    /// A file is wrong.
    #[error(transparent)]
    Bad(#[from] BadFile),
}

/// A playbook of the user's own, with the templates that its steps name.
#[derive(Debug, Clone, PartialEq)]
pub struct UserPlaybook {
    /// The file.
    pub file: PathBuf,
    /// What it says.
    pub playbook: Playbook,
    /// The templates by their names.
    pub templates: BTreeMap<String, String>,
}

/// Reads and checks a playbook. `name` stands for the file in messages.
///
/// # Errors
/// [`PlaybookError::Bad`], every finding with line and column.
pub fn parse(name: &str, text: &str) -> Result<Playbook, PlaybookError> {
    Ok(read(name, text.as_bytes())?.0)
}

fn read(name: &str, bytes: &[u8]) -> Result<(Playbook, Places), BadFile> {
    let (playbook, places) = yaml::read::<Playbook>(name, bytes)?;
    refuse(name, &places, check(&playbook))?;
    Ok((playbook, places))
}

fn refuse(name: &str, places: &Places, mut findings: Vec<Finding>) -> Result<(), BadFile> {
    if findings.is_empty() {
        return Ok(());
    }
    places.locate(&mut findings);
    Err(BadFile { file: name.to_owned(), findings })
}

/// Reads a user's playbook, or all of a folder in the order of their names (`*.yaml`, not below sub-folders). Each says
/// `at` which phase it runs; its templates are below `files/` beside it.
///
/// # Errors
/// [`PlaybookError`] for the first file that cannot be used.
pub fn load(path: &Path) -> Result<Vec<UserPlaybook>, PlaybookError> {
    let unreadable = |cause| PlaybookError::Unreadable { path: path.display().to_string(), cause };
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![load_file(path)?]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(PlaybookError::NothingThere { path: path.display().to_string() });
    }
    files.sort();
    files.iter().map(|file| load_file(file)).collect()
}

fn load_file(file: &Path) -> Result<UserPlaybook, PlaybookError> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|cause| PlaybookError::Unreadable { path: name.clone(), cause })?;
    let (playbook, places) = read(&name, &bytes)?;
    let mut findings = Vec::new();
    if playbook.spec.at.is_none() {
        findings.push(
            Finding::new("spec", "a playbook of your own has to say when it runs").help("`at: {after: runtime}`"),
        );
    }
    let folder = file.parent().unwrap_or(Path::new("")).join(TEMPLATE_FOLDER);
    let mut templates = BTreeMap::new();
    for (index, step) in playbook.spec.steps.iter().enumerate() {
        let Action::File(action) = &step.action else { continue };
        let Some(template) = &action.template else { continue };
        let at = format!("spec.steps[{index}].file.template");
        match std::fs::read_to_string(folder.join(template)) {
            Ok(text) => {
                if let Some(fault) = template_fault(&text) {
                    findings.push(Finding::new(at, format!("{template}: {fault}")));
                }
                templates.insert(template.clone(), text);
            }
            Err(cause) => {
                findings.push(Finding::new(at, format!("{}: {cause}", folder.join(template).display())));
            }
        }
    }
    refuse(&name, &places, findings)?;
    Ok(UserPlaybook { file: file.to_owned(), playbook, templates })
}

#[cfg(test)]
mod tests;
