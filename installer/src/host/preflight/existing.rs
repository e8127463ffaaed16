//! Whether a host may be converted: is what stands there ours, somebody else's, or half built?

use std::collections::BTreeMap;

use crate::fleet::model::{Fleet, Role};
use crate::host::facts::Facts;

/// What stands on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing of Kubernetes.
    Fresh,
    /// A part of this fleet's cluster, or what an interrupted run of ours left of it: a run converges it.
    Ours,
    /// Something that a run must not touch: one sentence that names the files and says what to do.
    Foreign(String),
}

/// Judges all hosts whose facts are known, by host name. Hosts of one fleet must be of one cluster, so none can be judged
/// alone.
pub fn judge(fleet: &Fleet, facts: &BTreeMap<String, Facts>) -> BTreeMap<String, Standing> {
    let control_plane = fleet.spec.hosts.iter().find(|host| host.roles.contains(&Role::ControlPlane));
    let cluster = control_plane.and_then(|host| facts.get(&host.name)).map(|facts| &facts.hostspan.ca_sha256);
    let judge = |(host, facts): (&String, &Facts)| {
        let standing = match (alone(fleet, facts), cluster, &facts.hostspan.ca_sha256) {
            (Standing::Ours, Some(cluster), Some(own)) if cluster.as_ref() != Some(own) => Standing::Foreign(format!(
                "it was joined to another control plane than the one that this fleet has now (CA {own} in \
                 /etc/hostspan/ca.sha256); run `hostspan reset --host {host}` first"
            )),
            (standing, _, _) => standing,
        };
        (host.clone(), standing)
    };
    facts.iter().map(judge).collect()
}

