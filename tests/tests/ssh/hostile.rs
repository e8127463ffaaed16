//! Peers that mean harm: refused within 30 seconds, and they cannot make us take in more than a little.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hostspan::ssh::{Endpoint, RemoteError, RemoteErrorKind, Target};

use crate::sshd::connect;

/// What fits into socket buffers on both sides, generously; it was sent, but not read by us.
const IN_FLIGHT: usize = 8 * 1024 * 1024;

/// Runs `act` on the first connection to a port and connects to it. Gives the error and the bytes that the peer got rid of.
async fn meet(act: fn(&mut Counted)) -> (RemoteError, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(40))).unwrap();
        act(&mut Counted { stream, sent: counter });
    });
    let endpoint = Endpoint {
        address: "127.0.0.1".into(),
        port,
        user: "root".into(),
        identity_files: Vec::new(),
        default_identity_files: Vec::new(),
        identities_only: true,
        known_names: vec![format!("[127.0.0.1]:{port}")],
        known_hosts: vec![PathBuf::from("/nonexistent/known_hosts")],
    };
    let target = Target { host: "evil".into(), endpoint, jumps: Vec::new(), agent: None, accept_new: false };
    let since = Instant::now();
    let error = connect(target).await.err().unwrap();
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    (error, sent.load(Ordering::SeqCst))
}

struct Counted {
    stream: TcpStream,
    sent: Arc<AtomicUsize>,
}

impl Counted {
    /// `false` when the other side has had enough.
    fn send(&mut self, bytes: &[u8]) -> bool {
        let ok = self.stream.write_all(bytes).is_ok();
        self.sent.fetch_add(bytes.len() * usize::from(ok), Ordering::SeqCst);
        ok
    }

    fn greet(&mut self) {
        self.send(b"SSH-2.0-evil\r\n");
    }

    /// Keeps the connection open until the other side closes it.
    fn wait(&mut self) {
        drop(std::io::copy(&mut (&self.stream).take(u64::MAX), &mut std::io::sink()));
    }

    /// A key exchange offer with these lists.
    fn offer(&mut self, kex: &str, cipher: &str, compression: &str) {
        let mut payload = vec![20];
        payload.extend([7; 16]);
        let lists =
            [kex, "ssh-ed25519", cipher, cipher, "hmac-sha2-256", "hmac-sha2-256", compression, compression, "", ""];
        for list in lists {
            payload.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
            payload.extend(list.as_bytes());
        }
        payload.extend([0; 5]);
        let padding = 8 + (8 - (payload.len() + 5) % 8) % 8;
        let mut packet = u32::try_from(payload.len() + 1 + padding).unwrap().to_be_bytes().to_vec();
        packet.push(u8::try_from(padding).unwrap());
        packet.extend(payload);
        packet.resize(packet.len() + padding, 0);
        self.send(&packet);
    }
}

#[tokio::test]
async fn a_huge_length_field() {
    let (error, sent) = meet(|peer| {
        peer.greet();
        while peer.send(&[0xff; 4096]) {}
    })
    .await;
    assert_eq!(error.kind, RemoteErrorKind::Protocol, "{error}");
    assert!(sent < IN_FLIGHT, "{sent}");
}

#[tokio::test]
async fn a_banner_of_endless_lines() {
    let (error, sent) = meet(|peer| while peer.send(&b"mind the step\r\n".repeat(200)) {}).await;
    assert_eq!(error.kind, RemoteErrorKind::Protocol, "{error}");
    assert!(sent < IN_FLIGHT, "{sent}");
}

#[tokio::test]
async fn a_banner_of_one_endless_line() {
    let (error, sent) = meet(|peer| while peer.send(&[b'x'; 4096]) {}).await;
    assert_eq!(error.kind, RemoteErrorKind::Protocol, "{error}");
    assert!(sent < IN_FLIGHT, "{sent}");
}

#[tokio::test]
async fn a_banner_that_drips() {
    let (error, _) = meet(|peer| {
        while peer.send(b"x") {
            std::thread::sleep(Duration::from_millis(500));
        }
    })
    .await;
    assert_eq!(error.kind, RemoteErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn silence_after_connecting_and_after_greeting() {
    let (first, second) = tokio::join!(
        meet(Counted::wait),
        meet(|peer| {
            peer.greet();
            peer.wait();
        })
    );
    for (error, _) in [first, second] {
        assert_eq!(error.kind, RemoteErrorKind::Unreachable, "{error}");
        assert!(error.message.contains("within 15 s"), "{error}");
    }
}

#[tokio::test]
async fn compression_is_not_on_offer() {
    let (error, _) = meet(|peer| {
        peer.greet();
        peer.offer("curve25519-sha256", "aes128-gcm@openssh.com", "zlib,zlib@openssh.com");
        peer.wait();
    })
    .await;
    assert_eq!(error.kind, RemoteErrorKind::Protocol, "{error}");
    assert!(error.message.contains("Compression"), "{error}");
}

#[tokio::test]
async fn ciphers_that_can_be_cut_are_not_on_offer() {
    let (error, _) = meet(|peer| {
        peer.greet();
        peer.offer("curve25519-sha256", "aes128-cbc,aes192-cbc,aes256-cbc,3des-cbc,none", "none");
        peer.wait();
    })
    .await;
    assert_eq!(error.kind, RemoteErrorKind::Protocol, "{error}");
    assert!(error.message.contains("Cipher"), "{error}");
}
