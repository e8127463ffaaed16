//! What became of a run over hosts, as JSON and as one failure; `apply` and `reset` share it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::failure::{Failure, Problem};
use super::hosts;
use crate::cluster::{FleetOutcome, HostEnd, HostOutcome};
use crate::exit::Exit;

/// Fixed by the design: `{"changed": N, "failed": N, "hosts": {...}}`.
pub(super) fn as_json(outcome: &FleetOutcome) -> Value {
    let host = |(name, host): (&String, &HostOutcome)| {
        let value = match &host.end {
            HostEnd::Done => json!({"changed": host.changed, "ok": true}),
            HostEnd::Failed(error) => {
                json!({"changed": host.changed, "ok": false, "error": hosts::problem(name, error)})
            }
            HostEnd::Skipped(why) => json!({"changed": host.changed, "ok": false, "skipped": why}),
        };
        (name.clone(), value)
    };
    let failed = outcome.hosts.values().filter(|host| !matches!(host.end, HostEnd::Done)).count();
    let hosts: serde_json::Map<String, Value> = outcome.hosts.iter().map(host).collect();
    json!({"changed": outcome.changed(), "failed": failed, "hosts": hosts})
}

/// Hosts that failed, then those that were skipped because of them.
pub(super) fn failure(outcome: &FleetOutcome) -> Option<Failure> {
    let mut failed = BTreeMap::new();
    let mut skipped = Vec::new();
    for (name, host) in &outcome.hosts {
        match &host.end {
            HostEnd::Done => {}
            HostEnd::Failed(error) => drop(failed.insert(name, error)),
            HostEnd::Skipped(why) => {
                let why = why.strip_prefix(&format!("{name} ")).unwrap_or(why).to_owned();
                let help = Some("run the same command again once the others are mended".into());
                skipped.push(Problem { host: Some(name.clone()), message: why, detail: String::new(), help });
            }
        }
    }
    let mut failure = match hosts::failure(failed) {
        Some(failure) => failure,
        None if skipped.is_empty() => return None,
        None => Failure { exit: Exit::StepFailed, problems: Vec::new() },
    };
    failure.problems.append(&mut skipped);
    Some(failure)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::HostError;

    #[test]
    fn the_json_of_a_run_has_the_designs_shape() {
        let foreign = HostError::Foreign { host: "b".into(), reason: "k3s is there".into() };
        let outcome = FleetOutcome {
            hosts: BTreeMap::from([
                ("a".into(), HostOutcome { changed: 12, end: HostEnd::Done }),
                ("b".into(), HostOutcome { changed: 0, end: HostEnd::Failed(Arc::new(foreign)) }),
                ("c".into(), HostOutcome { changed: 3, end: HostEnd::Skipped("c was left: b failed".into()) }),
            ]),
        };
        assert_eq!(
            as_json(&outcome),
            json!({"changed": 15, "failed": 2, "hosts": {
                "a": {"changed": 12, "ok": true},
                "b": {"changed": 0, "ok": false, "error": {"host": "b", "message": "k3s is there"}},
                "c": {"changed": 3, "ok": false, "skipped": "c was left: b failed"},
            }})
        );
        let failure = failure(&outcome).unwrap();
        assert_eq!((failure.exit, failure.problems.len()), (Exit::PreflightBlocked, 2));
    }

    #[test]
    fn all_hosts_done_is_no_failure() {
        let hosts = BTreeMap::from([("a".into(), HostOutcome { changed: 0, end: HostEnd::Done })]);
        assert_eq!(failure(&FleetOutcome { hosts }), None);
    }
}
