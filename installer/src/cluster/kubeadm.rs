//! kubeadm's and the kubelet's configuration files. Made by a serialiser and not by templates: a host called `10` or a
//! value like `on` must stay a string.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::images::{Images, tag};
use crate::fleet::model::{Fleet, Host, Role};
use crate::secret::Secret;

/// Port of the API server.
pub const API_PORT: u16 = 6443;

/// What a configuration cannot be serialised for. None is known; it is an error and not a panic all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("kubeadm's configuration cannot be written as YAML: {0}")]
pub struct YamlError(pub(super) String);

/// What joining hosts need to know of a control plane that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// Bootstrap token.
    pub token: Secret,
    /// `sha256:...` of the cluster CA's public key.
    pub ca_hash: String,
}

/// `192.0.2.11:6443`, `[2001:db8::20]:6443`.
pub fn endpoint(control_plane: &Host) -> String {
    std::net::SocketAddr::new(control_plane.address, API_PORT).to_string()
}

/// The file for `kubeadm init`.
///
/// `cri_socket` is the path of containerd's socket.
pub fn init(fleet: &Fleet, host: &Host, node: &str, images: &Images, cri_socket: &str) -> Result<String, YamlError> {
    let spec = &fleet.spec;
    let init = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "InitConfiguration",
        // kubeadm makes one token whatever is asked for; this one has gone before anybody can use it.
        "bootstrapTokens": [{"ttl": "1m0s"}],
        "localAPIEndpoint": {"advertiseAddress": host.address, "bindPort": API_PORT},
        "nodeRegistration": registration(fleet, host, node, cri_socket),
    });
    let cluster = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "clusterName": fleet.metadata.name,
        "kubernetesVersion": format!("v{}", spec.kubernetes.version),
        "controlPlaneEndpoint": endpoint(host),
        "networking": {
            "podSubnet": spec.network.pods.to_string(),
            "serviceSubnet": spec.network.services.to_string(),
        },
        "apiServer": {"certSANs": certificate_names(fleet, host, node)},
        // hostspan gives each host its part of the pod network, and keeps it when a node leaves and comes back.
        "controllerManager": {"extraArgs": [{"name": "allocate-node-cidrs", "value": "false"}]},
        "etcd": {"local": {"imageTag": tag(&images.etcd)}},
        "dns": {"imageTag": tag(&images.coredns)},
    });
    let proxy = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": spec.network.pods.to_string(),
        // Left alone, or a reset could not restore them. The size of the connection table is the phase prepare's, and in a
        // container it cannot be written; zero time-outs keep the host's own.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    });
    let documents = [init, cluster, proxy].iter().map(yaml).collect::<Result<Vec<_>, _>>()?;
    Ok(documents.join("---\n"))
}

/// The file for `kubeadm join`; it holds the bootstrap token.
pub fn join(
    fleet: &Fleet,
    control_plane: &Host,
    host: &Host,
    node: &str,
    join: &Join,
    cri_socket: &str,
) -> Result<Secret, YamlError> {
    let configuration = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {
            "apiServerEndpoint": endpoint(control_plane),
            "token": join.token.expose(),
            "caCertHashes": [join.ca_hash],
        }},
        "nodeRegistration": registration(fleet, host, node, cri_socket),
    });
    yaml(&configuration).map(Secret::new)
}

/// The kubelet's own file, merged over the one that kubeadm writes for all nodes. What the fleet file says wins.
pub fn kubelet(fleet: &Fleet, resolv_conf: &str) -> Result<String, YamlError> {
    let mut configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "resolvConf": resolv_conf,
        // They are for kube-proxy's iptables mode. In nftables mode nobody uses them, and a reset would leave them behind.
        "makeIPTablesUtilChains": false,
    });
    if let Some(map) = configuration.as_object_mut() {
        merge(map, fleet.spec.kubernetes.kubelet.iter());
    }
    yaml(&configuration)
}

fn merge<'a>(into: &mut Map<String, Value>, from: impl Iterator<Item = (&'a String, &'a Value)>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => merge(inner, value.iter()),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

fn registration(fleet: &Fleet, host: &Host, node: &str, cri_socket: &str) -> Value {
    let mut registration = json!({
        "name": node,
        "criSocket": format!("unix://{cri_socket}"),
        "imagePullPolicy": "IfNotPresent",
        // Without it kubelet takes the default route's interface, which need not be the one that the fleet file names.
        "kubeletExtraArgs": [{"name": "node-ip", "value": host.address.to_string()}],
    });
    if host.roles.contains(&Role::ControlPlane) && host.roles.contains(&Role::Worker) {
        // Empty is not absent: kubeadm taints a control plane unless told not to.
        registration["taints"] = json!([]);
    }
    if !fleet.spec.kubernetes.ignore_preflight_errors.is_empty() {
        registration["ignorePreflightErrors"] = json!(fleet.spec.kubernetes.ignore_preflight_errors);
    }
    registration
}

