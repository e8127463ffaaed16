use serde_json::json;

use super::*;
use crate::host::facts::{Address, Interface, ResolvConf};

fn fleet(kubernetes: Value) -> Fleet {
    serde_json::from_value(json!({
        "apiVersion": "hostspan.dev/v1alpha1", "kind": "Fleet", "metadata": {"name": "kvm-a"},
        "spec": {
            "hosts": [
                {"name": "A", "address": "192.0.2.11", "roles": ["control-plane", "worker"]},
                {"name": "b", "address": "192.0.2.12"},
            ],
            "kubernetes": kubernetes,
        },
    }))
    .unwrap()
}

fn facts(address: &str) -> Facts {
    let addresses = [("lo", "127.0.0.1/8"), ("eno2", "198.51.100.7/24"), ("br0", address)];
    Facts {
        interfaces: ["lo", "eno2", "br0"]
            .map(|name| Interface {
                name: name.into(),
                mtu: 1500,
                owner: NetworkOwner::Netplan,
                network_file: Some(format!("/run/systemd/network/10-netplan-{name}.network")),
                ..Interface::default()
            })
            .into(),
        addresses: addresses
            .map(|(interface, address)| Address { interface: interface.into(), address: address.parse().unwrap() })
            .into(),
        resolv_conf: ResolvConf { nameservers: vec!["192.0.2.53".into()], ..ResolvConf::default() },
        ..Facts::default()
    }
}

fn networks() -> BTreeMap<String, IpNet> {
    [("A", "10.244.0.0/24"), ("b", "10.244.1.0/24")]
        .map(|(host, network)| (host.to_owned(), network.parse().unwrap()))
        .into()
}

fn variables(fleet: &Fleet, index: usize, facts: &Facts) -> Result<Value, VariablesError> {
    let pod_networks = networks();
    let inputs =
        Inputs { fleet, control_plane: &fleet.spec.hosts[0], pod_networks: &pod_networks, image_archives: true };
    of(&inputs, &fleet.spec.hosts[index], facts, None, &["b"])
}

#[test]
fn a_host_knows_itself_its_peers_and_the_members() {
    let variables = variables(&fleet(json!({})), 0, &facts("192.0.2.11/24")).unwrap();
    let (a, b) = (
        json!({"name": "A", "node": "a", "address": "192.0.2.11", "podCidr": "10.244.0.0/24", "role": "control-plane+worker"}),
        json!({"name": "b", "node": "b", "address": "192.0.2.12", "podCidr": "10.244.1.0/24", "role": "worker"}),
    );
    assert_eq!(variables["host"], a);
    assert_eq!(variables["hosts"], json!([a, b]));
    assert_eq!(variables["peers"], json!([b]));
    assert_eq!(variables["members"], json!([b]));
    assert_eq!(variables["kubernetes"]["endpoint"], "192.0.2.11:6443");
    assert_eq!(variables["kubeadm"]["join"], "");
}

#[test]
fn the_interface_is_the_one_with_the_fleet_files_address() {
    let variables = variables(&fleet(json!({})), 1, &facts("192.0.2.12/24")).unwrap();
    assert_eq!(variables["network"]["interface"], "br0");
    assert_eq!(
        variables["network"]["networkdDropIn"],
        "/etc/systemd/network/10-netplan-br0.network.d/50-hostspan-pods.conf"
    );
    assert_eq!(variables["network"]["owner"], json!({"networkd": true, "ifupdown": false, "other": false}));
    assert_eq!(variables["kubeadm"]["init"], "");
}

#[test]
fn an_address_that_the_host_does_not_have_is_an_error_with_those_that_it_has() {
    let error = variables(&fleet(json!({})), 1, &facts("192.0.2.99/24")).unwrap_err().to_string();
    assert!(error.contains("192.0.2.12") && error.contains("192.0.2.99") && !error.contains("127.0.0.1"), "{error}");
}

#[test]
fn other_owners_of_the_network_get_their_own_way() {
    let mut facts = facts("192.0.2.11/24");
    for (owner, ours) in [
        (NetworkOwner::Ifupdown, json!({"networkd": false, "ifupdown": true, "other": false})),
        (NetworkOwner::NetworkManager, json!({"networkd": false, "ifupdown": false, "other": true})),
        (NetworkOwner::Unknown, json!({"networkd": false, "ifupdown": false, "other": true})),
    ] {
        facts.interfaces.iter_mut().for_each(|interface| interface.owner = owner);
        let variables = variables(&fleet(json!({})), 0, &facts).unwrap();
        assert_eq!(variables["network"]["owner"], ours, "{owner:?}");
    }
}

#[test]
fn pods_get_name_servers_that_they_can_reach() {
    let mut facts = facts("192.0.2.11/24");
    let config = |facts: &Facts, kubernetes: Value| -> Result<String, VariablesError> {
        variables(&fleet(kubernetes), 0, facts).map(|v| v["kubelet"]["config"].as_str().unwrap().to_owned())
    };
    assert!(config(&facts, json!({})).unwrap().contains("resolvConf: /etc/resolv.conf\n"));
    facts.resolv_conf.nameservers = vec!["127.0.0.53".into()];
    assert!(matches!(config(&facts, json!({})), Err(VariablesError::NameServers(_))));
    let own = json!({"kubelet": {"resolvConf": "/etc/pods-resolv.conf"}});
    assert!(config(&facts, own).unwrap().contains("resolvConf: /etc/pods-resolv.conf\n"));
    facts.resolv_conf.resolved_upstream = vec!["192.0.2.53".into()];
    assert!(config(&facts, json!({})).unwrap().contains("resolvConf: /run/systemd/resolve/resolv.conf\n"));
}

#[test]
fn the_kubelets_settings_reach_runtime_and_swap() {
    let of = |kubelet: Value| variables(&fleet(json!({"kubelet": kubelet})), 0, &facts("192.0.2.11/24")).unwrap();
    let plain = of(json!({}));
    assert_eq!((&plain["runtime"]["systemdCgroup"], &plain["prepare"]["swapOff"]), (&json!(true), &json!(true)));
    let lab = of(json!({"cgroupDriver": "cgroupfs", "failSwapOn": false}));
    assert_eq!((&lab["runtime"]["systemdCgroup"], &lab["prepare"]["swapOff"]), (&json!(false), &json!(false)));
}

#[test]
fn a_time_daemon_is_only_wanted_where_none_runs_and_the_clock_is_the_hosts_own() {
    let mut facts = facts("192.0.2.11/24");
    let missing =
        |facts: &Facts| variables(&fleet(json!({})), 0, facts).unwrap()["prepare"]["timeDaemonMissing"] == json!(true);
    assert!(missing(&facts));
    facts.active_units = vec!["chrony.service".into()];
    assert!(!missing(&facts));
    facts.active_units.clear();
    facts.platform.container = Some("systemd-nspawn".into());
    assert!(!missing(&facts));
}
