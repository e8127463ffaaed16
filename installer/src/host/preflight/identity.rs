//! Checks over the whole fleet: clones, clocks, addresses, network ranges.

use std::collections::BTreeMap;

use ipnet::{IpNet, Ipv4Net};

use super::finding::{Finding, Severity};
use crate::fleet::model::{Fleet, Host};
use crate::host::facts::Facts;

/// Certificates and leases of one host look expired or not yet valid on another beyond this.
const SPREAD_BLOCKS_MS: u64 = 5_000;
/// Clocks that are kept by any time service are far closer.
const SPREAD_WARNS_MS: u64 = 500;

type Pair<'a> = (&'a Host, &'a Facts);

pub(super) fn check(fleet: &Fleet, facts: &BTreeMap<String, Facts>) -> Vec<Finding> {
    let hosts: Vec<Pair<'_>> =
        fleet.spec.hosts.iter().filter_map(|host| Some((host, facts.get(&host.name)?))).collect();
    let mut found = clones(&hosts);
    found.extend(addresses(&hosts));
    found.extend(clocks(&hosts));
    found.extend(differences(&hosts));
    found.extend(ranges(fleet, &hosts));
    found
}

fn block(id: &str, title: impl Into<String>) -> Finding {
    Finding::new(Severity::Block, id, title)
}

/// Groups hosts that share a value; hosts without one are left out.
fn shared<'a>(hosts: &[Pair<'a>], value: impl Fn(Pair<'a>) -> Option<String>) -> Vec<(String, Vec<&'a str>)> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for &pair in hosts {
        if let Some(value) = value(pair).filter(|value| !value.is_empty()) {
            groups.entry(value).or_default().push(&pair.0.name);
        }
    }
    groups.into_iter().filter(|(_, hosts)| hosts.len() > 1).collect()
}

