//! Reads the stream of a change script: records become events, the rest is output of the running step.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use super::ReadyStep;
use super::error::{EngineError, StepFailure};
use super::redact::Redactor;
use crate::progress::{Event, Events, StepEnd};
use crate::ssh::{Finished, Line};

/// Lines of a step's output that an error shows.
const TAIL: usize = 30;

/// How a change script ended without a failure.
pub(super) enum Ended {
    /// Every step ran; this is what the probes after them printed.
    Done(String),
    /// It was asked to stop, before this step.
    Stopped(String),
    /// It did nothing but wait for an earlier script's end: look at the host again.
    Again,
}

/// Who holds a host's lock.
#[derive(Debug, Clone)]
pub(super) struct LockedBy {
    pub token: String,
    pub owner: String,
    pub since_seconds: u64,
}

struct Running {
    id: String,
    since: Instant,
    tail: VecDeque<String>,
    why: Option<String>,
}

impl Running {
    /// Why it failed: what the script says, else the last line that it printed.
    fn reason(&self, code: i32) -> String {
        self.why.clone().unwrap_or_else(|| match self.tail.back() {
            Some(last) => format!("{last} (status {code})"),
            None => format!("it ended with status {code}"),
        })
    }
}

/// Follows the scripts of one phase on one host.
pub(super) struct Reader<'a> {
    host: &'a str,
    phase: &'a str,
    events: &'a Events,
    redactor: &'a Redactor,
    mark: String,
    /// Id, title and expected milliseconds.
    steps: Vec<(String, String, u64)>,
    finished: BTreeSet<String>,
    running: Option<Running>,
    failed: Vec<(i32, Running)>,
    stopped: Option<String>,
    locked: Option<LockedBy>,
    again: bool,
    /// What came after the record `probe`.
    probed: Option<String>,
    /// Output outside of any step.
    stray: VecDeque<String>,
}

impl<'a> Reader<'a> {
    pub fn new(host: &'a str, phase: &'a str, events: &'a Events, redactor: &'a Redactor) -> Self {
        Self {
            host,
            phase,
            events,
            redactor,
            mark: String::new(),
            steps: Vec::new(),
            finished: BTreeSet::new(),
            running: None,
            failed: Vec::new(),
            stopped: None,
            locked: None,
            again: false,
            probed: None,
            stray: VecDeque::new(),
        }
    }

    /// Another script begins, with this mark before each of its records.
    pub fn start(&mut self, mark: String, steps: &[&ReadyStep]) {
        self.mark = mark;
        self.steps = steps
            .iter()
            .map(|step| (step.id.clone(), step.step.title.clone(), super::run::expected_ms(step)))
            .collect();
        (self.running, self.stopped, self.locked, self.probed) = (None, None, None, None);
        self.again = false;
        self.failed.clear();
        self.stray.clear();
    }

    /// Takes one line of the script.
    pub fn line(&mut self, line: Line<'_>) {
        let (Line::Out(text) | Line::Err(text)) = line;
        if let (Line::Out(text), Some(probed)) = (line, &mut self.probed) {
            probed.push_str(text);
            probed.push('\n');
            return;
        }
        // A step's last output may have no newline of its own before the record.
        match text.split_once(self.mark.as_str()) {
            Some((output, record)) => {
                if !output.is_empty() {
                    self.output(output);
                }
                let record = record.to_owned();
                self.record(&record);
            }
            None => self.output(text),
        }
    }

    fn output(&mut self, text: &str) {
        let line = self.redactor.clean(text);
        let tail = match &mut self.running {
            Some(running) => {
                self.events.send(Event::StepOutput {
                    host: self.host.into(),
                    step: running.id.clone(),
                    line: line.clone(),
                });
                &mut running.tail
            }
            None => &mut self.stray,
        };
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(line);
    }

    fn record(&mut self, record: &str) {
        let mut fields = record.split('\t');
        let kind = fields.next().unwrap_or_default();
        let mut next = || fields.next().unwrap_or_default().to_owned();
        match kind {
            "begin" => {
                let (id, title) = (next(), next());
                self.begin(id, &title);
            }
            "why" => {
                let why = self.redactor.clean(&next());
                if let Some(running) = &mut self.running {
                    running.why = Some(why);
                } else {
                    self.stray.push_back(why);
                }
            }
            "end" => {
                let (id, code) = (next(), next());
                self.end(&id, code.parse().unwrap_or(-1));
            }
            "stopped" => self.stopped = Some(next()),
            "probe" => self.probed = Some(String::new()),
            "locked" => {
                let (token, owner, since) = (next(), next(), next());
                self.locked = Some(LockedBy { token, owner, since_seconds: since.parse().unwrap_or_default() });
            }
            "took-over" => {
                let (owner, age) = (next(), next());
                self.warn(format!("took over the lock of {owner}, which has been silent for {age} s"));
            }
            "again" => self.again = true,
            "waiting" => self.warn("an earlier run's step is still running here; waiting for its end".into()),
            "warning" => {
                let message = next();
                self.warn(message);
            }
            _ => {}
        }
    }

