//! Plan and apply: all hosts at once, each at its own pace, waiting for others only where it has to.
//!
//! ```text
//! control plane   prepare > runtime > node > pod-network > control-plane ----+--> ready
//! every other     prepare > runtime > node ...... pod-network > workers -----+
//!                                             (a control plane that answers)
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use ipnet::IpNet;
use tokio::sync::{OnceCell, watch};

use super::join;
use super::kubeadm::Join;
use super::phases::{After, PHASES, Phase};
use super::pod_networks;
use super::session::{
    Connected, FleetError, FleetOutcome, FleetPlan, HostEnd, HostError, HostOutcome, HostPlan, Session,
};
use super::variables::{self, Inputs};
use crate::artifacts::{ArtifactRef, Store};
use crate::engine::{Cancel, EngineError, Fetch, HostRun, PhaseSteps, Stop, decide, each, observe};
use crate::fleet::model::{Cni, Host};
use crate::host::facts::Facts;
use crate::host::preflight::existing::{Standing, judge};
use crate::progress::Events;

/// The step that needs a token of the control plane.
const JOIN_STEP: &str = "workers/join";

impl Fetch for Store {
    fn fetch<'a>(&'a self, artifact: &'a ArtifactRef, events: &'a Events) -> BoxFuture<'a, Result<PathBuf, String>> {
        Box::pin(async move { Self::fetch(self, artifact, events).await.map_err(|error| error.to_string()) })
    }
}

/// What a run would do, on all chosen hosts. One round trip a host; changes nothing.
///
/// # Errors
/// [`FleetError`] where no host can be planned. What is wrong with one host stands in the plan.
pub async fn plan(session: &Session) -> Result<FleetPlan, FleetError> {
    let run = &Run::new(session)?;
    let reached = run.order(session.chosen.iter().filter(|name| session.connected.contains_key(*name)).cloned());
    let members: &Vec<&str> = &reached.iter().map(String::as_str).collect();
    let planned = each(reached.clone(), session.parallel, |name| async move { run.plan(&name, members).await }).await;
    let mut hosts: BTreeMap<_, _> = planned.into_iter().map(|(name, plan)| (name, plan.map_err(Arc::new))).collect();
    for name in &session.chosen {
        if let Some(error) = session.failed.get(name) {
            hosts.insert(name.clone(), Err(Arc::clone(error)));
        }
    }
    Ok(FleetPlan { hosts })
}

/// Makes the hosts what the plan says.
///
/// # Errors
/// [`FleetError`] where nothing can be done at all. What is wrong with one host stands in the outcome.
pub async fn apply(
    session: &Session,
    plan: FleetPlan,
    events: &Events,
    cancel: &Cancel,
) -> Result<FleetOutcome, FleetError> {
    let run = Run::new(session)?;
    let mut hosts = BTreeMap::new();
    let mut plans = BTreeMap::new();
    for (name, planned) in plan.hosts {
        match planned {
            Ok(plan) => drop(plans.insert(name, plan)),
            Err(error) => drop(hosts.insert(name, HostOutcome { changed: 0, end: HostEnd::Failed(error) })),
        }
    }
    let (gate, _) = watch::channel(run.gate(&plans, &hosts));
    let apply = &Apply { run: &run, plans: &plans, events, cancel, gate, join: OnceCell::new() };

    let names = run.order(plans.keys().cloned());
    let ended = each(names.clone(), session.parallel, |name| async move { Ok(apply.first(&name).await) }).await;
    hosts.extend(ended.into_iter().map(|(name, ended)| (name, ended.unwrap_or_else(failed))));

    let done = |hosts: &BTreeMap<String, HostOutcome>, name: &str| {
        hosts.get(name).is_some_and(|host| matches!(host.end, HostEnd::Done))
    };
    let members: Vec<&str> = names.iter().map(String::as_str).filter(|name| done(&hosts, name)).collect();
    // The control plane is the first of them: what users' playbooks do after it may count on it.
    for name in &members {
        let control_plane = run.control_plane.name.as_str();
        if plans.contains_key(control_plane) && *name != control_plane && !done(&hosts, control_plane) {
            continue;
        }
        let last = apply.last(name, &members).await;
        if let Some(host) = hosts.get_mut(*name) {
            host.changed += last.changed;
            host.end = last.end;
        }
    }
    let outcome = FleetOutcome { hosts };
    outcome.tell(events);
    Ok(outcome)
}

/// What a run knows before it looks at single hosts.
struct Run<'a> {
    session: &'a Session,
    control_plane: &'a Host,
    pod_networks: BTreeMap<String, IpNet>,
    standings: BTreeMap<String, Standing>,
}

