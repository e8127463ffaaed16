//! Kills, lost links, locks, Ctrl-C.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::*;
use crate::engine::lock::Identity;
use crate::progress::Event;

/// As [`digest`], without what differs between any two runs: times, and the journal's own files.
async fn end_state(host: &Sandbox) -> String {
    let digest = digest(host).await;
    let lines = digest.lines().filter(|line| !line.contains("/hostspan/journal/"));
    lines.map(|line| line.split_whitespace().filter(|word| !word.contains('.')).collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
async fn after_a_kill_anywhere_the_next_run_reaches_the_same_end() {
    kills(8).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn after_a_kill_at_a_hundred_places_the_next_run_reaches_the_same_end() {
    kills(101).await;
}

async fn kills(points: usize) {
    let Some(undisturbed) = everything() else { return };
    let phase = phase(EVERYTHING);
    undisturbed.unit("daemon.service", "enabled", "active");
    let seen = observe(&undisturbed, std::slice::from_ref(&phase)).await.unwrap();
    undisturbed.kill_at(100_000);
    run_once(&undisturbed, &phase, &seen).await.unwrap();
    let want = end_state(&undisturbed).await;
    let commands = undisturbed.traced.load(Ordering::SeqCst);
    assert!(commands > 200, "only {commands} commands were traced");
    for part in 1..points {
        let at = commands * part / points;
        let host = everything().unwrap();
        host.unit("daemon.service", "enabled", "active");
        let before = digest(&host).await;
        let seen = observe(&host, std::slice::from_ref(&phase)).await.unwrap();
        host.kill_at(at);
        run_once(&host, &phase, &seen).await.unwrap_err();
        apply(&host, &phase).await.unwrap();
        assert_eq!(summary(&plan(&host, &phase).await), [""; 0], "killed at command {at} of {commands}");
        assert_eq!(end_state(&host).await, want, "killed at command {at} of {commands}");
        let log = host.read("/var/lib/fake/log");
        assert!(log.contains("restart daemon.service"), "killed at {at}: the restart was forgotten: {log}");
        undo(&host, &Events::none(), &Cancel::never()).await.unwrap();
        assert_eq!(digest(&host).await, before, "killed at command {at} of {commands}, then reset");
    }
}

async fn run_once(host: &Sandbox, phase: &PhaseSteps, seen: &Observed) -> Result<PhaseOutcome, EngineError> {
    let (events, cancel) = (Events::none(), Cancel::never());
    let run = HostRun::new(host, &events, &cancel, &NO_FILES);
    run.hold(run.run_phase(phase, &decide(phase, seen), seen)).await
}

#[tokio::test]
async fn a_lost_link_is_taken_up_again_in_the_same_run() {
    let phase = phase(EVERYTHING);
    for lines in [1, 4, 9, 14, 24] {
        let Some(host) = everything() else { return };
        let seen = observe(&host, std::slice::from_ref(&phase)).await.unwrap();
        let (events, mut told) = Events::channel();
        let cancel = Cancel::never();
        let run = HostRun::new(&host, &events, &cancel, &NO_FILES);
        host.cut_at(lines);
        let outcome = run.hold(run.run_phase(&phase, &decide(&phase, &seen), &seen)).await.unwrap();
        assert_eq!(outcome.changed, 12);
        assert_eq!(summary(&plan(&host, &phase).await), [""; 0], "cut after {lines} lines");
        drop(run);
        drop(events);
        let mut finished = Vec::new();
        while let Some(event) = told.recv().await {
            if let Event::StepFinished { step, .. } = event {
                finished.push(step);
            }
        }
        finished.sort();
        let before = finished.len();
        finished.dedup();
        assert_eq!((before, finished.len()), (12, 12), "every step ends once: {finished:?}");
    }
}

#[tokio::test]
async fn a_long_command_outlives_its_link_and_is_not_started_twice() {
    let Some(host) = Sandbox::new() else { return };
    let phase = phase(
        r#"
  - id: slow
    title: Slow
    command: {check: "test -e /srv/slow", run: "cat; sleep 2; echo done; touch /srv/slow", input: hunter2-canary, long: true}
"#,
    );
    let seen = observe(&host, std::slice::from_ref(&phase)).await.unwrap();
    let (events, cancel) = (Events::none(), Cancel::never());
    let run = HostRun::new(&host, &events, &cancel, &NO_FILES);
    host.cut_at(2);
    run.hold(run.run_phase(&phase, &decide(&phase, &seen), &seen)).await.unwrap();
    assert_eq!(host.read("/var/lib/fake/log").matches("run hostspan-t.slow.service").count(), 1);
    assert_eq!(host.sh("ls /run/hostspan/long").await, "", "its result is used once");
}

#[tokio::test]
async fn a_failing_long_command_fails_as_a_short_one_does() {
    let Some(host) = Sandbox::new() else { return };
    let phase = phase("  - {id: s, title: S, command: {check: 'false', run: 'echo words; exit 3', long: true}}\n");
    let error = apply(&host, &phase).await.unwrap_err();
    assert_eq!(error.to_string(), "sandbox: \"S\" (t/s) failed: it ended with status 3");
    assert_eq!(error.output(), "words");
}

#[tokio::test]
async fn a_live_lock_is_respected_and_an_abandoned_one_taken_over() {
    let Some(host) = Sandbox::new() else { return };
    let phase = phase("  - {id: one, title: One, file: {path: /srv/one, content: x}}\n");
    let now = host.sh("date +%s").await;
    let now: u64 = now.trim().parse().unwrap();
    let lock = |token: &str, boot: &str| {
        host.write("/run/hostspan/lock", &format!("{token}\tann@desk (process 9)\t{}\t{boot}\n", now - 30), 0o644);
    };
    let alive = Identity::new().token;
    lock(&alive, "boot-1");
    let error = apply(&host, &phase).await.unwrap_err();
    let EngineError::Locked { owner, since_seconds, .. } = &error else { panic!("{error}") };
    assert_eq!(owner, "ann@desk (process 9)");
    assert!((30..60).contains(since_seconds), "{since_seconds}");
    assert_eq!(host.sh("ls -d /srv/one 2>/dev/null || true").await, "", "nothing was changed");

    let (events, mut told) = Events::channel();
    let dead = alive.rsplit_once('.').unwrap().0.to_owned() + ".1";
    for (token, boot) in [(dead.as_str(), "boot-1"), (alive.as_str(), "boot-0")] {
        lock(token, boot);
        apply_with(&host, &phase, &events, &Cancel::never(), &NO_FILES).await.unwrap();
        let mut warned = false;
        while let Ok(event) = told.try_recv() {
            warned |= matches!(event, Event::Warning { message, .. } if message.contains("ann@desk (process 9)"));
        }
        assert!(warned);
        assert_eq!(host.read("/run/hostspan/lock"), "", "released at the end");
        host.sh("rm /srv/one").await;
    }
    lock("another.b.c.1.2", "boot-1");
    host.sh("touch -d '2 minutes ago' /run/hostspan/lock").await;
    apply(&host, &phase).await.unwrap();
}

const SLEEPY: &str = r#"
  - {id: one, title: One, command: {check: "test -e /srv/one", run: "sleep 2; touch /srv/one"}}
  - {id: two, title: Two, file: {path: /srv/two, content: x}}
"#;

#[tokio::test]
async fn ctrl_c_once_ends_the_running_step_and_begins_no_other() {
    let Some(host) = Sandbox::new() else { return };
    let (place, took) = interrupt(&host, 1).await;
    assert_eq!(place, "before the step t/two");
    assert!(took > Duration::from_secs(2));
    assert_eq!(host.sh("ls /srv/one /srv/two 2>/dev/null || true").await, "/srv/one\n");
    assert_eq!(apply(&host, &phase(SLEEPY)).await.unwrap().changed, 1);
}

#[tokio::test]
async fn ctrl_c_twice_does_not_wait() {
    let Some(host) = Sandbox::new() else { return };
    let (place, _) = interrupt(&host, 2).await;
    assert_eq!(place, "while the step t/one was running");
    // The next run waits for the step that still runs there, and goes on.
    apply(&host, &phase(SLEEPY)).await.unwrap();
    assert_eq!(summary(&plan(&host, &phase(SLEEPY)).await), [""; 0]);
}

async fn interrupt(host: &Sandbox, times: usize) -> (String, Duration) {
    let phase = phase(SLEEPY);
    let (canceller, cancel) = Cancel::pair();
    let (events, mut told) = Events::channel();
    let press = async {
        while let Some(event) = told.recv().await {
            if matches!(event, Event::StepStarted { .. }) {
                (0..times).for_each(|_| canceller.escalate());
            }
        }
    };
    let since = Instant::now();
    let work = async {
        let outcome = apply_with(host, &phase, &events, &cancel, &NO_FILES).await;
        drop(events);
        outcome
    };
    match tokio::join!(work, press).0 {
        Err(EngineError::Interrupted { place, .. }) => (place, since.elapsed()),
        other => panic!("{other:?}"),
    }
}
