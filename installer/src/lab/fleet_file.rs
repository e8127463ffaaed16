//! The lab's fleet file. What this machine's kernel forces on container hosts is found out here and written there: these
//! are facts of the lab, and never defaults of the product.

use std::collections::BTreeMap;
use std::path::Path;

use hostspan_manifests::names;
use serde_json::{Value, json};

use super::dirs::LabDir;
use super::layout::Spec;
use super::{Kind, LabError, Options, USER, cgroup, disk};
use crate::fleet::model::{
    ArtifactSource, Artifacts, Fleet, Host, Kubernetes, Metadata, Network, Role, Runtime, Spec as FleetSpec, Ssh,
    Uplink,
};

/// CAP_SYS_RESOURCE's bit, from linux/capability.h.
const CAP_SYS_RESOURCE: u32 = 24;

/// What this machine forces on its containers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Forced {
    /// There is no unified control group hierarchy.
    pub(super) cgroup_v1: bool,
    /// Nobody may lower an OOM score here.
    pub(super) no_sys_resource: bool,
    /// There is no /dev/kvm to hand on.
    pub(super) no_kvm: bool,
}

impl Forced {
    /// Looks at this machine.
    pub(super) fn detect() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            cgroup_v1: !cgroup::is_unified(),
            no_sys_resource: !may_use_sys_resource(&status),
            no_kvm: !Path::new("/dev/kvm").exists(),
        }
    }
}

fn may_use_sys_resource(status: &str) -> bool {
    status
        .lines()
        .find_map(|l| l.strip_prefix("CapBnd:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_none_or(|set| set & (1 << CAP_SYS_RESOURCE) != 0)
}

/// Writes the fleet file.
pub(super) fn write(dir: &LabDir, options: &Options, hosts: &[Spec]) -> Result<(), LabError> {
    let fleet = fleet(dir.path(), options, hosts, Forced::detect());
    disk::write(&dir.fleet_file(), &render(&fleet)?)
}

fn fleet(dir: &Path, options: &Options, hosts: &[Spec], forced: Forced) -> Fleet {
    let mut kubernetes = Kubernetes::default();
    let mut runtime = Runtime::default();
    let mut acknowledge = Vec::new();
    if options.kind == Kind::Container {
        // The root file system is an overlay, and swap is this machine's: neither can be measured or changed from inside.
        kubernetes.kubelet = BTreeMap::from([
            ("failSwapOn".to_owned(), json!(false)),
            ("localStorageCapacityIsolation".to_owned(), json!(false)),
        ]);
        // kubeadm looks for the kernel's configuration, which a container has not.
        kubernetes.ignore_preflight_errors = vec!["SystemVerification".to_owned(), "Swap".to_owned()];
        if forced.cgroup_v1 {
            kubernetes.kubelet.insert("failCgroupV1".to_owned(), json!(false));
            kubernetes.kubelet.insert("cgroupDriver".to_owned(), json!("cgroupfs"));
            acknowledge.push("cgroup-v1".to_owned());
        }
        if forced.no_kvm {
            acknowledge.push("no-kvm".to_owned());
        }
        runtime.restrict_oom_score_adj = forced.no_sys_resource;
    }
    let first = |i: usize| if i == 0 { vec![Role::ControlPlane, Role::Worker] } else { vec![Role::Worker] };
    Fleet {
        api_version: names::API_VERSION.to_owned(),
        kind: "Fleet".to_owned(),
        metadata: Metadata { name: options.name.clone() },
        spec: FleetSpec {
            ssh: Ssh {
                user: Some(USER.to_owned()),
                identity_files: vec![dir.join("id_ed25519")],
                known_hosts: vec![dir.join("known_hosts")],
                ..Ssh::default()
            },
            hosts: hosts
                .iter()
                .filter(|h| h.in_fleet)
                .enumerate()
                .map(|(i, h)| Host {
                    name: h.name.clone(),
                    address: h.address.into(),
                    roles: first(i),
                    uplink: Uplink::default(),
                    ssh: Ssh::default(),
                })
                .collect(),
            network: Network::default(),
            kubernetes,
            runtime,
            artifacts: options.artifacts.as_ref().map_or_else(Artifacts::default, |path| Artifacts {
                source: ArtifactSource::Folder,
                path: Some(path.clone()),
                ..Artifacts::default()
            }),
            playbooks: Vec::new(),
            acknowledge,
        },
    }
}

/// As YAML, without what is not set: people read this file.
fn render(fleet: &Fleet) -> Result<String, LabError> {
    let broken = |err: &dyn std::fmt::Display| LabError::Io {
        what: "write the fleet file".to_owned(),
        source: std::io::Error::other(err.to_string()),
    };
    let mut value = serde_json::to_value(fleet).map_err(|err| broken(&err))?;
    prune(&mut value);
    let yaml = serde_saphyr::to_string(&value).map_err(|err| broken(&err))?;
    Ok(format!("# Written by `hostspan lab up`; gone with the lab.\n{yaml}"))
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, v| !is_empty(v));
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::layout::Layout;

    const SANDBOX: Forced = Forced { cgroup_v1: true, no_sys_resource: true, no_kvm: true };

    fn rendered(options: &Options, forced: Forced) -> (Fleet, String) {
        let hosts = Layout::new("demo", "10.130.4.0/22".parse().unwrap()).hosts(options);
        let fleet = fleet(Path::new("/state/demo"), options, &hosts, forced);
        let text = render(&fleet).unwrap();
        (fleet, text)
    }

    #[test]
    fn it_reads_back_as_it_was_meant() {
        let options =
            Options { hosts: 3, bastion: true, artifacts: Some("/cache/components".into()), ..Options::new("demo") };
        let (fleet, text) = rendered(&options, SANDBOX);
        let read: Fleet = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, fleet, "{text}");
        assert!(!text.contains("null"), "{text}");
        assert_eq!(read.spec.hosts.len(), 3, "the bastion is no part of the fleet");
        assert_eq!(read.spec.acknowledge, ["cgroup-v1", "no-kvm"]);
        assert_eq!(read.spec.hosts[0].roles, [Role::ControlPlane, Role::Worker]);
        assert_eq!(read.spec.hosts[2].roles, [Role::Worker]);
    }

    #[test]
    fn a_machine_that_forces_nothing_gets_no_override_for_it() {
        let (fleet, _) = rendered(&Options::new("demo"), Forced::default());
        assert_eq!(fleet.spec.acknowledge, Vec::<String>::new());
        assert!(!fleet.spec.runtime.restrict_oom_score_adj);
        assert!(!fleet.spec.kubernetes.kubelet.contains_key("failCgroupV1"));
    }

    #[test]
    fn virtual_machines_need_no_override_at_all() {
        let (fleet, _) = rendered(&Options { kind: Kind::Vm, ..Options::new("demo") }, SANDBOX);
        assert_eq!(fleet.spec.kubernetes, Kubernetes::default());
        assert_eq!(fleet.spec.runtime, Runtime::default());
        assert_eq!(fleet.spec.acknowledge, Vec::<String>::new());
    }

    #[test]
    fn a_missing_capability_is_seen() {
        assert!(!may_use_sys_resource("Name:\tx\nCapBnd:\t000001fffeffffff\n"));
        assert!(may_use_sys_resource("Name:\tx\nCapBnd:\t000001ffffffffff\n"));
    }
}
