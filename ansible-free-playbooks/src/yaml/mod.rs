//! Reads one YAML document into a type, with the place of everything in it. The fleet file and the playbooks are both
//! read here, so that a person meets one wording and one set of limits.

mod message;
mod places;

use std::fmt;

use serde::de::DeserializeOwned;

pub use message::old_boolean;
pub use places::Places;

/// Files above this are refused: nothing that a person writes comes near it.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Line and column, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

impl Place {
    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which value, as a path of keys and indices: `spec.hosts[1].name`. Empty for the file as a whole.
    pub path: String,
    /// Where it is; `None` for a value that was built in memory.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// What to write instead, where that is known.
    pub help: Option<String>,
}

impl Finding {
    /// A finding about the value at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), place: None, message: escaped(&message.into()), help: None }
    }

    /// The same with what to write instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(escaped(&help.into()));
        self
    }

    fn at(place: Place, message: impl Into<String>) -> Self {
        Self { place: Some(place), ..Self::new("", message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, " ({help})")?;
        }
        Ok(())
    }
}

/// A file that cannot be used, with everything that is wrong with it in the file's order. Shown as
/// `file:line:column: what`, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFile {
    /// The file's name as the user gave it.
    pub file: String,
    /// At least one.
    pub findings: Vec<Finding>,
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match finding.place {
                Some(place) => write!(f, "{}:{place}: {finding}", self.file)?,
                None => write!(f, "{}: {finding}", self.file)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for BadFile {}

/// Reads `bytes` as one YAML document.
///
/// # Errors
/// [`BadFile`] with one finding, since the rest of a file that could not be read means nothing.
pub fn read<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<(T, Places), BadFile> {
    read_one(bytes).map_err(|finding| BadFile { file: file.to_owned(), findings: vec![finding] })
}

fn read_one<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, Places), Finding> {
    if bytes.len() > MAX_BYTES {
        return Err(Finding::at(
            Place::START,
            format!("the file has {} bytes; at most {MAX_BYTES} are read", bytes.len()),
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| message::not_utf8(bytes, error.valid_up_to()))?;
    // Twice: the first reading takes any document and finds out where everything is, the second knows the type.
    let places = Places::read(text, options()).map_err(|error| message::syntax(&error, text))?;
    places.refuse_empty()?;
    let value =
        serde_saphyr::from_str_with_options(text, options()).map_err(|error| message::typed(&error, text, &places))?;
    Ok((value, places))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // `yes` and `on` are what YAML 1.1 readers took for booleans; guessing is what got people into trouble.
        strict_booleans: true,
        with_snippet: false,
        emit_comments: false,
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_aliases: 1_000,
            max_events: 200_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
        },
    }
}

/// The nearest of `known` to a mistyped `word`, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// A piece of a file as it may be shown: no control characters, cut at 60 characters.
pub fn shown(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => escaped(&text[..end]) + "...",
        None => escaped(text),
    }
}

/// Control characters of a file must not reach a terminal.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests;
