//! Logging in: which keys are tried, in which order, and what a refusal means.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use russh::client::{AuthResult, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{
    Algorithm, Error as KeyError, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, decode_secret_key,
};
use russh::{MethodKind, Signer};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use super::RemoteErrorKind;
use super::client::{Client, Farewell, Refusal};
use super::prompt::Answers;
use super::target::Endpoint;

/// sshd's `MaxAuthTries` is 6 where nobody changed it; one refusal more and it hangs up.
const MAX_ATTEMPTS: usize = 6;
/// How long sshd may take over one attempt. PAM may delay a refusal by some seconds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an agent may take; it may ask a person to touch a token.
const AGENT_TIMEOUT: Duration = Duration::from_mins(1);
/// A key file is some kilobytes; anything larger is not one.
const MAX_KEY_FILE: u64 = 256 * 1024;

/// A key that can be tried.
#[derive(Debug, Clone)]
struct Candidate {
    /// For people: where it comes from.
    label: String,
    /// Known before a passphrase is, except for old encrypted formats.
    public: Option<PublicKey>,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Agent,
    Open(Arc<PrivateKey>),
    Locked {
        file: PathBuf,
        text: String,
    },
    /// Only the public half is here; of use when the agent has the other one.
    PublicOnly,
}

type Agent = AgentClient<UnixStream>;

/// Agents serve one request after another anyway, and some of them ask a person: one at a time in this process.
static AGENT: Mutex<()> = Mutex::const_new(());

/// Logs in, or says what was tried.
pub(super) async fn log_in(
    handle: &mut Handle<Client>,
    endpoint: &Endpoint,
    agent_socket: Option<&Path>,
    answers: &Answers,
    farewell: &Farewell,
) -> Result<(), Refusal> {
    let mut notes = Vec::new();
    let mut agent = match agent_socket {
        Some(path) => open_agent(path, handle, &mut notes).await,
        None => None,
    };
    let held = match &mut agent {
        Some(agent) => identities(agent, &mut notes).await,
        None => Vec::new(),
    };
    let configured = read_files(&endpoint.identity_files, &mut notes).await;
    // A default file that is not there is no news.
    let defaults = match endpoint.identity_files.as_slice() {
        [] => read_files(&endpoint.default_identity_files, &mut Vec::new()).await,
        _ => Vec::new(),
    };
    let candidates = order(configured, held, defaults, endpoint.identities_only);

    let mut attempts = Attempts { handle, endpoint, answers, agent, rsa: None, made: 0 };
    for candidate in candidates {
        if attempts.made >= MAX_ATTEMPTS {
            notes.push(format!("further keys were not tried, since sshd hangs up after {MAX_ATTEMPTS}"));
            break;
        }
        let label = candidate.label.clone();
        match attempts.attempt(candidate).await {
            Ok(AuthResult::Success) => return Ok(()),
            Ok(AuthResult::Failure { remaining_methods, partial_success }) => {
                if attempts.handle.is_closed() {
                    return Err(hung_up(attempts.made, farewell));
                }
                if partial_success {
                    notes.push(format!("{label}: accepted, but the server wants more"));
                } else {
                    notes.push(format!("{label}: refused"));
                }
                if !remaining_methods.contains(&MethodKind::PublicKey) {
                    let methods: Vec<&str> = remaining_methods.iter().map(<&str>::from).collect();
                    notes.push(format!("the server only goes on with {}", methods.join(", ")));
                    break;
                }
            }
            Err(Attempt::Skipped(why)) => notes.push(format!("{label}: {why}")),
            Err(Attempt::Lost) => return Err(hung_up(attempts.made, farewell)),
        }
    }
    let message = if notes.is_empty() {
        format!("there is no key to log in as {endpoint}")
    } else {
        format!("no key was accepted for {endpoint} ({})", notes.join("; "))
    };
    Err(Refusal::new(RemoteErrorKind::Auth, message).help(
        "name the right key as ssh.identityFiles in the fleet file (or IdentityFile in ssh_config), or load it into the \
         agent; the host needs its public half in ~/.ssh/authorized_keys",
    ))
}

