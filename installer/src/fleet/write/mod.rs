//! A fleet file for people: what is set, and a comment for what they are likely to want next.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::model::{Artifacts, Fleet, Host, Kubernetes, Network, Runtime, Ssh, Uplink};

/// The text of a fleet file that loads back equal to `fleet`. What has its default value is left out.
pub fn render_fleet(fleet: &Fleet) -> String {
    let mut lines = Lines::default();
    lines.put(0, &format!("apiVersion: {}", scalar(&fleet.api_version)));
    lines.put(0, &format!("kind: {}", scalar(&fleet.kind)));
    lines.put(0, "metadata:");
    lines.put(1, &format!("name: {}  # of the cluster", scalar(&fleet.metadata.name)));
    lines.put(0, "spec:");
    let spec = &fleet.spec;
    if spec.ssh != Ssh::default() {
        lines.put(1, "# What stands here wins over ~/.ssh/config.");
        lines.put(1, "ssh:");
        ssh(&mut lines, 2, &spec.ssh);
    }
    lines.put(1, "hosts:");
    for item in &spec.hosts {
        host(&mut lines, item);
    }
    if spec.hosts.is_empty() {
        lines.replace_last("hosts: []");
    }
    network(&mut lines, &spec.network);
    kubernetes(&mut lines, &spec.kubernetes);
    if spec.runtime != Runtime::default() {
        lines.put(1, "runtime:");
        lines.put(2, &format!("restrictOomScoreAdj: {}", spec.runtime.restrict_oom_score_adj));
    }
    artifacts(&mut lines, &spec.artifacts);
    if !spec.playbooks.is_empty() {
        lines.put(1, "# Your own playbooks: files or folders.");
        lines.list(1, "playbooks", spec.playbooks.iter().map(|path| path_scalar(path)));
    }
    if !spec.acknowledge.is_empty() {
        lines.put(1, "# Findings of `hostspan check` that are accepted.");
        lines.list(1, "acknowledge", spec.acknowledge.iter().map(|name| scalar(name)));
    }
    lines.text
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn put(&mut self, depth: usize, line: &str) {
        self.text.extend(std::iter::repeat_n("  ", depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn list(&mut self, depth: usize, key: &str, items: impl Iterator<Item = String>) {
        let items: Vec<String> = items.collect();
        if !items.is_empty() {
            self.put(depth, &format!("{key}: [{}]", items.join(", ")));
        }
    }

    fn option(&mut self, depth: usize, key: &str, value: Option<String>) {
        if let Some(value) = value {
            self.put(depth, &format!("{key}: {value}"));
        }
    }

    fn replace_last(&mut self, line: &str) {
        let end = self.text.trim_end().rfind('\n').map_or(0, |end| end + 1);
        self.text.truncate(end);
        self.put(1, line);
    }
}

fn ssh(lines: &mut Lines, depth: usize, ssh: &Ssh) {
    lines.option(depth, "user", ssh.user.as_deref().map(scalar));
    lines.option(depth, "port", ssh.port.map(|port| port.to_string()));
    lines.list(depth, "identityFiles", ssh.identity_files.iter().map(|path| path_scalar(path)));
    lines.list(depth, "jump", ssh.jump.iter().map(|jump| scalar(jump)));
    lines.list(depth, "knownHosts", ssh.known_hosts.iter().map(|path| path_scalar(path)));
    lines.option(depth, "config", ssh.config.as_deref().map(path_scalar));
}

fn host(lines: &mut Lines, host: &Host) {
    lines.put(2, &format!("- name: {}", scalar(&host.name)));
    lines.put(3, &format!("address: {}", scalar(&host.address.to_string())));
    lines.put(3, &format!("roles: {}", flow(&host.roles)));
    if host.uplink != Uplink::default() {
        lines.put(3, "uplink:");
        lines.option(4, "interface", host.uplink.interface.as_deref().map(scalar));
        lines.option(4, "mac", host.uplink.mac.as_deref().map(scalar));
    }
    if host.ssh != Ssh::default() {
        lines.put(3, "ssh:");
        ssh(lines, 4, &host.ssh);
    }
}

fn network(lines: &mut Lines, network: &Network) {
    lines.put(1, "# No host and nothing that the hosts talk to may have an address in these two.");
    lines.put(1, "network:");
    lines.put(2, &format!("pods: {}", scalar(&network.pods.to_string())));
    lines.put(2, &format!("services: {}", scalar(&network.services.to_string())));
    lines.put(2, &format!("cni: {}  # or none: bring your own", flow(&network.cni)));
}

fn kubernetes(lines: &mut Lines, kubernetes: &Kubernetes) {
    lines.put(1, "kubernetes:");
    lines.put(2, &format!("version: {}", scalar(&kubernetes.version)));
    if !kubernetes.kubelet.is_empty() {
        lines.put(2, "kubelet:");
        for (key, value) in &kubernetes.kubelet {
            lines.put(3, &format!("{}: {}", scalar(key), flow(value)));
        }
    }
    lines.list(2, "ignorePreflightErrors", kubernetes.ignore_preflight_errors.iter().map(|name| scalar(name)));
    lines.list(2, "certSans", kubernetes.cert_sans.iter().map(|name| scalar(name)));
}

fn artifacts(lines: &mut Lines, artifacts: &Artifacts) {
    if *artifacts == Artifacts::default() {
        return;
    }
    lines.put(1, "artifacts:");
    lines.put(2, &format!("source: {}", flow(&artifacts.source)));
    lines.option(2, "path", artifacts.path.as_deref().map(path_scalar));
    lines.option(2, "url", artifacts.url.as_deref().map(scalar));
    lines.option(2, "proxy", artifacts.proxy.as_deref().map(scalar));
}

fn path_scalar(path: &Path) -> String {
    scalar(&path.to_string_lossy())
}

/// A value in YAML's flow style, which JSON is; texts without quotes where they need none.
fn flow(value: &impl serde::Serialize) -> String {
    fn write(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => out.push_str(&scalar(text)),
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    write(item, out);
                }
                out.push(']');
            }
            Value::Object(entries) => {
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "{}{}: ", if index > 0 { ", " } else { "" }, scalar(key));
                    write(value, out);
                }
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
    }
    let mut out = String::new();
    // The fleet's types have no map keys that JSON could refuse.
    write(&serde_json::to_value(value).unwrap_or(Value::Null), &mut out);
    out
}

/// A text, in quotes unless no reader of YAML 1.1 or 1.2 could take it for something else.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '~')
        && text != "~"
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/@~-".contains(&b));
    let address = text.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_ipv4())
        || text.parse::<ipnet::IpNet>().is_ok_and(|net| net.addr().is_ipv4())
        || is_version(text);
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if (plain && !word.iter().any(|word| word.eq_ignore_ascii_case(text))) || address {
        text.to_owned()
    } else {
        Value::String(text.to_owned()).to_string()
    }
}

/// Three numbers are a text to every reader.
fn is_version(text: &str) -> bool {
    text.split('.').count() == 3
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
