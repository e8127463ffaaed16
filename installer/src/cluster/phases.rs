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
    /// A control plane that answers.
    ControlPlane,
    /// The end of all other hosts' phases.
    AllHosts,
}

/// All of them. The pod network comes after the control plane although it does not need one: a host then never records
/// pod networks that the control plane, whose record counts, has not seen.
pub const PHASES: [Phase; 7] = [
    Phase { name: "prepare", on: On::Every, after: After::Nothing },
    Phase { name: "runtime", on: On::Every, after: After::Nothing },
    Phase { name: "node", on: On::Every, after: After::Nothing },
    Phase { name: "control-plane", on: On::ControlPlane, after: After::Nothing },
    Phase { name: "workers", on: On::Others, after: After::ControlPlane },
    Phase { name: "pod-network", on: On::Every, after: After::ControlPlane },
    Phase { name: "ready", on: On::ControlPlane, after: After::AllHosts },
];

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
        assert_eq!(of(&fleet, 0), ["prepare", "runtime", "node", "control-plane", "pod-network", "ready"]);
        assert_eq!(of(&fleet, 1), ["prepare", "runtime", "node", "workers", "pod-network"]);
        fleet.spec.network.cni = Cni::None;
        assert_eq!(of(&fleet, 1), ["prepare", "runtime", "node", "workers"]);
    }
}
