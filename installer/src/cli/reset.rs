//! `hostspan reset`: back to what a host was before its conversion.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::context::Context;
use super::failure::Failure;
use super::hosts;
use super::session::Plans;
use crate::cluster::{HostError, Session};
use crate::engine::{self, each};
use crate::exit::Exit;
use crate::progress::paint::Paint;
use crate::progress::{Event, Events, human};

/// Restore what the journal on each host recorded
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Lists what it will restore and asks first; without a terminal it wants --yes. Virtual machines and
pods on the host are lost.

Examples:
  hostspan reset --host kvm-03
  hostspan reset --yes")]
pub struct Reset {}

/// What became of each host.
type Ended<T> = BTreeMap<String, Result<T, Arc<HostError>>>;

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
        let mut ended: Ended<usize> = BTreeMap::new();
        if entries > 0 {
            let what = human::count(entries, "thing");
            if !ctx.confirm(&format!("Take back these {what}, with all pods and virtual machines there?")).await? {
                return Err(Failure::new(Exit::Interrupted, "nothing was changed: the answer was no"));
            }
            let display = ctx.display();
            ended = undo(ctx, &session, &listed, &display.events()).await;
            display.finish().await;
        }
        for (name, listed) in listed {
            ended.entry(name).or_insert(listed.map(|_| 0));
        }
        if ctx.json() {
            Context::print_json(&as_json(&ended))?;
        } else {
            let restored: usize = ended.values().flatten().sum();
            let hosts = human::count(ended.len(), "host");
            let text = format!("{} taken back on {hosts}", human::count(restored, "thing"));
            Context::print(&ctx.paint.bold(&text));
        }
        let errors = ended.iter().filter_map(|(name, ended)| Some((name, ended.as_ref().err()?)));
        hosts::failure(errors).map_or(Ok(Exit::Done), Err)
    }
}

async fn list(session: &Session) -> Ended<Vec<String>> {
    let chosen = session.chosen.iter().filter(|name| session.connected.contains_key(*name)).cloned();
    let listed = each(chosen, session.parallel, |name| async move {
        let connected = session.connected.get(&name).ok_or(HostError::NotThere { host: name })?;
        Ok(engine::undo_plan(connected.remote.as_ref()).await?)
    });
    let mut listed: Ended<_> = listed.await.into_iter().map(|(name, l)| (name, l.map_err(Arc::new))).collect();
    for (name, error) in session.failed.iter().filter(|(name, _)| session.chosen.contains(*name)) {
        listed.insert(name.clone(), Err(Arc::clone(error)));
    }
    listed
}

/// Workers first: their undo steps may need the control plane.
async fn undo(ctx: &Context, session: &Session, listed: &Ended<Vec<String>>, events: &Events) -> Ended<usize> {
    let control_plane = session.control_plane().map(|host| host.name.clone()).unwrap_or_default();
    let named: BTreeSet<String> = listed
        .iter()
        .filter(|(_, listed)| listed.as_ref().is_ok_and(|entries| !entries.is_empty()))
        .map(|(name, _)| name.clone())
        .collect();
    let (last, first): (Vec<String>, Vec<String>) = named.into_iter().partition(|name| *name == control_plane);
    let mut ended = BTreeMap::new();
    for names in [first, last] {
        let wave = each(names, session.parallel, |name| async move {
            events.send(Event::HostJoined { host: name.clone() });
            let connected = session.connected.get(&name).ok_or_else(|| HostError::NotThere { host: name.clone() })?;
            let undone = engine::undo(connected.remote.as_ref(), events, &ctx.cancel).await;
            let summary = match &undone {
                Ok(restored) => format!("{} taken back", human::count(*restored, "thing")),
                Err(error) => error.to_string(),
            };
            events.send(Event::HostFinished { host: name, ok: undone.is_ok(), summary });
            Ok(undone?)
        });
        ended.extend(wave.await.into_iter().map(|(name, undone)| (name, undone.map_err(Arc::new))));
    }
    ended
}

fn render(listed: &Ended<Vec<String>>, paint: Paint) -> String {
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

fn as_json(ended: &Ended<usize>) -> Value {
    let hosts: serde_json::Map<String, Value> = ended
        .iter()
        .map(|(name, ended)| {
            let value = match ended {
                Ok(restored) => json!({"restored": restored, "ok": true}),
                Err(error) => json!({"restored": 0, "ok": false, "error": hosts::problem(name, error)}),
            };
            (name.clone(), value)
        })
        .collect();
    let failed = ended.values().filter(|ended| ended.is_err()).count();
    json!({"restored": ended.values().flatten().sum::<usize>(), "failed": failed, "hosts": hosts})
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

    #[test]
    fn json_counts_what_was_restored() {
        let ended = BTreeMap::from([("a".to_owned(), Ok(2)), ("b".to_owned(), Ok(0))]);
        assert_eq!(
            as_json(&ended),
            json!({"restored": 2, "failed": 0, "hosts": {
                "a": {"restored": 2, "ok": true}, "b": {"restored": 0, "ok": true}}})
        );
    }
}
