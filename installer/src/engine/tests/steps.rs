//! Plans, changes, failures.

use super::*;
use crate::progress::{Event, StepEnd};

#[tokio::test]
async fn a_plan_says_exactly_what_differs_and_a_second_run_finds_nothing() {
    for shell in ["dash", "bash"] {
        let Some(host) = everything_in(shell) else { return };
        plan_and_run(&host).await;
    }
}

async fn plan_and_run(host: &Sandbox) {
    let phase = phase(EVERYTHING);
    let before = plan(host, &phase).await;
    assert_eq!(
        summary(&before),
        [
            "- /etc/fstab: /swap.img none swap sw 0 0",
            "- swapoff /swap.img",
            "~ net.ipv4.ip_forward: 0 -> 1",
            "+ create /etc/sysctl.d/90-hostspan.conf (0644 root:root)",
            "+ load module fresh_module",
            "+ create /etc/modules-load.d/hostspan.conf (0644 root:root)",
            "+ create directory /srv/a/b/c (0750 root:root)",
            "~ /srv/old: mode 0755 -> 0700",
            "~ /srv/old/config: content",
            "~ /srv/old/config: mode 0600 -> 0640",
            "+ create /srv/new/deep/fresh (0644 root:root)",
            "~ /srv/old/secret: content (secret)",
            "~ /srv/old/secret: mode 0644 -> 0600",
            "- remove /srv/old/gone",
            "+ enable daemon.service",
            "+ start daemon.service",
            "- stop unwanted.service",
            "- mask unwanted.service",
            "~ run: Init",
        ]
    );
    let Verdict::Change { diff: Some(diff), .. } = &before.steps[5].verdict else { panic!("no diff") };
    assert!(diff.contains("-old\n+new\n text\n"), "{diff}");
    let rendered = serde_json::to_string(&before).unwrap();
    assert!(!rendered.contains("canary"), "{rendered}");

    assert_eq!(apply(host, &phase).await.unwrap(), PhaseOutcome { changed: 12 });
    assert_eq!(summary(&plan(host, &phase).await), [""; 0]);
    assert_eq!(host.read("/srv/new/deep/fresh"), "it's $HOME\n");
    assert_eq!(host.read("/srv/init"), "hunter2-canary");
    assert_eq!(host.read("/proc/swaps"), "Filename Type Size Used Priority\n");
    let journal = host.sh("cd /var/lib/hostspan/journal && grep -r canary . || true").await;
    assert_eq!(journal, "", "secrets in the journal");
}

#[tokio::test]
async fn a_failing_step_says_why_and_the_rest_is_not_tried() {
    let Some(host) = Sandbox::new() else { return };
    let phase = phase(
        r#"
  - {id: one, title: One, file: {path: /srv/one, content: "1"}}
  - id: two
    title: Two
    command: {check: "false", run: "p=$(cat); echo the password is $p; printf 'no newline'; exit 7", input: hunter2-canary}
  - {id: three, title: Three, file: {path: /srv/three, content: "3"}}
"#,
    );
    let (events, mut seen) = Events::channel();
    let error = apply_with(&host, &phase, &events, &Cancel::never(), &NO_FILES).await.unwrap_err();
    assert_eq!(error.to_string(), "sandbox: \"Two\" (t/two) failed: it ended with status 7");
    assert_eq!(error.output(), "the password is [redacted]\nno newline");
    assert!(error.help().unwrap().contains("the run goes on at t/two"));
    drop(events);
    let mut ends = Vec::new();
    while let Some(event) = seen.recv().await {
        assert!(!format!("{event:?}").contains("canary"), "{event:?}");
        if let Event::StepFinished { step, end, .. } = event {
            ends.push((step, end));
        }
    }
    let want = [("t/one", StepEnd::Changed), ("t/two", StepEnd::Failed), ("t/three", StepEnd::Skipped)];
    assert_eq!(ends, want.map(|(step, end)| (step.to_owned(), end)));
    assert_eq!(summary(&plan(&host, &phase).await).len(), 2);
}

#[tokio::test]
async fn a_command_whose_check_still_fails_has_failed() {
    let Some(host) = Sandbox::new() else { return };
    let phase = phase("  - {id: one, title: One, command: {check: 'test -e /srv/x', run: 'true'}}\n");
    let error = apply(&host, &phase).await.unwrap_err();
    assert_eq!(error.to_string(), "sandbox: \"One\" (t/one) failed: its check still fails after it ran");
}

#[tokio::test]
async fn a_command_that_does_not_end_in_time_is_ended() {
    let Some(host) = Sandbox::new() else { return };
    let phase = phase("  - {id: one, title: One, command: {check: 'false', run: 'echo begun; sleep 9', timeout: 1}}\n");
    let error = apply(&host, &phase).await.unwrap_err();
    assert_eq!(error.to_string(), "sandbox: \"One\" (t/one) failed: it did not end within 1 s");
    assert_eq!(error.output(), "begun");
}

#[tokio::test]
async fn two_steps_that_fight_over_a_file_are_found_out() {
    let Some(host) = Sandbox::new() else { return };
    let phase = phase(
        r#"
  - {id: one, title: One, file: {path: /srv/x, content: "1"}}
  - {id: two, title: Two, file: {path: /srv/x, content: "2"}}
"#,
    );
    let error = apply(&host, &phase).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "sandbox: \"One\" (t/one) failed: it ran, but the host still differs: ~ /srv/x: content"
    );
}

