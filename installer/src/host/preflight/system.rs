//! Checks of a host itself: system, kernel, hardware.

use super::Subject;
use super::existing::Standing;
use super::finding::{Finding, Severity};
use crate::host::facts::Facts;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;
/// What prepare sets: pods and guests each take inotify instances, and the kernel's default of 128 is soon gone.
const INOTIFY_INSTANCES: u64 = 8192;
const INOTIFY_WATCHES: u64 = 1_048_576;

pub(super) fn check(subject: &Subject<'_>, out: &mut Vec<Finding>) {
    out.extend(unreadable(subject));
    out.extend(system(subject));
    out.extend(read_only(subject));
    out.extend(capacity(subject));
    out.extend(kvm(subject));
    out.extend(swap(subject));
    out.extend(inotify(subject));
    out.extend(time(subject));
    out.extend(dpkg(subject));
}

fn unreadable(subject: &Subject<'_>) -> Vec<Finding> {
    let facts = subject.facts;
    let blind = facts.interfaces.is_empty().then(|| {
        subject
            .block("interfaces", "the network interfaces cannot be read")
            .detail("`ip -j` printed nothing; without it nothing about the network can be judged")
            .fix("apt-get install iproute2")
    });
    let rest = facts.unreadable.iter().map(|sentence| {
        subject
            .warn("unreadable", "a part of the host cannot be judged")
            .detail(sentence.clone())
            .fix("install the missing tool, or see why root cannot read the file")
    });
    blind.into_iter().chain(rest).collect()
}

/// How well a system is known.
enum Support {
    Tested,
    Newer,
    No,
}

fn support(facts: &Facts) -> Support {
    // 24.04 is 2404, 12 is 1200, so that they can be compared.
    let mut parts = facts.os_version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let version = parts.next().unwrap_or_default() * 100 + parts.next().unwrap_or_default();
    let (oldest, newest) = match facts.os_id.as_str() {
        "debian" => (1200, 1300),
        "ubuntu" => (2204, 2604),
        _ => return Support::No,
    };
    match version {
        _ if version < oldest => Support::No,
        _ if version <= newest => Support::Tested,
        _ => Support::Newer,
    }
}

fn system(subject: &Subject<'_>) -> Vec<Finding> {
    let facts = subject.facts;
    let mut found = Vec::new();
    let name = if facts.os_name.is_empty() { "the system" } else { &facts.os_name };
    match support(facts) {
        Support::Tested => {}
        Support::Newer => found.push(
            subject
                .warn("os-untested", format!("{name} is newer than what hostspan is tested with"))
                .detail("tested are Debian 12 and 13 and Ubuntu 22.04 to 26.04")
                .fix("try it on a host that does not matter first")
                .acknowledgeable(),
        ),
        Support::No => found.push(
            subject
                .block("os", format!("{name} is not supported"))
                .detail("supported are Debian 12 and 13 and Ubuntu 22.04 to 26.04")
                .fix("install one of these")
                .acknowledgeable(),
        ),
    }
    if !matches!(facts.arch.as_str(), "amd64" | "arm64") {
        found.push(
            subject
                .block("arch", format!("the architecture {} is not supported", facts.arch))
                .detail("KubeVirt and the release files are there for amd64 and arm64")
                .fix("take the host out of the fleet"),
        );
    }
    if !facts.systemd {
        found.push(
            subject
                .block("systemd", "systemd is not the init system")
                .detail("the kubelet and containerd run as systemd units")
                .fix("apt-get install systemd-sysv, then reboot"),
        );
    }
    if facts.cgroup_version < 2 {
        found.push(
            subject
                .block("cgroup-v1", "the host uses cgroup v1")
                .detail("the kubelet refuses it, and KubeVirt no longer supports it")
                .fix(
                    "take `systemd.unified_cgroup_hierarchy=0` out of GRUB_CMDLINE_LINUX in /etc/default/grub, run \
                     update-grub, reboot",
                )
                .acknowledgeable(),
        );
    }
    found
}

fn read_only(subject: &Subject<'_>) -> Option<Finding> {
    let folders = &subject.facts.read_only;
    (!folders.is_empty()).then(|| {
        subject
            .block("read-only", format!("{} cannot be written", folders.join(", ")))
            .detail("a file system that is mounted read-only at run time usually has errors: see `dmesg`")
            .fix("mount -o remount,rw / once the disk is sound")
    })
}

