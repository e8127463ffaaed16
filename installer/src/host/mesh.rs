//! Whether every host reaches every other on the ports that nodes need. For `check` and the first `apply`; a later run has
//! the nodes themselves as proof.
//!
//! Nothing listens yet before the conversion. A refused connection is good enough: the packet went there and an answer
//! came back. A firewall that answers with a port-unreachable looks the same and is not seen.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use futures::future::join_all;

use super::preflight::{Finding, Severity, ports, settle};
use crate::fleet::model::{Fleet, Host};
use crate::ssh::{Remote, Request};

const TIMEOUT: Duration = Duration::from_secs(30);
const SSH: u16 = 22;

/// How an attempt to connect ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// Connected, or refused by the other host.
    Reached,
    /// No answer.
    Silent,
    /// An error, in the system's words: `No route to host`.
    Failed(String),
}

/// What a host tells of its attempts; the text says why there are none.
type Attempts = Result<BTreeMap<(IpAddr, u16), Outcome>, String>;

/// Lets every host of `remotes` try to reach every other of them, all at once, in one round trip each. A host that this
/// machine does not reach is told elsewhere, and does not stop the others.
pub async fn check(fleet: &Fleet, remotes: &[&dyn Remote]) -> Vec<Finding> {
    let host = |remote: &&dyn Remote| fleet.spec.hosts.iter().find(|host| host.name == remote.host());
    let hosts: Vec<&Host> = remotes.iter().filter_map(host).collect();
    let asked = remotes.iter().filter_map(|remote| {
        let (host, script) = (host(remote)?, script(fleet, host(remote)?, &hosts));
        Some(async move { (host, ask(*remote, &script).await) })
    });
    judge(fleet, &join_all(asked).await)
}

async fn ask(remote: &dyn Remote, script: &str) -> Attempts {
    let request = Request { script, root: false, timeout: TIMEOUT };
    let finished = remote.run(request, &mut |_| {}).await.map_err(|error| error.message)?;
    match finished.code {
        0 => Ok(parse(&finished.stdout)),
        _ => Err(finished.stderr.trim().to_owned()),
    }
}

/// Ports of `to` that `from` connects to, and SSH's, which tells a firewall from a host that is not reached at all.
fn targets(fleet: &Fleet, from: &Host, to: &Host) -> (Vec<u16>, u16) {
    let ssh = to.ssh.port.or(fleet.spec.ssh.port).unwrap_or(SSH);
    (ports::between(&from.roles, &to.roles), ssh)
}

