//! `hostspan check`: can these hosts be converted? Changes nothing.

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::failure::Failure;
use super::session::Plans;
use super::{findings, hosts};
use crate::cluster::Session;
use crate::exit::Exit;
use crate::host::mesh;
use crate::host::preflight::{Finding, Severity, preflight, worst};
use crate::ssh::Remote;

/// Look whether the hosts can be converted; changes nothing
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
BLOCKED stops `apply`; WILL FIX is changed by `apply` after it has asked; WARNING stops nothing.
Exit code 11 when something blocks, 12 when a host cannot be reached.

Examples:
  hostspan check
  hostspan check --host kvm-02 -o json")]
pub struct Check {}

impl Check {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let plans = Plans::read(ctx)?;
        let display = ctx.display();
        let looked = async {
            let session = plans.connect(ctx, &display.events()).await?;
            let mut found = of(&session);
            found.extend(mesh(&session).await);
            found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
            Ok::<_, Failure>((session, found))
        }
        .await;
        display.finish().await;
        let (session, found) = looked?;
        let blocked = worst(&found) == Some(Severity::Block);
        if ctx.json() {
            Context::print_json(&json!({"blocked": blocked, "findings": found}))?;
        } else {
            Context::print(&findings::render(&found, ctx.paint));
            Context::print(&ctx.paint.bold(&findings::verdict(&found, session.connected.len())));
        }
        match hosts::failure(&session.failed) {
            Some(failure) => Err(failure),
            None if blocked => Ok(Exit::PreflightBlocked),
            None => Ok(Exit::Done),
        }
    }
}

/// Whether the hosts reach each other. Costs a round trip a host, so it is left out where nothing is going to change.
pub(super) async fn mesh(session: &Session) -> Vec<Finding> {
    let remotes: Vec<&dyn Remote> = session.connected.values().map(|host| host.remote.as_ref()).collect();
    mesh::check(&session.fleet, &remotes).await
}

/// Findings about the chosen hosts and about the fleet as a whole.
pub(super) fn of(session: &Session) -> Vec<Finding> {
    let facts = session.connected.iter().map(|(name, host)| (name.clone(), host.facts.clone())).collect();
    let mut found = preflight(&session.fleet, &facts);
    found.retain(|finding| finding.hosts.is_empty() || finding.hosts.iter().any(|h| session.chosen.contains(h)));
    found
}
