//! What one round trip tells about a host. Values as found; judging them is preflight's.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

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
    /// Active swap devices and files.
    pub swaps: Vec<String>,
    /// /etc/fstab as it is.
    pub fstab: String,
    /// Milliseconds since the epoch on the host, minus ours at the middle of the round trip.
    pub clock_offset_ms: i64,
    /// Whether systemd says that the clock is synchronised.
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
    /// Names of libvirt guests that run now.
    pub running_guests: Vec<String>,
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
    /// A containerd that is not ours: its binary's path.
    pub foreign_containerd: Option<String>,
    /// A docker engine is installed.
    pub docker: bool,
    /// AppArmor's libvirtd profile is loaded from the host.
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
