//! What comes in between while a step runs: Ctrl-C, a second run, a reboot, a dead link. All at once, each on a host of its
//! own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hostspan_tests::fleet::{Run, hostspan_command};
use hostspan_tests::scenario::Scenario;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{sleep, timeout};

use crate::{Faults, apply, apply_args, says};

/// A step that takes its time, and one after it.
const PLAYBOOK: &str = "\
apiVersion: hostspan.dev/v1alpha1
kind: Playbook
metadata: {name: faults}
spec:
  at: {after: prepare}
  steps:
    - id: slow
      title: Take six seconds
      takes: 6
      command: {check: '[ -e /var/tmp/slow ]', run: 'sleep 6; touch /var/tmp/slow'}
    - id: next
      title: Come after it
      command: {check: '[ -e /var/tmp/next ]', run: 'touch /var/tmp/next'}
";
/// For all that is no fault of the run.
const ENOUGH: Duration = Duration::from_mins(2);

pub async fn story(faults: &Faults, scenario: &mut Scenario) {
    let mut file = PathBuf::new();
    scenario
        .must("a_playbook_of_the_users_own", async {
            std::fs::write(faults.dir.path().join("slow-steps.yaml"), PLAYBOOK)?;
            file = faults
                .fleet_file("interrupted.yaml", |fleet| fleet["spec"]["playbooks"] = json!(["slow-steps.yaml"]))?;
            Ok(())
        })
        .await;
    let file = file.as_path();
    let (once, twice, second, reboot, link) = tokio::join!(
        ctrl_c(faults, file, "kvm-08"),
        ctrl_c_twice(faults, file, "kvm-07"),
        second_run(file, "kvm-06"),
        reboot(faults, file, "kvm-05"),
        dead_link(faults, file, "kvm-03"),
    );
    scenario.check("ctrl_c_stops_after_the_running_step", async { once }).await;
    scenario.check("ctrl_c_twice_stops_at_once", async { twice }).await;
    scenario.check("a_second_run_is_told_who_is_at_work", async { second }).await;
    scenario.check("a_host_that_reboots_in_a_step", async { reboot }).await;
    scenario.check("a_link_that_is_dead_for_a_while", async { link }).await;
}

/// A run of which the slow step has just begun.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    seen: String,
}

impl Running {
    async fn start(file: &Path, host: &str) -> Result<Self> {
        let args = apply_args(file, &["--until", "prepare", "--host", host]);
        let mut child = hostspan_command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("no events")?).lines();
        let mut seen = String::new();
        let began = async {
            while let Some(line) = lines.next_line().await? {
                seen.extend([line.as_str(), "\n"]);
                let event = serde_json::from_str::<Value>(&line).unwrap_or_default();
                if event["type"] == "step-started" && event["step"] == "faults/slow" {
                    return anyhow::Ok(true);
                }
            }
            Ok(false)
        };
        let began = timeout(ENOUGH, began).await.context("the slow step did not begin")??;
        ensure!(began, "the run ended before the slow step:\n{seen}");
        Ok(Self { child, lines, seen })
    }

    async fn interrupt(&self) -> Result<()> {
        let pid = self.child.id().context("it has ended")?.to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().await?;
        ensure!(sent.success(), "it has ended");
        Ok(())
    }

    async fn end(mut self) -> Result<Run> {
        let end = async {
            while let Some(line) = self.lines.next_line().await? {
                self.seen.extend([line.as_str(), "\n"]);
            }
            let mut stdout = String::new();
            self.child.stdout.take().context("no output")?.read_to_string(&mut stdout).await?;
            anyhow::Ok((self.child.wait().await?, stdout))
        };
        let (status, stdout) = timeout(ENOUGH, end).await.context("the run does not end")??;
        Ok(Run { code: status.code().context("a signal ended it")?, stdout, stderr: self.seen })
    }
}

/// Whether the next run goes on and ends with both steps made.
async fn converges(faults: &Faults, file: &Path, host: &str) -> Result<()> {
    apply(file, &["--until", "prepare", "--host", host]).await?.expect(0)?;
    faults.root(host, "ls /var/tmp/slow /var/tmp/next").await?;
    Ok(())
}

async fn ctrl_c(faults: &Faults, file: &Path, host: &str) -> Result<()> {
    let run = Running::start(file, host).await?;
    run.interrupt().await?;
    let run = run.end().await?.expect(130)?;
    says(&run, host, &["stopped before the step faults/next", "it goes on where this one stopped"])?;
    let made = faults.root(host, "ls /var/tmp").await?;
    ensure!(made.contains("slow") && !made.contains("next"), "made are {made}");
    converges(faults, file, host).await
}

async fn ctrl_c_twice(faults: &Faults, file: &Path, host: &str) -> Result<()> {
    let run = Running::start(file, host).await?;
    let began = Instant::now();
    run.interrupt().await?;
    sleep(Duration::from_millis(100)).await;
    run.interrupt().await?;
    run.end().await?.expect(130)?;
    ensure!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    converges(faults, file, host).await
}

async fn second_run(file: &Path, host: &str) -> Result<()> {
    let first = Running::start(file, host).await?;
    let owner = format!("(process {})", first.child.id().context("it has ended")?);
    let second = apply(file, &["--until", "prepare", "--host", host]).await?.expect(13)?;
    says(&second, host, &[&owner, "has been changing this host for", "wait for it"])?;
    first.end().await?.expect(0).map(drop)
}

async fn reboot(faults: &Faults, file: &Path, host: &str) -> Result<()> {
    let run = Running::start(file, host).await?;
    faults.fleet.lab.reboot(host).await?;
    let run = run.end().await?;
    ensure!([0, 12, 13].contains(&run.code), "exit code {}:\n{}", run.code, run.stderr);
    if run.code != 0 {
        says(&run, host, &[""])?;
    }
    converges(faults, file, host).await
}

async fn dead_link(faults: &Faults, file: &Path, host: &str) -> Result<()> {
    let run = Running::start(file, host).await?;
    faults.fleet.lab.cut_link(host).await?;
    sleep(Duration::from_secs(8)).await;
    faults.fleet.lab.restore_link(host).await?;
    run.end().await?.expect(0)?;
    converges(faults, file, host).await
}
