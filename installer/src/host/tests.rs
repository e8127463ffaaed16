//! The facts script's answer as facts: captured shapes of hosts, and the script itself on this machine.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Instant;

use proptest::prelude::*;

use super::facts::{Facts, NetworkOwner};
use super::local::Local;
use super::parse::{ParseError, RoundTrip, parse};
use super::{gather, gather::script};

/// Ubuntu Server as its installer leaves it, with ufw on, docker, libvirt and its guests; made up from what such a host
/// prints.
const UBUNTU: &str = include_str!("fixtures/ubuntu-24.04.txt");
/// A lab host: Debian 12 in systemd-nspawn, as the script printed it (shortened).
const CONTAINER: &str = include_str!("fixtures/debian-12-container.txt");
/// A Debian container that is a worker already, with odd things in the answer.
const CONVERTED: &str = include_str!("fixtures/converted.txt");

const TRIP: RoundTrip = RoundTrip { middle_ms: 1_796_067_025_332, half_ms: 40 };

fn facts(answer: &str) -> Facts {
    parse(answer, TRIP).unwrap()
}

pub(super) fn ubuntu() -> Facts {
    facts(UBUNTU)
}

#[test]
fn an_ubuntu_servers_system() {
    let facts = facts(UBUNTU);
    assert_eq!((facts.os_id.as_str(), facts.os_version.as_str()), ("ubuntu", "24.04"));
    assert_eq!(facts.os_name, "Ubuntu 24.04.2 LTS");
    assert_eq!((facts.hostname.as_str(), facts.arch.as_str()), ("a", "amd64"));
    assert_eq!(facts.kernel, "6.8.0-55-generic");
    assert_eq!(facts.product_uuid.as_deref(), Some("4c4c4544-0042-3510-8052-b4c04f503332"));
    assert_eq!((facts.cgroup_version, facts.cpus, facts.memory_bytes), (2, 16, 65_684_084 * 1024));
    assert_eq!(facts.disk_free_bytes["/var/lib"], 102_400_000_000);
    assert!(facts.kvm_device && facts.kvm_cpu && facts.systemd && facts.clock_synchronized);
    assert_eq!((facts.clock_offset_ms, facts.clock_error_ms), (2000, 40));
    assert_eq!(facts.swaps, ["/swap.img"]);
    assert!(facts.fstab.contains("\n\nUUID=6a1f / ext4 defaults 0 1\n/swap.img\tnone\tswap\tsw\t0\t0\n"));
    assert_eq!((facts.inotify_instances, facts.inotify_watches), (Some(128), Some(524_288)));
    assert_eq!(facts.dpkg_lock.as_deref(), Some("unattended-upgr (pid 2211)"));
    assert_eq!((facts.platform.vendor.as_str(), facts.platform.container), ("Dell Inc.", None));
    assert_eq!(facts.unreadable, Vec::<String>::new());
}

#[test]
fn an_ubuntu_servers_network() {
    let facts = facts(UBUNTU);
    let eno1 = facts.interface("eno1").unwrap();
    assert_eq!((eno1.mac.as_str(), eno1.mtu, eno1.kind.as_str()), ("52:54:00:aa:bb:01", 1500, "ether"));
    assert_eq!((eno1.up, eno1.speed_mbps, eno1.owner), (true, Some(10_000), NetworkOwner::Netplan));
    let eno2 = facts.interface("eno2").unwrap();
    assert_eq!((eno2.up, eno2.speed_mbps, eno2.owner), (false, None, NetworkOwner::Unknown));
    assert_eq!(facts.interface("virbr0").unwrap().kind, "bridge");
    assert_eq!(facts.interface("vnet0").unwrap().master.as_deref(), Some("virbr0"));
    assert_eq!(facts.network_owner, NetworkOwner::Netplan);
    let addresses: Vec<String> = facts.addresses.iter().map(|held| held.address.to_string()).collect();
    let all = ["127.0.0.1/8", "::1/128", "192.0.2.11/24", "fe80::5054:ff:feaa:bb01/64", "192.168.122.1/24"];
    assert_eq!(addresses, all);
    let route = |route: &super::facts::Route| {
        let shown = |text: Option<String>| text.unwrap_or_default();
        (shown(route.destination.map(|net| net.to_string())), shown(route.via.map(|via| via.to_string())))
    };
    let routes: Vec<_> = facts.routes.iter().map(route).collect();
    let wanted = [
        ("", "192.0.2.1"),
        ("192.0.2.0/24", ""),
        ("198.51.100.7/32", "192.0.2.254"),
        ("192.168.122.0/24", ""),
        ("203.0.113.0/24", "192.0.2.7"),
    ];
    assert_eq!(routes, wanted.map(|(net, via)| (net.to_owned(), via.to_owned())), "only of the main table");
    assert_eq!(facts.resolv_conf.nameservers, ["127.0.0.53"]);
    assert_eq!(facts.resolv_conf.resolved_upstream, ["192.0.2.53", "2001:db8::53"]);
    let listeners = [(22, "sshd"), (53, "systemd-resolve"), (10250, "nginx")];
    assert_eq!(facts.listeners, BTreeMap::from(listeners.map(|(port, name)| (port, name.to_owned()))));
}

