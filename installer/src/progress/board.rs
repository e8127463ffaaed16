//! The state of a run as the events tell it; both displays for people read it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::estimate::Work;
use super::{Event, StepEnd};

/// Rates are measured over this long.
const RATE_WINDOW: Duration = Duration::from_secs(3);

/// Everything that is going on.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// Hosts in the order in which they joined; `local` is this machine.
    pub hosts: Vec<HostRow>,
    /// Stages by the order in which they began.
    pub stages: Vec<StageRow>,
}

/// One host.
#[derive(Debug)]
pub(super) struct HostRow {
    pub name: String,
    pub since: Instant,
    pub connected: bool,
    pub phase: String,
    pub step: Option<RunningStep>,
    pub steps_planned: usize,
    pub steps_ended: usize,
    pub transfers: BTreeMap<String, Transfer>,
    /// How long it took, once it has nothing more to do.
    pub took: Option<Duration>,
    work: Work,
}

/// The step that a host runs now.
#[derive(Debug)]
pub(super) struct RunningStep {
    pub title: String,
    pub since: Instant,
    expected_ms: u64,
}

/// Bytes on their way.
#[derive(Debug)]
pub(super) struct Transfer {
    pub done: u64,
    pub total: Option<u64>,
    samples: VecDeque<(Instant, u64)>,
}

/// A stage of the whole run.
#[derive(Debug)]
pub(super) struct StageRow {
    pub name: String,
    pub title: String,
    pub done: Option<u64>,
    pub total: Option<u64>,
    pub since: Instant,
}

impl Board {
    /// Takes an event in.
    pub fn apply(&mut self, event: &Event, now: Instant) {
        match event {
            Event::HostJoined { host } => {
                self.host(host, now);
            }
            Event::Connected { host } => self.host(host, now).connected = true,
            Event::Planned { host, phase: _, steps, expected_ms } => {
                let row = self.host(host, now);
                row.steps_planned += steps;
                row.work.planned += expected_ms;
            }
            Event::StepStarted { host, phase, step: _, title, expected_ms } => {
                let row = self.host(host, now);
                row.phase.clone_from(phase);
                row.step = Some(RunningStep { title: title.clone(), since: now, expected_ms: *expected_ms });
            }
            Event::StepFinished { host, phase, step: _, end, took_ms, message: _ } => {
                let row = self.host(host, now);
                row.phase.clone_from(phase);
                row.steps_ended += 1;
                row.transfers.clear();
                if let Some(step) = row.step.take() {
                    row.work.ended += step.expected_ms;
                    if *end != StepEnd::Skipped {
                        row.work.ended_took += took_ms;
                    }
                }
            }
            Event::Bytes { host, what, done, total } => {
                let transfers = &mut self.host(host, now).transfers;
                if *total == Some(*done) {
                    transfers.remove(what);
                } else {
                    transfers.entry(what.clone()).or_insert_with(Transfer::new).update(*done, *total, now);
                }
            }
            Event::HostFinished { host, .. } => {
                let row = self.host(host, now);
                row.step = None;
                row.transfers.clear();
                row.took = Some(now.saturating_duration_since(row.since));
            }
            Event::Stage { name, title, done, total } => self.stage(name, title, *done, *total, now),
            Event::StepOutput { .. } | Event::Warning { .. } => {}
        }
    }

    /// The title of the step that `event` ends, to be asked before the event is taken in.
    pub fn title_of(&self, event: &Event) -> Option<String> {
        let Event::StepFinished { host, .. } = event else { return None };
        let row = self.hosts.iter().find(|h| &h.name == host)?;
        row.step.as_ref().map(|step| step.title.clone())
    }

    /// The time that is left: hosts work side by side, so it is the slowest one's. `None` before anything was planned.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        self.hosts.iter().filter_map(|h| h.remaining(now)).max()
    }

    /// The stage that began last.
    pub fn current_stage(&self) -> Option<&StageRow> {
        self.stages.last()
    }

    fn host(&mut self, name: &str, now: Instant) -> &mut HostRow {
        let at = self.hosts.iter().position(|h| h.name == name).unwrap_or_else(|| {
            self.hosts.push(HostRow::new(name, now));
            self.hosts.len() - 1
        });
        &mut self.hosts[at]
    }

    fn stage(&mut self, name: &str, title: &str, done: Option<u64>, total: Option<u64>, now: Instant) {
        if let Some(row) = self.stages.iter_mut().find(|s| s.name == name) {
            title.clone_into(&mut row.title);
            (row.done, row.total) = (done, total);
        } else {
            self.stages.push(StageRow { name: name.into(), title: title.into(), done, total, since: now });
        }
    }
}

