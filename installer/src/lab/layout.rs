//! Names and addresses of a lab, all derived from its name and its subnet: what was begun can be found and removed again
//! even if nobody wrote down that it was begun.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use sha2::{Digest, Sha256};

use super::{LabError, Options, Os};

/// The longest lab name: a host's machine name is made of it and must stay a valid DNS label.
const NAME_MAX: usize = 32;
/// The most hosts: their addresses end below the DHCP pool.
pub(super) const HOSTS_MAX: usize = 80;
/// Where labs live: 4096 subnets, apart from the default pod and service networks of a fleet.
const LABS: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 128, 0, 0), 10);
/// A lab's share of it.
const LAB_PREFIX: u8 = 22;
/// The bastion's name.
pub(super) const BASTION: &str = "bastion";

/// A host as planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spec {
    /// `kvm-01`, or `bastion`.
    pub(super) name: String,
    pub(super) os: Os,
    /// On the LAN, at eth0.
    pub(super) address: Ipv4Addr,
    /// On the second segment, at eth1.
    pub(super) second_address: Ipv4Addr,
    /// Of eth0 and eth1.
    pub(super) macs: [String; 2],
    /// Whether it is part of the fleet.
    pub(super) in_fleet: bool,
}

impl Spec {
    /// The name of the lab's end of a NIC (veth or tap), inside the LAN's namespace.
    pub(super) fn port(&self, nic: usize) -> String {
        format!("{}.{nic}", self.name)
    }
}

/// Names and addresses of one lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    lab: String,
    subnet: Ipv4Net,
}

impl Layout {
    /// The layout of lab `name` in `subnet`.
    pub(super) fn new(name: &str, subnet: Ipv4Net) -> Self {
        Self { lab: name.to_owned(), subnet }
    }

    /// The domain of the hosts' names. `.internal` is reserved for private use.
    pub(super) fn domain(&self) -> String {
        format!("{}.internal", self.lab)
    }

    /// The segment of eth0.
    pub(super) fn lan(&self) -> Ipv4Net {
        self.segment(0)
    }

    /// The segment of eth1; this machine has no address in it.
    pub(super) fn second(&self) -> Ipv4Net {
        self.segment(1)
    }

    /// Gateway, DHCP and DNS server of the LAN.
    pub(super) fn gateway(&self) -> Ipv4Addr {
        at(self.lan(), 1)
    }

    /// This machine's address in the LAN.
    pub(super) fn admin(&self) -> Ipv4Addr {
        at(self.lan(), 2)
    }

    /// The network namespace with the bridges.
    pub(super) fn lan_netns(&self) -> String {
        lan_netns(&self.lab)
    }

    /// The network namespace of a host.
    pub(super) fn host_netns(&self, host: &str) -> String {
        format!("hostspan-{}-{host}", self.lab)
    }

    /// The hosts, in order; the bastion last.
    pub(super) fn hosts(&self, options: &Options) -> Vec<Spec> {
        let mut hosts: Vec<Spec> = (0..options.hosts)
            .map(|i| self.host(format!("kvm-{:02}", i + 1), 11 + i, os_of(options, i), true))
            .collect();
        if options.bastion {
            hosts.push(self.host(BASTION.to_owned(), 5, os_of(options, 0), false));
        }
        hosts
    }

    fn host(&self, name: String, number: usize, os: Os, in_fleet: bool) -> Spec {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        let tag = digest(&self.lab);
        let mac = |nic: u8| format!("02:{:02x}:{:02x}:{:02x}:{number:02x}:{nic:02x}", tag[0], tag[1], tag[2]);
        Spec {
            name,
            os,
            address: at(self.lan(), number),
            second_address: at(self.second(), number),
            macs: [mac(0), mac(1)],
            in_fleet,
        }
    }

    fn segment(&self, index: u8) -> Ipv4Net {
        let mut octets = self.subnet.network().octets();
        octets[2] += index;
        Ipv4Net::new_assert(octets.into(), 24)
    }
}

/// The network namespace with a lab's bridges.
pub(super) fn lan_netns(lab: &str) -> String {
    format!("hostspan-{lab}-lan")
}

/// This machine's end of the cable into the lab. Interface names have at most 15 bytes, so it is the name's digest.
pub(super) fn admin_link(lab: &str) -> String {
    let tag = digest(lab);
    format!("hs-{:02x}{:02x}{:02x}{:02x}", tag[0], tag[1], tag[2], tag[3])
}

/// The folder of a lab's control groups, in every hierarchy.
pub(super) fn cgroup(lab: &str) -> String {
    format!("hostspan-{lab}")
}

