//! Observing a host and running a phase on it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use hostspan_manifests::names;
use hostspan_playbooks::model::Action;

use super::cancel::{Cancel, Stop};
use super::lock::{self, Identity};
use super::observed::Observed;
use super::redact::Redactor;
use super::stream::{Ended, Reader};
use super::{EngineError, PhasePlan, PhaseSteps, ReadyStep, Verdict, change, decide, probe};
use crate::artifacts::ArtifactRef;
use crate::progress::{Event, Events};
use crate::ssh::{Remote, RemoteError, RemoteErrorKind, Request, Upload};

/// Probes are a part of every plan, so a check that takes longer than this is a fault of its playbook.
const PROBE_TIMEOUT: Duration = Duration::from_mins(2);
/// For the small scripts about the lock.
const SHORT: Duration = Duration::from_secs(30);
/// For giving a host free after the second Ctrl-C.
const IMPATIENT: Duration = Duration::from_secs(2);
/// How often a run says that it is alive; its lock counts as abandoned after 60 s of silence.
const BEAT: Duration = Duration::from_secs(20);
/// How often the host is looked at again in one phase before something else must be wrong.
const ROUNDS: usize = 12;
/// Waits before each new connection after a lost link.
const RECONNECT_AFTER: [Duration; 6] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
];

/// Gives artifacts as files on this machine.
pub trait Fetch: Send + Sync {
    /// The file of `artifact`, its digest verified.
    ///
    /// # Errors
    /// One sentence on why it could not be had.
    fn fetch<'a>(&'a self, artifact: &'a ArtifactRef, events: &'a Events) -> BoxFuture<'a, Result<PathBuf, String>>;
}

/// What became of a phase on one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseOutcome {
    /// How many steps changed something.
    pub changed: usize,
}

/// Asks a host, in one round trip, everything that the steps of all `phases` want to know. Changes nothing.
///
/// # Errors
/// [`EngineError::Remote`] or [`EngineError::Probe`].
pub async fn observe(remote: &dyn Remote, phases: &[PhaseSteps]) -> Result<Observed, EngineError> {
    let script = probe::compile(phases);
    let failed = |message| EngineError::Probe { host: remote.host().into(), message };
    let mut text = String::new();
    let mut on_line = |line: crate::ssh::Line<'_>| {
        if let crate::ssh::Line::Out(line) = line {
            text.push_str(line);
            text.push('\n');
        }
    };
    let request = Request { script: &script, root: true, timeout: PROBE_TIMEOUT };
    let finished = match remote.run(request, &mut on_line).await {
        Ok(finished) => finished,
        Err(error) if error.kind == RemoteErrorKind::TimedOut => {
            let gap = Observed::read(&text).0.gap(phases);
            let gap = gap.unwrap_or_else(|| "the host is too slow to answer".into());
            return Err(failed(format!("no end within {} s: {gap}", PROBE_TIMEOUT.as_secs())));
        }
        Err(error) => return Err(error.into()),
    };
    let seen = Observed::parse(&text).map_err(|message| failed(format!("{message} {}", finished.stderr.trim())))?;
    match seen.gap(phases) {
        Some(gap) => Err(failed(gap)),
        None => Ok(seen),
    }
}

/// One run on one host: the phases of a host go through one of these, under one lock.
pub struct HostRun<'a> {
    pub(super) remote: &'a dyn Remote,
    pub(super) events: &'a Events,
    cancel: &'a Cancel,
    artifacts: &'a dyn Fetch,
    pub(super) identity: Identity,
    dead: Mutex<String>,
    held: AtomicBool,
}

impl<'a> HostRun<'a> {
    /// A run that has not touched the host yet.
    pub fn new(remote: &'a dyn Remote, events: &'a Events, cancel: &'a Cancel, artifacts: &'a dyn Fetch) -> Self {
        Self {
            remote,
            events,
            cancel,
            artifacts,
            identity: Identity::new(),
            dead: Mutex::default(),
            held: AtomicBool::new(false),
        }
    }

    /// Does `work`, which calls [`HostRun::run_phase`], and then releases the host's lock if that took it, also where
    /// `work` failed. Between the phases (a wait for another host) the lock is kept alive.
    pub async fn hold<T>(&self, work: impl Future<Output = T>) -> T {
        let outcome = tokio::select! {
            outcome = work => outcome,
            never = self.beat() => match never {},
        };
        self.release().await;
        outcome
    }

