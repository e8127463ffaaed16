//! Takes secrets out of what steps print.

use hostspan_playbooks::model::Action;

use super::PhaseSteps;

/// Shorter values would hide half of every message.
const SHORTEST: usize = 6;

/// Replaces what the steps of a phase hold as secrets.
pub(super) struct Redactor(Vec<String>);

impl Redactor {
    /// Knows the secrets of `phase`: what commands are given on standard input, and the content of secret files.
    pub fn new(phase: &PhaseSteps) -> Self {
        let mut secrets = Vec::new();
        for step in &phase.steps {
            match &step.step.action {
                Action::Command(command) => secrets.extend(command.input.as_deref().map(parts).into_iter().flatten()),
                Action::File(file) if file.secret => {
                    secrets.extend(file.content.as_deref().map(parts).into_iter().flatten());
                }
                _ => {}
            }
        }
        // The longest first: a line before the value inside it.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// Knows none.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// `line` without them.
    pub fn clean(&self, line: &str) -> String {
        let mut clean = line.to_owned();
        for secret in &self.0 {
            if clean.contains(secret.as_str()) {
                clean = clean.replace(secret.as_str(), "[redacted]");
            }
        }
        clean
    }
}

/// A secret text is rarely printed whole: its lines, and the values after `key: ` and `key=`, are secrets too.
fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for line in text.lines().map(str::trim) {
        let value = line.split_once(": ").or_else(|| line.split_once('=')).map(|(_, value)| value);
        for part in [Some(line), value].into_iter().flatten() {
            let part = part.trim_matches(|c: char| c == '"' || c == '\'' || c.is_whitespace());
            if part.len() >= SHORTEST {
                parts.push(part.to_owned());
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_values_of_a_secret_text_are_hidden() {
        let redactor = Redactor(parts("token: \"abcdef.0123456789\"\nkey: v1\nhunter2-canary"));
        assert_eq!(redactor.clean("joined with abcdef.0123456789 ok"), "joined with [redacted] ok");
        assert_eq!(redactor.clean("pw=hunter2-canary"), "pw=[redacted]");
        assert_eq!(redactor.clean("v1 is fine"), "v1 is fine");
    }
}
