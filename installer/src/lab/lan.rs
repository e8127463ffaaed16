//! The lab's LAN: namespaces, bridges, cables, and one dnsmasq that is DHCP and DNS server.

use std::fs;
use std::path::Path;

use ipnet::Ipv4Net;

use super::dirs::LabDir;
use super::layout::{self, Layout, Spec};
use super::tool::Tools;
use super::{Kind, LabError, disk, processes};

/// First and last number of the addresses that DHCP gives to machines which the lab does not know: VMs of a cluster.
pub(super) const POOL: (u8, u8) = (100, 199);
/// dnsmasq's role, see `processes`.
const DNSMASQ: &str = "dnsmasq";
/// The bridges, inside the LAN's namespace: one for each NIC of a host.
const BRIDGES: [&str; 2] = ["lan", "second"];
/// Where `ip netns` keeps namespaces.
pub(super) const NETNS_DIR: &str = "/run/netns";

/// Networks of this machine that a lab must not overlap: everything with a route, which includes running labs.
pub(super) async fn taken(tools: &Tools) -> Result<Vec<Ipv4Net>, LabError> {
    let routes = tools.run("ip", &["-4", "route", "show", "table", "main"]).await?;
    Ok(routes.lines().filter_map(destination).collect())
}

fn destination(route: &str) -> Option<Ipv4Net> {
    let mut words = route.split_ascii_whitespace();
    let mut first = words.next()?;
    if matches!(first, "unreachable" | "blackhole" | "prohibit" | "throw" | "unicast") {
        first = words.next()?;
    }
    first.parse().ok().or_else(|| Some(Ipv4Net::from(first.parse::<std::net::Ipv4Addr>().ok()?)))
}

/// Makes the LAN and starts its dnsmasq.
pub(super) async fn create(
    tools: &Tools,
    dir: &LabDir,
    layout: &Layout,
    lab: &str,
    kind: Kind,
    hosts: &[Spec],
) -> Result<(), LabError> {
    let lan = layout.lan_netns();
    tools.run_with("ip", &["-batch", "-"], &outer_commands(layout, lab, kind, hosts)).await?;
    tools.run_with("ip", &["-netns", &lan, "-batch", "-"], &inner_commands(layout, kind, hosts)).await?;
    // Whatever this machine forwards for others, it forwards nothing for the lab.
    let forwarding = format!("/proc/sys/net/ipv4/conf/{}/forwarding", layout::admin_link(lab));
    fs::write(&forwarding, "0").map_err(LabError::io(format!("write {forwarding}")))?;

    let config = dir.path().join("dnsmasq.conf");
    disk::write(&config, &dnsmasq_config(layout, dir.path(), hosts))?;
    let netns = format!("--net={NETNS_DIR}/{lan}");
    let config = format!("--conf-file={}", config.display());
    let args = [netns.as_str(), "dnsmasq", "--keep-in-foreground", &config];
    let pid = tools.detach(DNSMASQ, "nsenter", &args, &dir.path().join("dnsmasq.log"))?;
    disk::write(&dir.path().join("dnsmasq.pid"), &pid.to_string())
}

/// Whether the LAN is there with its dnsmasq: after a reboot of this machine it is not.
pub(super) fn is_there(dir: &LabDir, lab: &str) -> bool {
    let pid = fs::read_to_string(dir.path().join("dnsmasq.pid")).ok().and_then(|p| p.parse().ok());
    Path::new(NETNS_DIR).join(layout::lan_netns(lab)).exists()
        && pid.is_some_and(|pid| processes::is(pid, lab, DNSMASQ))
}

/// Removes the LAN. The lab's processes must be dead, or their namespaces live on without a name.
pub(super) async fn remove(tools: &Tools, lab: &str) -> Result<(), LabError> {
    let link = layout::admin_link(lab);
    if Path::new("/sys/class/net").join(&link).exists() {
        // It goes with the LAN's namespace too, but only some time after that.
        tools.run("ip", &["link", "delete", &link]).await?;
    }
    let names: Vec<String> = fs::read_dir(NETNS_DIR)
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|name| layout::is_netns_of(lab, name))
        .collect();
    for name in names {
        if tools.run("ip", &["netns", "delete", &name]).await.is_err() {
            // Between making the name and mounting the namespace on it, `ip` was killed.
            let path = Path::new(NETNS_DIR).join(&name);
            fs::remove_file(&path).map_err(LabError::io(format!("remove {}", path.display())))?;
        }
    }
    Ok(())
}

/// `ip -batch` lines for this machine: the namespaces, and the cables between them.
fn outer_commands(layout: &Layout, lab: &str, kind: Kind, hosts: &[Spec]) -> String {
    let (lan, link) = (layout.lan_netns(), layout::admin_link(lab));
    let mut text = format!("netns add {lan}\n");
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("link add {link} type veth peer name admin netns {lan}"));
    line(format!("address add {}/24 dev {link}", layout.admin()));
    line(format!("link set {link} up"));
    if kind == Kind::Container {
        for host in hosts {
            let netns = layout.host_netns(&host.name);
            line(format!("netns add {netns}"));
            for (nic, mac) in host.macs.iter().enumerate() {
                let port = host.port(nic);
                line(format!("link add {port} netns {lan} type veth peer name eth{nic} address {mac} netns {netns}"));
            }
        }
    }
    text
}

