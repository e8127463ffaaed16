//! A lab that was brought up by the product's own `lab up`, and the product's own commands on it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hostspan::lab::{Lab, LabStatus};
use serde_json::Value;
use tokio::process::Command;

use crate::binary;
use crate::kubectl::Kubectl;

/// A lab and its fleet file.
#[derive(Debug)]
pub struct LabFleet {
    /// The lab.
    pub lab: Lab,
    /// As it was when opened.
    pub status: LabStatus,
    /// Its artifact folder.
    pub artifacts: PathBuf,
}

/// How a run of the product ended, with its JSON lines.
#[derive(Debug)]
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error: events as JSON lines with `-o json`.
    pub stderr: String,
}

impl Run {
    /// The last JSON value on standard output.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout)
            .or_else(|_| serde_json::from_str(self.stdout.lines().last().unwrap_or_default()))
            .with_context(|| format!("no JSON on standard output:\n{}\n{}", self.stdout, self.stderr))
    }

    /// Fails with everything that was printed unless the exit code is `code`.
    pub fn expect(self, code: i32) -> Result<Self> {
        ensure!(self.code == code, "exit code {} instead of {code}\n{}\n{}", self.code, self.stdout, self.stderr);
        Ok(self)
    }

    /// The events of a kind, in order.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let lines = self.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|event| event["type"] == kind).collect()
    }
}

/// `hostspan ARGS` as the user who runs the tests, killed when it is dropped.
pub fn hostspan_command<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Command {
    let mut command = Command::new(binary::path());
    command.args(args).stdin(std::process::Stdio::null()).kill_on_drop(true);
    command
}

/// Runs `hostspan ARGS`.
pub async fn hostspan<A: AsRef<std::ffi::OsStr>>(args: &[A]) -> Result<Run> {
    let output = hostspan_command(args).output().await?;
    Ok(Run {
        code: output.status.code().context("hostspan was ended by a signal")?,
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}

impl LabFleet {
    /// `hostspan lab up --hosts-only`: hosts and files, nothing converted yet.
    pub async fn up(name: &str, args: &[&str]) -> Result<Self> {
        crate::labs::note(name)?;
        let mut all = vec!["lab", "up", "--name", name, "--yes", "--hosts-only", "--no-progress"];
        all.extend(args);
        hostspan(&all).await?.expect(0)?;
        Self::open(name)
    }

    /// A lab that is up.
    pub fn open(name: &str) -> Result<Self> {
        let lab = Lab::open(name)?;
        let status = lab.status();
        let text = std::fs::read_to_string(&status.fleet_file)?;
        let path = text.lines().find_map(|line| line.trim().strip_prefix("path: ")).context("no artifacts path")?;
        Ok(Self { lab, artifacts: Path::new(path.trim_matches(['"', '\''])).to_owned(), status })
    }

    /// Adds a user's own playbook to the fleet file.
    pub fn add_playbook(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.status.state_dir.join(name), text)?;
        let mut fleet = hostspan::fleet::load(&self.status.fleet_file)?.fleet;
        fleet.spec.playbooks.push(name.into());
        std::fs::write(&self.status.fleet_file, hostspan::fleet::render_fleet(&fleet))?;
        Ok(())
    }

    /// `hostspan COMMAND -f FLEET -o json ARGS`.
    pub async fn run(&self, command: &str, args: &[&str]) -> Result<Run> {
        hostspan(&self.with_file(&[&[command], args].concat())).await
    }

    /// `ARGS` with this lab's fleet file and JSON asked for.
    pub fn with_file(&self, args: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        all.extend(["-f".to_owned(), self.status.fleet_file.to_string_lossy().into_owned()]);
        all.extend(["-o".to_owned(), "json".to_owned()]);
        all
    }

    /// The hosts' names.
    pub fn hosts(&self) -> Vec<String> {
        self.status.hosts.iter().map(|host| host.name.clone()).collect()
    }

    /// kubectl with the cluster's admin credentials, fetched by `hostspan kubeconfig`.
    pub async fn kubectl(&self) -> Result<Kubectl> {
        let file = self.status.kubeconfig.to_string_lossy().into_owned();
        self.run("kubeconfig", &["--file", &file]).await?.expect(0)?;
        Ok(Kubectl::new(&self.artifacts, &self.status.kubeconfig))
    }

    /// Reboots every host at once.
    pub async fn reboot(&self) -> Result<()> {
        let hosts = self.hosts();
        let all = hosts.iter().map(|host| self.lab.reboot(host));
        for result in futures::future::join_all(all).await {
            result?;
        }
        Ok(())
    }

    /// `hostspan lab down`.
    pub async fn down(&self) -> Result<()> {
        hostspan(&["lab", "down", "--name", &self.status.name, "--yes"]).await?.expect(0).map(drop)
    }
}
