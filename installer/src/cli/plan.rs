//! `hostspan plan`: what `apply` would change.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;
use super::session::{Plans, Until};
use super::{check, findings, hosts};
use crate::cluster::{self, FleetPlan, HostPlan};
use crate::engine::{PhasePlan, StepPlan, Verdict};
use crate::exit::Exit;
use crate::host::preflight::{Severity, worst};
use crate::progress::human;
use crate::progress::paint::Paint;

/// Show what apply would change, host by host; changes nothing
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  hostspan plan
  hostspan plan --host kvm-03
  hostspan plan --exit-code -q               2 when changes are pending, 0 when there are none")]
pub struct Plan {
    /// Exit with 2 when changes are pending
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    until: Until,
}

impl Plan {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let plans = Plans::read(ctx)?.until(&self.until);
        let display = ctx.display();
        let planned = async {
            let session = plans.connect(ctx, &display.events()).await?;
            let found = check::of(&session);
            let plan = cluster::plan(&session).await?;
            Ok::<_, Failure>((session, found, plan))
        }
        .await;
        display.finish().await;
        let (session, found, plan) = planned?;
        let pending = plan.changes();
        if ctx.json() {
            Context::print_json(&as_json(&plan))?;
        } else {
            Context::print(&(render(&plan, ctx.paint) + "\n" + &total(&plan, ctx.paint)));
        }
        if worst(&found) == Some(Severity::Block) && !ctx.json() {
            let blocking: Vec<_> = found.into_iter().filter(|f| f.severity == Severity::Block).collect();
            Context::print(&format!("\n{}", findings::render(&blocking, ctx.paint)));
            Context::print("apply will not start before what is blocked is mended");
        }
        let errors = plan.hosts.iter().filter_map(|(name, plan)| Some((name, plan.as_ref().err()?)));
        match hosts::failure(errors.chain(&session.failed)) {
            Some(failure) => Err(failure),
            None if self.exit_code && pending > 0 => Ok(Exit::ChangesPending),
            None => Ok(Exit::Done),
        }
    }
}

/// Every step that would change something, under its host and phase.
pub(super) fn render(plan: &FleetPlan, paint: Paint) -> String {
    let mut text = String::new();
    for (name, planned) in &plan.hosts {
        match planned {
            Ok(planned) => host(&mut text, name, planned, paint),
            Err(_) => {
                let _ = writeln!(text, "{}  {}", paint.bold(name), paint.red("cannot be planned, see below"));
            }
        }
    }
    text
}

fn host(text: &mut String, name: &str, plan: &HostPlan, paint: Paint) {
    let changes = plan.changes();
    let count = if changes == 0 { paint.dim("no change") } else { human::count(changes, "change") };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}  {count}", paint.bold(name));
    for phase in plan.phases.iter().filter(|phase| changes_of(phase) > 0) {
        let _ = writeln!(text, "  {}", paint.cyan(&phase.phase));
        for step in &phase.steps {
            self::step(text, step, paint);
        }
    }
}

fn step(text: &mut String, step: &StepPlan, paint: Paint) {
    let Verdict::Change { summary, diff } = &step.verdict else { return };
    let _ = writeln!(text, "    {}  {}", step.title, paint.dim(&step.id));
    for line in summary {
        let _ = writeln!(text, "      {}", coloured(line, paint));
    }
    for line in diff.iter().flat_map(|diff| diff.lines()) {
        let _ = writeln!(text, "        {}", coloured(line, paint));
    }
}

fn coloured(line: &str, paint: Paint) -> String {
    match line.as_bytes().first() {
        Some(b'+') => paint.green(line),
        Some(b'-') => paint.red(line),
        Some(b'~') => paint.yellow(line),
        Some(b'@') => paint.cyan(line),
        _ => line.to_owned(),
    }
}

fn changes_of(phase: &PhasePlan) -> usize {
    phase.steps.iter().filter(|step| step.verdict != Verdict::Ok).count()
}

/// One line a host: how much each phase would change.
pub(super) fn overview(plan: &FleetPlan, paint: Paint) -> String {
    let width = plan.hosts.keys().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (name, planned) in &plan.hosts {
        let name = paint.bold(&format!("{name:<width$}"));
        let what = match planned {
            Ok(planned) if planned.changes() == 0 => paint.dim("no change"),
            Ok(planned) => {
                let phases = planned.phases.iter().filter(|phase| changes_of(phase) > 0);
                let phases: Vec<String> =
                    phases.map(|phase| format!("{} {}", phase.phase, changes_of(phase))).collect();
                format!("{:>10}: {}", human::count(planned.changes(), "change"), phases.join(", "))
            }
            Err(_) => paint.red("cannot be planned"),
        };
        let _ = writeln!(text, "  {name}  {what}");
    }
    text
}

/// The last line of a plan.
pub(super) fn total(plan: &FleetPlan, paint: Paint) -> String {
    let changing = plan.hosts.values().flatten().filter(|host| host.changes() > 0).count();
    let hosts = human::count(plan.hosts.len(), "host");
    let text = if plan.changes() == 0 {
        format!("No change: what could be planned of {hosts} is as wanted")
    } else {
        format!("{} on {changing} of {hosts}; `hostspan apply` makes them", human::count(plan.changes(), "change"))
    };
    paint.bold(&text)
}

fn as_json(plan: &FleetPlan) -> Value {
    let hosts: serde_json::Map<String, Value> = plan
        .hosts
        .iter()
        .map(|(name, planned)| {
            let value = match planned {
                Ok(planned) => json!({"changes": planned.changes(), "phases": planned}),
                Err(error) => json!({"error": hosts::problem(name, error)}),
            };
            (name.clone(), value)
        })
        .collect();
    let failed = plan.hosts.values().filter(|planned| planned.is_err()).count();
    json!({"changes": plan.changes(), "failed": failed, "hosts": hosts})
}
