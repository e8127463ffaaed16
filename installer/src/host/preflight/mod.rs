//! What stands in the way of a conversion, judged over the whole fleet before anything is changed. Pure.
//!
//! ```text
//! Fleet + Facts of all hosts --> identity (the fleet as a whole), system, network, software (each host) --> Vec<Finding>
//! ```
//!
//! Severities follow OpenShift's assisted installer, which tells blocking from non-blocking validations. What can work in
//! some fleets although it usually does not is acknowledgeable: the admin names the finding in `spec.acknowledge`.

pub mod existing;
mod finding;
mod identity;
mod name;
mod network;
pub(super) mod ports;
mod resolv;
mod software;
mod system;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;

pub(super) use finding::settle;
pub use finding::{Finding, Severity, worst};
pub use name::{NameError, node_name};
pub use resolv::kubelet_resolv_conf;

use self::existing::{Standing, judge};
use super::facts::Facts;
use crate::fleet::model::{Fleet, Host, Role};

/// One host with all that its checks look at.
#[derive(Debug, Clone, Copy)]
struct Subject<'a> {
    fleet: &'a Fleet,
    host: &'a Host,
    facts: &'a Facts,
    standing: &'a Standing,
}

impl Subject<'_> {
    fn is_control_plane(&self) -> bool {
        self.host.roles.contains(&Role::ControlPlane)
    }

    fn is_worker(&self) -> bool {
        self.host.roles.contains(&Role::Worker)
    }

    fn block(&self, id: impl Into<String>, title: impl Into<String>) -> Finding {
        self.finding(Severity::Block, id, title)
    }

    fn fixable(&self, id: impl Into<String>, title: impl Into<String>) -> Finding {
        self.finding(Severity::FixWithConsent, id, title)
    }

    fn warn(&self, id: impl Into<String>, title: impl Into<String>) -> Finding {
        self.finding(Severity::Warn, id, title)
    }

    fn finding(&self, severity: Severity, id: impl Into<String>, title: impl Into<String>) -> Finding {
        Finding::new(severity, id, title).on(&self.host.name)
    }
}

/// Judges the fleet. `facts` are keyed by the hosts' names in the fleet file; hosts without facts are passed over.
/// The worst come first; findings that say the same of several hosts are one.
pub fn preflight(fleet: &Fleet, facts: &BTreeMap<String, Facts>) -> Vec<Finding> {
    let mut found = identity::check(fleet, facts);
    let standings = judge(fleet, facts);
    for host in &fleet.spec.hosts {
        let (Some(facts), Some(standing)) = (facts.get(&host.name), standings.get(&host.name)) else { continue };
        let subject = Subject { fleet, host, facts, standing };
        system::check(&subject, &mut found);
        network::check(&subject, &mut found);
        software::check(&subject, &mut found);
    }
    settle(found, &fleet.spec.acknowledge)
}
