//! The lab itself, on this machine: its hosts are real to whoever talks to them, and nothing of it outlives it.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it should be")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hostspan::lab::{self, Kind, Lab, LabError, LabStatus, Options, Os};
use hostspan::progress::Events;

/// Set in the process that `a_killed_up_goes_away_like_any_other` starts and kills.
const CHILD: &str = "HOSTSPAN_TEST_UP";

/// Makes a lab of which nothing was there before, and tells `tests/run` about it.
async fn up(options: &Options) -> (Lab, LabStatus) {
    hostspan_tests::labs::note(&options.name).unwrap();
    lab::install_packages(&lab::missing_packages(options.kind), &Events::none()).await.unwrap();
    lab::down(&options.name, &Events::none()).await.unwrap();
    let lab = lab::up_hosts(options, &Events::none()).await.unwrap();
    let status = lab.status();
    (lab, status)
}

/// What is left of a lab on this machine.
fn left(status: &LabStatus) -> Vec<String> {
    let name = &status.name;
    let entries = |dir: &str| {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path().display().to_string()).collect::<Vec<_>>()
    };
    let mut found: Vec<String> = entries("/run/netns")
        .into_iter()
        .filter(|path| path.starts_with(&format!("/run/netns/hostspan-{name}-")))
        .collect();
    found.extend(entries("/sys/fs/cgroup").into_iter().map(|h| format!("{h}/hostspan-{name}")));
    found.push(format!("/sys/fs/cgroup/hostspan-{name}"));
    found.extend([format!("/sys/class/net/{}", status.link), status.state_dir.display().to_string()]);
    found.retain(|path| Path::new(path).exists());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let state_dir = status.state_dir.display().to_string();
    found.extend(mounts.lines().filter(|l| l.contains(&state_dir)).map(|l| format!("mount {l}")));
    let mark = format!("HOSTSPAN_LAB={name}");
    for process in entries("/proc") {
        let environ = fs::read(PathBuf::from(&process).join("environ")).unwrap_or_default();
        if environ.split(|b| *b == 0).any(|e| e == mark.as_bytes()) {
            found.push(process);
        }
    }
    found
}

fn ssh(status: &LabStatus, user: &str, host: usize, command: &str, stdin: &str) -> (bool, String) {
    let mut child = Command::new("ssh")
        .args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "LogLevel=ERROR", "-i"])
        .arg(&status.identity_file)
        .arg("-o")
        .arg(format!("UserKnownHostsFile={}", status.known_hosts.display()))
        .args([&format!("{user}@{}", status.hosts[host].address), "--", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[tokio::test]
async fn hosts_are_real_and_nothing_of_them_is_left() {
    let options = Options { hosts: 2, os: vec![Os::Debian12, Os::Debian13], bastion: true, ..Options::new("t-lab") };
    let (lab, status) = up(&options).await;

    for (host, release) in status.hosts.iter().zip(["12", "13"]) {
        let name = &host.name;
        let run = async |command: &str| lab.ssh(name, command).await.unwrap().trim().to_owned();
        assert_eq!(run("sudo -n id -u").await, "0");
        assert_eq!(run("hostname").await, *name);
        assert_eq!(run(". /etc/os-release; echo $VERSION_ID").await, release);
        assert_eq!(run("systemctl is-system-running --wait").await, "running", "{name}");
        let eth0 = run("ip -4 -o address show dev eth0").await;
        assert!(eth0.contains(&format!("{}/24", host.address)), "{eth0}");
        assert!(eth0.contains("dynamic") || run("networkctl status eth0").await.contains("DHCP4"), "{eth0}");
        assert!(run("ip route show default").await.contains(&status.gateway.to_string()));
        assert!(run("cat /run/systemd/resolve/resolv.conf").await.contains(&format!("nameserver {}", status.gateway)));
        assert!(run("getent ahostsv4 kvm-02.t-lab.internal").await.contains(&status.hosts[1].address.to_string()));
        run("sudo -n sysctl -w net.ipv4.ip_forward=1").await;
        run("sudo -n mkdir /sys/fs/cgroup/pids/probe && sudo -n rmdir /sys/fs/cgroup/pids/probe || sudo -n mkdir /sys/fs/cgroup/probe").await;
    }
    let ids = [
        lab.ssh("kvm-01", "cat /etc/machine-id").await.unwrap(),
        lab.ssh("kvm-02", "cat /etc/machine-id").await.unwrap(),
    ];
    assert_ne!(ids[0], ids[1]);

    // The other user's sudo wants the password.
    assert!(!ssh(&status, lab::PASSWORD_USER, 0, "sudo -n true 2>/dev/null", "").0);
    let password = fs::read_to_string(&status.sudo_password_file).unwrap();
    let (_, uid) = ssh(&status, lab::PASSWORD_USER, 0, "sudo -S -p '' id -u", &format!("{password}\n"));
    assert_eq!(uid, "0");

    // A sysctl that is the whole machine's is not changed by a host.
    let machine = || fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap();
    let before = machine();
    let set = "sudo -n sysctl -qw vm.overcommit_memory=2; cat /proc/sys/vm/overcommit_memory";
    assert_eq!(lab.ssh("kvm-01", set).await.unwrap().trim(), "2");
    assert_eq!(machine(), before);

    // A second `up` of the same lab is content with what is there; another shape is refused.
    lab::up_hosts(&options, &Events::none()).await.unwrap();
    let other = lab::up_hosts(&Options { hosts: 1, ..options.clone() }, &Events::none()).await;
    assert!(matches!(other, Err(LabError::Exists { .. })), "{other:?}");

    lab.reboot("kvm-01").await.unwrap();
    lab.reboot("kvm-02").await.unwrap();
    assert_eq!(lab.ssh("kvm-02", "systemctl is-system-running --wait").await.unwrap().trim(), "running");

    // A power cut, a disk put back, a switch that dies.
    lab.stop("kvm-01").await.unwrap();
    lab.snapshot("kvm-01", "clean").await.unwrap();
    lab.start("kvm-01").await.unwrap();
    lab.ssh("kvm-01", "sudo -n touch /etc/mark /var/mark && sudo -n rm /etc/motd && sync").await.unwrap();
    lab.kill("kvm-01").await.unwrap();
    assert!(!lab.status().hosts[0].alive);
    lab.start("kvm-01").await.unwrap();
    lab.ssh("kvm-01", "test -e /etc/mark -a -e /var/mark -a ! -e /etc/motd").await.unwrap();
    lab.kill("kvm-01").await.unwrap();
    lab.restore("kvm-01", "clean").await.unwrap();
    lab.start("kvm-01").await.unwrap();
    lab.ssh("kvm-01", "test ! -e /etc/mark -a ! -e /var/mark -a -e /etc/motd").await.unwrap();
    lab.cut_link("kvm-01").await.unwrap();
    assert!(lab.ssh("kvm-01", "true").await.is_err());
    lab.restore_link("kvm-01").await.unwrap();
    lab.ssh("kvm-01", "true").await.unwrap();
    assert_eq!(lab.ssh("bastion", "hostname").await.unwrap().trim(), "bastion");

    assert!(lab::down("t-lab", &Events::none()).await.unwrap());
    assert_eq!(left(&status), Vec::<String>::new());
    assert_eq!(lab::status("t-lab"), None);
    assert!(!lab::down("t-lab", &Events::none()).await.unwrap());
}

#[tokio::test]
async fn a_killed_up_goes_away_like_any_other() {
    let options = Options { hosts: 2, ..Options::new("t-killed") };
    let (_, status) = up(&options).await;
    assert!(left(&status).len() > 10, "what is looked for is there: {:?}", left(&status));
    lab::down(&options.name, &Events::none()).await.unwrap();
    assert_eq!(left(&status), Vec::<String>::new());

    for after_ms in [30, 100, 300, 600, 1200, 2500, 5000] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "up_until_killed", "--nocapture"])
            .env(CHILD, &options.name)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        lab::down(&options.name, &Events::none()).await.unwrap();
        assert_eq!(left(&status), Vec::<String>::new(), "killed after {after_ms} ms");
    }
}

