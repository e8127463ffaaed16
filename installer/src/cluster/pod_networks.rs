//! Which part of the pod network each host has. Pure: the records of all reachable hosts in, a complete map out.
//!
//! Every host keeps a copy of the whole map, so that no state file is needed on the admin's machine and a host that is
//! down keeps its part.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Pod networks by host name, as one host recorded them.
pub type Record = BTreeMap<String, IpNet>;

/// Why no map can be made. Each text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodNetworkError {
    /// A host and the control plane contradict each other.
    #[error(
        "{host} has the pod network {network}, but the control plane has {other} recorded for it; reset {host}, or mend \
         the wrong one of the two /etc/hostspan/pod-networks"
    )]
    Contradiction {
        /// The host.
        host: String,
        /// What it says itself.
        network: IpNet,
        /// What the control plane says.
        other: IpNet,
    },
    /// Two hosts have networks that overlap.
    #[error("{host} and {other} both have pod addresses of {network}; reset one of the two")]
    Shared {
        /// One host.
        host: String,
        /// The other.
        other: String,
        /// The network of `host`.
        network: IpNet,
    },
    /// A recorded network is not inside the fleet's.
    #[error(
        "{host} has the pod network {network}, which is not a part of spec.network.pods {pods}; the pod network of a \
         running cluster cannot be changed: put the old value back, or reset the fleet first"
    )]
    Outside {
        /// The host.
        host: String,
        /// Its network.
        network: IpNet,
        /// The fleet's.
        pods: IpNet,
    },
    /// There is no room for all hosts.
    #[error(
        "spec.network.pods {pods} has room for {room} hosts (a /{prefix} each), and {hosts} need one; choose a larger network"
    )]
    Full {
        /// The fleet's pod network.
        pods: IpNet,
        /// How many hosts fit.
        room: u128,
        /// Prefix of a host's part.
        prefix: u8,
        /// How many hosts need a part.
        hosts: usize,
    },
}

/// Prefix length of a host's part: 254 pod addresses in IPv4, more than enough in IPv6.
fn host_prefix(pods: &IpNet) -> u8 {
    match pods {
        IpNet::V4(_) => 24,
        IpNet::V6(_) => 80,
    }
}

/// The pod network of every host of the fleet (`hosts`, in the fleet file's order) out of `pods`.
///
/// `records` has what the reachable hosts recorded. A host's own word counts, then the control plane's (it takes part in
/// every run, so its record is never stale), then any other's. What is recorded never moves; a host without a record gets
/// the lowest free part. Networks of hosts that have left the fleet stay taken while somebody remembers them: those hosts
/// may still be up.
pub fn allocate(
    pods: IpNet,
    hosts: &[&str],
    control_plane: &str,
    records: &BTreeMap<String, Record>,
) -> Result<BTreeMap<String, IpNet>, PodNetworkError> {
    let mut map = Record::new();
    for host in hosts {
        if let Some(network) = recorded(host, control_plane, records)? {
            if !pods.contains(&network) {
                return Err(PodNetworkError::Outside { host: (*host).to_owned(), network, pods });
            }
            map.insert((*host).to_owned(), network);
        }
    }
    disjoint(&map)?;
    let taken: BTreeSet<IpNet> = map.values().chain(records.values().flat_map(Record::values)).copied().collect();
    let prefix = host_prefix(&pods);
    let mut free = parts(pods, prefix).filter(|part| !taken.iter().any(|taken| overlap(part, taken)));
    for host in hosts {
        if !map.contains_key(*host) {
            let network = free.next().ok_or(PodNetworkError::Full {
                pods,
                room: room(pods, prefix),
                prefix,
                hosts: hosts.len(),
            })?;
            map.insert((*host).to_owned(), network);
        }
    }
    Ok(map)
}