/// The connection ended in the middle. Whether keys are to blame only the server knows, if it said so.
fn hung_up(tried: usize, farewell: &Farewell) -> Refusal {
    match farewell.text() {
        Some(text) => Refusal::new(RemoteErrorKind::Auth, format!("the server hung up at key {tried}: {text}"))
            .help("name the one right key as ssh.identityFiles in the fleet file, so that it is tried first"),
        None => Refusal::new(RemoteErrorKind::Unreachable, "the connection was lost while logging in"),
    }
}

/// Configured files first (signed for by the agent where it holds the key), then what else the agent has, then the
/// default files. `only` leaves out what the agent has besides. No key twice.
fn order(configured: Vec<Candidate>, held: Vec<Candidate>, defaults: Vec<Candidate>, only: bool) -> Vec<Candidate> {
    let same = |a: &Candidate, b: &Candidate| matches!((&a.public, &b.public), (Some(a), Some(b)) if a.key_data() == b.key_data());
    let by_agent = |candidate: Candidate| match held.iter().find(|key| same(key, &candidate)) {
        Some(key) => Candidate { label: format!("{} (agent)", candidate.label), ..key.clone() },
        None => candidate,
    };
    let besides = if only { Vec::new() } else { held.clone() };
    let mut all: Vec<Candidate> = Vec::new();
    for candidate in configured.into_iter().map(by_agent).chain(besides).chain(defaults.into_iter().map(by_agent)) {
        if !all.iter().any(|known| same(known, &candidate)) {
            all.push(candidate);
        }
    }
    all
}

/// Why an attempt was not one.
enum Attempt {
    Skipped(String),
    Lost,
}

struct Attempts<'a> {
    handle: &'a mut Handle<Client>,
    endpoint: &'a Endpoint,
    answers: &'a Answers,
    agent: Option<Agent>,
    /// Hashes for RSA signatures, once asked of the server.
    rsa: Option<Vec<HashAlg>>,
    /// Attempts so far; an RSA key may take two.
    made: usize,
}