/// `ip -batch` lines for inside the LAN's namespace.
fn inner_commands(layout: &Layout, kind: Kind, hosts: &[Spec]) -> String {
    let mut text = String::from("link set lo up\n");
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    for bridge in BRIDGES {
        line(format!("link add {bridge} type bridge"));
        line(format!("link set {bridge} up"));
    }
    line(format!("address add {}/24 dev {}", layout.gateway(), BRIDGES[0]));
    line(format!("address add {}/24 dev {}", second_server(layout), BRIDGES[1]));
    line(format!("link set admin master {} up", BRIDGES[0]));
    for host in hosts {
        for (nic, bridge) in BRIDGES.iter().enumerate() {
            let port = host.port(nic);
            if kind == Kind::Vm {
                line(format!("tuntap add dev {port} mode tap"));
            }
            line(format!("link set {port} master {bridge} up"));
        }
    }
    text
}

/// Unplugs a host's eth0 at the other end, or plugs it in again. The host keeps its carrier, as it does when a switch
/// behind the next one dies.
pub(super) async fn plug(tools: &Tools, layout: &Layout, host: &Spec, plugged: bool) -> Result<(), LabError> {
    let (lan, port) = (layout.lan_netns(), host.port(0));
    let mut args = vec!["-netns", &lan, "link", "set", &port];
    args.extend(if plugged { ["master", BRIDGES[0]].as_slice() } else { &["nomaster"] });
    tools.run("ip", &args).await?;
    Ok(())
}

/// dnsmasq's address on the second segment, where it is DHCP server only.
fn second_server(layout: &Layout) -> std::net::Ipv4Addr {
    let mut octets = layout.second().network().octets();
    octets[3] = 1;
    octets.into()
}

/// dnsmasq's configuration. It knows no other DNS server: unknown names do not exist.
fn dnsmasq_config(layout: &Layout, dir: &Path, hosts: &[Spec]) -> String {
    let domain = layout.domain();
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    for fixed in ["no-resolv", "no-hosts", "bind-interfaces", "except-interface=lo", "user=root", "pid-file="] {
        line(fixed.into());
    }
    line(format!("dhcp-leasefile={}", dir.join("dnsmasq.leases").display()));
    line(format!("domain={domain}"));
    line("dhcp-authoritative".into());
    line("address=/#/".into());
    for (bridge, net) in BRIDGES.iter().zip([layout.lan(), layout.second()]) {
        let [a, b, c, _] = net.network().octets();
        line(format!("interface={bridge}"));
        line(format!("dhcp-range=set:{bridge},{a}.{b}.{c}.{},{a}.{b}.{c}.{},255.255.255.0,12h", POOL.0, POOL.1));
    }
    line(format!("dhcp-option=tag:{},option:router,{}", BRIDGES[0], layout.gateway()));
    line(format!("dhcp-option=tag:{},option:dns-server,{}", BRIDGES[0], layout.gateway()));
    // An option without a value is not sent: the second segment has neither a way out nor names.
    line(format!("dhcp-option=tag:{},option:router", BRIDGES[1]));
    line(format!("dhcp-option=tag:{},option:dns-server", BRIDGES[1]));
    line(format!("host-record=gateway.{domain},gateway,{}", layout.gateway()));
    for host in hosts {
        let name = &host.name;
        line(format!("host-record={name}.{domain},{name},{}", host.address));
        for (mac, address) in host.macs.iter().zip([host.address, host.second_address]) {
            line(format!("dhcp-host={mac},{address}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Options;

    fn example() -> (Layout, Vec<Spec>) {
        let layout = Layout::new("demo", "10.130.4.0/22".parse().unwrap());
        let hosts = layout.hosts(&Options { hosts: 2, ..Options::new("demo") });
        (layout, hosts)
    }

    #[test]
    fn hosts_get_their_reserved_address_on_both_segments_and_a_name() {
        let (layout, hosts) = example();
        let config = dnsmasq_config(&layout, Path::new("/state"), &hosts);
        let line = |wanted: &str| assert!(config.lines().any(|l| l == wanted), "{wanted}\nnot in\n{config}");
        line("interface=lan");
        line("dhcp-range=set:lan,10.130.4.100,10.130.4.199,255.255.255.0,12h");
        line("dhcp-option=tag:lan,option:router,10.130.4.1");
        line("dhcp-option=tag:second,option:router");
        line("host-record=kvm-02.demo.internal,kvm-02,10.130.4.12");
        line(&format!("dhcp-host={},10.130.4.12", hosts[1].macs[0]));
        line(&format!("dhcp-host={},10.130.5.12", hosts[1].macs[1]));
    }

    #[test]
    fn only_the_admins_cable_is_in_this_machines_namespace() {
        let (layout, hosts) = example();
        let text = outer_commands(&layout, "demo", Kind::Container, &hosts);
        let here: Vec<&str> =
            text.lines().filter(|l| l.starts_with("link add") && !l.contains("netns hostspan-demo-lan type")).collect();
        assert_eq!(
            here,
            [format!("link add {} type veth peer name admin netns hostspan-demo-lan", layout::admin_link("demo"))]
        );
        assert!(text.contains("address add 10.130.4.2/24 dev hs-"));
    }

    #[test]
    fn virtual_machines_get_taps() {
        let (layout, hosts) = example();
        assert!(!outer_commands(&layout, "demo", Kind::Vm, &hosts).contains("kvm-01"));
        assert!(
            inner_commands(&layout, Kind::Vm, &hosts)
                .contains("tuntap add dev kvm-01.1 mode tap\nlink set kvm-01.1 master second up")
        );
    }

    #[test]
    fn routes_of_every_form_are_read() {
        let net = |text: &str| destination(text).map(|n| n.to_string());
        assert_eq!(net("192.0.2.0/24 dev eth0 proto kernel").as_deref(), Some("192.0.2.0/24"));
        assert_eq!(net("192.0.2.9 via 192.0.2.1 dev eth0").as_deref(), Some("192.0.2.9/32"));
        assert_eq!(net("blackhole 10.0.0.0/8").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(net("default via 192.0.2.1 dev eth0"), None);
    }
}