#[test]
fn what_runs_on_an_ubuntu_server() {
    let facts = facts(UBUNTU);
    assert!(facts.ufw_enabled && facts.bridge_nf_call && facts.existing.docker && facts.existing.libvirt_apparmor);
    assert_eq!(facts.forward_drop, ["iptables FORWARD", "ip6tables FORWARD"]);
    assert_eq!((facts.running_guests, facts.stopped_guests), (vec!["web-1".to_owned()], vec!["db.v2".to_owned()]));
    assert_eq!(facts.snaps, ["core22", "lxd"]);
    assert_eq!(facts.existing.foreign_containerd.as_deref(), Some("/usr/bin/containerd"));
    assert_eq!(facts.existing.kubernetes_files, Vec::<String>::new());
    assert_eq!(facts.modules, ["br_netfilter", "overlay", "kvm", "kvm_intel", "nf_tables"]);
    assert!(facts.active_units.contains(&"multipathd.service".to_owned()));
}

#[test]
fn a_converted_container() {
    let facts = facts(CONVERTED);
    assert_eq!((facts.arch.as_str(), facts.cgroup_version, facts.systemd), ("arm64", 1, false));
    assert_eq!(facts.platform.container.as_deref(), Some("systemd-nspawn"));
    // Whole seconds only: the middle of the second, and half a second of doubt.
    assert_eq!((facts.clock_offset_ms, facts.clock_error_ms), (2168, 540));
    assert_eq!(facts.hostspan.fleet.as_deref(), Some("kvm-a"));
    assert_eq!(facts.hostspan.ca_sha256, facts.existing.ca_sha256);
    assert_eq!(facts.hostspan.pod_networks["b"].to_string(), "10.244.1.0/24");
    assert_eq!(facts.existing.kubelet_server.as_deref(), Some("https://192.0.2.11:6443"));
    assert_eq!(facts.existing.distributions, ["k0s"]);
    assert_eq!(facts.existing.distribution_files, ["/etc/k0s", "/var/lib/k0s"]);
    assert_eq!(facts.listeners, BTreeMap::from([(10250, String::new())]));
    assert_eq!(facts.read_only, ["/usr/local"]);
    let owner = |name: &str| facts.interface(name).unwrap().owner;
    assert_eq!(owner("eth0"), NetworkOwner::Ifupdown);
    assert_eq!(owner("wlp5s0"), NetworkOwner::NetworkManager);
    assert_eq!(owner("br1"), NetworkOwner::Networkd);
    assert_eq!(facts.interface("wlp5s0").unwrap().kind, "wlan");
    assert_eq!(facts.routes.len(), 2, "a route without sense is passed over");
    assert_eq!(
        facts.unreadable,
        [
            "`timeout` is not installed: whether hosts reach each other cannot be read",
            "/sys/devices/system/cpu/online is empty or cannot be read"
        ]
    );
}

