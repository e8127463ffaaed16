//! What one round trip tells about a host. Values as found; judging them is preflight's.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::fleet::model::{Fleet, Host};

/// Everything that the installer wants to know of a host before it plans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// `hostname` as the kernel has it.
    pub hostname: String,
    /// os-release `ID`: `debian`, `ubuntu`.
    pub os_id: String,
    /// os-release `VERSION_ID`: `12`, `24.04`.
    pub os_version: String,
    /// os-release `PRETTY_NAME`.
    pub os_name: String,
    /// `uname -r`.
    pub kernel: String,
    /// In Kubernetes' words: `amd64`, `arm64`; anything else as `uname -m` has it.
    pub arch: String,
    /// /etc/machine-id.
    pub machine_id: String,
    /// DMI product UUID, lower case, where readable.
    pub product_uuid: Option<String>,
    /// The kernel's boot id: changes with every boot.
    pub boot_id: String,
    /// 1 or 2 (pure cgroup2 at /sys/fs/cgroup).
    pub cgroup_version: u8,
    /// Logical CPUs.
    pub cpus: u32,
    /// MemTotal in bytes.
    pub memory_bytes: u64,
    /// Free bytes by mount-relevant path: `/`, `/var/lib`.
    pub disk_free_bytes: BTreeMap<String, u64>,
    /// Whether /dev/kvm exists.
    pub kvm_device: bool,
    /// Whether /proc/cpuinfo shows vmx or svm.
    pub kvm_cpu: bool,
    /// `model name` of /proc/cpuinfo; empty where the architecture has none.
    pub cpu_model: String,
    /// What the host itself runs on.
    pub platform: Platform,
    /// Whether systemd is the init system.
    pub systemd: bool,
    /// Folders that must be writable and are not, of /etc, /var/lib and /usr/local.
    pub read_only: Vec<String>,
    /// Active swap devices and files.
    pub swaps: Vec<String>,
    /// /etc/fstab as it is.
    pub fstab: String,
    /// /etc/hosts as it is.
    pub etc_hosts: String,
    /// fs.inotify.max_user_instances, where readable.
    pub inotify_instances: Option<u64>,
    /// fs.inotify.max_user_watches, where readable.
    pub inotify_watches: Option<u64>,
    /// Who holds dpkg's lock now: `apt-get (pid 812)`.
    pub dpkg_lock: Option<String>,
    /// Milliseconds since the epoch on the host, minus ours at the middle of the round trip.
    pub clock_offset_ms: i64,
    /// How far `clock_offset_ms` may be off: half of the round trip.
    pub clock_error_ms: u64,
    /// Whether a time service says that the clock is synchronised.
    pub clock_synchronized: bool,
    /// Interfaces.
    pub interfaces: Vec<Interface>,
    /// Addresses, link-local ones too.
    pub addresses: Vec<Address>,
    /// Routes of the main table.
    pub routes: Vec<Route>,
    /// TCP ports with a listener, with the process's name where readable.
    pub listeners: BTreeMap<u16, String>,
    /// What answers DNS for the host itself.
    pub resolv_conf: ResolvConf,
    /// Who owns the uplink's configuration.
    pub network_owner: NetworkOwner,
    /// ufw is switched on (its unit is active even when it is off).
    pub ufw_enabled: bool,
    /// Chains that drop what is forwarded and not allowed elsewhere: `iptables FORWARD`, `nft inet filter forward`.
    pub forward_drop: Vec<String>,
    /// Bridged frames go through iptables (br_netfilter with net.bridge.bridge-nf-call-iptables = 1).
    pub bridge_nf_call: bool,
    /// Names of libvirt guests that run now.
    pub running_guests: Vec<String>,
    /// Names of libvirt guests that are defined and do not run.
    pub stopped_guests: Vec<String>,
    /// Installed snaps.
    pub snaps: Vec<String>,
    /// What of Kubernetes or a container runtime is there already.
    pub existing: Existing,
    /// Loaded or built-in modules that matter: br_netfilter, overlay, kvm_intel, ...
    pub modules: Vec<String>,
    /// systemd units that matter and are active: `docker.service`, `ufw.service`, `libvirtd.service`, ...
    pub active_units: Vec<String>,
    /// Our own state on the host.
    pub hostspan: OwnState,
    /// Findings that the facts script could not read, each one sentence.
    pub unreadable: Vec<String>,
}

