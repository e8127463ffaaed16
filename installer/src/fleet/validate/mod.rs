//! The rules between the fields of a fleet file. Pure; a finding names its value by path, `load` adds line and column.

mod host;
mod network;

use std::ops::RangeInclusive;
use std::path::Path;

use hostspan_manifests::names::API_VERSION;
use hostspan_playbooks::is_label;
use hostspan_playbooks::yaml::{Finding, old_boolean, shown};
use serde_json::Value;

use super::model::{ArtifactSource, Artifacts, Fleet, Kubernetes};

/// What `kind` says in a fleet file.
pub const KIND: &str = "Fleet";

/// Minor versions of Kubernetes 1 that are accepted.
const KUBERNETES_MINORS: RangeInclusive<u64> = 34..=36;

/// Everything that is wrong with a fleet, apart from what only the hosts can tell.
pub fn validate(fleet: &Fleet) -> Vec<Finding> {
    let mut findings = Vec::new();
    if fleet.api_version != API_VERSION {
        findings.push(
            Finding::new("apiVersion", format!("`{}` is not known", shown(&fleet.api_version)))
                .help(format!("write `{API_VERSION}`")),
        );
    }
    if fleet.kind != KIND {
        findings.push(
            Finding::new("kind", format!("`{}` is not a fleet", shown(&fleet.kind))).help(format!("write `{KIND}`")),
        );
    }
    if !is_label(&fleet.metadata.name) {
        findings.push(
            Finding::new("metadata.name", format!("`{}` is not a name", shown(&fleet.metadata.name)))
                .help("lower-case letters, digits and dashes, at most 63"),
        );
    }
    host::ssh("spec.ssh", &fleet.spec.ssh, &mut findings);
    host::hosts(&fleet.spec.hosts, &mut findings);
    network::network(&fleet.spec.network, &fleet.spec.hosts, &mut findings);
    kubernetes(&fleet.spec.kubernetes, &mut findings);
    artifacts(&fleet.spec.artifacts, &mut findings);
    for (index, path) in fleet.spec.playbooks.iter().enumerate() {
        path_rules(&format!("spec.playbooks[{index}]"), path, &mut findings);
    }
    texts("spec.acknowledge", &fleet.spec.acknowledge, &mut findings);
    findings
}

fn kubernetes(kubernetes: &Kubernetes, findings: &mut Vec<Finding>) {
    version(&kubernetes.version, findings);
    for (key, value) in &kubernetes.kubelet {
        let path = format!("spec.kubernetes.kubelet.{key}");
        if key == "apiVersion" || key == "kind" {
            findings.push(Finding::new(path, format!("`{key}` is hostspan's to write")));
        } else {
            booleans(&path, value, findings);
        }
    }
    texts("spec.kubernetes.ignorePreflightErrors", &kubernetes.ignore_preflight_errors, findings);
    for (index, name) in kubernetes.cert_sans.iter().enumerate() {
        let host = name.strip_prefix("*.").unwrap_or(name);
        if name.parse::<std::net::IpAddr>().is_err() && !host::is_dns_name(host) {
            findings.push(Finding::new(
                format!("spec.kubernetes.certSans[{index}]"),
                format!("`{}` is neither an address nor a DNS name", shown(name)),
            ));
        }
    }
}

fn version(version: &str, findings: &mut Vec<Finding>) {
    let (low, high) = (KUBERNETES_MINORS.start(), KUBERNETES_MINORS.end());
    let path = "spec.kubernetes.version";
    let parts: Option<Vec<u64>> =
        version.trim_start_matches('v').split('.').map(|part| part.parse().ok().filter(|_| is_number(part))).collect();
    let finding = match parts.as_deref() {
        Some([1, minor, _]) if KUBERNETES_MINORS.contains(minor) && !version.starts_with('v') => return,
        Some([1, minor, _]) if KUBERNETES_MINORS.contains(minor) => {
            Finding::new(path, format!("`{}` begins with a v", shown(version)))
                .help(format!("write `{}`", version.trim_start_matches('v')))
        }
        Some([1, minor]) if KUBERNETES_MINORS.contains(minor) => {
            Finding::new(path, format!("`{}` has no patch version", shown(version)))
                .help(format!("write all three numbers: `1.{minor}.0` or a later patch"))
        }
        Some([_, _] | [_, _, _]) => Finding::new(path, format!("Kubernetes {} is not supported", shown(version)))
            .help(format!("1.{low} to 1.{high} are")),
        _ => Finding::new(path, format!("`{}` is not a version of Kubernetes", shown(version)))
            .help("three numbers: `1.36.3`"),
    };
    findings.push(finding);
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
}

/// The kubelet would refuse the text that YAML 1.2 makes of these words, and only on the host.
fn booleans(path: &str, value: &Value, findings: &mut Vec<Finding>) {
    match value {
        Value::String(word) => {
            if let Some(meant) = old_boolean(word) {
                findings
                    .push(Finding::new(path, format!("`{word}` is not a boolean")).help(format!("write `{meant}`")));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                booleans(&format!("{path}[{index}]"), item, findings);
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                booleans(&format!("{path}.{key}"), value, findings);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn artifacts(artifacts: &Artifacts, findings: &mut Vec<Finding>) {
    let mut add = |key: &str, message: &str| findings.push(Finding::new(format!("spec.artifacts{key}"), message));
    match (artifacts.source, &artifacts.path) {
        (ArtifactSource::Folder, None) => add("", "`source: folder` needs `path`, the folder with artifacts.yaml"),
        (ArtifactSource::Official | ArtifactSource::Mirror, Some(_)) => add(".path", "is only for `source: folder`"),
        _ => {}
    }
    match (artifacts.source, &artifacts.url) {
        (ArtifactSource::Mirror, None) => add("", "`source: mirror` needs `url`, the mirror's base URL"),
        (ArtifactSource::Official | ArtifactSource::Folder, Some(_)) => add(".url", "is only for `source: mirror`"),
        (ArtifactSource::Mirror, Some(url)) if !is_http(url) => add(".url", "is not an http:// or https:// URL"),
        _ => {}
    }
    // Its text is not shown: it may hold a password.
    if artifacts.proxy.as_deref().is_some_and(|proxy| !is_http(proxy)) {
        add(".proxy", "is not an http:// or https:// URL");
    }
    if let Some(path) = &artifacts.path {
        path_rules("spec.artifacts.path", path, findings);
    }
}

fn is_http(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

/// Rules of every path that stands in the file.
fn path_rules(at: &str, path: &Path, findings: &mut Vec<Finding>) {
    let text = path.to_string_lossy();
    if text.is_empty() {
        findings.push(Finding::new(at, "must not be empty"));
    } else if text.starts_with('~') && !(text == "~" || text.starts_with("~/")) {
        findings.push(Finding::new(at, format!("`{}`: another user's `~` is not looked up", shown(&text))));
    }
}

/// Rules of a list of words.
fn texts(at: &str, words: &[String], findings: &mut Vec<Finding>) {
    for (index, word) in words.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if word.trim().is_empty() {
            findings.push(Finding::new(at, "must not be empty"));
        } else if words[..index].contains(word) {
            findings.push(Finding::new(at, format!("`{}` is there twice", shown(word))));
        }
    }
}
