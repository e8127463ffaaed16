//! Which resolv.conf the kubelet gives to pods.

use std::net::IpAddr;

use crate::host::facts::ResolvConf;

/// The file for the kubelet's `resolvConf`. A name server on a loopback address is another one inside a pod: CoreDNS would
/// ask itself (kubeadm#1162), so the file behind systemd-resolved's stub is taken where there is one.
///
/// # Errors
/// One sentence where no file has a name server that pods can reach.
pub fn kubelet_resolv_conf(resolv_conf: &ResolvConf) -> Result<&'static str, String> {
    let ResolvConf { nameservers, resolved_upstream } = resolv_conf;
    if usable(nameservers) {
        return Ok("/etc/resolv.conf");
    }
    if usable(resolved_upstream) {
        return Ok("/run/systemd/resolve/resolv.conf");
    }
    Err(match nameservers.first() {
        Some(server) => format!(
            "/etc/resolv.conf names {server}, a resolver on the host itself, and what that one asks is not to be seen"
        ),
        None => "/etc/resolv.conf names no name server".to_owned(),
    })
}

/// All are elsewhere: one on loopback among others already makes the loop.
fn usable(nameservers: &[String]) -> bool {
    let elsewhere = |server: &String| {
        let address = server.split('%').next().unwrap_or_default().parse::<IpAddr>();
        address.is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
    };
    !nameservers.is_empty() && nameservers.iter().all(elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(nameservers: &[&str], upstream: &[&str]) -> Result<&'static str, String> {
        let owned = |servers: &[&str]| servers.iter().map(|&server| server.to_owned()).collect();
        kubelet_resolv_conf(&ResolvConf { nameservers: owned(nameservers), resolved_upstream: owned(upstream) })
    }

    #[test]
    fn the_stub_is_passed_by_and_a_plain_file_is_taken() {
        assert_eq!(choose(&["127.0.0.53"], &["192.0.2.53"]), Ok("/run/systemd/resolve/resolv.conf"));
        assert_eq!(choose(&["192.0.2.53"], &[]), Ok("/etc/resolv.conf"));
        assert_eq!(choose(&["192.0.2.53"], &["192.0.2.54"]), Ok("/etc/resolv.conf"));
        assert_eq!(choose(&["2001:db8::53", "fe80::1%eth0"], &[]), Ok("/etc/resolv.conf"));
    }

    #[test]
    fn a_local_resolver_without_upstream_is_an_error() {
        assert!(choose(&["127.0.0.1"], &[]).unwrap_err().contains("127.0.0.1"));
        assert!(choose(&["::1"], &["127.0.0.53"]).unwrap_err().contains("::1"));
        assert!(choose(&["127.0.0.53", "192.0.2.53"], &[]).is_err());
        assert_eq!(choose(&[], &[]).unwrap_err(), "/etc/resolv.conf names no name server");
    }
}
