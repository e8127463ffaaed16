//! `hostspan kubeconfig`: the cluster's admin credentials.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::context::Context;
use super::failure::Failure;
use super::session::Plans;
use super::{file, hosts};
use crate::cluster::{self, KubeconfigError};
use crate::exit::Exit;
use crate::secret::Secret;

/// Print the cluster's admin kubeconfig, or write it to a file
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Cluster, user and context are called after the fleet; your own kubeconfig is not touched.

Examples:
  hostspan kubeconfig --file kvm-a.kubeconfig && kubectl --kubeconfig kvm-a.kubeconfig get nodes
  hostspan kubeconfig > kvm-a.kubeconfig")]
pub struct Kubeconfig {
    /// Write it there, readable only by you (0600)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Kubeconfig {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let plans = Plans::read(ctx)?.control_plane_only()?;
        let display = ctx.display();
        let session = plans.connect(ctx, &display.events()).await;
        let fetched = match &session {
            Ok(session) => cluster::kubeconfig(session).await.map_err(Failure::from),
            Err(failure) => Err(failure.clone()),
        };
        display.finish().await;
        if let Some(failure) = hosts::failure(&session?.failed) {
            return Err(failure);
        }
        let kubeconfig = fetched?;
        match &self.file {
            Some(file) => write(file, &kubeconfig)?,
            None => Context::print(kubeconfig.expose()),
        }
        Ok(Exit::Done)
    }
}

/// Writes it for this user only.
pub(super) fn write(to: &Path, kubeconfig: &Secret) -> Result<(), Failure> {
    let written = file::write(to, kubeconfig.expose(), 0o600);
    written.with_context(|| format!("cannot write {}", to.display())).map_err(Failure::from)
}

impl From<KubeconfigError> for Failure {
    fn from(error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::Fleet(error) => error.into(),
            KubeconfigError::Remote(error) => error.into(),
            KubeconfigError::NotConnected(_) => Self::new(Exit::Unreachable, error.to_string()),
            KubeconfigError::NotThere(_) | KubeconfigError::Unreadable { .. } => {
                Self::new(Exit::StepFailed, error.to_string())
            }
        }
    }
}