/// No test of its own, see [`CHILD`].
#[tokio::test]
async fn up_until_killed() {
    if let Ok(name) = std::env::var(CHILD) {
        lab::up_hosts(&Options { hosts: 2, ..Options::new(name) }, &Events::none()).await.unwrap();
        std::future::pending::<()>().await;
    }
}

#[tokio::test]
#[ignore = "minutes where machines are emulated"]
async fn virtual_machines_have_a_kernel_of_their_own() {
    let (lab, status) = up(&Options { hosts: 2, kind: Kind::Vm, memory_mib: 2048, ..Options::new("t-vm") }).await;
    let run = async |command: &str| lab.ssh("kvm-02", command).await.unwrap().trim().to_owned();
    assert_eq!(run("stat -fc %T /sys/fs/cgroup").await, "cgroup2fs");
    assert!(run("uname -r").await.ends_with("cloud-amd64"));
    run("sudo -n modprobe -a 8021q bonding overlay").await;
    assert_eq!(run("sudo -n ip link add link eth1 name eth1.20 type vlan id 20 && cat /sys/class/net/eth1.20/lower_eth1/address").await, run("cat /sys/class/net/eth1/address").await);
    assert!(run("ip -4 -o address show dev eth0").await.contains(&status.hosts[1].address.to_string()));
    let uuid = "sudo -n cat /sys/class/dmi/id/product_uuid";
    assert_ne!(run(uuid).await, lab.ssh("kvm-01", uuid).await.unwrap().trim());
    lab.reboot("kvm-02").await.unwrap();
    lab.stop("kvm-02").await.unwrap();
    lab.snapshot("kvm-02", "clean").await.unwrap();
    lab.start("kvm-02").await.unwrap();
    lab.ssh("kvm-02", "sudo -n touch /etc/mark && sync").await.unwrap();
    lab.kill("kvm-02").await.unwrap();
    lab.restore("kvm-02", "clean").await.unwrap();
    lab.start("kvm-02").await.unwrap();
    lab.ssh("kvm-02", "test ! -e /etc/mark").await.unwrap();
    lab::down("t-vm", &Events::none()).await.unwrap();
    assert_eq!(left(&status), Vec::<String>::new());
}
