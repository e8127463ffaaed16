//! Typed events in; bars, plain lines or JSON lines out. Work code only sends events and never prints.
//!
//! ```text
//! engine, ssh, lab --Event--> Display --> Board (what is going on) --> bars   (a terminal)
//!                                                                  --> plain  (CI, -v)
//!                                     --> json  (-o json)
//! ```
//!
//! All of it goes to standard error; results are the commands' and go to standard output.

mod bars;
mod board;
mod estimate;
mod event;
pub mod human;
mod json;
pub mod paint;
mod plain;

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::paint::Paint;
pub use event::{Event, Events, StepEnd};

/// The host name under which work of this machine reports its bytes.
pub const LOCAL: &str = "local";

/// How often a display is redrawn.
const TICK: Duration = Duration::from_millis(100);

/// How events are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Lines that are redrawn in place.
    Bars,
    /// A line for each thing that happens; with `verbose` also what the steps print.
    Plain {
        /// Show what the steps print.
        verbose: bool,
    },
    /// A JSON line an event.
    Json,
    /// Nothing.
    Hidden,
}

/// What the command line and the terminal say about the view.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish {
    /// `-o json`.
    pub json: bool,
    /// `-q`.
    pub quiet: bool,
    /// `-v`.
    pub verbose: bool,
    /// `--no-progress`.
    pub no_progress: bool,
    /// Standard error is a terminal that can move its cursor.
    pub terminal: bool,
}

impl Wish {
    /// The view: a program's wish comes first, then silence, then words over bars, since log lines and bars would fight
    /// for the screen.
    pub fn view(self) -> View {
        if self.quiet {
            View::Hidden
        } else if self.json {
            View::Json
        } else if self.verbose || self.no_progress || !self.terminal {
            View::Plain { verbose: self.verbose }
        } else {
            View::Bars
        }
    }
}

/// Draws events until it is finished.
#[derive(Debug)]
pub struct Display {
    events: Events,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Display {
    /// Starts to draw. Must be called within a tokio runtime.
    pub fn start(view: View, paint: Paint) -> Self {
        let (events, rx) = Events::channel();
        let (stop, stopped) = oneshot::channel();
        let now = Instant::now();
        let driver: Box<dyn Driver> = match view {
            View::Bars => Box::new(bars::Bars::new(paint, now)),
            View::Plain { verbose } => Box::new(plain::Plain::new(std::io::stderr(), paint, verbose, now)),
            View::Json => Box::new(json::Json::new(std::io::stderr())),
            View::Hidden => Box::new(Hidden),
        };
        Self { events, stop, task: tokio::spawn(draw(driver, rx, stopped)) }
    }

    /// Where to send events.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Draws what was sent so far, takes the bars away and returns. Events sent later are lost.
    pub async fn finish(self) {
        // An error of either means that the drawing has ended already.
        let _ = self.stop.send(());
        drop(self.task.await);
    }
}

/// One way to show events. The time is handed in, so that tests need no clock.
trait Driver: Send {
    /// Something happened.
    fn event(&mut self, event: &Event, now: Instant);
    /// Time went by.
    fn tick(&mut self, _now: Instant) {}
    /// The display ends.
    fn close(&mut self, _now: Instant) {}
}

struct Hidden;

impl Driver for Hidden {
    fn event(&mut self, _event: &Event, _now: Instant) {}
}

async fn draw(mut driver: Box<dyn Driver>, mut rx: mpsc::UnboundedReceiver<Event>, mut stopped: oneshot::Receiver<()>) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            // In this order: an event that was sent before the stop is drawn before it.
            biased;
            Some(event) = rx.recv() => driver.event(&event, Instant::now()),
            _ = &mut stopped => break,
            _ = tick.tick() => driver.tick(Instant::now()),
        }
    }
    driver.close(Instant::now());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_only_on_a_terminal_that_nobody_else_writes_to() {
        let terminal = Wish { terminal: true, ..Wish::default() };
        assert_eq!(terminal.view(), View::Bars);
        assert_eq!(Wish::default().view(), View::Plain { verbose: false });
        assert_eq!(Wish { verbose: true, ..terminal }.view(), View::Plain { verbose: true });
        assert_eq!(Wish { no_progress: true, ..terminal }.view(), View::Plain { verbose: false });
        assert_eq!(Wish { json: true, verbose: true, ..terminal }.view(), View::Json);
        assert_eq!(Wish { json: true, quiet: true, ..terminal }.view(), View::Hidden);
    }

    #[tokio::test]
    async fn what_was_sent_before_the_finish_is_drawn() {
        struct Count(std::sync::Arc<std::sync::atomic::AtomicUsize>);
        impl Driver for Count {
            fn event(&mut self, _event: &Event, _now: Instant) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let seen = std::sync::Arc::default();
        let (events, rx) = Events::channel();
        let (stop, stopped) = oneshot::channel();
        for _ in 0..100 {
            events.send(Event::Connected { host: "a".into() });
        }
        stop.send(()).unwrap();
        draw(Box::new(Count(std::sync::Arc::clone(&seen))), rx, stopped).await;
        assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), 100);
    }
}
