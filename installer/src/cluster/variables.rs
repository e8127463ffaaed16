//! The variables of a host's playbooks, shipped ones and users' own. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hostspan_manifests::names;
use ipnet::IpNet;
use serde::Serialize;
use serde_json::Value;

use super::images::Images;
use super::kubeadm::{self, Join, YamlError};
use crate::fleet::model::{Cni, Fleet, Host, Role};
use crate::host::facts::{Facts, NetworkOwner};
use crate::host::preflight::{NameError, kubelet_resolv_conf, node_name};

/// The kernel's number for whoever set a route: by it our routes are told from all others. Free in iproute2's list.
const ROUTE_PROTOCOL: u8 = 72;
/// In the place of a pod network where the fleet brings its own.
const NO_NETWORK: &str = "none";

/// What the variables of all hosts are made from.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The fleet.
    pub fleet: &'a Fleet,
    /// Its only control plane.
    pub control_plane: &'a Host,
    /// The pod network of every host of the fleet; empty where the fleet brings its own.
    pub pod_networks: &'a BTreeMap<String, IpNet>,
    /// Whether images are imported from archives of the artifact source, and not pulled by the hosts.
    pub image_archives: bool,
}

/// Why a host's variables cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariablesError {
    /// hostspan does not know that Kubernetes version.
    #[error("Kubernetes {0} is not supported; 1.34 to 1.36 are")]
    Version(String),
    /// The fleet file's address is not the host's.
    #[error(
        "the address {address} of the fleet file is on no interface of the host ({}); put the address there by which \
         the other hosts reach it", found.join(", ")
    )]
    Address {
        /// From the fleet file.
        address: IpAddr,
        /// What the host has.
        found: Vec<String>,
    },
    /// Pods would have no DNS.
    #[error(
        "{0}; put a name server of the LAN into /etc/resolv.conf, or set spec.kubernetes.kubelet.resolvConf to a file \
         that has one"
    )]
    NameServers(String),
    /// The host's name cannot be a node's.
    #[error("the name {name} cannot be a node's: {error}")]
    Name {
        /// The host.
        name: String,
        /// Why.
        error: NameError,
    },
    /// kubeadm's configuration cannot be written.
    #[error(transparent)]
    Yaml(#[from] YamlError),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Variables<'a> {
    fleet: FleetVars<'a>,
    host: HostVars,
    /// All of the fleet, this one too.
    hosts: Vec<HostVars>,
    /// All others.
    peers: Vec<HostVars>,
    /// Those that are nodes of the cluster once the phases before `ready` are through.
    members: Vec<HostVars>,
    kubernetes: KubernetesVars<'a>,
    kubelet: KubeletVars,
    kubeadm: KubeadmVars,
    images: ImageVars<'a>,
    runtime: RuntimeVars,
    network: NetworkVars,
    prepare: PrepareVars,
    ready: ReadyVars,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FleetVars<'a> {
    name: &'a str,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct HostVars {
    /// As in the fleet file.
    name: String,
    /// The node's name.
    node: String,
    address: IpAddr,
    /// Its part of the pod network, or `none`.
    pod_cidr: String,
    /// `control-plane`, `worker`, `control-plane+worker`.
    role: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KubernetesVars<'a> {
    version: &'a str,
    /// `192.0.2.11:6443`.
    endpoint: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KubeletVars {
    /// Text of the kubelet's own configuration.
    config: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KubeadmVars {
    /// Text of the file for `kubeadm init`; empty on other hosts than the control plane.
    init: String,
    /// Text of the file for `kubeadm join`, a secret; empty while nobody has to join.
    join: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ImageVars<'a> {
    from_archives: bool,
    apiserver: &'a str,
    controller_manager: &'a str,
    scheduler: &'a str,
    proxy: &'a str,
    etcd: &'a str,
    coredns: &'a str,
    pause: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RuntimeVars {
    bin: &'static str,
    config: &'static str,
    root: &'static str,
    state: &'static str,
    socket: &'static str,
    unit: &'static str,
    systemd_cgroup: bool,
    restrict_oom_score_adj: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NetworkVars {
    pods: IpNet,
    services: IpNet,
    ipv6: bool,
    /// The interface that has the host's address.
    interface: String,
    /// Its MTU in bytes.
    mtu: u32,
    owner: OwnerVars,
    /// Path of our drop-in for the interface's .network file; empty where networkd does not own it.
    networkd_drop_in: String,
    /// `-4` or `-6` of `ip`.
    ip: &'static str,
    /// The address family's name in nftables.
    nft: &'static str,
    /// The default route's destination.
    everywhere: &'static str,
    route_protocol: u8,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerVars {
    networkd: bool,
    ifupdown: bool,
    other: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrepareVars {
    swap_off: bool,
    connection_tracking: bool,
    time_daemon_missing: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadyVars {
    /// Without a pod network of ours, nodes become ready when the user has brought one.
    wait: bool,
}

/// The variables of `host`. `members` are the names of the hosts that are nodes at the end of the run.
pub fn of(
    inputs: &Inputs<'_>,
    host: &Host,
    facts: &Facts,
    join: Option<&Join>,
    members: &[&str],
) -> Result<Value, VariablesError> {
    let Inputs { fleet, control_plane, .. } = *inputs;
    let kubernetes = &fleet.spec.kubernetes;
    let images = Images::of(&kubernetes.version).ok_or_else(|| VariablesError::Version(kubernetes.version.clone()))?;
    let socket = names::CONTAINERD_SOCKET;
    let hosts = fleet.spec.hosts.iter().map(|host| host_vars(inputs, host)).collect::<Result<Vec<_>, _>>()?;
    let own = host_vars(inputs, host)?;
    let own_kernel = facts.platform.container.is_none();
    let variables = Variables {
        fleet: FleetVars { name: &fleet.metadata.name },
        peers: hosts.iter().filter(|peer| peer.name != host.name).cloned().collect(),
        members: hosts.iter().filter(|member| members.contains(&member.name.as_str())).cloned().collect(),
        hosts,
        kubernetes: KubernetesVars { version: &kubernetes.version, endpoint: kubeadm::endpoint(control_plane) },
        kubelet: KubeletVars { config: kubelet(fleet, facts)? },
        kubeadm: KubeadmVars {
            init: if host.name == control_plane.name {
                kubeadm::init(fleet, host, &own.node, &images, socket)?
            } else {
                String::new()
            },
            join: match join {
                Some(join) => kubeadm::join(fleet, control_plane, host, &own.node, join, socket)?.expose().to_owned(),
                None => String::new(),
            },
        },
        images: ImageVars {
            from_archives: inputs.image_archives,
            apiserver: &images.apiserver,
            controller_manager: &images.controller_manager,
            scheduler: &images.scheduler,
            proxy: &images.proxy,
            etcd: &images.etcd,
            coredns: &images.coredns,
            pause: &images.pause,
        },
        runtime: RuntimeVars {
            bin: names::CONTAINERD_BIN_DIR,
            config: names::CONTAINERD_CONFIG_DIR,
            root: names::CONTAINERD_ROOT,
            state: names::CONTAINERD_STATE,
            socket,
            unit: names::CONTAINERD_UNIT,
            systemd_cgroup: kubernetes.kubelet.get("cgroupDriver").and_then(Value::as_str) != Some("cgroupfs"),
            restrict_oom_score_adj: fleet.spec.runtime.restrict_oom_score_adj,
        },
        network: network(fleet, host, facts)?,
        prepare: PrepareVars {
            swap_off: !kubernetes.keeps_swap(),
            connection_tracking: own_kernel,
            // A container has its host's clock.
            time_daemon_missing: own_kernel && facts.time_daemon().is_none(),
        },
        ready: ReadyVars { wait: fleet.spec.network.cni == Cni::Routed },
        host: own,
    };
    serde_json::to_value(variables).map_err(|error| VariablesError::Yaml(YamlError(error.to_string())))
}

fn host_vars(inputs: &Inputs<'_>, host: &Host) -> Result<HostVars, VariablesError> {
    let network = inputs.pod_networks.get(&host.name);
    Ok(HostVars {
        name: host.name.clone(),
        node: node_name(&host.name).map_err(|error| VariablesError::Name { name: host.name.clone(), error })?,
        address: host.address,
        pod_cidr: network.map_or_else(|| NO_NETWORK.to_owned(), IpNet::to_string),
        role: match (host.roles.contains(&Role::ControlPlane), host.roles.contains(&Role::Worker)) {
            (true, true) => "control-plane+worker",
            (true, false) => "control-plane",
            (false, _) => "worker",
        },
    })
}

/// A file with name servers that the fleet file names is the admin's own choice, whatever the host has.
fn kubelet(fleet: &Fleet, facts: &Facts) -> Result<String, VariablesError> {
    let resolv_conf = match fleet.spec.kubernetes.kubelet.get("resolvConf").and_then(Value::as_str) {
        Some(chosen) => chosen,
        None => kubelet_resolv_conf(&facts.resolv_conf).map_err(VariablesError::NameServers)?,
    };
    Ok(kubeadm::kubelet(fleet, resolv_conf)?)
}

fn network(fleet: &Fleet, host: &Host, facts: &Facts) -> Result<NetworkVars, VariablesError> {
    let holder = facts.addresses.iter().find(|address| address.address.addr() == host.address);
    let interface = holder.and_then(|address| facts.interface(&address.interface)).ok_or_else(|| {
        let found = facts.addresses.iter().map(|found| found.address.addr()).filter(|ip| !ip.is_loopback());
        VariablesError::Address { address: host.address, found: found.map(|ip| ip.to_string()).collect() }
    })?;
    let by_networkd = matches!(interface.owner, NetworkOwner::Netplan | NetworkOwner::Networkd);
    let drop_in = interface.network_file.as_deref().filter(|_| by_networkd).and_then(drop_in_of).unwrap_or_default();
    let owner = OwnerVars {
        networkd: !drop_in.is_empty(),
        ifupdown: interface.owner == NetworkOwner::Ifupdown,
        other: drop_in.is_empty() && interface.owner != NetworkOwner::Ifupdown,
    };
    let ipv6 = host.address.is_ipv6();
    Ok(NetworkVars {
        pods: fleet.spec.network.pods,
        services: fleet.spec.network.services,
        ipv6,
        interface: interface.name.clone(),
        mtu: interface.mtu,
        owner,
        networkd_drop_in: drop_in,
        ip: if ipv6 { "-6" } else { "-4" },
        nft: if ipv6 { "ip6" } else { "ip" },
        everywhere: if ipv6 { "::/0" } else { "0.0.0.0/0" },
        route_protocol: ROUTE_PROTOCOL,
    })
}

/// Our drop-in for a .network file. Below /etc also where the file itself is netplan's, below /run: networkd looks for
/// drop-ins by the file's name in all of its folders.
fn drop_in_of(network_file: &str) -> Option<String> {
    let name = network_file.rsplit('/').next().filter(|name| name.ends_with(".network"))?;
    Some(format!("/etc/systemd/network/{name}.d/50-hostspan-pods.conf"))
}

#[cfg(test)]
mod tests;
