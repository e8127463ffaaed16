//! Preflight's findings for people: what blocks first, where, and the exact fix.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::host::preflight::{Finding, Severity};
use crate::progress::human;
use crate::progress::paint::Paint;

/// Columns that a line takes at most.
const WIDTH: usize = 100;
/// Where details stand.
const INDENT: usize = 12;
/// Columns of a label.
const LABEL: usize = 5;

/// All findings, the worst first. What is accepted is only named.
pub(super) fn render(findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.severity {
            Severity::Block => paint.red("BLOCKED "),
            Severity::FixWithConsent => paint.yellow("WILL FIX"),
            Severity::Warn => paint.yellow("WARNING "),
            Severity::Note => paint.dim("ACCEPTED"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{mark}  {}  {}", paint.bold(&hosts(finding)), finding.title);
        if finding.severity == Severity::Note {
            continue;
        }
        for line in wrap(&finding.detail, WIDTH - INDENT) {
            let _ = writeln!(text, "{:INDENT$}{}", "", paint.dim(&line));
        }
        let by_apply = finding.severity == Severity::FixWithConsent;
        let (head, fix) = match finding.fix.strip_prefix("apply ") {
            Some(rest) if by_apply => ("apply", rest),
            _ => ("fix:", finding.fix.as_str()),
        };
        labelled(&mut text, head, fix, paint);
        if finding.acknowledgeable && finding.severity == Severity::Block {
            labelled(&mut text, "or:", &format!("add `{}` to spec.acknowledge of the fleet file", finding.id), paint);
        }
    }
    text
}

/// A label and its text, whose further lines stand below the first.
fn labelled(text: &mut String, label: &str, what: &str, paint: Paint) {
    for (i, line) in wrap(what, WIDTH - INDENT - LABEL - 1).iter().enumerate() {
        let label = if i == 0 { label } else { "" };
        let _ = writeln!(text, "{:INDENT$}{} {line}", "", paint.cyan(&format!("{label:<LABEL$}")));
    }
}

/// Breaks lines at spaces; a word that is longer than a line stays whole, since it may be a command to copy.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

fn hosts(finding: &Finding) -> String {
    if finding.hosts.is_empty() { "fleet".into() } else { finding.hosts.join(", ") }
}

/// What follows from the findings, with the hosts that block: on a full screen their findings have scrolled away.
pub(super) fn verdict(findings: &[Finding], hosts: usize) -> String {
    let of = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let (blocked, fixed, warned) = (of(Severity::Block), of(Severity::FixWithConsent), of(Severity::Warn));
    let mut parts = Vec::new();
    if blocked > 0 {
        let hosts = findings.iter().filter(|f| f.severity == Severity::Block).flat_map(|f| &f.hosts);
        let hosts: Vec<&str> = hosts.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
        let on = if hosts.is_empty() { String::new() } else { format!(" ({})", hosts.join(", ")) };
        parts.push(format!("{} in the way{on}", human::count(blocked, "thing")));
    }
    if fixed > 0 {
        parts.push(format!("{} that apply mends", human::count(fixed, "thing")));
    }
    if warned > 0 {
        parts.push(human::count(warned, "warning"));
    }
    let counts = if parts.is_empty() { "nothing found".to_owned() } else { parts.join(", ") };
    let next = if blocked > 0 { "\nmend what is BLOCKED, then run `hostspan check` again" } else { "" };
    format!("{} checked: {counts}{next}", human::count(hosts, "host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, hosts: &[&str]) -> Finding {
        Finding {
            id: "swap-on".into(),
            severity,
            hosts: hosts.iter().map(ToString::to_string).collect(),
            title: "swap is on".into(),
            detail: "/dev/sda2".into(),
            fix: "swapoff -a\nedit /etc/fstab".into(),
            acknowledgeable: severity == Severity::Block,
        }
    }

    #[test]
    fn a_blocking_finding_shows_where_and_the_exact_fix() {
        assert_eq!(
            render(&[finding(Severity::Block, &["kvm-01", "kvm-02"])], Paint::plain()),
            "BLOCKED   kvm-01, kvm-02  swap is on\n            /dev/sda2\n            fix:  swapoff -a\n                  \
             edit /etc/fstab\n            or:   add `swap-on` to spec.acknowledge of the fleet file\n"
        );
    }

    #[test]
    fn what_apply_mends_is_not_a_task_for_a_person() {
        let mut mended = finding(Severity::FixWithConsent, &[]);
        mended.fix = "apply switches it off".into();
        let text = render(&[mended], Paint::plain());
        assert!(text.starts_with("WILL FIX  fleet  swap is on\n"), "{text}");
        assert!(text.ends_with("            apply switches it off\n"), "{text}");
    }

    #[test]
    fn what_is_accepted_is_only_named() {
        assert_eq!(render(&[finding(Severity::Note, &["a"])], Paint::plain()), "ACCEPTED  a  swap is on\n");
    }

    #[test]
    fn long_lines_break_at_spaces_and_long_words_stay_whole() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a http://example.test/long b", 10), ["a", "http://example.test/long", "b"]);
    }

    #[test]
    fn the_verdict_counts_by_weight() {
        let findings =
            [finding(Severity::Block, &["b", "a"]), finding(Severity::Warn, &[]), finding(Severity::Warn, &[])];
        assert_eq!(
            verdict(&findings, 3),
            "3 hosts checked: 1 thing in the way (a, b), 2 warnings\nmend what is BLOCKED, then run `hostspan check` again"
        );
        assert_eq!(verdict(&findings[1..], 3), "3 hosts checked: 2 warnings");
        assert_eq!(verdict(&[], 1), "1 host checked: nothing found");
    }
}