#[tokio::test]
async fn nothing_is_written_through_a_link_or_over_a_directory() {
    let Some(host) = Sandbox::new() else { return };
    host.sh("mkdir -p /srv/dir; echo precious >/srv/target; ln -s target /srv/link").await;
    let link = phase("  - {id: one, title: One, file: {path: /srv/link, content: x}}\n");
    let error = apply(&host, &link).await.unwrap_err().to_string();
    assert!(error.contains("/srv/link is a symbolic link to target"), "{error}");
    let dir = phase("  - {id: one, title: One, file: {path: /srv/dir, content: x}}\n");
    let error = apply(&host, &dir).await.unwrap_err().to_string();
    assert!(error.contains("/srv/dir exists and is not a plain file"), "{error}");
    assert_eq!(host.sh("cat /srv/target").await, "precious\n");
}

#[tokio::test]
async fn a_unit_restarts_when_what_it_depends_on_changed_and_only_then() {
    let Some(host) = Sandbox::new() else { return };
    host.unit("d.service", "enabled", "active");
    let steps = |content: &str| {
        phase(&format!(
            "  - {{id: conf, title: Conf, file: {{path: /srv/conf, content: {content}}}}}\n  \
             - {{id: unit, title: Unit, afterChangeOf: [conf], unit: {{name: d.service, enabled: true, active: true}}}}\n"
        ))
    };
    assert_eq!(summary(&plan(&host, &steps("a")).await)[1], "~ restart d.service");
    assert_eq!(apply(&host, &steps("a")).await.unwrap().changed, 2);
    assert_eq!(apply(&host, &steps("a")).await.unwrap().changed, 0);
    let restarts = host.read("/var/lib/fake/log").matches("restart d.service").count();
    assert_eq!(restarts, 1, "{}", host.read("/var/lib/fake/log"));
    host.write("/var/lib/fake/units/d.service/broken", "", 0o644);
    let error = apply(&host, &steps("b")).await.unwrap_err();
    assert!(error.to_string().ends_with("systemd could not restart d.service"), "{error}");
    assert_eq!(error.output(), "last words of the unit");
    // The file is as wanted now; that the restart is still owed is not forgotten.
    assert_eq!(summary(&plan(&host, &steps("b")).await), ["~ restart d.service"]);
}

#[tokio::test]
async fn a_missing_module_and_a_missing_setting_are_told_plainly() {
    let Some(host) = Sandbox::new() else { return };
    let module = phase("  - {id: m, title: M, module: {file: /etc/modules-load.d/x.conf, names: [nosuch]}}\n");
    let error = apply(&host, &module).await.unwrap_err();
    assert!(error.to_string().contains("module nosuch cannot be loaded, and is not built into the kernel"), "{error}");
    let sysctl = phase("  - {id: s, title: S, sysctl: {file: /etc/sysctl.d/x.conf, values: {net.nosuch: '1'}}}\n");
    let error = apply(&host, &sysctl).await.unwrap_err();
    assert!(error.to_string().contains("this kernel has no setting net.nosuch"), "{error}");
}

#[tokio::test]
async fn packages_wait_for_a_lock_and_fetch_missing_lists() {
    let Some(host) = Sandbox::new() else { return };
    host.write("/var/lib/fake/archive/tool", "libtool\n", 0o644);
    host.write("/var/lib/fake/archive/libtool", "", 0o644);
    host.write("/var/lib/fake/locked", "1\n", 0o644);
    host.sh("printf '#!/bin/sh\\n' >/usr/local/sbin/sleep; chmod +x /usr/local/sbin/sleep").await;
    let phase = phase("  - {id: p, title: P, package: {names: [tool]}}\n");
    assert_eq!(summary(&plan(&host, &phase).await), ["+ install tool"]);
    apply(&host, &phase).await.unwrap();
    assert_eq!(summary(&plan(&host, &phase).await), [""; 0]);
    assert_eq!(
        undo_plan(&host).await.unwrap(),
        ["- remove package tool", "- remove package libtool"],
        "what came along goes too"
    );
    undo(&host, &Events::none(), &Cancel::never()).await.unwrap();
    assert_eq!(host.sh("ls /var/lib/fake/installed").await, "");

    host.sh("rm /var/lib/fake/lists").await;
    host.write("/var/lib/fake/locked", "1000\n", 0o644);
    let error = apply(&host, &phase).await.unwrap_err().to_string();
    assert!(error.contains("the package manager is locked by process 4242 (unattended-upgr)"), "{error}");
}

#[tokio::test]
async fn a_look_at_a_settled_host_starts_few_processes() {
    let Some(host) = everything() else { return };
    let phase = phase(EVERYTHING);
    apply(&host, &phase).await.unwrap();
    for tool in ["stat", "sha256sum", "grep", "base64", "head", "tr", "cut", "sed", "uname", "readlink"] {
        let shim = format!("#!/bin/sh\necho {tool} >>/var/lib/fake/tools\nexec /usr/bin/{tool} \"$@\"\n");
        host.write(&format!("/usr/local/sbin/{tool}"), &shim, 0o755);
    }
    let since = std::time::Instant::now();
    assert_eq!(summary(&plan(&host, &phase).await), [""; 0]);
    eprintln!("a settled host was looked at in {:?}", since.elapsed());
    // Beside them systemctl (dpkg-query where there are package steps); the last one is for the swap entry that is switched off.
    assert_eq!(host.read("/var/lib/fake/tools"), "stat\nsha256sum\ngrep\nbase64\nreadlink\n");
}