/// Whether `netns` is one of `lab`'s, however many hosts it was given. No lab's namespace can have another lab's name,
/// since the part after the lab's name is one of a few forms.
pub(super) fn is_netns_of(lab: &str, netns: &str) -> bool {
    let Some(role) = netns.strip_prefix("hostspan-").and_then(|rest| rest.strip_prefix(lab)) else {
        return false;
    };
    let Some(role) = role.strip_prefix('-') else {
        return false;
    };
    role == "lan"
        || role == BASTION
        || role.strip_prefix("kvm-").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Refuses a name that cannot be part of a host name or a path.
pub(super) fn check_name(name: &str) -> Result<(), LabError> {
    let good = name.len() <= NAME_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if good { Ok(()) } else { Err(LabError::Name { name: name.to_owned(), max: NAME_MAX }) }
}

/// A subnet for a new lab: its name's own, or the next one that overlaps nothing in `taken`.
pub(super) fn choose_subnet(name: &str, taken: &[Ipv4Net]) -> Option<Ipv4Net> {
    let count = 1_u32 << (LAB_PREFIX - LABS.prefix_len());
    let tag = digest(name);
    let first = u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]) % count;
    (0..count)
        .map(|i| {
            let index = (first + i) % count;
            let base = u32::from(LABS.network()) + (index << (32 - LAB_PREFIX));
            Ipv4Net::new_assert(base.into(), LAB_PREFIX)
        })
        .find(|net| !taken.iter().any(|t| t.contains(net) || net.contains(t)))
}

fn os_of(options: &Options, index: usize) -> Os {
    options.os.get(index % options.os.len().max(1)).copied().unwrap_or_default()
}

fn at(net: Ipv4Net, number: u8) -> Ipv4Addr {
    let mut octets = net.network().octets();
    octets[3] = number;
    octets.into()
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(name: &str) -> Layout {
        Layout::new(name, choose_subnet(name, &[]).unwrap())
    }

    #[test]
    fn interface_names_fit_the_kernel() {
        let options = Options { hosts: HOSTS_MAX, bastion: true, ..Options::new("a-lab-with-a-really-long-name-01") };
        assert!(admin_link(&options.name).len() <= 15);
        for host in layout(&options.name).hosts(&options) {
            assert!(host.port(1).len() <= 15, "{}", host.port(1));
        }
    }

    #[test]
    fn hosts_have_distinct_addresses_below_the_dhcp_pool() {
        let options = Options { hosts: HOSTS_MAX, bastion: true, ..Options::new("demo") };
        let hosts = layout("demo").hosts(&options);
        assert_eq!(hosts.len(), HOSTS_MAX + 1);
        let mut seen: Vec<Ipv4Addr> = hosts.iter().flat_map(|h| [h.address, h.second_address]).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 2 * hosts.len());
        assert!(hosts.iter().all(|h| h.address.octets()[3] < super::super::lan::POOL.0));
        assert_eq!(hosts[0].name, "kvm-01");
        assert_eq!(hosts[HOSTS_MAX].name, BASTION);
    }

    #[test]
    fn operating_systems_take_turns() {
        let options = Options { hosts: 3, os: vec![Os::Debian12, Os::Debian13], ..Options::new("demo") };
        let os: Vec<Os> = layout("demo").hosts(&options).iter().map(|h| h.os).collect();
        assert_eq!(os, [Os::Debian12, Os::Debian13, Os::Debian12]);
    }

    #[test]
    fn a_taken_subnet_is_passed_over() {
        let first = choose_subnet("demo", &[]).unwrap();
        let inside = Ipv4Net::new(first.network(), 28).unwrap();
        let second = choose_subnet("demo", &[inside]).unwrap();
        assert_ne!(first, second);
        assert!(LABS.contains(&second));
        assert_eq!(choose_subnet("demo", &[LABS]), None);
    }

    #[test]
    fn another_labs_namespaces_are_not_ours() {
        assert!(is_netns_of("a", "hostspan-a-lan"));
        assert!(is_netns_of("a", "hostspan-a-kvm-01"));
        assert!(is_netns_of("a", "hostspan-a-bastion"));
        assert!(!is_netns_of("a", "hostspan-a-b-lan"));
        assert!(!is_netns_of("a", "hostspan-a-kvm-01-lan"));
        assert!(!is_netns_of("a", "hostspan-a-kvm-"));
        assert!(!is_netns_of("a", "hostspan-ab-lan"));
    }

    #[test]
    fn names_that_are_no_host_names_are_refused() {
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "..", "1a", &"a".repeat(33)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("demo-1").is_ok());
    }
}
