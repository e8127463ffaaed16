//! One gate for every change on a host: plan it, run it, journal it, take it back.
//!
//! ```text
//! Playbook + variables --render--> PhaseSteps --probe script--> Observed --decide (pure)--> PhasePlan
//!                                                                                   |
//!                                     journal on the host <-- change script <--run--+
//! ```
//!
//! Non-goals: knowing what Kubernetes is, ordering phases (`cluster` does), talking SSH (`ssh` does).

mod cancel;
mod change;
mod decide;
mod error;
mod fanout;
mod fstab;
mod lock;
mod observed;
mod probe;
mod quote;
mod redact;
mod reset;
mod run;
#[cfg(test)]
mod sandbox;
mod stream;
#[cfg(test)]
mod tests;
mod wanted;

pub use cancel::{Cancel, Canceller, Stop};
pub use decide::decide;
pub use error::{EngineError, HostPanic, StepFailure};
pub use fanout::each;
pub use observed::Observed;
pub use reset::{undo, undo_plan};
pub use run::{Fetch, HostRun, PhaseOutcome, observe};

use hostspan_playbooks::model::Step;
use serde::Serialize;

use crate::artifacts::ArtifactRef;

/// A phase of one host, rendered: no template expression is left in it.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseSteps {
    /// The phase's name.
    pub phase: String,
    /// Its steps, in order. Ids are unique within the host's whole run: `playbook/step`.
    pub steps: Vec<ReadyStep>,
}

/// A step that is ready to be probed and run.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyStep {
    /// `playbook/step`.
    pub id: String,
    /// The step itself, rendered. `file.template` has become `file.content`; `afterChangeOf` holds full ids.
    pub step: Step,
    /// What an artifact step's name stands for.
    pub artifact: Option<ArtifactRef>,
}

/// What a run of one phase on one host would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhasePlan {
    /// The phase.
    pub phase: String,
    /// Every step, also those with nothing to do.
    pub steps: Vec<StepPlan>,
}

/// What a run would do about one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepPlan {
    /// `playbook/step`.
    pub id: String,
    /// The step's title.
    pub title: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The verdict of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// As wanted.
    Ok,
    /// Would be changed.
    Change {
        /// One line each: `+ create /etc/x (0644 root:root)`, `~ net.ipv4.ip_forward: 0 -> 1`, `- mask swap.img.swap`.
        summary: Vec<String>,
        /// A unified diff, for a text file that exists and is not secret.
        #[serde(skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
    },
}
