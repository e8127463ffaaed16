//! The index of an artifact folder.

use std::path::Path;

use hostspan_manifests::names::API_VERSION;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{ArtifactError, Format};

/// The index's file name in its folder.
pub const INDEX_FILE: &str = "artifacts.yaml";

const KIND: &str = "ArtifactFolder";

/// `artifacts.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FolderIndex {
    /// `hostspan.dev/v1alpha1`.
    pub api_version: String,
    /// `ArtifactFolder`.
    pub kind: String,
    /// Where the files came from, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// What is in the folder.
    pub files: Vec<FolderFile>,
}

/// A file of an artifact folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FolderFile {
    /// `kubelet`, `containerd`, `image:registry.k8s.io/pause:3.10.2`.
    pub name: String,
    /// Without a `v`; a fleet file that wants another version does not get this file. Absent: fits any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `amd64`, `arm64`.
    pub arch: String,
    /// Path below the folder.
    pub file: String,
    /// Lower-case hex.
    #[serde(deserialize_with = "sha256")]
    pub sha256: String,
    /// Bytes.
    pub size: u64,
    /// What the file is.
    pub format: Format,
}

impl FolderIndex {
    /// An index of `files`.
    pub fn new(origin: &str, files: Vec<FolderFile>) -> Self {
        Self { api_version: API_VERSION.into(), kind: KIND.into(), origin: Some(origin.into()), files }
    }

    /// Reads the index at `path`.
    pub fn read(path: &Path) -> Result<Self, ArtifactError> {
        let text =
            std::fs::read_to_string(path).map_err(ArtifactError::io("read the index of the artifact folder", path))?;
        Self::parse(&text, path)
    }

    /// Parses `text`; `path` is for errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ArtifactError> {
        let at = |line, column, message| ArtifactError::Index { index: path.to_owned(), line, column, message };
        let index: Self = serde_saphyr::from_str(text).map_err(|error| {
            let place = error.location();
            let message = error.without_snippet().to_string();
            at(place.map_or(0, |place| place.line()), place.map_or(0, |place| place.column()), message)
        })?;
        if index.api_version != API_VERSION || index.kind != KIND {
            return Err(at(1, 1, format!("this is not an `{KIND}` of `{API_VERSION}`")));
        }
        Ok(index)
    }

    /// Writes it to `path`, whole or not at all, and only if it differs from what is there.
    pub fn write(&self, path: &Path) -> Result<(), ArtifactError> {
        let text = serde_saphyr::to_string(self).map_err(|error| ArtifactError::Io {
            what: "write",
            path: path.to_owned(),
            source: std::io::Error::other(error),
        })?;
        if std::fs::read_to_string(path).is_ok_and(|now| now == text) {
            return Ok(());
        }
        let temporary = path.with_extension("yaml.new");
        std::fs::write(&temporary, text).map_err(ArtifactError::io("write", &temporary))?;
        std::fs::rename(&temporary, path).map_err(ArtifactError::io("write", path))
    }
}

fn sha256<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(text);
    }
    Err(D::Error::custom("a SHA-256 is 64 lower-case hex digits"))
}
