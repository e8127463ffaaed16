//! The one function that turns text into a shell word.

use std::borrow::Cow;

/// Quotes `text` so that a POSIX shell (and the usual login shells) reads it as exactly one word with exactly these bytes.
///
/// A NUL byte cannot be part of a shell word at all; shells drop it, and so must the caller where that matters.
pub fn quote(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::quote;

    #[test]
    fn plain_words_stay_readable() {
        assert_eq!(quote("/var/lib/hostspan"), "/var/lib/hostspan");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("~root"), "'~root'");
    }

    proptest! {
        #[test]
        fn a_shell_reads_back_what_was_quoted(text in "[^\0]{0,40}", other in r#"['"\\$` \n!*?~#&;|<>-]{0,12}"#) {
            let script = format!("printf '[%s][%s]' {} {}", quote(&text), quote(&other));
            let out = Command::new("sh").arg("-c").arg(script).output().unwrap();
            prop_assert_eq!(String::from_utf8(out.stdout).unwrap(), format!("[{text}][{other}]"));
        }
    }
}
