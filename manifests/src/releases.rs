//! Upstream's release files, from `releases.yaml`: URL and SHA-256 by component, version and architecture.

use std::collections::BTreeMap;

use serde::Deserialize;

const TABLE: &str = include_str!("../releases.yaml");

/// The whole table, by component: `kubelet`, `containerd`, ...
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Releases(BTreeMap<String, Component>);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Component {
    /// With `{version}` and `{arch}`.
    url: String,
    format: ReleaseFormat,
    /// SHA-256 by version and architecture.
    versions: BTreeMap<String, BTreeMap<String, String>>,
}

/// What a release file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ReleaseFormat {
    /// The program itself.
    #[serde(rename = "plain")]
    Plain,
    /// A gzip'ed tar archive.
    #[serde(rename = "tar.gz")]
    TarGz,
}

/// One release file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its component.
    pub name: String,
    /// Without a `v`.
    pub version: String,
    /// Where upstream serves it.
    pub url: String,
    /// Lower-case hex.
    pub sha256: String,
    /// What the file is.
    pub format: ReleaseFormat,
}

/// Why a release file cannot be named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The embedded table cannot be read: a bug, which this crate's tests catch.
    #[error("the table of releases inside this program is broken: {0}")]
    Table(String),
    /// No such component.
    #[error("there is no release file called {name}; there are {}", known.join(", "))]
    Component {
        /// The wanted name.
        name: String,
        /// All names.
        known: Vec<String>,
    },
    /// The version has no digests in the table.
    #[error("no digest of {name} {version} is known to this program; it knows {}", known.join(", "))]
    Version {
        /// The component.
        name: String,
        /// The wanted version.
        version: String,
        /// Versions with digests, oldest first.
        known: Vec<String>,
    },
    /// Upstream has no file, or we no digest, for that architecture.
    #[error("no digest of {name} {version} for {arch} is known to this program; it knows {}", known.join(", "))]
    Arch {
        /// The component.
        name: String,
        /// The version.
        version: String,
        /// The wanted architecture.
        arch: String,
        /// Architectures with digests.
        known: Vec<String>,
    },
}

impl Releases {
    /// The table that this program was built with.
    pub fn embedded() -> Result<Self, ReleaseError> {
        serde_saphyr::from_str(TABLE).map_err(|error| ReleaseError::Table(error.to_string()))
    }

    /// The file of `name` in `version` (the newest where `None`) for `arch` (`amd64`, `arm64`).
    pub fn find(&self, name: &str, version: Option<&str>, arch: &str) -> Result<Release, ReleaseError> {
        let component = self.0.get(name).ok_or_else(|| ReleaseError::Component {
            name: name.to_owned(),
            known: self.0.keys().cloned().collect(),
        })?;
        let mut versions: Vec<&String> = component.versions.keys().collect();
        versions.sort_by_key(|version| numbers(version));
        let wanted = version.or(versions.last().map(|newest| newest.as_str())).unwrap_or_default();
        let digests = component.versions.get(wanted).ok_or_else(|| ReleaseError::Version {
            name: name.to_owned(),
            version: wanted.to_owned(),
            known: versions.into_iter().cloned().collect(),
        })?;
        let sha256 = digests.get(arch).ok_or_else(|| ReleaseError::Arch {
            name: name.to_owned(),
            version: wanted.to_owned(),
            arch: arch.to_owned(),
            known: digests.keys().cloned().collect(),
        })?;
        Ok(component.release(name, wanted, arch, sha256))
    }

    /// The file of `name` with this digest, whatever its version and architecture.
    pub fn by_digest(&self, name: &str, sha256: &str) -> Option<Release> {
        let component = self.0.get(name)?;
        component.versions.iter().find_map(|(version, digests)| {
            let (arch, _) = digests.iter().find(|(_, digest)| *digest == sha256)?;
            Some(component.release(name, version, arch, sha256))
        })
    }
}

impl Component {
    fn release(&self, name: &str, version: &str, arch: &str, sha256: &str) -> Release {
        Release {
            name: name.to_owned(),
            version: version.to_owned(),
            url: self.url.replace("{version}", version).replace("{arch}", arch),
            sha256: sha256.to_owned(),
            format: self.format,
        }
    }
}

/// `1.36.10` is newer than `1.36.9`, which text order has wrong.
fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_upstreams_file_with_its_digest() {
        let release = Releases::embedded().unwrap().find("kubelet", Some("1.36.3"), "amd64").unwrap();
        assert_eq!(release.url, "https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet");
        assert_eq!(release.sha256, "46707a53209f826ad0f0d62371ac69cd00e78fd9a8176cf5f6f87f18f7f8b718");
        assert_eq!(release.format, ReleaseFormat::Plain);
    }

    #[test]
    fn takes_the_newest_version_where_none_is_wanted() {
        let releases = Releases::embedded().unwrap();
        let containerd = releases.find("containerd", None, "arm64").unwrap();
        assert_eq!(
            containerd.url,
            "https://github.com/containerd/containerd/releases/download/v2.3.4/containerd-static-2.3.4-linux-arm64.tar.gz"
        );
        assert_eq!(releases.by_digest("containerd", &containerd.sha256).unwrap(), containerd);
        let cni = releases.find("cni-plugins", None, "amd64").unwrap();
        assert_eq!(
            cni.url,
            "https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz"
        );
        assert!(numbers("1.36.10") > numbers("1.36.9"));
    }

    #[test]
    fn every_digest_is_sha256_and_every_url_is_complete() {
        let Releases(components) = Releases::embedded().unwrap();
        for (name, component) in &components {
            for (version, digests) in &component.versions {
                for (arch, sha256) in digests {
                    let release = component.release(name, version, arch, sha256);
                    assert!(
                        sha256.len() == 64 && sha256.bytes().all(|b| b"0123456789abcdef".contains(&b)),
                        "{name} {version} {arch}: {sha256}"
                    );
                    assert!(release.url.starts_with("https://") && !release.url.contains('{'), "{}", release.url);
                    assert!(release.url.contains(version.as_str()) && release.url.contains(arch.as_str()));
                }
            }
        }
    }

    #[test]
    fn says_what_is_known_where_the_wanted_file_is_not() {
        let releases = Releases::embedded().unwrap();
        assert_eq!(
            releases.find("kubelet", Some("1.35.2"), "amd64").unwrap_err().to_string(),
            "no digest of kubelet 1.35.2 is known to this program; it knows 1.36.0, 1.36.1, 1.36.2, 1.36.3, 1.36.4"
        );
        assert_eq!(
            releases.find("runc", None, "riscv64").unwrap_err().to_string(),
            "no digest of runc 1.4.3 for riscv64 is known to this program; it knows amd64, arm64"
        );
        assert!(releases.find("kublet", None, "amd64").unwrap_err().to_string().contains("kubelet"));
    }
}
