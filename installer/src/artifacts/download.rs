//! One file from the web into the cache: resumed after a cut, verified, whole or not at all.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, NoProxy, Proxy, Response, StatusCode};
use sha2::{Digest, Sha256};

use super::verified::{Known, hash_into, hex, lock};
use super::{ArtifactError, ArtifactRef};
use crate::progress::{Event, Events};

/// No release file is near this; a server that sends without end must not fill the disk.
const LARGEST: u64 = 2 << 30;
/// How often a broken link is tried again; answers of the server never are.
const RETRIES: u32 = 4;

/// A client with the proxy of the fleet file, or the environment's.
pub(crate) fn client(proxy: Option<&str>) -> Result<Client, ArtifactError> {
    let mut builder = Client::builder()
        .user_agent(concat!("hostspan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(15))
        .read_timeout(Duration::from_secs(30));
    if let Some(proxy) = proxy {
        // The URL may hold a password, so the error does not show it.
        let proxy = Proxy::all(proxy).map_err(|_| ArtifactError::Proxy)?;
        builder = builder.proxy(proxy.no_proxy(NoProxy::from_env()));
    }
    builder.build().map_err(|_| ArtifactError::Proxy)
}

/// A download.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client,
    pub(super) url: &'a str,
    pub(super) artifact: &'a ArtifactRef,
    pub(super) cache: &'a Path,
    pub(super) events: &'a Events,
}

/// What ended an attempt.
enum Broken {
    /// The link; what came so far stays for the next attempt.
    Link(String),
    /// Something that another attempt will not change.
    For(ArtifactError),
}

impl From<ArtifactError> for Broken {
    fn from(error: ArtifactError) -> Self {
        Self::For(error)
    }
}

/// What has come so far.
struct Part {
    file: File,
    path: PathBuf,
    hasher: Sha256,
    length: u64,
}

impl Download<'_> {
    /// The cached file; downloads it if it is not there.
    pub(super) async fn run(&self) -> Result<PathBuf, ArtifactError> {
        let path = self.cache.join("artifacts").join(&self.artifact.sha256);
        let part_path = path.with_extension("part");
        let known = Known::new(self.cache);
        if self.cached(&known, &path).await? {
            return Ok(path);
        }
        let mut part = self.open(&part_path).await?;
        // Another task or process may have finished it while this one waited for the lock. Then the file behind the
        // lock is the finished one, renamed; a new part file must be opened before anything is written.
        if self.cached(&known, &path).await? {
            if part.length == 0 {
                std::fs::remove_file(&part_path).map_err(ArtifactError::io("remove", &part_path))?;
            }
            return Ok(path);
        }
        if !part_path.exists() {
            part = self.open(&part_path).await?;
        }
        let resumed = part.length > 0;
        self.attempts(&mut part).await?;
        let mut got = hex(&part.hasher.finalize_reset());
        if got != self.artifact.sha256 && resumed {
            // The kept beginning may be the culprit (a disk that was full, another server), so once more without it.
            part.restart()?;
            self.attempts(&mut part).await?;
            got = hex(&part.hasher.finalize_reset());
        }
        if got != self.artifact.sha256 {
            std::fs::remove_file(&part_path).map_err(ArtifactError::io("remove", &part_path))?;
            return Err(ArtifactError::DownloadDigest {
                url: self.url.to_owned(),
                wanted: self.artifact.sha256.clone(),
                got,
            });
        }
        part.file.sync_all().map_err(ArtifactError::io("write", &part_path))?;
        std::fs::rename(&part_path, &path).map_err(ArtifactError::io("write", &path))?;
        known.remember(&path, &self.artifact.sha256).await?;
        Ok(path)
    }

    /// Whether the cache has it. A damaged file is removed, since here, unlike in a folder, it can be had again.
    async fn cached(&self, known: &Known, path: &Path) -> Result<bool, ArtifactError> {
        if !path.exists() {
            return Ok(false);
        }
        match known.verify(path, &self.artifact.sha256).await {
            Ok(()) => Ok(true),
            Err(ArtifactError::Digest { .. }) => {
                std::fs::remove_file(path).map_err(ArtifactError::io("remove", path))?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the part file locked, and hashes what an earlier run left.
    async fn open(&self, path: &Path) -> Result<Part, ArtifactError> {
        let (mut file, owned) = (lock(path, || ()).await?, path.to_owned());
        let hashed = tokio::task::spawn_blocking(move || {
            let mut hasher = Sha256::new();
            hash_into(&mut file, &mut hasher)?;
            let length = file.stream_position()?;
            Ok::<_, std::io::Error>(Part { file, path: owned, hasher, length })
        });
        hashed.await.map_err(std::io::Error::other).and_then(|part| part).map_err(ArtifactError::io("read", path))
    }

    async fn attempts(&self, part: &mut Part) -> Result<(), ArtifactError> {
        let mut retries = 0;
        loop {
            let before = part.length;
            let message = match self.attempt(part).await {
                Ok(()) => return Ok(()),
                Err(Broken::For(error)) => return Err(error),
                Err(Broken::Link(message)) => message,
            };
            // A link that breaks now and then but moves on is not given up.
            retries = if part.length > before { 1 } else { retries + 1 };
            if retries > RETRIES {
                return Err(ArtifactError::Network { url: self.url.to_owned(), message });
            }
            tokio::time::sleep(Duration::from_millis(250 << retries)).await;
        }
    }

    async fn attempt(&self, part: &mut Part) -> Result<(), Broken> {
        let mut request = self.client.get(self.url);
        if part.length > 0 {
            request = request.header(RANGE, format!("bytes={}-", part.length));
        }
        let mut response = request.send().await.map_err(|error| Broken::Link(causes(error)))?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if continues_at(&response, part.length) => {}
            StatusCode::OK => part.restart()?,
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PARTIAL_CONTENT => {
                // What is here is not a beginning of what the server has.
                part.restart()?;
                return Err(Broken::Link("the server cannot resume the download".into()));
            }
            status if status.is_server_error() => {
                return if matches!(status.as_u16(), 502..=504) {
                    Err(Broken::Link(format!("the server answered {}", status.as_u16())))
                } else {
                    Err(self.status(status).into())
                };
            }
            status => return Err(self.status(status).into()),
        }
        let total = response.content_length().map(|rest| part.length + rest);
        if let (Some(wanted), Some(got)) = (self.artifact.size, total)
            && wanted != got
        {
            return Err(ArtifactError::Size { url: self.url.to_owned(), wanted, got }.into());
        }
        let limit = self.artifact.size.unwrap_or(LARGEST);
        let mut told = Instant::now();
        self.tell(part.length, total);
        while let Some(chunk) = response.chunk().await.map_err(|error| Broken::Link(causes(error)))? {
            let length = part.length + chunk.len() as u64;
            if length > limit {
                return Err(ArtifactError::Size { url: self.url.to_owned(), wanted: limit, got: length }.into());
            }
            part.file.write_all(&chunk).map_err(ArtifactError::io("write", &part.path))?;
            part.hasher.update(&chunk);
            part.length = length;
            if told.elapsed() > Duration::from_millis(100) {
                told = Instant::now();
                self.tell(length, total);
            }
        }
        self.tell(part.length, total);
        Ok(())
    }

    fn status(&self, status: StatusCode) -> ArtifactError {
        ArtifactError::Status { url: self.url.to_owned(), status: status.as_u16() }
    }

    fn tell(&self, done: u64, total: Option<u64>) {
        let (host, what) = ("local".to_owned(), self.artifact.name.clone());
        self.events.send(Event::Bytes { host, what, done, total });
    }
}

impl Part {
    fn restart(&mut self) -> Result<(), ArtifactError> {
        self.hasher.reset();
        self.length = 0;
        self.file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .map(|_| ())
            .map_err(ArtifactError::io("write", &self.path))
    }
}

fn continues_at(response: &Response, length: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    length > 0 && range.starts_with(&format!("bytes {length}-"))
}

/// The whole chain: reqwest's own first line ("error sending request") says nothing. Without its URL, which the caller
/// names already, and which may be a proxy's with a password.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
