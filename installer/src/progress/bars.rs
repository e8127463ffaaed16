//! The display on a terminal: a line for each host that is at work, one for the run, and what ended above them.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::board::{Board, HostRow, StageRow, Transfer};
use super::paint::Paint;
use super::{Driver, Event, LOCAL, StepEnd, human};

/// Cells of a bar.
const WIDTH: u64 = 16;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Bars on standard error.
pub(super) struct Bars {
    multi: MultiProgress,
    paint: Paint,
    board: Board,
    began: Instant,
    /// By host; hosts that are not here have no line now.
    lines: BTreeMap<String, ProgressBar>,
    /// The run's own line, always the last.
    total: ProgressBar,
    stages_ended: HashSet<String>,
    frame: usize,
}

impl Bars {
    pub(super) fn new(paint: Paint, now: Instant) -> Self {
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let total = multi.add(line());
        Self {
            multi,
            paint,
            board: Board::default(),
            began: now,
            lines: BTreeMap::new(),
            total,
            stages_ended: HashSet::new(),
            frame: 0,
        }
    }

    fn print(&self, text: &str) {
        drop(self.multi.println(text));
    }

    /// Stages other than the current one, and those that are complete, move up into the scroll-back once.
    fn retire_stages(&mut self, now: Instant, all: bool) {
        let current = self.board.current_stage().map(|s| s.name.clone());
        for stage in &self.board.stages {
            let complete = stage.total.is_some() && stage.done >= stage.total;
            let over = all || complete || Some(&stage.name) != current.as_ref();
            if over && self.stages_ended.insert(stage.name.clone()) {
                let took = human::duration(now.saturating_duration_since(stage.since));
                drop(self.multi.println(format!(
                    "{} {} {}",
                    self.paint.green("✓"),
                    stage.title,
                    self.paint.dim(&took)
                )));
            }
        }
    }

    fn redraw(&mut self, now: Instant) {
        let spinner = SPINNER[self.frame % SPINNER.len()];
        let width = self.board.hosts.iter().map(|h| h.name.len()).max().unwrap_or(0);
        for row in &self.board.hosts {
            let shown = row.took.is_none() && (row.name != LOCAL || !row.transfers.is_empty());
            if shown {
                let bar =
                    self.lines.entry(row.name.clone()).or_insert_with(|| self.multi.insert_before(&self.total, line()));
                bar.set_message(host_line(row, width, spinner, self.paint, now));
            } else if let Some(bar) = self.lines.remove(&row.name) {
                bar.finish_and_clear();
                self.multi.remove(&bar);
            }
        }
        let stage = self.board.current_stage().filter(|s| !self.stages_ended.contains(&s.name));
        self.total.set_message(total_line(&self.board, stage, self.began, spinner, self.paint, now));
    }
}

impl Driver for Bars {
    fn event(&mut self, event: &Event, now: Instant) {
        let title = self.board.title_of(event);
        self.board.apply(event, now);
        match event {
            Event::StepFinished { host, phase, step, end: StepEnd::Failed, message, .. } => {
                let (cross, title) = (self.paint.red("✗"), title.as_deref().unwrap_or(step));
                self.print(&format!("{cross} {}  {phase}: {title}", self.paint.bold(host)));
                for text in message.iter().flat_map(|m| m.lines()) {
                    self.print(&format!("    {text}"));
                }
            }
            Event::HostFinished { host, ok, summary } => {
                let mark = if *ok { self.paint.green("✓") } else { self.paint.red("✗") };
                let took = self.board.hosts.iter().find(|h| &h.name == host).and_then(|h| h.took).unwrap_or_default();
                let took = self.paint.dim(&human::duration(took));
                self.print(&format!("{mark} {}  {summary}  {took}", self.paint.bold(host)));
            }
            Event::Warning { host, message } => {
                let host = host.as_ref().map_or(String::new(), |h| format!("{} ", self.paint.bold(h)));
                self.print(&format!("{} {host}{message}", self.paint.yellow("!")));
            }
            Event::Stage { .. } => self.retire_stages(now, false),
            _ => {}
        }
    }

    fn tick(&mut self, now: Instant) {
        self.frame += 1;
        self.redraw(now);
    }

    fn close(&mut self, now: Instant) {
        self.retire_stages(now, true);
        for bar in self.lines.values() {
            bar.finish_and_clear();
        }
        self.total.finish_and_clear();
        drop(self.multi.clear());
    }
}

