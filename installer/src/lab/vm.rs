//! Virtual machines: QEMU with Debian's own kernel, on the lab's bridges by taps. Nothing of this machine's kernel shows in
//! them, so they need none of the overrides that containers need.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::dirs::HostDir;
use super::layout::{Layout, Spec};
use super::tool::Tools;
use super::{LabError, disk, lan};

/// Makes a host's disk of the Debian tree and the host's own files.
const MAKE_DISK: &str = include_str!("files/make-disk.sh");
/// The parts of a host's disk, in its folder.
pub(super) const DISK: &[&str] = &["disk.img"];
/// How long a kernel may take to its first word under KVM. It takes well under a second where KVM works.
const FIRST_WORD: &str = "10";
/// What a kernel says when it has come so far that the rest will work too.
const ALIVE: &str = "Run /init as init process";

/// What runs the machines' instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Accelerator {
    /// The processor.
    Kvm,
    /// QEMU's emulation: some ten times slower, and it works everywhere.
    Tcg,
}

impl Accelerator {
    fn args(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // All that QEMU can emulate, which includes AMD's virtualisation: /dev/kvm is there inside.
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }

    /// Finds out what works here by booting the kernel: there are machines whose /dev/kvm opens and whose guests hang.
    pub(super) async fn detect(tools: &Tools, lower: &Path) -> Result<Self, LabError> {
        if !Path::new("/dev/kvm").exists() {
            return Ok(Self::Tcg);
        }
        let (kernel, initrd) = kernel(lower)?;
        let mut args = vec!["--kill-after=1", FIRST_WORD, "qemu-system-x86_64"];
        args.extend(Self::Kvm.args());
        args.extend("-m 512 -nodefaults -no-user-config -display none -no-reboot -serial stdio -kernel".split(' '));
        let (kernel, initrd) = (kernel.display().to_string(), initrd.display().to_string());
        args.extend([&kernel, "-initrd", &initrd, "-append", "console=ttyS0 panic=-1"]);
        let mut alive = false;
        // It ends by itself (no root file system), by the time-out, or with KVM's error: only what it said counts.
        drop(tools.run_lines("timeout", &args, |line| alive |= line.contains(ALIVE)).await);
        Ok(if alive { Self::Kvm } else { Self::Tcg })
    }
}

/// Makes what a host's first boot needs: its disk.
pub(super) async fn prepare(tools: &Tools, dir: &HostDir, lower: &Path) -> Result<(), LabError> {
    for folder in [dir.work(), dir.root()] {
        disk::create_dir(&folder)?;
    }
    let script = dir.path().join("make-disk.sh");
    disk::write(&script, MAKE_DISK)?;
    let mut args: Vec<&std::ffi::OsStr> = ["--mount", "--propagation", "slave", "sh"].map(AsRef::as_ref).to_vec();
    args.extend([script.as_os_str(), dir.path().as_os_str(), lower.as_os_str()]);
    tools.run("unshare", &args).await?;
    Ok(())
}

/// Starts a host and returns the process that runs it.
pub(super) fn boot(
    tools: &Tools,
    dir: &HostDir,
    layout: &Layout,
    accelerator: Accelerator,
    memory_mib: u32,
    host: &Spec,
    lower: &Path,
) -> Result<u32, LabError> {
    let mut args = vec![format!("--net={}/{}", lan::NETNS_DIR, layout.lan_netns()), "qemu-system-x86_64".to_owned()];
    args.extend(accelerator.args().map(str::to_owned));
    args.extend(machine(dir, layout, memory_mib, host, &kernel(lower)?));
    tools.detach(&host.name, "nsenter", &args, &dir.path().join("qemu.log"))
}