    fn warn(&self, message: String) {
        self.events.send(Event::Warning { host: Some(self.host.into()), message });
    }

    fn begin(&mut self, id: String, title: &str) {
        let (title, expected_ms) = self
            .steps
            .iter()
            .find(|(known, ..)| *known == id)
            .map_or_else(|| (title.to_owned(), 1000), |(_, title, expected_ms)| (title.clone(), *expected_ms));
        self.events.send(Event::StepStarted {
            host: self.host.into(),
            phase: self.phase.into(),
            step: id.clone(),
            title,
            expected_ms,
        });
        self.running = Some(Running { id, since: Instant::now(), tail: VecDeque::new(), why: None });
    }

    fn end(&mut self, id: &str, code: i32) {
        let Some(running) = self.running.take() else { return };
        if code == 0 {
            self.finished(id, StepEnd::Changed, took_ms(&running), None);
            self.finished.insert(id.into());
        } else {
            self.failed.push((code, running));
        }
    }

    fn finished(&self, step: &str, end: StepEnd, took_ms: u64, message: Option<String>) {
        let (host, phase, step) = (self.host.into(), self.phase.into(), step.into());
        self.events.send(Event::StepFinished { host, phase, step, end, took_ms, message });
    }

    /// The step that runs now.
    pub fn running(&self) -> Option<&str> {
        self.running.as_ref().map(|running| running.id.as_str())
    }

    /// Who holds the lock, where that stopped the script.
    pub fn locked(&mut self) -> Option<LockedBy> {
        self.locked.take()
    }

    /// After a lost link: steps that are no longer among `left` were made before it was lost, or during it.
    pub fn settle(&mut self, left: &[&ReadyStep]) {
        self.running = None;
        let unseen: Vec<String> = self
            .steps
            .iter()
            .map(|(id, ..)| id.clone())
            .filter(|id| !self.finished.contains(id) && !left.iter().any(|step| step.id == *id))
            .collect();
        for id in unseen {
            self.finished(&id, StepEnd::Changed, 0, None);
            self.finished.insert(id);
        }
    }

    /// How a script that ran to its end fared.
    pub fn ended(&mut self, finished: &Finished) -> Result<Ended, EngineError> {
        if let Some((code, running)) = self.failed.pop() {
            let (id, why) = (running.id.clone(), running.reason(code));
            let title = self.title(&id);
            self.running = Some(running);
            return Err(self.failure(&id, &title, why));
        }
        if let Some(step) = self.stopped.take() {
            return Ok(Ended::Stopped(step));
        }
        match self.probed.take() {
            None if self.again => Ok(Ended::Again),
            Some(text) if finished.code == 0 => Ok(Ended::Done(text)),
            _ => Err(EngineError::Script {
                host: self.host.into(),
                phase: self.phase.into(),
                code: finished.code,
                output: self.stray.make_contiguous().join("\n"),
            }),
        }
    }

    /// What failed so far, one sentence each; for a script that goes on after a failure. Tells of each one once.
    pub fn failures(&mut self) -> Vec<String> {
        let failed = std::mem::take(&mut self.failed);
        let mut sentences = Vec::new();
        for (code, running) in failed {
            let why = running.reason(code);
            sentences.push(format!("{}: {why}", running.id));
            self.finished(&running.id, StepEnd::Failed, took_ms(&running), Some(why));
        }
        sentences
    }

    /// How many steps ended well so far.
    pub fn succeeded(&self) -> usize {
        self.finished.len()
    }

    fn title(&self, id: &str) -> String {
        self.steps.iter().find(|(known, ..)| known == id).map_or_else(|| id.into(), |(_, title, _)| title.clone())
    }

    /// The failure of a step, with the end of what it printed.
    pub fn failure(&mut self, id: &str, title: &str, why: String) -> EngineError {
        let running = self.running.take();
        let took = running.as_ref().map_or(0, took_ms);
        let mut tail = running.map(|running| running.tail).unwrap_or_default();
        let output = tail.make_contiguous().join("\n");
        let message = if output.is_empty() { why.clone() } else { format!("{why}\n{output}") };
        self.finished(id, StepEnd::Failed, took, Some(message));
        self.finished.insert(id.into());
        EngineError::Step(Box::new(StepFailure {
            host: self.host.into(),
            phase: self.phase.into(),
            step: id.into(),
            title: title.into(),
            why,
            output,
        }))
    }

    /// The run ends here: a step that was at work has failed, the others were not tried.
    pub fn give_up(&mut self, steps: &[&ReadyStep], error: &EngineError) {
        if let Some(running) = self.running.take() {
            self.finished(&running.id, StepEnd::Failed, took_ms(&running), Some(error.to_string()));
            self.finished.insert(running.id);
        }
        for step in steps.iter().filter(|step| !self.finished.contains(&step.id)) {
            self.finished(&step.id, StepEnd::Skipped, 0, None);
        }
    }
}

fn took_ms(running: &Running) -> u64 {
    u64::try_from(running.since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
