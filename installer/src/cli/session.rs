//! From the fleet file to hosts that answer: what every command that talks to hosts begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use clap::builder::PossibleValuesParser;
use hostspan_playbooks::yaml;
use miette::Diagnostic as _;

use super::context::Context;
use super::failure::{Failure, Problem};
use super::secrets::Secrets;
use crate::artifacts::Store;
use crate::cluster::book::Book;
use crate::cluster::phases::{self, PHASES, Phase};
use crate::cluster::{self, Connected, HostError, Session};
use crate::engine::{Stop, each};
use crate::exit::Exit;
use crate::fleet::model::{Fleet, Host, Role};
use crate::fleet::{self, FleetError, Loaded};
use crate::host::gather;
use crate::progress::{Event, Events};
use crate::ssh::{Dialer, Options, Remote, Target};

/// The fleet file and what it names on this machine.
pub(super) struct Plans {
    pub loaded: Loaded,
    book: Book,
    store: Store,
    chosen: BTreeSet<String>,
    phases: &'static [Phase],
    secrets: Secrets,
}

/// How far a run goes; for the commands that go through phases.
#[derive(Debug, Clone, Args)]
pub(super) struct Until {
    /// Stop after this phase; a later run goes on from there
    #[arg(long, value_name = "PHASE", value_parser = PossibleValuesParser::new(PHASES.iter().map(|p| p.name)))]
    until: Option<String>,
}

impl Plans {
    /// Reads the fleet file, the playbooks and the artifact source, and takes the passwords. No network.
    pub(super) fn read(ctx: &Context) -> Result<Self, Failure> {
        Self::of(ctx, &ctx.global.fleet, &ctx.global.host)
    }

    /// The same for a given fleet file and hosts (all where `only` is empty).
    pub(super) fn of(ctx: &Context, file: &Path, only: &[String]) -> Result<Self, Failure> {
        let loaded = fleet::load(file)?;
        let wrong = |message: String| Failure::new(Exit::FleetFile, message);
        let book = Book::load(&loaded.fleet.spec.playbooks, &loaded.dir).map_err(|e| wrong(e.to_string()))?;
        let store = Store::open(&loaded.fleet, &loaded.dir).map_err(|e| wrong(e.to_string()))?;
        let chosen = choose(&loaded.fleet, only)?;
        Ok(Self { loaded, book, store, chosen, phases: &PHASES, secrets: Secrets::collect(ctx)? })
    }

    /// The same for a run that stops early.
    pub(super) fn until(self, until: &Until) -> Self {
        let phases = until.until.as_deref().and_then(phases::until).unwrap_or(self.phases);
        Self { phases, ..self }
    }

    /// The same for the control plane alone, for commands that need no other host.
    pub(super) fn control_plane_only(self) -> Result<Self, Failure> {
        let control_plane = cluster::control_plane(&self.loaded.fleet)?.name.clone();
        Ok(Self { chosen: BTreeSet::from([control_plane]), ..self })
    }

    /// Connects to the chosen hosts and reads their facts. The control plane is connected to also where it is not chosen:
    /// its record of pod networks counts. A host that cannot be reached does not hinder the others.
    pub(super) async fn connect(self, ctx: &Context, events: &Events) -> Result<Session, Failure> {
        let fleet = self.loaded.fleet;
        let options = Options { accept_new: ctx.global.accept_new, ..Options::of_this_user(&self.loaded.dir) };
        let dialer = Dialer::new(Arc::new(self.secrets));
        let hosts: Vec<&Host> = fleet
            .spec
            .hosts
            .iter()
            .filter(|host| self.chosen.contains(&host.name) || host.roles.contains(&Role::ControlPlane))
            .collect();
        for host in hosts.iter().filter(|host| self.chosen.contains(&host.name)) {
            events.send(Event::HostJoined { host: host.name.clone() });
        }
        let names = hosts.iter().map(|host| host.name.clone());
        let parallel = usize::from(ctx.global.parallel);
        let all = each(names, parallel, |name| {
            let host = hosts.iter().find(|host| host.name == name).copied();
            let (fleet, dialer, options) = (&fleet, Arc::clone(&dialer), &options);
            async move {
                let host = host.ok_or(HostError::NotThere { host: name })?;
                connect(fleet, host, &dialer, options, events).await
            }
        });
        let ended = tokio::select! {
            ended = all => ended,
            () = ctx.cancel.reached(Stop::AfterStep) => return Err(Failure::interrupted()),
        };
        let (mut connected, mut failed) = (BTreeMap::new(), BTreeMap::new());
        for (name, outcome) in ended {
            match outcome {
                Ok(host) => drop(connected.insert(name, host)),
                Err(error) => drop(failed.insert(name, Arc::new(error))),
            }
        }
        Ok(Session {
            fleet,
            chosen: self.chosen,
            connected,
            failed,
            store: self.store,
            book: self.book,
            phases: self.phases,
            parallel,
        })
    }
}

