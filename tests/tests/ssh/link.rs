//! Links that break.

use std::time::{Duration, Instant};

use hostspan::ssh::{Remote, RemoteErrorKind, Request, Target, Upload};

use crate::proxy::Proxy;
use crate::sshd::{Sshd, connect, sh, sha256};

fn through(proxy: &Proxy, sshd: &Sshd) -> Target {
    std::fs::write(sshd.path("known_hosts"), sshd.known_line(proxy.port())).unwrap();
    let mut target = sshd.target("root");
    target.endpoint.port = proxy.port();
    target.endpoint.known_names = vec![format!("[127.0.0.1]:{}", proxy.port())];
    target
}

#[tokio::test]
async fn a_link_that_is_cut_is_lost_and_the_next_call_dials_again() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    let remote = connect(through(&proxy, &sshd)).await.unwrap();
    let mark = sshd.path("mark");
    let script = format!("echo begun; sleep 2; touch {}", mark.display());
    let request = Request { script: &script, root: true, timeout: Duration::from_secs(30) };
    let error = remote.run(request, &mut |_| proxy.cut()).await.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::LinkLost);
    assert!(error.kind.is_transient());
    assert!(error.message.contains("may still be running"), "{error}");
    assert_eq!(sh(&remote, "echo back").await.unwrap().stdout, "back\n");
    // It was indeed still running.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(mark.exists());
}

#[tokio::test]
async fn a_link_that_died_unnoticed_is_replaced_before_anything_runs() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    let remote = connect(through(&proxy, &sshd)).await.unwrap();
    proxy.cut();
    assert_eq!(sh(&remote, "echo once").await.unwrap().stdout, "once\n");
    remote.reconnect().await.unwrap();
    assert_eq!(sh(&remote, "echo again").await.unwrap().stdout, "again\n");
    assert_eq!(sshd.log().matches("Accepted publickey").count(), 3);
}

#[tokio::test]
async fn a_host_that_is_gone_is_unreachable_at_once() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    let remote = connect(through(&proxy, &sshd)).await.unwrap();
    proxy.switch(crate::sshd::free_port());
    let since = Instant::now();
    let error = remote.reconnect().await.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Unreachable);
    let mut target = sshd.target("root");
    target.endpoint.port = crate::sshd::free_port();
    let error = connect(target).await.err().unwrap();
    assert_eq!(error.kind, RemoteErrorKind::Unreachable);
    assert!(error.message.contains("refused") && error.help.is_some(), "{error}");
    assert!(since.elapsed() < Duration::from_secs(20));
    proxy.switch(sshd.port);
    assert_eq!(sh(&remote, "echo back").await.unwrap().stdout, "back\n");
}

#[tokio::test]
async fn half_a_script_runs_nothing() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    let remote = connect(through(&proxy, &sshd)).await.unwrap();
    let mark = sshd.path("mark");
    // Far more than goes through before the cut; its first line would leave a mark.
    let script = format!("touch {}\n{}", mark.display(), ": a line of the script\n".repeat(20_000));
    proxy.cut_after(100_000);
    let request = Request { script: &script, root: true, timeout: Duration::from_secs(30) };
    let error = remote.run(request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::LinkLost);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!mark.exists());
    proxy.cut_after(u64::MAX);
    let request = Request { script: &script, root: true, timeout: Duration::from_secs(30) };
    assert_eq!(remote.run(request, &mut |_| {}).await.unwrap().code, 0);
    assert!(mark.exists());
}

#[tokio::test]
async fn an_upload_that_is_cut_leaves_no_file_and_goes_well_the_next_time() {
    let sshd = Sshd::start();
    let proxy = Proxy::to(sshd.port);
    let remote = connect(through(&proxy, &sshd)).await.unwrap();
    let bytes = vec![42; 8_000_000];
    std::fs::write(sshd.path("local"), &bytes).unwrap();
    let digest = sha256(&bytes);
    let (local, to) = (sshd.path("local"), sshd.path("host/file"));
    let upload = || Upload { local: &local, sha256: &digest, to: to.to_str().unwrap() };
    proxy.cut_after(3_000_000);
    let error = remote.upload(upload(), &|_| {}).await.unwrap_err();
    assert!(matches!(error.kind, RemoteErrorKind::LinkLost | RemoteErrorKind::Unreachable), "{error:?}");
    assert!(!to.exists());
    proxy.cut_after(u64::MAX);
    assert!(remote.upload(upload(), &|_| {}).await.unwrap());
    assert_eq!(std::fs::read(&to).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(sshd.path("host")).unwrap().count(), 1);
}