impl<'a> Run<'a> {
    fn new(session: &'a Session) -> Result<Self, FleetError> {
        let control_plane = session.control_plane()?;
        let fleet = &session.fleet;
        let facts: BTreeMap<String, Facts> =
            session.connected.iter().map(|(name, host)| (name.clone(), host.facts.clone())).collect();
        let standings = judge(fleet, &facts);
        let pod_networks = match fleet.spec.network.cni {
            Cni::None => BTreeMap::new(),
            Cni::Routed => {
                let hosts: Vec<&str> = fleet.spec.hosts.iter().map(|host| host.name.as_str()).collect();
                let ours = facts.into_iter().filter(|(name, _)| standings.get(name) == Some(&Standing::Ours));
                let records = ours.map(|(name, facts)| (name, facts.hostspan.pod_networks)).collect();
                pod_networks::allocate(fleet.spec.network.pods, &hosts, &control_plane.name, &records)?
            }
        };
        Ok(Self { session, control_plane, pod_networks, standings })
    }

    /// The control plane first: others wait for it, and must not take the last free place of a run that is told to work on
    /// few hosts at once.
    fn order(&self, names: impl Iterator<Item = String>) -> Vec<String> {
        let mut names: Vec<String> = names.collect();
        names.sort_by_key(|name| *name != self.control_plane.name);
        names
    }

    /// The phases of a host, rendered. Those that have no steps for it are left out.
    fn steps(
        &self,
        host: &Host,
        facts: &Facts,
        join: Option<&Join>,
        members: &[&str],
        wanted: impl Fn(&Phase) -> bool,
    ) -> Result<Vec<PhaseSteps>, HostError> {
        let Session { fleet, store, book, .. } = self.session;
        let inputs = Inputs {
            fleet,
            control_plane: self.control_plane,
            pod_networks: &self.pod_networks,
            image_archives: !store.images(&facts.arch).is_empty(),
        };
        let variables = variables::of(&inputs, host, facts, join, members)
            .map_err(|error| HostError::Variables { host: host.name.clone(), error })?;
        let mut phases = Vec::new();
        for phase in self.session.phases.iter().filter(|phase| wanted(phase)) {
            let steps = book
                .steps(phase, fleet, host, &facts.arch, &variables, store)
                .map_err(|error| HostError::Steps { host: host.name.clone(), error })?;
            if !steps.steps.is_empty() {
                phases.push(steps);
            }
        }
        Ok(phases)
    }

    async fn plan(&self, name: &str, members: &[&str]) -> Result<HostPlan, HostError> {
        let (host, Connected { remote, facts }) = self.find(name)?;
        if let Some(Standing::Foreign(reason)) = self.standings.get(name) {
            return Err(HostError::Foreign { host: name.to_owned(), reason: reason.clone() });
        }
        let steps = self.steps(host, facts, None, members, |_| true)?;
        let seen = observe(remote.as_ref(), &steps).await?;
        let phases = steps.iter().map(|phase| decide(phase, &seen)).collect();
        Ok(HostPlan { phases, steps, seen })
    }

    fn find(&self, name: &str) -> Result<(&'a Host, &'a Connected), HostError> {
        match (self.session.host(name), self.session.connected.get(name)) {
            (Some(host), Some(connected)) => Ok((host, connected)),
            _ => Err(HostError::NotThere { host: name.to_owned() }),
        }
    }

    /// Where the control plane stands before anything was done.
    fn gate(&self, plans: &BTreeMap<String, HostPlan>, failed: &BTreeMap<String, HostOutcome>) -> Gate {
        let name = &self.control_plane.name;
        let runs = |connected: &Connected| connected.facts.hostspan.ca_sha256.is_some();
        if plans.contains_key(name) {
            Gate::Pending
        } else if failed.contains_key(name) || self.session.failed.contains_key(name) {
            Gate::Closed(format!("the control plane {name} failed"))
        } else if self.standings.get(name) == Some(&Standing::Ours)
            && self.session.connected.get(name).is_some_and(runs)
        {
            Gate::Open
        } else {
            Gate::Closed(format!("the control plane {name} is not there yet and not part of this run"))
        }
    }
}

/// Whether the control plane answers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Gate {
    /// It is being made.
    Pending,
    /// It does.
    Open,
    /// It will not in this run: why.
    Closed(String),
}

/// Closes the gate if it is still pending when the control plane's work ends, however that ends.
struct CloseGate<'a>(&'a watch::Sender<Gate>, String);

impl Drop for CloseGate<'_> {
    fn drop(&mut self) {
        self.0.send_if_modified(|gate| {
            let pending = *gate == Gate::Pending;
            if pending {
                *gate = Gate::Closed(format!("the control plane {} failed", self.1));
            }
            pending
        });
    }
}

/// Why a host's phases end early.
enum Early {
    Failed(HostError),
    Skipped(String),
}

