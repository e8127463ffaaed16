//! `hostspan status`: what the hosts are now.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::context::Context;
use super::failure::Failure;
use super::hosts;
use super::session::Plans;
use crate::cluster::Session;
use crate::exit::Exit;
use crate::host::preflight::node_name;
use crate::progress::human;
use crate::progress::paint::Paint;
use crate::ssh::Request;

/// Show what the hosts are now: reachable, converted, ready
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit code 12 when a host cannot be reached.

Examples:
  hostspan status
  hostspan status -o json | jq '.hosts[] | select(.ready != true) | .name'")]
pub struct Status {}

/// A host as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    address: String,
    reachable: bool,
    /// The fleet that it was converted for.
    fleet: Option<String>,
    os: Option<String>,
    cpus: Option<u32>,
    memory_bytes: Option<u64>,
    /// Whether its Kubernetes node is ready; absent where there is none or the control plane does not tell.
    ready: Option<bool>,
    kubelet_version: Option<String>,
}

/// A Kubernetes node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    ready: bool,
    kubelet_version: String,
}

impl Status {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let plans = Plans::read(ctx)?;
        let display = ctx.display();
        let asked = async {
            let session = plans.connect(ctx, &display.events()).await?;
            let nodes = nodes(&session).await;
            Ok::<_, Failure>((session, nodes))
        }
        .await;
        display.finish().await;
        let (session, nodes) = asked?;
        let rows = rows(&session, &nodes);
        if ctx.json() {
            let fleet = &session.fleet.metadata.name;
            Context::print_json(&serde_json::json!({"fleet": fleet, "hosts": rows}))?;
        } else {
            Context::print(&render(&rows, ctx.paint));
        }
        let failed = session.failed.iter().filter(|(name, _)| session.chosen.contains(*name));
        hosts::failure(failed).map_or(Ok(Exit::Done), Err)
    }
}

/// The cluster's nodes by name; empty where there is no cluster yet or it does not answer.
async fn nodes(session: &Session) -> BTreeMap<String, Node> {
    let control_plane = session.control_plane().ok().and_then(|host| session.connected.get(&host.name));
    let Some(control_plane) = control_plane else { return BTreeMap::new() };
    let script = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 10s get nodes -o json";
    let request = Request { script, root: true, timeout: Duration::from_secs(30) };
    match control_plane.remote.run(request, &mut |_| ()).await {
        Ok(finished) if finished.code == 0 => parse_nodes(&finished.stdout),
        Ok(_) | Err(_) => BTreeMap::new(),
    }
}

fn parse_nodes(json: &str) -> BTreeMap<String, Node> {
    let list: Value = serde_json::from_str(json).unwrap_or_default();
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            let conditions = item["status"]["conditions"].as_array()?;
            let node = Node {
                ready: conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"),
                kubelet_version: item["status"]["nodeInfo"]["kubeletVersion"].as_str()?.to_owned(),
            };
            Some((item["metadata"]["name"].as_str()?.to_owned(), node))
        })
        .collect()
}

fn rows(session: &Session, nodes: &BTreeMap<String, Node>) -> Vec<Row> {
    let hosts = session.fleet.spec.hosts.iter().filter(|host| session.chosen.contains(&host.name));
    hosts
        .map(|host| {
            let facts = session.connected.get(&host.name).map(|connected| &connected.facts);
            let node = node_name(&host.name).ok().and_then(|name| nodes.get(&name));
            Row {
                name: host.name.clone(),
                address: host.address.to_string(),
                reachable: facts.is_some(),
                fleet: facts.and_then(|facts| facts.hostspan.fleet.clone()),
                os: facts.map(|facts| facts.os_name.clone()),
                cpus: facts.map(|facts| facts.cpus),
                memory_bytes: facts.map(|facts| facts.memory_bytes),
                ready: node.map(|node| node.ready),
                kubelet_version: node.map(|node| node.kubelet_version.clone()),
            }
        })
        .collect()
}

fn render(rows: &[Row], paint: Paint) -> String {
    let mut table = vec![["HOST", "ADDRESS", "STATE", "KUBELET", "CPUS", "MEMORY", "SYSTEM"].map(str::to_owned)];
    for row in rows {
        table.push([
            row.name.clone(),
            row.address.clone(),
            state(row).into(),
            row.kubelet_version.clone().unwrap_or_default(),
            row.cpus.map_or(String::new(), |n| n.to_string()),
            row.memory_bytes.map_or(String::new(), human::bytes),
            row.os.clone().unwrap_or_default(),
        ]);
    }
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut text = String::new();
    for (i, row) in table.iter().enumerate() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a String cannot fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        let line = line.trim_end();
        let line = match i.checked_sub(1).map(|i| state(&rows[i])) {
            None => paint.dim(line),
            Some("ready") => line.replacen("ready", &paint.green("ready"), 1),
            Some(bad @ ("unreachable" | "not ready")) => line.replacen(bad, &paint.red(bad), 1),
            Some(_) => line.to_owned(),
        };
        let _ = writeln!(text, "{line}");
    }
    text
}

fn state(row: &Row) -> &'static str {
    match (row.reachable, row.ready, &row.fleet) {
        (false, ..) => "unreachable",
        (_, Some(true), _) => "ready",
        (_, Some(false), _) => "not ready",
        (_, None, Some(_)) => "half converted",
        (_, None, None) => "plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Row {
        Row {
            name: name.into(),
            address: "192.0.2.11".into(),
            reachable: true,
            fleet: None,
            os: Some("Debian GNU/Linux 12 (bookworm)".into()),
            cpus: Some(8),
            memory_bytes: Some(32 << 30),
            ready: None,
            kubelet_version: None,
        }
    }

    #[test]
    fn a_table_lines_up_and_says_what_each_host_is() {
        let ready = Row {
            fleet: Some("kvm-a".into()),
            ready: Some(true),
            kubelet_version: Some("v1.36.3".into()),
            ..row("kvm-01")
        };
        let down = Row { reachable: false, os: None, cpus: None, memory_bytes: None, ..row("kvm-02") };
        assert_eq!(
            render(&[ready, down, row("kvm-03")], Paint::plain()),
            "HOST    ADDRESS     STATE        KUBELET  CPUS  MEMORY    SYSTEM\n\
             kvm-01  192.0.2.11  ready        v1.36.3  8     32.0 GiB  Debian GNU/Linux 12 (bookworm)\n\
             kvm-02  192.0.2.11  unreachable\n\
             kvm-03  192.0.2.11  plain                 8     32.0 GiB  Debian GNU/Linux 12 (bookworm)\n"
        );
    }

    #[test]
    fn nodes_are_read_from_kubectls_json_and_rubbish_is_none() {
        let json = r#"{"items": [{"metadata": {"name": "kvm-01"}, "status": {
            "conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "False"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3"}}}, {"metadata": {}}]}"#;
        let nodes = parse_nodes(json);
        assert_eq!(nodes["kvm-01"], Node { ready: false, kubelet_version: "v1.36.3".into() });
        assert_eq!((nodes.len(), parse_nodes("Unable to connect").len()), (1, 0));
    }
}