fn recorded(
    host: &str,
    control_plane: &str,
    records: &BTreeMap<String, Record>,
) -> Result<Option<IpNet>, PodNetworkError> {
    let word_of = |reporter: &str| records.get(reporter).and_then(|record| record.get(host)).copied();
    match (word_of(host), word_of(control_plane)) {
        (Some(network), Some(other)) if network != other => {
            Err(PodNetworkError::Contradiction { host: host.to_owned(), network, other })
        }
        (own, other) => Ok(own.or(other).or_else(|| records.values().find_map(|record| record.get(host)).copied())),
    }
}

fn disjoint(known: &Record) -> Result<(), PodNetworkError> {
    let mut sorted: Vec<_> = known.iter().collect();
    sorted.sort_by_key(|(_, network)| **network);
    for pair in sorted.windows(2) {
        let ((other, taken), (host, network)) = (pair[0], pair[1]);
        if overlap(taken, network) {
            return Err(PodNetworkError::Shared { host: host.clone(), other: other.clone(), network: *network });
        }
    }
    Ok(())
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}

fn room(pods: IpNet, prefix: u8) -> u128 {
    prefix.checked_sub(pods.prefix_len()).map_or(0, |bits| 1_u128 << bits)
}

/// The parts of `pods` in order; none where it is smaller than one part.
fn parts(pods: IpNet, prefix: u8) -> impl Iterator<Item = IpNet> {
    (0..room(pods, prefix)).map_while(move |index| match pods.network() {
        IpAddr::V4(first) => {
            let offset = u32::try_from(index << (32 - u32::from(prefix))).ok()?;
            Ipv4Net::new(first.to_bits().checked_add(offset)?.into(), prefix).ok().map(IpNet::V4)
        }
        IpAddr::V6(first) => {
            let offset = index << (128 - u32::from(prefix));
            Ipv6Net::new(first.to_bits().checked_add(offset)?.into(), prefix).ok().map(IpNet::V6)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn record(entries: &[(&str, &str)]) -> Record {
        entries.iter().map(|(host, network)| ((*host).to_owned(), net(network))).collect()
    }

    fn records(entries: &[(&str, &[(&str, &str)])]) -> BTreeMap<String, Record> {
        entries.iter().map(|(reporter, entries)| ((*reporter).to_owned(), record(entries))).collect()
    }

    #[test]
    fn new_hosts_get_the_lowest_free_parts_in_the_fleets_order() {
        let map = allocate(net("10.244.0.0/16"), &["b", "a"], "b", &BTreeMap::new()).unwrap();
        assert_eq!(map, record(&[("b", "10.244.0.0/24"), ("a", "10.244.1.0/24")]));
        let known = records(&[("b", &[("b", "10.244.0.0/24"), ("a", "10.244.2.0/24")])]);
        let map = allocate(net("10.244.0.0/16"), &["a", "b", "c"], "a", &known).unwrap();
        assert_eq!(map["a"], net("10.244.2.0/24"));
        assert_eq!(map["c"], net("10.244.1.0/24"));
    }

    #[test]
    fn a_host_that_left_the_fleet_keeps_its_part_taken() {
        let known = records(&[("a", &[("a", "10.244.0.0/24"), ("gone", "10.244.1.0/24")])]);
        let map = allocate(net("10.244.0.0/16"), &["a", "new"], "a", &known).unwrap();
        assert_eq!(map, record(&[("a", "10.244.0.0/24"), ("new", "10.244.2.0/24")]));
    }

    #[test]
    fn ipv6_hosts_get_an_80_each() {
        let map = allocate(net("fd00:10::/56"), &["a", "b"], "a", &BTreeMap::new()).unwrap();
        assert_eq!(map, record(&[("a", "fd00:10::/80"), ("b", "fd00:10:0:0:1::/80")]));
    }

    #[test]
    fn a_host_that_contradicts_the_control_plane_stops_with_both_values() {
        let known = records(&[("a", &[("b", "10.244.1.0/24")]), ("b", &[("b", "10.244.2.0/24")])]);
        let error = allocate(net("10.244.0.0/16"), &["a", "b"], "a", &known).unwrap_err().to_string();
        assert!(error.contains("10.244.1.0/24") && error.contains("10.244.2.0/24"), "{error}");
        let known = records(&[("a", &[("a", "10.244.1.0/24")]), ("b", &[("b", "10.244.1.0/24")])]);
        let error = allocate(net("10.244.0.0/16"), &["a", "b"], "a", &known).unwrap_err().to_string();
        assert_eq!(error, "b and a both have pod addresses of 10.244.1.0/24; reset one of the two");
    }

    #[test]
    fn a_stale_record_of_a_host_that_was_down_is_no_contradiction() {
        let known = records(&[
            ("a", &[("a", "10.244.0.0/24"), ("b", "10.244.1.0/24"), ("new", "10.244.2.0/24")]),
            ("b", &[("a", "10.244.0.0/24"), ("b", "10.244.1.0/24"), ("gone", "10.244.2.0/24")]),
            ("new", &[("new", "10.244.2.0/24")]),
        ]);
        let map = allocate(net("10.244.0.0/16"), &["a", "b", "new"], "a", &known).unwrap();
        assert_eq!(map["new"], net("10.244.2.0/24"));
    }

    #[test]
    fn a_changed_pod_network_is_refused_while_hosts_use_the_old_one() {
        let known = records(&[("a", &[("a", "10.244.0.0/24")])]);
        assert_eq!(
            allocate(net("10.50.0.0/16"), &["a"], "a", &known).unwrap_err(),
            PodNetworkError::Outside { host: "a".into(), network: net("10.244.0.0/24"), pods: net("10.50.0.0/16") }
        );
    }

    #[test]
    fn a_network_without_room_says_how_many_fit() {
        let error = allocate(net("10.244.0.0/23"), &["a", "b", "c"], "a", &BTreeMap::new()).unwrap_err();
        assert_eq!(error, PodNetworkError::Full { pods: net("10.244.0.0/23"), room: 2, prefix: 24, hosts: 3 });
        assert!(matches!(
            allocate(net("10.244.0.0/25"), &["a"], "a", &BTreeMap::new()).unwrap_err(),
            PodNetworkError::Full { room: 0, .. }
        ));
        assert!(allocate(net("255.255.0.0/16"), &["a"], "a", &BTreeMap::new()).is_ok());
    }

    proptest! {
        /// Fleets that grow, shrink and lose contact with hosts: nobody shares, nobody moves.
        #[test]
        fn never_two_hosts_the_same_and_existing_ones_never_move(
            runs in proptest::collection::vec(proptest::collection::vec((1_u8..40, any::<bool>()), 1..12), 1..8),
        ) {
            let pods = net("10.244.0.0/17");
            let mut on_hosts: BTreeMap<String, Record> = BTreeMap::new();
            for run in runs {
                let run: BTreeMap<String, bool> = run.into_iter().map(|(number, up)| (format!("h{number}"), up)).collect();
                // The control plane takes part in every run. Who left the fleet is reset before it may come back.
                let names: Vec<&str> = std::iter::once("cp").chain(run.keys().map(String::as_str)).collect();
                on_hosts.retain(|host, _| names.contains(&host.as_str()));
                let up = |host: &str| run.get(host).copied().unwrap_or(true);
                let seen = on_hosts.iter().filter(|(host, _)| up(host)).map(|(h, r)| (h.clone(), r.clone())).collect();
                let map = allocate(pods, &names, "cp", &seen).unwrap();
                let unique: BTreeSet<IpNet> = map.values().copied().collect();
                prop_assert_eq!(unique.len(), map.len());
                for host in &names {
                    prop_assert!(pods.contains(&map[*host]));
                    if let Some(was) = on_hosts.get(*host).and_then(|record| record.get(*host)) {
                        prop_assert_eq!(*was, map[*host]);
                    }
                }
                for host in names.iter().filter(|host| up(host)) {
                    on_hosts.insert((*host).to_owned(), map.clone());
                }
            }
        }
    }
}
