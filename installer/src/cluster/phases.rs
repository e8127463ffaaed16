//! The phases of a conversion, in order.

use crate::fleet::model::{Cni, Fleet, Host, Role};

/// A built-in phase. A user's playbook may run before or after any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its name, and that of its playbook.
    pub name: &'static str,
    /// Which hosts it is for.
    pub on: On,
    /// What it has to wait for besides the host's own earlier phases.
    pub after: After,
}

/// Which hosts a phase is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// All.
    Every,
    /// The control plane.
    ControlPlane,
    /// All but the control plane.
    Others,
}

/// What a phase has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Nothing: hosts go through it at their own pace.
    Nothing,
    /// A control plane that answers; the control plane itself waits for nothing.
    ControlPlane,
    /// The end of all other hosts' phases.
    AllHosts,
}

/// All of them. The pod network comes before a host is a node: its pods then have one from the start, and still have one
/// when a reset, which goes backwards, stops them. The other hosts' comes after the control plane's, whose record counts.
pub static PHASES: [Phase; 7] = [
    Phase { name: "prepare", on: On::Every, after: After::Nothing },
    Phase { name: "runtime", on: On::Every, after: After::Nothing },
    Phase { name: "node", on: On::Every, after: After::Nothing },
    Phase { name: "pod-network", on: On::Every, after: After::ControlPlane },
    Phase { name: "control-plane", on: On::ControlPlane, after: After::Nothing },
    Phase { name: "workers", on: On::Others, after: After::ControlPlane },
    Phase { name: "ready", on: On::ControlPlane, after: After::AllHosts },
];

/// The phases up to the one of that name, for a run that is to stop there.
pub fn until(name: &str) -> Option<&'static [Phase]> {
    let last = PHASES.iter().position(|phase| phase.name == name)?;
    PHASES.get(..=last)
}

impl Phase {
    /// Whether its own playbook runs on that host.
    pub fn is_for(&self, fleet: &Fleet, host: &Host) -> bool {
        let control_plane = host.roles.contains(&Role::ControlPlane);
        let on = match self.on {
            On::Every => true,
            On::ControlPlane => control_plane,
            On::Others => !control_plane,
        };
        on && (self.name != "pod-network" || fleet.spec.network.cni == Cni::Routed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_can_stop_after_a_phase() {
        let names = |name: &str| until(name).map(|phases| phases.iter().map(|phase| phase.name).collect::<Vec<_>>());
        assert_eq!(names("node"), Some(vec!["prepare", "runtime", "node"]));
        assert_eq!(names("ready").map(|names| names.len()), Some(PHASES.len()));
        assert_eq!(names("cni"), None);
    }

    #[test]
    fn each_host_has_its_phases_in_order() {
        let mut fleet: Fleet = serde_json::from_value(serde_json::json!({
            "apiVersion": "hostspan.dev/v1alpha1", "kind": "Fleet", "metadata": {"name": "kvm-a"},
            "spec": {"hosts": [
                {"name": "a", "address": "192.0.2.11", "roles": ["control-plane", "worker"]},
                {"name": "b", "address": "192.0.2.12"},
            ]},
        }))
        .unwrap();
        let of = |fleet: &Fleet, index: usize| -> Vec<&str> {
            let host = &fleet.spec.hosts[index];
            PHASES.iter().filter(|phase| phase.is_for(fleet, host)).map(|phase| phase.name).collect()
        };
        assert_eq!(of(&fleet, 0), ["prepare", "runtime", "node", "pod-network", "control-plane", "ready"]);
        assert_eq!(of(&fleet, 1), ["prepare", "runtime", "node", "pod-network", "workers"]);
        fleet.spec.network.cni = Cni::None;
        assert_eq!(of(&fleet, 1), ["prepare", "runtime", "node", "workers"]);
    }
}
