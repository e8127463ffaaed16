//! Where files and images come from: upstream's releases, a folder, a mirror. Every one has a digest.
//!
//! ```text
//! fleet file --open--> Store --find(name)--> ArtifactRef (pure) --fetch--> a verified file on this machine
//!                        |
//!                        +-- official, mirror: releases.yaml, downloaded into the user's cache by digest
//!                        +-- folder: artifacts.yaml, used where it lies, hashed once
//! ```
//!
//! Non-goals: bringing files to hosts (the engine does), pulling images from registries (the hosts do).

mod download;
mod error;
mod index;
mod verified;

use std::path::{Component, Path, PathBuf};

use hostspan_manifests::releases::{Release, ReleaseError, ReleaseFormat, Releases};
use serde::{Deserialize, Serialize};

use crate::fleet::model::{ArtifactSource, Fleet};
use crate::progress::Events;

pub(crate) use download::client as http_client;
pub use error::ArtifactError;
pub use index::{FolderFile, FolderIndex, INDEX_FILE};
pub(crate) use verified::{Known, hex, lock};

/// Prefix of the names of image archives: `image:registry.k8s.io/pause:3.10.2`.
pub const IMAGE_PREFIX: &str = "image:";

/// A release file or image archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRef {
    /// Its name: `kubelet`, `containerd`, `image:registry.k8s.io/pause:3.10.2`.
    pub name: String,
    /// SHA-256 of the file, lower-case hex.
    pub sha256: String,
    /// Bytes, where known.
    pub size: Option<u64>,
    /// What the file is.
    pub format: Format,
}

/// What an artifact's file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// The file itself.
    #[serde(rename = "plain")]
    Plain,
    /// A tar archive (an image archive too).
    #[serde(rename = "tar")]
    Tar,
    /// A gzip'ed tar archive.
    #[serde(rename = "tar.gz")]
    TarGz,
}

/// The artifact source of a fleet.
#[derive(Debug)]
pub struct Store {
    source: Source,
    cache: PathBuf,
    /// From the fleet file; the environment's proxy is used where absent.
    proxy: Option<String>,
}

#[derive(Debug)]
enum Source {
    Folder { dir: PathBuf, index: FolderIndex },
    Web { releases: Releases, mirror: Option<String> },
}

impl Store {
    /// The source that the fleet file names. Relative paths are relative to `fleet_dir`. Reads a folder's index; no
    /// network.
    pub fn open(fleet: &Fleet, fleet_dir: &Path) -> Result<Self, ArtifactError> {
        let wanted = &fleet.spec.artifacts;
        let source = match wanted.source {
            ArtifactSource::Folder => {
                let path =
                    wanted.path.as_deref().ok_or(ArtifactError::Setting { key: "path", source_kind: "folder" })?;
                let dir = crate::fleet::expand(path, fleet_dir);
                Source::Folder { index: FolderIndex::read(&dir.join(INDEX_FILE))?, dir }
            }
            ArtifactSource::Mirror => {
                let url = wanted.url.as_deref().ok_or(ArtifactError::Setting { key: "url", source_kind: "mirror" })?;
                Source::Web { releases: Releases::embedded()?, mirror: Some(url.trim_end_matches('/').to_owned()) }
            }
            ArtifactSource::Official => Source::Web { releases: Releases::embedded()?, mirror: None },
        };
        Ok(Self { source, cache: cache_dir()?, proxy: wanted.proxy.clone() })
    }

    /// Upstream's own download sites, for work that has no fleet file yet.
    pub fn official(cache: PathBuf) -> Result<Self, ArtifactError> {
        Ok(Self { source: Source::Web { releases: Releases::embedded()?, mirror: None }, cache, proxy: None })
    }

    /// The artifact `name` for `arch` (`amd64`, `arm64`). A `version` is the only one accepted; without one the newest
    /// (of a folder: the first in its index) is taken. No network.
    pub fn find(&self, name: &str, version: Option<&str>, arch: &str) -> Result<ArtifactRef, ArtifactError> {
        match &self.source {
            Source::Folder { dir, index } => find_in_folder(dir, index, name, version, arch),
            Source::Web { releases, .. } => match releases.find(name, version, arch) {
                Ok(release) => Ok(ArtifactRef::from(release)),
                Err(error @ ReleaseError::Table(_)) => Err(error.into()),
                Err(error) => Err(ArtifactError::NoRelease(error)),
            },
        }
    }

