//! What a check says, and what an acknowledgement makes of it.

use serde::Serialize;

/// How much a finding weighs; ordered, the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The admin has acknowledged it.
    Note,
    /// A person should know it; nothing stops.
    Warn,
    /// `apply` changes it, after it has said so.
    FixWithConsent,
    /// `apply` does not start.
    Block,
}

/// Something that preflight found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its name, for `spec.acknowledge` and for programs: `swap-on`, `guest:web-1`.
    pub id: String,
    /// How much it weighs.
    pub severity: Severity,
    /// The hosts that it is about, by their names in the fleet file.
    pub hosts: Vec<String>,
    /// One line without a full stop.
    pub title: String,
    /// What was seen, and what comes of it.
    pub detail: String,
    /// The exact command or setting that mends it; for [`Severity::FixWithConsent`] what `apply` does.
    pub fix: String,
    /// Whether `spec.acknowledge` may name it.
    pub acknowledgeable: bool,
}

impl Finding {
    pub(in crate::host) fn new(severity: Severity, id: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            severity,
            hosts: Vec::new(),
            title: title.into(),
            detail: String::new(),
            fix: String::new(),
            acknowledgeable: false,
        }
    }

    pub(in crate::host) fn on(mut self, host: &str) -> Self {
        self.hosts.push(host.to_owned());
        self
    }

    pub(in crate::host) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    pub(in crate::host) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    pub(in crate::host) fn acknowledgeable(mut self) -> Self {
        self.acknowledgeable = true;
        self
    }
}

/// The greatest severity, if there is any finding.
pub fn worst(findings: &[Finding]) -> Option<Severity> {
    findings.iter().map(|finding| finding.severity).max()
}

/// Turns what is acknowledged into notes, merges findings that differ only in their host, and puts the worst first.
pub(in crate::host) fn settle(found: Vec<Finding>, acknowledged: &[String]) -> Vec<Finding> {
    let mut settled: Vec<Finding> = Vec::with_capacity(found.len());
    for mut finding in found {
        if finding.acknowledgeable && acknowledged.contains(&finding.id) {
            finding.severity = Severity::Note;
        }
        let same = |other: &&mut Finding| {
            (&other.id, &other.title, &other.detail, &other.fix)
                == (&finding.id, &finding.title, &finding.detail, &finding.fix)
        };
        match settled.iter_mut().find(same) {
            Some(other) => {
                finding.hosts.retain(|host| !other.hosts.contains(host));
                other.hosts.append(&mut finding.hosts);
            }
            None => settled.push(finding),
        }
    }
    settled.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    settled
}
