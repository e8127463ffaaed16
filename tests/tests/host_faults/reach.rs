//! Hosts that a run does not get at: down, with another key, without sudo, with another password. And the password itself,
//! which must show nowhere.

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hostspan::lab::PASSWORD_USER;
use hostspan_tests::canary::Canary;
use hostspan_tests::fleet::Run;
use hostspan_tests::scenario::Scenario;
use hostspan_tests::{binary, digest};
use serde_json::json;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::{Faults, apply, apply_args, finished, host_of, says};

/// A user who may log in, but not use sudo.
const PLAIN_USER: &str = "plain";

pub async fn story(faults: &Faults, scenario: &mut Scenario) {
    let mut run = None;
    scenario
        .must("the_password_is_in_no_process_while_hosts_are_prepared", async {
            run = Some(watched(faults).await?);
            Ok(())
        })
        .await;
    let Some(run) = &run else { return };
    scenario
        .check("hosts_without_a_fault_are_finished", async { finished(run, &["kvm-01", "kvm-06", "kvm-07", "kvm-08"]) })
        .await;
    for (name, host, parts) in [
        ("a_host_that_is_down", "kvm-02", &["cannot be reached", "that the host is up"][..]),
        ("a_changed_host_key", "kvm-03", &["changed: it shows ssh-ed25519 SHA256:", "ssh-keygen -R"]),
        ("a_user_without_sudo", "kvm-04", &["plain is not in the sudoers file", "allow plain all commands"]),
        ("a_wrong_sudo_password", "kvm-05", &["sudo did not take the password of admin", "--ask-sudo-password"]),
    ] {
        scenario.check(&format!("{name}_has_its_own_error"), async { says(run, host, parts) }).await;
    }
    scenario.check("the_password_is_in_no_output_and_no_file_of_the_host", nowhere(faults, run)).await;
    scenario.check("a_process_that_dies_leaves_no_core_file", no_core(faults)).await;
    scenario.must("the_host_that_was_down_starts", async { Ok(faults.fleet.lab.start("kvm-02").await?) }).await;
}

fn password(faults: &Faults) -> Result<String> {
    Ok(std::fs::read_to_string(&faults.fleet.status.sudo_password_file)?.trim().to_owned())
}

/// Logins so far; each look adds one.
async fn logins(faults: &Faults, host: &str) -> Result<usize> {
    let text = faults.root(host, "journalctl -q -u ssh --no-pager | grep -c Accepted").await?;
    Ok(text.trim().parse()?)
}

async fn watched(faults: &Faults) -> Result<Run> {
    let secret = password(faults)?;
    let file = &faults.fleet.status.sudo_password_file.display().to_string();
    let plain = format!(
        "useradd --create-home {PLAIN_USER}
         cp -r /home/ops/.ssh /home/{PLAIN_USER}/
         chown -R {PLAIN_USER}: /home/{PLAIN_USER}
         usermod -p \"$(grep ^{PASSWORD_USER}: /etc/shadow | cut -d: -f2)\" {PLAIN_USER}"
    );
    let other = format!("echo {PASSWORD_USER}:another-one | chpasswd");
    faults.roots(&[("kvm-04", &plain), ("kvm-05", &other)]).await?;
    faults.fleet.lab.kill("kvm-02").await?;

    let known = swapped(&faults.fleet.status.known_hosts, "kvm-03", "kvm-04", faults.dir.path())?;
    let fleet = faults.fleet_file("reach.yaml", |fleet| {
        host_of(fleet, "kvm-03")["ssh"] = json!({"knownHosts": [known]});
        host_of(fleet, "kvm-04")["ssh"] = json!({"user": PLAIN_USER});
        for host in ["kvm-05", "kvm-06"] {
            host_of(fleet, host)["ssh"] = json!({"user": PASSWORD_USER});
        }
    })?;
    let before = digest::of(&faults.fleet.lab, "kvm-03").await?;
    let logged_in = logins(faults, "kvm-03").await?;
    let canary = Canary::watch(&secret);
    let run = apply(&fleet, &["--until", "prepare", "-vvv", "--sudo-password-file", file]).await?;
    let seen = canary.seen();
    let run = run.expect(12)?;
    ensure!(seen.rounds > 20, "looked only {} times", seen.rounds);
    ensure!(seen.places.is_empty(), "the password was seen: {:?}", seen.places);

    ensure!(logins(faults, "kvm-03").await? == logged_in + 1, "a host with another key was logged in to");
    let differs = digest::difference(&before, &digest::of(&faults.fleet.lab, "kvm-03").await?, &[]);
    ensure!(differs.is_empty(), "a host with another key was touched:\n{}", differs.join("\n"));
    Ok(run)
}

