//! Plain lines for CI logs and `-v`: one at each start and end of a step, each with its time and host.

use std::collections::HashSet;
use std::io::Write;
use std::time::{Duration, Instant};

use super::board::Board;
use super::paint::Paint;
use super::{Driver, Event, LOCAL, StepEnd, human};

/// A step that runs longer than this says so, again and again: a CI log that stands still looks dead, and some CI
/// systems end a job that prints nothing for ten minutes.
const STILL_EVERY: Duration = Duration::from_secs(30);

/// Plain lines.
pub(super) struct Plain<W> {
    out: W,
    paint: Paint,
    /// Also what the steps print.
    verbose: bool,
    board: Board,
    began: Instant,
    next_still: Instant,
    transfers_seen: HashSet<(String, String)>,
}

impl<W: Write + Send> Plain<W> {
    pub(super) fn new(out: W, paint: Paint, verbose: bool, now: Instant) -> Self {
        Self {
            out,
            paint,
            verbose,
            board: Board::default(),
            began: now,
            next_still: now + STILL_EVERY,
            transfers_seen: HashSet::new(),
        }
    }

    fn line(&mut self, now: Instant, host: &str, text: &str) {
        let s = now.saturating_duration_since(self.began).as_secs();
        let clock = self.paint.dim(&format!("{:02}:{:02}", s / 60, s % 60));
        let host = if host.is_empty() { String::new() } else { format!("{}  ", self.paint.bold(host)) };
        drop(writeln!(self.out, "{clock}  {host}{text}"));
    }

    /// `[3/12] runtime`, the number being that of the step that runs or just ended.
    fn place(&self, host: &str, phase: &str, running: bool) -> String {
        match self.board.hosts.iter().find(|h| h.name == host) {
            Some(row) if row.steps_planned > 0 => {
                format!("[{}/{}] {phase}", row.steps_ended + usize::from(running), row.steps_planned)
            }
            _ => phase.to_owned(),
        }
    }

    fn step_finished(&mut self, event: &Event, title: Option<String>, now: Instant) {
        let Event::StepFinished { host, phase, step, end, took_ms, message } = event else { return };
        let place = self.place(host, phase, false);
        let title = title.unwrap_or_else(|| step.clone());
        let took = human::duration(Duration::from_millis(*took_ms));
        match end {
            StepEnd::Changed => {
                let done = self.paint.green("done");
                self.line(now, host, &format!("{place}: {title}: {done} ({took})"));
            }
            StepEnd::Skipped => {
                let skipped = self.paint.dim("skipped");
                self.line(now, host, &format!("{place}: {title}: {skipped}"));
            }
            StepEnd::Failed => {
                let failed = self.paint.red("FAILED");
                self.line(now, host, &format!("{place}: {title}: {failed} ({took})"));
                for text in message.iter().flat_map(|m| m.lines()) {
                    self.line(now, host, &format!("  {text}"));
                }
            }
        }
    }

    /// A transfer is told once when it begins; its end is the step's.
    fn bytes(&mut self, host: &str, what: &str, total: Option<u64>, now: Instant) {
        if self.transfers_seen.insert((host.to_owned(), what.to_owned())) {
            let size = total.map_or(String::new(), |t| format!(" ({})", human::bytes(t)));
            let verb = if host == LOCAL { "getting" } else { "sending" };
            self.line(now, host, &format!("{verb} {what}{size}"));
        }
    }

    fn stage(&mut self, name: &str, before: Option<(String, Option<u64>)>, now: Instant) {
        let Some(row) = self.board.stages.iter().find(|s| s.name == name) else { return };
        let (title, done) = (row.title.clone(), row.done);
        if before == Some((title.clone(), done)) {
            return;
        }
        let count = match (done, row.total) {
            (Some(done), Some(total)) => format!("[{done}/{total}] "),
            _ => String::new(),
        };
        self.line(now, "", &format!("{count}{title}"));
    }
}

impl<W: Write + Send> Driver for Plain<W> {
    fn event(&mut self, event: &Event, now: Instant) {
        self.next_still = now + STILL_EVERY;
        // Before the board takes the event in, and with it forgets what was.
        let title = self.board.title_of(event);
        let stage_before = match event {
            Event::Stage { name, .. } => {
                self.board.stages.iter().find(|s| &s.name == name).map(|s| (s.title.clone(), s.done))
            }
            _ => None,
        };
        self.board.apply(event, now);
        match event {
            Event::HostJoined { .. } => {}
            Event::Connected { host } => self.line(now, host, "connected"),
            Event::Planned { host, phase, steps, .. } => {
                if *steps > 0 {
                    let steps = human::count(*steps, "step");
                    self.line(now, host, &format!("{phase}: {steps} to run"));
                }
            }
            Event::StepStarted { host, phase, title, .. } => {
                let place = self.place(host, phase, true);
                self.line(now, host, &format!("{place}: {title}"));
            }
            Event::StepOutput { host, line, .. } => {
                if self.verbose {
                    let text = format!("  {}", self.paint.dim(line));
                    self.line(now, host, &text);
                }
            }
            Event::Bytes { host, what, total, .. } => self.bytes(host, what, *total, now),
            Event::StepFinished { .. } => self.step_finished(event, title, now),
            Event::HostFinished { host, ok, summary } => {
                let end = if *ok { self.paint.green("finished") } else { self.paint.red("FAILED") };
                self.line(now, host, &format!("{end}: {summary}"));
            }
            Event::Warning { host, message } => {
                let text = format!("{}: {message}", self.paint.yellow("warning"));
                self.line(now, host.as_deref().unwrap_or_default(), &text);
            }
            Event::Stage { name, .. } => self.stage(name, stage_before, now),
        }
    }

