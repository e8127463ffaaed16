//! Nodes as the API server sees them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::kubectl::Kubectl;

/// Waits until exactly the nodes of these hosts are there and Ready.
pub async fn ready(kubectl: &Kubectl, wanted: &[String], within: Duration) -> Result<()> {
    let end = Instant::now() + within;
    loop {
        let ready: BTreeSet<String> = match kubectl.json(&["get", "nodes"]).await {
            Ok(nodes) => nodes["items"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|node| {
                    let conditions = node["status"]["conditions"].as_array();
                    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
                })
                .filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned))
                .collect(),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => BTreeSet::new(),
        };
        if ready.iter().eq(wanted.iter()) {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("ready nodes are {ready:?}, wanted {wanted:?}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
