//! `hostspan lab`: throwaway hosts on this machine, to try everything without a server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::context::Context;
use super::failure::Failure;
use super::session::Plans;
use super::{apply, kubeconfig};
use crate::artifacts;
use crate::cluster;
use crate::engine::Stop;
use crate::exit::Exit;
use crate::fleet::model::Kubernetes;
use crate::lab::components::{self, ComponentError};
use crate::lab::{self, LabError, LabStatus, Options};
use crate::progress::Events;
use crate::progress::paint::Paint;

/// Make throwaway hosts on this machine, convert them, take them away
#[derive(Debug, Clone, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  hostspan lab up --yes
  hostspan lab status -o json
  hostspan lab down"
)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    Up(Up),
    Status(Status),
    Down(Down),
}

/// Make the hosts and convert them; on a lab that is there it goes on where it stopped
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Needs root. Installs the Debian packages that it names, after asking. What the hosts run is
downloaded, or built with Go where upstream's downloads cannot be reached: minutes the first time.

Examples:
  hostspan lab up --yes
  hostspan lab up --name two --hosts 2 --os debian-13
  hostspan lab up --kind vm --hosts 2 --yes
  hostspan lab up --hosts-only               hosts to run `hostspan apply` on yourself")]
struct Up {
    #[command(flatten)]
    name: Name,

    /// How many hosts; the first one gets the control plane
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=80))]
    hosts: u8,

    /// Containers (fast) or virtual machines (their own kernel)
    #[arg(long, default_value = "container")]
    kind: Kind,

    /// What the hosts run; several are taken in turn
    #[arg(long, value_delimiter = ',', default_value = "debian-12")]
    os: Vec<Os>,

    /// Only make the hosts, do not convert them
    #[arg(long)]
    hosts_only: bool,
}

/// Show a lab: its hosts, fleet file and kubeconfig
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  hostspan lab status\n  hostspan lab status -o json | jq -r .fleetFile")]
struct Status {
    #[command(flatten)]
    name: Name,
}

/// Take a lab away with everything that belongs to it, whatever state it is in
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  hostspan lab down --name two")]
struct Down {
    #[command(flatten)]
    name: Name,
}

#[derive(Debug, Clone, Args)]
struct Name {
    /// Which lab
    #[arg(long, default_value = "lab")]
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Container,
    Vm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Os {
    #[value(name = "debian-12")]
    Debian12,
    #[value(name = "debian-13")]
    Debian13,
}

impl Lab {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        match &self.command {
            Command::Up(up) => up.run(ctx).await,
            Command::Status(status) => status.run(ctx),
            Command::Down(down) => down.run(ctx).await,
        }
    }
}

impl Up {
    async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let options = self.options()?;
        install(ctx, &lab::missing_packages(options.kind)).await?;
        // The hosts first: what is wrong with this machine shows within a minute, not after the components were built.
        let lab = self.shown(ctx, async |events| Ok(lab::up_hosts(&options, &events).await?)).await?;
        let status = lab.status();
        if !self.hosts_only {
            if let Some(folder) = &options.artifacts {
                self.components(ctx, folder).await?;
            }
            self.convert(ctx, &status).await?;
        }
        if ctx.json() {
            Context::print_json(&status)?;
        } else {
            Context::print(&next(&status, !self.hosts_only, ctx.paint));
        }
        Ok(Exit::Done)
    }

    fn options(&self) -> Result<Options, Failure> {
        let cache = artifacts::cache_dir().map_err(|error| Failure::new(Exit::PreflightBlocked, error.to_string()))?;
        Ok(Options {
            hosts: usize::from(self.hosts),
            kind: match self.kind {
                Kind::Container => lab::Kind::Container,
                Kind::Vm => lab::Kind::Vm,
            },
            os: self
                .os
                .iter()
                .map(|os| match os {
                    Os::Debian12 => lab::Os::Debian12,
                    Os::Debian13 => lab::Os::Debian13,
                })
                .collect(),
            artifacts: Some(cache.join("lab-artifacts")),
            ..Options::new(&self.name.name)
        })
    }

    /// Makes the artifact folder. Which packages that takes is known only once it is clear that the components must be
    /// built.
    async fn components(&self, ctx: &Context, folder: &Path) -> Result<(), Failure> {
        let version = Kubernetes::default().version;
        let ensure = async |events: Events| Ok(components::ensure_folder(folder, &version, &events).await);
        match self.shown(ctx, ensure).await? {
            Err(ComponentError::Packages { missing }) => {
                let missing: Vec<String> = missing.split_whitespace().map(Into::into).collect();
                install(ctx, &missing).await?;
                self.shown(ctx, ensure).await??;
            }
            other => drop(other?),
        }
        Ok(())
    }

    /// Does `work` with its progress shown, until Ctrl-C.
    async fn shown<T>(&self, ctx: &Context, work: impl AsyncFn(Events) -> Result<T, Failure>) -> Result<T, Failure> {
        let display = ctx.display();
        let done = tokio::select! {
            done = work(display.events()) => done,
            () = ctx.cancel.reached(Stop::AfterStep) => Err(Failure::interrupted().help(format!(
                "`hostspan lab up --name {0}` goes on, `hostspan lab down --name {0}` takes it away", self.name.name
            ))),
        };
        display.finish().await;
        done
    }

    async fn convert(&self, ctx: &Context, status: &LabStatus) -> Result<(), Failure> {
        // The lab's hosts exist to be converted: whoever asked for it has agreed.
        let mut yes = ctx.clone();
        yes.global.yes = true;
        let session = apply::converge(&yes, Plans::of(ctx, &status.fleet_file, &[])?).await?;
        kubeconfig::write(&status.kubeconfig, &cluster::kubeconfig(&session).await?)
    }
}