fn machine(
    dir: &HostDir,
    layout: &Layout,
    memory_mib: u32,
    host: &Spec,
    (kernel, initrd): &(PathBuf, PathBuf),
) -> Vec<String> {
    let mut args: Vec<String> = "-nodefaults -no-user-config -display none -smp 2 -device virtio-rng-pci"
        .split(' ')
        .map(str::to_owned)
        .collect();
    let mut set = |option: &str, value: String| args.extend([option.to_owned(), value]);
    set("-name", host.name.clone());
    set("-uuid", uuid(&layout.host_netns(&host.name)));
    set("-m", memory_mib.to_string());
    set("-chardev", format!("file,id=console,append=on,path={}", escaped(&dir.console())));
    set("-serial", "chardev:console".to_owned());
    set("-kernel", kernel.display().to_string());
    set("-initrd", initrd.display().to_string());
    // Plain NIC names, so that a fleet file fits both kinds of lab.
    set("-append", "root=/dev/vda rw console=ttyS0 net.ifnames=0".to_owned());
    // A lab is thrown away, so no write needs to reach this machine's disk before it is confirmed.
    let image = escaped(&dir.disk());
    set("-drive", format!("file={image},format=raw,if=virtio,cache=unsafe,discard=unmap"));
    for (nic, mac) in host.macs.iter().enumerate() {
        set("-netdev", format!("tap,id=n{nic},ifname={},script=no,downscript=no", host.port(nic)));
        set("-device", format!("virtio-net-pci,netdev=n{nic},mac={mac},romfile="));
    }
    args
}

/// QEMU splits option values at commas; two stand for one.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The machine's UUID in its DMI tables: always the same for a host, and no two hosts share it.
fn uuid(name: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    let hex = digest.iter().take(16).fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Kernel and initrd of a tree: the newest, though there is only one.
fn kernel(lower: &Path) -> Result<(PathBuf, PathBuf), LabError> {
    let boot = lower.join("boot");
    let read = || -> std::io::Result<(PathBuf, PathBuf)> {
        let mut releases: Vec<String> = std::fs::read_dir(&boot)?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("vmlinuz-").map(str::to_owned))
            .collect();
        releases.sort();
        let release = releases.pop().ok_or(std::io::ErrorKind::NotFound)?;
        Ok((boot.join(format!("vmlinuz-{release}")), boot.join(format!("initrd.img-{release}"))))
    };
    read().map_err(LabError::io(format!("find a kernel in {}", boot.display())))
}

/// How long a virtual machine may take to answer; emulated and beside others it needs minutes.
pub(super) const UP: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::dirs::Dirs;
    use crate::lab::{Kind, Options};

    #[test]
    fn a_machine_has_its_own_identity_and_both_cables() {
        let dirs = Dirs { labs: "/labs".into(), roots: "/roots".into() };
        let layout = Layout::new("demo", "10.130.4.0/22".parse().unwrap());
        let hosts = layout.hosts(&Options { hosts: 2, kind: Kind::Vm, ..Options::new("demo") });
        let files = ("/k".into(), "/i".into());
        let args = |i: usize| machine(&dirs.lab("demo").host(&hosts[i].name), &layout, 2048, &hosts[i], &files);
        let value = |args: &[String], option: &str| {
            args.iter()
                .zip(args.iter().skip(1))
                .filter(|(o, _)| *o == option)
                .map(|(_, v)| v.clone())
                .collect::<Vec<_>>()
        };
        assert_ne!(value(&args(0), "-uuid"), value(&args(1), "-uuid"));
        assert_eq!(value(&args(1), "-m"), ["2048"]);
        assert_eq!(
            value(&args(1), "-netdev"),
            ["tap,id=n0,ifname=kvm-02.0,script=no,downscript=no", "tap,id=n1,ifname=kvm-02.1,script=no,downscript=no"]
        );
    }

    #[test]
    fn a_tree_without_a_kernel_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let err = kernel(dir.path()).unwrap_err().to_string();
        assert!(err.contains(&dir.path().display().to_string()), "{err}");
        std::fs::create_dir(dir.path().join("boot")).unwrap();
        std::fs::write(dir.path().join("boot/vmlinuz-6.1.0-1"), "").unwrap();
        assert_eq!(kernel(dir.path()).unwrap().1, dir.path().join("boot/initrd.img-6.1.0-1"));
    }
}
