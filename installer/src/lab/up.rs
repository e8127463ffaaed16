//! Makes a lab and takes it away again.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use futures::future::{join_all, try_join_all};
use nix::fcntl::{Flock, FlockArg};

use super::dirs::{Dirs, LabDir};
use super::hosts::{Lab, Record};
use super::layout::{self, Spec};
use super::root::{self, Root};
use super::tool::Tools;
use super::{Kind, LabError, Options, cgroup, container, disk, fleet_file, lan, limits, packages, processes, seed, vm};
use crate::progress::{Event, Events};

/// Makes a lab, or starts what is not running of one that is there. The hosts answer SSH when this returns.
///
/// # Errors
/// [`LabError::MissingPackages`] before anything was done; [`LabError::Exists`] where a lab of that name has another shape;
/// else what failed. [`down`] removes whatever a failed or killed `up_hosts` left.
pub async fn up_hosts(options: &Options, events: &Events) -> Result<Lab, LabError> {
    check(options)?;
    let dirs = Dirs::from_env()?;
    let dir = dirs.lab(&options.name);
    disk::create_dir(dir.path())?;
    let _lock = lock(&dir, &options.name)?;
    if dir.record().exists() {
        let record = Record::read(&dir)?;
        if record.ready {
            return resume(record, dirs, options, events).await;
        }
        // A killed `up`: nothing of it is worth keeping.
        remove(&options.name, &dirs).await?;
        disk::create_dir(dir.path())?;
    }
    fresh(options, dirs, events).await
}

/// Removes the lab `name`, whatever state it is in, and says whether there was one.
///
/// # Errors
/// [`LabError::Busy`] while an `up` is at work; [`LabError::Left`] where something would not go away.
pub async fn down(name: &str, events: &Events) -> Result<bool, LabError> {
    layout::check_name(name)?;
    check_root()?;
    let dirs = Dirs::from_env()?;
    let dir = dirs.lab(name);
    let there = dir.path().exists();
    let _lock = if there { Some(lock(&dir, name)?) } else { None };
    events.send(stage("lab-down", format!("Removing the lab {name}")));
    remove(name, &dirs).await?;
    Ok(there)
}

async fn remove(name: &str, dirs: &Dirs) -> Result<(), LabError> {
    let tools = Tools::new(name);
    processes::kill_all(name, || {
        let mut pids = processes::of_lab(name);
        pids.extend(cgroup::processes(name, None));
        pids
    })
    .await?;
    lan::remove(&tools, name).await?;
    cgroup::remove(name).await?;
    root::remove_half_built(dirs)?;
    // Last, so that as long as anything is left, `lab status` shows the lab.
    let dir = dirs.lab(name);
    disk::remove_dirs(dir.hosts()).await?;
    disk::remove_dir(dir.path())?;
    limits::restore(dirs)
}

fn check(options: &Options) -> Result<(), LabError> {
    layout::check_name(&options.name)?;
    if !(1..=layout::HOSTS_MAX).contains(&options.hosts) {
        return Err(LabError::Hosts { hosts: options.hosts, max: layout::HOSTS_MAX });
    }
    check_root()?;
    let missing = packages::missing_packages(options.kind);
    if missing.is_empty() { Ok(()) } else { Err(LabError::MissingPackages(missing)) }
}

fn check_root() -> Result<(), LabError> {
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(LabError::NotRoot) }
}

/// Holds the lab's folder. The kernel lets go of it when this process ends, however it does.
fn lock(dir: &LabDir, name: &str) -> Result<Flock<fs::File>, LabError> {
    let open = || fs::File::open(dir.path()).map_err(LabError::io(format!("open {}", dir.path().display())));
    let locked = Flock::lock(open()?, FlockArg::LockExclusiveNonblock).map_err(|_| LabError::Busy(name.to_owned()))?;
    // A `down` that was at work a moment ago removed the folder that we hold.
    let same = |a: &fs::File, path: &Path| {
        let inode = a.metadata().ok().map(|m| m.ino());
        inode.is_some() && inode == fs::metadata(path).ok().map(|m| m.ino())
    };
    if same(&locked, dir.path()) { Ok(locked) } else { Err(LabError::Busy(name.to_owned())) }
}

