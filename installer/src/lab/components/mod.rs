//! The components that lab hosts run, as an artifact folder, also on a machine that cannot reach upstream's downloads.
//!
//! ```text
//! upstream reachable: releases.yaml --> downloads ----------------------------+--> folder with artifacts.yaml
//! else: go.mod + go.sum --> go build --> programs --> archives, OCI images ---+
//! ```
//!
//! Everything made is kept below the user's cache directory under a key of all its inputs, so a second folder costs a few
//! links. Killing a run at any time leaves nothing that a later one could take for complete.
//!
//! Non-goals: production use of what is built here (fleets without internet use `spec.artifacts`), other architectures
//! than this machine's.

mod build;
mod folder;
mod progress;
mod recipe;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hostspan_manifests::releases::Releases;

use self::folder::Output;
use self::progress::Progress;
use self::recipe::{ALL, CNI_PLUGINS, CONTAINERD, COREDNS, CRICTL, ETCD, KUBERNETES, RUNC, Recipe};
use super::images::{Built, kubernetes_images, toolbox};
use crate::artifacts::{
    ArtifactError, ArtifactRef, FolderIndex, INDEX_FILE, Known, Store, cache_dir, http_client, lock,
};
use crate::progress::{Event, Events};

pub use self::build::BUILD_PACKAGES;
pub(in crate::lab) use self::build::output;

/// Start of the origin in the index of a folder that was built.
const BUILT: &str = "built from Go modules";
/// Origin of a folder that was downloaded.
const OFFICIAL: &str = "official downloads";
/// Hosts pull images from here where the folder has none.
const REGISTRY: &str = "https://registry.k8s.io/v2/";
/// Seconds that putting one file into the folder takes, for the progress display.
const PLACING: u64 = 1;

/// Why the components cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// Upstream is out of reach, and there is no Go.
    #[error(
        "Go, which builds the components where upstream's downloads are out of reach, is not installed. Install Go 1.26 or \
         newer from https://go.dev/dl and put it on the PATH, or set HTTPS_PROXY to reach the downloads"
    )]
    NoGo,
    /// Go is too old.
    #[error("{found} is too old to build the components: install Go 1.26 or newer from https://go.dev/dl")]
    OldGo {
        /// What is installed.
        found: String,
    },
    /// Debian packages are missing.
    #[error("building the components needs packages that are missing: apt-get install --yes {missing}")]
    Packages {
        /// Their names.
        missing: String,
    },
    /// Only one version can be built.
    #[error(
        "upstream's downloads cannot be reached from here, and only Kubernetes {pinned} can be built (its go.sum is part \
         of this program), not {wanted}: use {pinned}, or set HTTPS_PROXY"
    )]
    Version {
        /// The wanted version.
        wanted: String,
        /// The version that can be built.
        pinned: &'static str,
    },
    /// Neither amd64 nor arm64.
    #[error("the lab runs on amd64 and arm64, not on {0}")]
    Arch(&'static str),
    /// A command failed.
    #[error(
        "{name} failed; run the same again to go on from there. If it could not download modules, set GOPROXY or \
         HTTPS_PROXY. The end of its output:\n{output}"
    )]
    Command {
        /// The command.
        name: String,
        /// The end of what it printed.
        output: String,
    },
    /// apt does not know or cannot download a package.
    #[error("cannot take files from Debian packages: run `apt-get update`, then the same again. {0}")]
    Apt(String),
    /// A download or a file operation failed.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

impl ComponentError {
    fn command(name: &str, output: &str) -> Self {
        Self::Command { name: name.into(), output: output.into() }
    }

    pub(in crate::lab) fn apt(self) -> Self {
        match self {
            Self::Command { name, output } => Self::Apt(format!("{name}: {output}")),
            other => other,
        }
    }
}

/// Makes `dir` an artifact folder with everything that hosts of this machine's architecture need for Kubernetes
/// `kubernetes_version` (without a `v`), and returns the folder. Takes minutes the first time and milliseconds after that.
///
/// A folder keeps its origin: what was built once is not replaced by downloads that became reachable.
pub async fn ensure_folder(dir: &Path, kubernetes_version: &str, events: &Events) -> Result<PathBuf, ComponentError> {
    let cache = cache_dir()?;
    let components = cache.join("components");
    let waiting = || {
        let message = "waiting for another hostspan that prepares components".to_owned();
        events.send(Event::Warning { host: None, message });
    };
    let _lock = lock(&components.join("lock"), waiting).await?;
    // Whatever an earlier run was at when it was killed. It cannot be at it still, since this one has the lock.
    let all_scratch = components.join("scratch");
    remove(&all_scratch)?;
    // A name of its own, since a compiler that outlived its killed hostspan may still write below the old one.
    let scratch = all_scratch.join(std::process::id().to_string());

    let index_path = dir.join(INDEX_FILE);
    let origin = FolderIndex::read(&index_path).ok().and_then(|index| index.origin);
    let official = match origin.as_deref() {
        Some(origin) if !origin.starts_with(BUILT) => true,
        Some(_) if kubernetes_version == KUBERNETES.version() => false,
        _ => reachable(kubernetes_version).await,
    };
    let arch = arch()?;
    let work = Work { cache: &cache, components: &components, scratch: &scratch, arch, events };
    let (origin, outputs) = if official {
        (OFFICIAL.to_owned(), work.download(kubernetes_version).await?)
    } else {
        work.build(kubernetes_version).await?
    };
    work.place(dir, &origin, outputs).await?;
    remove(&all_scratch)?;
    Ok(dir.to_owned())
}

