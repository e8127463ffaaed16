//! Logging in: keys from files, encrypted ones, agents, and what a refusal says.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hostspan::ssh::{Dialer, RemoteErrorKind, Target};

use crate::proxy::Proxy;
use crate::sshd::{Fixed, Sshd, connect, sh};

/// An ssh-agent of its own.
struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn with(sshd: &Sshd, keys: &[PathBuf]) -> Self {
        let socket = sshd.path("agent");
        let child = Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).spawn().unwrap();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let agent = Self { child, socket };
        for key in keys {
            let added =
                Command::new("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", &agent.socket).status().unwrap();
            assert!(added.success());
        }
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn with_keys(sshd: &Sshd, files: &[&Path]) -> Target {
    let mut target = sshd.target("root");
    target.endpoint.identity_files = files.iter().map(|file| file.to_path_buf()).collect();
    target
}

async fn logs_in(target: Target) {
    let remote = connect(target).await.unwrap();
    assert_eq!(sh(&remote, "echo in").await.unwrap().stdout, "in\n");
}

#[tokio::test]
async fn keys_of_every_kind_and_format() {
    let sshd = Sshd::start();
    let kinds: &[(&str, &[&str])] = &[
        ("ecdsa-256", &["-t", "ecdsa", "-b", "256", "-N", ""]),
        ("ecdsa-384", &["-t", "ecdsa", "-b", "384", "-N", ""]),
        ("ecdsa-521", &["-t", "ecdsa", "-b", "521", "-N", ""]),
        ("rsa", &["-t", "rsa", "-b", "3072", "-N", ""]),
        ("rsa-pem", &["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""]),
        ("rsa-pkcs8", &["-t", "rsa", "-b", "2048", "-m", "PKCS8", "-N", ""]),
        ("ecdsa-pkcs8", &["-t", "ecdsa", "-b", "256", "-m", "PKCS8", "-N", ""]),
    ];
    for (name, arguments) in kinds {
        let file = sshd.key(name, arguments, true);
        let remote = connect(with_keys(&sshd, &[&file])).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(sh(&remote, "echo in").await.unwrap().stdout, "in\n");
    }
}

#[tokio::test]
async fn rsa_signs_with_sha2_from_a_file_and_from_an_agent() {
    // Case 76.
    for accepted in ["rsa-sha2-512,rsa-sha2-256", "rsa-sha2-256"] {
        let sshd = Sshd::with(&format!("PubkeyAcceptedAlgorithms {accepted}"));
        let file = sshd.key("rsa", &["-t", "rsa", "-b", "2048", "-N", ""], true);
        logs_in(with_keys(&sshd, &[&file])).await;

        let agent = Agent::with(&sshd, &[file]);
        let mut target = with_keys(&sshd, &[]);
        target.endpoint.identities_only = false;
        target.agent = Some(agent.socket.clone());
        logs_in(target).await;
    }
}

#[tokio::test]
async fn rsa_never_signs_with_sha1() {
    let sshd = Sshd::with("PubkeyAcceptedAlgorithms ssh-rsa\nLogLevel DEBUG1");
    let file = sshd.key("rsa", &["-t", "rsa", "-b", "2048", "-N", ""], true);
    let error = connect(with_keys(&sshd, &[&file])).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Auth);
    let log = sshd.log();
    for hash in ["rsa-sha2-512", "rsa-sha2-256"] {
        assert!(log.contains(&format!("signature algorithm {hash} not in")), "{log}");
    }
    assert!(!log.contains("Accepted publickey"), "{log}");
}

#[tokio::test]
async fn the_configured_key_is_tried_before_six_of_the_agent() {
    // Case 76: sshd hangs up at the third refusal.
    let sshd = Sshd::with("MaxAuthTries 3");
    let keys: Vec<PathBuf> = (0..6).map(|n| sshd.key(&format!("k{n}"), &["-t", "ed25519", "-N", ""], n == 4)).collect();
    let agent = Agent::with(&sshd, &keys);
    let with_agent = |files: &[&Path], only: bool| {
        let mut target = with_keys(&sshd, files);
        target.agent = Some(agent.socket.clone());
        target.endpoint.identities_only = only;
        target
    };
    let public = sshd.path("k4.pub");
    logs_in(with_agent(&[&keys[4]], false)).await;
    logs_in(with_agent(&[&public], true)).await;

    let error = connect(with_agent(&[], false)).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Auth);
    assert!(error.message.contains("Too many authentication failures"), "{error}");
    assert!(error.help.unwrap().contains("identityFiles"));
}

