//! Preflight's findings for people: what blocks first, where, and the exact fix.

use std::fmt::Write as _;

use crate::host::preflight::{Finding, Severity};
use crate::progress::human;
use crate::progress::paint::Paint;

/// All findings, the worst first.
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
        for line in finding.detail.lines() {
            let _ = writeln!(text, "            {}", paint.dim(line));
        }
        let head = if finding.severity == Severity::FixWithConsent { "apply:" } else { "fix:" };
        for (i, line) in finding.fix.lines().enumerate() {
            let head = if i == 0 { format!("{head:<6}") } else { " ".repeat(6) };
            let _ = writeln!(text, "            {} {line}", paint.cyan(&head));
        }
        if finding.acknowledgeable && finding.severity == Severity::Block {
            let _ = writeln!(
                text,
                "            {} add `{}` to spec.acknowledge of the fleet file",
                paint.cyan("or:   "),
                finding.id
            );
        }
    }
    text
}

fn hosts(finding: &Finding) -> String {
    if finding.hosts.is_empty() { "fleet".into() } else { finding.hosts.join(", ") }
}

/// One line that says what follows from the findings.
pub(super) fn verdict(findings: &[Finding], hosts: usize) -> String {
    let of = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let (blocked, fixed, warned) = (of(Severity::Block), of(Severity::FixWithConsent), of(Severity::Warn));
    let mut parts = Vec::new();
    if blocked > 0 {
        parts.push(format!("{} in the way", human::count(blocked, "thing")));
    }
    if fixed > 0 {
        parts.push(format!("{} that apply mends", human::count(fixed, "thing")));
    }
    if warned > 0 {
        parts.push(human::count(warned, "warning"));
    }
    let counts = if parts.is_empty() { "nothing found".to_owned() } else { parts.join(", ") };
    format!("{} checked: {counts}", human::count(hosts, "host"))
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
            "BLOCKED   kvm-01, kvm-02  swap is on\n            /dev/sda2\n            fix:   swapoff -a\n                   \
             edit /etc/fstab\n            or:    add `swap-on` to spec.acknowledge of the fleet file\n"
        );
    }

    #[test]
    fn what_apply_mends_is_not_a_task_for_a_person() {
        let text = render(&[finding(Severity::FixWithConsent, &[])], Paint::plain());
        assert!(text.starts_with("WILL FIX  fleet  swap is on\n"), "{text}");
        assert!(text.contains("            apply: swapoff -a\n"), "{text}");
    }

    #[test]
    fn the_verdict_counts_by_weight() {
        let findings = [finding(Severity::Block, &[]), finding(Severity::Warn, &[]), finding(Severity::Warn, &[])];
        assert_eq!(verdict(&findings, 3), "3 hosts checked: 1 thing in the way, 2 warnings");
        assert_eq!(verdict(&[], 1), "1 host checked: nothing found");
    }
}