/// What all steps share.
struct Work<'a> {
    cache: &'a Path,
    components: &'a Path,
    scratch: &'a Path,
    arch: &'static str,
    events: &'a Events,
}

impl Work<'_> {
    async fn download(&self, version: &str) -> Result<Vec<Output>, ComponentError> {
        let releases = Releases::embedded().map_err(ArtifactError::from)?;
        let store = Store::official(self.cache.to_owned())?;
        let mut outputs = Vec::new();
        for name in ["kubelet", "kubeadm", "kubectl", "containerd", "runc", "cni-plugins", "crictl"] {
            let version = name.starts_with("kube").then_some(version);
            let release = releases.find(name, version, self.arch).map_err(ArtifactError::NoRelease)?;
            let artifact = ArtifactRef::from(release.clone());
            let path = store.fetch(&artifact, self.events).await?;
            outputs.push(Output::downloaded(name, &release.version, artifact.format, path));
        }
        // The hosts pull the others from their registries.
        outputs.push(Output::image(toolbox(self.arch, self.components, &self.scratch.join("toolbox")).await?));
        Ok(outputs)
    }

    async fn build(&self, version: &str) -> Result<(String, Vec<Output>), ComponentError> {
        if version != KUBERNETES.version() {
            return Err(ComponentError::Version { wanted: version.into(), pinned: KUBERNETES.version() });
        }
        let go = build::go_version().await?;
        let built = |recipe: &Recipe| self.components.join(recipe.cache_name(&go));
        let missing: Vec<&Recipe> = ALL.into_iter().filter(|recipe| !built(recipe).exists()).collect();
        if !missing.is_empty() {
            build::check_packages().await?;
        }
        let mut progress = Progress::new(self.events, missing.iter().map(|recipe| recipe.seconds).sum());
        for recipe in missing {
            build::build(recipe, &built(recipe), &self.scratch.join(recipe.name), &mut progress).await?;
            progress.finished(recipe.seconds);
        }

        let kubernetes = built(&KUBERNETES);
        let mut outputs: Vec<Output> =
            ["kubelet", "kubeadm", "kubectl"].map(|name| Output::program(name, &KUBERNETES, &kubernetes)).into();
        outputs.push(Output::archive(&CONTAINERD, &built(&CONTAINERD), "containerd.tar.gz", "bin/"));
        outputs.push(Output::program("runc", &RUNC, &built(&RUNC)));
        outputs.push(Output::archive(&CNI_PLUGINS, &built(&CNI_PLUGINS), "cni-plugins.tgz", "./"));
        outputs.push(Output::archive(&CRICTL, &built(&CRICTL), "crictl.tar.gz", ""));
        let programs = Built { kubernetes: &kubernetes, coredns: &built(&COREDNS), etcd: &built(&ETCD) };
        let images = kubernetes_images(&programs, self.arch, self.components, &self.scratch.join("images")).await?;
        outputs.extend(images.into_iter().map(Output::image));
        outputs.push(Output::image(toolbox(self.arch, self.components, &self.scratch.join("toolbox")).await?));
        Ok((format!("{BUILT} with {go}"), outputs))
    }

    async fn place(&self, dir: &Path, origin: &str, outputs: Vec<Output>) -> Result<(), ComponentError> {
        let known = Known::new(self.cache);
        let mut progress = Progress::new(self.events, outputs.len() as u64 * PLACING);
        let mut files = Vec::new();
        for output in outputs {
            progress.show(&format!("Putting {} into {}", output.name(), dir.display()), 0);
            files.push(output.place(dir, self.arch, self.components, &known).await?);
            progress.finished(PLACING);
        }
        Ok(FolderIndex::new(origin, files).write(&dir.join(INDEX_FILE))?)
    }
}

/// Whether this machine can download release files, and its hosts images: all of the sites, or none is used.
async fn reachable(version: &str) -> bool {
    let (Ok(releases), Ok(client), Ok(arch)) = (Releases::embedded(), http_client(None), arch()) else { return false };
    let mut urls = vec![REGISTRY.to_owned()];
    for (name, version) in [("kubelet", Some(version)), ("containerd", None)] {
        match releases.find(name, version, arch) {
            Ok(release) => urls.push(release.url),
            Err(_) => return false,
        }
    }
    let heads = urls.iter().map(|url| {
        let request = client.head(url).timeout(Duration::from_secs(4)).send();
        async { request.await.is_ok_and(|response| response.status().is_success()) }
    });
    futures::future::join_all(heads).await.into_iter().all(|answered| answered)
}

fn remove(dir: &Path) -> Result<(), ArtifactError> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(ArtifactError::io("remove", dir)(error)),
        _ => Ok(()),
    }
}

fn arch() -> Result<&'static str, ComponentError> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => Err(ComponentError::Arch(other)),
    }
}
