//! A lab that is there, and what can be done to its hosts.

use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::dirs::{Dirs, HostDir, LabDir};
use super::layout::{self, Layout, Spec};
use super::root::Root;
use super::tool::Tools;
use super::{HostStatus, Kind, LabError, LabStatus, Options, USER, container, disk, lan, processes, vm};

/// How long a host may take to power off before it is killed.
const STOPPED: Duration = Duration::from_mins(1);

/// What a lab's `lab.json` holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// What was asked for.
    pub(super) options: Options,
    /// Where it is.
    pub(super) subnet: Ipv4Net,
    /// What runs virtual machines here; containers need nothing.
    pub(super) accelerator: Option<vm::Accelerator>,
    /// Whether `up` came to its end.
    pub(super) ready: bool,
}

impl Record {
    pub(super) fn write(&self, dir: &LabDir) -> Result<(), LabError> {
        let text =
            serde_json::to_string_pretty(self).map_err(std::io::Error::from).map_err(LabError::io("write lab.json"))?;
        disk::write(&dir.record(), &text)
    }

    pub(super) fn read(dir: &LabDir) -> Result<Self, LabError> {
        let path = dir.record();
        serde_json::from_str(&disk::read(&path)?)
            .map_err(std::io::Error::from)
            .map_err(LabError::io(format!("read {}", path.display())))
    }
}

/// A lab that is there.
#[derive(Debug, Clone)]
pub struct Lab {
    pub(super) record: Record,
    pub(super) dirs: Dirs,
    pub(super) dir: LabDir,
    pub(super) layout: Layout,
    pub(super) tools: Tools,
}

impl Lab {
    /// Opens the lab `name`.
    ///
    /// # Errors
    /// [`LabError::Missing`] where there is none.
    pub fn open(name: &str) -> Result<Self, LabError> {
        layout::check_name(name)?;
        let dirs = Dirs::from_env()?;
        let dir = dirs.lab(name);
        if !dir.record().exists() {
            return Err(LabError::Missing(name.to_owned()));
        }
        Ok(Self::of(Record::read(&dir)?, dirs))
    }

    pub(super) fn of(record: Record, dirs: Dirs) -> Self {
        let name = &record.options.name;
        Self { dir: dirs.lab(name), layout: Layout::new(name, record.subnet), tools: Tools::new(name), dirs, record }
    }

    /// Its state now.
    pub fn status(&self) -> LabStatus {
        let hosts = self.specs().into_iter().map(|spec| {
            let pid = self.pid(&spec.name);
            HostStatus {
                os: spec.os,
                address: spec.address,
                second_address: spec.second_address,
                user: USER.to_owned(),
                pid,
                alive: pid.is_some(),
                console: self.host_dir(&spec.name).console(),
                name: spec.name,
            }
        });
        LabStatus {
            name: self.name().to_owned(),
            kind: self.record.options.kind,
            ready: self.record.ready,
            state_dir: self.dir.path().to_owned(),
            fleet_file: self.dir.fleet_file(),
            kubeconfig: self.dir.kubeconfig(),
            identity_file: self.dir.identity(),
            known_hosts: self.dir.known_hosts(),
            sudo_password_file: self.dir.sudo_password(),
            gateway: self.layout.gateway(),
            link: layout::admin_link(self.name()),
            hosts: hosts.collect(),
        }
    }

    /// Runs a command on a host over SSH, as the user with passwordless sudo, and returns what it printed.
    ///
    /// # Errors
    /// [`LabError::Tool`] with what it wrote to standard error.
    pub async fn ssh(&self, host: &str, command: &str) -> Result<String, LabError> {
        self.ssh_to(self.spec(host)?.address, command).await
    }

    /// Boots a host that is stopped or was killed, and waits until it answers.
    ///
    /// # Errors
    /// [`LabError::NotUp`] and what booting needs.
    pub async fn start(&self, host: &str) -> Result<(), LabError> {
        let spec = self.spec(host)?;
        self.boot(&spec)?;
        self.wait_up(&spec, None).await
    }

