//! What makes each host of a lab itself: name, id, keys, password.

use std::fmt::Write as _;

use super::dirs::{HostDir, LabDir};
use super::disk::{self, Upper};
use super::layout::Spec;
use super::tool::Tools;
use super::{LabError, PASSWORD_USER, USER, keys};

/// What all hosts of a lab share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The lab's public key.
    pub(super) authorized_key: String,
    /// The hash of the sudo password.
    pub(super) password_hash: String,
}

impl Shared {
    /// Makes the lab's key pair and password.
    pub(super) async fn make(tools: &Tools, dir: &LabDir, lab: &str) -> Result<Self, LabError> {
        let authorized_key = keys::key_pair(tools, &dir.identity(), &format!("hostspan-lab-{lab}")).await?;
        let password = keys::random_text(20);
        disk::write_private(&dir.sudo_password(), &password)?;
        Ok(Self { authorized_key, password_hash: keys::password_hash(tools, &password).await? })
    }
}

/// Writes a host's own files over the tree that it stands on, and returns its public host key.
pub(super) async fn write(
    tools: &Tools,
    dir: &HostDir,
    lower: &std::path::Path,
    host: &Spec,
    shared: &Shared,
) -> Result<String, LabError> {
    let upper = dir.upper();
    disk::create_dir(&upper)?;
    let tree = Upper { upper: &upper, lower };
    let name = &host.name;
    tree.put("etc/hostname", &format!("{name}\n"), 0o644, 0)?;
    // As Debian's installer writes it.
    tree.put(
        "etc/hosts",
        &format!("127.0.0.1\tlocalhost\n127.0.1.1\t{name}\n\n::1\tlocalhost ip6-localhost\n"),
        0o644,
        0,
    )?;
    tree.put("etc/machine-id", &format!("{}\n", keys::machine_id()), 0o444, 0)?;
    for (user, uid) in [(USER, 1000), (PASSWORD_USER, 1001)] {
        tree.put(&format!("home/{user}/.ssh/authorized_keys"), &format!("{}\n", shared.authorized_key), 0o600, uid)?;
    }
    let shadow = disk::read(&lower.join("etc/shadow"))?;
    tree.put("etc/shadow", &with_password(&shadow, PASSWORD_USER, &shared.password_hash), 0o640, 0)?;

    let key = dir.path().join("ssh_host_ed25519_key");
    let public = keys::key_pair(tools, &key, &format!("root@{name}")).await?;
    tree.put("etc/ssh/ssh_host_ed25519_key", &disk::read(&key)?, 0o600, 0)?;
    tree.put("etc/ssh/ssh_host_ed25519_key.pub", &format!("{public}\n"), 0o644, 0)?;
    Ok(public)
}

/// known_hosts lines: each host by its name and both of its addresses.
pub(super) fn known_hosts<'a>(hosts: impl IntoIterator<Item = (&'a Spec, &'a str)>) -> String {
    let mut text = String::new();
    for (host, key) in hosts {
        _ = writeln!(text, "{},{},{} {key}", host.name, host.address, host.second_address);
    }
    text
}

/// /etc/shadow with a user's password set.
fn with_password(shadow: &str, user: &str, hash: &str) -> String {
    let mut text = String::with_capacity(shadow.len() + hash.len());
    for line in shadow.lines() {
        let mut fields: Vec<&str> = line.split(':').collect();
        if let [name, password, ..] = fields.as_mut_slice()
            && *name == user
        {
            *password = hash;
        }
        text.push_str(&fields.join(":"));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Options;
    use crate::lab::layout::Layout;

    #[test]
    fn only_the_one_users_password_is_set() {
        let shadow = "root:*:19000:0:99999:7:::\nadmin:!:19000:0:99999:7:::\n";
        assert_eq!(
            with_password(shadow, "admin", "$6$salt$hash"),
            "root:*:19000:0:99999:7:::\nadmin:$6$salt$hash:19000:0:99999:7:::\n"
        );
    }

    #[test]
    fn a_host_key_is_found_by_name_and_by_either_address() {
        let layout = Layout::new("demo", "10.130.4.0/22".parse().unwrap());
        let hosts = layout.hosts(&Options::new("demo"));
        let text = known_hosts([(&hosts[0], "ssh-ed25519 AAAA")]);
        assert_eq!(text, "kvm-01,10.130.4.11,10.130.5.11 ssh-ed25519 AAAA\n");
    }
}