#[tokio::test]
async fn a_passphrase_is_asked_once_and_only_for_a_key_that_is_wanted() {
    let sshd = Sshd::start();
    let unwanted = sshd.key("unwanted", &["-t", "ed25519", "-N", "secret"], false);
    let wanted = sshd.key("wanted", &["-t", "ed25519", "-N", "secret"], true);
    let old = sshd.key("old", &["-t", "rsa", "-b", "2048", "-m", "PKCS8", "-N", "secret"], true);
    let prompt = Arc::new(Fixed { passphrase: Some("secret"), ..Fixed::default() });
    let dialer = Dialer::new(prompt.clone());
    for _ in 0..2 {
        dialer.connect(with_keys(&sshd, &[&unwanted, &wanted])).await.unwrap();
        assert_eq!(prompt.asked.load(Ordering::SeqCst), 1);
    }
    dialer.connect(with_keys(&sshd, &[&old])).await.unwrap();

    let wrong = Dialer::new(Arc::new(Fixed { passphrase: Some("wrong"), ..Fixed::default() }));
    let error = wrong.connect(with_keys(&sshd, &[&wanted])).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Auth);
    assert!(error.message.contains("passphrase"), "{error}");
}

#[tokio::test]
async fn two_keys_where_the_server_wants_two() {
    let sshd = Sshd::with("AuthenticationMethods publickey,publickey");
    let second = sshd.key("second", &["-t", "ecdsa", "-N", ""], true);
    let first = sshd.path("id_ed25519");
    logs_in(with_keys(&sshd, &[&first, &second])).await;
    let error = connect(with_keys(&sshd, &[&first])).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Auth);
    assert!(error.message.contains("wants more"), "{error}");
}

#[tokio::test]
async fn a_refusal_names_what_was_tried() {
    let sshd = Sshd::start();
    let stranger = sshd.key("stranger", &["-t", "ed25519", "-N", ""], false);
    let (missing, no_key) = (sshd.path("missing"), sshd.path("sshd_config"));
    let error = connect(with_keys(&sshd, &[&missing, &no_key, &stranger])).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Auth);
    for part in ["missing: No such file", "sshd_config: is not a private key", "stranger: refused"] {
        assert!(error.message.contains(part), "{part} in {error}");
    }
    let error = connect(with_keys(&sshd, &[])).await.err().unwrap();
    assert!(error.message.contains("no key to log in"), "{error}");
}

#[tokio::test]
async fn a_link_that_is_lost_while_logging_in_is_no_wrong_key() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    std::fs::write(sshd.path("known_hosts"), sshd.known_line(proxy.port())).unwrap();
    let mut target = sshd.target("root");
    target.endpoint.port = proxy.port();
    target.endpoint.known_names = vec![format!("[127.0.0.1]:{}", proxy.port())];
    let mut during_login = 0;
    for bytes in (600..3200).step_by(100) {
        proxy.cut_after(bytes);
        if let Err(error) = connect(target.clone()).await {
            assert_eq!(error.kind, RemoteErrorKind::Unreachable, "cut after {bytes} bytes: {error}");
            during_login += usize::from(error.message.contains("while logging in"));
        }
    }
    assert!(during_login > 0);
    proxy.cut_after(u64::MAX);
    logs_in(target).await;
}
