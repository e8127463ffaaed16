//! What can go wrong on the way to a verified file.

use std::path::{Path, PathBuf};

use hostspan_manifests::releases::ReleaseError;

/// Why an artifact cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The fleet file names a source but not what it needs.
    #[error("spec.artifacts.source is `{source_kind}`, which needs spec.artifacts.{key}: add it to the fleet file")]
    Setting {
        /// The missing key.
        key: &'static str,
        /// The kind of source.
        source_kind: &'static str,
    },
    /// Neither HOME nor XDG_CACHE_HOME.
    #[error(
        "this user has no home directory, so there is no place for a cache: set XDG_CACHE_HOME to an absolute path"
    )]
    NoHome,
    /// The embedded table of releases is broken: a bug.
    #[error(transparent)]
    Table(#[from] ReleaseError),
    /// Upstream's file or its digest is not known.
    #[error(
        "{0}. To use another one, put the files into a folder with an {index} and set spec.artifacts to \
         {{source: folder, path: FOLDER}}", index = super::INDEX_FILE
    )]
    NoRelease(#[source] ReleaseError),
    /// The artifact belongs to another store.
    #[error("{name}: no release file has this digest, so there is nowhere to download it from")]
    NoSource {
        /// The artifact.
        name: String,
    },
    /// The folder's index cannot be parsed.
    #[error("{}:{line}:{column}: {message}", index.display())]
    Index {
        /// The file.
        index: PathBuf,
        /// From 1; 0 where the parser had no place.
        line: u64,
        /// From 1; 0 where the parser had no place.
        column: u64,
        /// What is wrong.
        message: String,
    },
    /// The folder does not offer it.
    #[error("{}: it has no {name}{detail}; it has {has}. Add the file, or choose another source in spec.artifacts", index.display())]
    NotInFolder {
        /// The index file.
        index: PathBuf,
        /// The wanted artifact.
        name: String,
        /// Version and architecture, with a leading space.
        detail: String,
        /// Names that it has.
        has: String,
    },
    /// The index points out of its folder.
    #[error("{}: file `{file}` must be a path below the folder, without `..`", index.display())]
    OutsideFolder {
        /// The index file.
        index: PathBuf,
        /// The path in it.
        file: String,
    },
    /// A file on this machine is not what its digest says.
    #[error(
        "{}: its SHA-256 is {got}, but {wanted} is wanted. The file was changed or damaged: bring it again, and if you \
         changed it yourself, record the new digest in {index}",
        path.display(), index = super::INDEX_FILE
    )]
    Digest {
        /// The file.
        path: PathBuf,
        /// The recorded digest.
        wanted: String,
        /// What it is.
        got: String,
    },
    /// A download is not what its digest says.
    #[error(
        "{url}: its SHA-256 is {got}, but {wanted} is wanted. Something between here and upstream (a proxy, a mirror) \
         changed or replaced the file; nothing was kept"
    )]
    DownloadDigest {
        /// Where it came from.
        url: String,
        /// The known digest.
        wanted: String,
        /// What came.
        got: String,
    },
    /// A server sends more or less than it should.
    #[error("{url}: the server offers {got} bytes, but the file has {wanted}; is this the right mirror?")]
    Size {
        /// Where it came from.
        url: String,
        /// Bytes wanted.
        wanted: u64,
        /// Bytes offered.
        got: u64,
    },
    /// The server said no.
    #[error("{url}: the server answered {status}. {}", hint(*status))]
    Status {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// No connection, or it broke too often.
    #[error(
        "{url}: {message}. Is this machine online? A proxy goes into HTTPS_PROXY or spec.artifacts.proxy; without any \
         access to the internet use a folder or a mirror (spec.artifacts)"
    )]
    Network {
        /// The URL.
        url: String,
        /// What the HTTP client says.
        message: String,
    },
    /// The proxy setting cannot be used.
    #[error("spec.artifacts.proxy is not a proxy URL such as http://proxy.example.test:3128")]
    Proxy,
    /// A file operation of this machine failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl ArtifactError {
    /// For `map_err`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

fn hint(status: u16) -> &'static str {
    match status {
        404 => "The file is not there: on a mirror, keep upstream's host and path below its URL",
        401 | 403 | 407 => "Access is refused: check the proxy or mirror and its credentials",
        _ => "Try again later, or choose another source in spec.artifacts",
    }
}
