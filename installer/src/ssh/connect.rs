//! Opening connections: TCP or a jump host's channel, key exchange, the host key, login. Each hop has its own limits.

use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use russh::client::{self, Handle};
use russh::keys::{Algorithm, EcdsaCurve, HashAlg};
use russh::{Preferred, SshId, cipher, compression, kex, mac};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore};

use super::auth::log_in;
use super::client::{Client, Failure, Farewell, Refusal, is_loss};
use super::prompt::{Answers, Prompt};
use super::session::{Link, SshRemote};
use super::target::{Endpoint, Target};
use super::trust::{Trust, key_type};
use super::{RemoteError, RemoteErrorKind};

/// For the TCP connection, or for a jump host to make it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// From the first byte to the verified host key. With the one above under 30 s, whatever the peer does.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// Silence after which we ask whether the peer is still there.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Unanswered questions after which it is not.
const KEEPALIVE_MAX: usize = 3;
/// Messages that wait per channel. With 256 KiB the largest message and 8 channels, a peer that ignores windows makes
/// us hold 64 MiB at most.
const CHANNEL_BACKLOG: usize = 32;
/// Logins at the same time to one sshd: its `MaxStartups` turns connections away from the 10th unfinished one on.
const LOGINS_AT_ONCE: usize = 8;
/// Host keys that we take, the best first. No SHA-1, no DSA; certificates are not asked for.
const HOST_KEYS: [Algorithm; 6] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
];
const KEY_EXCHANGES: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::DH_G16_SHA512,
    kex::DH_G14_SHA256,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];
/// No CBC and no CTR: with their EtM MACs a prefix of the stream can be cut off where strict key exchange is missing.
/// ChaCha20 has the same weakness and is only used with it, see [`Client::kex_done`].
const CIPHERS: &[cipher::Name] = &[cipher::AES_128_GCM, cipher::AES_256_GCM, cipher::CHACHA20_POLY1305];
/// Named only since the protocol wants a common one; all our ciphers bring their own.
const MACS: &[mac::Name] = &[mac::HMAC_SHA512_ETM, mac::HMAC_SHA256_ETM, mac::HMAC_SHA512, mac::HMAC_SHA256];

/// Opens the connections of a run and remembers what was asked and recorded for it.
pub struct Dialer {
    answers: Answers,
    /// One writer of known_hosts at a time in this process; a file lock keeps other processes out.
    recording: Arc<Mutex<()>>,
    logins: StdMutex<HashMap<(String, u16), Arc<Semaphore>>>,
}

impl Dialer {
    /// A dialer for one run.
    pub fn new(prompt: Arc<dyn Prompt>) -> Arc<Self> {
        Arc::new(Self { answers: Answers::new(prompt), recording: Arc::default(), logins: StdMutex::default() })
    }

    /// Connects to a host and logs in.
    ///
    /// # Errors
    /// [`RemoteError`] as for every later call on the result.
    pub async fn connect(self: &Arc<Self>, target: Target) -> Result<Arc<SshRemote>, RemoteError> {
        let link = self.dial(&target).await?;
        Ok(Arc::new(SshRemote::new(target, Arc::clone(self), link)))
    }

    pub(super) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Opens a connection, hop by hop.
    pub(super) async fn dial(&self, target: &Target) -> Result<Link, RemoteError> {
        let hops: Vec<&Endpoint> = target.jumps.iter().chain([&target.endpoint]).collect();
        let mut link = Link::default();
        for (index, hop) in hops.iter().enumerate() {
            let opened = self.hop(target, hop, &mut link).await;
            let handle = opened.map_err(|refusal| {
                let at = if index + 1 == hops.len() { String::new() } else { format!("jump host {hop}: ") };
                RemoteError {
                    host: target.host.clone(),
                    kind: refusal.kind,
                    message: format!("{at}{}", refusal.message),
                    help: refusal.help,
                }
            })?;
            link.push(handle);
        }
        Ok(link)
    }

