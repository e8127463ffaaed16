//! Kill matrix: every step x {before, during, after} x {installer killed, link cut, host killed}. After each, the next
//! apply must reach the end state of the undisturbed run. A seeded sample by default, all of it with `--include-ignored`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hostspan::cluster::phases::PHASES;
use hostspan_tests::fleet::{LabFleet, hostspan_command};
use hostspan_tests::scenario::Scenario;
use hostspan_tests::{digest, nodes};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

/// Cases of the sample that every run of the tests makes.
const SAMPLE: usize = 30;
/// Changes the sample; printed, so that a failure can be run again.
const SEED: &str = "HOSTSPAN_SEED";
const HOSTS: [&str; 2] = ["kvm-01", "kvm-02"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    During,
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    /// SIGKILL to the installer.
    Installer,
    /// The host's link is dead for some seconds.
    Link,
    /// The host loses its power and boots again.
    Host,
}

#[derive(Debug, Clone)]
struct Case {
    host: String,
    phase: String,
    step: String,
    moment: Moment,
    blow: Blow,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, step, moment, blow, .. } = self;
        write!(f, "{blow:?}_{moment:?}_{host}/{step}")
    }
}

/// What must be the same however a run came to its end: what the installer manages. Keys and certificates are made anew
/// by every kubeadm, and kube-proxy's rules follow the cluster, so they are left out.
fn managed(line: &str) -> bool {
    const OTHERS: [&str; 12] = [
        "/etc/kubernetes/",
        "/etc/hostspan/ca.sha256",
        "/var/lib/",
        "/etc/.",
        "/etc/machine-id",
        "/etc/resolv.conf",
        "/etc/hostname",
        "sysctl net.ipv4.conf.",
        "sysctl net.ipv6.",
        "nft ",
        "link ",
        "mount ",
    ];
    !OTHERS.iter().any(|part| line.contains(part))
}

async fn state(fleet: &LabFleet) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut state = BTreeMap::new();
    for host in fleet.hosts() {
        let lines = digest::of(&fleet.lab, &host).await?;
        state.insert(host, lines.into_iter().filter(|line| managed(line)).collect());
    }
    Ok(state)
}

/// The undisturbed run, phase by phase, with every host's disk kept at each boundary.
struct Reference {
    /// Boundaries in order: `start`, then each phase.
    phases: Vec<String>,
    /// The state after each phase.
    states: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    cases: Vec<Case>,
}

async fn reference(fleet: &LabFleet) -> Result<Reference> {
    let plan = fleet.run("plan", &[]).await?.expect(0)?.json()?;
    let mut phases = vec!["start".to_owned()];
    let mut cases = Vec::new();
    for (host, of) in plan["hosts"].as_object().context("no hosts in the plan")? {
        for phase in of["phases"].as_array().into_iter().flatten() {
            let name = phase["phase"].as_str().context("a phase without name")?.to_owned();
            for step in phase["steps"].as_array().into_iter().flatten().filter(|step| step["verdict"] == "change") {
                for moment in [Moment::Before, Moment::During, Moment::After] {
                    for blow in [Blow::Installer, Blow::Link, Blow::Host] {
                        let step = step["id"].as_str().context("a step without id")?.to_owned();
                        cases.push(Case { host: host.clone(), phase: name.clone(), step, moment, blow });
                    }
                }
            }
        }
    }
    let mut states = BTreeMap::new();
    keep(fleet, "start").await?;
    for name in PHASES.iter().map(|phase| phase.name) {
        fleet.run("apply", &["--yes", "--until", name]).await?.expect(0)?;
        states.insert(name.to_owned(), state(fleet).await?);
        keep(fleet, name).await?;
        phases.push(name.to_owned());
    }
    Ok(Reference { phases, states, cases })
}

/// Keeps every host's disk under a label.
async fn keep(fleet: &LabFleet, label: &str) -> Result<()> {
    for host in HOSTS {
        fleet.lab.stop(host).await?;
        fleet.lab.snapshot(host, label).await?;
    }
    start(fleet).await
}

async fn start(fleet: &LabFleet) -> Result<()> {
    let (first, second) = tokio::join!(fleet.lab.start(HOSTS[0]), fleet.lab.start(HOSTS[1]));
    first?;
    second.map_err(Into::into)
}

async fn back_to(fleet: &LabFleet, label: &str) -> Result<()> {
    for host in HOSTS {
        fleet.lab.restore_link(host).await?;
        fleet.lab.kill(host).await?;
        fleet.lab.restore(host, label).await?;
    }
    start(fleet).await
}