    /// Powers a host off, as an admin would, and waits until it is.
    ///
    /// # Errors
    /// Where its processes will not go.
    pub async fn stop(&self, host: &str) -> Result<(), LabError> {
        let spec = self.spec(host)?;
        // The link goes before the command's status comes; whether it worked shows below.
        drop(self.ssh_to(spec.address, "sudo -n systemctl --no-block poweroff").await);
        let began = Instant::now();
        while self.pid(host).is_some() && began.elapsed() < STOPPED {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.kill(host).await
    }

    /// Cuts a host's power: kills all that runs it and all that runs in it, at once.
    ///
    /// # Errors
    /// Where its processes will not go.
    pub async fn kill(&self, host: &str) -> Result<(), LabError> {
        let spec = self.spec(host)?;
        processes::kill_all(self.name(), || processes::of_host(self.name(), &spec.name)).await
    }

    /// Reboots a host, as an admin would, and waits until it answers again.
    ///
    /// # Errors
    /// [`LabError::NotUp`], also where it went on running.
    pub async fn reboot(&self, host: &str) -> Result<(), LabError> {
        let spec = self.spec(host)?;
        let before = self.ssh_to(spec.address, BOOT_ID).await?;
        drop(self.ssh_to(spec.address, "sudo -n systemctl --no-block reboot").await);
        self.wait_up(&spec, Some(before.trim())).await
    }

    /// Keeps a copy of a stopped host's disk.
    ///
    /// # Errors
    /// [`LabError::HostState`] where it runs.
    pub async fn snapshot(&self, host: &str, label: &str) -> Result<(), LabError> {
        let dir = self.stopped(host)?;
        let to = dir.snapshot(label);
        disk::remove_dir(&to)?;
        disk::create_dir(&to)?;
        self.copy_disk(dir.path(), &to).await
    }

    /// Puts a stopped host's disk back to a snapshot.
    ///
    /// # Errors
    /// [`LabError::HostState`] where it runs, and where there is no such snapshot.
    pub async fn restore(&self, host: &str, label: &str) -> Result<(), LabError> {
        let dir = self.stopped(host)?;
        let from = dir.snapshot(label);
        if !from.is_dir() {
            return Err(LabError::HostState {
                host: host.to_owned(),
                state: "has no such snapshot",
                help: "take one first",
            });
        }
        // overlayfs' scratch folder belongs to the upper folder that goes.
        disk::remove_dir(&dir.work())?;
        disk::create_dir(&dir.work())?;
        self.copy_disk(&from, dir.path()).await
    }

    /// Cuts a host's link to the LAN. It keeps its carrier, as when a switch behind the next one dies: connections hang.
    ///
    /// # Errors
    /// Where there is no such host or LAN.
    pub async fn cut_link(&self, host: &str) -> Result<(), LabError> {
        lan::plug(&self.tools, &self.layout, &self.spec(host)?, false).await
    }

    /// Mends a link that was cut.
    ///
    /// # Errors
    /// Where there is no such host or LAN.
    pub async fn restore_link(&self, host: &str) -> Result<(), LabError> {
        lan::plug(&self.tools, &self.layout, &self.spec(host)?, true).await
    }

    pub(super) fn name(&self) -> &str {
        &self.record.options.name
    }

    pub(super) fn specs(&self) -> Vec<Spec> {
        self.layout.hosts(&self.record.options)
    }

    pub(super) fn host_dir(&self, host: &str) -> HostDir {
        self.dir.host(host)
    }

    fn spec(&self, host: &str) -> Result<Spec, LabError> {
        let mut specs = self.specs();
        match specs.iter().position(|s| s.name == host) {
            Some(index) => Ok(specs.swap_remove(index)),
            None => Err(LabError::NoHost {
                lab: self.name().to_owned(),
                host: host.to_owned(),
                hosts: specs.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The process that runs a host, if it runs.
    fn pid(&self, host: &str) -> Option<u32> {
        let pid = fs::read_to_string(self.host_dir(host).pid()).ok()?.trim().parse().ok()?;
        processes::is(pid, self.name(), host).then_some(pid)
    }

    fn stopped(&self, host: &str) -> Result<HostDir, LabError> {
        let spec = self.spec(host)?;
        if self.pid(&spec.name).is_some() {
            return Err(LabError::HostState {
                host: spec.name,
                state: "runs",
                help: "stop or kill it first: the copy of a running disk is torn",
            });
        }
        Ok(self.host_dir(&spec.name))
    }

    async fn copy_disk(&self, from: &std::path::Path, to: &std::path::Path) -> Result<(), LabError> {
        let parts = match self.record.options.kind {
            Kind::Container => container::DISK,
            Kind::Vm => vm::DISK,
        };
        for part in parts {
            let (source, target) = (from.join(part), to.join(part));
            disk::remove(&target)?;
            let args = ["-a".as_ref(), "--reflink=auto".as_ref(), source.as_os_str(), target.as_os_str()];
            self.tools.run("cp", &args).await?;
        }
        Ok(())
    }

    /// Starts a host unless it runs, without waiting for it.
    pub(super) fn boot(&self, spec: &Spec) -> Result<(), LabError> {
        if self.pid(&spec.name).is_some() {
            return Ok(());
        }
        let dir = self.host_dir(&spec.name);
        let root = Root::of(&self.record.options, spec.os);
        let lower = root.path(&self.dirs);
        let pid = match self.record.accelerator {
            None => container::boot(&self.tools, &dir, &self.layout, self.name(), spec, &lower)?,
            Some(accelerator) => {
                let memory = self.record.options.memory_mib;
                vm::boot(&self.tools, &dir, &self.layout, accelerator, memory, spec, &lower)?
            }
        };
        disk::write(&dir.pid(), &pid.to_string())
    }

    /// Waits until a host answers SSH, with another boot id than `not_boot`.
    pub(super) async fn wait_up(&self, spec: &Spec, not_boot: Option<&str>) -> Result<(), LabError> {
        let most = match self.record.options.kind {
            Kind::Container => container::UP,
            Kind::Vm => vm::UP,
        };
        let began = Instant::now();
        let mut last = "it was not tried".to_owned();
        let mut dead = false;
        while began.elapsed() < most && !dead {
            // Seen before the try, so that a host that dies in between is tried once more.
            dead = self.pid(&spec.name).is_none();
            match self.ssh_to(spec.address, BOOT_ID).await {
                Ok(id) if Some(id.trim()) != not_boot => return Ok(()),
                Ok(_) => "it has not rebooted yet".clone_into(&mut last),
                Err(LabError::Tool { stderr, .. }) => last = stderr,
                Err(other) => return Err(other),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if dead {
            "its process ended".clone_into(&mut last);
        }
        Err(LabError::NotUp {
            host: spec.name.clone(),
            seconds: began.elapsed().as_secs(),
            last,
            console: self.host_dir(&spec.name).console(),
        })
    }

    async fn ssh_to(&self, address: Ipv4Addr, command: &str) -> Result<String, LabError> {
        let known_hosts = format!("UserKnownHostsFile={}", self.dir.known_hosts().display());
        let identity = self.dir.identity().display().to_string();
        let target = format!("{USER}@{address}");
        let mut args = vec!["-F", "none", "-i", &identity];
        for option in [
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=yes",
            "GlobalKnownHostsFile=none",
            "ConnectTimeout=5",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            "LogLevel=ERROR",
            &known_hosts,
        ] {
            args.extend(["-o", option]);
        }
        args.extend([&target, "--", command]);
        self.tools.run("ssh", &args).await.map_err(|err| match err {
            // Without the options, which say nothing about what went wrong.
            LabError::Tool { status, stderr, .. } => {
                LabError::Tool { command: format!("ssh {target} {command}"), status, stderr }
            }
            other => other,
        })
    }
}

/// Prints what differs from boot to boot.
const BOOT_ID: &str = "cat /proc/sys/kernel/random/boot_id";
