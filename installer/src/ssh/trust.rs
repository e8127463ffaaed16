//! Whether a host key is the right one, and recording it where that was asked for.

use std::path::Path;
use std::sync::Arc;

use russh::keys::{Algorithm, HashAlg, PublicKeyOrCertificate};
use tokio::sync::Mutex;

use super::RemoteErrorKind;
use super::client::Refusal;
use super::known_hosts::{KnownHosts, Place, Verdict, line_for};
use super::target::Endpoint;

/// Read besides the user's own files; never written.
const GLOBAL_KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";

/// What is known of one hop's host key.
pub(super) struct Trust {
    hop: Endpoint,
    known: KnownHosts,
    accept_new: bool,
    /// One writer of known_hosts at a time in this process; a file lock keeps other processes out.
    recording: Arc<Mutex<()>>,
}

impl Trust {
    pub(super) async fn read(hop: &Endpoint, accept_new: bool, recording: Arc<Mutex<()>>) -> Result<Self, Refusal> {
        let known = read_known_hosts(hop).await?;
        Ok(Self { hop: hop.clone(), known, accept_new, recording })
    }

    pub(super) fn hop(&self) -> &Endpoint {
        &self.hop
    }

    /// Types of the recorded keys, for negotiation.
    pub(super) fn recorded_types(&self) -> Vec<&str> {
        self.known.recorded_types(&self.hop.known_names)
    }

    /// Accepts or refuses the key that the server showed (and has proven to hold).
    pub(super) async fn judge(&self, offered: &PublicKeyOrCertificate) -> Result<(), Refusal> {
        let refuse = |message: String| Refusal::new(RemoteErrorKind::HostKey, message);
        let PublicKeyOrCertificate::PublicKey { key, .. } = offered else {
            return Err(refuse("the server showed a certificate, which was not asked for".into()));
        };
        let algorithm = key.algorithm();
        let name = key_type(&algorithm);
        let blob = key.to_bytes().map_err(|error| refuse(format!("the host key cannot be read: {error}")))?;
        let at = format!("{} port {}", self.hop.address, self.hop.port);
        let shown = format!("{name} {}", key.fingerprint(HashAlg::Sha256));
        let verdict = self.known.verdict_of_names(&self.hop.known_names, name, &blob);
        let recorded_as = self.hop.known_names.first().map_or("", String::as_str);
        let forget = |place: &Place| {
            format!(
                "if the host was reinstalled: ssh-keygen -R '{recorded_as}' -f {}, then run again with --accept-new; else \
                 somebody may stand in between",
                place.file.display()
            )
        };
        match verdict {
            Verdict::Match => Ok(()),
            Verdict::Unknown { .. } if self.accept_new => {
                let line = line_for(recorded_as, name, &blob);
                record(&self.recording, &self.hop, name, blob, line).await
            }
            Verdict::Unknown { authority } => {
                let only = if authority { " (only a @cert-authority, which is not supported)" } else { "" };
                let file = self.hop.known_hosts.first().map_or_else(|| "no file".into(), |f| f.display().to_string());
                Err(refuse(format!("the host key of {at} is not in {file}{only}; it shows {shown}")).help(format!(
                    "compare it with `ssh-keygen -lf` of /etc/ssh/ssh_host_*_key.pub on the host, then run again with \
                     --accept-new, or log in once: ssh -p {} {}@{}",
                    self.hop.port, self.hop.user, self.hop.address
                )))
            }
            Verdict::Changed(place) => {
                Err(refuse(format!("the host key of {at} changed: it shows {shown}, {place} has another one"))
                    .help(forget(&place)))
            }
            Verdict::OtherType(place) => Err(refuse(format!(
                "the host key of {at} is of another type than the recorded ones: it shows {shown}, see {place}"
            ))
            .help(forget(&place))),
            Verdict::Revoked(place) => Err(refuse(format!("the host key of {at} is revoked by {place}: {shown}"))
                .help("do not connect; replace the host's keys, as whoever revoked this one wanted")),
        }
    }
}

/// A key type's name as known_hosts has it: RSA has one, whatever the hash.
pub(super) fn key_type(algorithm: &Algorithm) -> &str {
    match algorithm {
        Algorithm::Rsa { .. } => "ssh-rsa",
        other => other.as_str(),
    }
}

async fn read_known_hosts(hop: &Endpoint) -> Result<KnownHosts, Refusal> {
    let mut known = KnownHosts::default();
    for file in hop.known_hosts.iter().map(AsRef::as_ref).chain([Path::new(GLOBAL_KNOWN_HOSTS)]) {
        match tokio::fs::read(file).await {
            Ok(bytes) => known.add(file, &String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // Never taken for an empty one: it may hold the line that says that the key is wrong.
            Err(error) => {
                let message = format!("{} cannot be read: {error}", file.display());
                return Err(Refusal::new(RemoteErrorKind::Local, message));
            }
        }
    }
    Ok(known)
}

/// Appends a line for a host that is not known yet, unless somebody else did so meanwhile.
async fn record(
    recording: &Mutex<()>,
    hop: &Endpoint,
    key_type: &str,
    key: Vec<u8>,
    line: String,
) -> Result<(), Refusal> {
    let Some(file) = hop.known_hosts.first().cloned() else { return Ok(()) };
    let _one_writer = recording.lock().await;
    let (names, key_type, shown) = (hop.known_names.clone(), key_type.to_owned(), file.display().to_string());
    let written = tokio::task::spawn_blocking(move || append(&file, &names, &key_type, &key, &line)).await;
    match written {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => {
            let message = format!("another key for the host was recorded in {shown} at the same time");
            Err(Refusal::new(RemoteErrorKind::HostKey, message).help("look at that file, then run again"))
        }
        Ok(Err(error)) => Err(Refusal::new(RemoteErrorKind::Local, format!("{shown} cannot be written: {error}"))),
        Err(error) => Err(Refusal::new(RemoteErrorKind::Local, format!("{shown} cannot be written: {error}"))),
    }
}

/// `false` when the file has another key for the host by now.
fn append(file: &Path, names: &[String], key_type: &str, key: &[u8], line: &str) -> std::io::Result<bool> {
    use std::io::{Read, Write};
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

    if let Some(folder) = file.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut opened = std::fs::OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(file)?;
    opened.lock()?;
    let mut bytes = Vec::new();
    opened.read_to_end(&mut bytes)?;
    let mut known = KnownHosts::default();
    known.add(file, &String::from_utf8_lossy(&bytes));
    match known.verdict_of_names(names, key_type, key) {
        Verdict::Match => Ok(true),
        Verdict::Unknown { .. } => {
            // A last line without its newline would swallow ours.
            let gap = if bytes.last().is_none_or(|&byte| byte == b'\n') { "" } else { "\n" };
            opened.write_all(format!("{gap}{line}").as_bytes())?;
            Ok(true)
        }
        Verdict::Changed(_) | Verdict::OtherType(_) | Verdict::Revoked(_) => Ok(false),
    }
}
