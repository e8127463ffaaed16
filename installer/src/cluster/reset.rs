//! Taking hosts back out of the cluster and to what they were.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::session::{Connected, FleetError, FleetOutcome, HostEnd, HostError, HostOutcome, Session};
use crate::engine::{Cancel, each, undo};
use crate::host::preflight::node_name;
use crate::progress::{Event, Events};
use crate::ssh::Request;

/// Restores what the journals of the chosen hosts recorded. Workers first, then the control plane; of a control plane that
/// stays, the workers' nodes are removed. `changed` of the outcome counts what was restored.
///
/// # Errors
/// [`FleetError`] where nothing can be done at all. What is wrong with one host stands in the outcome.
pub async fn reset(session: &Session, events: &Events, cancel: &Cancel) -> Result<FleetOutcome, FleetError> {
    let control_plane = session.control_plane()?.name.as_str();
    let mut hosts: BTreeMap<String, HostOutcome> = BTreeMap::new();
    for (name, error) in session.failed.iter().filter(|(name, _)| session.chosen.contains(*name)) {
        hosts.insert(name.clone(), HostOutcome { changed: 0, end: HostEnd::Failed(Arc::clone(error)) });
    }
    let reached = session.chosen.iter().filter(|name| session.connected.contains_key(*name)).cloned();
    let (last, first): (Vec<String>, Vec<String>) = reached.partition(|name| name == control_plane);
    let stays = last.is_empty();
    for names in [first, last] {
        let ended = each(names, session.parallel, |name| async move {
            let connected = session.connected.get(&name).ok_or(HostError::NotThere { host: name })?;
            Ok::<_, HostError>(undo(connected.remote.as_ref(), events, cancel).await?)
        })
        .await;
        hosts.extend(ended.into_iter().map(|(name, ended)| match ended {
            Ok(changed) => (name, HostOutcome { changed, end: HostEnd::Done }),
            Err(error) => (name, HostOutcome { changed: 0, end: HostEnd::Failed(Arc::new(error)) }),
        }));
    }
    if let Some(connected) = session.connected.get(control_plane).filter(|_| stays) {
        let gone = hosts.iter().filter(|(_, host)| matches!(host.end, HostEnd::Done)).map(|(name, _)| name.as_str());
        if let Err(message) = remove_nodes(connected, gone).await {
            let message = format!("{control_plane}: the nodes of the hosts that were reset are still there: {message}");
            events.send(Event::Warning { host: Some(control_plane.to_owned()), message });
        }
    }
    let outcome = FleetOutcome { hosts };
    outcome.tell(events);
    Ok(outcome)
}

/// The marks go too: a host that comes back is a new node, which has to get its role and pod network again.
async fn remove_nodes(control_plane: &Connected, hosts: impl Iterator<Item = &str>) -> Result<(), String> {
    let nodes: Vec<String> = hosts.filter_map(|host| node_name(host).ok()).collect();
    if nodes.is_empty() || control_plane.facts.hostspan.ca_sha256.is_none() {
        return Ok(());
    }
    let script = format!(
        "set -e
for node in {}; do
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf delete node \"$node\" --ignore-not-found --wait=false
  for marks in /etc/hostspan/nodes /etc/hostspan/ready; do
    [ ! -f $marks ] || sed -i -e \"/^$node\\$/d\" -e \"/^$node /d\" $marks
  done
done
",
        nodes.join(" ")
    );
    let request = Request { script: &script, root: true, timeout: Duration::from_mins(2) };
    let finished = control_plane.remote.run(request, &mut |_| ()).await.map_err(|error| error.message)?;
    match finished.code {
        0 => Ok(()),
        _ => Err(finished.stderr.lines().last().unwrap_or("kubectl failed").to_owned()),
    }
}
