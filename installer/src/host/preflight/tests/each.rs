//! Every check of one host.

use super::*;

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
                "iptables FORWARD, nft inet filter forward is DROP: packets of pods are lost",
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
            |f| {
                f.existing.docker = true;
                f.bridge_nf_call = true;
                f.forward_drop = vec!["iptables FORWARD".into(), "ip6tables FORWARD".into()];
            },
            "forward-drop",
            Block,
            true,
            [
                "dropped",
                "docker sets it where it is the one that switches forwarding on",
                "iptables -P FORWARD ACCEPT; ip6tables -P FORWARD ACCEPT",
            ],
        ),
        (
            |f| {
                let files = ["/etc/cni/net.d/10-calico.conflist", "/etc/cni/net.d/87-podman.conflist"];
                f.existing.cni_configs = files.map(str::to_owned).to_vec();
            },
            "cni-config",
            Block,
            false,
            ["another pod network", "10-calico.conflist would be taken", "rm /etc/cni/net.d/10-calico.conflist"],
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
