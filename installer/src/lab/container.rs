//! Container hosts: systemd-nspawn on an overlay of the Debian tree, in a network namespace of the lab.

use std::path::Path;
use std::time::Duration;

use super::dirs::HostDir;
use super::layout::{self, Layout, Spec};
use super::tool::Tools;
use super::{LabError, Os, cgroup, disk, lan};

/// The script that runs a host. Its text is the same for all; what differs is in its environment.
const BOOT: &str = include_str!("files/boot-container.sh");
/// Devices that a host sees besides nspawn's own, where they exist. The kubelet wants a kernel log to read, but with the
/// machine's real one every host's journal would fill with what the others' systemd writes to it.
const DEVICES: &[(&str, &str)] = &[("/dev/null", "/dev/kmsg"), ("/dev/kvm", "/dev/kvm")];

/// How long a container may take to answer on a busy machine.
pub(super) const UP: Duration = Duration::from_mins(2);
/// The parts of a host's disk, in its folder.
pub(super) const DISK: &[&str] = &["upper", "var"];

/// Makes what a host's first boot needs, besides its own files. /var is a plain folder: an overlay cannot stand on another,
/// and containerd's does.
pub(super) async fn prepare(tools: &Tools, dir: &HostDir, lower: &Path) -> Result<(), LabError> {
    for folder in [dir.work(), dir.root()] {
        disk::create_dir(&folder)?;
    }
    let (from, to) = (lower.join("var"), dir.var());
    disk::remove_dir(&to)?;
    tools.run("cp", &["-a".as_ref(), "--reflink=auto".as_ref(), from.as_os_str(), to.as_os_str()]).await?;
    Ok(())
}

/// Starts a host and returns the process that runs it.
pub(super) fn boot(
    tools: &Tools,
    dir: &HostDir,
    layout: &Layout,
    lab: &str,
    host: &Spec,
    lower: &Path,
) -> Result<u32, LabError> {
    disk::write(&dir.boot(), BOOT)?;
    let unified = cgroup::is_unified();
    let path = |p: &Path| p.display().to_string();
    let mut args: Vec<String> = ["--mount", "--propagation", "slave", "sh"].map(String::from).to_vec();
    args.push(path(&dir.boot()));
    args.extend([path(dir.path()), path(lower), format!("{}/{}", layout::cgroup(lab), host.name)]);
    args.extend(["--machine".into(), format!("{lab}-{}", host.name), "--hostname".into(), host.name.clone()]);
    args.push(format!("--network-namespace-path={}/{}", lan::NETNS_DIR, layout.host_netns(&host.name)));
    args.extend(
        DEVICES.iter().filter(|(from, _)| Path::new(from).exists()).map(|(from, to)| format!("--bind={from}:{to}")),
    );
    if Path::new("/lib/modules").is_dir() {
        args.push("--bind-ro=/lib/modules".into());
    }
    if host.os == Os::Debian13 && !unified {
        // systemd 257 gives up on cgroup v1 unless told twice.
        args.push(
            "--setenv=SYSTEMD_PROC_CMDLINE=systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"
                .into(),
        );
    }
    tools.detach(&host.name, "unshare", &args, &dir.console())
}