    /// Makes the host as `phase` wants it where `plan`, decided from `seen`, says that it differs. A lost link is taken
    /// up again: what is left to do is decided anew.
    ///
    /// # Errors
    /// [`EngineError`]; what was made before it stays made.
    pub async fn run_phase(
        &self,
        phase: &PhaseSteps,
        plan: &PhasePlan,
        seen: &Observed,
    ) -> Result<PhaseOutcome, EngineError> {
        let mut steps = change::changing(phase, plan);
        let planned: BTreeSet<&str> = steps.iter().map(|step| step.id.as_str()).collect();
        if steps.is_empty() {
            return Ok(PhaseOutcome::default());
        }
        self.events.send(Event::Planned {
            host: self.host(),
            phase: phase.phase.clone(),
            steps: steps.len(),
            expected_ms: steps.iter().map(|step| expected_ms(step)).sum(),
        });
        let redactor = Redactor::new(phase);
        let mut reader = Reader::new(self.remote.host(), &phase.phase, self.events, &redactor);
        let mut seen = std::borrow::Cow::Borrowed(seen);
        let (mut losses, mut rounds) = (0, 0);
        while !steps.is_empty() {
            rounds += 1;
            match self.attempt(phase, &steps, &seen, &mut reader).await {
                Ok(Ended::Done(text)) => {
                    self.second_look(phase, &steps, &text, &mut reader)
                        .inspect_err(|error| reader.give_up(&steps, error))?;
                    break;
                }
                Ok(Ended::Stopped(step)) => return Err(self.interrupted(format!("before the step {step}"))),
                Ok(Ended::Again) if rounds < ROUNDS => {}
                Ok(Ended::Again) => return Err(EngineError::LockLost { host: self.host() }),
                Err(EngineError::Remote(lost)) if can_continue(&lost) && losses < RECONNECT_AFTER.len() => {
                    self.reconnect(&lost, &mut losses).await?;
                }
                Err(error) => {
                    reader.give_up(&steps, &error);
                    return Err(error);
                }
            }
            let now = observe(self.remote, std::slice::from_ref(phase)).await?;
            steps = change::changing(phase, &decide::decide(phase, &now));
            reader.settle(&steps);
            seen = std::borrow::Cow::Owned(now);
        }
        Ok(PhaseOutcome { changed: planned.len() })
    }

    /// One change script, with the uploads before it.
    async fn attempt(
        &self,
        phase: &PhaseSteps,
        steps: &[&ReadyStep],
        seen: &Observed,
        reader: &mut Reader<'_>,
    ) -> Result<Ended, EngineError> {
        self.stop_before(steps)?;
        for step in steps {
            self.bring(step).await?;
        }
        self.stop_before(steps)?;
        self.under_lock(change::timeout(steps), reader, steps, |run| change::compile(run, phase, steps, seen)).await
    }