/// A known_hosts file in which `host` has the key of `other`.
fn swapped(known_hosts: &Path, host: &str, other: &str, dir: &Path) -> Result<std::path::PathBuf> {
    let text = std::fs::read_to_string(known_hosts)?;
    let line = |name: &str| text.lines().find(|line| line.starts_with(&format!("{name},"))).context("no such host");
    let (names, _) = line(host)?.split_once(' ').context("no key")?;
    let (_, key) = line(other)?.split_once(' ').context("no key")?;
    let mut wrong = String::new();
    writeln!(wrong, "{names} {key}")?;
    let file = dir.join("known_hosts");
    std::fs::write(&file, wrong)?;
    Ok(file)
}

async fn nowhere(faults: &Faults, run: &Run) -> Result<()> {
    let secret = password(faults)?;
    ensure!(run.stderr.contains("kvm-06"), "the log says nothing of the host");
    ensure!(!run.stdout.contains(&secret) && !run.stderr.contains(&secret), "the password was printed");
    // Not as it is: sudo notes every command in the journal.
    let octal = secret.bytes().fold(String::new(), |all, byte| format!("{all}\\{byte:03o}"));
    let file = "/run/canary";
    let found = faults
        .root(
            "kvm-06",
            &format!(
                "(umask 077; printf '{octal}' >{file})
                 journalctl --sync
                 grep -rlFf {file} /var/lib/hostspan /var/log /etc /run/hostspan /tmp /root /home /var/tmp || true
                 journalctl -q --no-pager -o export | grep -cFf {file} || true
                 rm {file}"
            ),
        )
        .await?;
    ensure!(found.trim() == "0", "the password is on the host: {found}");
    // The same search finds what is there.
    let found = faults.root("kvm-06", "journalctl -q --no-pager -o export | grep -cF 'COMMAND=/bin/sh'").await?;
    ensure!(found.trim() != "0", "the search finds nothing at all");
    Ok(())
}

/// Ended by a signal that makes a core file, where core files are allowed.
async fn no_core(faults: &Faults) -> Result<()> {
    let fleet = faults.fleet_file("core.yaml", |fleet| {
        host_of(fleet, "kvm-06")["ssh"] = json!({"user": PASSWORD_USER});
    })?;
    let password_file = faults.fleet.status.sudo_password_file.display().to_string();
    let dir = faults.dir.path().join("core");
    std::fs::create_dir(&dir)?;
    let args = apply_args(&fleet, &["--until", "runtime", "--host", "kvm-06", "--sudo-password-file", &password_file]);
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -c unlimited && exec \"$0\" \"$@\""])
        .arg(binary::path())
        .args(args)
        .current_dir(&dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    sleep(Duration::from_millis(700)).await;
    let pid = child.id().context("it ended before it was struck")?;
    Command::new("kill").args(["-ABRT", &pid.to_string()]).status().await?;
    let status = timeout(Duration::from_secs(20), child.wait()).await??;
    ensure!(status.signal().is_some(), "it ended by itself: {status}");
    ensure!(!status.core_dumped(), "its memory was dumped");
    ensure!(std::fs::read_dir(&dir)?.next().is_none(), "it left a file");
    Ok(())
}
