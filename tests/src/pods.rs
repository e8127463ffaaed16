//! What pods of a converted fleet must reach, asked from inside them.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::kubectl::Kubectl;

/// A user's own playbook that brings the image of the probe pods to every host.
pub const PLAYBOOK: &str = "\
apiVersion: hostspan.dev/v1alpha1
kind: Playbook
metadata: {name: toolbox}
spec:
  at: {after: node}
  steps:
    - id: image
      title: Import the image of the probe pods
      artifact: {name: 'image:hostspan.dev/lab/toolbox:1', importImage: true}
";

/// One pod on every node that answers with the address it sees its caller come from, and a Service over them.
fn manifest(nodes: &[String]) -> String {
    let mut text = String::from(
        "apiVersion: v1\nkind: Service\nmetadata: {name: probe}\nspec:\n  selector: {app: probe}\n  ports: [{port: 80, targetPort: 8080}]\n",
    );
    for node in nodes {
        write!(
            text,
            r#"---
apiVersion: v1
kind: Pod
metadata: {{name: probe-{node}, labels: {{app: probe}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  tolerations: [{{operator: Exists}}]
  containers:
    - name: probe
      image: hostspan.dev/lab/toolbox:1
      imagePullPolicy: Never
      command: [sh, -c]
      args:
        - |
          mkdir -p /www/cgi-bin
          printf '#!/bin/sh\necho\necho "$REMOTE_ADDR seen by %s"\n' {node} >/www/cgi-bin/who
          chmod +x /www/cgi-bin/who
          # The first process of a pod hears no signal that it does not ask for.
          trap 'exit 0' TERM
          httpd -f -p 8080 -h /www &
          wait
"#
        )
        .unwrap();
    }
    text
}

/// Makes the pods and waits until they run. Pods that a reboot left behind are made anew.
pub async fn up(kubectl: &Kubectl, nodes: &[String]) -> Result<()> {
    kubectl.apply(&manifest(nodes)).await?;
    let end = Instant::now() + Duration::from_mins(3);
    loop {
        let pods = kubectl.json(&["get", "pods", "-l", "app=probe"]).await?;
        let ready = pods["items"].as_array().into_iter().flatten().filter(|pod| is_ready(pod)).count();
        if ready == nodes.len() {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("{ready} of {} probe pods are ready:\n{}", nodes.len(), kubectl.text(&["describe", "pods"]).await?);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Every pod reaches every other and is seen there by its own address; the Service, its name and the gateway answer. Tried
/// again for a while: after a reboot the API server shows for some seconds what was before, addresses too.
pub async fn reach(kubectl: &Kubectl, nodes: &[String], gateway: Ipv4Addr, within: Duration) -> Result<()> {
    let end = Instant::now() + within;
    loop {
        match reach_once(kubectl, nodes, gateway).await {
            Err(_) if Instant::now() < end => tokio::time::sleep(Duration::from_secs(1)).await,
            last => return last,
        }
    }
}

async fn reach_once(kubectl: &Kubectl, nodes: &[String], gateway: Ipv4Addr) -> Result<()> {
    let mut addresses = Vec::new();
    for node in nodes {
        let pod = kubectl.json(&["get", "pod", &format!("probe-{node}")]).await?;
        addresses.push(pod["status"]["podIP"].as_str().context("a pod without address")?.to_owned());
    }
    let service = kubectl.json(&["get", "service", "probe"]).await?;
    let service = service["spec"]["clusterIP"].as_str().context("a Service without address")?;
    for (node, own) in nodes.iter().zip(&addresses) {
        let pod = format!("probe-{node}");
        for (peer, address) in nodes.iter().zip(&addresses) {
            let answer = kubectl.exec(&pod, &format!("timeout 5 wget -qO- http://{address}:8080/cgi-bin/who")).await?;
            ensure!(
                answer.trim() == format!("[::ffff:{own}] seen by {peer}"),
                "the pod on {node} ({own}) asked the one on {peer}, which answered {answer:?}"
            );
        }
        for target in [service, "probe.default.svc.cluster.local"] {
            let answer = kubectl.exec(&pod, &format!("timeout 10 wget -qO- http://{target}/cgi-bin/who")).await?;
            ensure!(answer.contains("seen by"), "the pod on {node} asked {target}, which answered {answer:?}");
        }
        kubectl.exec(&pod, &format!("ping -c 1 -W 5 {gateway}")).await?;
    }
    Ok(())
}