/// A line whose whole text is its message: the layout is ours, cutting it at the terminal's width is indicatif's.
fn line() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    // The template is a constant; were it wrong, the default style would show.
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// Numbers come first and texts of unknown length last, so that a narrow terminal cuts only the text.
fn host_line(row: &HostRow, width: usize, spinner: &str, paint: Paint, now: Instant) -> String {
    let name = paint.bold(&format!("{:<width$}", row.name));
    let head = format!("{} {name}", paint.cyan(spinner));
    let transfer = row.transfers.iter().next();
    if row.name == LOCAL {
        return match transfer {
            Some((what, t)) => format!("{head}  {} {what}", transfer_text(t, paint)),
            None => head,
        };
    }
    let elapsed = human::duration(now.saturating_duration_since(row.since));
    if row.step.is_none() && row.steps_planned == 0 {
        let doing = if row.connected { "reading what is there" } else { "connecting" };
        return format!("{head}  {}", paint.dim(&format!("{doing} {elapsed}")));
    }
    let at = (row.steps_ended + usize::from(row.step.is_some())).max(1);
    let count = format!("{at}/{}", row.steps_planned.max(at));
    let left = row.remaining(now).map_or(String::new(), |d| format!("~{} left", human::duration(d)));
    let bar = bar(row.work(now).permille(), paint);
    let what = match (&row.step, transfer) {
        (Some(step), Some((_, t))) => format!("{}: {} {}", row.phase, transfer_text(t, paint), step.title),
        (Some(step), None) => format!("{}: {}", row.phase, step.title),
        (None, Some((what, t))) => format!("{} {what}", transfer_text(t, paint)),
        // What a phase needs is looked for on the host before it is sent.
        (None, None) if row.steps_ended < row.steps_planned => "beginning a phase".to_owned(),
        // No forecast: what is left begins with what others do.
        (None, None) => return format!("{head}  {bar} {count:>7} {elapsed:>7}  waiting for other hosts"),
    };
    format!("{head}  {bar} {count:>7} {elapsed:>7} {}  {what}", paint.dim(&format!("{left:>13}")))
}

fn transfer_text(t: &Transfer, paint: Paint) -> String {
    let rate = t.rate().map_or(String::new(), |r| format!(" {}/s", human::bytes(r)));
    let text = match t.total {
        Some(total) => format!("{} of {}{rate}", human::bytes(t.done), human::bytes(total)),
        None => format!("{}{rate}", human::bytes(t.done)),
    };
    paint.cyan(&text)
}

fn total_line(
    board: &Board,
    stage: Option<&StageRow>,
    began: Instant,
    spinner: &str,
    paint: Paint,
    now: Instant,
) -> String {
    let mut parts = Vec::new();
    if let Some(stage) = stage {
        let count = match (stage.done, stage.total) {
            (Some(done), Some(total)) => format!(" {done}/{total}"),
            (Some(done), None) => format!(" {done}"),
            _ => String::new(),
        };
        let took = human::duration(now.saturating_duration_since(stage.since));
        parts.push(format!("{} {}{count} {}", paint.cyan(spinner), stage.title, paint.dim(&took)));
    }
    let (ended, planned) =
        board.hosts.iter().fold((0, 0), |(e, p), h| (e + h.steps_ended, p + h.steps_planned.max(h.steps_ended)));
    if planned > 0 {
        let hosts = board.hosts.iter().filter(|h| h.name != LOCAL).count();
        let over = board.hosts.iter().filter(|h| h.took.is_some()).count();
        parts.push(format!("{ended} of {}", human::count(planned, "step")));
        parts.push(format!("{over} of {} finished", human::count(hosts, "host")));
    }
    parts.push(format!("{} elapsed", human::duration(now.saturating_duration_since(began))));
    if let Some(left) = board.remaining(now).filter(|d| *d > Duration::ZERO) {
        parts.push(format!("about {} left", human::duration(left)));
    }
    parts.join(&paint.dim(" · "))
}