/// Whether an event is the moment of a case.
fn is_moment(case: &Case, event: &Value, earlier: &[String]) -> bool {
    if event["host"] != case.host.as_str() {
        return false;
    }
    let step = event["step"].as_str().unwrap_or_default();
    match case.moment {
        Moment::Before => match earlier.last() {
            // The end of the step before it, or the phase's beginning.
            Some(last) => event["type"] == "step-finished" && step == last,
            None => event["type"] == "planned" && event["phase"] == case.phase.as_str(),
        },
        Moment::During => event["type"] == "step-started" && step == case.step,
        Moment::After => event["type"] == "step-finished" && step == case.step,
    }
}

async fn strike(fleet: &LabFleet, case: &Case, installer: &mut Child) -> Result<()> {
    match case.blow {
        Blow::Installer => installer.kill().await?,
        Blow::Link => {
            fleet.lab.cut_link(&case.host).await?;
            sleep(Duration::from_secs(8)).await;
            fleet.lab.restore_link(&case.host).await?;
        }
        Blow::Host => {
            fleet.lab.kill(&case.host).await?;
            fleet.lab.start(&case.host).await?;
        }
    }
    Ok(())
}

async fn run_case(fleet: &LabFleet, reference: &Reference, case: &Case) -> Result<()> {
    let at = reference.phases.iter().position(|phase| *phase == case.phase).context("an unknown phase")?;
    back_to(fleet, &reference.phases[at - 1]).await?;
    let mut earlier: Vec<String> = Vec::new();
    for other in &reference.cases {
        if other.host == case.host && other.phase == case.phase {
            if other.step == case.step {
                break;
            }
            if earlier.last() != Some(&other.step) {
                earlier.push(other.step.clone());
            }
        }
    }
    let args = ["apply", "--yes", "--until", case.phase.as_str()];
    let mut installer =
        hostspan_command(&fleet.with_file(&args)).stderr(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut lines = BufReader::new(installer.stderr.take().context("no events")?).lines();
    let mut struck = false;
    let disturbed = async {
        while let Some(line) = lines.next_line().await? {
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            if !struck && is_moment(case, &event, &earlier) {
                struck = true;
                strike(fleet, case, &mut installer).await?;
            }
        }
        installer.wait().await?;
        anyhow::Ok(())
    };
    timeout(Duration::from_secs(400), disturbed).await.context("the disturbed run did not end")??;
    ensure!(struck, "the run never came to that moment");

    fleet.run("apply", &["--yes", "--until", &case.phase]).await?.expect(0)?;
    let after = state(fleet).await?;
    for (host, wanted) in &reference.states[&case.phase] {
        let differs = digest::difference(wanted, &after[host], &[]);
        ensure!(differs.is_empty(), "{host} differs from the undisturbed run:\n{}", differs.join("\n"));
    }
    if case.phase == "ready" {
        nodes::ready(&fleet.kubectl().await?, &fleet.hosts(), Duration::from_secs(10)).await?;
    }
    Ok(())
}

/// A seeded sample; the whole matrix in the extended run.
fn chosen(cases: &[Case]) -> Vec<Case> {
    if std::env::args().any(|arg| arg == "--include-ignored") {
        return cases.to_vec();
    }
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    println!("{SEED}={seed} chooses {SAMPLE} of {} cases", cases.len());
    let mut state = seed;
    let mut left = cases.to_vec();
    let mut picked = Vec::new();
    while picked.len() < SAMPLE && !left.is_empty() {
        // Knuth's MMIX generator: enough to pick, and the same everywhere.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let index = usize::try_from(state >> 33).unwrap() % left.len();
        picked.push(left.swap_remove(index));
    }
    picked
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut scenario = Scenario::new();
    let name = format!("kill-{}", std::process::id());
    let mut lab = None;
    scenario
        .must("lab_up", async {
            lab = Some(LabFleet::up(&name, &["--hosts", "2"]).await?);
            Ok(())
        })
        .await;
    if let Some(fleet) = &lab {
        let mut made = None;
        scenario
            .must("undisturbed_run", async {
                made = Some(reference(fleet).await?);
                Ok(())
            })
            .await;
        if let Some(reference) = &made {
            for case in chosen(&reference.cases) {
                scenario.check(&case.to_string(), run_case(fleet, reference, &case)).await;
            }
        }
        scenario.always("lab_down", fleet.down()).await;
    }
    scenario.finish()
}
