//! Digests of files on this machine, each computed once: a file with the same size and time as when it was hashed is
//! taken as unchanged, so that a run in which nothing changed reads no gigabytes.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::ArtifactError;

/// What this user's earlier runs verified.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    dir: PathBuf,
}

impl Known {
    /// Remembered below `cache`.
    pub(crate) fn new(cache: &Path) -> Self {
        Self { dir: cache.join("verified") }
    }

    /// Succeeds if `path` has this digest.
    pub(crate) async fn verify(&self, path: &Path, sha256: &str) -> Result<(), ArtifactError> {
        let expected = record(sha256, &metadata(path)?);
        let note = self.note(path);
        if std::fs::read_to_string(&note).is_ok_and(|text| text == expected) {
            return Ok(());
        }
        let mut note_file = lock(&note, || ()).await?;
        let mut text = String::new();
        // What another task or process wrote while this one waited. Not UTF-8: treated as not there.
        if note_file.read_to_string(&mut text).is_ok() && text == expected {
            return Ok(());
        }
        let hashed = path.to_owned();
        let got = match tokio::task::spawn_blocking(move || hash_file(&hashed)).await {
            Ok(got) => got.map_err(ArtifactError::io("read", path))?,
            Err(error) => return Err(ArtifactError::io("read", path)(std::io::Error::other(error))),
        };
        if got != sha256 {
            return Err(ArtifactError::Digest { path: path.to_owned(), wanted: sha256.to_owned(), got });
        }
        overwrite(&mut note_file, &expected).map_err(ArtifactError::io("write", &note))
    }

    /// Notes a digest that was computed while `path` was written.
    pub(crate) async fn remember(&self, path: &Path, sha256: &str) -> Result<(), ArtifactError> {
        let expected = record(sha256, &metadata(path)?);
        let note = self.note(path);
        if std::fs::read_to_string(&note).is_ok_and(|text| text == expected) {
            return Ok(());
        }
        let mut note_file = lock(&note, || ()).await?;
        overwrite(&mut note_file, &expected).map_err(ArtifactError::io("write", &note))
    }

    /// One note a path, so that their number stays bounded however often a file changes.
    fn note(&self, path: &Path) -> PathBuf {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.dir.join(hex(&Sha256::digest(path.as_os_str().as_bytes())))
    }
}

/// Opens `path` (made if absent, with its parents) with an exclusive lock, which ends with the returned file: also when
/// this process is killed. Waits for another holder without blocking the runtime's threads, and calls `waiting` first.
pub(crate) async fn lock(path: &Path, waiting: impl FnOnce()) -> Result<File, ArtifactError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(ArtifactError::io("create", parent))?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(ArtifactError::io("open", path))?;
    let mut waiting = Some(waiting);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                if let Some(waiting) = waiting.take() {
                    waiting();
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(TryLockError::Error(error)) => return Err(ArtifactError::io("lock", path)(error)),
        }
    }
}

/// SHA-256 of the rest of `file`, fed into `hasher`.
pub(super) fn hash_into(file: &mut File, hasher: &mut Sha256) -> std::io::Result<()> {
    let mut buffer = vec![0_u8; 1 << 18];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn hash_file(path: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    hash_into(&mut File::open(path)?, &mut hasher)?;
    Ok(hex(&hasher.finalize()))
}

fn metadata(path: &Path) -> Result<Metadata, ArtifactError> {
    std::fs::metadata(path).map_err(ArtifactError::io("read", path))
}

fn record(sha256: &str, metadata: &Metadata) -> String {
    format!("{sha256} {} {}.{:09}\n", metadata.size(), metadata.mtime(), metadata.mtime_nsec())
}

fn overwrite(file: &mut File, text: &str) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}