/// What a host runs on: bare metal, a hypervisor, a container manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Platform {
    /// DMI system vendor: `Dell Inc.`, `QEMU`, `Amazon EC2`.
    pub vendor: String,
    /// DMI product name: `PowerEdge R640`, `Virtual Machine`.
    pub product: String,
    /// The container manager, of a host that is a container: `systemd-nspawn`, `lxc`.
    pub container: Option<String>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Lower case.
    pub mac: String,
    /// Bytes.
    pub mtu: u32,
    /// The bridge or bond that it is a port of.
    pub master: Option<String>,
    /// `ether`, `bridge`, `bond`, `vlan`, `veth`, `wlan`, `loopback`, ...
    pub kind: String,
    /// Whether it is up.
    pub up: bool,
    /// Megabits per second, of a NIC that has a link and says so.
    pub speed_mbps: Option<u32>,
    /// Who configures it.
    pub owner: NetworkOwner,
    /// systemd-networkd's .network file of it.
    pub network_file: Option<String>,
}

/// An address on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// The interface.
    pub interface: String,
    /// Address with its prefix.
    pub address: IpNet,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// `None` is the default route.
    pub destination: Option<IpNet>,
    /// The next hop.
    pub via: Option<IpAddr>,
    /// The interface.
    pub interface: String,
}

/// /etc/resolv.conf and what is behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResolvConf {
    /// Name servers of /etc/resolv.conf.
    pub nameservers: Vec<String>,
    /// Name servers of /run/systemd/resolve/resolv.conf, empty where there is no such file.
    pub resolved_upstream: Vec<String>,
}

/// Who owns the uplink's configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkOwner {
    /// netplan with systemd-networkd.
    Netplan,
    /// systemd-networkd.
    Networkd,
    /// ifupdown's /etc/network/interfaces.
    Ifupdown,
    /// NetworkManager.
    NetworkManager,
    /// None of them, or not to be told.
    #[default]
    Unknown,
}

/// What of Kubernetes or a container runtime is there already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Existing {
    /// Files and folders of a Kubernetes installation that exist: /etc/kubernetes/admin.conf, /var/lib/etcd/member, ...
    pub kubernetes_files: Vec<String>,
    /// `server:` of /etc/kubernetes/kubelet.conf.
    pub kubelet_server: Option<String>,
    /// SHA-256 of the cluster CA's certificate file (/etc/kubernetes/pki/ca.crt), hex.
    pub ca_sha256: Option<String>,
    /// Other distributions found: k3s, rke2, microk8s, k0s.
    pub distributions: Vec<String>,
    /// The files and folders by which those were found.
    pub distribution_files: Vec<String>,
    /// A containerd that is not ours: its binary's path.
    pub foreign_containerd: Option<String>,
    /// Configuration files in /etc/cni/net.d.
    pub cni_configs: Vec<String>,
    /// A docker engine is installed.
    pub docker: bool,
    /// AppArmor's libvirtd profile is loaded and does not allow /usr/libexec/qemu-kvm, which KubeVirt's libvirtd starts.
    pub libvirt_apparmor: bool,
}

/// What hostspan left on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnState {
    /// Name of the fleet that it was converted for (/etc/hostspan/fleet).
    pub fleet: Option<String>,
    /// SHA-256 of the cluster CA that we made or joined (/etc/hostspan/ca.sha256).
    pub ca_sha256: Option<String>,
    /// Pod networks by host name, as last written (/etc/hostspan/pod-networks: `name address cidr` a line).
    pub pod_networks: BTreeMap<String, IpNet>,
}

impl Facts {
    /// The interface of that name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The interface towards the LAN: the one that the fleet file names, else the default route's, else the one with the
    /// host's address.
    pub fn uplink(&self, host: &Host) -> Option<&Interface> {
        if let Some(name) = &host.uplink.interface {
            return self.interface(name);
        }
        if let Some(mac) = &host.uplink.mac {
            return self.interfaces.iter().find(|interface| interface.mac.eq_ignore_ascii_case(mac));
        }
        self.default_interface().or_else(|| {
            let holds = |address: &&Address| address.address.addr() == host.address;
            self.addresses.iter().find(holds).and_then(|address| self.interface(&address.interface))
        })
    }

    /// The interface of the default route; IPv4's where there are both.
    pub fn default_interface(&self) -> Option<&Interface> {
        let route = self.routes.iter().find(|route| route.destination.is_none())?;
        self.interface(&route.interface)
    }

    /// Whether the host was converted for this fleet, wholly or in part.
    pub fn is_ours(&self, fleet: &Fleet) -> bool {
        self.hostspan.fleet.as_deref() == Some(fleet.metadata.name.as_str())
    }

    /// The unit that keeps the clock, where one runs.
    pub fn time_daemon(&self) -> Option<&'static str> {
        let daemons = ["systemd-timesyncd.service", "chrony.service", "ntpsec.service"];
        daemons.into_iter().find(|unit| self.unit_active(unit))
    }

    /// Whether that systemd unit is active.
    pub fn unit_active(&self, unit: &str) -> bool {
        self.active_units.iter().any(|active| active == unit)
    }
}
