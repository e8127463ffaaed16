//! The scripts for real, on a throwaway host.

mod artifacts;
mod interrupted;
mod reset;
mod steps;

use std::path::PathBuf;

use futures::future::BoxFuture;
use hostspan_playbooks::model::{Playbook, Step};

use super::sandbox::Sandbox;
use super::*;
use crate::artifacts::ArtifactRef;
use crate::progress::Events;

/// Artifacts of this test, by name.
struct Files(Vec<(ArtifactRef, PathBuf)>);

impl Fetch for Files {
    fn fetch<'a>(&'a self, artifact: &'a ArtifactRef, _: &'a Events) -> BoxFuture<'a, Result<PathBuf, String>> {
        let found = self.0.iter().find(|(known, _)| known == artifact).map(|(_, path)| path.clone());
        Box::pin(async move { found.ok_or_else(|| "no such artifact".to_owned()) })
    }
}

static NO_FILES: Files = Files(Vec::new());

/// A phase from the `steps:` of a playbook.
fn phase(steps: &str) -> PhaseSteps {
    let text =
        format!("apiVersion: hostspan.dev/v1alpha1\nkind: Playbook\nmetadata: {{name: t}}\nspec:\n  steps:\n{steps}");
    let playbook: Playbook = serde_saphyr::from_str(&text).unwrap();
    let full = |id: &str| format!("t/{id}");
    let steps = playbook.spec.steps.into_iter().map(|step| {
        let after_change_of = step.after_change_of.iter().map(|id| full(id)).collect();
        ReadyStep { id: full(&step.id), step: Step { after_change_of, ..step }, artifact: None }
    });
    PhaseSteps { phase: "test".into(), steps: steps.collect() }
}

async fn plan(host: &Sandbox, phase: &PhaseSteps) -> PhasePlan {
    decide(phase, &observe(host, std::slice::from_ref(phase)).await.unwrap())
}

async fn apply(host: &Sandbox, phase: &PhaseSteps) -> Result<PhaseOutcome, EngineError> {
    apply_with(host, phase, &Events::none(), &Cancel::never(), &NO_FILES).await
}

async fn apply_with(
    host: &Sandbox,
    phase: &PhaseSteps,
    events: &Events,
    cancel: &Cancel,
    files: &Files,
) -> Result<PhaseOutcome, EngineError> {
    let run = HostRun::new(host, events, cancel, files);
    run.hold(async {
        let seen = observe(host, std::slice::from_ref(phase)).await?;
        run.run_phase(phase, &decide(phase, &seen), &seen).await
    })
    .await
}

fn summary(plan: &PhasePlan) -> Vec<String> {
    let lines = plan.steps.iter().map(|step| match &step.verdict {
        Verdict::Ok => Vec::new(),
        Verdict::Change { summary, .. } => summary.clone(),
    });
    lines.flatten().collect()
}

/// Everything that the tests below touch: names, modes, owners, times of files, content, states.
async fn digest(host: &Sandbox) -> String {
    host.sh(
        "for d in /etc/fstab /etc/sysctl.d /etc/modules-load.d /srv /var/lib/hostspan /etc/hostspan /run/hostspan; do
           find $d ! -path '*/fake/*' \\( -type d -printf '%p %m %U:%G\\n' -o -printf '%p %m %U:%G %T@ %l\\n' \\) 2>/dev/null
         done | sort
         find /etc/fstab /etc/sysctl.d /etc/modules-load.d /srv -type f -exec sha256sum {} + | sort
         cat /proc/sys/net/ipv4/ip_forward /proc/swaps
         ls /sys/module
         for u in /var/lib/fake/units/*; do echo $u $(cat $u/load $u/file $u/active); done",
    )
    .await
}

/// Of every kind of step one, with something there before.
const EVERYTHING: &str = r#"
  - {id: swap, title: Swap off, fstab: {disableType: swap}}
  - {id: forward, title: Forward, sysctl: {file: /etc/sysctl.d/90-hostspan.conf, values: {net.ipv4.ip_forward: "1"}}}
  - {id: modules, title: Modules, module: {file: /etc/modules-load.d/hostspan.conf, names: [fresh_module]}}
  - {id: folder, title: Folder, directory: {path: /srv/a/b/c, mode: "0750"}}
  - {id: old-folder, title: Old folder, directory: {path: /srv/old, mode: "0700"}}
  - {id: config, title: Config, file: {path: /srv/old/config, content: "new\ntext\n", mode: "0640"}}
  - {id: fresh, title: Fresh, file: {path: /srv/new/deep/fresh, content: "it's $HOME\n"}}
  - {id: secret, title: Secret, file: {path: /srv/old/secret, content: "canary-secret\n", secret: true, mode: "0600"}}
  - {id: gone, title: Gone, file: {path: /srv/old/gone, absent: true}}
  - {id: daemon, title: Daemon, afterChangeOf: [config], unit: {name: daemon.service, enabled: true, active: true}}
  - {id: unwanted, title: Unwanted, unit: {name: unwanted.service, masked: true, active: false}}
  - id: init
    title: Init
    afterChangeOf: [fresh]
    command: {check: "test -e /srv/init", run: "cat >/srv/init; echo made", input: hunter2-canary, undo: "rm -f /srv/init"}
"#;

fn everything() -> Option<Sandbox> {
    everything_in("sh")
}

fn everything_in(shell: &'static str) -> Option<Sandbox> {
    let host = Sandbox::with_shell(shell)?;
    host.write("/etc/fstab", "/swap.img none swap sw 0 0\nUUID=1 /data/swapspace ext4 defaults 0 2\n", 0o644);
    host.write("/swap.img", "", 0o600);
    host.write("/proc/swaps", "Filename Type Size Used Priority\n/swap.img file 1 0 -2\n", 0o644);
    host.write("/srv/old/config", "old\ntext\n", 0o600);
    host.write("/srv/old/secret", "before\n", 0o644);
    host.write("/srv/old/gone", "was here\n", 0o604);
    host.unit("daemon.service", "disabled", "inactive");
    host.unit("unwanted.service", "enabled", "active");
    Some(host)
}
