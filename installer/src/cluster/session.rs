//! What a run works with, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::book::{Book, StepsError};
use super::phases::Phase;
use super::pod_networks::PodNetworkError;
use super::variables::VariablesError;
use crate::artifacts::Store;
use crate::engine::{EngineError, HostPanic, Observed, PhasePlan, PhaseSteps, Verdict};
use crate::fleet::model::{Fleet, Host, Role};
use crate::host::FactsError;
use crate::host::facts::Facts;
use crate::progress::{Event, Events};
use crate::ssh::{Remote, RemoteError};

/// A host with a connection that stands, and what it is.
pub struct Connected {
    /// The connection.
    pub remote: Arc<dyn Remote>,
    /// Its facts.
    pub facts: Facts,
}

/// A run: the fleet and what of it could be reached.
pub struct Session {
    /// The fleet.
    pub fleet: Fleet,
    /// Hosts that this run is about: all, or those of `--host`.
    pub chosen: BTreeSet<String>,
    /// Hosts that were reached. The control plane should be among them also where it is not chosen: its record of pod
    /// networks counts, and joining hosts need a token of it.
    pub connected: BTreeMap<String, Connected>,
    /// Hosts that were not, with the reason.
    pub failed: BTreeMap<String, Arc<HostError>>,
    /// Where files and images come from.
    pub store: Store,
    /// The playbooks.
    pub book: Book,
    /// The phases that this run goes through: all, or those up to the one it is to stop after.
    pub phases: &'static [Phase],
    /// How many hosts are worked on at once.
    pub parallel: usize,
}

/// Why there can be no run at all.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FleetError {
    /// No host has the role.
    #[error("no host of the fleet has the role control-plane")]
    NoControlPlane,
    /// Several have.
    #[error("{} all have the role control-plane; hostspan makes one control plane for now", .0.join(", "))]
    SeveralControlPlanes(Vec<String>),
    /// The hosts' parts of the pod network cannot be told.
    #[error(transparent)]
    PodNetworks(#[from] PodNetworkError),
}

/// Why a host is not what it should be. Each text begins with the host's name.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// It could not be talked to.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Its facts could not be read.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// Something that must not be touched stands there.
    #[error("{host}: {reason}")]
    Foreign {
        /// The host.
        host: String,
        /// What stands there and what to do.
        reason: String,
    },
    /// Something about it does not let its configuration be made.
    #[error("{host}: {error}")]
    Variables {
        /// The host.
        host: String,
        /// Why.
        error: VariablesError,
    },
    /// A playbook cannot be filled in for it.
    #[error("{host}: {error}")]
    Steps {
        /// The host.
        host: String,
        /// Why.
        error: StepsError,
    },
    /// The run has no connection to it.
    #[error("{host}: there is no connection to it in this run")]
    NotThere {
        /// The host.
        host: String,
    },
    /// The control plane gave no token to join with.
    #[error("{host}: the control plane {control_plane} gave no token to join with: {message}")]
    Token {
        /// The host that wants to join.
        host: String,
        /// The control plane.
        control_plane: String,
        /// Why.
        message: String,
    },
    /// The engine's work on it ended early.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<HostPanic> for HostError {
    fn from(panic: HostPanic) -> Self {
        Self::Engine(panic.into())
    }
}

/// What a run would do.
pub struct FleetPlan {
    /// By host: what would be done, or why that cannot be told. All chosen hosts.
    pub hosts: BTreeMap<String, Result<HostPlan, Arc<HostError>>>,
}

/// What a run would do on one host.
pub struct HostPlan {
    /// Its phases that have any steps, in order, those with nothing to do too.
    pub phases: Vec<PhasePlan>,
    /// The steps of `phases`.
    pub(super) steps: Vec<PhaseSteps>,
    pub(super) seen: Observed,
}

/// What became of a run. All chosen hosts.
#[derive(Debug)]
pub struct FleetOutcome {
    /// By host.
    pub hosts: BTreeMap<String, HostOutcome>,
}

/// What became of a host.
#[derive(Debug)]
pub struct HostOutcome {
    /// How many steps changed something.
    pub changed: usize,
    /// How it ended.
    pub end: HostEnd,
}

/// How a host's part of a run ended.
#[derive(Debug)]
pub enum HostEnd {
    /// As wanted.
    Done,
    /// It failed.
    Failed(Arc<HostError>),
    /// It was left as it is for now, since something that it needs failed elsewhere: one sentence.
    Skipped(String),
}

impl Session {
    /// The fleet's only control plane.
    pub fn control_plane(&self) -> Result<&Host, FleetError> {
        control_plane(&self.fleet)
    }

    /// A host of the fleet file.
    pub(super) fn host(&self, name: &str) -> Option<&Host> {
        self.fleet.spec.hosts.iter().find(|host| host.name == name)
    }
}

/// The fleet's only control plane.
pub fn control_plane(fleet: &Fleet) -> Result<&Host, FleetError> {
    let all: Vec<&Host> = fleet.spec.hosts.iter().filter(|host| host.roles.contains(&Role::ControlPlane)).collect();
    match all[..] {
        [one] => Ok(one),
        [] => Err(FleetError::NoControlPlane),
        _ => Err(FleetError::SeveralControlPlanes(all.iter().map(|host| host.name.clone()).collect())),
    }
}

impl HostPlan {
    /// How many steps would change something.
    pub fn changes(&self) -> usize {
        self.phases.iter().map(changes_of).sum()
    }

    /// The steps and the plan of a phase, where it has something to do.
    pub(super) fn to_do(&self, phase: &str) -> Option<(&PhaseSteps, &PhasePlan)> {
        let index = self.phases.iter().position(|plan| plan.phase == phase && changes_of(plan) > 0)?;
        Some((self.steps.get(index)?, &self.phases[index]))
    }

    /// Whether a step would change something.
    pub(super) fn changes_step(&self, id: &str) -> bool {
        self.phases.iter().flat_map(|phase| &phase.steps).any(|step| step.id == id && step.verdict != Verdict::Ok)
    }
}

fn changes_of(phase: &PhasePlan) -> usize {
    phase.steps.iter().filter(|step| step.verdict != Verdict::Ok).count()
}

impl FleetPlan {
    /// How many steps would change something on all hosts together.
    pub fn changes(&self) -> usize {
        self.hosts.values().flatten().map(HostPlan::changes).sum()
    }
}

impl FleetOutcome {
    /// How many steps changed something on all hosts together.
    pub fn changed(&self) -> usize {
        self.hosts.values().map(|host| host.changed).sum()
    }

    /// Says how each host ended.
    pub(super) fn tell(&self, events: &Events) {
        for (name, host) in &self.hosts {
            let (ok, summary) = match &host.end {
                HostEnd::Done if host.changed == 0 => (true, "unchanged".to_owned()),
                HostEnd::Done if host.changed == 1 => (true, "1 change".to_owned()),
                HostEnd::Done => (true, format!("{} changes", host.changed)),
                HostEnd::Failed(error) => (false, error.to_string()),
                HostEnd::Skipped(why) => (false, why.clone()),
            };
            events.send(Event::HostFinished { host: name.clone(), ok, summary });
        }
    }

    /// Whether every host is as wanted.
    pub fn ok(&self) -> bool {
        self.hosts.values().all(|host| matches!(host.end, HostEnd::Done))
    }
}

impl Serialize for HostPlan {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.phases.serialize(serializer)
    }
}
