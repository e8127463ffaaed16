//! The main job on lab hosts: plan, apply, pods that reach each other, a second run that changes nothing, reboot, reset.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use hostspan_tests::digest;
use hostspan_tests::fleet::{LabFleet, Run, hostspan};
use hostspan_tests::nodes;
use hostspan_tests::pods;
use hostspan_tests::scenario::Scenario;
use serde_json::Value;

/// What a conversion leaves after `reset`; docs/src/reset.md says why.
const LEFT: [&str; 0] = [];
/// How long Services may take to follow pods that were made anew.
const SETTLED: Duration = Duration::from_mins(1);

/// `host/step` of everything that a plan would change.
fn planned(run: &Run) -> Result<BTreeSet<String>> {
    let plan = run.json()?;
    let mut steps = BTreeSet::new();
    for (host, of) in plan["hosts"].as_object().into_iter().flatten() {
        for phase in of["phases"].as_array().into_iter().flatten() {
            for step in phase["steps"].as_array().into_iter().flatten() {
                if step["verdict"] == "change" {
                    steps.insert(format!("{host}/{}", step["id"].as_str().unwrap_or("?")));
                }
            }
        }
    }
    Ok(steps)
}

/// `host/step` of everything that an apply changed.
fn changed(run: &Run) -> BTreeSet<String> {
    let ended = run.events("step-finished");
    let changed = ended.iter().filter(|event| event["end"] == "changed");
    changed.map(|event| format!("{}/{}", event["host"].as_str().unwrap(), event["step"].as_str().unwrap())).collect()
}

async fn story(fleet: &LabFleet, scenario: &mut Scenario) -> Result<()> {
    let hosts = fleet.hosts();
    fleet.add_playbook("toolbox.yaml", pods::PLAYBOOK)?;
    let mut before = Vec::new();
    for host in &hosts {
        before.push(digest::of(&fleet.lab, host).await?);
    }

    let mut plan = BTreeSet::new();
    scenario
        .must("plan_names_what_is_to_do", async {
            plan = planned(&fleet.run("plan", &["--exit-code"]).await?.expect(2)?)?;
            ensure!(plan.iter().any(|step| step.contains("kvm-01/")), "nothing planned: {plan:?}");
            Ok(())
        })
        .await;
    scenario
        .must("apply_converts_and_changes_what_plan_named", async {
            let run = fleet.run("apply", &["--yes"]).await?.expect(0)?;
            let changed = changed(&run);
            ensure!(
                changed == plan,
                "planned, not changed: {:?}\nchanged, not planned: {:?}",
                plan.difference(&changed).collect::<Vec<_>>(),
                changed.difference(&plan).collect::<Vec<_>>()
            );
            let end = run.json()?;
            ensure!(end["failed"] == 0 && end["changed"] == changed.len(), "the summary says {end}");
            Ok(())
        })
        .await;
    let kubectl = fleet.kubectl().await?;
    scenario.must("every_node_is_ready", nodes::ready(&kubectl, &hosts, Duration::from_secs(5))).await;
    scenario.check("plan_is_empty_after_apply", no_change(fleet)).await;
    scenario
        .check("second_apply_changes_nothing", async {
            let end = fleet.run("apply", &["--yes"]).await?.expect(0)?.json()?;
            ensure!(end["changed"] == 0 && end["failed"] == 0, "the summary says {end}");
            Ok(())
        })
        .await;
    scenario.must("pods_run_on_every_node", pods::up(&kubectl, &hosts)).await;
    scenario
        .check("pods_reach_pods_service_name_and_gateway", pods::reach(&kubectl, &hosts, fleet.status.gateway, SETTLED))
        .await;
    scenario.must("every_host_reboots", fleet.reboot()).await;
    scenario.must("every_node_is_ready_after_reboot", nodes::ready(&kubectl, &hosts, Duration::from_mins(4))).await;
    scenario.must("pods_run_after_reboot", pods::up(&kubectl, &hosts)).await;
    scenario.check("pods_reach_all_after_reboot", pods::reach(&kubectl, &hosts, fleet.status.gateway, SETTLED)).await;
    scenario.check("plan_is_empty_after_reboot", no_change(fleet)).await;
    scenario
        .check("status_shows_every_node_ready", async {
            let status = fleet.run("status", &[]).await?.expect(0)?.json()?;
            let ready = |host: &Value| host["ready"] == true && host["kubeletVersion"] == "v1.36.3";
            ensure!(
                status["hosts"].as_array().is_some_and(|all| all.len() == 3 && all.iter().all(ready)),
                "{status:#}"
            );
            Ok(())
        })
        .await;
    scenario
        .check("reset_without_a_terminal_wants_yes", async {
            fleet.run("reset", &[]).await?.expect(64)?;
            no_change(fleet).await
        })
        .await;
    scenario.must("reset_succeeds", async { fleet.run("reset", &["--yes"]).await?.expect(0).map(drop) }).await;
    for (host, before) in hosts.iter().zip(&before) {
        scenario
            .check(&format!("reset_restores_{host}"), async {
                let left = digest::difference(before, &digest::of(&fleet.lab, host).await?, &LEFT);
                ensure!(left.is_empty(), "{} lines differ:\n{}", left.len(), left.join("\n"));
                Ok(())
            })
            .await;
    }
    scenario
        .check("lab_up_converts_the_same_hosts_again", async {
            let name = &fleet.status.name;
            hostspan(&["lab", "up", "--name", name, "--hosts", "3", "--yes", "--no-progress"]).await?.expect(0)?;
            nodes::ready(&fleet.kubectl().await?, &hosts, Duration::from_secs(5)).await
        })
        .await;
    Ok(())
}

async fn no_change(fleet: &LabFleet) -> Result<()> {
    let run = fleet.run("plan", &["--exit-code"]).await?.expect(0)?;
    let steps = planned(&run)?;
    ensure!(steps.is_empty(), "still planned: {steps:?}");
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut scenario = Scenario::new();
    let name = format!("conv-{}", std::process::id());
    let mut lab = None;
    scenario
        .must("lab_up", async {
            lab = Some(LabFleet::up(&name, &["--hosts", "3"]).await?);
            Ok(())
        })
        .await;
    if let Some(fleet) = &lab {
        let told = story(fleet, &mut scenario).await;
        scenario.check("story_came_to_its_end", async { told }).await;
        if std::env::var_os("HOSTSPAN_KEEP_LAB").is_none() {
            scenario.always("lab_down", fleet.down()).await;
        }
    }
    scenario.finish()
}