    fn tick(&mut self, now: Instant) {
        if now < self.next_still {
            return;
        }
        self.next_still = now + STILL_EVERY;
        let still: Vec<(String, String)> = self
            .board
            .hosts
            .iter()
            .filter_map(|row| {
                let step = row.step.as_ref()?;
                let took = human::duration(now.saturating_duration_since(step.since));
                let left = row.remaining(now).map_or(String::new(), |d| format!(", about {} left", human::duration(d)));
                Some((row.name.clone(), format!("{}: still at it ({took}{left})", step.title)))
            })
            .collect();
        for (host, text) in still {
            self.line(now, &host, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Log {
        plain: Plain<Vec<u8>>,
        t0: Instant,
    }

    impl Log {
        fn new(verbose: bool) -> Self {
            let t0 = Instant::now();
            Self { plain: Plain::new(Vec::new(), Paint::plain(), verbose, t0), t0 }
        }
        fn at(&mut self, second: u64, event: Event) -> &mut Self {
            self.plain.event(&event, self.t0 + Duration::from_secs(second));
            self
        }
        fn text(&self) -> String {
            String::from_utf8(self.plain.out.clone()).unwrap()
        }
    }

    fn planned() -> Event {
        Event::Planned { host: "kvm-01".into(), phase: "runtime".into(), steps: 2, expected_ms: 20_000 }
    }
    fn started() -> Event {
        Event::StepStarted {
            host: "kvm-01".into(),
            phase: "runtime".into(),
            step: "runtime/containerd".into(),
            title: "Install containerd".into(),
            expected_ms: 10_000,
        }
    }
    fn finished(end: StepEnd, message: Option<&str>) -> Event {
        Event::StepFinished {
            host: "kvm-01".into(),
            phase: "runtime".into(),
            step: "runtime/containerd".into(),
            end,
            took_ms: 63_000,
            message: message.map(Into::into),
        }
    }

    #[test]
    fn a_step_has_a_line_at_its_start_and_at_its_end() {
        let mut log = Log::new(false);
        log.at(0, planned()).at(1, started()).at(64, finished(StepEnd::Changed, None));
        assert_eq!(
            log.text(),
            "00:00  kvm-01  runtime: 2 steps to run\n\
             00:01  kvm-01  [1/2] runtime: Install containerd\n\
             01:04  kvm-01  [1/2] runtime: Install containerd: done (1m 03s)\n"
        );
    }

    #[test]
    fn a_failure_shows_every_line_of_its_message_with_the_host() {
        let mut log = Log::new(false);
        log.at(0, started()).at(1, finished(StepEnd::Failed, Some("exit status 1\nno space left on device")));
        assert!(log.text().ends_with(
            "00:01  kvm-01  runtime: Install containerd: FAILED (1m 03s)\n\
             00:01  kvm-01    exit status 1\n\
             00:01  kvm-01    no space left on device\n"
        ));
    }

    #[test]
    fn output_of_steps_is_shown_only_with_v() {
        let output = Event::StepOutput { host: "kvm-01".into(), step: "x".into(), line: "unpacking".into() };
        assert_eq!(Log::new(false).at(0, output.clone()).text(), "");
        assert_eq!(Log::new(true).at(0, output).text(), "00:00  kvm-01    unpacking\n");
    }

    #[test]
    fn a_long_step_says_that_it_is_alive() {
        let mut log = Log::new(false);
        log.at(0, planned()).at(0, started());
        log.plain.tick(log.t0 + Duration::from_secs(29));
        log.plain.tick(log.t0 + Duration::from_secs(30));
        let text = log.text();
        let last = text.lines().last().unwrap();
        assert_eq!(last, "00:30  kvm-01  Install containerd: still at it (30s, about 13s left)");
    }

    #[test]
    fn a_transfer_is_one_line_however_often_it_reports() {
        let mut log = Log::new(false);
        for done in [0, 5 << 20, 10 << 20] {
            let total = Some(10 << 20);
            log.at(0, Event::Bytes { host: "kvm-01".into(), what: "kubelet".into(), done, total });
        }
        assert_eq!(log.text(), "00:00  kvm-01  sending kubelet (10.0 MiB)\n");
    }

    #[test]
    fn a_stage_that_reports_the_same_again_is_silent() {
        let mut log = Log::new(false);
        let stage = |done| Event::Stage {
            name: "components".into(),
            title: "Build the components".into(),
            done: Some(done),
            total: Some(8),
        };
        log.at(0, stage(0)).at(1, stage(0)).at(2, stage(1));
        assert_eq!(log.text(), "00:00  [0/8] Build the components\n00:02  [1/8] Build the components\n");
    }
}
