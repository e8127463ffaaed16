//! Rules for hosts and the ways to them.

use std::net::IpAddr;

use hostspan_playbooks::yaml::{Finding, shown};

use super::super::model::{Host, Role, Ssh, Uplink};
use super::{path_rules, texts};
use crate::host::preflight::node_name;
use crate::ssh::Jump;

/// The kernel's IFNAMSIZ without its NUL.
const MAX_INTERFACE_NAME: usize = 15;

pub(super) fn hosts(hosts: &[Host], findings: &mut Vec<Finding>) {
    if hosts.is_empty() {
        findings.push(Finding::new("spec.hosts", "a fleet needs at least one host"));
        return;
    }
    for (index, host) in hosts.iter().enumerate() {
        let at = format!("spec.hosts[{index}]");
        let earlier = &hosts[..index];
        name(&format!("{at}.name"), &host.name, earlier, findings);
        address(&format!("{at}.address"), host.address, earlier, findings);
        roles(&format!("{at}.roles"), &host.roles, earlier, findings);
        uplink(&format!("{at}.uplink"), &host.uplink, findings);
        ssh(&format!("{at}.ssh"), &host.ssh, findings);
    }
    if !hosts.iter().any(|host| host.roles.contains(&Role::ControlPlane)) {
        findings.push(
            Finding::new("spec.hosts", "no host is the control plane")
                .help("give one of them `roles: [control-plane, worker]`"),
        );
    }
}

fn name(at: &str, name: &str, earlier: &[Host], findings: &mut Vec<Finding>) {
    let node = match node_name(name) {
        Ok(node) => node,
        Err(error) => {
            let message = format!("`{}` cannot be the name of a node: {error}", shown(name));
            findings.push(Finding::new(at, message));
            return;
        }
    };
    if let Some(other) = earlier.iter().find(|other| other.name.eq_ignore_ascii_case(name)) {
        let message = if other.name == name {
            format!("the host `{name}` is there twice")
        } else {
            format!("`{name}` and `{}` are the same node name, `{node}`", other.name)
        };
        findings.push(Finding::new(at, message));
    }
}

/// Lower-case RFC 1123: parts of letters, digits and dashes, joined by dots.
pub(super) fn is_dns_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(hostspan_playbooks::is_label)
}

fn address(at: &str, address: IpAddr, earlier: &[Host], findings: &mut Vec<Finding>) {
    let why = match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("an IPv4 address in IPv6 form; write it as IPv4"),
        IpAddr::V4(v4) if v4.is_link_local() => Some("link-local; other hosts cannot reach it"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("link-local; other hosts cannot reach it"),
        _ if address.is_loopback() => Some("a loopback address; other hosts cannot reach it"),
        _ if address.is_multicast() => Some("a multicast address, not a host's"),
        _ if address.is_unspecified() || address == IpAddr::from([255, 255, 255, 255]) => Some("not a host's address"),
        _ => None,
    };
    if let Some(why) = why {
        findings.push(Finding::new(at, format!("{address} is {why}")));
    } else if let Some(other) = earlier.iter().find(|other| other.address == address) {
        findings.push(Finding::new(at, format!("{address} is the address of `{}` already", shown(&other.name))));
    } else if let Some(first) = earlier.first().filter(|first| first.address.is_ipv4() != address.is_ipv4()) {
        findings.push(Finding::new(at, format!("{address} is of another IP version than {}", first.address)));
    }
}

fn roles(at: &str, roles: &[Role], earlier: &[Host], findings: &mut Vec<Finding>) {
    if roles.is_empty() {
        findings.push(Finding::new(at, "a host needs a role").help("leave `roles` out for a worker"));
    }
    for (index, role) in roles.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if roles[..index].contains(role) {
            findings.push(Finding::new(at, "the role is there twice"));
        } else if *role == Role::ControlPlane
            && let Some(first) = earlier.iter().find(|host| host.roles.contains(role))
        {
            findings.push(
                Finding::new(at, format!("`{}` is the control plane already", shown(&first.name)))
                    .help("one for now; three with a shared address come later"),
            );
        }
    }
}

fn uplink(at: &str, uplink: &Uplink, findings: &mut Vec<Finding>) {
    if let Some(interface) = &uplink.interface {
        let bad = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
        if interface.is_empty() || interface.len() > MAX_INTERFACE_NAME || interface.contains(bad) {
            findings.push(Finding::new(
                format!("{at}.interface"),
                format!("`{}` is not the name of an interface", shown(interface)),
            ));
        }
    }
    if let Some(mac) = &uplink.mac {
        let pair = |pair: &str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
        if mac.split(':').count() != 6 || !mac.split(':').all(pair) {
            findings.push(
                Finding::new(format!("{at}.mac"), format!("`{}` is not a MAC address", shown(mac)))
                    .help("six pairs of hex digits in quotes: \"52:54:00:12:34:56\""),
            );
        }
        if uplink.interface.is_some() {
            findings.push(Finding::new(at, "give `interface` or `mac`, not both"));
        }
    }
}

pub(super) fn ssh(at: &str, ssh: &Ssh, findings: &mut Vec<Finding>) {
    if let Some(user) = &ssh.user
        && !is_user(user)
    {
        findings.push(Finding::new(format!("{at}.user"), format!("`{}` is not a login name", shown(user))));
    }
    if ssh.port == Some(0) {
        findings.push(Finding::new(format!("{at}.port"), "0 is not a port"));
    }
    for (key, paths) in [("identityFiles", &ssh.identity_files), ("knownHosts", &ssh.known_hosts)] {
        for (index, path) in paths.iter().enumerate() {
            path_rules(&format!("{at}.{key}[{index}]"), path, findings);
        }
    }
    if let Some(config) = &ssh.config {
        path_rules(&format!("{at}.config"), config, findings);
    }
    texts(&format!("{at}.jump"), &ssh.jump, findings);
    for (index, jump) in ssh.jump.iter().enumerate() {
        if !jump.trim().is_empty()
            && let Err(error) = Jump::parse(jump)
        {
            let finding = Finding::new(format!("{at}.jump[{index}]"), error);
            findings.push(finding.help("an IPv6 address with a port stands in brackets"));
        }
    }
}

fn is_user(user: &str) -> bool {
    !user.is_empty() && !user.starts_with('-') && !user.contains(|c: char| c.is_whitespace() || c.is_control())
}
