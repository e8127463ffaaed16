//! `hostspan apply`: plan, ask, change.

use std::sync::Arc;

use clap::Args;

use super::context::Context;
use super::failure::{Failure, Problem};
use super::session::{Plans, Until};
use super::{check, findings, outcome, plan};
use crate::cluster::{self, FleetOutcome, FleetPlan, HostEnd, HostError, HostOutcome, Session};
use crate::exit::Exit;
use crate::host::preflight::{Finding, Severity, worst};
use crate::progress::human;

/// Convert the hosts: plan, ask, change; a second run changes nothing
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Nothing is changed while preflight blocks on any chosen host. A host that fails does not stop the
others. Interrupted or failed, run it again: it goes on where it stopped.

Examples:
  hostspan apply
  hostspan apply --yes --host kvm-03
  hostspan apply --yes -o json | jq .changed")]
pub struct Apply {
    #[command(flatten)]
    until: Until,
}

impl Apply {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        converge(ctx, Plans::read(ctx)?.until(&self.until)).await?;
        Ok(Exit::Done)
    }
}

/// Plans, asks, changes, prints what became of it; gives the session for what else there is to ask of the hosts.
pub(super) async fn converge(ctx: &Context, plans: Plans) -> Result<Session, Failure> {
    let display = ctx.display();
    let planned = async {
        let session = plans.connect(ctx, &display.events()).await?;
        let mut found = check::of(&session);
        let block = |found: &[Finding]| worst(found) == Some(Severity::Block);
        if block(&found) {
            return Err(blocked(found));
        }
        let plan = cluster::plan(&session).await?;
        if plan.changes() > 0 {
            found.extend(check::mesh(&session).await);
        }
        if block(&found) { Err(blocked(found)) } else { Ok((session, found, plan)) }
    }
    .await;
    display.finish().await;
    let (session, found, plan) = planned?;
    let ended = if plan.changes() == 0 {
        unchanged(plan)
    } else {
        agree(ctx, &found, &plan).await?;
        let display = ctx.display();
        let outcome = cluster::apply(&session, plan, &display.events(), &ctx.cancel).await;
        display.finish().await;
        outcome?
    };
    tell(ctx, &ended)?;
    match outcome::failure(&ended) {
        Some(failure) => Err(failure),
        None => Ok(session),
    }
}

/// Shows what would be done and asks.
async fn agree(ctx: &Context, found: &[Finding], plan: &FleetPlan) -> Result<(), Failure> {
    if !ctx.json() && !ctx.global.quiet {
        Context::print(&findings::render(found, ctx.paint));
        Context::print(&plan::overview(plan, ctx.paint));
    }
    let changes = human::count(plan.changes(), "change");
    if ctx.confirm(&format!("Make these {changes}? (`hostspan plan` shows each)")).await? {
        return Ok(());
    }
    Err(Failure::new(Exit::Interrupted, "nothing was changed: the answer was no"))
}

/// Preflight blocks: each finding is a problem of its own, so that it shows like every other error.
fn blocked(found: Vec<Finding>) -> Failure {
    let problems = found.into_iter().filter(|f| f.severity == Severity::Block).map(|finding| {
        let acknowledge = if finding.acknowledgeable {
            format!("\nor add `{}` to spec.acknowledge of the fleet file", finding.id)
        } else {
            String::new()
        };
        Problem {
            host: (!finding.hosts.is_empty()).then(|| finding.hosts.join(", ")),
            message: finding.title,
            detail: finding.detail,
            help: Some(finding.fix + &acknowledge),
        }
    });
    Failure { exit: Exit::PreflightBlocked, problems: problems.collect() }
}

/// The outcome of a run that has nothing to do.
fn unchanged(plan: FleetPlan) -> FleetOutcome {
    let end = |planned: Result<_, Arc<HostError>>| planned.map_or_else(HostEnd::Failed, |_| HostEnd::Done);
    let hosts = plan.hosts.into_iter().map(|(name, planned)| (name, HostOutcome { changed: 0, end: end(planned) }));
    FleetOutcome { hosts: hosts.collect() }
}

fn tell(ctx: &Context, ended: &FleetOutcome) -> Result<(), Failure> {
    if ctx.json() {
        return Context::print_json(&outcome::as_json(ended));
    }
    let done = ended.hosts.values().filter(|host| matches!(host.end, HostEnd::Done)).count();
    let hosts = human::count(ended.hosts.len(), "host");
    let text = match ended.changed() {
        0 if ended.ok() => format!("Unchanged: {hosts} as wanted"),
        changed => format!("{} made; {done} of {hosts} as wanted", human::count(changed, "change")),
    };
    Context::print(&ctx.paint.bold(&text));
    Ok(())
}