    /// Runs a script that takes the lock, once more where the lock's owner turns out to be dead.
    pub(super) async fn under_lock(
        &self,
        timeout: Duration,
        reader: &mut Reader<'_>,
        steps: &[&ReadyStep],
        script: impl Fn(&change::Run<'_>) -> String,
    ) -> Result<Ended, EngineError> {
        loop {
            let dead = self.dead.lock().map(|dead| dead.clone()).unwrap_or_default();
            let mark = format!("@{:016x} ", rand::random::<u64>());
            let Identity { token, owner } = &self.identity;
            let text = script(&change::Run { mark: &mark, token, owner, dead: &dead });
            reader.start(mark, steps);
            let request = Request { script: &text, root: true, timeout };
            // Said before it is true: a script that is killed in between leaves a lock that is to be released as well.
            let held_before = self.held.swap(true, Ordering::Relaxed);
            let finished = {
                let mut on_line = |line: crate::ssh::Line<'_>| reader.line(line);
                let work = self.remote.run(request, &mut on_line);
                tokio::select! {
                    finished = work => Some(finished?),
                    () = self.stop_requested() => None,
                }
            };
            let Some(finished) = finished else {
                let place =
                    reader.running().map_or("at once".into(), |step| format!("while the step {step} was running"));
                return Err(self.interrupted(place));
            };
            if let Some(by) = reader.locked() {
                self.held.store(false, Ordering::Relaxed);
                if held_before {
                    return Err(EngineError::LockLost { host: self.host() });
                }
                if lock::is_dead(&by.token)
                    && by.token != dead
                    && let Ok(mut dead) = self.dead.lock()
                {
                    *dead = by.token;
                    continue;
                }
                let (owner, since_seconds) = (by.owner, by.since_seconds);
                return Err(EngineError::Locked { host: self.host(), owner, since_seconds });
            }
            return reader.ended(&finished);
        }
    }

    /// A step that still differs after its change has failed, whatever its exit status said.
    fn second_look(
        &self,
        phase: &PhaseSteps,
        steps: &[&ReadyStep],
        text: &str,
        reader: &mut Reader<'_>,
    ) -> Result<(), EngineError> {
        let changed =
            PhaseSteps { phase: phase.phase.clone(), steps: steps.iter().map(|step| (*step).clone()).collect() };
        let failed = |message| EngineError::Probe { host: self.host(), message };
        let seen = Observed::parse(text).map_err(failed)?;
        if let Some(gap) = seen.gap(std::slice::from_ref(&changed)) {
            return Err(failed(gap));
        }
        // Each one by itself: that another step differs is no reason for this one to run again.
        for step in changed.steps {
            let alone = PhaseSteps { phase: phase.phase.clone(), steps: vec![step] };
            let plan = decide::decide(&alone, &seen);
            if let (Some(step), Some(Verdict::Change { summary, .. })) =
                (alone.steps.first(), plan.steps.first().map(|step| &step.verdict))
            {
                let why = format!("it ran, but the host still differs: {}", summary.join("; "));
                return Err(reader.failure(&step.id, &step.step.title, why));
            }
        }
        Ok(())
    }

    /// Uploads what a step installs.
    async fn bring(&self, step: &ReadyStep) -> Result<(), EngineError> {
        let (Action::Artifact(_), Some(artifact)) = (&step.step.action, &step.artifact) else { return Ok(()) };
        let failed = |message| EngineError::Artifact {
            host: self.host(),
            step: step.id.clone(),
            artifact: artifact.name.clone(),
            message,
        };
        let local = self.artifacts.fetch(artifact, self.events).await.map_err(failed)?;
        let to = format!("{}/{}", names::CACHE_DIR, artifact.sha256);
        let upload = Upload { local: &local, sha256: &artifact.sha256, to: &to };
        let on_bytes = |done| {
            self.events.send(Event::Bytes {
                host: self.host(),
                what: artifact.name.clone(),
                done,
                total: artifact.size,
            });
        };
        let work = self.remote.upload(upload, &on_bytes);
        tokio::select! {
            sent = work => sent.map(drop).map_err(EngineError::Remote),
            () = self.cancel.reached(Stop::AfterStep) => Err(self.interrupted(format!("while {} was sent", artifact.name))),
        }
    }

    async fn reconnect(&self, lost: &RemoteError, losses: &mut usize) -> Result<(), EngineError> {
        self.events
            .send(Event::Warning { host: Some(self.host()), message: format!("{}; connecting again", lost.message) });
        loop {
            let Some(wait) = RECONNECT_AFTER.get(*losses) else {
                let help = "once the host answers again, run the same command again: it goes on where this one stopped";
                return Err(lost.clone().with_help(help).into());
            };
            *losses += 1;
            tokio::select! {
                () = tokio::time::sleep(*wait) => {}
                () = self.cancel.reached(Stop::AfterStep) => return Err(self.interrupted("while the link was lost".into())),
            }
            match self.remote.reconnect().await {
                Ok(()) => return Ok(()),
                Err(error) if error.kind.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Resolves when even the running step is not to be waited for. On its way there it tells the host's script to stop
    /// after the running step.
    async fn stop_requested(&self) {
        self.cancel.reached(Stop::AfterStep).await;
        let script = format!(": >{}/stop", names::RUN_DIR);
        let ask = async { drop(self.short(&script).await) };
        tokio::join!(ask, self.cancel.reached(Stop::AtOnce));
    }

    fn stop_before(&self, steps: &[&ReadyStep]) -> Result<(), EngineError> {
        match (self.cancel.stop(), steps.first()) {
            (Stop::No, _) | (_, None) => Ok(()),
            (_, Some(step)) => Err(self.interrupted(format!("before the step {}", step.id))),
        }
    }

    async fn beat(&self) -> Infallible {
        loop {
            tokio::time::sleep(BEAT).await;
            if self.held.load(Ordering::Relaxed) {
                drop(self.short(&format!("touch -c {}/lock", names::RUN_DIR)).await);
            }
        }
    }

    /// Gives the host free. That this fails is no failure of the run: the lock goes stale by itself.
    async fn release(&self) {
        if self.held.swap(false, Ordering::Relaxed) {
            let Identity { token, owner } = &self.identity;
            let prologue = change::prologue(&change::Run { mark: "", token, owner, dead: "" });
            let script = format!("{prologue}release_lock\n");
            let patience = if self.cancel.stop() == Stop::AtOnce { IMPATIENT } else { SHORT };
            drop(tokio::time::timeout(patience, self.short(&script)).await);
        }
    }

    async fn short(&self, script: &str) -> Result<(), RemoteError> {
        self.remote.run(Request { script, root: true, timeout: SHORT }, &mut |_| ()).await.map(drop)
    }

    pub(super) fn host(&self) -> String {
        self.remote.host().to_owned()
    }

    fn interrupted(&self, place: String) -> EngineError {
        EngineError::Interrupted { host: self.host(), place }
    }
}

/// Whether the work may still be going on, or can be taken up where it stopped.
fn can_continue(error: &RemoteError) -> bool {
    matches!(error.kind, RemoteErrorKind::LinkLost | RemoteErrorKind::Unreachable)
}

/// What the playbook says, or a second.
pub(super) fn expected_ms(step: &ReadyStep) -> u64 {
    step.step.takes.map_or(1000, |seconds| u64::from(seconds) * 1000)
}