fn alone(fleet: &Fleet, facts: &Facts) -> Standing {
    let (existing, own) = (&facts.existing, &facts.hostspan);
    let files = existing.kubernetes_files.join(", ");
    if !existing.distributions.is_empty() {
        return Standing::Foreign(format!(
            "{} is installed here ({}); hostspan does not touch it: uninstall it, or take the host out of the fleet",
            existing.distributions.join(" and "),
            existing.distribution_files.join(", ")
        ));
    }
    if let Some(other) = own.fleet.as_ref().filter(|_| !facts.is_ours(fleet)) {
        return Standing::Foreign(format!(
            "it belongs to the fleet {other} (/etc/hostspan/fleet); reset it with that fleet's file first"
        ));
    }
    if existing.kubernetes_files.is_empty() && own.ca_sha256.is_none() {
        return Standing::Fresh;
    }
    match (&own.ca_sha256, &existing.ca_sha256) {
        (Some(ours), Some(found)) if ours == found => Standing::Ours,
        (Some(_), Some(found)) => Standing::Foreign(format!(
            "it has another cluster's CA than the one that hostspan put there ({found} of /etc/kubernetes/pki/ca.crt \
             is not the one of /etc/hostspan/ca.sha256); run `hostspan reset` on it, or take it out of the fleet"
        )),
        (Some(_), None) => Standing::Foreign(format!(
            "its cluster files are incomplete: /etc/kubernetes/pki/ca.crt is gone{}; run `hostspan reset` on it first",
            if files.is_empty() { String::new() } else { format!(", {files} are still there") }
        )),
        // Written before anything of Kubernetes, and only on a host that had none: what is there is our own half work.
        (None, _) if own.fleet.is_some() => Standing::Ours,
        (None, Some(_)) if facts.unit_active("kubelet.service") => Standing::Foreign(format!(
            "it is a node of another Kubernetes cluster{} ({files}); hostspan does not touch it: run `kubeadm reset` \
             there, or take the host out of the fleet",
            existing.kubelet_server.as_ref().map_or(String::new(), |server| format!(" ({server})"))
        )),
        (None, _) => Standing::Foreign(format!(
            "half a Kubernetes installation is there, and its kubelet does not run ({files}); run `kubeadm reset` there, \
             or delete these files"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::facts::{Existing, OwnState};
    use crate::host::preflight::tests::fleet;

    const CA: &str = "aaaa";

    fn host(own_ca: Option<&str>, ca: Option<&str>, files: &[&str]) -> Facts {
        Facts {
            existing: Existing {
                kubernetes_files: files.iter().map(|file| (*file).to_owned()).collect(),
                ca_sha256: ca.map(str::to_owned),
                ..Existing::default()
            },
            hostspan: OwnState {
                fleet: own_ca.map(|_| "kvm-a".to_owned()),
                ca_sha256: own_ca.map(str::to_owned),
                ..OwnState::default()
            },
            ..Facts::default()
        }
    }

    fn standing(facts: Facts) -> Standing {
        judge(&fleet(), &BTreeMap::from([("a".to_owned(), facts)])).remove("a").unwrap()
    }

    fn reason(facts: Facts) -> String {
        match standing(facts) {
            Standing::Foreign(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_plain_host_is_fresh_and_our_cluster_is_ours() {
        assert_eq!(standing(Facts::default()), Standing::Fresh);
        assert_eq!(standing(host(Some(CA), Some(CA), &["/etc/kubernetes/admin.conf"])), Standing::Ours);
    }

    #[test]
    fn what_an_interrupted_run_of_ours_left_is_ours() {
        let mut facts = host(None, Some("bbbb"), &["/etc/kubernetes/manifests/etcd.yaml"]);
        facts.hostspan.fleet = Some("kvm-a".into());
        assert_eq!(standing(facts), Standing::Ours);
    }

    #[test]
    fn another_distribution_stops_it() {
        let mut facts = Facts::default();
        facts.existing.distributions = vec!["k3s".into()];
        facts.existing.distribution_files = vec!["/etc/rancher/k3s".into()];
        assert!(reason(facts).starts_with("k3s is installed here (/etc/rancher/k3s)"));
    }

    #[test]
    fn another_cluster_stops_it_and_names_files_and_server() {
        let mut facts = host(None, Some("bbbb"), &["/etc/kubernetes/kubelet.conf"]);
        facts.active_units = vec!["kubelet.service".into()];
        facts.existing.kubelet_server = Some("https://192.0.2.99:6443".into());
        let reason = reason(facts);
        assert!(reason.contains("another Kubernetes cluster (https://192.0.2.99:6443)"), "{reason}");
        assert!(reason.contains("/etc/kubernetes/kubelet.conf"), "{reason}");
    }

    #[test]
    fn leftovers_stop_it_and_are_named() {
        let reason = reason(host(None, None, &["/etc/kubernetes/manifests/etcd.yaml", "/var/lib/etcd/member"]));
        assert!(reason.contains("/etc/kubernetes/manifests/etcd.yaml, /var/lib/etcd/member"), "{reason}");
        assert!(reason.contains("kubeadm reset"), "{reason}");
    }

    #[test]
    fn a_ca_that_was_swapped_or_removed_stops_it() {
        assert!(reason(host(Some(CA), Some("bbbb"), &["/etc/kubernetes/admin.conf"])).contains("another cluster's CA"));
        assert!(reason(host(Some(CA), None, &["/var/lib/etcd/member"])).contains("ca.crt is gone"));
    }

    #[test]
    fn another_fleets_host_stops_it() {
        let mut facts = host(Some(CA), Some(CA), &["/etc/kubernetes/admin.conf"]);
        facts.hostspan.fleet = Some("kvm-b".into());
        assert!(reason(facts).contains("belongs to the fleet kvm-b"));
    }

    #[test]
    fn a_worker_of_a_control_plane_that_was_made_anew_stops_it() {
        let files = ["/etc/kubernetes/kubelet.conf"];
        let facts = [("a".to_owned(), Facts::default()), ("b".to_owned(), host(Some(CA), Some(CA), &files))];
        let mut standings = judge(&fleet(), &BTreeMap::from(facts));
        assert_eq!(standings.remove("a"), Some(Standing::Fresh));
        let Some(Standing::Foreign(reason)) = standings.remove("b") else { panic!("b is not ours") };
        assert!(reason.contains("hostspan reset --host b"), "{reason}");
    }
}
