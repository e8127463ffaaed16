//! Rules for the pod and service networks.

use hostspan_playbooks::yaml::{Finding, shown};
use ipnet::IpNet;

use super::super::model::{Host, Network};

/// The most bits that a node's network may be smaller than the cluster's: kubeadm's `PodSubnetNodeMaskMaxDiff`.
const MAX_NODE_BITS: u8 = 16;
/// The most host bits of a service network: kubeadm's `MaximumBitsForServiceSubnet`.
const MAX_SERVICE_BITS: u8 = 20;
/// The fewest: kubeadm wants 10 addresses, and gives CoreDNS the tenth.
const MIN_SERVICE_BITS: u8 = 4;

/// The network of one host's pods.
fn node_prefix(pods: IpNet) -> u8 {
    match pods {
        IpNet::V4(_) => 24,
        IpNet::V6(_) => 80,
    }
}

pub(super) fn network(network: &Network, hosts: &[Host], findings: &mut Vec<Finding>) {
    let (pods, services) = (network.pods, network.services);
    let before = findings.len();
    for (at, net) in [("spec.network.pods", pods), ("spec.network.services", services)] {
        shape(at, net, hosts, findings);
    }
    if findings.len() > before {
        // Sizes and overlaps of networks that are to be replaced anyway would only confuse.
        return;
    }
    pods_size(pods, hosts, findings);
    services_size(services, findings);
    if overlap(pods, services) {
        findings.push(Finding::new("spec.network.services", format!("{services} overlaps the pods' network {pods}")));
    }
    for (at, net) in [("spec.network.pods", pods), ("spec.network.services", services)] {
        if let Some(host) = hosts.iter().find(|host| net.contains(&host.address)) {
            let message = format!("{net} contains the address of `{}`, {}", shown(&host.name), host.address);
            findings.push(Finding::new(at, message));
        }
    }
}

fn shape(at: &str, net: IpNet, hosts: &[Host], findings: &mut Vec<Finding>) {
    let reserved = ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "ff00::/8"];
    if net.trunc() != net {
        findings.push(
            Finding::new(at, format!("{net} has bits set behind its prefix")).help(format!("write {}", net.trunc())),
        );
    } else if let Some(of) = reserved.iter().find(|of| of.parse::<IpNet>().is_ok_and(|of| overlap(of, net))) {
        findings.push(Finding::new(at, format!("{net} lies in {of}, which is no network of hosts")));
    } else if let Some(host) = hosts.iter().find(|host| host.address.is_ipv4() != net.addr().is_ipv4()) {
        findings.push(
            Finding::new(at, format!("{net} is of another IP version than the hosts' addresses ({})", host.address))
                .help("pods and services use the hosts' IP version"),
        );
    }
}

fn pods_size(pods: IpNet, hosts: &[Host], findings: &mut Vec<Finding>) {
    let node = node_prefix(pods);
    let at = "spec.network.pods";
    if pods.prefix_len() > node {
        findings.push(Finding::new(at, format!("{pods} is too small: each host gets a /{node} of it")));
    } else if node - pods.prefix_len() > MAX_NODE_BITS {
        findings.push(Finding::new(at, format!("{pods} is too large: /{} at most", node - MAX_NODE_BITS)));
    } else if (1_usize << (node - pods.prefix_len())) < hosts.len() {
        let message = format!("{pods} is too small for {} hosts: each gets a /{node} of it", hosts.len());
        findings.push(Finding::new(at, message));
    }
}

fn services_size(services: IpNet, findings: &mut Vec<Finding>) {
    let bits = services.max_prefix_len() - services.prefix_len();
    let (largest, smallest) =
        (services.max_prefix_len() - MAX_SERVICE_BITS, services.max_prefix_len() - MIN_SERVICE_BITS);
    let at = "spec.network.services";
    if bits > MAX_SERVICE_BITS {
        findings.push(Finding::new(at, format!("{services} is too large: /{largest} at most")));
    } else if bits < MIN_SERVICE_BITS {
        findings.push(Finding::new(at, format!("{services} is too small: at least a /{smallest}")));
    }
}

fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b) || b.contains(&a)
}