impl Attempts<'_> {
    async fn attempt(&mut self, candidate: Candidate) -> Result<AuthResult, Attempt> {
        let mut candidate = candidate;
        if let (None, Source::Locked { file, text }) = (&candidate.public, &candidate.source) {
            let key = self.answers.unlock(file, text.clone()).await.map_err(Attempt::Skipped)?;
            candidate =
                Candidate { public: Some(key.public_key().clone()), source: Source::Open(key), label: candidate.label };
        }
        let Some(public) = &candidate.public else {
            return Err(Attempt::Skipped("cannot be read".into()));
        };
        let hashes = match public.algorithm() {
            Algorithm::Rsa { .. } => self.rsa_hashes().await?.into_iter().map(Some).collect(),
            Algorithm::Dsa => return Err(Attempt::Skipped("DSA keys are no longer safe".into())),
            _ => vec![None],
        };
        let mut result = Err(Attempt::Skipped("the server takes RSA keys with SHA-1 only, which is unsafe".into()));
        for hash in hashes {
            self.made += 1;
            result = Ok(self.try_with(&candidate, public, hash).await?);
            match &result {
                Ok(AuthResult::Failure { partial_success: false, .. }) if !self.handle.is_closed() => {}
                _ => break,
            }
        }
        result
    }

    /// SHA-512 before SHA-256, and never SHA-1. What sshd says that it takes is what its code has, not what its
    /// configuration allows: SHA-256 is tried even where SHA-512 is on the list.
    async fn rsa_hashes(&mut self) -> Result<Vec<HashAlg>, Attempt> {
        if let Some(hashes) = &self.rsa {
            return Ok(hashes.clone());
        }
        let hashes = match self.handle.best_supported_rsa_hash().await.map_err(|_| Attempt::Lost)? {
            Some(Some(HashAlg::Sha256)) => vec![HashAlg::Sha256],
            Some(Some(_)) | None => vec![HashAlg::Sha512, HashAlg::Sha256],
            Some(None) => Vec::new(),
        };
        self.rsa = Some(hashes.clone());
        Ok(hashes)
    }

    async fn try_with(
        &mut self,
        candidate: &Candidate,
        public: &PublicKey,
        hash: Option<HashAlg>,
    ) -> Result<AuthResult, Attempt> {
        match &candidate.source {
            Source::Open(key) => self.sign_with(Arc::clone(key), hash).await,
            Source::Locked { file, text } => {
                // Ask a person for the passphrase only when the server would take the key.
                let mut signer = Unsigned;
                let asked = self.handle.authenticate_publickey_with(
                    self.endpoint.user.as_str(),
                    public.clone(),
                    hash,
                    &mut signer,
                );
                match within(ATTEMPT_TIMEOUT, asked).await? {
                    Ok(result) => Ok(result),
                    Err(NotSigned::Wanted) => {
                        let key = self.answers.unlock(file, text.clone()).await.map_err(Attempt::Skipped)?;
                        self.sign_with(key, hash).await
                    }
                    Err(NotSigned::Lost) => Err(Attempt::Lost),
                }
            }
            Source::Agent => {
                let Some(agent) = &mut self.agent else {
                    return Err(Attempt::Skipped("the agent is gone".into()));
                };
                let _one_at_a_time = AGENT.lock().await;
                let user = self.endpoint.user.as_str();
                let signed = self.handle.authenticate_publickey_with(user, public.clone(), hash, agent);
                match within(AGENT_TIMEOUT, signed).await? {
                    Ok(result) => Ok(result),
                    Err(russh::AgentAuthError::Key(error)) => {
                        Err(Attempt::Skipped(format!("the agent did not sign: {error}")))
                    }
                    Err(russh::AgentAuthError::Send(_)) => Err(Attempt::Lost),
                }
            }
            Source::PublicOnly => Err(Attempt::Skipped("is a public key, and no agent holds its private half".into())),
        }
    }

    async fn sign_with(&mut self, key: Arc<PrivateKey>, hash: Option<HashAlg>) -> Result<AuthResult, Attempt> {
        let key = PrivateKeyWithHashAlg::new(key, hash);
        let signed = self.handle.authenticate_publickey(self.endpoint.user.as_str(), key);
        within(ATTEMPT_TIMEOUT, signed).await?.map_err(|_| Attempt::Lost)
    }
}

async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, Attempt> {
    tokio::time::timeout(limit, future).await.map_err(|_| Attempt::Lost)
}

/// Finds out whether the server would take a key, without signing.
struct Unsigned;

enum NotSigned {
    Wanted,
    Lost,
}

impl From<russh::SendError> for NotSigned {
    fn from(_: russh::SendError) -> Self {
        Self::Lost
    }
}

impl Signer for Unsigned {
    type Error = NotSigned;

    async fn auth_sign(
        &mut self,
        _key: &AgentIdentity,
        _hash: Option<HashAlg>,
        _data: Vec<u8>,
    ) -> Result<Vec<u8>, NotSigned> {
        Err(NotSigned::Wanted)
    }
}

async fn open_agent(path: &Path, handle: &Handle<Client>, notes: &mut Vec<String>) -> Option<Agent> {
    let open = async {
        let mut agent = Agent::connect_uds(path).await?;
        if let Some(binding) = handle.agent_session_binding() {
            // Only for keys that are bound to destinations; agents that do not know the extension say so and go on.
            drop(agent.bind_session(binding, false).await);
        }
        Ok::<_, KeyError>(agent)
    };
    match tokio::time::timeout(AGENT_TIMEOUT, open).await {
        Ok(Ok(agent)) => return Some(agent),
        Ok(Err(error)) => notes.push(format!("agent at {}: {error}", path.display())),
        Err(_) => notes.push(format!("agent at {}: no answer", path.display())),
    }
    None
}