    /// Image archives that the source offers for `arch`, by name. Empty where the hosts pull images themselves.
    pub fn images(&self, arch: &str) -> Vec<ArtifactRef> {
        match &self.source {
            Source::Folder { index, .. } => index
                .files
                .iter()
                .filter(|file| file.arch == arch && file.name.starts_with(IMAGE_PREFIX))
                .map(ArtifactRef::from)
                .collect(),
            Source::Web { .. } => Vec::new(),
        }
    }

    /// The artifact's file on this machine, its digest verified. Downloads it if need be, and says so in events.
    ///
    /// Safe to call for the same artifact from several tasks and processes at once: one works, the others wait.
    pub async fn fetch(&self, artifact: &ArtifactRef, events: &Events) -> Result<PathBuf, ArtifactError> {
        let known = Known::new(&self.cache);
        match &self.source {
            Source::Folder { dir, index } => {
                let file = index
                    .files
                    .iter()
                    .find(|file| file.name == artifact.name && file.sha256 == artifact.sha256)
                    .ok_or_else(|| not_in_folder(dir, index, &artifact.name, ""))?;
                let path = inside(dir, &file.file)?;
                known.verify(&path, &file.sha256).await?;
                Ok(path)
            }
            Source::Web { releases, mirror } => {
                let release = releases
                    .by_digest(&artifact.name, &artifact.sha256)
                    .ok_or_else(|| ArtifactError::NoSource { name: artifact.name.clone() })?;
                let url = match mirror {
                    Some(base) => format!("{base}/{}", release.url.trim_start_matches("https://")),
                    None => release.url,
                };
                let client = download::client(self.proxy.as_deref())?;
                download::Download { client: &client, url: &url, artifact, cache: &self.cache, events }.run().await
            }
        }
    }
}

impl From<Release> for ArtifactRef {
    fn from(release: Release) -> Self {
        let format = match release.format {
            ReleaseFormat::Plain => Format::Plain,
            ReleaseFormat::TarGz => Format::TarGz,
        };
        Self { name: release.name, sha256: release.sha256, size: None, format }
    }
}

impl From<&FolderFile> for ArtifactRef {
    fn from(file: &FolderFile) -> Self {
        Self { name: file.name.clone(), sha256: file.sha256.clone(), size: Some(file.size), format: file.format }
    }
}

/// Where downloads and builds are kept: `$XDG_CACHE_HOME/hostspan`, else `~/.cache/hostspan`. May be deleted at any time.
pub fn cache_dir() -> Result<PathBuf, ArtifactError> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    Ok(base.ok_or(ArtifactError::NoHome)?.join("hostspan"))
}

fn find_in_folder(
    dir: &Path,
    index: &FolderIndex,
    name: &str,
    version: Option<&str>,
    arch: &str,
) -> Result<ArtifactRef, ArtifactError> {
    let found: Vec<&FolderFile> = index.files.iter().filter(|file| file.name == name && file.arch == arch).collect();
    let fits = |file: &&FolderFile| version.is_none() || file.version.as_deref().is_none_or(|has| Some(has) == version);
    if let Some(file) = found.iter().copied().find(fits) {
        return Ok(file.into());
    }
    let has: Vec<&str> = found.iter().filter_map(|file| file.version.as_deref()).collect();
    let wanted = version.map(|version| format!(" {version}")).unwrap_or_default();
    let detail = if has.is_empty() {
        format!("{wanted} for {arch}")
    } else {
        format!("{wanted} for {arch} (but {})", has.join(", "))
    };
    Err(not_in_folder(dir, index, name, &detail))
}

fn not_in_folder(dir: &Path, index: &FolderIndex, name: &str, detail: &str) -> ArtifactError {
    let mut names: Vec<&str> = index.files.iter().map(|file| file.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    ArtifactError::NotInFolder {
        index: dir.join(INDEX_FILE),
        name: name.to_owned(),
        detail: detail.to_owned(),
        has: names.join(", "),
    }
}

/// `file` below `dir`, refusing an index that points outside of its folder.
fn inside(dir: &Path, file: &str) -> Result<PathBuf, ArtifactError> {
    let path = Path::new(file);
    if file.is_empty() || path.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(ArtifactError::OutsideFolder { index: dir.join(INDEX_FILE), file: file.to_owned() });
    }
    Ok(dir.join(path))
}

#[cfg(test)]
mod tests;
