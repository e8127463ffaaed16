//! Host patterns as OpenSSH has them, in known_hosts and in ssh_config: `*`, `?`, a leading `!`, case ignored.

/// One pattern of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    negated: bool,
    text: String,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Self {
        match text.strip_prefix('!') {
            Some(rest) => Self { negated: true, text: rest.to_lowercase() },
            None => Self { negated: false, text: text.to_lowercase() },
        }
    }
}

/// Whether a list holds for a host that goes by `names`: at least one pattern matches and no negated one does.
pub(super) fn list_matches(patterns: &[Pattern], names: &[&str]) -> bool {
    let names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let hit = |pattern: &Pattern| names.iter().any(|name| glob(&pattern.text, name));
    patterns.iter().any(|pattern| !pattern.negated && hit(pattern))
        && !patterns.iter().any(|pattern| pattern.negated && hit(pattern))
}

/// `*` and `?` only, in linear memory and at most quadratic time: the pattern may come from a file that nobody looked at.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::{Pattern, list_matches};

    #[test]
    fn lists_match_as_openssh_has_them() {
        let cases = [
            ("rack-a-*", "rack-a-1", true),
            ("rack-a-*", "rack-b-1", false),
            ("rack-?", "rack-1", true),
            ("rack-?", "rack-12", false),
            ("*", "anything", true),
            ("*.example.test", "H1.Example.Test", true),
            ("*.example.test,!h2.example.test", "h2.example.test", false),
            ("!h2", "h1", false),
            ("*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("[h1]:2222", "[h1]:2222", true),
        ];
        for (list, name, expected) in cases {
            let patterns: Vec<Pattern> = list.split(',').map(Pattern::parse).collect();
            assert_eq!(list_matches(&patterns, &[name]), expected, "{list} against {name}");
        }
    }

    #[test]
    fn a_negated_pattern_on_any_name_excludes() {
        let patterns = [Pattern::parse("kvm-*"), Pattern::parse("!192.0.2.9")];
        assert!(list_matches(&patterns, &["kvm-1", "192.0.2.1"]));
        assert!(!list_matches(&patterns, &["kvm-1", "192.0.2.9"]));
    }
}