async fn resume(record: Record, dirs: Dirs, options: &Options, events: &Events) -> Result<Lab, LabError> {
    if record.options != *options {
        return Err(LabError::Exists { name: options.name.clone(), what: "other hosts or options".to_owned() });
    }
    let lab = Lab::of(record, dirs);
    let specs = lab.specs();
    limits::raise(&lab.dirs)?;
    if !lan::is_there(&lab.dir, lab.name()) {
        processes::kill_all(lab.name(), || processes::of_lab(lab.name())).await?;
        lan::remove(&lab.tools, lab.name()).await?;
        lan::create(&lab.tools, &lab.dir, &lab.layout, lab.name(), options.kind, &specs).await?;
    }
    boot_all(&lab, &specs, events).await?;
    Ok(lab)
}

async fn fresh(options: &Options, dirs: Dirs, events: &Events) -> Result<Lab, LabError> {
    let tools = Tools::new(&options.name);
    let subnet = layout::choose_subnet(&options.name, &lan::taken(&tools).await?).ok_or(LabError::NoSubnet)?;
    let mut lab = Lab::of(Record { options: options.clone(), subnet, accelerator: None, ready: false }, dirs);
    lab.record.write(&lab.dir)?;
    limits::raise(&lab.dirs)?;

    let specs = lab.specs();
    let mut lower = PathBuf::new();
    // One after the other: each is one download and one dpkg, which two at once only slow down.
    for os in specs.iter().map(|s| s.os).collect::<BTreeSet<_>>() {
        lower = Root::of(options, os).ensure(&tools, &lab.dirs, events).await?;
    }
    if options.kind == Kind::Vm {
        let accelerator = vm::Accelerator::detect(&tools, &lower).await?;
        if accelerator == vm::Accelerator::Tcg {
            let message = "KVM does not work on this machine: its virtual machines are emulated, some ten times slower";
            events.send(Event::Warning { host: None, message: message.to_owned() });
        }
        lab.record.accelerator = Some(accelerator);
        lab.record.write(&lab.dir)?;
    }
    events.send(stage("lab-hosts", format!("Making {} hosts", specs.len())));
    lan::create(&tools, &lab.dir, &lab.layout, lab.name(), options.kind, &specs).await?;
    let shared = seed::Shared::make(&tools, &lab.dir, lab.name()).await?;
    let keys = try_join_all(specs.iter().map(|spec| prepare(&lab, spec, &shared))).await?;
    let known = seed::known_hosts(specs.iter().zip(keys.iter().map(String::as_str)));
    disk::write(&lab.dir.known_hosts(), &known)?;
    fleet_file::write(&lab.dir, options, &specs)?;
    boot_all(&lab, &specs, events).await?;

    lab.record.ready = true;
    lab.record.write(&lab.dir)?;
    Ok(lab)
}

async fn prepare(lab: &Lab, spec: &Spec, shared: &seed::Shared) -> Result<String, LabError> {
    let dir = lab.host_dir(&spec.name);
    let lower = Root::of(&lab.record.options, spec.os).path(&lab.dirs);
    let key = seed::write(&lab.tools, &dir, &lower, spec, shared).await?;
    match lab.record.options.kind {
        Kind::Container => container::prepare(&lab.tools, &dir, &lower).await?,
        Kind::Vm => vm::prepare(&lab.tools, &dir, &lower).await?,
    }
    Ok(key)
}

/// Boots all hosts at once. One that fails hides no other: all are waited for.
async fn boot_all(lab: &Lab, specs: &[Spec], events: &Events) -> Result<(), LabError> {
    events.send(stage("lab-boot", format!("Booting {} hosts", specs.len())));
    let ended = join_all(specs.iter().map(|spec| async {
        events.send(Event::HostJoined { host: spec.name.clone() });
        lab.boot(spec)?;
        let result = lab.wait_up(spec, None).await;
        events.send(Event::HostFinished {
            host: spec.name.clone(),
            ok: result.is_ok(),
            summary: match &result {
                Ok(()) => format!("{} at {}", spec.os.title(), spec.address),
                Err(err) => err.to_string(),
            },
        });
        result
    }))
    .await;
    ended.into_iter().collect()
}

fn stage(name: &str, title: String) -> Event {
    Event::Stage { name: name.to_owned(), title, done: None, total: None }
}
