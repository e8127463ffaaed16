//! Text that goes into a shell script.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// `text` as one word that the shell takes literally.
pub(super) fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Several words.
pub(super) fn words<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A step's id as a file name: ids hold lower-case letters, digits and dashes beside the one slash, so that nothing else
/// becomes the same name.
pub(super) fn key(id: &str) -> String {
    id.replace('/', ".")
}

/// `content` as a here-document for a function that decodes base64 from its standard input. The alphabet of base64 holds
/// neither the terminator's underscore nor anything that a shell expands.
pub(super) fn heredoc(call: &str, content: &[u8]) -> String {
    let encoded = STANDARD.encode(content);
    let mut text = format!("{call} <<'HS_END'\n");
    for line in encoded.as_bytes().chunks(4096) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str("HS_END\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_survive() {
        assert_eq!(word("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(key("node/kernel-modules"), "node.kernel-modules");
    }
}
