//! What a step wants to be true, in the shape that probing, deciding and changing share.

use std::borrow::Cow;
use std::fmt::Write as _;

use hostspan_manifests::names;
use hostspan_playbooks::model::{Action, InstallFile, ModuleAction, SysctlAction};
use sha2::{Digest, Sha256};

use super::ReadyStep;

/// Where the receipts of imported images are: inside our containerd's own state, so that they go when it goes.
pub(super) fn image_receipts_dir() -> String {
    format!("{}/hostspan-images", names::CONTAINERD_ROOT)
}

/// Where containerd keeps what it has, one file a digest. An image that the kubelet collected is missing there, which is
/// cheaper to see than to ask containerd.
pub(super) fn image_blobs_dir() -> String {
    format!("{}/io.containerd.content.v1.content/blobs/sha256", names::CONTAINERD_ROOT)
}

/// The file that an fstab step edits.
pub(super) const FSTAB: &str = "/etc/fstab";

/// A file whose whole content is known.
pub(super) struct WantedFile<'a> {
    pub path: &'a str,
    pub content: Cow<'a, str>,
    pub mode: &'a str,
    pub owner: &'a str,
    pub secret: bool,
}

impl WantedFile<'_> {
    pub fn sha256(&self) -> String {
        sha256(self.content.as_bytes())
    }
}

/// The file that a step writes: a file step's own, or the one that makes sysctls and modules last.
pub(super) fn file(action: &Action) -> Option<WantedFile<'_>> {
    match action {
        Action::File(file) if !file.absent => Some(WantedFile {
            path: &file.path,
            content: Cow::Borrowed(file.content.as_deref().unwrap_or_default()),
            mode: &file.mode,
            owner: &file.owner,
            secret: file.secret,
        }),
        Action::Sysctl(sysctl) => Some(ours(&sysctl.file, sysctl_text(sysctl))),
        Action::Module(module) => Some(ours(&module.file, module_text(module))),
        _ => None,
    }
}

fn ours(path: &str, content: String) -> WantedFile<'_> {
    WantedFile { path, content: content.into(), mode: "0644", owner: "root:root", secret: false }
}

fn sysctl_text(sysctl: &SysctlAction) -> String {
    let mut text = String::from("# Written by hostspan.\n");
    for (name, value) in &sysctl.values {
        _ = writeln!(text, "{name} = {value}");
    }
    text
}

fn module_text(module: &ModuleAction) -> String {
    let mut text = String::from("# Written by hostspan.\n");
    for name in &module.names {
        _ = writeln!(text, "{name}");
    }
    text
}

/// Where a kernel setting lives. As sysctl(8) has it: dots separate, and a slash stands for a dot inside a name.
pub(super) fn sysctl_path(name: &str) -> String {
    let swapped: String = name
        .chars()
        .map(|c| {
            if c == '.' {
                '/'
            } else if c == '/' {
                '.'
            } else {
                c
            }
        })
        .collect();
    format!("/proc/sys/{swapped}")
}

/// How the kernel spells a module in /sys/module and /proc/modules.
pub(super) fn module_name(name: &str) -> String {
    name.replace('-', "_")
}

/// What to look at for a directory: its inside, so that a symbolic link to a directory counts as one.
pub(super) fn inside(path: &str) -> String {
    format!("{}/.", path.trim_end_matches('/'))
}

/// The files that an artifact step installs; none for an image.
pub(super) fn installs(step: &ReadyStep) -> &[InstallFile] {
    match &step.step.action {
        Action::Artifact(artifact) if !artifact.import_image => &artifact.install,
        _ => &[],
    }
}

/// Whether what this step depends on can make it run again: units are restarted, commands run. Other kinds are only ever
/// as they should be or not.
pub(super) fn runs_again(action: &Action) -> bool {
    matches!(action, Action::Unit(_) | Action::Command(_))
}

/// SHA-256 in lower-case hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_names_follow_sysctl_8() {
        assert_eq!(sysctl_path("net.ipv4.ip_forward"), "/proc/sys/net/ipv4/ip_forward");
        assert_eq!(sysctl_path("net.ipv4.conf.eno1/10.forwarding"), "/proc/sys/net/ipv4/conf/eno1.10/forwarding");
    }
}