async fn identities(agent: &mut Agent, notes: &mut Vec<String>) -> Vec<Candidate> {
    let _one_at_a_time = AGENT.lock().await;
    let held = match tokio::time::timeout(AGENT_TIMEOUT, agent.request_identities()).await {
        Ok(Ok(held)) => held,
        Ok(Err(error)) => {
            notes.push(format!("agent: {error}"));
            return Vec::new();
        }
        Err(_) => {
            notes.push("agent: no answer".into());
            return Vec::new();
        }
    };
    let plain = held.into_iter().filter_map(|identity| match identity {
        AgentIdentity::PublicKey { key, comment } => {
            Some(Candidate { label: format!("agent key {comment}"), public: Some(key), source: Source::Agent })
        }
        // We do not log in by certificates; the bare key behind it is listed by the agent as well.
        AgentIdentity::Certificate { .. } => None,
    });
    plain.collect()
}

async fn read_files(files: &[PathBuf], notes: &mut Vec<String>) -> Vec<Candidate> {
    let mut read = Vec::new();
    for file in files {
        match read_file(file).await {
            Ok(candidate) => read.push(candidate),
            Err(why) => notes.push(format!("{}: {why}", file.display())),
        }
    }
    read
}

async fn read_file(file: &Path) -> Result<Candidate, String> {
    let size = tokio::fs::metadata(file).await.map_err(|error| error.to_string())?.len();
    if size > MAX_KEY_FILE {
        return Err("is too large for a key file".into());
    }
    let text = tokio::fs::read_to_string(file).await.map_err(|error| error.to_string())?;
    let label = file.display().to_string();
    if let Ok(public) = PublicKey::from_openssh(&text) {
        return Ok(Candidate { label, public: Some(public), source: Source::PublicOnly });
    }
    // OpenSSH's own format tells the public half even when it is encrypted.
    let locked = |text| Source::Locked { file: file.to_path_buf(), text };
    if let Ok(key) = PrivateKey::from_openssh(&text)
        && key.is_encrypted()
    {
        return Ok(Candidate { label, public: Some(key.public_key().clone()), source: locked(text) });
    }
    // Both older formats say so in their header lines, and nothing else in a key file can.
    if text.contains("ENCRYPTED") {
        let beside = tokio::fs::read_to_string(with_pub(file)).await.ok();
        let public = beside.and_then(|text| PublicKey::from_openssh(&text).ok());
        return Ok(Candidate { label, public, source: locked(text) });
    }
    match decode_secret_key(&text, None) {
        Ok(key) => Ok(Candidate { label, public: Some(key.public_key().clone()), source: Source::Open(Arc::new(key)) }),
        Err(error) => Err(format!("is not a private key ({error})")),
    }
}

fn with_pub(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

#[cfg(test)]
mod tests {
    use russh::keys::key::safe_rng;
    use russh::keys::{Algorithm, PrivateKey, PublicKey};

    use super::{Candidate, Source, order};

    fn public() -> PublicKey {
        PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap().public_key().clone()
    }

    fn candidate(label: &str, public: &PublicKey, source: Source) -> Candidate {
        Candidate { label: label.into(), public: Some(public.clone()), source }
    }

    #[test]
    fn configured_keys_come_first_and_none_comes_twice() {
        let keys: Vec<PublicKey> = (0..4).map(|_| public()).collect();
        let file = |label: &str, key: usize| candidate(label, &keys[key], Source::PublicOnly);
        let held = || vec![candidate("x", &keys[0], Source::Agent), candidate("y", &keys[1], Source::Agent)];
        let labels = |list: Vec<Candidate>| list.into_iter().map(|found| found.label).collect::<Vec<_>>();

        let all = order(vec![file("second", 1), file("third", 2)], held(), vec![file("default", 3)], false);
        assert!(matches!(all[0].source, Source::Agent), "the agent signs for a configured key that it holds");
        assert_eq!(labels(all), ["second (agent)", "third", "x", "default"]);

        let only = order(vec![file("second", 1), file("again", 1)], held(), vec![], true);
        assert_eq!(labels(only), ["second (agent)"]);
        assert_eq!(labels(order(vec![], held(), vec![file("default", 0)], true)), ["default (agent)"]);
    }
}