impl<E: Into<HostError>> From<E> for Early {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

struct Apply<'a> {
    run: &'a Run<'a>,
    plans: &'a BTreeMap<String, HostPlan>,
    events: &'a Events,
    cancel: &'a Cancel,
    gate: watch::Sender<Gate>,
    join: OnceCell<Join>,
}

impl Apply<'_> {
    /// All phases but those that come after all hosts.
    async fn first(&self, name: &str) -> HostOutcome {
        let control_plane = (name == self.run.control_plane.name).then(|| CloseGate(&self.gate, name.to_owned()));
        self.on_host(name, async |host_run, changed| {
            let (host, connected) = self.run.find(name)?;
            let plan = self.plans.get(name);
            for phase in PHASES.iter().filter(|phase| phase.after != After::AllHosts) {
                if let Some((steps, phase_plan)) = plan.and_then(|plan| plan.to_do(phase.name)) {
                    if phase.after == After::ControlPlane && control_plane.is_none() {
                        self.control_plane(name).await?;
                    }
                    let joining;
                    let steps = if plan.is_some_and(|plan| plan.changes_step(JOIN_STEP)) && phase.name == "workers" {
                        let join = self.join(name).await?;
                        joining = self.run.steps(host, &connected.facts, Some(join), &[], |other| other == phase)?;
                        joining.first().unwrap_or(steps)
                    } else {
                        steps
                    };
                    let seen = plan.map(|plan| &plan.seen);
                    if let Some(seen) = seen {
                        *changed += host_run.run_phase(steps, phase_plan, seen).await?.changed;
                    }
                }
                if control_plane.is_some() && phase.name == "control-plane" {
                    self.gate.send_replace(Gate::Open);
                }
            }
            Ok(())
        })
        .await
    }

    /// The phases that come after all hosts. Where some of those failed, `members` are the others.
    async fn last(&self, name: &str, members: &[&str]) -> HostOutcome {
        self.on_host(name, async |host_run, changed| {
            let Some(plan) = self.plans.get(name) else { return Ok(()) };
            let (host, Connected { remote, facts }) = self.run.find(name)?;
            for phase in PHASES.iter().filter(|phase| phase.after == After::AllHosts) {
                if members.len() == self.plans.len() {
                    if let Some((steps, phase_plan)) = plan.to_do(phase.name) {
                        *changed += host_run.run_phase(steps, phase_plan, &plan.seen).await?.changed;
                    }
                    continue;
                }
                for steps in self.run.steps(host, facts, None, members, |other| other == phase)? {
                    let seen = observe(remote.as_ref(), std::slice::from_ref(&steps)).await?;
                    *changed += host_run.run_phase(&steps, &decide(&steps, &seen), &seen).await?.changed;
                }
            }
            Ok(())
        })
        .await
    }

    async fn on_host(
        &self,
        name: &str,
        work: impl AsyncFnOnce(&HostRun<'_>, &mut usize) -> Result<(), Early>,
    ) -> HostOutcome {
        let Some(connected) = self.run.session.connected.get(name) else {
            return failed(HostError::NotThere { host: name.to_owned() });
        };
        let store = &self.run.session.store;
        let host_run = HostRun::new(connected.remote.as_ref(), self.events, self.cancel, store);
        let mut changed = 0;
        let end = match host_run.hold(work(&host_run, &mut changed)).await {
            Ok(()) => HostEnd::Done,
            Err(Early::Failed(error)) => HostEnd::Failed(Arc::new(error)),
            Err(Early::Skipped(why)) => HostEnd::Skipped(why),
        };
        HostOutcome { changed, end }
    }

    /// Waits until the control plane answers.
    async fn control_plane(&self, host: &str) -> Result<(), Early> {
        let mut gate = self.gate.subscribe();
        let settled = tokio::select! {
            settled = gate.wait_for(|gate| *gate != Gate::Pending) => settled.map_or(Gate::Pending, |gate| gate.clone()),
            () = self.cancel.reached(Stop::AfterStep) => Gate::Pending,
        };
        match settled {
            Gate::Open => Ok(()),
            Gate::Closed(why) => Err(Early::Skipped(format!("{host} was left as it is for now: {why}"))),
            Gate::Pending => Err(EngineError::Interrupted {
                host: host.to_owned(),
                place: "while it waited for the control plane".into(),
            }
            .into()),
        }
    }

    /// One token for all hosts of a run, made when the first one asks.
    async fn join(&self, host: &str) -> Result<&Join, HostError> {
        let control_plane = self.run.control_plane.name.as_str();
        let (_, connected) = self.run.find(control_plane)?;
        self.join.get_or_try_init(|| join::token(connected.remote.as_ref())).await.map_err(|message| HostError::Token {
            host: host.to_owned(),
            control_plane: control_plane.to_owned(),
            message,
        })
    }
}

fn failed(error: HostError) -> HostOutcome {
    HostOutcome { changed: 0, end: HostEnd::Failed(Arc::new(error)) }
}
