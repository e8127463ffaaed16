//! What a run tells while it goes on.

use serde::Serialize;
use tokio::sync::mpsc;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepEnd {
    /// It was made as wanted.
    Changed,
    /// It failed.
    Failed,
    /// It was not tried, since something before it failed.
    Skipped,
}

/// One thing that happened. Serialised as one JSON line with a `type` key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Event {
    /// A host is part of this run.
    HostJoined {
        /// Its name in the fleet file.
        host: String,
    },
    /// A host's connection stands.
    Connected {
        /// The host.
        host: String,
    },
    /// What a host's phase is going to do; sent before its first step.
    Planned {
        /// The host.
        host: String,
        /// The phase's name.
        phase: String,
        /// How many steps will run.
        steps: usize,
        /// How long they should take together, from the playbook's own estimates.
        expected_ms: u64,
    },
    /// A step began.
    StepStarted {
        /// The host.
        host: String,
        /// The phase.
        phase: String,
        /// The step's id.
        step: String,
        /// The step's title, for people.
        title: String,
        /// How long it should take.
        expected_ms: u64,
    },
    /// A line that a step printed.
    StepOutput {
        /// The host.
        host: String,
        /// The step's id.
        step: String,
        /// The line, secrets already taken out.
        line: String,
    },
    /// Bytes of a download or upload.
    Bytes {
        /// The host, or `local` for downloads and builds on this machine.
        host: String,
        /// What is moved.
        what: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in all, where known.
        total: Option<u64>,
    },
    /// A step ended.
    StepFinished {
        /// The host.
        host: String,
        /// The phase.
        phase: String,
        /// The step's id.
        step: String,
        /// How.
        end: StepEnd,
        /// How long it took.
        took_ms: u64,
        /// Why it failed, with the end of its output.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A host has nothing more to do in this run.
    HostFinished {
        /// The host.
        host: String,
        /// Whether all of it went well.
        ok: bool,
        /// One sentence: "unchanged", "12 changes", or what failed.
        summary: String,
    },
    /// Something that a person should know, and that stops nothing.
    Warning {
        /// The host it is about, if any.
        host: Option<String>,
        /// One sentence.
        message: String,
    },
    /// Where the whole run is, for work that is on no host (building components, waiting for nodes).
    Stage {
        /// A stable name.
        name: String,
        /// For people.
        title: String,
        /// Where it stands, if it can be counted.
        done: Option<u64>,
        /// Of how many.
        total: Option<u64>,
    },
}

/// Where events go. Cheap to clone; `Events::none()` swallows them, so that tests need no display.
#[derive(Debug, Clone)]
pub struct Events(Option<mpsc::UnboundedSender<Event>>);

impl Events {
    /// A pair of ends.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (tx, rx) = mpsc::unbounded_channel();
        (Self(Some(tx)), rx)
    }

    /// Swallows everything.
    pub fn none() -> Self {
        Self(None)
    }

    /// Sends an event. A display that is gone is not an error of the work.
    pub fn send(&self, event: Event) {
        if let Some(tx) = &self.0 {
            drop(tx.send(event));
        }
    }
}
