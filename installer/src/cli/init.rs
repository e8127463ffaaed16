//! `hostspan init`: writes a fleet file from what the hosts themselves say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use hostspan_manifests::names::API_VERSION;
use serde_json::json;

use super::context::Context;
use super::failure::Failure;
use super::secrets::Secrets;
use super::{file, hosts, session};
use crate::cluster::HostError;
use crate::engine::each;
use crate::exit::Exit;
use crate::fleet::model::{Artifacts, Fleet, Host, Kubernetes, Metadata, Network, Role, Runtime, Spec, Ssh, Uplink};
use crate::fleet::{self, KIND, STDIN, render_fleet};
use crate::host::facts::Facts;
use crate::host::preflight::node_name;
use crate::progress::Event;
use crate::ssh::{Dialer, Options};

/// Write a fleet file from hosts that it connects to
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Asks for what is not given. The first host gets the control plane. Names come from the hosts' own.

Examples:
  hostspan init --name kvm-a --user ubuntu 192.0.2.11 192.0.2.12
  hostspan init -f racks/b.yaml --jump ops@bastion.example.test 192.0.2.21")]
pub struct Init {
    /// Addresses of the hosts
    addresses: Vec<IpAddr>,

    /// The fleet's name, which becomes the cluster's
    #[arg(long)]
    name: Option<String>,

    /// Login name on the hosts
    #[arg(long)]
    user: Option<String>,

    /// Private key to log in with (repeatable)
    #[arg(long, value_name = "FILE")]
    identity: Vec<PathBuf>,

    /// Jump host, `[user@]host[:port]` (repeatable, in order)
    #[arg(long, value_name = "HOST")]
    jump: Vec<String>,

    /// Overwrite a fleet file that is there
    #[arg(long)]
    force: bool,
}

impl Init {
    pub(super) async fn run(&self, ctx: &Context) -> Result<Exit, Failure> {
        let path = &ctx.global.fleet;
        if path.as_os_str() == STDIN {
            return Err(Failure::usage("init writes a file: `-f -` does not go with it"));
        }
        if path.exists() && !self.force {
            return Err(Failure::usage(format!("{} is there already", path.display()))
                .help("pass --force to overwrite it, or -f FILE to write another one"));
        }
        let mut fleet = self.draft(ctx).await?;
        let facts = self.facts(ctx, &fleet).await?;
        settle(&mut fleet, &facts);
        let text = render_fleet(&fleet);
        // What it would not accept itself must not be written.
        let dir = std::env::current_dir().map_err(anyhow::Error::from)?;
        fleet::parse(&path.display().to_string(), text.as_bytes(), &dir)?;
        file::write(path, &text, 0o644)
            .map_err(|error| Failure::new(Exit::FleetFile, format!("{} cannot be written: {error}", path.display())))?;
        if ctx.json() {
            let names: Vec<&str> = fleet.spec.hosts.iter().map(|host| host.name.as_str()).collect();
            Context::print_json(&json!({"fleetFile": path, "hosts": names}))?;
        } else {
            Context::print(&format!("wrote {}\nnext: {}", path.display(), ctx.paint.cyan("hostspan check")));
        }
        Ok(Exit::Done)
    }

