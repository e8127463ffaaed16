mod each;

use serde_json::json;

use super::*;
use crate::host::facts::{Address, Interface, NetworkOwner, Platform, Route};

/// A fleet of a control plane `a` and a worker `b`.
pub(in crate::host) fn fleet() -> Fleet {
    serde_json::from_value(json!({
        "apiVersion": "hostspan.dev/v1alpha1", "kind": "Fleet", "metadata": {"name": "kvm-a"},
        "spec": {"hosts": [
            {"name": "a", "address": "192.0.2.11", "roles": ["control-plane", "worker"]},
            {"name": "b", "address": "192.0.2.12"},
        ]},
    }))
    .unwrap()
}

/// A host with which nothing is wrong.
fn good(number: u8) -> Facts {
    let name = if number == 11 { "a" } else { "b" };
    Facts {
        hostname: name.into(),
        os_id: "ubuntu".into(),
        os_version: "24.04".into(),
        os_name: "Ubuntu 24.04.2 LTS".into(),
        arch: "amd64".into(),
        machine_id: format!("machine-{name}"),
        product_uuid: Some(format!("uuid-{name}")),
        cgroup_version: 2,
        cpus: 16,
        memory_bytes: 64 << 30,
        disk_free_bytes: BTreeMap::from([("/var/lib".into(), 100 << 30)]),
        kvm_device: true,
        kvm_cpu: true,
        cpu_model: "Intel Xeon".into(),
        systemd: true,
        clock_synchronized: true,
        inotify_instances: Some(8192),
        inotify_watches: Some(1_048_576),
        interfaces: vec![Interface {
            name: "eno1".into(),
            mac: format!("52:54:00:aa:bb:{number}"),
            mtu: 1500,
            kind: "ether".into(),
            up: true,
            speed_mbps: Some(10_000),
            owner: NetworkOwner::Netplan,
            ..Interface::default()
        }],
        addresses: vec![held("eno1", &format!("192.0.2.{number}/24"))],
        routes: vec![route("eno1", None), route("eno1", Some("192.0.2.0/24"))],
        resolv_conf: crate::host::facts::ResolvConf {
            nameservers: vec!["127.0.0.53".into()],
            resolved_upstream: vec!["192.0.2.53".into()],
        },
        etc_hosts: "127.0.0.1 localhost\n".into(),
        ..Facts::default()
    }
}

fn held(interface: &str, address: &str) -> Address {
    Address { interface: interface.into(), address: address.parse().unwrap() }
}

fn route(interface: &str, destination: Option<&str>) -> Route {
    let destination = destination.map(|net| net.parse().unwrap());
    Route { destination, via: None, interface: interface.into() }
}

fn both() -> BTreeMap<String, Facts> {
    BTreeMap::from([("a".into(), good(11)), ("b".into(), good(12))])
}

/// What is found when host `b` (or the fleet file) is changed so.
fn found_with(change: impl FnOnce(&mut Fleet, &mut Facts)) -> Vec<Finding> {
    let (mut fleet, mut facts) = (fleet(), both());
    change(&mut fleet, facts.get_mut("b").unwrap());
    preflight(&fleet, &facts)
}