    async fn hop(&self, target: &Target, hop: &Endpoint, link: &mut Link) -> Result<Handle<Client>, Refusal> {
        let trust = Trust::read(hop, target.accept_new, Arc::clone(&self.recording)).await?;
        let config = Arc::new(config(&trust.recorded_types()));
        let farewell = Farewell::default();
        let client = Client { trust, farewell: farewell.clone() };
        let turn = self.logins(hop);
        let _turn = turn.acquire().await;
        let mut handle = match link.last() {
            None => {
                let (stream, hang_up) = open_tcp(hop).await?;
                link.hang_up = Some(hang_up);
                shake_hands(config, stream, client).await?
            }
            Some(jump) => {
                let opened = jump.channel_open_direct_tcpip(hop.address.as_str(), u32::from(hop.port), "127.0.0.1", 0);
                let channel = match tokio::time::timeout(CONNECT_TIMEOUT, opened).await {
                    Ok(Ok(channel)) => channel,
                    Ok(Err(error)) => {
                        let message = format!("the jump host cannot reach {} port {}: {error}", hop.address, hop.port);
                        return Err(Refusal::new(RemoteErrorKind::Unreachable, message));
                    }
                    Err(_) => return Err(silence(hop, "the jump host got no connection to it", CONNECT_TIMEOUT)),
                };
                shake_hands(config, channel.into_stream(), client).await?
            }
        };
        log_in(&mut handle, hop, target.agent.as_deref(), &self.answers, &farewell).await?;
        Ok(handle)
    }

    fn logins(&self, hop: &Endpoint) -> Arc<Semaphore> {
        let mut logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = logins.entry((hop.address.clone(), hop.port));
        Arc::clone(of_host.or_insert_with(|| Arc::new(Semaphore::new(LOGINS_AT_ONCE))))
    }
}

/// Shuts a socket down when dropped. russh's task would else keep it open for as long as the peer likes.
#[derive(Debug)]
pub(super) struct HangUp(std::net::TcpStream);

impl Drop for HangUp {
    fn drop(&mut self) {
        // It may be closed already, and that is all we want.
        drop(self.0.shutdown(Shutdown::Both));
    }
}

async fn open_tcp(hop: &Endpoint) -> Result<(TcpStream, HangUp), Refusal> {
    let failed = |error: std::io::Error| {
        let message = format!("{} port {} cannot be reached: {error}", hop.address, hop.port);
        Refusal::new(RemoteErrorKind::Unreachable, message)
            .help("check the address, that the host is up, and that its sshd listens on that port")
    };
    let opened = TcpStream::connect((hop.address.as_str(), hop.port));
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, opened)
        .await
        .map_err(|_| silence(hop, "no TCP connection", CONNECT_TIMEOUT))?
        .map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let stream = stream.into_std().map_err(failed)?;
    let hang_up = HangUp(stream.try_clone().map_err(failed)?);
    Ok((TcpStream::from_std(stream).map_err(failed)?, hang_up))
}

async fn shake_hands<S>(config: Arc<client::Config>, stream: S, client: Client) -> Result<Handle<Client>, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let hop = client.trust.hop().clone();
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, client::connect_stream(config, stream, client)).await {
        Ok(Ok(handle)) => Ok(handle),
        Ok(Err(Failure::Refused(refusal))) => Err(refusal),
        Ok(Err(Failure::Ssh(error))) => {
            let kind = if is_loss(&error) { RemoteErrorKind::Unreachable } else { RemoteErrorKind::Protocol };
            let at = format!("{} port {}", hop.address, hop.port);
            Err(Refusal::new(kind, format!("no SSH connection with {at}: {error}")))
        }
        Err(_) => Err(silence(&hop, "no finished key exchange", HANDSHAKE_TIMEOUT)),
    }
}

fn silence(hop: &Endpoint, what: &str, after: Duration) -> Refusal {
    let at = format!("{} port {}", hop.address, hop.port);
    Refusal::new(RemoteErrorKind::Unreachable, format!("{at}: {what} within {} s", after.as_secs()))
        .help("check that the host is up and that no firewall swallows the connection")
}

fn config(recorded: &[&str]) -> client::Config {
    let (first, rest): (Vec<_>, Vec<_>) =
        HOST_KEYS.into_iter().partition(|algorithm| recorded.contains(&key_type(algorithm)));
    client::Config {
        client_id: SshId::Standard(concat!("SSH-2.0-hostspan_", env!("CARGO_PKG_VERSION")).into()),
        channel_buffer_size: CHANNEL_BACKLOG,
        preferred: Preferred {
            kex: KEY_EXCHANGES.into(),
            key: first.into_iter().chain(rest).collect(),
            host_key_certificates: (&[]).into(),
            cipher: CIPHERS.into(),
            mac: MACS.into(),
            compression: (&[compression::NONE]).into(),
        },
        keepalive_interval: Some(KEEPALIVE_INTERVAL),
        keepalive_max: KEEPALIVE_MAX,
        nodelay: true,
        ..client::Config::default()
    }
}
