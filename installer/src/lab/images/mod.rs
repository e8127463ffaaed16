//! OCI image archives made from files of this machine, as `ctr images import` takes them.
//!
//! ```text
//! Image (entries) --> layer.tar --> config --> manifest --> index.json, all of it one tar archive
//! ```
//!
//! The same entries give the same bytes: sorted, no times, no owners. One layer, not compressed: the archives go over a LAN
//! once, and unpacking them costs the hosts more than the bytes do.
//!
//! Non-goals: registries, layers of others.

mod debian;
mod specs;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use crate::artifacts::hex;

pub(super) use specs::{Built, kubernetes_images, toolbox};

/// An image to be made.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// `registry.k8s.io/pause:3.10.2`.
    pub(super) reference: String,
    /// In Go's words.
    pub(super) arch: &'static str,
    /// `uid:gid`; root where absent.
    pub(super) user: Option<&'static str>,
    /// What a container runs if its pod names no command.
    pub(super) entrypoint: Vec<&'static str>,
    /// By path, without a leading slash. Folders on the way are added.
    pub(super) entries: BTreeMap<String, Entry>,
    /// Where files come from that may change under the same path: versions of Debian packages. Part of the cache key only.
    pub(super) built_from: String,
}

/// A file of an image.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// An empty folder.
    Dir(u32),
    /// A copy of a file of this machine.
    File(PathBuf, u32),
    /// A small file.
    Text(&'static str),
    /// A symbolic link to this target.
    Link(String),
}

impl Image {
    /// Writes the archive and returns its SHA-256 and size.
    pub(super) fn write(&self, path: &Path) -> io::Result<(String, u64)> {
        // Twice, since a layer's name in the archive is its digest, and holding it in memory would take 100 MB.
        let mut layer = Hashed::new(io::sink());
        self.write_layer(&mut layer)?;
        let (layer_digest, layer_size) = layer.finish();

        let config = self.config(&layer_digest).to_string();
        let config_digest = hex(&Sha256::digest(&config));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config_digest, config.len() as u64),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer_digest, layer_size)],
        })
        .to_string();
        let manifest_digest = hex(&Sha256::digest(&manifest));
        let index = self.index(&manifest_digest, manifest.len() as u64).to_string();

        let mut out = Hashed::new(BufWriter::new(File::create(path)?));
        append(&mut out, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        append(&mut out, "index.json", index.as_bytes())?;
        append(&mut out, &format!("blobs/sha256/{manifest_digest}"), manifest.as_bytes())?;
        append(&mut out, &format!("blobs/sha256/{config_digest}"), config.as_bytes())?;
        out.write_all(
            header(EntryType::Regular, &format!("blobs/sha256/{layer_digest}"), 0o644, layer_size)?.as_bytes(),
        )?;
        self.write_layer(&mut out)?;
        pad(&mut out, layer_size)?;
        out.write_all(&[0; 1024])?;
        out.flush()?;
        out.inner.get_ref().sync_all()?;
        Ok(out.finish())
    }

    fn write_layer<W: Write>(&self, out: W) -> io::Result<()> {
        let mut builder = tar::Builder::new(out);
        for (path, entry) in &with_parents(&self.entries) {
            match entry {
                Entry::Dir(mode) => {
                    let mut header = bare_header(EntryType::Directory, *mode, 0);
                    builder.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
                Entry::Link(target) => {
                    let mut header = bare_header(EntryType::Symlink, 0o777, 0);
                    builder.append_link(&mut header, path, target)?;
                }
                Entry::Text(text) => {
                    let mut header = bare_header(EntryType::Regular, 0o644, text.len() as u64);
                    builder.append_data(&mut header, path, text.as_bytes())?;
                }
                Entry::File(source, mode) => {
                    let file = File::open(source)?;
                    let mut header = bare_header(EntryType::Regular, *mode, file.metadata()?.len());
                    builder.append_data(&mut header, path, file)?;
                }
            }
        }
        builder.finish()
    }

    fn config(&self, layer_digest: &str) -> Value {
        json!({
            "architecture": self.arch,
            "os": "linux",
            "config": {
                "User": self.user.unwrap_or_default(),
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": self.entrypoint,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
        })
    }

    fn index(&self, manifest_digest: &str, size: u64) -> Value {
        let mut manifest = descriptor(MANIFEST, manifest_digest, size);
        let tag = self.reference.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        manifest["platform"] = json!({"architecture": self.arch, "os": "linux"});
        // containerd names the imported image by the first, other tools by the second.
        manifest["annotations"] =
            json!({"io.containerd.image.name": self.reference, "org.opencontainers.image.ref.name": tag});
        json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]})
    }
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn descriptor(media_type: &str, digest: &str, size: u64) -> Value {
    json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
}

fn with_parents(entries: &BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
    let mut all = entries.clone();
    for path in entries.keys() {
        for (end, _) in path.match_indices('/') {
            all.entry(path.get(..end).unwrap_or_default().to_owned()).or_insert(Entry::Dir(0o755));
        }
    }
    all
}

/// Without a time or owner, so that the same files give the same bytes.
pub(super) fn bare_header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn header(kind: EntryType, path: &str, mode: u32, size: u64) -> io::Result<Header> {
    let mut header = bare_header(kind, mode, size);
    header.set_path(path)?;
    header.set_cksum();
    Ok(header)
}

fn append(out: &mut impl Write, path: &str, content: &[u8]) -> io::Result<()> {
    let size = content.len() as u64;
    out.write_all(header(EntryType::Regular, path, 0o644, size)?.as_bytes())?;
    out.write_all(content)?;
    pad(out, size)
}

/// Fills the last block of 512 bytes.
fn pad(out: &mut impl Write, size: u64) -> io::Result<()> {
    let rest = usize::try_from(size % 512).unwrap_or_default();
    if rest > 0 {
        out.write_all(&[0; 512][rest..])?;
    }
    Ok(())
}

/// Counts and hashes what goes through.
pub(super) struct Hashed<W> {
    pub(super) inner: W,
    hasher: Sha256,
    size: u64,
}

impl<W> Hashed<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new(), size: 0 }
    }

    /// SHA-256 and size.
    pub(super) fn finish(self) -> (String, u64) {
        (hex(&self.hasher.finalize()), self.size)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