fn bar(permille: u64, paint: Paint) -> String {
    let full = permille.min(1000) * WIDTH / 1000;
    let cells = |n: u64, cell: &str| cell.repeat(usize::try_from(n).unwrap_or(0));
    format!("{}{}", paint.green(&cells(full, "━")), paint.dim(&cells(WIDTH - full, "─")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(events: &[(u64, Event)], t0: Instant) -> Board {
        let mut board = Board::default();
        for (second, event) in events {
            board.apply(event, t0 + Duration::from_secs(*second));
        }
        board
    }

    fn joined() -> Event {
        Event::HostJoined { host: "kvm-01".into() }
    }
    fn planned() -> Event {
        Event::Planned { host: "kvm-01".into(), phase: "runtime".into(), steps: 12, expected_ms: 80_000 }
    }
    fn started() -> Event {
        Event::StepStarted {
            host: "kvm-01".into(),
            phase: "runtime".into(),
            step: "runtime/containerd".into(),
            title: "Install containerd".into(),
            expected_ms: 40_000,
        }
    }

    fn finished() -> Event {
        Event::StepFinished {
            host: "kvm-01".into(),
            phase: "runtime".into(),
            step: "runtime/containerd".into(),
            end: super::super::StepEnd::Changed,
            took_ms: 1_000,
            message: None,
        }
    }

    #[test]
    fn a_line_shows_place_time_rest_phase_and_title() {
        let t0 = Instant::now();
        let board = board(&[(0, joined()), (0, planned()), (2, started())], t0);
        let text = host_line(&board.hosts[0], 6, "*", Paint::plain(), t0 + Duration::from_secs(22));
        assert_eq!(text, "* kvm-01  ━━━━────────────    1/12     22s  ~1m 00s left  runtime: Install containerd");
    }

    #[test]
    fn an_upload_shows_bytes_and_rate() {
        let t0 = Instant::now();
        let bytes = |done| Event::Bytes { host: "kvm-01".into(), what: "x".into(), done, total: Some(92 << 20) };
        let board = board(&[(0, planned()), (0, started()), (1, bytes(0)), (2, bytes(40 << 20))], t0);
        let text = host_line(&board.hosts[0], 6, "*", Paint::plain(), t0 + Duration::from_secs(2));
        assert!(text.ends_with("runtime: 40.0 MiB of 92.0 MiB 40.0 MiB/s Install containerd"), "{text}");
    }

    #[test]
    fn between_steps_the_line_says_what_is_sent_or_waited_for() {
        let t0 = Instant::now();
        let line = |board: &Board| host_line(&board.hosts[0], 6, "*", Paint::plain(), t0 + Duration::from_secs(2));
        let bytes = |done| Event::Bytes { host: "kvm-01".into(), what: "kubelet".into(), done, total: Some(92 << 20) };
        let sending = board(&[(0, planned()), (1, bytes(0)), (2, bytes(40 << 20))], t0);
        let text = line(&sending);
        assert!(text.contains("1/12") && text.ends_with("40.0 MiB of 92.0 MiB 40.0 MiB/s kubelet"), "{text}");
        let mut waiting = board(&[(0, planned()), (0, started()), (1, finished())], t0);
        assert!(line(&waiting).ends_with("left  beginning a phase"), "{}", line(&waiting));
        waiting.hosts[0].steps_ended = 12;
        assert_eq!(line(&waiting), "* kvm-01  ━━━━━━━━────────   12/12      2s  waiting for other hosts");
    }

    #[test]
    fn before_a_plan_the_line_says_what_is_waited_for() {
        let t0 = Instant::now();
        let paint = Paint::plain();
        let connecting = board(&[(0, joined())], t0);
        assert_eq!(host_line(&connecting.hosts[0], 6, "*", paint, t0), "* kvm-01  connecting 0s");
        let reading = board(&[(0, joined()), (1, Event::Connected { host: "kvm-01".into() })], t0);
        assert_eq!(host_line(&reading.hosts[0], 6, "*", paint, t0), "* kvm-01  reading what is there 0s");
    }

    #[test]
    fn the_total_counts_steps_and_hosts_and_forecasts() {
        let t0 = Instant::now();
        let stage = Event::Stage { name: "c".into(), title: "Build".into(), done: Some(3), total: Some(11) };
        let board = board(&[(0, joined()), (0, planned()), (0, stage)], t0);
        let text = total_line(&board, board.current_stage(), t0, "*", Paint::plain(), t0 + Duration::from_secs(5));
        assert_eq!(text, "* Build 3/11 5s · 0 of 12 steps · 0 of 1 host finished · 5s elapsed · about 1m 20s left");
    }

    #[test]
    fn a_bar_has_always_the_same_width() {
        for permille in [0, 1, 499, 1000, 5000] {
            assert_eq!(bar(permille, Paint::plain()).chars().count(), 16, "{permille}");
        }
    }
}
