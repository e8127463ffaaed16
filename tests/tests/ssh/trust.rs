//! Host keys: known, unknown, changed, recorded, and those of jump hosts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use hostspan::ssh::{Dialer, NoPrompt, RemoteErrorKind, Target};

use crate::sshd::{Sshd, connect, sh};

fn fingerprint(sshd: &Sshd) -> String {
    let out = Command::new("ssh-keygen").arg("-lf").arg(sshd.path("host_ed25519.pub")).output().unwrap();
    String::from_utf8(out.stdout).unwrap().split(' ').nth(1).unwrap().to_owned()
}

fn unknown(sshd: &Sshd) -> Target {
    let target = sshd.target("root");
    fs::remove_file(sshd.path("known_hosts")).unwrap();
    target
}

#[tokio::test]
async fn an_unknown_host_is_refused_with_its_fingerprint_and_the_way_on() {
    let sshd = Sshd::start();
    let error = connect(unknown(&sshd)).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::HostKey);
    assert!(error.message.contains(&fingerprint(&sshd)), "{error}");
    assert!(error.help.unwrap().contains("--accept-new"));
    assert!(!sshd.path("known_hosts").exists());
    assert!(!sshd.log().contains("Accepted"), "no key is shown to a host that is not known");
}

#[tokio::test]
async fn accept_new_records_a_host_once() {
    let sshd = Sshd::start();
    let mut target = unknown(&sshd);
    target.accept_new = true;
    target.endpoint.known_hosts = vec![sshd.path("new/known_hosts")];
    let dialer = Dialer::new(Arc::new(NoPrompt));
    let all = (0..6).map(|_| dialer.connect(target.clone()));
    for result in futures::future::join_all(all).await {
        result.unwrap();
    }
    let file = sshd.path("new/known_hosts");
    let text = fs::read_to_string(&file).unwrap();
    let mut wanted = sshd.known_line(sshd.port).split(' ').take(3).collect::<Vec<_>>().join(" ");
    wanted = wanted.trim_end().to_owned() + "\n";
    assert_eq!(text, wanted);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(sshd.path("new")).unwrap().permissions().mode() & 0o777, 0o700);
    // OpenSSH reads what was written.
    let found =
        Command::new("ssh-keygen").args(["-F", &format!("[127.0.0.1]:{}", sshd.port), "-f"]).arg(&file).status();
    assert!(found.unwrap().success());
    target.accept_new = false;
    connect(target).await.unwrap();
}

#[tokio::test]
async fn accept_new_keeps_a_last_line_without_newline() {
    let sshd = Sshd::start();
    let mut target = unknown(&sshd);
    target.accept_new = true;
    fs::write(sshd.path("known_hosts"), "other ssh-ed25519 AAAA").unwrap();
    connect(target).await.unwrap();
    let text = fs::read_to_string(sshd.path("known_hosts")).unwrap();
    assert!(text.starts_with("other ssh-ed25519 AAAA\n[127.0.0.1]:"), "{text}");
}

#[tokio::test]
async fn a_changed_key_is_refused_even_with_accept_new() {
    let (sshd, other) = (Sshd::start(), Sshd::start());
    let mut target = sshd.target("root");
    target.accept_new = true;
    let line = other.known_line(sshd.port);
    fs::write(sshd.path("known_hosts"), &line).unwrap();
    let error = connect(target).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::HostKey);
    assert!(error.message.contains(&fingerprint(&sshd)) && error.message.contains("line 1"), "{error}");
    let help = error.help.unwrap();
    assert!(help.contains(&format!("ssh-keygen -R '[127.0.0.1]:{}'", sshd.port)), "{help}");
    assert_eq!(fs::read_to_string(sshd.path("known_hosts")).unwrap(), line);
}

#[tokio::test]
async fn the_recorded_key_type_is_asked_for_first() {
    let sshd = Sshd::start();
    let rsa = sshd.key("host_rsa", &["-t", "rsa", "-b", "2048", "-N", ""], false);
    let both = Sshd::with(&format!("HostKey {}", rsa.display()));
    let target = both.target("root");
    let public = fs::read_to_string(sshd.path("host_rsa.pub")).unwrap();
    fs::write(both.path("known_hosts"), format!("[127.0.0.1]:{} {public}", both.port)).unwrap();
    connect(target.clone()).await.unwrap();

    // Known by ECDSA only, which the host does not have: neither a match nor a host that is simply new.
    let ecdsa = sshd.key("ecdsa", &["-t", "ecdsa", "-N", ""], false);
    let public = fs::read_to_string(ecdsa.with_extension("pub")).unwrap();
    fs::write(both.path("known_hosts"), format!("[127.0.0.1]:{} {public}", both.port)).unwrap();
    let error = connect(Target { accept_new: true, ..target }).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::HostKey);
    assert!(error.message.contains("another type"), "{error}");
}

#[tokio::test]
async fn hashed_lines_and_revoked_keys() {
    let sshd = Sshd::start();
    let target = sshd.target("root");
    let known = sshd.path("known_hosts");
    let hashed = Command::new("ssh-keygen").args(["-H", "-f"]).arg(&known).output().unwrap();
    assert!(hashed.status.success());
    assert!(fs::read_to_string(&known).unwrap().starts_with("|1|"));
    connect(target.clone()).await.unwrap();

    let key = sshd.known_line(0).split(' ').skip(1).take(2).collect::<Vec<_>>().join(" ");
    let text = fs::read_to_string(&known).unwrap();
    fs::write(&known, format!("{text}@revoked * {key}\n")).unwrap();
    let error = connect(target).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::HostKey);
    assert!(error.message.contains("revoked by"), "{error}");
}

#[tokio::test]
async fn a_known_hosts_file_that_cannot_be_read_is_not_an_empty_one() {
    let sshd = Sshd::start();
    let mut target = unknown(&sshd);
    target.accept_new = true;
    fs::create_dir(sshd.path("known_hosts")).unwrap();
    let error = connect(target).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Local);
    assert!(error.message.contains("known_hosts"), "{error}");
}

#[tokio::test]
async fn jump_hosts_are_gone_through_and_judged_one_by_one() {
    let (host, inner, outer) = (Sshd::start(), Sshd::start(), Sshd::start());
    let mut target = host.target("root");
    target.jumps = vec![outer.endpoint("root"), inner.endpoint("root")];
    let remote = connect(target.clone()).await.unwrap();
    let from = sh(&remote, "echo $SSH_CONNECTION").await.unwrap().stdout;
    assert!(from.trim_end().ends_with(&host.port.to_string()), "{from}");
    assert_eq!(inner.log().matches("Accepted publickey").count(), 1);

    // The wrong key of a jump host is an error of that host, and nothing behind it is talked to.
    let before = host.log().len();
    fs::write(inner.path("known_hosts"), outer.known_line(inner.port)).unwrap();
    let error = connect(target.clone()).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::HostKey);
    assert!(error.message.contains(&format!("jump host root@127.0.0.1 port {}", inner.port)), "{error}");
    assert_eq!(host.log().len(), before);

    target.jumps = vec![outer.endpoint("root")];
    target.endpoint.port = crate::sshd::free_port();
    let error = connect(target).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Unreachable);
    assert!(error.message.contains("cannot reach"), "{error}");
}