impl HostRow {
    fn new(name: &str, now: Instant) -> Self {
        Self {
            name: name.into(),
            since: now,
            connected: false,
            phase: String::new(),
            step: None,
            steps_planned: 0,
            steps_ended: 0,
            transfers: BTreeMap::new(),
            took: None,
            work: Work::default(),
        }
    }

    /// Its work as the forecast wants it.
    pub fn work(&self, now: Instant) -> Work {
        let mut work = self.work;
        if let Some(step) = &self.step {
            work.running = step.expected_ms;
            work.running_for = millis(now.saturating_duration_since(step.since));
        }
        work
    }

    /// The time that is left on this host; `None` where nothing is planned or all is over.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        (self.steps_planned > 0 && self.took.is_none()).then(|| self.work(now).remaining())
    }
}

impl Transfer {
    fn new() -> Self {
        Self { done: 0, total: None, samples: VecDeque::new() }
    }

    fn update(&mut self, done: u64, total: Option<u64>, now: Instant) {
        (self.done, self.total) = (done, total);
        self.samples.push_back((now, done));
        while self.samples.len() > 2
            && self.samples.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > RATE_WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// Bytes a second lately; `None` before two points in time are known.
    pub fn rate(&self) -> Option<u64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let took = millis(last.0.saturating_duration_since(first.0));
        (took > 0).then(|| last.1.saturating_sub(first.1) * 1000 / took)
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(host: &str, expected_ms: u64) -> Event {
        Event::StepStarted {
            host: host.into(),
            phase: "runtime".into(),
            step: "runtime/a".into(),
            title: "Install containerd".into(),
            expected_ms,
        }
    }

    #[test]
    fn the_run_takes_as_long_as_its_slowest_host() {
        let (mut board, t0) = (Board::default(), Instant::now());
        for (host, expected_ms) in [("a", 30_000), ("b", 90_000)] {
            board.apply(&Event::Planned { host: host.into(), phase: "runtime".into(), steps: 3, expected_ms }, t0);
        }
        assert_eq!(board.remaining(t0), Some(Duration::from_secs(90)));
        board.apply(&Event::HostFinished { host: "b".into(), ok: false, summary: "down".into() }, t0);
        assert_eq!(board.remaining(t0), Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_finished_step_moves_the_count_and_the_forecast() {
        let (mut board, t0) = (Board::default(), Instant::now());
        board.apply(&Event::Planned { host: "a".into(), phase: "runtime".into(), steps: 2, expected_ms: 20_000 }, t0);
        board.apply(&started("a", 10_000), t0);
        let t1 = t0 + Duration::from_secs(10);
        board.apply(
            &Event::StepFinished {
                host: "a".into(),
                phase: "runtime".into(),
                step: "runtime/a".into(),
                end: StepEnd::Changed,
                took_ms: 10_000,
                message: None,
            },
            t1,
        );
        assert_eq!((board.hosts[0].steps_ended, board.hosts[0].steps_planned), (1, 2));
        assert_eq!(board.remaining(t1), Some(Duration::from_secs(10)));
    }

    #[test]
    fn a_rate_is_measured_over_the_last_seconds_only() {
        let (mut board, t0) = (Board::default(), Instant::now());
        let mib = 1024 * 1024;
        // A slow second, then ten fast ones: the slow one must be forgotten.
        for (second, done) in std::iter::once((0, 0)).chain((1..=11).map(|s| (s, (s - 1) * 10 * mib))) {
            let total = Some(500 * mib);
            let event = Event::Bytes { host: "a".into(), what: "kubelet".into(), done, total };
            board.apply(&event, t0 + Duration::from_secs(second));
        }
        assert_eq!(board.hosts[0].transfers["kubelet"].rate(), Some(10 * mib));
    }

    #[test]
    fn a_complete_transfer_leaves_the_board() {
        let (mut board, t0) = (Board::default(), Instant::now());
        for done in [1, 9] {
            board.apply(&Event::Bytes { host: "local".into(), what: "x".into(), done, total: Some(9) }, t0);
        }
        assert!(board.hosts[0].transfers.is_empty());
    }
}