/// A plain host has neither nc nor Python; bash can connect.
fn script(fleet: &Fleet, from: &Host, hosts: &[&Host]) -> String {
    let mut script = String::from(
        "for tool in bash timeout; do
  command -v \"$tool\" >/dev/null || { echo \"$tool is not installed\" >&2; exit 1; }
done
try() {
  said=$(LC_ALL=C timeout 2 bash -c \"exec 3<>/dev/tcp/$1/$2\" 2>&1)
  printf 'try\\t%s\\t%s\\t%s\\t%s\\n' \"$1\" \"$2\" $? \"${said##*: }\"
}
",
    );
    for to in hosts.iter().filter(|to| to.name != from.name) {
        let (ports, ssh) = targets(fleet, from, to);
        for port in ports.into_iter().chain([ssh]) {
            _ = writeln!(script, "try {} {port} &", to.address);
        }
    }
    script.push_str("wait\n");
    script
}

fn parse(answer: &str) -> BTreeMap<(IpAddr, u16), Outcome> {
    let attempt = |line: &str| {
        let mut fields = line.strip_prefix("try\t")?.split('\t');
        let target = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let outcome = match (fields.next()?, fields.next()?) {
            ("0", _) | (_, "Connection refused") => Outcome::Reached,
            ("124", _) => Outcome::Silent,
            (_, said) => Outcome::Failed(said.to_owned()),
        };
        Some((target, outcome))
    };
    answer.lines().filter_map(attempt).collect()
}

fn judge(fleet: &Fleet, asked: &[(&Host, Attempts)]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (from, attempts) in asked {
        if let Err(why) = attempts {
            found.push(
                Finding::new(Severity::Warn, "mesh-unknown", "what this host reaches is not known")
                    .on(&from.name)
                    .detail(why.clone())
                    .fix("mend that, then run check again"),
            );
        }
    }
    for (to, _) in asked {
        // Hosts that fail alike are one finding: it is then the target that is closed.
        let mut alike: BTreeMap<(String, String), Vec<&Host>> = BTreeMap::new();
        for (from, attempts) in asked.iter().filter(|(from, _)| from.name != to.name) {
            if let Some(failure) = attempts.as_ref().ok().and_then(|attempts| failure(fleet, from, to, attempts)) {
                alike.entry(failure).or_default().push(from);
            }
        }
        for ((ports, why), from) in alike {
            let names: Vec<&str> = from.iter().map(|host| host.name.as_str()).collect();
            let addresses: Vec<String> = from.iter().map(|host| host.address.to_string()).collect();
            let finding = Finding::new(
                Severity::Block,
                format!("mesh:{}", to.name),
                format!("{} of {} cannot be reached from {}", ports, to.name, names.join(", ")),
            )
            .on(&to.name)
            .detail(format!("{} at {}: {why}", to.name, to.address))
            .fix(format!(
                "let {} and any firewall on the way accept TCP {ports} from {}; `nft list ruleset` on {} shows its own rules",
                to.name,
                addresses.join(", "),
                to.name
            ))
            .acknowledgeable();
            found.push(names.into_iter().fold(finding, Finding::on));
        }
    }
    settle(found, &fleet.spec.acknowledge)
}

/// Which ports of `to` are closed to `from`, and why; `None` when all are reached.
fn failure(
    fleet: &Fleet,
    from: &Host,
    to: &Host,
    attempts: &BTreeMap<(IpAddr, u16), Outcome>,
) -> Option<(String, String)> {
    let (ports, ssh) = targets(fleet, from, to);
    let outcome = |port: u16| attempts.get(&(to.address, port)).unwrap_or(&Outcome::Silent);
    let closed: Vec<u16> = ports.iter().copied().filter(|port| *outcome(*port) != Outcome::Reached).collect();
    let said = match outcome(*closed.first()?) {
        Outcome::Failed(said) => said.as_str(),
        Outcome::Silent | Outcome::Reached => "no answer",
    };
    let why = if *outcome(ssh) == Outcome::Reached {
        format!("{said}, though port {ssh} answers: a firewall drops it")
    } else {
        format!("{said}, and none on port {ssh}: another network, a firewall, or a wrong address")
    };
    let list: Vec<String> = closed.iter().map(u16::to_string).collect();
    Some((format!("port {}", list.join(", ")), why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::local::Local;
    use crate::host::preflight::tests::fleet;

    fn judged(fleet: &Fleet, answers: &[(&str, &str)]) -> Vec<Finding> {
        let asked: Vec<_> = answers
            .iter()
            .map(|(name, answer)| {
                let host = fleet.spec.hosts.iter().find(|host| host.name == *name).unwrap();
                (host, Ok(parse(answer)))
            })
            .collect();
        judge(fleet, &asked)
    }

    fn answer(to: &str, outcomes: &[(u16, u8, &str)]) -> String {
        let line = |(port, code, said): &(u16, u8, &str)| format!("try\t{to}\t{port}\t{code}\t{said}\n");
        outcomes.iter().map(line).collect()
    }

    #[test]
    fn refused_is_reached() {
        let a = answer("192.0.2.12", &[(10250, 1, "Connection refused"), (22, 0, "")]);
        let b = answer("192.0.2.11", &[(10250, 0, ""), (6443, 1, "Connection refused"), (22, 0, "")]);
        assert_eq!(judged(&fleet(), &[("a", &a), ("b", &b)]), []);
    }

    #[test]
    fn a_firewall_is_told_from_a_host_that_is_away() {
        let b = answer("192.0.2.11", &[(10250, 1, "Connection refused"), (6443, 124, ""), (22, 0, "")]);
        let a = answer("192.0.2.12", &[(10250, 1, "No route to host"), (22, 1, "No route to host")]);
        let found = judged(&fleet(), &[("a", &a), ("b", &b)]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].id.as_str(), found[0].severity), ("mesh:a", Severity::Block));
        assert_eq!(found[0].title, "port 6443 of a cannot be reached from b");
        assert_eq!(found[0].detail, "a at 192.0.2.11: no answer, though port 22 answers: a firewall drops it");
        assert!(found[0].fix.starts_with("let a and any firewall on the way accept TCP port 6443 from 192.0.2.12;"));
        assert_eq!(found[0].hosts, ["a", "b"]);
        assert!(found[1].detail.starts_with("b at 192.0.2.12: No route to host, and none on port 22"));
    }

    #[test]
    fn hosts_that_fail_alike_are_one_finding_and_can_be_acknowledged() {
        let mut fleet = fleet();
        let third = Host { name: "c".into(), address: "192.0.2.13".parse().unwrap(), ..fleet.spec.hosts[1].clone() };
        fleet.spec.hosts.push(third);
        fleet.spec.acknowledge = vec!["mesh:a".into()];
        let closed = answer("192.0.2.11", &[(10250, 124, ""), (6443, 124, ""), (22, 124, "")]);
        let open = |to| answer(to, &[(10250, 0, ""), (22, 0, "")]);
        let (b, c) = (closed.clone() + &open("192.0.2.13"), closed + &open("192.0.2.12"));
        let a = open("192.0.2.12") + &open("192.0.2.13");
        let found = judged(&fleet, &[("a", &a), ("b", &b), ("c", &c)]);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].title, "port 10250, 6443 of a cannot be reached from b, c");
        assert_eq!(found[0].severity, Severity::Note);
    }

    #[test]
    fn a_host_that_could_not_try_is_named() {
        let fleet = fleet();
        let asked = [(&fleet.spec.hosts[0], Err("bash is not installed".to_owned()))];
        let found = judge(&fleet, &asked);
        assert_eq!((found[0].id.as_str(), found[0].detail.as_str()), ("mesh-unknown", "bash is not installed"));
    }

    /// The script for real: host `b` is this machine too, once with a listener and once without.
    #[tokio::test]
    async fn this_machine_tries() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut fleet = fleet();
        fleet.spec.hosts[1].address = "127.0.0.1".parse().unwrap();
        fleet.spec.hosts[1].ssh.port = Some(listener.local_addr().unwrap().port());
        let hosts: Vec<&Host> = fleet.spec.hosts.iter().collect();
        let attempts = ask(&Local, &script(&fleet, hosts[0], &hosts)).await.unwrap();
        assert_eq!(attempts.len(), 2, "{attempts:?}");
        assert!(attempts.values().all(|outcome| *outcome == Outcome::Reached), "{attempts:?}");
        assert_eq!(check(&fleet, &[&Local]).await, []);
    }
}