/// One resource with its two levels: less than `least` does not work, less than `good` works for a try.
struct Level {
    id: &'static str,
    what: &'static str,
    has: u64,
    least: u64,
    good: u64,
    show: fn(u64) -> String,
}

fn capacity(subject: &Subject<'_>) -> Vec<Finding> {
    let facts = subject.facts;
    let gib = |bytes: u64| format!("{}.{} GiB", bytes / GIB, bytes % GIB * 10 / GIB);
    // kubeadm refuses a control plane below 2 CPUs and 1700 MB.
    let (cpus, memory) = if subject.is_control_plane() { (2, 1700 * 1_000_000) } else { (1, GIB) };
    let mut levels = vec![
        Level { id: "cpus", what: "CPUs", has: facts.cpus.into(), least: cpus, good: 4, show: |cpus| cpus.to_string() },
        Level { id: "memory", what: "memory", has: facts.memory_bytes, least: memory, good: 8 * GIB, show: gib },
    ];
    // The kubelet evicts below a tenth of the disk; images and the journal take 2 GiB.
    for (path, free) in &facts.disk_free_bytes {
        if path == "/var/lib" {
            levels.push(Level {
                id: "disk",
                what: "free disk space under /var/lib",
                has: *free,
                least: 3 * GIB,
                good: 20 * GIB,
                show: gib,
            });
        }
    }
    let judge = |level: Level| {
        // Unknown is told by `unreadable`.
        if level.has == 0 && level.id != "disk" || level.has >= level.good {
            return None;
        }
        // A host that runs already needs no more than it has.
        let blocks = level.has < level.least && *subject.standing != Standing::Ours;
        let severity = if blocks { Severity::Block } else { Severity::Warn };
        let Level { id, what, has, least, good, show } = level;
        let finding = subject
            .finding(severity, id, format!("{what}: {}", show(has)))
            .detail(format!("{} are the least for a try, {} for real use", show(least), show(good)))
            .fix(format!("give the host more {what}"))
            .acknowledgeable();
        Some(finding)
    };
    levels.into_iter().filter_map(judge).collect()
}

/// Blocks although Kubernetes alone would run: virtual machines are what a KVM host is converted for, and to learn of it
/// when the first one does not start is too late. Who wants the cluster without them acknowledges it.
fn kvm(subject: &Subject<'_>) -> Option<Finding> {
    let facts = subject.facts;
    if facts.kvm_device || !subject.is_worker() {
        return None;
    }
    let (detail, fix) = kvm_hint(facts);
    let finding = subject
        .block("no-kvm", "there is no /dev/kvm")
        .detail(format!("{detail}; without it virtual machines do not start"))
        .fix(fix)
        .acknowledgeable();
    Some(finding)
}

fn kvm_hint(facts: &Facts) -> (&'static str, String) {
    if let Some(container) = &facts.platform.container {
        let fix = format!("give the {container} container the device /dev/kvm");
        return ("the host is a container that was not given the device", fix);
    }
    if facts.kvm_cpu {
        let module = if facts.cpu_model.contains("AMD") { "kvm_amd" } else { "kvm_intel" };
        return ("the CPU can do it, but the module is not loaded", format!("modprobe {module}; if that fails: dmesg"));
    }
    if facts.arch == "arm64" {
        let fix = "boot the kernel at EL2; a virtual machine needs nested virtualisation of its hypervisor".to_owned();
        return ("the kernel was not started at the level that virtualisation needs", fix);
    }
    let Some(fix) = hypervisor_hint(&facts.platform.vendor, &facts.platform.product) else {
        let fix = "switch on VT-x (Intel) or SVM (AMD) in the firmware setup";
        return ("the CPU does not show vmx or svm", fix.to_owned());
    };
    ("the host is a virtual machine without nested virtualisation", fix.to_owned())
}

