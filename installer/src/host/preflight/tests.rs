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
            master: None,
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

/// Every check of one host: what is changed, the finding's id, severity, whether it may be acknowledged, and parts of
/// title, detail and fix.
#[test]
fn each_check_of_a_host() {
    let table: Vec<(Change, &str, Severity, bool, [&str; 3])> = vec![
        (
            |f| f.os_version = "20.04".into(),
            "os",
            Block,
            true,
            ["Ubuntu 24.04.2 LTS is not supported", "Ubuntu 22.04 to 26.04", "install one of these"],
        ),
        (|f| f.os_id = "fedora".into(), "os", Block, true, ["is not supported", "Debian 12 and 13", "install"]),
        (|f| f.os_version = "26.10".into(), "os-untested", Warn, true, ["newer than what", "26.04", "try it"]),
        (|f| f.arch = "riscv64".into(), "arch", Block, false, ["riscv64", "amd64 and arm64", "out of the fleet"]),
        (|f| f.systemd = false, "systemd", Block, false, ["systemd", "units", "apt-get install systemd-sysv"]),
        (
            |f| f.cgroup_version = 1,
            "cgroup-v1",
            Block,
            true,
            ["cgroup v1", "kubelet refuses it", "systemd.unified_cgroup_hierarchy=0"],
        ),
        (
            |f| f.read_only = vec!["/etc".into(), "/usr/local".into()],
            "read-only",
            Block,
            false,
            ["/etc, /usr/local cannot be written", "dmesg", "mount -o remount,rw /"],
        ),
        (|f| f.memory_bytes = 512 << 20, "memory", Block, true, ["memory: 0.5 GiB", "1.0 GiB are the least", "memory"]),
        (|f| f.memory_bytes = 6 << 30, "memory", Warn, true, ["memory: 6.0 GiB", "8.0 GiB for real use", "memory"]),
        (|f| f.cpus = 2, "cpus", Warn, true, ["CPUs: 2", "1 are the least for a try, 4 for real use", "more CPUs"]),
        (
            |f| _ = f.disk_free_bytes.insert("/var/lib".into(), 1 << 30),
            "disk",
            Block,
            true,
            ["free disk space under /var/lib: 1.0 GiB", "3.0 GiB are the least", "more free disk space"],
        ),
        (
            |f| _ = f.disk_free_bytes.insert("/var/lib".into(), 0),
            "disk",
            Block,
            true,
            ["0.0 GiB", "3.0 GiB are the least", "more free disk space"],
        ),
        (
            |f| f.swaps = vec!["/dev/zram0".into()],
            "swap-on",
            FixWithConsent,
            false,
            ["swap is on", "in use: /dev/zram0", "apply runs swapoff, comments out the swap entries of /etc/fstab"],
        ),
        (
            |f| {
                f.fstab = "# old swap note\nUUID=1 /data/swapspace ext4 defaults 0 2\n/dev/sdb2\tnone\tswap\n".into();
            },
            "swap-on",
            FixWithConsent,
            false,
            ["swap is on", "/etc/fstab brings back /dev/sdb2;", "masks the swap units"],
        ),
        (
            |f| f.inotify_instances = Some(128),
            "inotify-limits",
            FixWithConsent,
            false,
            ["inotify", "128 instances", "apply sets fs.inotify.max_user_instances=8192"],
        ),
        (
            |f| f.clock_synchronized = false,
            "time-sync",
            FixWithConsent,
            false,
            ["nothing keeps the clock", "no time daemon", "apply installs systemd-timesyncd"],
        ),
        (
            |f| {
                f.clock_synchronized = false;
                f.active_units = vec!["chrony.service".into()];
            },
            "time-sync",
            Warn,
            true,
            ["not synchronised", "chrony.service runs", "chronyc sources"],
        ),
        (
            |f| f.dpkg_lock = Some("apt-get (pid 7)".into()),
            "dpkg-lock",
            Warn,
            false,
            ["apt-get (pid 7) holds", "apply waits", "wait"],
        ),
        (
            |f| f.unreadable = vec!["`ss` is not installed".into()],
            "unreadable",
            Warn,
            false,
            ["cannot be judged", "`ss` is not installed", "install"],
        ),
        (
            |f| {
                f.interfaces.clear();
                f.addresses.clear();
                f.routes.clear();
            },
            "interfaces",
            Block,
            false,
            ["interfaces cannot be read", "`ip -j`", "apt-get install iproute2"],
        ),
        (
            |f| f.addresses = vec![held("eno1", "10.0.0.5/24"), held("eno1", "fe80::1/64")],
            "address",
            Block,
            false,
            ["no interface has the address 192.0.2.12", "the host has 10.0.0.5 on eno1", "`address`"],
        ),
        (
            |f| f.routes.clear(),
            "nothing",
            Note,
            false,
            // The interface with the host's address is the uplink then.
            ["", "", ""],
        ),
        (
            |f| f.interfaces[0].kind = "wlan".into(),
            "uplink-wifi",
            Warn,
            true,
            ["the uplink eno1 is wireless", "cannot be bridged", "use a cable"],
        ),
        (
            |f| f.interfaces[0].owner = NetworkOwner::NetworkManager,
            "uplink-networkmanager",
            Warn,
            true,
            ["NetworkManager configures the uplink eno1", "leaves this one alone", "renderer: networkd"],
        ),
        (
            |f| f.interfaces[0].speed_mbps = Some(100),
            "nic-speed",
            Warn,
            true,
            ["eno1 runs at 100 Mb/s", "migrations", "ethtool eno1"],
        ),
        (
            |f| {
                f.ufw_enabled = true;
                f.forward_drop = vec!["iptables FORWARD".into()];
            },
            "ufw",
            Block,
            true,
            [
                "ufw is on",
                "routed to and from pods",
                "ufw allow from 192.0.2.11; ufw allow from 10.244.0.0/16; ufw route allow from 10.244.0.0/16; \
                 ufw route allow to 10.244.0.0/16",
            ],
        ),
        (
            |f| f.active_units = vec!["firewalld.service".into()],
            "firewalld",
            Block,
            true,
            ["firewalld", "refuses", "--zone=trusted --add-source=10.244.0.0/16; firewall-cmd --reload"],
        ),
        (
            |f| f.forward_drop = vec!["iptables FORWARD".into(), "nft inet filter forward".into()],
            "forward-drop",
            Block,
            true,
            [
                "dropped",
                "iptables FORWARD, nft inet filter forward is DROP; packets of pods are lost",
                "iptables -P FORWARD ACCEPT; in /etc/nftables.conf let the chain of nft inet filter forward accept",
            ],
        ),
        (
            |f| f.bridge_nf_call = true,
            "bridge-netfilter",
            Warn,
            true,
            ["iptables", "br_netfilter", "sysctl -w net.bridge.bridge-nf-call-iptables=0"],
        ),
        (
            |f| f.resolv_conf.resolved_upstream.clear(),
            "resolv-conf",
            Block,
            false,
            ["no name server", "/etc/resolv.conf names 127.0.0.53", "LAN's DNS server"],
        ),
        (
            |f| f.etc_hosts = "127.0.0.1 localhost\n127.0.1.1 B.example.test B # us\n".into(),
            "hosts-entry",
            FixWithConsent,
            false,
            ["b resolves to 127.0.1.1 only", "/etc/hosts", "apply adds `192.0.2.12 b` to /etc/hosts"],
        ),
        (
            |f| _ = f.listeners.insert(10250, "nginx".into()),
            "port:10250",
            Block,
            false,
            ["nginx listens on port 10250", "needs it", "stop nginx"],
        ),
        (
            |f| f.running_guests = vec!["web-1".into()],
            "guest:web-1",
            Block,
            true,
            ["guest web-1 runs", "under it", "virsh shutdown web-1"],
        ),
        (
            |f| f.stopped_guests = vec!["db".into(), "ci".into()],
            "stopped-guests",
            Warn,
            true,
            ["db, ci", "do not run now", "virsh undefine"],
        ),
        (
            |f| f.existing.foreign_containerd = Some("/usr/bin/containerd".into()),
            "containerd",
            Warn,
            true,
            ["/usr/bin/containerd", "left as it is", "nothing"],
        ),
        (|f| f.existing.docker = true, "docker", Warn, true, ["docker is installed", "left working", "nothing"]),
        (
            |f| f.existing.libvirt_apparmor = true,
            "libvirt-apparmor",
            Block,
            true,
            [
                "AppArmor",
                "/usr/libexec/qemu-kvm",
                "echo '/usr/libexec/qemu-kvm PUx,' >>/etc/apparmor.d/local/usr.sbin.libvirtd; apparmor_parser -r",
            ],
        ),
        (
            |f| f.active_units = vec!["multipathd.service".into()],
            "multipathd",
            Warn,
            true,
            ["multipathd runs", "already mounted", "systemctl disable --now multipathd.service"],
        ),
        (
            |f| f.snaps = vec!["core22".into(), "lxd".into()],
            "snap:lxd",
            Warn,
            true,
            ["the snap lxd", "bridge", "snap remove lxd"],
        ),
        (
            |f| f.existing.distributions = vec!["k3s".into()],
            "existing-kubernetes",
            Block,
            false,
            ["not this fleet's", "k3s is installed here", "uninstall it"],
        ),
        (
            |f| f.cpu_model = "AMD EPYC".into(),
            "cpu-model",
            Warn,
            true,
            ["different CPUs", "a: Intel Xeon, b: AMD EPYC", "CPU model"],
        ),
        (
            |f| f.interfaces[0].mtu = 9000,
            "mtu-mismatch",
            Warn,
            true,
            ["different MTUs", "a: 1500, b: 9000", "same MTU"],
        ),
        (
            |f| f.hostname = "A".into(),
            "duplicate-hostname",
            Block,
            false,
            ["2 hosts call themselves a", "told apart", "on b: hostnamectl set-hostname b"],
        ),
        (
            |f| f.machine_id = "machine-a".into(),
            "machine-id",
            Block,
            false,
            [
                "machine-id machine-a",
                "cloned",
                "on b: rm -f /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id",
            ],
        ),
        (|f| f.product_uuid = Some("uuid-a".into()), "product-uuid", Block, true, ["uuid-a", "migrate", "host_uuid"]),
        (
            |f| f.interfaces[0].mac = "52:54:00:aa:bb:11".into(),
            "duplicate-mac",
            Block,
            false,
            ["52:54:00:aa:bb:11", "switches", "give b another MAC"],
        ),
        (
            |f| f.addresses.push(held("eno1", "192.0.2.11/24")),
            "duplicate-address",
            Block,
            false,
            ["b has a's address 192.0.2.11", "at times", "on b: ip addr del 192.0.2.11/24 dev eno1"],
        ),
        (
            |f| f.clock_offset_ms = 90_000,
            "clock-spread",
            Block,
            false,
            ["b is 90.0 s ahead of a", "not yet valid", "timedatectl set-ntp true"],
        ),
        (|f| f.clock_offset_ms = -3_250, "clock-spread", Warn, false, ["a is 3.2 s ahead of b", "", "timedatectl"]),
        (
            |f| f.routes.push(route("wg0", Some("10.96.4.0/24"))),
            "cidr-overlap",
            Block,
            false,
            [
                "spec.network.services 10.96.0.0/16 overlaps 10.96.4.0/24 on wg0",
                "",
                "set spec.network.services to 10.255",
            ],
        ),
        (
            |f| f.addresses.push(held("docker0", "10.244.0.1/8")),
            "cidr-overlap",
            Block,
            false,
            ["overlaps 10.0.0.0/8 on docker0", "", "a range that no host has"],
        ),
    ];
    for (change, id, severity, acknowledgeable, [title, detail, fix]) in table {
        if id == "nothing" {
            assert_eq!(found_with(|_, facts| change(facts)), []);
            continue;
        }
        let found = found_with(|_, facts| change(facts));
        // The services' range overlaps too in the last case.
        let found = found.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("{id}: {found:#?}"));
        assert_eq!((found.severity, found.acknowledgeable), (severity, acknowledgeable), "{found:#?}");
        assert!(found.hosts.contains(&"b".to_owned()), "{found:#?}");
        assert!(found.title.contains(title), "{title}: {found:#?}");
        assert!(found.detail.contains(detail), "{detail}: {found:#?}");
        assert!(found.fix.contains(fix), "{fix}: {found:#?}");
        assert!(!found.fix.is_empty() && !found.title.ends_with('.'), "{found:#?}");
    }
}

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
fn names_of_hosts_and_addresses_of_nodes() {
    let found = found_with(|fleet, _| fleet.spec.hosts[1].name = "node_1".into());
    assert_eq!((found[0].id.as_str(), found[0].severity), ("host-name", Block));
    assert!(found[0].detail.contains("the character '_'"));
    let found = found_with(|fleet, _| fleet.spec.hosts[1].name = "A".into());
    assert_eq!((found[0].id.as_str(), found[0].hosts.join(" ")), ("duplicate-node-name", "a A".to_owned()));
    let found = found_with(|fleet, _| fleet.spec.hosts[1].address = "fe80::12".parse().unwrap());
    assert_eq!(found[0].title, "fe80::12 cannot be a node's address");
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
fn swap_that_the_kubelet_may_have_is_kept() {
    let found = found_with(|fleet, facts| {
        fleet.spec.kubernetes.kubelet.insert("failSwapOn".into(), json!(false));
        facts.swaps = vec!["/swap.img".into()];
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
