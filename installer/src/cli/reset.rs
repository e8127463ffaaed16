//! `hostspan reset`: back to what a host was before its conversion.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use clap::Args;

use super::context::Context;
use super::failure::Failure;
use super::outcome;
use super::session::Plans;
use crate::cluster::{self, FleetOutcome, HostEnd, HostError, HostOutcome, Session};
use crate::engine::{self, each};
use crate::exit::Exit;
use crate::progress::paint::Paint;
use crate::progress::{Event, human};

/// Restore what the journal on each host recorded
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Lists what it will restore and asks first; without a terminal it wants --yes. Virtual machines and
pods on the host are lost.

Examples:
  hostspan reset --host kvm-03
  hostspan reset --yes")]
pub struct Reset {}

/// What there is to take back by host, or why that cannot be told.
type Listed = BTreeMap<String, Result<Vec<String>, Arc<HostError>>>;

impl Reset {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let plans = Plans::read(ctx)?;
        let display = ctx.display();
        let listed = async {
            let session = plans.connect(ctx, &display.events()).await?;
            let listed = list(&session).await;
            Ok::<_, Failure>((session, listed))
        }
        .await;
        display.finish().await;
        let (session, listed) = listed?;

        let entries: usize = listed.values().flatten().map(Vec::len).sum();
        if !ctx.json() && !ctx.global.quiet {
            Context::print(&render(&listed, ctx.paint));
        }
        let ended = if entries > 0 {
            let what = human::count(entries, "thing");
            if !ctx.confirm(&format!("Take back these {what}, with all pods and virtual machines there?")).await? {
                return Err(Failure::new(Exit::Interrupted, "nothing was changed: the answer was no"));
            }
            let display = ctx.display();
            let events = display.events();
            for host in session.connected.keys().filter(|name| session.chosen.contains(*name)) {
                events.send(Event::HostJoined { host: host.clone() });
            }
            let ended = cluster::reset(&session, &events, &ctx.cancel).await;
            display.finish().await;
            ended?
        } else {
            let end = |listed: Result<_, Arc<HostError>>| listed.map_or_else(HostEnd::Failed, |_| HostEnd::Done);
            let hosts = listed.into_iter().map(|(name, l)| (name, HostOutcome { changed: 0, end: end(l) }));
            FleetOutcome { hosts: hosts.collect() }
        };
        if ctx.json() {
            Context::print_json(&outcome::as_json(&ended))?;
        } else {
            let hosts = human::count(ended.hosts.len(), "host");
            let text = format!("{} taken back on {hosts}", human::count(ended.changed(), "thing"));
            Context::print(&ctx.paint.bold(&text));
        }
        outcome::failure(&ended).map_or(Ok(Exit::Done), Err)
    }
}

async fn list(session: &Session) -> Listed {
    let chosen = session.chosen.iter().filter(|name| session.connected.contains_key(*name)).cloned();
    let listed = each(chosen, session.parallel, |name| async move {
        let connected = session.connected.get(&name).ok_or(HostError::NotThere { host: name })?;
        Ok(engine::undo_plan(connected.remote.as_ref()).await?)
    });
    let mut listed: Listed = listed.await.into_iter().map(|(name, l)| (name, l.map_err(Arc::new))).collect();
    for (name, error) in session.failed.iter().filter(|(name, _)| session.chosen.contains(*name)) {
        listed.insert(name.clone(), Err(Arc::clone(error)));
    }
    listed
}

fn render(listed: &Listed, paint: Paint) -> String {
    let mut text = String::new();
    for (name, entries) in listed {
        // Writing to a String cannot fail.
        let _ = match entries {
            Ok(entries) if entries.is_empty() => {
                writeln!(text, "{}  {}", paint.bold(name), paint.dim("hostspan has changed nothing here"))
            }
            Ok(entries) => writeln!(text, "{}  {}", paint.bold(name), human::count(entries.len(), "thing")),
            Err(_) => writeln!(text, "{}  {}", paint.bold(name), paint.red("cannot be asked, see below")),
        };
        for entry in entries.iter().flatten() {
            let _ = writeln!(text, "  {entry}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_every_entry_and_hosts_that_were_never_touched() {
        let listed = BTreeMap::from([
            ("a".to_owned(), Ok(vec!["~ restore /etc/fstab".to_owned(), "- remove /etc/x".to_owned()])),
            ("b".to_owned(), Ok(Vec::new())),
        ]);
        assert_eq!(
            render(&listed, Paint::plain()),
            "a  2 things\n  ~ restore /etc/fstab\n  - remove /etc/x\nb  hostspan has changed nothing here\n"
        );
    }
}
