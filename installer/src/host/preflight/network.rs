//! Checks of a host's network: its address, its uplink, what filters, who answers DNS.

use std::net::IpAddr;

use super::finding::Finding;
use super::{Subject, kubelet_resolv_conf, ports};
use crate::host::facts::{Address, Interface, NetworkOwner};

/// Below this, live migration and image pulls take hours.
const GOOD_SPEED_MBPS: u32 = 1000;

pub(super) fn check(subject: &Subject<'_>, out: &mut Vec<Finding>) {
    out.extend(address(subject));
    out.extend(uplink(subject));
    out.extend(filters(subject));
    out.extend(bridge_nf(subject));
    out.extend(resolv_conf(subject));
    out.extend(hosts_entry(subject));
}

fn address(subject: &Subject<'_>) -> Option<Finding> {
    let (address, facts) = (subject.host.address, subject.facts);
    // Without any interface, `interfaces` has told it.
    if facts.interfaces.is_empty() || facts.addresses.iter().any(|held| held.address.addr() == address) {
        return None;
    }
    let reachable = |held: &&Address| {
        let addr = held.address.addr();
        !addr.is_loopback() && addr.is_ipv4() == address.is_ipv4() && !is_link_local(addr)
    };
    let held: Vec<String> = facts
        .addresses
        .iter()
        .filter(reachable)
        .map(|held| format!("{} on {}", held.address.addr(), held.interface))
        .collect();
    let finding = subject
        .block("address", format!("no interface has the address {address}"))
        .detail(format!(
            "the node gets this address, so it must be on the host itself and not on a gateway before it; the host has {}",
            if held.is_empty() { "none of that kind".to_owned() } else { held.join(", ") }
        ))
        .fix("set the host's `address` in the fleet file to one of these, and reach it through `ssh.jump` if need be");
    Some(finding)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn uplink(subject: &Subject<'_>) -> Vec<Finding> {
    let facts = subject.facts;
    if facts.interfaces.is_empty() {
        return Vec::new();
    }
    let Some(uplink) = facts.uplink(subject.host) else {
        let names: Vec<&str> = facts.interfaces.iter().map(|interface| interface.name.as_str()).collect();
        let wanted = &subject.host.uplink;
        let wanted = wanted.interface.as_ref().or(wanted.mac.as_ref());
        let title = match wanted {
            Some(wanted) => format!("there is no uplink {wanted}"),
            None => "no default route tells the uplink".to_owned(),
        };
        return vec![
            subject
                .block("uplink", title)
                .detail(format!("the host has {}", names.join(", ")))
                .fix("set the host's `uplink.interface` in the fleet file"),
        ];
    };
    let Interface { name, .. } = uplink;
    let mut found = Vec::new();
    if uplink.kind == "wlan" {
        found.push(
            subject
                .warn("uplink-wifi", format!("the uplink {name} is wireless"))
                .detail(
                    "an access point refuses frames of other MAC addresses, so it cannot be bridged: virtual machines \
                     would not get onto the LAN",
                )
                .fix("use a cable, and set the host's `uplink.interface` to its NIC")
                .acknowledgeable(),
        );
    }
    if uplink.owner == NetworkOwner::NetworkManager {
        found.push(
            subject
                .warn("uplink-networkmanager", format!("NetworkManager configures the uplink {name}"))
                .detail("hostspan makes bridges with netplan, systemd-networkd or ifupdown and leaves this one alone")
                .fix(format!("move {name} to netplan with `renderer: networkd` before you ask for a bridge on it"))
                .acknowledgeable(),
        );
    }
    if let Some(speed) = uplink.speed_mbps.filter(|speed| *speed < GOOD_SPEED_MBPS) {
        found.push(
            subject
                .warn("nic-speed", format!("the uplink {name} runs at {speed} Mb/s"))
                .detail("guests, images and migrations share it")
                .fix(format!("look at the cable and the switch port: ethtool {name}"))
                .acknowledgeable(),
        );
    }
    found
}

/// Whatever drops forwarded packets drops the pods': an accept in our own table does not help, since every table must
/// let a packet pass.
fn filters(subject: &Subject<'_>) -> Option<Finding> {
    let (facts, pods) = (subject.facts, subject.fleet.spec.network.pods);
    if facts.ufw_enabled {
        let finding = subject
            .block("ufw", "ufw is on")
            .detail("it drops what is routed to and from pods, and the nodes' ports; DNS fails first")
            .fix(ufw_rules(subject).join("; "))
            .acknowledgeable();
        return Some(finding);
    }
    if facts.unit_active("firewalld.service") {
        let sources = peers(subject).into_iter().chain([pods.to_string()]);
        let rules: Vec<String> =
            sources.map(|source| format!("firewall-cmd --permanent --zone=trusted --add-source={source}")).collect();
        let finding = subject
            .block("firewalld", "firewalld is on")
            .detail("it refuses what is routed to and from pods, and the nodes' ports")
            .fix(format!("{}; firewall-cmd --reload", rules.join("; ")))
            .acknowledgeable();
        return Some(finding);
    }
    forward_drop(subject)
}

fn forward_drop(subject: &Subject<'_>) -> Option<Finding> {
    let (facts, pods) = (subject.facts, subject.fleet.spec.network.pods);
    // The other IP version's chain only sees bridged guests.
    let other = if pods.addr().is_ipv4() { "ip6tables " } else { "iptables " };
    let hits = |chain: &&String| facts.bridge_nf_call || !chain.starts_with(other);
    let chains: Vec<&str> = facts.forward_drop.iter().filter(hits).map(String::as_str).collect();
    if chains.is_empty() {
        return None;
    }
    let by = if facts.existing.docker || facts.unit_active("docker.service") {
        "; docker sets it where it is the one that switches forwarding on, which from then on hostspan's sysctl does"
    } else {
        ""
    };
    let fix = |chain: &&str| match chain.split_once(' ') {
        Some((tool @ ("iptables" | "ip6tables"), chain)) => format!("{tool} -P {chain} ACCEPT"),
        _ => format!(
            "in /etc/nftables.conf let the chain of {chain} accept {pods} as source and as destination, then systemctl \
             reload nftables"
        ),
    };
    let fix: Vec<String> = chains.iter().map(fix).collect();
    let bridged = if facts.bridge_nf_call { ", and of bridged guests (br_netfilter)," } else { "" };
    let finding = subject
        .block("forward-drop", "forwarded packets are dropped")
        .detail(format!("the policy of {} is DROP{by}: packets of pods{bridged} are lost", chains.join(", ")))
        .fix(fix.join("; "))
        .acknowledgeable();
    Some(finding)
}

/// The other hosts' addresses.
fn peers(subject: &Subject<'_>) -> Vec<String> {
    let others = subject.fleet.spec.hosts.iter().filter(|host| host.name != subject.host.name);
    others.map(|host| host.address.to_string()).collect()
}

fn ufw_rules(subject: &Subject<'_>) -> Vec<String> {
    let pods = subject.fleet.spec.network.pods;
    let mut rules: Vec<String> = peers(subject).iter().map(|peer| format!("ufw allow from {peer}")).collect();
    if subject.is_control_plane() {
        rules.push(format!("ufw allow {}/tcp", ports::API_SERVER));
    }
    rules.push(format!("ufw allow from {pods}"));
    rules.push(format!("ufw route allow from {pods}"));
    rules.push(format!("ufw route allow to {pods}"));
    rules
}

fn bridge_nf(subject: &Subject<'_>) -> Option<Finding> {
    subject.facts.bridge_nf_call.then(|| {
        subject
            .warn("bridge-netfilter", "bridged frames go through iptables")
            .detail(
                "br_netfilter is loaded and net.bridge.bridge-nf-call-iptables is 1: firewall rules meant for the host \
                 also hit virtual machines on a bridge; hostspan does not need it",
            )
            .fix("sysctl -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0")
            .acknowledgeable()
    })
}

fn resolv_conf(subject: &Subject<'_>) -> Option<Finding> {
    // Then the admin has chosen the file.
    if subject.fleet.spec.kubernetes.kubelet.contains_key("resolvConf") {
        return None;
    }
    let reason = kubelet_resolv_conf(&subject.facts.resolv_conf).err()?;
    let finding = subject
        .block("resolv-conf", "pods would have no name server")
        .detail(format!("{reason}; CoreDNS asks what is in that file, and would ask itself or end"))
        .fix("name the LAN's DNS server in /etc/resolv.conf (or in systemd-resolved's DNS=)");
    Some(finding)
}

fn hosts_entry(subject: &Subject<'_>) -> Option<Finding> {
    let name = &subject.host.name;
    let of = |line: &str| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let address = words.next()?.parse::<IpAddr>().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    };
    let addresses: Vec<_> = subject.facts.etc_hosts.lines().filter_map(of).collect();
    if addresses.is_empty() || addresses.iter().any(|address| !address.is_loopback()) {
        return None;
    }
    let finding = subject
        .fixable("hosts-entry", format!("{name} resolves to {} only", addresses[0]))
        .detail(
            "/etc/hosts maps the node's own name to loopback, so components on it announce an address that is no use",
        )
        .fix(format!("apply adds `{} {}` to /etc/hosts", subject.host.address, name.to_ascii_lowercase()));
    Some(finding)
}
