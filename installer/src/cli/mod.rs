//! The command line: one file a command. Results go to standard output, everything else to standard error.

mod apply;
mod check;
mod completion;
mod context;
mod demo;
mod failure;
mod file;
mod findings;
mod hosts;
mod init;
mod kubeconfig;
mod lab;
mod man;
mod outcome;
mod plan;
mod reset;
mod secrets;
mod session;
mod status;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, Parser, Subcommand};

use self::context::Context;
pub use self::context::{Format, GlobalArgs};
pub use self::failure::{Failure, Problem};
pub use self::secrets::restore_terminal;
use crate::engine::Cancel;
use crate::exit::Exit;

/// The program's name.
const NAME: &str = "hostspan";
/// Help is never wider than this many columns.
const WIDTH: usize = 100;

/// Turns plain Ubuntu and Debian KVM hosts into a KubeVirt infra cluster over SSH
#[derive(Debug, Clone, Parser)]
#[command(name = NAME, version, max_term_width = WIDTH, subcommand_required = true,
    arg_required_else_help = true, disable_help_subcommand = true, disable_help_flag = true, after_help = "\
A fleet file says which hosts there are and what is wanted of them. `check` looks whether they can
be converted, `plan` shows what would change, `apply` changes it, `reset` takes it back. `lab` makes
throwaway hosts on this machine to try all of it.

Examples:
  hostspan lab up --yes                      three throwaway hosts here, converted
  hostspan check && hostspan apply           convert the hosts of ./fleet.yaml
  hostspan plan --host kvm-03 -o json        what would change on one host, for a program

Exit codes: 0 done, 1 a bug, 2 changes pending (plan --exit-code), 10 fleet file or playbook,
11 preflight blocked, 12 host unreachable or host key, 13 a step failed, 14 rolled back, 64 usage,
130 interrupted")]
pub struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    Init(init::Init),
    Check(check::Check),
    Plan(plan::Plan),
    Apply(apply::Apply),
    Status(status::Status),
    Kubeconfig(kubeconfig::Kubeconfig),
    Reset(reset::Reset),
    Lab(lab::Lab),
    Completion(completion::Completion),
    Man(man::Man),
    #[command(hide = true)]
    Demo(demo::Demo),
}

/// The whole command line as clap has it, for completion, manual pages and the reference.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the arguments. `Err` is what to exit with at once: after `--help` and `--version`, or after wrong usage.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    Cli::try_parse_from(args).map_err(|error| {
        // Nobody is left to tell when even this cannot be written.
        drop(error.print());
        if error.use_stderr() { Exit::Usage } else { Exit::Done }
    })
}

/// Runs a command and says what to exit with. Errors have been shown by then.
pub async fn run(cli: Cli, cancel: Cancel) -> Exit {
    let ctx = Context::new(cli.global, cancel);
    log(&ctx);
    let outcome = match cli.command {
        Command::Init(cmd) => cmd.run(&ctx).await,
        Command::Check(cmd) => cmd.run(&ctx).await,
        Command::Plan(cmd) => cmd.run(&ctx).await,
        Command::Apply(cmd) => cmd.run(&ctx).await,
        Command::Status(cmd) => cmd.run(&ctx).await,
        Command::Kubeconfig(cmd) => cmd.run(&ctx).await,
        Command::Reset(cmd) => cmd.run(&ctx).await,
        Command::Lab(cmd) => cmd.run(&ctx).await,
        Command::Completion(cmd) => Ok(cmd.run()),
        Command::Man(cmd) => cmd.run(),
        Command::Demo(cmd) => cmd.run(&ctx).await,
    };
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            let text = if ctx.json() { failure.json() + "\n" } else { failure.render(ctx.paint_err) };
            drop(write!(std::io::stderr(), "{text}"));
            failure.exit
        }
    }
}

/// Our log goes to standard error from `-vv` on, at which there are no bars that it could tear. Other crates' logs stay
/// out before `-vvvv`: at their finest they print what goes over the wire.
fn log(ctx: &Context) {
    let filter = match ctx.global.verbose {
        0 | 1 => return,
        2 => "warn,hostspan=debug",
        3 => "info,hostspan=trace",
        _ => "debug,hostspan=trace",
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(ctx.paint_err != crate::progress::paint::Paint::plain())
        .finish();
    // Set once a process; a second call (tests in one process) keeps the first.
    drop(tracing::subscriber::set_global_default(subscriber));
}