/// Names by which the API server may be called, besides those that kubeadm adds itself.
fn certificate_names(fleet: &Fleet, host: &Host, node: &str) -> Vec<String> {
    let own = [host.address.to_string(), node.to_owned()];
    let loopback = match host.address {
        IpAddr::V4(_) => "127.0.0.1",
        IpAddr::V6(_) => "::1",
    };
    let mut names = Vec::new();
    for name in own.into_iter().chain([loopback.to_owned()]).chain(fleet.spec.kubernetes.cert_sans.iter().cloned()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn yaml(value: &Value) -> Result<String, YamlError> {
    let mut text = serde_saphyr::to_string(value).map_err(|error| YamlError(error.to_string()))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(address: &str, roles: &[&str], kubernetes: Value) -> Fleet {
        serde_json::from_value(json!({
            "apiVersion": "hostspan.dev/v1alpha1", "kind": "Fleet", "metadata": {"name": "kvm-a"},
            "spec": {"hosts": [{"name": "PHost01", "address": address, "roles": roles}], "kubernetes": kubernetes},
        }))
        .unwrap()
    }

    fn documents(text: &str) -> Vec<Value> {
        text.split("---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
    }

    fn init_of(fleet: &Fleet) -> Vec<Value> {
        let images = Images::of("1.36.3").unwrap();
        documents(&init(fleet, &fleet.spec.hosts[0], "phost01", &images, "/run/containerd/containerd.sock").unwrap())
    }

    #[test]
    fn the_fleet_files_address_is_advertised_and_is_the_nodes() {
        let both = fleet("192.0.2.20", &["control-plane", "worker"], json!({"certSans": ["api.example.test"]}));
        let documents = init_of(&both);
        let (init, cluster, proxy) = (&documents[0], &documents[1], &documents[2]);
        assert_eq!(init["localAPIEndpoint"], json!({"advertiseAddress": "192.0.2.20", "bindPort": 6443}));
        assert_eq!(init["nodeRegistration"]["kubeletExtraArgs"], json!([{"name": "node-ip", "value": "192.0.2.20"}]));
        assert_eq!(init["nodeRegistration"]["name"], "phost01");
        assert_eq!(init["nodeRegistration"]["taints"], json!([]));
        assert_eq!(cluster["controlPlaneEndpoint"], "192.0.2.20:6443");
        assert_eq!(cluster["apiServer"]["certSANs"], json!(["192.0.2.20", "phost01", "127.0.0.1", "api.example.test"]));
        assert_eq!(cluster["etcd"]["local"]["imageTag"], "3.6.8-0");
        assert_eq!(cluster["dns"]["imageTag"], "v1.14.2");
        assert_eq!(proxy["mode"], "nftables");
        assert_eq!(proxy["clusterCIDR"], "10.244.0.0/16");
    }

    #[test]
    fn a_control_plane_that_is_no_worker_keeps_kubeadms_taint() {
        let documents = init_of(&fleet("192.0.2.20", &["control-plane"], json!({})));
        assert_eq!(documents[0]["nodeRegistration"].get("taints"), None);
    }

    #[test]
    fn ipv6_is_bracketed_in_the_endpoint_only() {
        let documents = init_of(&fleet("2001:db8::20", &["control-plane"], json!({})));
        assert_eq!(documents[0]["localAPIEndpoint"]["advertiseAddress"], "2001:db8::20");
        assert_eq!(documents[1]["controlPlaneEndpoint"], "[2001:db8::20]:6443");
    }

    #[test]
    fn strings_that_look_like_something_else_stay_strings() {
        let fleet = fleet("192.0.2.20", &["worker"], json!({"certSans": ["10", "on", "1e3", "0x1f", "null", "~"]}));
        let images = Images::of("1.36.3").unwrap();
        let text = init(&fleet, &fleet.spec.hosts[0], "10", &images, "/run/x.sock").unwrap();
        let documents = documents(&text);
        assert_eq!(documents[0]["nodeRegistration"]["name"], json!("10"));
        let names = documents[1]["apiServer"]["certSANs"].as_array().unwrap();
        assert!(names.iter().all(Value::is_string), "{names:?}");
        // Kubernetes' own parser still reads YAML 1.1, where a bare `on` is a boolean.
        for word in ["10", "on", "1e3", "0x1f", "null", "~"] {
            assert!(
                text.contains(&format!("- \"{word}\"\n")) || text.contains(&format!("- '{word}'\n")),
                "{word} is not quoted in\n{text}"
            );
        }
    }

    #[test]
    fn a_join_carries_token_and_hash_and_shows_neither_in_debug() {
        let mut fleet =
            fleet("192.0.2.20", &["control-plane"], json!({"ignorePreflightErrors": ["SystemVerification"]}));
        fleet.spec.hosts.push(Host {
            name: "b".into(),
            address: "192.0.2.21".parse().unwrap(),
            ..fleet.spec.hosts[0].clone()
        });
        let (control_plane, host) = (&fleet.spec.hosts[0], &fleet.spec.hosts[1]);
        let token = Join { token: Secret::new("abcdef.0123456789abcdef"), ca_hash: "sha256:aa".into() };
        let text = join(&fleet, control_plane, host, "b", &token, "/run/containerd/containerd.sock").unwrap();
        assert_eq!(format!("{text:?}"), "[redacted]");
        let value = &documents(text.expose())[0];
        assert_eq!(
            value["discovery"]["bootstrapToken"],
            json!({"apiServerEndpoint": "192.0.2.20:6443", "token": "abcdef.0123456789abcdef", "caCertHashes": ["sha256:aa"]})
        );
        assert_eq!(value["nodeRegistration"]["ignorePreflightErrors"], json!(["SystemVerification"]));
        assert_eq!(value["nodeRegistration"]["kubeletExtraArgs"][0]["value"], "192.0.2.21");
    }

    #[test]
    fn the_fleets_kubelet_settings_win_over_ours() {
        let fleet = fleet(
            "192.0.2.20",
            &["worker"],
            json!({"kubelet": {"failSwapOn": false, "featureGates": {"A": true}, "resolvConf": "/etc/mine"}}),
        );
        assert_eq!(
            documents(&kubelet(&fleet, "/etc/resolv.conf").unwrap())[0],
            json!({
                "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
                "resolvConf": "/etc/mine", "makeIPTablesUtilChains": false, "failSwapOn": false, "featureGates": {"A": true},
            })
        );
    }
}