/// Values that tell hosts apart; equal ones mean that a disk was cloned.
fn clones(hosts: &[Pair<'_>]) -> Vec<Finding> {
    let on = |finding: Finding, hosts: Vec<&str>| hosts.into_iter().fold(finding, Finding::on);
    let mut found = Vec::new();
    for (name, hosts) in shared(hosts, |(_, facts)| Some(facts.hostname.to_lowercase())) {
        let fix: Vec<String> =
            hosts[1..].iter().map(|host| format!("on {host}: hostnamectl set-hostname {host}")).collect();
        let finding = block("duplicate-hostname", format!("{} hosts call themselves {name}", hosts.len()))
            .detail("they are told apart by name in logs, leases and certificates")
            .fix(fix.join("; "));
        found.push(on(finding, hosts));
    }
    for (id, hosts) in shared(hosts, |(_, facts)| Some(facts.machine_id.clone())) {
        let finding = block("machine-id", format!("{} hosts have the machine-id {id}", hosts.len()))
            .detail("cloned hosts get the same bridge MAC and the same DHCP lease from it")
            .fix(format!(
                "on {}: rm -f /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; reboot",
                hosts[1..].join(", ")
            ));
        found.push(on(finding, hosts));
    }
    // A container shows its machine's UUID, which says nothing about the container.
    let uuid = |(_, facts): Pair<'_>| facts.product_uuid.clone().filter(|_| facts.platform.container.is_none());
    for (uuid, hosts) in shared(hosts, uuid) {
        let finding = block("product-uuid", format!("{} hosts have the product UUID {uuid}", hosts.len()))
            .detail("libvirt takes hosts with one UUID for one host and refuses to migrate guests between them")
            .fix("give each virtual machine its own UUID; on bare metal set `host_uuid` in /etc/libvirt/libvirtd.conf")
            .acknowledgeable();
        found.push(on(finding, hosts));
    }
    let mac = |(host, facts): Pair<'_>| facts.uplink(host).map(|uplink| uplink.mac.clone());
    for (mac, hosts) in shared(hosts, mac) {
        let finding = block("duplicate-mac", format!("{} hosts have the uplink MAC address {mac}", hosts.len()))
            .detail("the LAN's switches send each frame to only one of them")
            .fix(format!("give {} another MAC address", hosts[1..].join(", ")));
        found.push(on(finding, hosts));
    }
    found
}

/// One host's node address must not be on another host too.
fn addresses(hosts: &[Pair<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (host, _) in hosts {
        for (other, facts) in hosts.iter().filter(|(other, _)| other.address != host.address) {
            let Some(held) = facts.addresses.iter().find(|held| held.address.addr() == host.address) else { continue };
            found.push(
                block("duplicate-address", format!("{} has {}'s address {}", other.name, host.name, host.address))
                    .on(&host.name)
                    .on(&other.name)
                    .detail("the LAN sends what is for the one host to the other at times")
                    .fix(format!("on {}: ip addr del {} dev {}", other.name, held.address, held.interface)),
            );
        }
    }
    found
}

fn clocks(hosts: &[Pair<'_>]) -> Vec<Finding> {
    let known = || hosts.iter().filter(|(_, facts)| facts.clock_error_ms < u64::MAX);
    let Some((behind, early)) = known().min_by_key(|(_, facts)| facts.clock_offset_ms) else { return Vec::new() };
    let Some((ahead, late)) = known().max_by_key(|(_, facts)| facts.clock_offset_ms) else { return Vec::new() };
    let error = early.clock_error_ms.saturating_add(late.clock_error_ms);
    // What slow round trips may have added is not held against the hosts.
    let spread = late.clock_offset_ms.abs_diff(early.clock_offset_ms).saturating_sub(error);
    if spread < SPREAD_WARNS_MS {
        return Vec::new();
    }
    let severity = if spread > SPREAD_BLOCKS_MS { Severity::Block } else { Severity::Warn };
    let seconds = |ms: u64| format!("{}.{}", ms / 1000, ms % 1000 / 100);
    let title = format!("{} is {} s ahead of {}", ahead.name, seconds(spread), behind.name);
    vec![
        Finding::new(severity, "clock-spread", title)
            .on(&ahead.name)
            .on(&behind.name)
            .detail("certificates made on one host are not yet valid on another, and leases end at the wrong time")
            .fix("on both: timedatectl set-ntp true, then compare `timedatectl` again"),
    ]
}

/// Things in which hosts may differ, but which a person should know.
fn differences(hosts: &[Pair<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut differ = |values: Vec<(&str, String)>, id: &str, title: &str, detail: &str, fix: &str| {
        if values.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            return;
        }
        let list: Vec<String> = values.iter().map(|(host, value)| format!("{host}: {value}")).collect();
        let finding = Finding::new(Severity::Warn, id, title)
            .detail(format!("{}; {detail}", list.join(", ")))
            .fix(fix)
            .acknowledgeable();
        found.push(values.iter().fold(finding, |finding, (host, _)| finding.on(host)));
    };
    let uplinks = hosts.iter().filter_map(|&(host, facts)| Some((host.name.as_str(), facts.uplink(host)?)));
    differ(
        uplinks.map(|(host, uplink)| (host, uplink.mtu.to_string())).collect(),
        "mtu-mismatch",
        "the uplinks have different MTUs",
        "big packets from the one are lost at the other, which looks like a hang",
        "set the same MTU on all uplinks and on the switch",
    );
    let models = hosts.iter().filter(|(_, facts)| !facts.cpu_model.is_empty());
    differ(
        models.map(|(host, facts)| (host.name.as_str(), facts.cpu_model.clone())).collect(),
        "cpu-model",
        "the hosts have different CPUs",
        "a guest that sees the host's own CPU model cannot be migrated between them",
        "give guests that are to be migrated a CPU model that all hosts have",
    );
    found
}

/// Pods and services must not have addresses that a host reaches elsewhere.
fn ranges(fleet: &Fleet, hosts: &[Pair<'_>]) -> Vec<Finding> {
    let network = &fleet.spec.network;
    let mut found = Vec::new();
    for &(host, facts) in hosts {
        for (key, range) in [("pods", network.pods), ("services", network.services)] {
            // On a host of ours the pods' routes are our own.
            let ours = |net: &IpNet| key == "pods" && facts.is_ours(fleet) && range.contains(net);
            let Some((net, interface)) = networks(facts).find(|(net, _)| overlap(net, &range) && !ours(net)) else {
                continue;
            };
            let free = free_range(fleet, hosts);
            let free = free.map_or("a range that no host has".to_owned(), |free| free.to_string());
            found.push(
                block("cidr-overlap", format!("spec.network.{key} {range} overlaps {net} on {interface}"))
                    .on(&host.name)
                    .detail("what the host has there could not be reached any more, or pods could not")
                    .fix(format!("set spec.network.{key} to {free}")),
            );
        }
    }
    found
}

/// Everything that a host reaches by a route or has as an address, apart from default routes and link-local ones.
fn networks(facts: &Facts) -> impl Iterator<Item = (IpNet, &str)> {
    let routes = facts.routes.iter().filter_map(|route| Some((route.destination?, route.interface.as_str())));
    let addresses = facts.addresses.iter().map(|held| (held.address.trunc(), held.interface.as_str()));
    routes.chain(addresses).filter(|(net, _)| match net {
        IpNet::V4(net) => !net.addr().is_link_local() && net.prefix_len() > 0,
        IpNet::V6(net) => !net.addr().is_unicast_link_local() && net.prefix_len() > 0,
    })
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// A /16 that neither a host nor the fleet file has.
fn free_range(fleet: &Fleet, hosts: &[Pair<'_>]) -> Option<IpNet> {
    let network = &fleet.spec.network;
    let candidates = (0..=255).rev().map(|second| IpNet::from(Ipv4Net::new_assert([10, second, 0, 0].into(), 16)));
    candidates.into_iter().find(|range| {
        let taken = hosts.iter().any(|(_, facts)| networks(facts).any(|(net, _)| overlap(&net, range)));
        !taken && !overlap(range, &network.pods) && !overlap(range, &network.services)
    })
}
