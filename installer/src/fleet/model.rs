//! The fleet file as types. Reading it with places in errors is `load`, rules between fields are `validate`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `fleet.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fleet {
    /// `hostspan.dev/v1alpha1`.
    pub api_version: String,
    /// `Fleet`.
    pub kind: String,
    /// Its name.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: Spec,
}

/// Metadata of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metadata {
    /// The infra cluster's name: lower-case letters, digits and dashes.
    pub name: String,
}

/// What is wanted of the fleet.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// How to reach the hosts.
    #[serde(default)]
    pub ssh: Ssh,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// Networks.
    #[serde(default)]
    pub network: Network,
    /// Kubernetes.
    #[serde(default)]
    pub kubernetes: Kubernetes,
    /// The container runtime.
    #[serde(default)]
    pub runtime: Runtime,
    /// Where release files and images come from.
    #[serde(default)]
    pub artifacts: Artifacts,
    /// Folders or files with the user's own playbooks, relative to the fleet file.
    #[serde(default)]
    pub playbooks: Vec<PathBuf>,
    /// Preflight findings that the admin accepts, by the name that `check` prints: `cgroup-v1`, `guest:web-1`.
    #[serde(default)]
    pub acknowledge: Vec<String>,
}

/// How to reach the hosts. `~/.ssh/config` is read too; what stands here wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Ssh {
    /// Login name.
    pub user: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Private keys, in order; `~/` is the home directory, else relative to the fleet file.
    pub identity_files: Vec<PathBuf>,
    /// Jump hosts in order, each `[user@]host[:port]`.
    pub jump: Vec<String>,
    /// known_hosts files; default `~/.ssh/known_hosts`, and /etc/ssh/ssh_known_hosts for reading.
    pub known_hosts: Vec<PathBuf>,
    /// Another ssh_config than `~/.ssh/config`.
    pub config: Option<PathBuf>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Host {
    /// Its name here and in `--host`; the Kubernetes node gets it too.
    pub name: String,
    /// Where SSH goes, and the node's address in the cluster.
    pub address: IpAddr,
    /// What it does; `[worker]` where absent.
    #[serde(default = "worker_only")]
    pub roles: Vec<Role>,
    /// The NIC towards the LAN; default: the default route's interface.
    #[serde(default)]
    pub uplink: Uplink,
    /// SSH settings of this host only.
    #[serde(default)]
    pub ssh: Ssh,
}

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs virtual machines and pods.
    Worker,
}

/// The NIC towards the LAN.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Uplink {
    /// Its name.
    pub interface: Option<String>,
    /// Or its MAC address.
    pub mac: Option<String>,
}

/// Networks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Network {
    /// Pod addresses of the whole cluster; each host gets a /24 (or /80) of it.
    #[schemars(with = "String")]
    pub pods: IpNet,
    /// Service addresses.
    #[schemars(with = "String")]
    pub services: IpNet,
    /// The pod network.
    pub cni: Cni,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            pods: IpNet::from(ipnet::Ipv4Net::new_assert([10, 244, 0, 0].into(), 16)),
            services: IpNet::from(ipnet::Ipv4Net::new_assert([10, 96, 0, 0].into(), 16)),
            cni: Cni::Routed,
        }
    }
}

/// The pod network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cni {
    /// One route per peer, no daemon, no overlay.
    Routed,
    /// Bring your own.
    None,
}

/// Kubernetes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Kubernetes {
    /// `1.36.3`, without a `v`; 1.34 to 1.36.
    pub version: String,
    /// Merged over the KubeletConfiguration that hostspan writes.
    pub kubelet: BTreeMap<String, serde_json::Value>,
    /// kubeadm's own preflight checks to ignore, by its names: `SystemVerification`.
    pub ignore_preflight_errors: Vec<String>,
    /// More names or addresses for the API server's certificate.
    pub cert_sans: Vec<String>,
}

impl Kubernetes {
    /// Whether hosts keep their swap: a fleet that tells the kubelet to live with it wants that.
    pub fn keeps_swap(&self) -> bool {
        self.kubelet.get("failSwapOn") == Some(&serde_json::Value::Bool(false))
    }
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            version: "1.36.3".into(),
            kubelet: BTreeMap::new(),
            ignore_preflight_errors: Vec::new(),
            cert_sans: Vec::new(),
        }
    }
}

/// The container runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Runtime {
    /// containerd's `restrict_oom_score_adj`, for hosts that may not lower a process's OOM score (containers, sandboxes).
    pub restrict_oom_score_adj: bool,
}

/// Where release files and images come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Artifacts {
    /// The kind of source.
    pub source: ArtifactSource,
    /// For `folder`: relative to the fleet file.
    pub path: Option<PathBuf>,
    /// For `mirror`: the base URL under which upstream's host and path are kept.
    pub url: Option<String>,
    /// HTTP(S) proxy for downloads of this machine.
    pub proxy: Option<String>,
}

/// The kind of source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactSource {
    /// Upstream's own download sites; images are pulled by the hosts.
    #[default]
    Official,
    /// A folder with `artifacts.yaml`; images are archives in it.
    Folder,
    /// An HTTP mirror of the official sites.
    Mirror,
}

fn worker_only() -> Vec<Role> {
    vec![Role::Worker]
}
