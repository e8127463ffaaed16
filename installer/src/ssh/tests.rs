//! Against russh's own server, which can be told to negotiate what no sshd of today does any more.

use std::path::Path;
use std::sync::Arc;

use russh::keys::key::safe_rng;
use russh::keys::{Algorithm, PrivateKey};
use russh::server::{self, Auth, ChannelOpenHandle, Session, VerifiedPublicKey};
use russh::{Channel, Preferred, cipher, kex};
use tokio::net::TcpListener;

use super::known_hosts::line_for;
use super::{Dialer, Endpoint, NoPrompt, Remote, RemoteError, RemoteErrorKind, Request, SshRemote, Target};

/// Lets everybody in; answers a session by opening a channel back where it is told to.
struct Peer {
    opens_back: bool,
}

impl server::Handler for Peer {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, _user: &str, _key: VerifiedPublicKey<'_>) -> Result<Auth, russh::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _channel: Channel<server::Msg>,
        reply: ChannelOpenHandle,
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        if self.opens_back {
            session.channel_open_forwarded_tcpip("127.0.0.1", 1, "127.0.0.1", 2)?;
        } else {
            reply.accept().await;
        }
        Ok(())
    }
}

async fn meet(
    kex: &'static [kex::Name],
    cipher: &'static [cipher::Name],
    opens_back: bool,
) -> Result<Arc<SshRemote>, RemoteError> {
    let dir = tempfile::tempdir().unwrap();
    let host_key = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap();
    let user_key = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("[127.0.0.1]:{port}");
    let known = dir.path().join("known_hosts");
    let line = line_for(&name, "ssh-ed25519", &host_key.public_key().to_bytes().unwrap());
    std::fs::write(&known, line).unwrap();
    let identity = dir.path().join("id");
    std::fs::write(&identity, user_key.to_openssh(russh::keys::ssh_key::LineEnding::LF).unwrap()).unwrap();

    let config = server::Config {
        keys: vec![host_key],
        preferred: Preferred { kex: kex.into(), cipher: cipher.into(), ..Preferred::DEFAULT },
        ..server::Config::default()
    };
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        if let Ok(running) = server::run_stream(Arc::new(config), stream, Peer { opens_back }).await {
            drop(running.await);
        }
    });
    let endpoint = Endpoint {
        address: "127.0.0.1".into(),
        port,
        user: "root".into(),
        identity_files: vec![identity],
        default_identity_files: Vec::new(),
        identities_only: true,
        known_names: vec![name],
        known_hosts: vec![known],
    };
    let target = Target { host: "kvm-01".into(), endpoint, jumps: Vec::new(), agent: None, accept_new: false };
    Dialer::new(Arc::new(NoPrompt)).connect(target).await
}

const LAX: &[kex::Name] = &[kex::CURVE25519];
const STRICT: &[kex::Name] = &[kex::CURVE25519, kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER];
const CHACHA: &[cipher::Name] = &[cipher::CHACHA20_POLY1305];

#[tokio::test]
async fn chacha_needs_strict_key_exchange() {
    let error = meet(LAX, CHACHA, false).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Protocol);
    assert!(error.message.contains("strict key exchange"), "{error}");
    meet(STRICT, CHACHA, false).await.unwrap();
    meet(LAX, &[cipher::AES_256_GCM], false).await.unwrap();
}

#[tokio::test]
async fn ciphers_that_can_be_cut_are_refused() {
    for cipher in [&[cipher::AES_256_CBC], &[cipher::AES_256_CTR]] {
        let error = meet(STRICT, cipher, false).await.err().unwrap();
        assert_eq!(error.kind, RemoteErrorKind::Protocol, "{error}");
    }
}

#[tokio::test]
async fn a_server_that_opens_channels_towards_us_is_left() {
    let remote = meet(STRICT, CHACHA, true).await.unwrap();
    let request = Request { script: "true", root: true, timeout: std::time::Duration::from_secs(5) };
    assert!(remote.run(request, &mut |_| {}).await.is_err());
}

#[test]
fn russh_is_named_nowhere_else() {
    fn look(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                if !path.ends_with("src/ssh") {
                    look(&path, found);
                }
            } else if path.extension().is_some_and(|ext| ext == "rs")
                && std::fs::read_to_string(&path).unwrap().contains("russh::")
            {
                found.push(path.display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert_eq!(found, Vec::<String>::new());
}