/// The only finding.
fn only(change: impl FnOnce(&mut Facts)) -> Finding {
    let mut found = found_with(|_, facts| change(facts));
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

use Severity::{Block, FixWithConsent, Note, Warn};

#[test]
fn nothing_is_found_on_good_hosts() {
    assert_eq!(preflight(&fleet(), &both()), []);
    assert_eq!(worst(&[]), None);
}

type Change = fn(&mut Facts);

#[test]
fn one_fault_is_one_finding() {
    for change in [
        (|f| f.ufw_enabled = true) as Change,
        |f| f.cgroup_version = 1,
        |f| f.machine_id = "machine-a".into(),
        |f| f.interfaces.clear(),
        |f| f.clock_offset_ms = 90_000,
        |f| {
            f.existing.distributions = vec!["k3s".into()];
            f.listeners.insert(10250, "k3s-server".into());
        },
    ] {
        only(change);
    }
}

#[test]
fn why_there_is_no_kvm() {
    let hint = |vendor: &str, product: &str, change: Change| {
        let found = only(|facts| {
            facts.kvm_device = false;
            facts.kvm_cpu = false;
            facts.platform = Platform { vendor: vendor.into(), product: product.into(), container: None };
            change(facts);
        });
        assert_eq!((found.id.as_str(), found.severity, found.acknowledgeable), ("no-kvm", Block, true));
        format!("{} / {}", found.detail, found.fix)
    };
    let nothing: Change = |_| {};
    assert!(hint("Dell Inc.", "PowerEdge", nothing).contains("switch on VT-x (Intel) or SVM (AMD) in the firmware"));
    assert!(hint("Amazon EC2", "m5.large", nothing).contains(".metal"));
    assert!(hint("Google", "Google Compute Engine", nothing).contains("--enable-nested-virtualization"));
    assert!(
        hint("Microsoft Corporation", "Virtual Machine", nothing).contains("-ExposeVirtualizationExtensions $true")
    );
    assert!(hint("Microsoft Corporation", "Surface Pro", nothing).contains("firmware"));
    assert!(hint("VMware, Inc.", "VMware7,1", nothing).contains("Expose hardware assisted virtualization"));
    assert!(hint("QEMU", "Standard PC (Q35 + ICH9, 2009)", nothing).contains("host-passthrough"));
    assert!(
        hint("QEMU", "", |f| f.platform.container = Some("lxc".into())).contains("lxc container the device /dev/kvm")
    );
    assert!(hint("QEMU", "", |f| f.kvm_cpu = true).contains("modprobe kvm_intel"));
    let amd: Change = |f| {
        f.kvm_cpu = true;
        f.cpu_model = "AMD EPYC 7763".into();
    };
    let found = found_with(|_, facts| {
        facts.kvm_device = false;
        amd(facts);
    });
    assert!(found.iter().any(|finding| finding.fix.contains("modprobe kvm_amd")));
}

#[test]
fn a_control_plane_alone_needs_no_kvm_but_more_ports() {
    let found = found_with(|fleet, facts| {
        fleet.spec.hosts[1].roles = vec![Role::ControlPlane];
        facts.kvm_device = false;
        for port in [6443, 2379, 2380, 10257, 10259] {
            facts.listeners.insert(port, String::new());
        }
    });
    let ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["port:6443", "port:10257", "port:10259", "port:2379", "port:2380"]);
    assert_eq!(found[0].title, "something listens on port 6443");
}

#[test]
fn our_own_ports_routes_and_small_disk_are_no_fault() {
    let found = found_with(|_, facts| {
        facts.hostspan.fleet = Some("kvm-a".into());
        facts.existing.kubernetes_files = vec!["/etc/kubernetes/kubelet.conf".into()];
        facts.listeners.insert(10250, String::new());
        facts.routes.push(route("eno1", Some("10.244.0.0/24")));
        facts.routes.push(route("veth1", Some("10.244.1.7/32")));
        facts.disk_free_bytes.insert("/var/lib".into(), 1 << 30);
    });
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].id.as_str(), found[0].severity), ("disk", Warn));
    // The services' range is never a host's.
    let found = found_with(|_, facts| {
        facts.hostspan.fleet = Some("kvm-a".into());
        facts.routes.push(route("wg0", Some("10.96.0.0/24")));
    });
    assert_eq!(found[0].id, "cidr-overlap");
}

#[test]
fn an_uplink_that_is_not_there_and_a_host_with_ipv6() {
    let found = found_with(|fleet, _| fleet.spec.hosts[1].uplink.interface = Some("eno9".into()));
    assert_eq!((found[0].id.as_str(), found[0].detail.as_str()), ("uplink", "the host has eno1"));
    // IPv6 hosts are judged by the same rules.
    let found = found_with(|fleet, facts| {
        fleet.spec.hosts[1].address = "2001:db8::20".parse().unwrap();
        facts.addresses = vec![held("eno1", "2001:db8::20/64")];
    });
    assert_eq!(found, []);
}

#[test]
fn slow_round_trips_are_not_held_against_clocks() {
    let found = found_with(|_, facts| {
        facts.clock_offset_ms = 9_000;
        facts.clock_error_ms = 8_900;
    });
    assert_eq!(found, []);
    let found = found_with(|_, facts| facts.clock_error_ms = u64::MAX);
    assert_eq!(found, []);
}

