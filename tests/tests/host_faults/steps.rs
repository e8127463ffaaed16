//! Hosts on which a step cannot be made, and what hosts have that must stay as it is.

use anyhow::{Result, ensure};
use hostspan_tests::fleet::Run;
use hostspan_tests::scenario::Scenario;

use crate::{Faults, apply, finished, says};

/// Only the swap lines go, and only by a mark in front of them.
const FSTAB: &str = "# old swap note\nUUID=1b2c /data/swapspace ext4 defaults,nofail,noauto 0 2\n/swap.img none swap sw 0 0\n\
                     /dev/sdb2\tnone\tswap\n";
const CHANGED: [&str; 2] = ["/swap.img none swap sw 0 0", "/dev/sdb2\tnone\tswap"];

/// As a package would have put it there; it works as long as it is what is run.
const CONTAINERD: &str =
    "#!/bin/sh\ncase $1 in --version) echo containerd of somebody else ;; *) exec sleep infinity ;; esac\n";

pub async fn story(faults: &Faults, scenario: &mut Scenario) {
    let mut run = None;
    scenario
        .must("two_hosts_fail_and_two_are_finished", async {
            run = Some(failing(faults).await?);
            Ok(())
        })
        .await;
    if let Some(run) = &run {
        scenario
            .check("a_full_disk_has_its_own_error", async { says(run, "kvm-03", &["No space left on device"]) })
            .await;
        scenario
            .check("a_read_only_folder_has_its_own_error", async {
                says(run, "kvm-04", &["prepare/kernel-settings", "Read-only file system", "run the same command again"])
            })
            .await;
        scenario.check("hosts_beside_them_are_finished", async { finished(run, &["kvm-06", "kvm-07"]) }).await;
    }
    scenario.check("only_swap_leaves_fstab", fstab(faults)).await;
    scenario.check("a_foreign_containerd_goes_on_working", containerd(faults)).await;
    scenario
        .check("once_mended_the_next_apply_converges", async {
            faults.roots(&[("kvm-03", "umount /var/lib/hostspan"), ("kvm-04", "umount /etc/sysctl.d")]).await?;
            let run = apply(&file(faults)?, &ARGS).await?.expect(0)?;
            finished(&run, &["kvm-03", "kvm-04", "kvm-06", "kvm-07"])?;
            ensure!(run.json()?["hosts"]["kvm-06"]["changed"] == 0, "a finished host was changed again");
            Ok(())
        })
        .await;
}

const ARGS: [&str; 10] =
    ["--until", "runtime", "--host", "kvm-03", "--host", "kvm-04", "--host", "kvm-06", "--host", "kvm-07"];

/// Hosts of this fleet keep no swap, other than those of a lab.
fn file(faults: &Faults) -> Result<std::path::PathBuf> {
    faults.fleet_file("steps.yaml", |fleet| {
        fleet["spec"]["kubernetes"]["kubelet"].as_object_mut().unwrap().remove("failSwapOn");
    })
}

async fn failing(faults: &Faults) -> Result<Run> {
    // The swap of this machine, which its containers see and could switch off, is hidden.
    let swap = format!(
        "printf '%s' {fstab} >/etc/fstab
         head -n 1 /proc/swaps >/run/no-swaps
         mount --bind /run/no-swaps /proc/swaps
         printf '%s' {containerd} >/usr/bin/containerd
         chmod 755 /usr/bin/containerd
         printf '[Service]\\nExecStart=/usr/bin/containerd\\n' >/etc/systemd/system/containerd.service
         systemctl start containerd",
        fstab = hostspan::ssh::quote(FSTAB),
        containerd = hostspan::ssh::quote(CONTAINERD),
    );
    faults
        .roots(&[
            ("kvm-03", "mkdir -p /var/lib/hostspan; mount -t tmpfs -o size=8m tmpfs /var/lib/hostspan"),
            ("kvm-04", "mount --bind /etc/sysctl.d /etc/sysctl.d; mount -o remount,bind,ro /etc/sysctl.d"),
            ("kvm-06", &swap),
        ])
        .await?;
    apply(&file(faults)?, &ARGS).await?.expect(13)
}

async fn fstab(faults: &Faults) -> Result<()> {
    let now = faults.root("kvm-06", "cat /etc/fstab").await?;
    ensure!(now.lines().count() == FSTAB.lines().count(), "lines came or went:\n{now}");
    for (was, now) in FSTAB.lines().zip(now.lines()) {
        if CHANGED.contains(&was) {
            ensure!(now.starts_with('#') && now.ends_with(was), "{was:?} became {now:?}");
        } else {
            ensure!(now == was, "{was:?} became {now:?}");
        }
    }
    Ok(())
}

async fn containerd(faults: &Faults) -> Result<()> {
    let text = faults
        .root(
            "kvm-06",
            "cat /usr/bin/containerd; containerd --version; systemctl is-active containerd hostspan-containerd",
        )
        .await?;
    let wanted = format!("{CONTAINERD}containerd of somebody else\nactive\nactive\n");
    ensure!(text == wanted, "{text}");
    Ok(())
}
