//! Checks of what runs on a host already.

use super::existing::Standing;
use super::finding::Finding;
use super::{Subject, ports};
use crate::fleet::model::Cni;

/// Of several files containerd takes the first in the order of their names.
const OWN_CNI_CONFIG: &str = "/etc/cni/net.d/10-hostspan.conflist";

pub(super) fn check(subject: &Subject<'_>, out: &mut Vec<Finding>) {
    out.extend(existing(subject));
    out.extend(taken_ports(subject));
    out.extend(cni_configs(subject));
    out.extend(guests(subject));
    out.extend(runtimes(subject));
    out.extend(libvirt_apparmor(subject));
    out.extend(multipath(subject));
    out.extend(snaps(subject));
}

fn existing(subject: &Subject<'_>) -> Option<Finding> {
    let Standing::Foreign(reason) = subject.standing else { return None };
    let (what, fix) = reason.split_once("; ").unwrap_or((reason, ""));
    Some(subject.block("existing-kubernetes", "there is a Kubernetes that is not this fleet's").detail(what).fix(fix))
}

fn taken_ports(subject: &Subject<'_>) -> Vec<Finding> {
    // Ours listens on them, and what a foreign Kubernetes listens on is told already.
    if *subject.standing != Standing::Fresh {
        return Vec::new();
    }
    let taken = |port: u16| {
        let process = subject.facts.listeners.get(&port)?;
        let process = if process.is_empty() { "something" } else { process };
        let finding = subject
            .block(format!("port:{port}"), format!("{process} listens on port {port}"))
            .detail("Kubernetes needs it on this host")
            .fix(format!("stop {process}, or give it another port; `ss -ltnp sport = :{port}` shows it"));
        Some(finding)
    };
    ports::needed(&subject.host.roles).into_iter().filter_map(taken).collect()
}

/// `kubeadm reset` leaves the configuration of the last cluster's pod network behind.
fn cni_configs(subject: &Subject<'_>) -> Option<Finding> {
    if subject.fleet.spec.network.cni != Cni::Routed {
        return None;
    }
    let before = |file: &&String| file.as_str() < OWN_CNI_CONFIG;
    let files: Vec<&str> = subject.facts.existing.cni_configs.iter().filter(before).map(String::as_str).collect();
    (!files.is_empty()).then(|| {
        subject
            .block("cni-config", "another pod network is configured")
            .detail(format!(
                "{} would be taken in place of {OWN_CNI_CONFIG}: pods would get no network",
                files.join(", ")
            ))
            .fix(format!("rm {}", files.join(" ")))
    })
}

fn guests(subject: &Subject<'_>) -> Vec<Finding> {
    let facts = subject.facts;
    let running = facts.running_guests.iter().map(|guest| {
        subject
            .block(format!("guest:{guest}"), format!("the libvirt guest {guest} runs"))
            .detail("the conversion changes network, kernel settings and memory use under it")
            .fix(format!("virsh shutdown {guest}"))
            .acknowledgeable()
    });
    let stopped = (!facts.stopped_guests.is_empty()).then(|| {
        subject
            .warn("stopped-guests", format!("libvirt guests are defined here: {}", facts.stopped_guests.join(", ")))
            .detail("they do not run now; started later, they compete with the cluster for memory and CPUs")
            .fix("virsh undefine those that are not needed")
            .acknowledgeable()
    });
    running.chain(stopped).collect()
}

fn runtimes(subject: &Subject<'_>) -> Vec<Finding> {
    let existing = &subject.facts.existing;
    let mut found = Vec::new();
    if let Some(path) = &existing.foreign_containerd {
        found.push(
            subject
                .warn("containerd", format!("a containerd is installed: {path}"))
                .detail("it is left as it is; hostspan's own stands beside it with its own configuration and socket")
                .fix("nothing, or remove its package once nothing needs it")
                .acknowledgeable(),
        );
    }
    if existing.docker {
        found.push(
            subject
                .warn("docker", "docker is installed")
                .detail("it is left working; its firewall rules are not meant for pods, and it takes memory and disk")
                .fix("nothing, or remove it once nothing needs it")
                .acknowledgeable(),
        );
    }
    found
}

fn libvirt_apparmor(subject: &Subject<'_>) -> Option<Finding> {
    subject.facts.existing.libvirt_apparmor.then(|| {
        subject
            .block("libvirt-apparmor", "AppArmor's profile of the host's libvirtd hits KubeVirt's")
            .detail(
                "the kernel applies it inside the container too and denies /usr/libexec/qemu-kvm: virt-handler fails",
            )
            .fix(
                "echo '/usr/libexec/qemu-kvm PUx,' >>/etc/apparmor.d/local/usr.sbin.libvirtd; apparmor_parser -r \
                 /etc/apparmor.d/usr.sbin.libvirtd (or remove libvirt where no guest needs it)",
            )
            .acknowledgeable()
    })
}

fn multipath(subject: &Subject<'_>) -> Option<Finding> {
    subject.facts.unit_active("multipathd.service").then(|| {
        subject
            .warn("multipathd", "multipathd runs")
            .detail("it claims the disks of volumes, which then are \"already mounted\"")
            .fix(
                "where no multipath disk is in use: systemctl disable --now multipathd.service multipathd.socket; else \
                 blacklist the volumes' devices in /etc/multipath.conf",
            )
            .acknowledgeable()
    })
}

fn snaps(subject: &Subject<'_>) -> Vec<Finding> {
    // microk8s is a distribution of its own and judged with the others.
    let known = ["kubelet", "kubeadm", "kubectl", "kube-apiserver", "kube-proxy", "docker", "lxd"];
    let installed = subject.facts.snaps.iter().filter(|snap| known.contains(&snap.as_str()));
    let finding = |snap: &String| {
        let detail = if snap == "lxd" {
            "its bridge, DNS server and firewall rules stay; its guests compete with the cluster for memory and CPUs"
        } else {
            "snapd updates it on its own, and its files and units may stand beside hostspan's"
        };
        subject
            .warn(format!("snap:{snap}"), format!("the snap {snap} is installed"))
            .detail(detail)
            .fix(format!("snap remove {snap}, if nothing needs it"))
            .acknowledgeable()
    };
    installed.map(finding).collect()
}
