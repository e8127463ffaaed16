//! Hosts as they really are: down, full, read-only, somebody else's, without sudo, with another key, rebooting. Each has its
//! own error, and the other hosts are finished all the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "test code")]

#[path = "host_faults/interrupted.rs"]
mod interrupted;
#[path = "host_faults/preflight.rs"]
mod preflight;
#[path = "host_faults/reach.rs"]
mod reach;
#[path = "host_faults/steps.rs"]
mod steps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use hostspan_tests::fleet::{LabFleet, Run, hostspan};
use hostspan_tests::scenario::Scenario;
use serde_json::{Value, json};

/// The lab with a folder for fleet files that differ from its own.
struct Faults {
    fleet: LabFleet,
    dir: tempfile::TempDir,
}

impl Faults {
    /// A fleet file like the lab's, changed by `edit`.
    fn fleet_file(&self, name: &str, edit: impl FnOnce(&mut Value)) -> Result<PathBuf> {
        let loaded = hostspan::fleet::load(&self.fleet.status.fleet_file)?;
        let mut fleet = serde_json::to_value(&loaded.fleet)?;
        edit(&mut fleet);
        prune(&mut fleet);
        let file = self.dir.path().join(name);
        // JSON is YAML.
        std::fs::write(&file, serde_json::to_string_pretty(&fleet)?)?;
        Ok(file)
    }

    /// Runs a script as root on a host.
    async fn root(&self, host: &str, script: &str) -> Result<String> {
        let command = format!("sudo -n sh -ec {}", hostspan::ssh::quote(script));
        self.fleet.lab.ssh(host, &command).await.with_context(|| format!("a script on {host}"))
    }

    /// Runs scripts as root on their hosts, all at once.
    async fn roots(&self, scripts: &[(&str, &str)]) -> Result<()> {
        try_join_all(scripts.iter().map(|(host, script)| self.root(host, script))).await.map(drop)
    }
}

/// What is not set must not be there: some keys exclude each other.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, value| !value.is_null() && *value != json!([]) && *value != json!({}));
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

/// A host's entry of a fleet file's JSON.
fn host_of<'a>(fleet: &'a mut Value, name: &str) -> &'a mut Value {
    let hosts = fleet["spec"]["hosts"].as_array_mut().unwrap();
    hosts.iter_mut().find(|host| host["name"] == name).unwrap()
}

/// `hostspan apply --yes -o json -f FILE ARGS`.
async fn apply(file: &Path, args: &[&str]) -> Result<Run> {
    hostspan(&apply_args(file, args)).await
}

fn apply_args(file: &Path, args: &[&str]) -> Vec<String> {
    let mut all = vec!["apply".to_owned(), "--yes".into(), "-o".into(), "json".into(), "-f".into()];
    all.push(file.display().to_string());
    all.extend(args.iter().map(|&arg| arg.to_owned()));
    all
}

/// `message | detail | help` of a host in the closing error of a run.
fn problem(run: &Run, host: &str) -> Result<String> {
    let errors = run.events("error");
    let error = errors.last().with_context(|| format!("no error:\n{}", run.stderr))?;
    let problems: Vec<&Value> =
        error["problems"].as_array().into_iter().flatten().filter(|p| p["host"] == host).collect();
    ensure!(problems.len() == 1, "{} problems of {host}: {error}", problems.len());
    let part = |key: &str| problems[0][key].as_str().unwrap_or_default().to_owned();
    Ok(format!("{} | {} | {}", part("message"), part("detail"), part("help")))
}

/// Whether each of `parts` is in the problem of a host.
fn says(run: &Run, host: &str, parts: &[&str]) -> Result<()> {
    let text = problem(run, host)?;
    for part in parts {
        ensure!(text.contains(part), "{host} does not say {part:?}: {text}");
    }
    Ok(())
}

/// Whether a run finished these hosts.
fn finished(run: &Run, hosts: &[&str]) -> Result<()> {
    let end = run.json()?;
    for host in hosts {
        ensure!(end["hosts"][host]["ok"] == true, "{host} is not finished: {end}\n{}", run.stderr);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut scenario = Scenario::new();
    let name = format!("faults-{}", std::process::id());
    let mut lab = None;
    scenario
        .must("lab_up", async {
            lab = Some(LabFleet::up(&name, &["--hosts", "8"]).await?);
            Ok(())
        })
        .await;
    if let Some(fleet) = lab {
        let faults = Faults { fleet, dir: tempfile::tempdir().unwrap() };
        preflight::story(&faults, &mut scenario).await;
        reach::story(&faults, &mut scenario).await;
        steps::story(&faults, &mut scenario).await;
        interrupted::story(&faults, &mut scenario).await;
        if std::env::var_os("HOSTSPAN_KEEP_LAB").is_none() {
            scenario.check("lab_down", faults.fleet.down()).await;
        }
    }
    scenario.finish()
}
