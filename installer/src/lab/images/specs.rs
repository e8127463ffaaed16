//! What is in each image.

use std::collections::BTreeMap;
use std::path::Path;

use super::debian::Unpacked;
use super::{Entry, Image};
use crate::artifacts::ArtifactError;
use crate::lab::components::ComponentError;

/// A small image with tools for tests of pod networks.
pub(in crate::lab) const TOOLBOX: &str = "hostspan.dev/lab/toolbox:1";

/// What the toolbox offers of busybox.
const APPLETS: [&str; 42] = [
    "arping",
    "awk",
    "basename",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dd",
    "dirname",
    "echo",
    "env",
    "false",
    "grep",
    "head",
    "hostname",
    "httpd",
    "id",
    "ifconfig",
    "ip",
    "kill",
    "ls",
    "mkdir",
    "mv",
    "nc",
    "netstat",
    "nslookup",
    "ping",
    "ping6",
    "ps",
    "rm",
    "sed",
    "seq",
    "sh",
    "sleep",
    "sort",
    "tail",
    "timeout",
    "traceroute",
    "true",
    "wc",
    "wget",
];

/// Folders of built components.
pub(in crate::lab) struct Built<'a> {
    pub(in crate::lab) kubernetes: &'a Path,
    pub(in crate::lab) coredns: &'a Path,
    pub(in crate::lab) etcd: &'a Path,
}

/// The images under the names that this kubeadm wants, whatever their programs' versions are.
pub(in crate::lab) async fn kubernetes_images(
    built: &Built<'_>,
    arch: &'static str,
    cache: &Path,
    scratch: &Path,
) -> Result<Vec<Image>, ComponentError> {
    let path = built.kubernetes.join("images.txt");
    let wanted = std::fs::read_to_string(&path).map_err(ArtifactError::io("read", &path))?;
    let mut images = Vec::new();
    for reference in wanted.lines() {
        let (_, name) = reference.rsplit_once('/').unwrap_or_default();
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        let mut image = Image::new(reference, arch);
        match name {
            "pause" => {
                image.add("pause", &built.kubernetes.join("pause"));
                image.entrypoint = vec!["/pause"];
                image.user = Some("65535:65535");
            }
            "coredns" => {
                image.add("coredns", &built.coredns.join("coredns"));
                image.entrypoint = vec!["/coredns"];
            }
            // The module proxy has no release that kubeadm's tag names (3.6.8-0 is an image's own version), so the newest
            // patch of the same minor version goes under that name. Its program is called after its folder.
            "etcd" => image.add("usr/local/bin/etcd", &built.etcd.join("server")),
            _ => image.add(&format!("usr/local/bin/{name}"), &built.kubernetes.join(name)),
        }
        if name == "kube-proxy" {
            // It programs nftables by running `nft`.
            image.add_package("nftables", cache, scratch, |path| path == "usr/sbin/nft" || is_library(path)).await?;
            // Without it nft lists protocols as numbers, kube-proxy takes its own map entries for strangers' when it starts
            // again, and deletes them: every Service is gone until its next start.
            let protocols = "icmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 IPv6-ICMP\nsctp 132 SCTP\n";
            image.entries.insert("etc/protocols".into(), Entry::Text(protocols));
        }
        images.push(image);
    }
    Ok(images)
}

/// [`TOOLBOX`].
pub(in crate::lab) async fn toolbox(arch: &'static str, cache: &Path, scratch: &Path) -> Result<Image, ComponentError> {
    let mut image = Image::new(TOOLBOX, arch);
    image.add_package("busybox-static", cache, scratch, |path| path.ends_with("bin/busybox")).await?;
    // Debian 13 has moved it from /bin.
    let at = if image.entries.contains_key("bin/busybox") { "/bin/busybox" } else { "/usr/bin/busybox" };
    for applet in APPLETS {
        image.entries.insert(format!("bin/{applet}"), Entry::Link(at.into()));
    }
    image.entries.insert("etc/passwd".into(), Entry::Text("root:x:0:0:root:/:/bin/sh\n"));
    image.entries.insert("etc/group".into(), Entry::Text("root:x:0:\n"));
    image.entries.insert("tmp".into(), Entry::Dir(0o1777));
    image.entrypoint = vec!["/bin/sh"];
    Ok(image)
}

fn is_library(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let folder = ["lib/", "lib64/", "usr/lib/", "usr/lib64/"].iter().any(|folder| path.starts_with(folder));
    // gconv holds 10 MB of character sets.
    folder && name.split('.').skip(1).any(|part| part == "so") && !path.contains("/gconv/")
}

impl Image {
    fn new(reference: &str, arch: &'static str) -> Self {
        Self {
            reference: reference.to_owned(),
            arch,
            user: None,
            entrypoint: Vec::new(),
            entries: BTreeMap::new(),
            built_from: String::new(),
        }
    }

    fn add(&mut self, path: &str, source: &Path) {
        self.entries.insert(path.to_owned(), Entry::File(source.to_owned(), 0o755));
    }

    async fn add_package(
        &mut self,
        name: &str,
        cache: &Path,
        scratch: &Path,
        keep: impl Fn(&str) -> bool,
    ) -> Result<(), ComponentError> {
        let package = Unpacked::package(name, cache, scratch).await?;
        self.entries.extend(package.entries(keep).map_err(ArtifactError::io("read", cache))?);
        self.built_from = package.packages;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_libraries_and_the_loader_but_no_character_sets() {
        for path in ["lib/x86_64-linux-gnu/libc.so.6", "lib64/ld-linux-x86-64.so.2", "usr/lib/x/libmnl.so.0.2.0"] {
            assert!(is_library(path), "{path}");
        }
        for path in ["usr/lib/x/gconv/KOI8-R.so", "usr/share/doc/libc6/NEWS", "etc/ld.so.conf.d/x.conf", "usr/lib/os"] {
            assert!(!is_library(path), "{path}");
        }
    }
}