    /// A fleet whose hosts are called after their addresses.
    async fn draft(&self, ctx: &Context) -> Result<Fleet, Failure> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ctx.ask("Name of the fleet (it becomes the cluster's):", "pass --name").await?,
        };
        let mut addresses = self.addresses.clone();
        if addresses.is_empty() {
            let text =
                ctx.ask("Addresses of the hosts, the control plane first:", "name them: hostspan init ADDRESS...");
            for word in text.await?.split([' ', ',']).filter(|word| !word.is_empty()) {
                let wrong = |_| Failure::usage(format!("`{word}` is not an IP address"));
                addresses.push(word.parse().map_err(wrong)?);
            }
        }
        let unique: BTreeSet<IpAddr> = addresses.iter().copied().collect();
        if addresses.is_empty() || unique.len() != addresses.len() {
            return Err(Failure::usage("init needs at least one address, each only once"));
        }
        let host = |(index, address): (usize, IpAddr)| Host {
            name: address.to_string(),
            address,
            roles: if index == 0 { vec![Role::ControlPlane, Role::Worker] } else { vec![Role::Worker] },
            uplink: Uplink::default(),
            ssh: Ssh::default(),
        };
        let here = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Ok(Fleet {
            api_version: API_VERSION.into(),
            kind: KIND.into(),
            metadata: Metadata { name },
            spec: Spec {
                ssh: Ssh {
                    user: self.user.clone(),
                    identity_files: self.identity.iter().map(here).collect(),
                    jump: self.jump.clone(),
                    ..Ssh::default()
                },
                hosts: addresses.into_iter().enumerate().map(host).collect(),
                network: Network::default(),
                kubernetes: Kubernetes::default(),
                runtime: Runtime::default(),
                artifacts: Artifacts::default(),
                playbooks: Vec::new(),
                acknowledge: Vec::new(),
            },
        })
    }

    /// Facts by address. One host that cannot be read stops it: a fleet file with guesses would be worse than none.
    async fn facts(&self, ctx: &Context, fleet: &Fleet) -> Result<BTreeMap<String, Facts>, Failure> {
        let dir = std::env::current_dir().map_err(anyhow::Error::from)?;
        let options = Options { accept_new: ctx.global.accept_new, ..Options::of_this_user(&dir) };
        let dialer = Dialer::new(Arc::new(Secrets::collect(ctx)?));
        let display = ctx.display();
        let events = &display.events();
        let names: Vec<String> = fleet.spec.hosts.iter().map(|host| host.name.clone()).collect();
        for host in &names {
            events.send(Event::HostJoined { host: host.clone() });
        }
        let read = each(names, usize::from(ctx.global.parallel), |name| {
            let host = fleet.spec.hosts.iter().find(|host| host.name == name);
            let (dialer, options) = (&dialer, &options);
            async move {
                let host = host.ok_or(HostError::NotThere { host: name })?;
                session::connect(fleet, host, dialer, options, events).await.map(|connected| connected.facts)
            }
        })
        .await;
        display.finish().await;
        let (mut facts, mut failed) = (BTreeMap::new(), BTreeMap::new());
        for (name, read) in read {
            match read {
                Ok(read) => drop(facts.insert(name, read)),
                Err(error) => drop(failed.insert(name, Arc::new(error))),
            }
        }
        hosts::failure(&failed).map_or(Ok(facts), Err)
    }
}

/// Names the hosts after themselves, where their names can be node names and differ; else after their place in the list.
fn settle(fleet: &mut Fleet, facts: &BTreeMap<String, Facts>) {
    let mut taken = BTreeSet::new();
    for (index, host) in fleet.spec.hosts.iter_mut().enumerate() {
        let own = facts.get(&host.name).map(|facts| facts.hostname.split('.').next().unwrap_or_default());
        let own = own.and_then(|name| node_name(name).ok()).filter(|name| !taken.contains(name));
        host.name = own.unwrap_or_else(|| format!("host-{:02}", index + 1));
        taken.insert(host.name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(addresses: &[&str]) -> Fleet {
        let hosts: Vec<_> = addresses.iter().map(|a| json!({"name": a, "address": a})).collect();
        let text =
            json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "a"}, "spec": {"hosts": hosts}});
        serde_json::from_value(text).unwrap()
    }

    fn names(hostnames: [&str; 3]) -> Vec<String> {
        let addresses = ["192.0.2.11", "192.0.2.12", "192.0.2.13"];
        let mut fleet = fleet(&addresses);
        let facts = |name: &str| Facts { hostname: name.into(), ..Facts::default() };
        let facts = addresses.iter().zip(hostnames).map(|(a, name)| ((*a).to_owned(), facts(name))).collect();
        settle(&mut fleet, &facts);
        fleet.spec.hosts.into_iter().map(|host| host.name).collect()
    }

    #[test]
    fn hosts_are_called_by_their_own_short_lower_case_names() {
        assert_eq!(names(["kvm1.lab.example.test", "KVM2", "kvm3"]), ["kvm1", "kvm2", "kvm3"]);
    }

    #[test]
    fn a_name_that_is_taken_or_cannot_be_a_nodes_becomes_a_number() {
        assert_eq!(names(["debian", "debian", "node_3"]), ["debian", "host-02", "host-03"]);
    }
}
