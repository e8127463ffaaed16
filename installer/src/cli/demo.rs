//! `hostspan demo`: drives the progress display without hosts, so that it can be looked at and changed in seconds.

use std::time::Duration;

use clap::Args;

use super::context::Context;
use super::failure::{Failure, Problem};
use crate::exit::Exit;
use crate::progress::{Event, Events, LOCAL, StepEnd};

/// Show what a run looks like, without any host
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  hostspan demo --hosts 4 --fail --speed 5")]
pub struct Demo {
    /// How many hosts to pretend
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    hosts: u8,

    /// Let the last host fail
    #[arg(long)]
    fail: bool,

    /// How many times faster than real time
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    speed: u16,
}

/// Phase, title, milliseconds estimated, milliseconds taken, bytes uploaded.
type Pretended = (&'static str, &'static str, u64, u64, u64);

const STEPS: [Pretended; 9] = [
    ("prepare", "Load the kernel modules", 1_000, 800, 0),
    ("prepare", "Set the kernel settings", 1_000, 600, 0),
    ("prepare", "Switch swap off", 1_000, 1_200, 0),
    ("runtime", "Install containerd", 8_000, 9_000, 42 << 20),
    ("runtime", "Start containerd", 3_000, 2_000, 0),
    ("node-binaries", "Install the kubelet", 10_000, 7_000, 78 << 20),
    ("images", "Import the images", 20_000, 26_000, 310 << 20),
    ("cluster", "Join the cluster", 15_000, 11_000, 0),
    ("ready", "Wait until the node is ready", 20_000, 17_000, 0),
];
const STAGES: [(&str, &str, u64); 2] = [("components", "Get the components", 6), ("verify", "Verify their digests", 6)];

impl Demo {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let display = ctx.display();
        let events = display.events();
        for (name, title, total) in STAGES {
            for done in 0..=total {
                let (title, total) = (title.into(), Some(total));
                events.send(Event::Stage { name: name.into(), title, done: Some(done), total });
                self.upload(&events, LOCAL, &format!("component-{done}"), 2_000, 90 << 20).await;
            }
        }
        let hosts = (1..=self.hosts).map(|n| self.host(&events, n, ctx));
        let failed: Vec<Problem> = futures::future::join_all(hosts).await.into_iter().flatten().collect();
        display.finish().await;
        if ctx.interrupted() {
            return Err(Failure::interrupted());
        }
        if failed.is_empty() { Ok(Exit::Done) } else { Err(Failure { exit: Exit::StepFailed, problems: failed }) }
    }

    async fn host(&self, events: &Events, n: u8, ctx: &Context) -> Option<Problem> {
        let host = format!("kvm-{n:02}");
        events.send(Event::HostJoined { host: host.clone() });
        self.wait(300 * u64::from(n)).await;
        events.send(Event::Connected { host: host.clone() });
        self.wait(1_000).await;
        for phase in ["prepare", "runtime", "node-binaries", "images", "cluster", "ready"] {
            let of_phase = || STEPS.iter().filter(|s| s.0 == phase);
            let expected_ms = of_phase().map(|s| s.2).sum::<u64>() / u64::from(self.speed);
            let steps = of_phase().count();
            events.send(Event::Planned { host: host.clone(), phase: phase.into(), steps, expected_ms });
        }
        if n == 2 {
            let message = "the clock is 1.2 s off; time synchronisation will mend it".into();
            events.send(Event::Warning { host: Some(host.clone()), message });
        }
        for (i, (phase, title, expected_ms, took_ms, bytes)) in STEPS.into_iter().enumerate() {
            if ctx.interrupted() {
                events.send(Event::HostFinished { host, ok: false, summary: format!("stopped after {i} steps") });
                return None;
            }
            let step = format!("{phase}/{}", title.to_lowercase().replace(' ', "-"));
            let took_ms = took_ms * (10 + u64::from(n)) / 11;
            events.send(Event::StepStarted {
                host: host.clone(),
                phase: phase.into(),
                step: step.clone(),
                title: title.into(),
                expected_ms: expected_ms / u64::from(self.speed),
            });
            if bytes > 0 {
                self.upload(events, &host, title, took_ms, bytes).await;
            } else {
                self.wait(took_ms).await;
            }
            let line = format!("{title}: what the step printed");
            events.send(Event::StepOutput { host: host.clone(), step: step.clone(), line });
            let fails = self.fail && n == self.hosts && phase == "cluster";
            let message = fails.then(|| {
                "kubeadm join: exit status 1\nerror execution phase preflight: [ERROR Port-10250]: Port 10250 is in use"
                    .to_owned()
            });
            let end = if fails { StepEnd::Failed } else { StepEnd::Changed };
            let took_ms = took_ms / u64::from(self.speed);
            events.send(Event::StepFinished { host: host.clone(), phase: phase.into(), step, end, took_ms, message });
            if fails {
                let summary = format!("{title} failed after {i} changes");
                events.send(Event::HostFinished { host: host.clone(), ok: false, summary });
                return Some(Problem {
                    host: Some(host),
                    message: format!("{title} failed"),
                    detail: "[ERROR Port-10250]: Port 10250 is in use".into(),
                    help: Some("see what listens there: ss -ltnp 'sport = :10250'".into()),
                });
            }
        }
        events.send(Event::HostFinished { host, ok: true, summary: "9 changes".into() });
        None
    }

    async fn upload(&self, events: &Events, host: &str, what: &str, took_ms: u64, bytes: u64) {
        for part in 0..=20 {
            let (done, total) = (bytes * part / 20, Some(bytes));
            events.send(Event::Bytes { host: host.into(), what: what.into(), done, total });
            self.wait(took_ms / 20).await;
        }
    }

    async fn wait(&self, ms: u64) {
        tokio::time::sleep(Duration::from_micros(ms * 1000 / u64::from(self.speed))).await;
    }
}
