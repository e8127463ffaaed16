use std::fmt::Write as _;
use std::path::Path;

use miette::Diagnostic;
use proptest::prelude::*;

use super::model::{Network, Role};
use super::*;

/// A fleet file with nearly everything in it.
pub(super) const GOOD: &str = r#"apiVersion: hostspan.dev/v1alpha1
kind: Fleet
metadata: {name: kvm-a}
spec:
  ssh: {user: ubuntu, identityFiles: [~/.ssh/id_ed25519], jump: ["ops@bastion.example.test:2222"]}
  hosts:
    - {name: kvm-01, address: 192.0.2.11, roles: [control-plane, worker], uplink: {interface: eno1}}
    - name: KVM02.lab.example.test
      address: 192.0.2.12
      uplink: {mac: "52:54:00:12:34:56"}
    - {name: 10, address: 192.0.2.13}
  network:
    pods: 10.244.0.0/16
    services: 10.96.0.0/16
    cni: routed
  kubernetes:
    version: 1.36.3
    kubelet: {failSwapOn: false, maxPods: 200}
    certSans: [api.example.test, "*.example.test", 192.0.2.1]
  artifacts: {source: folder, path: ./files}
  playbooks: [mine]
  acknowledge: [cgroup-v1, "guest:web-1"]
"#;

fn error(text: &str) -> String {
    match parse("fleet.yaml", text.as_bytes(), Path::new("/fleets")) {
        Ok(loaded) => format!("accepted: {loaded:?}"),
        Err(error) => error.to_string(),
    }
}

