//! Where files and images come from: upstream's releases, a folder, a mirror. Every one has a digest.

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The file itself.
    Plain,
    /// A tar archive (an image archive too).
    Tar,
    /// A gzip'ed tar archive.
    TarGz,
}
