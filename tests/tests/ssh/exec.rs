//! Running scripts: output, exit codes, root, limits.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hostspan::ssh::{Dialer, KEEP, Line, Remote, RemoteErrorKind, Request};

use crate::sshd::{ADMIN, FREE, Fixed, GUEST, PASSWORD, Sshd, as_root, sh};

#[tokio::test]
async fn output_lines_and_exit_codes_come_back() {
    let sshd = Sshd::start();
    let remote = sshd.connect("root").await;
    let mut lines = Vec::new();
    let request = Request {
        script: "echo one; echo two >&2; printf 'three'; cat; exit 7",
        root: false,
        timeout: Duration::from_secs(30),
    };
    let mut on_line = |line: Line<'_>| {
        lines.push(match line {
            Line::Out(text) => format!("out {text}"),
            Line::Err(text) => format!("err {text}"),
        });
    };
    let finished = remote.run(request, &mut on_line).await.unwrap();
    assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (7, "one\nthree", "two\n"));
    lines.sort();
    assert_eq!(lines, ["err two", "out one", "out three"]);

    assert_eq!(sh(&remote, "kill -9 $$").await.unwrap().code, 137);
    assert_eq!(sh(&remote, "").await.unwrap().code, 0);
    let broken = sh(&remote, "touch /tmp/hostspan-never; if").await.unwrap();
    assert_ne!(broken.code, 0);
    assert!(broken.stderr.to_lowercase().contains("syntax"), "{}", broken.stderr);
    assert!(!std::path::Path::new("/tmp/hostspan-never").exists(), "a part of a broken script ran");
}

#[tokio::test]
async fn every_script_has_the_whole_path_and_the_c_locale() {
    // Case 79: Debian's login PATH has no sbin, and a sudoers file without secure_path hands it on.
    let sshd = Sshd::with("SetEnv PATH=/usr/local/bin:/usr/bin:/bin:/usr/games LC_ALL=de_DE.UTF-8");
    for user in ["root", FREE] {
        let remote = sshd.connect(user).await;
        for finished in [sh(&remote, "echo $PATH $LC_ALL").await, as_root(&remote, "echo $PATH $LC_ALL").await] {
            let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin C\n";
            assert_eq!(finished.unwrap().stdout, path);
        }
    }
}

#[tokio::test]
async fn large_output_keeps_its_end_and_stalls_nothing() {
    let sshd = Sshd::start();
    let remote = sshd.connect("root").await;
    let script = "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last";
    let mut seen = 0;
    let request = Request { script, root: false, timeout: Duration::from_mins(1) };
    let finished = remote
        .run(request, &mut |line| {
            if let Line::Out(text) = line {
                seen += text.len();
            }
        })
        .await
        .unwrap();
    assert_eq!(finished.stdout.len(), KEEP);
    assert!(finished.stdout.ends_with("x\nlast\n"));
    assert_eq!(seen, 30_000_004);
}

#[tokio::test]
async fn many_scripts_at_once_share_one_connection() {
    let sshd = Sshd::start();
    let remote = sshd.connect("root").await;
    let since = Instant::now();
    let scripts: Vec<String> = (0..24).map(|number| format!("sleep 0.2; echo {number}")).collect();
    let all = scripts.iter().map(|script| sh(&remote, script));
    for (number, finished) in futures::future::join_all(all).await.into_iter().enumerate() {
        assert_eq!(finished.unwrap().stdout, format!("{number}\n"));
    }
    assert!(since.elapsed() < Duration::from_secs(10));
    assert_eq!(sshd.log().matches("Accepted publickey").count(), 1, "{}", sshd.log());
}

#[tokio::test]
async fn a_script_that_takes_too_long_is_said_to_be_running_still() {
    let sshd = Sshd::start();
    let remote = sshd.connect("root").await;
    let request = Request { script: "sleep 30", root: false, timeout: Duration::from_millis(300) };
    let error = remote.run(request, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::TimedOut);
    assert!(error.message.contains("may still be running"), "{error}");
    assert_eq!(sh(&remote, "echo next").await.unwrap().stdout, "next\n");
}

#[tokio::test]
async fn sudo_without_a_password() {
    let sshd = Sshd::start();
    let remote = sshd.connect(FREE).await;
    assert_eq!(as_root(&remote, "id -u; echo $HOME; pwd; umask").await.unwrap().stdout, "0\n/root\n/\n0022\n");
    assert_eq!(sh(&remote, "id -un").await.unwrap().stdout, format!("{FREE}\n"));
}

