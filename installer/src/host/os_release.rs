//! /etc/os-release, as os-release(5) has it: shell-like assignments without expansion.

use std::collections::BTreeMap;

/// Its assignments. Lines that are none are passed over; the last of equal keys counts.
pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
    let assignment = |line: &'a str| {
        let line = line.trim();
        let (key, value) = line.split_once('=')?;
        let named = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        named.then(|| (key.to_owned(), unquote(value)))
    };
    lines.into_iter().filter_map(assignment).collect()
}

/// Takes shell quotes away: `"a \"b\""`, `'a'`, `a\ b`, and any of them side by side.
fn unquote(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut quote = None;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            // Inside double quotes a backslash quotes only what is special there.
            (Some('"'), '\\') => match chars.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => out.push(next),
                Some(next) => out.extend(['\\', next]),
                None => out.push('\\'),
            },
            (None, '\\') => out.extend(chars.next()),
            (None, ' ' | '\t') => break,
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_of_every_kind_are_taken_away() {
        for (written, value) in [
            (r"ID=debian", "debian"),
            (r#"ID="debian""#, "debian"),
            ("ID='debian'", "debian"),
            (r#"ID="Ubuntu \"Noble\" \$1 \n""#, r#"Ubuntu "Noble" $1 \n"#),
            (r"ID='it'\''s'", "it's"),
            ("ID=debian # a comment", "debian"),
            (r#"ID="never closed"#, "never closed"),
            ("  ID=debian\r", "debian"),
            ("ID=", ""),
        ] {
            assert_eq!(parse([written]).get("ID").map(String::as_str), Some(value), "{written}");
        }
    }

    #[test]
    fn other_lines_are_passed_over() {
        assert!(parse(["# ID=x", "", "nonsense", "=x", "A B=c"]).is_empty());
        assert_eq!(parse(["ID=a", "ID=b"])["ID"], "b");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            parse(text.lines());
        }

        #[test]
        fn a_quoted_value_comes_back(value in "[^\"\\\\$`\r\n]*") {
            let line = format!("K=\"{value}\"");
            prop_assert_eq!(&parse([line.as_str()])["K"], &value);
        }
    }
}
