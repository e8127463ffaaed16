//! What can go wrong on a host, with what to do next.

use crate::ssh::RemoteError;

/// Why the engine's work on a host ended early. Output in it has its secrets already taken out.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The host could not be talked to.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The probes did not give a whole answer.
    #[error("{host}: the host could not be probed: {message}")]
    Probe {
        /// The host's name in the fleet file.
        host: String,
        /// What was missing.
        message: String,
    },
    /// A step failed. What came before it stays made, what came after it was not tried.
    #[error(transparent)]
    Step(Box<StepFailure>),
    /// An artifact that a step needs could not be had on this machine.
    #[error("{host}: {artifact}, which the step {step} needs, could not be fetched: {message}")]
    Artifact {
        /// The host's name in the fleet file.
        host: String,
        /// The step's id.
        step: String,
        /// The artifact's name.
        artifact: String,
        /// Why.
        message: String,
    },
    /// Another run is at work on this host.
    #[error("{host}: {owner} has been changing this host for {since_seconds} s")]
    Locked {
        /// The host's name in the fleet file.
        host: String,
        /// Who: user, machine and process.
        owner: String,
        /// For how long.
        since_seconds: u64,
    },
    /// The run's own lock was taken over by somebody else, who thought it abandoned.
    #[error("{host}: stopped, since another run took this host over after this one had been silent for a minute")]
    LockLost {
        /// The host's name in the fleet file.
        host: String,
    },
    /// The change script ended outside of any step.
    #[error("{host}: the change script of phase {phase} ended with status {code}: {output}")]
    Script {
        /// The host's name in the fleet file.
        host: String,
        /// The phase.
        phase: String,
        /// Its exit status.
        code: i32,
        /// The end of what it printed.
        output: String,
    },
    /// Stopped by Ctrl-C.
    #[error("{host}: stopped {place}")]
    Interrupted {
        /// The host's name in the fleet file.
        host: String,
        /// `before the step X` or `while the step X was running`.
        place: String,
    },
    /// Some of the journal could not be taken back; it is kept, so that `reset` can be tried again.
    #[error("{host}: {} not restored: {}", failures.len(), failures.join("; "))]
    Undo {
        /// The host's name in the fleet file.
        host: String,
        /// What and why, one a line.
        failures: Vec<String>,
    },
    /// A bug in hostspan; the other hosts went on.
    #[error("{host}: hostspan itself failed: {message}")]
    Panicked {
        /// The host's name in the fleet file.
        host: String,
        /// What the panic said.
        message: String,
    },
}

/// A failed step.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{host}: \"{title}\" ({step}) failed: {why}")]
pub struct StepFailure {
    /// The host's name in the fleet file.
    pub host: String,
    /// The phase.
    pub phase: String,
    /// The step's id.
    pub step: String,
    /// The step's title.
    pub title: String,
    /// One sentence.
    pub why: String,
    /// The end of what it printed.
    pub output: String,
}

impl EngineError {
    /// The end of what the failing step printed; empty where it printed nothing.
    pub fn output(&self) -> &str {
        match self {
            Self::Step(failure) => &failure.output,
            _ => "",
        }
    }

    /// What to do next.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Remote(error) => error.help.clone(),
            Self::Probe { host, .. } => Some(format!("look at {host} by hand; nothing was changed there")),
            Self::Step(failure) => Some(format!(
                "mend the cause and run the same command again: what is made already is left alone, and the run goes \
                 on at {}",
                failure.step
            )),
            Self::Artifact { .. } => {
                Some("check `artifacts` in the fleet file, then run the same command again".into())
            }
            Self::Locked { owner, .. } => {
                Some(format!("wait for it, or stop it ({owner}); its lock can be taken over 60 s after it has gone"))
            }
            Self::LockLost { .. } | Self::Interrupted { .. } => {
                Some("run the same command again: it goes on where this one stopped".into())
            }
            Self::Script { .. } => Some("run the same command again with -v to see the host's own messages".into()),
            Self::Undo { .. } => {
                Some("mend the causes and run `hostspan reset` again: it only does what is left".into())
            }
            Self::Panicked { .. } => Some("please report this with the output of the same command and -v".into()),
        }
    }
}

/// A panic inside the work on one host, contained by [`each`](super::fanout::each).
#[derive(Debug, Clone)]
pub struct HostPanic {
    /// The host's name in the fleet file.
    pub host: String,
    /// What the panic said.
    pub message: String,
}

impl From<HostPanic> for EngineError {
    fn from(HostPanic { host, message }: HostPanic) -> Self {
        Self::Panicked { host, message }
    }
}
