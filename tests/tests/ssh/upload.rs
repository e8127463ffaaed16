//! Bringing files to a host.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use hostspan::ssh::{Remote, RemoteErrorKind, SshRemote, Upload};

use crate::sshd::{FREE, Sshd, as_root, sha256};

const SIZE: usize = 20_000_003;

fn file(sshd: &Sshd) -> (std::path::PathBuf, String) {
    let bytes: Vec<u8> = (0..SIZE).map(|i| u8::try_from((i * 7 + i / 251) % 256).unwrap()).collect();
    let local = sshd.path("local");
    std::fs::write(&local, &bytes).unwrap();
    (local, sha256(&bytes))
}

async fn put(
    remote: &SshRemote,
    local: &Path,
    sha256: &str,
    to: &Path,
) -> (Result<bool, hostspan::ssh::RemoteError>, u64) {
    let sent = AtomicU64::new(0);
    let upload = Upload { local, sha256, to: to.to_str().unwrap() };
    let result = remote.upload(upload, &|bytes| sent.store(bytes, Ordering::SeqCst)).await;
    (result, sent.load(Ordering::SeqCst))
}

async fn arrives(sshd: &Sshd, user: &str) {
    let remote = sshd.connect(user).await;
    let (local, digest) = file(sshd);
    let to = sshd.path("host/a folder/it's here");
    let (first, sent) = put(&remote, &local, &digest, &to).await;
    assert!(first.unwrap());
    assert_eq!(sent, SIZE as u64);
    assert_eq!(std::fs::read(&to).unwrap(), std::fs::read(&local).unwrap());
    let meta = std::fs::metadata(&to).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.permissions().mode() & 0o777), (0, 0, 0o600));
    let folder = to.parent().unwrap();
    assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "nothing else is left there");
    let (again, sent) = put(&remote, &local, &digest, &to).await;
    assert!(!again.unwrap());
    assert_eq!(sent, 0);
}

#[tokio::test]
async fn a_file_arrives_by_sftp() {
    for user in ["root", FREE] {
        let sshd = Sshd::with("Subsystem sftp /usr/lib/openssh/sftp-server -e -l INFO 2>>{dir}/sftp.log");
        arrives(&sshd, user).await;
        let log = std::fs::read_to_string(sshd.path("sftp.log")).unwrap();
        assert!(log.contains(&format!("written {SIZE}")), "{user}: {log}");
    }
}

#[tokio::test]
async fn a_file_arrives_without_sftp() {
    arrives(&Sshd::with("Subsystem sftp /bin/false"), FREE).await;
    arrives(&Sshd::with("Subsystem sftp /nonexistent/sftp-server"), "root").await;
}

#[tokio::test]
async fn a_file_arrives_where_the_login_user_cannot_go() {
    let sshd = Sshd::start();
    std::fs::create_dir(sshd.path("host")).unwrap();
    std::fs::set_permissions(sshd.path("host"), std::fs::Permissions::from_mode(0o700)).unwrap();
    arrives(&sshd, FREE).await;
}

#[tokio::test]
async fn a_wrong_digest_leaves_nothing() {
    let sshd = Sshd::start();
    let remote = sshd.connect("root").await;
    let (local, digest) = file(&sshd);
    let to = sshd.path("host/file");
    let error = put(&remote, &local, &"0".repeat(64), &to).await.0.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Upload);
    assert!(error.message.contains(&digest), "{error}");
    assert_eq!(std::fs::read_dir(sshd.path("host")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_full_disk_is_an_error_with_its_reason() {
    let sshd = Sshd::start();
    let remote = sshd.connect("root").await;
    let (local, digest) = file(&sshd);
    let folder = sshd.path("host");
    // In sshd's own mount namespace, so that it goes with it.
    let mount = format!("mkdir {0} && mount -t tmpfs -o size=5m none {0}", folder.display());
    assert_eq!(as_root(&remote, &mount).await.unwrap().code, 0);
    let error = put(&remote, &local, &digest, &folder.join("file")).await.0.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Upload);
    assert!(error.message.contains("No space left"), "{error}");
    assert_eq!(as_root(&remote, &format!("ls -A {}", folder.display())).await.unwrap().stdout, "");

    let error = put(&remote, &local, &digest, Path::new("/proc/hostspan/file")).await.0.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Upload);
    assert!(error.message.contains("/proc/hostspan"), "{error}");
}
