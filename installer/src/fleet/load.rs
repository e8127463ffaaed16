//! The fleet file from disk or standard input.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hostspan_playbooks::yaml::{self, BadFile, Place};
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use super::model::Fleet;
use super::validate::validate;

/// Stands for standard input in place of a file's name.
pub const STDIN: &str = "-";

/// A fleet file that was read and holds to all rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What it says.
    pub fleet: Fleet,
    /// Its name as the user gave it; `<stdin>` for standard input.
    pub file: String,
    /// Where relative paths in it start: its folder, or the working directory for standard input.
    pub dir: PathBuf,
}

/// A path that stands in the fleet file, as it is on this machine: `~/` is the home directory, anything else is relative
/// to `dir`, the file's folder.
pub fn expand(path: &Path, dir: &Path) -> PathBuf {
    expand_from(path, dir, std::env::home_dir().as_deref())
}

/// The same with another home directory.
pub(crate) fn expand_from(path: &Path, dir: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => dir.join(path),
    }
}

/// Why a fleet file cannot be used. Shown as `file:line:column: what`, one line for each thing that is wrong; as a
/// [`Diagnostic`] it points into the text.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// It cannot be read.
    #[error("{file}: {cause}")]
    Unreadable {
        /// Its name.
        file: String,
        /// Why.
        cause: io::Error,
    },
    /// It is wrong.
    #[error("{bad}")]
    Bad {
        /// What is wrong, and where.
        bad: BadFile,
        /// The text of the file.
        source_text: Box<NamedSource<String>>,
    },
}

impl FleetError {
    /// Every finding of a bad file, in the file's order.
    pub fn findings(&self) -> &[yaml::Finding] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Bad { bad, .. } => &bad.findings,
        }
    }
}

impl Diagnostic for FleetError {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        match self {
            Self::Unreadable { cause, .. } if cause.kind() == io::ErrorKind::NotFound => {
                Some(Box::new("`hostspan init` writes one; `-f FILE` names another"))
            }
            _ => None,
        }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Bad { source_text, .. } => Some(&**source_text),
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let Self::Bad { bad, source_text } = self else { return None };
        let text = source_text.inner();
        let labels = bad.findings.iter().filter_map(move |finding| {
            let (start, length) = span(text, finding.place?);
            Some(LabeledSpan::new(Some(finding.message.clone()), start, length))
        });
        Some(Box::new(labels))
    }
}

/// The bytes of the word at `place`.
fn span(text: &str, place: Place) -> (usize, usize) {
    let line_start: usize = text.split_inclusive('\n').take(place.line - 1).map(str::len).sum();
    let line = text[line_start..].lines().next().unwrap_or_default();
    let start = line.char_indices().nth(place.column - 1).map_or(line.len(), |(at, _)| at);
    let word = line[start..].split([' ', ',', ']', '}']).next().unwrap_or_default();
    (line_start + start, word.trim_end_matches(':').len())
}

/// Reads and checks a fleet file; `-` is standard input.
///
/// # Errors
/// [`FleetError`]; everything that is wrong is in it at once, unless the file is no fleet file at all.
pub fn load(file: &Path) -> Result<Loaded, FleetError> {
    if file == Path::new(STDIN) {
        let name = "<stdin>";
        let unreadable = |cause| FleetError::Unreadable { file: name.to_owned(), cause };
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(unreadable)?;
        return parse(name, &bytes, &std::env::current_dir().map_err(unreadable)?);
    }
    let name = file.display().to_string();
    let unreadable = |cause| FleetError::Unreadable { file: name.clone(), cause };
    let bytes = std::fs::read(file).map_err(unreadable)?;
    let absolute = std::path::absolute(file).map_err(unreadable)?;
    parse(&name, &bytes, absolute.parent().unwrap_or(Path::new("/")))
}

/// Reads and checks the text of a fleet file. `dir` is where its relative paths start.
///
/// # Errors
/// [`FleetError::Bad`].
pub fn parse(file: &str, bytes: &[u8], dir: &Path) -> Result<Loaded, FleetError> {
    let bad = |bad: BadFile| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        FleetError::Bad { bad, source_text: Box::new(NamedSource::new(file, text)) }
    };
    let (fleet, places) = yaml::read::<Fleet>(file, bytes).map_err(bad)?;
    let mut findings = validate(&fleet);
    if findings.is_empty() {
        return Ok(Loaded { fleet, file: file.to_owned(), dir: dir.to_owned() });
    }
    places.locate(&mut findings);
    Err(bad(BadFile { file: file.to_owned(), findings }))
}