/// `GOOD` with one piece replaced, and the beginning of the first error that is wanted.
fn must_refuse(cases: &[(&str, &str, &str)]) {
    let mut wrong = String::new();
    for (piece, replacement, wanted) in cases {
        assert_eq!(GOOD.matches(piece).count(), 1, "{piece}");
        let error = error(&GOOD.replace(piece, replacement));
        if !error.starts_with(wanted) {
            writeln!(wrong, "{replacement}\n  gave  {error}\n  wants {wanted}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_good_file_is_read_with_defaults() {
    let loaded = parse("fleet.yaml", GOOD.as_bytes(), Path::new("/fleets")).unwrap_or_else(|error| panic!("{error}"));
    let spec = &loaded.fleet.spec;
    assert_eq!(spec.hosts[2].name, "10", "digits are a name too");
    assert_eq!(spec.hosts[2].roles, [Role::Worker]);
    assert_eq!(spec.kubernetes.kubelet["failSwapOn"], serde_json::json!(false));
    let small = "apiVersion: hostspan.dev/v1alpha1\nkind: Fleet\nmetadata: {name: a}\nspec:\n  hosts:\n  - {name: a, address: 192.0.2.1, roles: [control-plane]}\n";
    let fleet = parse("f", small.as_bytes(), Path::new("/")).unwrap_or_else(|error| panic!("{error}")).fleet;
    assert_eq!(fleet.spec.network, Network::default());
    assert_eq!(fleet.spec.kubernetes.version, "1.36.3");
}

#[test]
fn reading_faults_have_their_place() {
    must_refuse(&[
        (
            "identityFiles",
            "identityFile",
            "fleet.yaml:5:23: spec.ssh.identityFile: unknown key `identityFile` (did you mean `identityFiles`?)",
        ),
        (
            "  network:\n",
            "  netwrok:\n",
            "fleet.yaml:12:3: spec.netwrok: unknown key `netwrok` (did you mean `network`?)",
        ),
        (
            "uplink: {interface: eno1}",
            "nic: eno1",
            "fleet.yaml:7:75: spec.hosts[0].nic: unknown key `nic` (known: name, address",
        ),
        (
            "    cni: routed",
            "    cni: calico",
            "fleet.yaml:15:10: spec.network.cni: `calico` is not known here (known: routed, none)",
        ),
        (
            "[control-plane, worker]",
            "[control_plane]",
            "fleet.yaml:7:51: spec.hosts[0].roles[0]: `control_plane` is not known here (did you mean `control-plane`?)",
        ),
        ("[control-plane, worker]", "worker", "fleet.yaml:7:50: spec.hosts[0].roles: expected a list"),
        ("address: 192.0.2.12", "address: 192.0.2", "fleet.yaml:9:16: spec.hosts[1].address: invalid IP address"),
        ("10.244.0.0/16", "10.244.0.0", "fleet.yaml:13:11: spec.network.pods: "),
        ("      address: 192.0.2.12\n", "", "fleet.yaml:9:7: spec.hosts[1]: the key `address` is missing"),
        (
            "      address: 192.0.2.12\n",
            "      address: 192.0.2.12\n      address: 192.0.2.14\n",
            "fleet.yaml:10:7: the key `address` is there twice",
        ),
        ("      address: 192.0.2.12\n", "\t    address: 192.0.2.12\n", "fleet.yaml:9:1: a tab is used for indentation"),
        (
            "kubelet: {failSwapOn: false, maxPods: 200}",
            "kubelet: [a]",
            "fleet.yaml:18:14: spec.kubernetes.kubelet: expected keys and values",
        ),
        (
            "  playbooks: [mine]\n",
            "  runtime: {restrictOomScoreAdj: yes}\n",
            "fleet.yaml:21:34: spec.runtime.restrictOomScoreAdj: `yes` is not a boolean (write `true`)",
        ),
        (
            "user: ubuntu",
            "port: 99999",
            "fleet.yaml:5:15: spec.ssh.port: expected a whole number that fits, found `99999`",
        ),
        (
            "acknowledge: [cgroup-v1, \"guest:web-1\"]\n",
            "acknowledge: []\n---\nkind: Fleet\n",
            "fleet.yaml:24:1: a second YAML document",
        ),
    ]);
    assert_eq!(error(""), "fleet.yaml:1:1: the file is empty");
    assert_eq!(error("# nothing\n"), "fleet.yaml:1:1: the file is empty");
    assert!(error(&format!("spec: {}", "[".repeat(1_000_000))).contains("too much nesting"));
}

#[test]
fn rules_between_fields_are_kept() {
    must_refuse(&[
        (
            "v1alpha1",
            "v1beta1",
            "fleet.yaml:1:13: apiVersion: `hostspan.dev/v1beta1` is not known (write `hostspan.dev/v1alpha1`)",
        ),
        ("kind: Fleet", "kind: Playbook", "fleet.yaml:2:7: kind: `Playbook` is not a fleet (write `Fleet`)"),
        ("{name: kvm-a}", "{name: KVM_a}", "fleet.yaml:3:18: metadata.name: `KVM_a` is not a name"),
        ("name: 10,", "name: kvm-01,", "fleet.yaml:11:14: spec.hosts[2].name: the host `kvm-01` is there twice"),
        (
            "name: 10,",
            "name: Kvm-01,",
            "fleet.yaml:11:14: spec.hosts[2].name: `Kvm-01` and `kvm-01` are the same node name, `kvm-01`",
        ),
        ("name: 10,", "name: node_1,", "fleet.yaml:11:14: spec.hosts[2].name: `node_1` cannot be the name of a node"),
        ("name: 10,", "name: -a,", "fleet.yaml:11:14: spec.hosts[2].name: `-a` cannot be the name of a node"),
        ("name: 10,", "name: a..b,", "fleet.yaml:11:14: spec.hosts[2].name: `a..b` cannot"),
        ("name: 10,", "name: ,", "fleet.yaml:11:12: spec.hosts[2].name: a value is missing"),
        ("name: 10,", &format!("name: {},", "a".repeat(64)), "fleet.yaml:11:14: spec.hosts[2].name: `aaaa"),
        (
            "192.0.2.13",
            "192.0.2.11",
            "fleet.yaml:11:27: spec.hosts[2].address: 192.0.2.11 is the address of `kvm-01` already",
        ),
        (
            "192.0.2.13",
            "169.254.1.1",
            "fleet.yaml:11:27: spec.hosts[2].address: 169.254.1.1 is link-local; other hosts",
        ),
        ("192.0.2.13", "fe80::1", "fleet.yaml:11:27: spec.hosts[2].address: fe80::1 is link-local"),
        ("192.0.2.13", "127.0.0.1", "fleet.yaml:11:27: spec.hosts[2].address: 127.0.0.1 is a loopback address"),
        ("192.0.2.13", "'::1'", "fleet.yaml:11:27: spec.hosts[2].address: ::1 is a loopback address"),
        ("192.0.2.13", "224.0.0.1", "fleet.yaml:11:27: spec.hosts[2].address: 224.0.0.1 is a multicast"),
        ("192.0.2.13", "0.0.0.0", "fleet.yaml:11:27: spec.hosts[2].address: 0.0.0.0 is not a host's"),
        (
            "192.0.2.13",
            "2001:db8::3",
            "fleet.yaml:11:27: spec.hosts[2].address: 2001:db8::3 is of another IP version than 192.0.2.11",
        ),
        (
            "192.0.2.13",
            "'::ffff:192.0.2.13'",
            "fleet.yaml:11:27: spec.hosts[2].address: ::ffff:192.0.2.13 is an IPv4 address",
        ),
        (
            "roles: [control-plane, worker]",
            "roles: [worker, worker]",
            "fleet.yaml:7:5: spec.hosts: no host is the control plane",
        ),
        (
            "roles: [control-plane, worker]",
            "roles: [control-plane, control-plane]",
            "fleet.yaml:7:66: spec.hosts[0].roles[1]: the role is there twice",
        ),
        (
            "      address: 192.0.2.12\n",
            "      address: 192.0.2.12\n      roles: [worker, control-plane]\n",
            "fleet.yaml:10:23: spec.hosts[1].roles[1]: `kvm-01` is the control plane already (one for now; three",
        ),
        (
            "      address: 192.0.2.12\n",
            "      address: 192.0.2.12\n      roles: []\n",
            "fleet.yaml:10:14: spec.hosts[1].roles: a host needs a role",
        ),
        (
            "10.244.0.0/16",
            "10.244.0.1/16",
            "fleet.yaml:13:11: spec.network.pods: 10.244.0.1/16 has bits set behind its prefix (write 10.244.0.0/16)",
        ),
        (
            "10.244.0.0/16",
            "10.96.128.0/20",
            "fleet.yaml:14:15: spec.network.services: 10.96.0.0/16 overlaps the pods' network 10.96.128.0/20",
        ),
        (
            "10.244.0.0/16",
            "192.0.0.0/16",
            "fleet.yaml:13:11: spec.network.pods: 192.0.0.0/16 contains the address of `kvm-01`, 192.0.2.11",
        ),
        (
            "10.96.0.0/16",
            "192.0.2.0/24",
            "fleet.yaml:14:15: spec.network.services: 192.0.2.0/24 contains the address of `kvm-01`",
        ),
        (
            "10.244.0.0/16",
            "10.244.0.0/25",
            "fleet.yaml:13:11: spec.network.pods: 10.244.0.0/25 is too small: each host gets a /24 of it",
        ),
        (
            "10.244.0.0/16",
            "10.244.0.0/23",
            "fleet.yaml:13:11: spec.network.pods: 10.244.0.0/23 is too small for 3 hosts",
        ),
        ("10.244.0.0/16", "16.0.0.0/7", "fleet.yaml:13:11: spec.network.pods: 16.0.0.0/7 is too large: /8 at most"),
        (
            "10.244.0.0/16",
            "fd00::/64",
            "fleet.yaml:13:11: spec.network.pods: fd00::/64 is of another IP version than the hosts",
        ),
        (
            "10.244.0.0/16",
            "169.254.0.0/16",
            "fleet.yaml:13:11: spec.network.pods: 169.254.0.0/16 lies in 169.254.0.0/16, which",
        ),
        ("10.96.0.0/16", "11.0.0.0/8", "fleet.yaml:14:15: spec.network.services: 11.0.0.0/8 is too large: /12 at most"),
        (
            "10.96.0.0/16",
            "10.96.0.0/29",
            "fleet.yaml:14:15: spec.network.services: 10.96.0.0/29 is too small: at least a /28",
        ),
        (
            "version: 1.36.3",
            "version: v1.36.3",
            "fleet.yaml:17:14: spec.kubernetes.version: `v1.36.3` begins with a v (write `1.36.3`)",
        ),
        ("version: 1.36.3", "version: 1.36", "fleet.yaml:17:14: spec.kubernetes.version: `1.36` has no patch version"),
        (
            "version: 1.36.3",
            "version: 1.33.9",
            "fleet.yaml:17:14: spec.kubernetes.version: Kubernetes 1.33.9 is not supported (1.34 to 1.36 are)",
        ),
        (
            "version: 1.36.3",
            "version: 1.37.0",
            "fleet.yaml:17:14: spec.kubernetes.version: Kubernetes 1.37.0 is not supported",
        ),
        (
            "version: 1.36.3",
            "version: 1.36.0-rc.1",
            "fleet.yaml:17:14: spec.kubernetes.version: `1.36.0-rc.1` is not a version",
        ),
        (
            "version: 1.36.3",
            "version: 1.36.03",
            "fleet.yaml:17:14: spec.kubernetes.version: `1.36.03` is not a version",
        ),
        ("version: 1.36.3", "version: latest", "fleet.yaml:17:14: spec.kubernetes.version: `latest` is not a version"),
        (
            "failSwapOn: false",
            "failSwapOn: off",
            "fleet.yaml:18:27: spec.kubernetes.kubelet.failSwapOn: `off` is not a boolean (write `false`)",
        ),
        (
            "failSwapOn: false",
            "kind: x",
            "fleet.yaml:18:21: spec.kubernetes.kubelet.kind: `kind` is hostspan's to write",
        ),
        (
            "api.example.test",
            "api_x",
            "fleet.yaml:19:16: spec.kubernetes.certSans[0]: `api_x` is neither an address nor a DNS name",
        ),
        (
            "source: folder, path: ./files",
            "source: folder",
            "fleet.yaml:20:14: spec.artifacts: `source: folder` needs `path`",
        ),
        (
            "source: folder, path: ./files",
            "source: mirror",
            "fleet.yaml:20:14: spec.artifacts: `source: mirror` needs `url`",
        ),
        (
            "source: folder, path: ./files",
            "path: ./files",
            "fleet.yaml:20:21: spec.artifacts.path: is only for `source: folder`",
        ),
        (
            "source: folder, path: ./files",
            "url: https://x.test",
            "fleet.yaml:20:20: spec.artifacts.url: is only for `source: mirror`",
        ),
        (
            "source: folder, path: ./files",
            "source: mirror, url: ftp://x.test",
            "fleet.yaml:20:36: spec.artifacts.url: is not an http://",
        ),
        (
            "source: folder, path: ./files",
            "proxy: 'user:secret@x'",
            "fleet.yaml:20:22: spec.artifacts.proxy: is not an http:// or https:// URL",
        ),
        (
            "ops@bastion.example.test:2222",
            "ops@bastion:port",
            "fleet.yaml:5:66: spec.ssh.jump[0]: `ops@bastion:port` is not [user@]host[:port]",
        ),
        (
            "ops@bastion.example.test:2222",
            "@bastion",
            "fleet.yaml:5:66: spec.ssh.jump[0]: `@bastion` is not [user@]host[:port]",
        ),
        ("user: ubuntu", "user: -l", "fleet.yaml:5:15: spec.ssh.user: `-l` is not a login name"),
        ("user: ubuntu", "port: 0", "fleet.yaml:5:15: spec.ssh.port: 0 is not a port"),
        (
            "~/.ssh/id_ed25519",
            "~root/.ssh/id",
            "fleet.yaml:5:39: spec.ssh.identityFiles[0]: `~root/.ssh/id`: another user's",
        ),
        (
            "52:54:00:12:34:56",
            "52:54:00:12:34",
            "fleet.yaml:10:21: spec.hosts[1].uplink.mac: `52:54:00:12:34` is not a MAC address",
        ),
        (
            "{interface: eno1}",
            "{interface: eno1, mac: '52:54:00:12:34:57'}",
            "fleet.yaml:7:83: spec.hosts[0].uplink: give `interface` or `mac`, not both",
        ),
        (
            "{interface: eno1}",
            "{interface: a/b}",
            "fleet.yaml:7:95: spec.hosts[0].uplink.interface: `a/b` is not the name",
        ),
        ("[mine]", "['']", "fleet.yaml:21:15: spec.playbooks[0]: must not be empty"),
        ("[cgroup-v1, \"guest:web-1\"]", "[a, a]", "fleet.yaml:22:20: spec.acknowledge[1]: `a` is there twice"),
    ]);
}

#[test]
fn jump_hosts_of_all_forms_are_accepted() {
    for jump in ["bastion", "a@b:22", "2001:db8::1", "ops@2001:db8::1", "[2001:db8::1]:22", "a@[2001:db8::1]", "none"] {
        let error = error(&GOOD.replace("ops@bastion.example.test:2222", jump));
        assert!(error.starts_with("accepted"), "{jump}: {error}");
    }
}

#[test]
fn all_findings_come_at_once_and_point_into_the_text() {
    let text =
        GOOD.replace("version: 1.36.3", "version: v1").replace("192.0.2.12", "127.0.0.1").replace("kvm-a", "KVM");
    let error = parse("fleet.yaml", text.as_bytes(), Path::new("/")).unwrap_err();
    let lines: Vec<String> = error.to_string().lines().map(|line| line.split(": ").take(1).collect()).collect();
    assert_eq!(lines, ["fleet.yaml:3:18", "fleet.yaml:9:16", "fleet.yaml:17:14"]);
    let marked: Vec<&str> =
        error.labels().unwrap().map(|label| &text[label.offset()..label.offset() + label.len()]).collect();
    assert_eq!(marked, ["KVM", "127.0.0.1", "v1"]);
    assert_eq!(error.findings().len(), 3);
    let shown = format!("{:?}", miette::Report::new(error));
    assert!(shown.contains("127.0.0.1 is a loopback address"), "{shown}");
}

#[test]
fn a_file_that_is_not_there_says_what_to_do() {
    let error = load(Path::new("/nonexistent/fleet.yaml")).unwrap_err();
    assert_eq!(error.to_string(), "/nonexistent/fleet.yaml: No such file or directory (os error 2)");
    assert!(error.help().unwrap().to_string().contains("hostspan init"));
}

#[test]
fn paths_of_the_file_are_expanded() {
    let expand = |path: &str| load::expand_from(Path::new(path), Path::new("/fleets"), Some(Path::new("/home/me")));
    assert_eq!(expand("~/.ssh/id_ed25519"), Path::new("/home/me/.ssh/id_ed25519"));
    assert_eq!(expand("~"), Path::new("/home/me/"));
    assert_eq!(expand("files"), Path::new("/fleets/files"));
    assert_eq!(expand("/abs"), Path::new("/abs"));
}

#[test]
fn relative_paths_start_at_the_fleet_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    std::fs::write(&file, GOOD).unwrap();
    let loaded = load(&file).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.dir, folder.path());
}

fn must_not_panic(bytes: &[u8]) {
    if let Err(error) = parse("fleet.yaml", bytes, Path::new("/")) {
        assert!(!error.findings().is_empty());
        for finding in error.findings() {
            let place = finding.place.expect("every finding has a place");
            assert!(place.line >= 1 && place.column >= 1, "{error}");
        }
        assert!(!error.to_string().contains(|c: char| c.is_control() && c != '\n'), "{error:?}");
        // The display for people walks the labels.
        let _ = format!("{:?}", miette::Report::new(error));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_fleet_or_findings_with_places(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        must_not_panic(&bytes);
    }

    #[test]
    fn a_damaged_fleet_file_gives_findings_with_places(
        at in 0..GOOD.len(),
        cut in 0..12_usize,
        put in "[ -~\t\n\u{7}é{}\\[\\]:&*!|>'\"%@`#-]{0,6}",
    ) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes.splice(at..(at + cut).min(GOOD.len()), put.bytes());
        must_not_panic(&bytes);
    }
}
