//! Bringing a file to a host: SFTP into a folder beside its place, verified there, then renamed by root.

use std::path::Path;
use std::time::Duration;

use russh_sftp::client::{Config, SftpSession};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::exec::Input;
use super::quote::quote;
use super::session::SshRemote;
use super::{Remote, RemoteError, RemoteErrorKind, Request, Upload};

/// Bytes read from the file at a time.
const CHUNK: usize = 256 * 1024;
/// The largest packet that OpenSSH's server takes; it says itself how much of that a write may have.
const WRITE: u32 = 256 * 1024;
/// 4 MiB in flight, for long distances; more only fills the channel's window.
const WRITES_IN_FLIGHT: usize = 16;
/// A slow disk may take its time over a write.
const WRITE_TIMEOUT_SECS: u64 = 120;
/// Hashing what is there and making folders.
const SCRIPT_TIMEOUT: Duration = Duration::from_mins(10);
/// The slowest link that is waited for, in bytes a second.
const SLOWEST: u64 = 16 * 1024;

/// openssl uses the CPU's SHA instructions, which the sha256sum of Debian 12 does not: a quarter of its time.
const DIGEST: &str = r#"
digest() {
    if command -v openssl >/dev/null; then openssl dgst -sha256 -r; else sha256sum; fi <"$1" | cut -c1-64
}
"#;

/// Says `present`, or makes a folder for the login user beside the file's place and says `staged`.
const PREPARE: &str = r#"
if [ -f "$to" ] && [ "$(digest "$to")" = "$sha256" ]; then echo present; exit 0; fi
mkdir -p "${to%/*}" || exit 1
rm -rf "$stage" && mkdir -m 0700 "$stage" && chown "${SUDO_UID:-0}" "$stage" || exit 1
echo staged
"#;

/// Takes the file away from the login user before looking at it, so that what is verified is what is renamed.
const FINISH: &str = r#"
chown 0:0 "$stage" "$stage/file" && chmod 0600 "$stage/file" || exit 1
found=$(digest "$stage/file")
if [ "$found" != "$sha256" ]; then rm -rf "$stage"; echo "digest $found"; exit 0; fi
mv -f "$stage/file" "$to" && rmdir "$stage" && echo done
"#;

pub(super) async fn upload(
    remote: &SshRemote,
    upload: Upload<'_>,
    on_bytes: &(dyn Fn(u64) + Send + Sync),
) -> Result<bool, RemoteError> {
    let local = |error: std::io::Error| {
        remote.error(RemoteErrorKind::Local, format!("{} cannot be read: {error}", upload.local.display()))
    };
    let size = tokio::fs::metadata(upload.local).await.map_err(local)?.len();
    let (folder, _) = upload
        .to
        .rsplit_once('/')
        .ok_or_else(|| remote.error(RemoteErrorKind::Upload, format!("{} is not an absolute path", upload.to)))?;
    let stage = format!("{folder}/.hostspan-upload-{}", upload.sha256);
    let names = format!("to={} stage={} sha256={}", quote(upload.to), quote(&stage), quote(upload.sha256));

    match step(remote, &format!("{names}{DIGEST}{PREPARE}"), upload.to).await?.as_str() {
        "present" => return Ok(false),
        "staged" => {}
        other => return Err(unexpected(remote, upload.to, other)),
    }
    let file = format!("{stage}/file");
    if by_sftp(remote, upload.local, &file, on_bytes).await.is_err() {
        // SFTP may be switched off, or the login user may not reach the folder; this tells the reason where it is another.
        let sent = by_stream(remote, upload.local, &stage, size, on_bytes).await;
        if let Err(error) = sent {
            if error.kind == RemoteErrorKind::Upload {
                // A disk that is full should not stay so; where this fails too, the next upload does it.
                drop(step(remote, &format!("rm -rf {}", quote(&stage)), upload.to).await);
            }
            return Err(error);
        }
    }
    match step(remote, &format!("{names}{DIGEST}{FINISH}"), upload.to).await?.as_str() {
        "done" => Ok(true),
        other => match other.strip_prefix("digest ") {
            Some(found) => Err(remote
                .error(
                    RemoteErrorKind::Upload,
                    format!("{} arrived with SHA-256 {found} instead of {}", upload.to, upload.sha256),
                )
                .with_help(format!("check {}: it is not the file that was meant", upload.local.display()))),
            None => Err(unexpected(remote, upload.to, other)),
        },
    }
}

/// Runs one of the scripts above as root and gives its word.
async fn step(remote: &SshRemote, script: &str, to: &str) -> Result<String, RemoteError> {
    let request = Request { script, root: true, timeout: SCRIPT_TIMEOUT };
    let finished = remote.run(request, &mut |_| {}).await?;
    if finished.code == 0 {
        Ok(finished.stdout.trim().to_owned())
    } else {
        Err(failed(remote, to, finished.code, &finished.stderr))
    }
}

fn failed(remote: &SshRemote, to: &str, code: i32, stderr: &str) -> RemoteError {
    let said = stderr.trim().lines().last().unwrap_or("nothing was said").to_owned();
    remote
        .error(RemoteErrorKind::Upload, format!("{to} could not be written (exit status {code}): {said}"))
        .with_help("check free space and that the file system is writable")
}

fn unexpected(remote: &SshRemote, to: &str, said: &str) -> RemoteError {
    remote.error(RemoteErrorKind::Upload, format!("{to} could not be written: the host said `{said}`"))
}

/// Why SFTP did not do. The caller has another way, so the reason is only for the log.
struct NoSftp;

async fn by_sftp(
    remote: &SshRemote,
    local: &Path,
    to: &str,
    on_bytes: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), NoSftp> {
    let note = |error: &dyn std::fmt::Display| {
        tracing::debug!(host = remote.host(), %error, "no upload by SFTP");
        NoSftp
    };
    let opened = remote.subsystem("sftp").await.map_err(|error| note(&error))?;
    let config = Config {
        max_concurrent_writes: WRITES_IN_FLIGHT,
        max_write_packet_len: WRITE,
        request_timeout_secs: WRITE_TIMEOUT_SECS,
        ..Config::default()
    };
    let sftp =
        SftpSession::new_with_config(opened.channel.into_stream(), config).await.map_err(|error| note(&error))?;
    let mut to = sftp.create(to).await.map_err(|error| note(&error))?;
    let mut from = tokio::fs::File::open(local).await.map_err(|error| note(&error))?;
    let mut chunk = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let read = from.read(&mut chunk).await.map_err(|error| note(&error))?;
        if read == 0 {
            break;
        }
        to.write_all(&chunk[..read]).await.map_err(|error| note(&error))?;
        done += read as u64;
        on_bytes(done);
    }
    to.close().await.map_err(|error| note(&error))?;
    sftp.close().await.map_err(|error| note(&error))
}

async fn by_stream(
    remote: &SshRemote,
    local: &Path,
    stage: &str,
    size: u64,
    on_bytes: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), RemoteError> {
    let stage = quote(stage);
    let command = format!("chown 0 {stage} && rm -f {stage}/file && umask 077 && exec cat >{stage}/file");
    let timeout = SCRIPT_TIMEOUT + Duration::from_secs(size / SLOWEST);
    let input = Input::File { path: local, on_bytes };
    let finished = remote.execute(true, &command, input, timeout, &mut |_| {}).await?;
    if finished.code == 0 { Ok(()) } else { Err(failed(remote, &stage, finished.code, &finished.stderr)) }
}
