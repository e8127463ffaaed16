//! What stands on a host already: the run stops, names it, and has touched nothing on any host.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use hostspan_tests::digest;
use hostspan_tests::fleet::Run;
use hostspan_tests::scenario::Scenario;

use crate::{Faults, apply, says};

/// What each host has, what makes it so, what makes it plain again.
const STATES: [(&str, &str, &str); 6] = [
    (
        "kvm-01",
        "systemd-run -q --unit=squatter socat TCP-LISTEN:6443,fork /dev/null
         until ss -Hltn sport = :6443 | grep -q .; do sleep 0.1; done",
        "systemctl stop squatter",
    ),
    (
        "kvm-02",
        "mkdir -p /etc/rancher/k3s
         echo write-kubeconfig-mode: 644 >/etc/rancher/k3s/config.yaml
         printf '#!/bin/sh\\nexec sleep infinity\\n' >/usr/local/bin/k3s
         chmod 755 /usr/local/bin/k3s
         printf '[Service]\\nExecStart=/usr/local/bin/k3s server\\n' >/etc/systemd/system/k3s.service
         systemctl start k3s",
        "systemctl stop k3s
         rm -r /etc/rancher /usr/local/bin/k3s /etc/systemd/system/k3s.service
         systemctl daemon-reload",
    ),
    (
        "kvm-03",
        "mkdir -p /etc/kubernetes/manifests
         for part in etcd kube-apiserver; do echo kind: Pod >/etc/kubernetes/manifests/$part.yaml; done",
        "rm -r /etc/kubernetes",
    ),
    (
        "kvm-04",
        "mkdir -p /etc/kubernetes/pki
         openssl req -x509 -newkey ed25519 -nodes -keyout /dev/null -out /etc/kubernetes/pki/ca.crt -subj /CN=other 2>&1
         echo '    server: https://192.0.2.99:6443' >/etc/kubernetes/kubelet.conf
         systemd-run -q --unit=kubelet sleep infinity",
        "systemctl stop kubelet
         rm -r /etc/kubernetes",
    ),
    ("kvm-05", "mkdir -p /run/libvirt/qemu; echo '<domstatus/>' >/run/libvirt/qemu/web-1.xml", "rm -r /run/libvirt"),
    (
        "kvm-07",
        "mount --bind /usr/local /usr/local
         mount -o remount,bind,ro /usr/local",
        "umount /usr/local",
    ),
];

pub async fn story(faults: &Faults, scenario: &mut Scenario) {
    let made: Vec<_> = STATES.iter().map(|(host, make, _)| (*host, *make)).collect();
    scenario.must("hosts_become_somebody_elses", faults.roots(&made)).await;
    let mut run = None;
    scenario
        .check("preflight_blocks_and_no_host_is_touched", async {
            run = Some(blocked(faults).await?);
            Ok(())
        })
        .await;
    if let Some(run) = &run {
        for (name, host, parts) in [
            ("a_taken_port", "kvm-01", ["socat listens on port 6443", "stop socat"]),
            ("k3s", "kvm-02", ["k3s is installed here", "/usr/local/bin/k3s, /etc/rancher/k3s"]),
            (
                "half_an_installation",
                "kvm-03",
                ["/etc/kubernetes/manifests/etcd.yaml, /etc/kubernetes/manifests/kube-apiserver.yaml", "kubeadm reset"],
            ),
            (
                "another_cluster",
                "kvm-04",
                ["another Kubernetes cluster (https://192.0.2.99:6443)", "/etc/kubernetes/pki/ca.crt"],
            ),
            ("a_running_guest", "kvm-05", ["the libvirt guest web-1 runs", "guest:web-1"]),
            ("a_read_only_folder", "kvm-07", ["/usr/local cannot be written", "remount,rw"]),
        ] {
            scenario.check(&format!("{name}_is_named_with_a_fix"), async { says(run, host, &parts) }).await;
        }
    }
    let undone: Vec<_> = STATES.iter().map(|(host, _, undo)| (*host, *undo)).collect();
    scenario.must("hosts_are_plain_again", faults.roots(&undone)).await;
}

async fn blocked(faults: &Faults) -> Result<Run> {
    let hosts = faults.fleet.hosts();
    let digests = || try_join_all(hosts.iter().map(|host| digest::of(&faults.fleet.lab, host)));
    let before = digests().await?;
    let run = apply(&faults.fleet.status.fleet_file, &[]).await?.expect(11)?;
    for ((host, before), after) in hosts.iter().zip(&before).zip(&digests().await?) {
        let differs = digest::difference(before, after, &[]);
        ensure!(differs.is_empty(), "{host} was touched:\n{}", differs.join("\n"));
    }
    Ok(run)
}