#[test]
fn a_lab_host_as_it_was_captured() {
    let facts = facts(CONTAINER);
    assert_eq!((facts.os_id.as_str(), facts.os_version.as_str(), facts.cgroup_version), ("debian", "12", 1));
    assert_eq!((facts.platform.container.as_deref(), facts.kvm_device), (Some("systemd-nspawn"), false));
    let eth0 = facts.interface("eth0").unwrap();
    assert_eq!((eth0.kind.as_str(), eth0.up, eth0.owner), ("veth", true, NetworkOwner::Networkd));
    assert_eq!(eth0.network_file.as_deref(), Some("/etc/systemd/network/10-eth0.network"));
    assert_eq!(facts.network_owner, NetworkOwner::Networkd);
    let destinations: Vec<_> =
        facts.routes.iter().filter_map(|route| route.destination).map(|net| net.to_string()).collect();
    assert!(destinations.contains(&"192.0.2.0/24".to_owned()), "{destinations:?}");
    assert_eq!(facts.routes[0].via, Some("192.0.2.1".parse().unwrap()));
    assert_eq!(facts.resolv_conf.nameservers, ["127.0.0.53"]);
    assert_eq!(facts.resolv_conf.resolved_upstream, ["192.0.2.1"]);
    assert_eq!(facts.listeners[&53], "systemd-resolve");
    assert_eq!(facts.active_units, ["systemd-networkd.service", "systemd-resolved.service"]);
    assert_eq!(facts.unreadable, Vec::<String>::new());
}

#[test]
fn an_answer_that_is_not_whole_is_an_error() {
    assert_eq!(parse("", TRIP), Err(ParseError::NoBegin));
    assert_eq!(parse("bash: sh: command not found\n", TRIP), Err(ParseError::NoBegin));
    let cut = UBUNTU.len() - 20;
    assert_eq!(parse(&UBUNTU[..cut], TRIP), Err(ParseError::NoEnd));
    // Nothing but the frame: all is unknown, and said to be.
    let empty = facts("begin\thostspan-facts\nend\thostspan-facts\n");
    assert_eq!((empty.clock_error_ms, empty.unreadable.len()), (u64::MAX, 6));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".*") {
        let answer = format!("begin\thostspan-facts\n{text}\nend\thostspan-facts\n");
        prop_assert!(parse(&answer, TRIP).is_ok());
    }

    #[test]
    fn no_mangled_answer_makes_it_panic(
        cuts in prop::collection::vec((0..UBUNTU.len(), "[\\[\\]{}:\t\n/ 0-9-]{0,4}"), 1..6)
    ) {
        let mut answer = UBUNTU.to_owned();
        for (at, text) in cuts {
            if answer.is_char_boundary(at) {
                answer.replace_range(at..at, &text);
            }
        }
        drop(parse(&answer, TRIP));
    }
}

#[tokio::test]
async fn this_machine_answers() {
    let facts = gather(&Local).await.unwrap();
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(facts.hostname, hostname.trim());
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    assert!(meminfo.contains(&format!(" {} kB", facts.memory_bytes / 1024)));
    assert!(facts.cpus > 0 && !facts.os_id.is_empty() && !facts.arch.is_empty());
    assert!(facts.clock_offset_ms.abs() < 1000, "{} ms", facts.clock_offset_ms);
    assert!(facts.clock_offset_ms.unsigned_abs() <= facts.clock_error_ms + 1);
    if Command::new("ip").arg("-V").stdout(Stdio::null()).status().is_ok() {
        assert_eq!(facts.interface("lo").unwrap().kind, "loopback");
        assert!(facts.addresses.iter().any(|held| held.address.to_string() == "127.0.0.1/8"));
    }
}

/// The whole second run of the product has 300 ms a host; this bounds the script's own part, with room for a busy machine.
#[tokio::test]
async fn asking_is_quick() {
    let quickest = async || {
        let mut best = u128::MAX;
        for _ in 0..5 {
            let begin = Instant::now();
            gather(&Local).await.unwrap();
            best = best.min(begin.elapsed().as_millis());
        }
        best
    };
    let best = quickest().await;
    assert!(best < 150, "{best} ms");
}

#[test]
fn a_host_without_tools_answers_too() {
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    let output = Command::new(shell).args(["-c", &script()]).env("PATH", "/nonexistent").output().unwrap();
    assert!(output.status.success());
    let facts = facts(&String::from_utf8(output.stdout).unwrap());
    assert!(facts.unreadable.iter().any(|line| line.starts_with("`ip` is not installed: interfaces, addresses")));
    assert!(facts.unreadable.iter().any(|line| line == "/etc/machine-id is empty or cannot be read"));
    assert_eq!(facts.interfaces, []);
}