/// Installs packages on this machine, after asking.
async fn install(ctx: &Context, missing: &[String]) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !ctx.confirm(&format!("Install the Debian packages {names} on this machine?")).await? {
        return Err(Failure::new(Exit::PreflightBlocked, format!("the lab needs the packages {names}"))
            .help(format!("apt-get install --no-install-recommends {names}")));
    }
    let display = ctx.display();
    let installed = lab::install_packages(missing, &display.events()).await;
    display.finish().await;
    Ok(installed?)
}

impl Status {
    fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let name = &self.name.name;
        let Some(status) = lab::status(name) else {
            return Err(LabError::Missing(name.clone()).into());
        };
        if ctx.json() {
            Context::print_json(&status)?;
        } else {
            Context::print(&render(&status, ctx.paint));
        }
        Ok(Exit::Done)
    }
}

impl Down {
    async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let display = ctx.display();
        let removed = lab::down(&self.name.name, &display.events()).await;
        display.finish().await;
        let text = if removed? { "is gone" } else { "was not there; nothing is left of it" };
        if !ctx.json() {
            Context::print(&format!("the lab {} {text}", self.name.name));
        }
        Ok(Exit::Done)
    }
}

fn render(status: &LabStatus, paint: Paint) -> String {
    let state = if status.ready { paint.green("ready") } else { paint.yellow("not ready: only `lab down` is left") };
    let mut text = format!("{}  {state}\n", paint.bold(&status.name));
    for host in &status.hosts {
        let up = if host.alive { paint.green("up  ") } else { paint.red("down") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:<10} {up} {:<15} {}", host.name, host.address.to_string(), host.os.title());
    }
    let _ = writeln!(text, "fleet file  {}", status.fleet_file.display());
    if status.kubeconfig.exists() {
        let _ = writeln!(text, "kubeconfig  {}", status.kubeconfig.display());
    }
    text
}

/// What there is now and what to type next.
fn next(status: &LabStatus, converted: bool, paint: Paint) -> String {
    let mut text = render(status, paint);
    let fleet = status.fleet_file.display();
    let commands: Vec<String> = if converted {
        let kubectl = kubectl(status);
        vec![
            format!("{kubectl} get nodes"),
            format!("hostspan plan -f {fleet}"),
            format!("hostspan lab down --name {}", status.name),
        ]
    } else {
        vec![format!("hostspan check -f {fleet}"), format!("hostspan apply -f {fleet}")]
    };
    text.push_str("next:\n");
    for command in commands {
        let _ = writeln!(text, "  {}", paint.cyan(&command));
    }
    text
}

/// kubectl of this machine where there is one, else the first host's own.
fn kubectl(status: &LabStatus) -> String {
    let on_path = |folder: PathBuf| folder.join("kubectl").is_file();
    let here = std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(on_path));
    match status.hosts.first() {
        Some(host) if !here => format!(
            "ssh -i {} -o UserKnownHostsFile={} {}@{} sudo kubectl --kubeconfig /etc/kubernetes/admin.conf",
            status.identity_file.display(),
            status.known_hosts.display(),
            host.user,
            host.address
        ),
        _ => format!("kubectl --kubeconfig {}", status.kubeconfig.display()),
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let exit = match &error {
            LabError::Name { .. } | LabError::Hosts { .. } | LabError::Missing(_) | LabError::Exists { .. } => {
                Exit::Usage
            }
            LabError::NotRoot | LabError::MissingPackages(_) | LabError::NoSubnet => Exit::PreflightBlocked,
            LabError::NotUp { .. } => Exit::Unreachable,
            _ => Exit::StepFailed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<ComponentError> for Failure {
    fn from(error: ComponentError) -> Self {
        let exit = match &error {
            ComponentError::Command { .. } | ComponentError::Apt(_) | ComponentError::Artifact(_) => Exit::StepFailed,
            _ => Exit::PreflightBlocked,
        };
        Self::new(exit, error.to_string())
    }
}
