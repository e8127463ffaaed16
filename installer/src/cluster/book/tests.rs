use std::fs;

use serde_json::json;

use super::*;
use crate::cluster::images::Images;
use crate::cluster::variables::{self, Inputs};
use crate::host::facts::{Address, Facts, Interface, NetworkOwner};

/// A fleet of two whose artifact source is a folder with everything in it.
struct Bench {
    folder: tempfile::TempDir,
    fleet: Fleet,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let images = Images::of("1.36.3").unwrap();
        let images = images.all().map(|image| format!("image:{image}"));
        let names = ["kubelet", "kubeadm", "kubectl", "containerd", "runc", "cni-plugins", "crictl"];
        let files: Vec<Value> = names
            .into_iter()
            .chain(images.iter().map(String::as_str))
            .map(|name| {
                json!({"name": name, "arch": "amd64", "file": "f", "sha256": "00".repeat(32), "size": 0, "format": "tar"})
            })
            .collect();
        let index = json!({"apiVersion": "hostspan.dev/v1alpha1", "kind": "ArtifactFolder", "files": files});
        fs::write(folder.path().join("artifacts.yaml"), index.to_string()).unwrap();
        let fleet: Fleet = serde_json::from_value(json!({
            "apiVersion": "hostspan.dev/v1alpha1", "kind": "Fleet", "metadata": {"name": "kvm-a"},
            "spec": {
                "hosts": [
                    {"name": "a", "address": "192.0.2.11", "roles": ["control-plane", "worker"]},
                    {"name": "b", "address": "192.0.2.12"},
                ],
                "artifacts": {"source": "folder", "path": "."},
            },
        }))
        .unwrap();
        let store = Store::open(&fleet, folder.path()).unwrap();
        Self { folder, fleet, store }
    }

    fn book(&self, user: &[(&str, &str)]) -> Result<Book, BookError> {
        let dir = self.folder.path().join("playbooks");
        fs::create_dir_all(&dir).unwrap();
        for (name, text) in user {
            fs::write(dir.join(name), text).unwrap();
        }
        let paths: &[PathBuf] = if user.is_empty() { &[] } else { &["playbooks".into()] };
        Book::load(paths, self.folder.path())
    }

    fn phases(&self, book: &Book, index: usize, owner: NetworkOwner) -> Vec<PhaseSteps> {
        let host = &self.fleet.spec.hosts[index];
        let facts = Facts {
            arch: "amd64".into(),
            interfaces: vec![Interface {
                name: "eth0".into(),
                mtu: 1500,
                owner,
                network_file: Some("/etc/systemd/network/80-lan.network".into()),
                ..Interface::default()
            }],
            addresses: vec![Address {
                interface: "eth0".into(),
                address: format!("{}/24", host.address).parse().unwrap(),
            }],
            resolv_conf: crate::host::facts::ResolvConf {
                nameservers: vec!["192.0.2.53".into()],
                ..Default::default()
            },
            ..Facts::default()
        };
        let pod_networks = [("a", "10.244.0.0/24"), ("b", "10.244.1.0/24")]
            .map(|(host, network)| (host.to_owned(), network.parse().unwrap()))
            .into();
        let inputs = Inputs {
            fleet: &self.fleet,
            control_plane: &self.fleet.spec.hosts[0],
            pod_networks: &pod_networks,
            image_archives: true,
        };
        let variables = variables::of(&inputs, host, &facts, None, &["a", "b"]).unwrap();
        PHASES
            .iter()
            .map(|phase| book.steps(phase, &self.fleet, host, "amd64", &variables, &self.store).unwrap())
            .collect()
    }
}

fn content<'a>(phases: &'a [PhaseSteps], id: &str) -> &'a str {
    let step = phases.iter().flat_map(|phase| &phase.steps).find(|step| step.id == id).unwrap();
    match &step.step.action {
        Action::File(file) => file.content.as_deref().unwrap(),
        Action::Command(command) => &command.run,
        other => panic!("{other:?}"),
    }
}

const OWN: &str = "
apiVersion: hostspan.dev/v1alpha1
kind: Playbook
metadata: {name: motd}
spec:
  at: {after: runtime}
  roles: [control-plane]
  steps:
    - {id: motd, title: Greet, file: {path: /etc/motd, content: '{{host.node}}'}}
";

#[test]
fn every_shipped_playbook_renders_for_every_kind_of_host() {
    let bench = Bench::new();
    let book = bench.book(&[]).unwrap();
    for owner in [NetworkOwner::Networkd, NetworkOwner::Ifupdown, NetworkOwner::Unknown] {
        for index in [0, 1] {
            let phases = bench.phases(&book, index, owner);
            assert!(phases[0].steps.len() > 4);
            assert_eq!(phases[4].steps.is_empty(), index == 1, "control-plane");
            assert_eq!(phases[5].steps.is_empty(), index == 0, "workers");
            for step in phases.iter().flat_map(|phase| &phase.steps) {
                let text = format!("{:?}", step.step.action);
                assert!(!text.contains("{{") || step.id == "ready/wait", "{}: {text}", step.id);
            }
        }
    }
}

#[test]
fn routes_lead_to_the_other_hosts_only() {
    let bench = Bench::new();
    let phases = bench.phases(&bench.book(&[]).unwrap(), 0, NetworkOwner::Networkd);
    assert_eq!(content(&phases, "pod-network/map"), "a 192.0.2.11 10.244.0.0/24\nb 192.0.2.12 10.244.1.0/24\n");
    assert_eq!(
        content(&phases, "pod-network/routes-networkd").lines().skip(1).collect::<Vec<_>>(),
        ["", "[Route]", "Destination=10.244.1.0/24", "Gateway=192.0.2.12", "Protocol=72"]
    );
    assert!(content(&phases, "pod-network/routes-file").contains("10.244.1.0/24 via 192.0.2.12\n"));
    assert!(!content(&phases, "pod-network/routes-file").contains("10.244.0.0/24"));
    assert!(content(&phases, "pod-network/cni-config").contains("\"subnet\": \"10.244.0.0/24\""));
    serde_json::from_str::<Value>(content(&phases, "pod-network/cni-config")).unwrap();
    assert!(
        content(&phases, "pod-network/masquerading-rules")
            .contains("ip saddr 10.244.0.0/16 ip daddr != { 10.244.0.0/16, 10.96.0.0/16 } masquerade fully-random\n")
    );
    assert!(content(&phases, "ready/nodes").contains("\nb 10.244.1.0/24 worker\n"));
}

#[test]
fn a_users_playbook_runs_where_it_says() {
    let bench = Bench::new();
    let book = bench.book(&[("motd.yaml", OWN)]).unwrap();
    let phases = bench.phases(&book, 0, NetworkOwner::Networkd);
    assert_eq!(phases[1].steps.last().unwrap().id, "motd/motd");
    assert_eq!(content(&phases, "motd/motd"), "a");
    let phases = bench.phases(&book, 1, NetworkOwner::Networkd);
    assert!(phases.iter().flat_map(|phase| &phase.steps).all(|step| step.id != "motd/motd"), "not its role");
}

#[test]
fn a_name_that_is_taken_and_a_phase_that_does_not_exist_are_errors() {
    let bench = Bench::new();
    let error = bench.book(&[("own.yaml", &OWN.replace("motd}", "node}"))]).unwrap_err().to_string();
    assert!(error.contains("already is a playbook called `node`"), "{error}");
    let error = bench.book(&[("own.yaml", &OWN.replace("after: runtime", "after: run"))]).unwrap_err().to_string();
    assert!(error.contains("no phase `run`; there are prepare, runtime,"), "{error}");
}
