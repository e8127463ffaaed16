//! The lab's own kubectl against the lab's own cluster.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// kubectl with a kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// From the artifact folder of the lab.
    pub fn new(artifacts: &Path, kubeconfig: &Path) -> Self {
        Self { program: artifacts.join("kubectl"), kubeconfig: kubeconfig.to_owned() }
    }

    /// What `kubectl ARGS` prints.
    pub async fn text(&self, args: &[&str]) -> Result<String> {
        self.run(args, None).await
    }

    /// What `kubectl ARGS -o json` prints.
    pub async fn json(&self, args: &[&str]) -> Result<Value> {
        let mut args = args.to_vec();
        args.extend(["-o", "json"]);
        Ok(serde_json::from_str(&self.run(&args, None).await?)?)
    }

    /// `kubectl apply` of a manifest.
    pub async fn apply(&self, manifest: &str) -> Result<()> {
        self.run(&["apply", "-f", "-"], Some(manifest)).await.map(drop)
    }

    /// What a shell command prints in a pod.
    pub async fn exec(&self, pod: &str, command: &str) -> Result<String> {
        self.run(&["exec", pod, "--", "sh", "-c", command], None).await
    }

    async fn run(&self, args: &[&str], input: Option<&str>) -> Result<String> {
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--request-timeout=30s")
            .args(args)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            stdin.write_all(input.as_bytes()).await?;
        }
        let output = child.wait_with_output().await?;
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