#[test]
fn the_other_ip_versions_forwarding_is_no_matter_without_bridged_guests() {
    assert_eq!(found_with(|_, facts| facts.forward_drop = vec!["ip6tables FORWARD".into()]), []);
}

#[test]
fn a_pod_network_of_ones_own_may_be_configured() {
    let found = found_with(|fleet, facts| {
        fleet.spec.network.cni = crate::fleet::model::Cni::None;
        facts.existing.cni_configs = vec!["/etc/cni/net.d/05-cilium.conflist".into()];
    });
    assert_eq!(found, []);
}

#[test]
fn containers_of_one_machine_share_its_uuid() {
    let mut facts = both();
    for host in facts.values_mut() {
        host.product_uuid = Some("uuid".into());
        host.platform.container = Some("systemd-nspawn".into());
    }
    assert_eq!(preflight(&fleet(), &facts), []);
}

#[test]
fn swap_that_the_kubelet_may_have_is_kept() {
    let found = found_with(|fleet, facts| {
        fleet.spec.kubernetes.kubelet.insert("failSwapOn".into(), json!(false));
        facts.swaps = vec!["/swap.img".into()];
    });
    assert_eq!(found, []);
}

#[test]
fn a_resolv_conf_that_the_admin_has_chosen_is_not_judged() {
    let found = found_with(|fleet, facts| {
        fleet.spec.kubernetes.kubelet.insert("resolvConf".into(), json!("/etc/pods-resolv.conf"));
        facts.resolv_conf.resolved_upstream.clear();
    });
    assert_eq!(found, []);
}

#[test]
fn an_acknowledgement_makes_a_note_where_it_may() {
    let change = |facts: &mut Facts| {
        facts.running_guests = vec!["web-1".into(), "web-2".into()];
        facts.machine_id = "machine-a".into();
    };
    let found = found_with(|fleet, facts| {
        fleet.spec.acknowledge = vec!["guest:web-1".into(), "machine-id".into()];
        change(facts);
    });
    let seen: Vec<_> = found.iter().map(|finding| (finding.id.as_str(), finding.severity)).collect();
    assert_eq!(seen, [("machine-id", Block), ("guest:web-2", Block), ("guest:web-1", Note)]);
    assert_eq!(worst(&found), Some(Block));
}

#[test]
fn the_same_on_several_hosts_is_one_finding() {
    let mut facts = both();
    for host in facts.values_mut() {
        host.cgroup_version = 1;
        host.existing.docker = true;
    }
    let found = preflight(&fleet(), &facts);
    let seen: Vec<_> = found.iter().map(|finding| (finding.id.as_str(), finding.hosts.join(" "))).collect();
    assert_eq!(seen, [("cgroup-v1", "a b".to_owned()), ("docker", "a b".to_owned())]);
}

#[test]
fn findings_are_for_programs_too() {
    let found = only(|facts| facts.cgroup_version = 1);
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["severity"], "block");
    assert_eq!(json["hosts"], json!(["b"]));
    assert_eq!(json["acknowledgeable"], true);
    assert_eq!(serde_json::to_value(FixWithConsent).unwrap(), "fix-with-consent");
}

/// A stock Ubuntu server that runs libvirt and docker, from what the facts script prints there.
#[test]
fn an_ubuntu_server_with_guests() {
    let facts = crate::host::tests::ubuntu();
    let found = preflight(&fleet(), &BTreeMap::from([("a".into(), facts)]));
    let seen: Vec<_> = found.iter().map(|finding| (finding.id.as_str(), finding.severity)).collect();
    assert_eq!(
        seen,
        [
            ("ufw", Block),
            ("port:10250", Block),
            ("guest:web-1", Block),
            ("libvirt-apparmor", Block),
            ("swap-on", FixWithConsent),
            ("inotify-limits", FixWithConsent),
            ("hosts-entry", FixWithConsent),
            ("dpkg-lock", Warn),
            ("bridge-netfilter", Warn),
            ("stopped-guests", Warn),
            ("containerd", Warn),
            ("docker", Warn),
            ("multipathd", Warn),
            ("snap:lxd", Warn),
        ]
    );
}
