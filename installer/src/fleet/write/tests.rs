use std::path::Path;

use proptest::prelude::*;

use super::super::model::{ArtifactSource, Cni, Metadata, Role, Spec};
use super::super::tests::GOOD;
use super::super::{KIND, parse};
use super::*;

#[test]
fn the_written_file_is_what_a_person_would_write() {
    let mut fleet = parse("f", GOOD.as_bytes(), Path::new("/")).unwrap_or_else(|error| panic!("{error}")).fleet;
    fleet.spec.hosts[1].ssh.port = Some(2222);
    let wanted = r#"apiVersion: hostspan.dev/v1alpha1
kind: Fleet
metadata:
  name: kvm-a  # of the cluster
spec:
  # What stands here wins over ~/.ssh/config.
  ssh:
    user: ubuntu
    identityFiles: [~/.ssh/id_ed25519]
    jump: ["ops@bastion.example.test:2222"]
  hosts:
    - name: kvm-01
      address: 192.0.2.11
      roles: [control-plane, worker]
      uplink:
        interface: eno1
    - name: KVM02.lab.example.test
      address: 192.0.2.12
      roles: [worker]
      uplink:
        mac: "52:54:00:12:34:56"
      ssh:
        port: 2222
    - name: "10"
      address: 192.0.2.13
      roles: [worker]
  # No host and nothing that the hosts talk to may have an address in these two.
  network:
    pods: 10.244.0.0/16
    services: 10.96.0.0/16
    cni: routed  # or none: bring your own
  kubernetes:
    version: 1.36.3
    kubelet:
      failSwapOn: false
      maxPods: 200
    certSans: [api.example.test, "*.example.test", 192.0.2.1]
  artifacts:
    source: folder
    path: "./files"
  # Your own playbooks: files or folders.
  playbooks: [mine]
  # Findings of `hostspan check` that are accepted.
  acknowledge: [cgroup-v1, "guest:web-1"]
"#;
    assert_eq!(render_fleet(&fleet), wanted);
}

/// Texts that a careless writer of YAML would get wrong.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "\\PC{1,12}",
        Just("yes".to_owned()),
        Just("~".to_owned()),
        Just("1e3".to_owned()),
        Just("# no".to_owned()),
        Just("a\tb\n".to_owned())
    ]
}

fn ssh() -> impl Strategy<Value = Ssh> {
    (proptest::option::of(text()), proptest::option::of(any::<u16>()), proptest::collection::vec(text(), 0..3))
        .prop_map(|(user, port, texts)| Ssh {
            user,
            port,
            identity_files: texts.iter().map(Into::into).collect(),
            jump: texts.clone(),
            known_hosts: texts.iter().map(Into::into).collect(),
            config: texts.first().map(Into::into),
        })
}

fn host() -> impl Strategy<Value = Host> {
    (text(), any::<std::net::IpAddr>(), any::<bool>(), proptest::option::of(text()), ssh()).prop_map(
        |(name, address, leads, nic, ssh)| Host {
            name,
            address,
            roles: if leads { vec![Role::ControlPlane, Role::Worker] } else { vec![Role::Worker] },
            uplink: Uplink { interface: nic.clone(), mac: nic },
            ssh,
        },
    )
}

fn fleet() -> impl Strategy<Value = Fleet> {
    (
        (text(), ssh(), proptest::collection::vec(host(), 0..4), any::<bool>()),
        (proptest::collection::vec(text(), 0..3), text(), any::<i64>()),
    )
        .prop_map(|((name, ssh, hosts, flag), (texts, word, number))| Fleet {
            api_version: hostspan_manifests::names::API_VERSION.into(),
            kind: KIND.into(),
            metadata: Metadata { name },
            spec: Spec {
                ssh,
                hosts,
                network: Network { cni: if flag { Cni::Routed } else { Cni::None }, ..Network::default() },
                kubernetes: Kubernetes {
                    version: word.clone(),
                    kubelet: texts
                        .iter()
                        .map(|key| (key.clone(), serde_json::json!({word.clone(): [number, flag, null, word.clone()]})))
                        .collect(),
                    ignore_preflight_errors: texts.clone(),
                    cert_sans: texts.clone(),
                },
                runtime: Runtime { restrict_oom_score_adj: flag },
                artifacts: Artifacts {
                    source: if flag { ArtifactSource::Folder } else { ArtifactSource::Official },
                    path: texts.first().map(Into::into),
                    url: texts.first().cloned(),
                    proxy: texts.last().cloned(),
                },
                playbooks: texts.iter().map(Into::into).collect(),
                acknowledge: texts,
            },
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_written_fleet_loads_back_equal(fleet in fleet()) {
        let text = render_fleet(&fleet);
        let (back, _) = hostspan_playbooks::yaml::read::<Fleet>("f", text.as_bytes())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(back, fleet);
    }
}