#[tokio::test]
async fn sudo_with_a_password_that_nobody_else_sees() {
    let sshd = Sshd::start();
    let prompt = Arc::new(Fixed { password: Some(PASSWORD), ..Fixed::default() });
    let remote = Dialer::new(prompt.clone()).connect(sshd.target(ADMIN)).await.unwrap();
    // While the script runs the password must be in no argument list and no environment.
    let script =
        "id -u; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -ac '[c]anary \"pw\"'; exit 5";
    let finished = as_root(&remote, script).await.unwrap();
    assert_eq!((finished.code, finished.stdout.as_str()), (5, "0\n0\n"));
    assert_eq!(finished.stderr, "", "sudo's prompt is not the script's output");
    assert_eq!(as_root(&remote, "echo again").await.unwrap().stdout, "again\n");
    assert_eq!(prompt.asked.load(Ordering::SeqCst), 1);
    assert!(!sshd.log().contains("canary"));
}

#[tokio::test]
async fn a_wrong_password_is_tried_once() {
    let sshd = Sshd::start();
    let prompt = Arc::new(Fixed { password: Some("wrong"), ..Fixed::default() });
    let remote = Dialer::new(prompt.clone()).connect(sshd.target(ADMIN)).await.unwrap();
    for _ in 0..2 {
        let since = Instant::now();
        let error = as_root(&remote, "id -u").await.unwrap_err();
        assert_eq!(error.kind, RemoteErrorKind::Sudo);
        assert!(error.message.contains("did not take the password"), "{error}");
        assert!(since.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(prompt.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn no_password_or_no_right_to_sudo_is_its_own_error() {
    let sshd = Sshd::start();
    let error = as_root(&*sshd.connect(ADMIN).await, "id -u").await.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Sudo);
    assert!(error.help.unwrap().contains("--ask-sudo-password"));

    let prompt = Arc::new(Fixed { password: Some(PASSWORD), ..Fixed::default() });
    let remote = Dialer::new(prompt).connect(sshd.target(GUEST)).await.unwrap();
    let error = as_root(&remote, "id -u").await.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Sudo);
    assert!(error.message.contains("not in the sudoers file"), "{error}");
}

#[tokio::test]
async fn a_login_shell_that_talks_does_not_get_into_the_output() {
    let sshd = Sshd::with("ForceCommand echo Welcome; echo noise >&2; eval \"$SSH_ORIGINAL_COMMAND\"");
    let remote = sshd.connect(FREE).await;
    let finished = as_root(&remote, "echo pure; echo own >&2").await.unwrap();
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("pure\n", "own\n"));
}

#[tokio::test]
async fn a_host_without_a_usable_shell_says_what_it_said() {
    let sshd = Sshd::with("ForceCommand echo This account is closed.; exit 1");
    let error = sh(&*sshd.connect("root").await, "true").await.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Protocol);
    let sshd = Sshd::with("SetEnv PATH=/nonexistent");
    let error = as_root(&*sshd.connect(FREE).await, "true").await.unwrap_err();
    assert_eq!(error.kind, RemoteErrorKind::Sudo);
    assert!(error.message.contains("not installed"), "{error}");
}

/// As sudo-rs talks: our prompt stands within its own, and its words are others than sudo's.
const LIKE_SUDO_RS: &str = r#"#!/bin/sh
while :; do
    case $1 in
        -n) echo 'sudo: interactive authentication is required' >&2; exit 1 ;;
        -p) prompt=$2; shift 2 ;;
        -S | -k) shift ;;
        *) break ;;
    esac
done
for try in 1 2 3; do
    printf '[sudo: %s] Password: ' "$prompt" >&2
    IFS= read -r line
    echo >&2
    [ "$line" = right ] && exec "$@"
    echo 'sudo: Authentication failed, try again.' >&2
done
echo 'sudo: maximum 3 incorrect authentication attempts' >&2
exit 1
"#;

#[tokio::test]
async fn sudo_rs_is_understood_too() {
    let sshd = Sshd::with("SetEnv PATH={dir}/bin:/usr/bin:/bin");
    std::fs::create_dir(sshd.path("bin")).unwrap();
    std::fs::write(sshd.path("bin/sudo"), LIKE_SUDO_RS).unwrap();
    std::fs::set_permissions(sshd.path("bin/sudo"), std::fs::Permissions::from_mode(0o755)).unwrap();
    for (password, works) in [("right", true), ("wrong", false)] {
        let prompt = Arc::new(Fixed { password: Some(password), ..Fixed::default() });
        let remote = Dialer::new(prompt).connect(sshd.target(GUEST)).await.unwrap();
        match as_root(&remote, "echo in; exit 3").await {
            Ok(finished) => assert_eq!((works, finished.code, finished.stdout.as_str()), (true, 3, "in\n")),
            Err(error) => {
                assert!(!works && error.kind == RemoteErrorKind::Sudo, "{error}");
                assert!(error.message.contains("did not take the password"), "{error}");
            }
        }
    }
}