/// Connects to one host and reads its facts.
pub(super) async fn connect(
    fleet: &Fleet,
    host: &Host,
    dialer: &Arc<Dialer>,
    options: &Options,
    events: &Events,
) -> Result<Connected, HostError> {
    let (target, warnings) = Target::resolve(fleet, host, options)?;
    for message in warnings {
        events.send(Event::Warning { host: Some(host.name.clone()), message });
    }
    let remote: Arc<dyn Remote> = dialer.connect(target).await?;
    events.send(Event::Connected { host: host.name.clone() });
    let facts = gather(remote.as_ref()).await?;
    Ok(Connected { remote, facts })
}

/// The hosts of `--host`, or all.
fn choose(fleet: &Fleet, only: &[String]) -> Result<BTreeSet<String>, Failure> {
    let all: BTreeSet<String> = fleet.spec.hosts.iter().map(|host| host.name.clone()).collect();
    if let Some(name) = only.iter().find(|name| !all.contains(*name)) {
        let help = match yaml::nearest(name, all.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("it has {}", all.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::usage(format!("the fleet file has no host {name}")).help(help));
    }
    Ok(if only.is_empty() { all } else { only.iter().cloned().collect() })
}

/// Every finding with its place and the line it is in.
impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        let FleetError::Bad { bad, source_text } = &error else {
            let failure = Self::new(Exit::FleetFile, error.to_string());
            return match error.help() {
                Some(help) => failure.help(help.to_string()),
                None => failure,
            };
        };
        let problems = bad.findings.iter().map(|finding| {
            let path = if finding.path.is_empty() { String::new() } else { format!("{}: ", finding.path) };
            let place = finding.place.map_or(String::new(), |place| format!(":{place}"));
            Problem {
                host: None,
                message: format!("{}{place}: {path}{}", bad.file, finding.message),
                detail: finding.place.map_or(String::new(), |place| excerpt(source_text.inner(), place)),
                help: finding.help.clone(),
            }
        });
        Self { exit: Exit::FleetFile, problems: problems.collect() }
    }
}

/// The line of a place, with a mark below the word that is meant. Long lines and control characters are not shown.
fn excerpt(text: &str, place: yaml::Place) -> String {
    let line = text.lines().nth(place.line - 1).unwrap_or_default();
    if line.trim().is_empty() || line.chars().count() > 120 || line.chars().any(char::is_control) {
        return String::new();
    }
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let before = " ".repeat(place.column - 1);
    let word = line.chars().skip(place.column - 1).take_while(|c| !" ,]}:".contains(*c)).count().max(1);
    format!("{number} | {line}\n{margin} | {before}{}", "^".repeat(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::paint::Paint;

    const FLEET: &str = "apiVersion: hostspan.dev/v1alpha1
kind: Fleet
metadata: {name: kvm-a}
spec:
  hosts:
    - {name: kvm-01, address: 192.0.2.11, roles: [control-plane]}
    - {name: kvm-02, address: 192.0.2.12}
";

    fn fleet() -> Fleet {
        fleet::parse("fleet.yaml", FLEET.as_bytes(), Path::new("/")).unwrap().fleet
    }

    #[test]
    fn a_mistyped_host_is_wrong_usage_with_the_nearest_name() {
        let error = choose(&fleet(), &["kvm-2".into()]).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert_eq!(
            error.render(Paint::plain()),
            "error: the fleet file has no host kvm-2\n  help: did you mean kvm-02?\n"
        );
    }

    #[test]
    fn without_host_all_are_chosen() {
        assert_eq!(choose(&fleet(), &[]).unwrap().len(), 2);
        assert_eq!(choose(&fleet(), &["kvm-02".into()]).unwrap(), BTreeSet::from(["kvm-02".into()]));
    }

    #[test]
    fn a_fault_in_the_fleet_file_is_shown_in_its_line() {
        let text = FLEET.replace("address: 192.0.2.12", "adress: 192.0.2.12");
        let error = fleet::parse("fleet.yaml", text.as_bytes(), Path::new("/")).unwrap_err();
        let failure = Failure::from(error);
        assert_eq!(failure.exit, Exit::FleetFile);
        let shown = failure.render(Paint::plain());
        assert!(shown.starts_with("error: fleet.yaml:7:22: "), "{shown}");
        assert!(
            shown.contains("\n  7 |     - {name: kvm-02, adress: 192.0.2.12}\n    |                      ^^^^^^\n"),
            "{shown}"
        );
    }
}