fn hypervisor_hint(vendor: &str, product: &str) -> Option<&'static str> {
    let hints = [
        ("Amazon EC2", "use a .metal instance, or a type with nested virtualisation switched on"),
        ("Google", "gcloud compute instances update NAME --enable-nested-virtualization (stop it first)"),
        (
            "Microsoft Corporation",
            "on Hyper-V: Set-VMProcessor -VMName NAME -ExposeVirtualizationExtensions $true; on Azure use a size with \
             nested virtualisation",
        ),
        ("VMware", "in vSphere: CPU, Hardware virtualization, Expose hardware assisted virtualization to the guest OS"),
        ("innotek", "VBoxManage modifyvm NAME --nested-hw-virt on"),
        (
            "QEMU",
            "on its host: modprobe kvm_intel nested=1 (or kvm_amd), and give the guest the CPU model host-passthrough",
        ),
        (
            "KVM",
            "on its host: modprobe kvm_intel nested=1 (or kvm_amd), and give the guest the CPU model host-passthrough",
        ),
    ];
    let of = |name: &str| vendor.contains(name) || product.contains(name);
    // Microsoft sells machines too: only its virtual ones need a hint.
    let real = vendor.starts_with("Microsoft") && !product.contains("Virtual Machine");
    hints.into_iter().find(|(name, _)| of(name) && !real).map(|(_, hint)| hint)
}

fn swap(subject: &Subject<'_>) -> Option<Finding> {
    let facts = subject.facts;
    let listed = swap_entries(&facts.fstab);
    let kept = subject.fleet.spec.kubernetes.keeps_swap();
    if kept || (facts.swaps.is_empty() && listed.is_empty()) {
        return None;
    }
    let seen = match (facts.swaps.as_slice(), listed.as_slice()) {
        ([], listed) => format!("off now, but /etc/fstab brings back {}", listed.join(", ")),
        (swaps, _) => format!("in use: {}", swaps.join(", ")),
    };
    let finding = subject
        .fixable("swap-on", "swap is on")
        .detail(format!("{seen}; the kubelet does not start with swap"))
        .fix("apply runs swapoff, comments out the swap entries of /etc/fstab and masks the swap units");
    Some(finding)
}

/// What fstab(5) calls fs_spec, of entries whose third field is `swap`.
fn swap_entries(fstab: &str) -> Vec<&str> {
    let entry = |line: &'_ str| -> Option<_> {
        let mut fields = line.split_whitespace();
        let spec = fields.next().filter(|spec| !spec.starts_with('#'))?;
        (fields.nth(1) == Some("swap")).then(|| line.find(spec).map(|at| at..at + spec.len()))?
    };
    fstab.lines().filter_map(|line| entry(line).and_then(|range| line.get(range))).collect()
}

fn inotify(subject: &Subject<'_>) -> Option<Finding> {
    let facts = subject.facts;
    let (instances, watches) = (facts.inotify_instances?, facts.inotify_watches?);
    (instances < INOTIFY_INSTANCES || watches < INOTIFY_WATCHES).then(|| {
        subject
            .fixable("inotify-limits", "the inotify limits are low")
            .detail(format!("{instances} instances and {watches} watches; pods end with \"too many open files\""))
            .fix(format!(
                "apply sets fs.inotify.max_user_instances={INOTIFY_INSTANCES} and \
                 fs.inotify.max_user_watches={INOTIFY_WATCHES} in /etc/sysctl.d"
            ))
    })
}

fn time(subject: &Subject<'_>) -> Option<Finding> {
    let facts = subject.facts;
    // A container has its machine's clock and cannot set it.
    if facts.clock_synchronized || facts.platform.container.is_some() {
        return None;
    }
    let running = facts.time_daemon();
    Some(match running {
        Some(unit) => subject
            .warn("time-sync", "the clock is not synchronised")
            .detail(format!(
                "{unit} runs and does not have the time yet; certificates and leases need clocks that agree"
            ))
            .fix("see whether it reaches its servers: timedatectl timesync-status, or chronyc sources")
            .acknowledgeable(),
        None => subject
            .fixable("time-sync", "nothing keeps the clock")
            .detail("no time daemon runs; certificates and leases need clocks that agree")
            .fix("apply installs systemd-timesyncd and switches it on"),
    })
}

fn dpkg(subject: &Subject<'_>) -> Option<Finding> {
    let holder = subject.facts.dpkg_lock.as_ref()?;
    let finding = subject
        .warn("dpkg-lock", format!("{holder} holds dpkg's lock"))
        .detail("apply waits for it where it installs packages; hostspan never ends it")
        .fix("wait until it is done");
    Some(finding)
}
