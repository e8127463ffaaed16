//! The reader's errors in words for people who write fleet files, not YAML parsers.

use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::places::{Places, place};
use super::{Finding, Place, nearest, shown};

/// YAML 1.1's words for true and false, which YAML 1.2 takes for text.
const OLD_BOOLEANS: [(&str, bool); 6] =
    [("yes", true), ("on", true), ("y", true), ("no", false), ("off", false), ("n", false)];

/// What to write instead of one of YAML 1.1's words for true and false.
pub fn old_boolean(word: &str) -> Option<bool> {
    OLD_BOOLEANS.iter().find(|(old, _)| old.eq_ignore_ascii_case(word)).map(|(_, meant)| *meant)
}

/// A file that is not UTF-8 from byte `valid` on.
pub(super) fn not_utf8(bytes: &[u8], valid: usize) -> Finding {
    let before = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Finding::at(Place { line, column }, "the file is not UTF-8 text").help("save it as UTF-8")
}

/// An error of the first reading, which knows no type.
pub(super) fn syntax(error: &Error, text: &str) -> Finding {
    let place = place_of(error, text);
    if let Some(tab) = tab_near(text, place) {
        return Finding::at(tab, "a tab is used for indentation").help("YAML wants spaces there");
    }
    finding(error, text, place)
}

/// An error of the second reading.
pub(super) fn typed(error: &Error, text: &str, places: &Places) -> Finding {
    let place = place_of(error, text);
    let mut finding = finding(error, text, place);
    let (key, value) = (places.key_at(place), places.value_at(place));
    let path = match error.without_snippet() {
        Error::SerdeUnknownField { .. } => key.or(value),
        // Reported at the last key of what lacks one.
        Error::SerdeMissingField { .. } => key.map(|key| key.rfind('.').map_or("", |end| &key[..end])).or(value),
        _ => value.or(key),
    };
    path.unwrap_or_default().clone_into(&mut finding.path);
    finding
}

fn place_of(error: &Error, text: &str) -> Place {
    // An error at the end of the file has no place of its own.
    error.location().as_ref().and_then(place).unwrap_or_else(|| Place { line: text.lines().count().max(1), column: 1 })
}

fn finding(error: &Error, text: &str, place: Place) -> Finding {
    let at = |message: String| Finding::at(place, message);
    match error.without_snippet() {
        Error::AliasError { error, .. } => finding(error, text, place),
        Error::SerdeUnknownField { field, expected, .. } => {
            at(format!("unknown key `{}`", shown(field))).help(instead(field, expected))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            at(format!("`{}` is not known here", shown(variant))).help(instead(variant, expected))
        }
        Error::SerdeMissingField { field, .. } => at(format!("the key `{field}` is missing")),
        Error::DuplicateMappingKey { key: Some(key), .. } => at(format!("the key `{}` is there twice", shown(key))),
        Error::DuplicateMappingKey { .. } => at("a key is there twice".into()),
        Error::InvalidBooleanStrict { .. } => {
            let word = word_at(text, place);
            let finding = at(format!("`{}` is not a boolean", shown(word)));
            match old_boolean(word) {
                Some(meant) => finding.help(format!("write `{meant}`")),
                None => finding.help("write `true` or `false`"),
            }
        }
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            at(format!("expected {expected}, found {}", shown(unexpected)))
        }
        Error::InvalidScalar { ty, .. } => {
            at(format!("expected {}, found `{}`", kind(ty), shown(word_at(text, place))))
        }
        Error::NullIntoString { .. } => at("a value is missing".into()).help("write \"\" if an empty text is meant"),
        Error::MultipleDocuments { .. } => {
            at("a second YAML document begins".into()).help("one file holds one document: take the `---` out")
        }
        Error::Eof { .. } => at("the file ends too early".into()),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => too_much(place),
        Error::Unexpected { expected, .. } => at(format!("expected {}", kind(expected))),
        other => {
            let message = shown_line(&UserMessageFormatter.format_message(other));
            // The scanner's own limit has no variant of its own.
            if message.contains("recursion limit") { too_much(place) } else { at(message) }
        }
    }
}

fn too_much(place: Place) -> Finding {
    Finding::at(place, "too much nesting or too many aliases").help("no sensible file needs that")
}

/// What to write instead of an unknown word.
fn instead(word: &str, known: &[&'static str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "nothing is known here".into(),
        None => format!("known: {}", known.join(", ")),
    }
}

/// Names of Rust's types and of YAML's events say nothing to most people.
fn kind(ty: &str) -> &str {
    match ty {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number that fits",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "bool" => "true or false",
        "string scalar" | "scalar" | "scalar value" => "a single value, found a list or keys",
        "sequence start" | "sequence" => "a list",
        "mapping start" | "mapping" => "keys and values",
        other => other,
    }
}

fn shown_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect()
}

/// The plain word that starts at `place`.
fn word_at(text: &str, place: Place) -> &str {
    let line = text.lines().nth(place.line - 1).unwrap_or_default();
    let start = line.char_indices().nth(place.column - 1).map_or(line.len(), |(at, _)| at);
    let rest = line.get(start..).unwrap_or_default();
    rest.split([' ', '\t', ',', '}', ']', '#', '\r']).next().unwrap_or_default()
}

/// A tab in the indentation of the line of an error or a neighbour: the reader stops before or after the tab.
fn tab_near(text: &str, place: Place) -> Option<Place> {
    let first = place.line.saturating_sub(1).max(1);
    text.lines().enumerate().take(place.line + 1).skip(first - 1).find_map(|(index, line)| {
        let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
        let tab = line.get(..indentation)?.find('\t')?;
        (indentation < line.len()).then_some(Place { line: index + 1, column: tab + 1 })
    })
}
