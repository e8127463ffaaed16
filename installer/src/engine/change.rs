//! The steps that change something, compiled into one script that streams records and stops at the first failure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use hostspan_manifests::names;
use hostspan_playbooks::model::{Action, ArtifactAction, CommandAction, FstabAction, UnitAction};

use super::observed::Observed;
use super::quote::{heredoc, key, word, words};

use super::{PhasePlan, PhaseSteps, ReadyStep, Verdict, fstab, probe, wanted};
use crate::artifacts::Format;

const LIB: &str = include_str!("lib.sh");

/// What a script needs to know of the run that it is part of.
pub(super) struct Run<'a> {
    /// Begins every record; random, so that nothing that a step prints is taken for one.
    pub mark: &'a str,
    /// Names this run in the host's lock.
    pub token: &'a str,
    /// For people: user, machine and process.
    pub owner: &'a str,
    /// The token of an earlier run that is known to be dead.
    pub dead: &'a str,
}

/// Names and functions; the same for changing and for taking back.
pub(super) fn prologue(run: &Run<'_>) -> String {
    let mut out = String::new();
    for (name, value) in [
        ("MARK", run.mark),
        ("TOKEN", run.token),
        ("OWNER", run.owner),
        ("DEAD", run.dead),
        ("ETC", names::ETC_DIR),
        ("STATE", names::STATE_DIR),
        ("JOURNAL", names::JOURNAL_DIR),
        ("PENDING", names::PENDING_DIR),
        ("CACHE", names::CACHE_DIR),
        ("RECEIPTS", names::RECEIPTS_DIR),
        ("IMAGES", &wanted::image_receipts_dir()),
        ("BLOBS", &wanted::image_blobs_dir()),
        ("CTR", &format!("{}/ctr", names::CONTAINERD_BIN_DIR)),
        ("SOCKET", names::CONTAINERD_SOCKET),
        ("RUN", names::RUN_DIR),
        ("UNITS", names::UNIT_PREFIX),
    ] {
        _ = writeln!(out, "{name}={}", word(value));
    }
    out.push_str(LIB);
    out
}

/// The steps of `phase` that `plan` changes.
pub(super) fn changing<'a>(phase: &'a PhaseSteps, plan: &PhasePlan) -> Vec<&'a ReadyStep> {
    let ids: BTreeSet<&str> = plan
        .steps
        .iter()
        .filter(|step| matches!(step.verdict, Verdict::Change { .. }))
        .map(|step| step.id.as_str())
        .collect();
    phase.steps.iter().filter(|step| ids.contains(step.id.as_str())).collect()
}

/// Compiles `steps` into a change script. After the last step it probes them again: what the script prints after the
/// record `probe` is for [`Observed::parse`].
pub(super) fn compile(run: &Run<'_>, phase: &PhaseSteps, steps: &[&ReadyStep], seen: &Observed) -> String {
    let again = run_again(phase, steps, seen);
    let mut out = prologue(run);
    out.push_str("take_lock\n");
    for (position, step) in steps.iter().enumerate() {
        let id = word(&step.id);
        _ = writeln!(out, "begin {id}\n(\nset -e");
        let dependents: Vec<String> = phase
            .steps
            .iter()
            .filter(|other| wanted::runs_again(&other.step.action) && other.step.after_change_of.contains(&step.id))
            .map(|other| key(&other.id))
            .collect();
        if !dependents.is_empty() {
            _ = writeln!(out, "mark {}", dependents.join(" "));
        }
        let last_use = step.artifact.as_ref().filter(|artifact| {
            let later = steps[position + 1..].iter().filter_map(|later| later.artifact.as_ref());
            !later.map(|later| &later.sha256).any(|sha256| *sha256 == artifact.sha256)
        });
        body(&mut out, step, seen, again.contains(step.id.as_str()), last_use.is_some());
        if let Some(artifact) = last_use {
            _ = writeln!(out, "rm -f {}/{}", names::CACHE_DIR, artifact.sha256);
        }
        if !step.step.after_change_of.is_empty() {
            _ = writeln!(out, "rm -f {}/{}", names::PENDING_DIR, key(&step.id));
        }
        _ = writeln!(out, ") </dev/null 2>&1 9>&-\nended {id} $?");
    }
    let changed = PhaseSteps { phase: phase.phase.clone(), steps: steps.iter().map(|step| (*step).clone()).collect() };
    _ = write!(out, "rec probe\n(\n{}) 9>&-\nfinish 0\n", probe::compile(&[changed]));
    out
}

/// The steps that must run since something that they depend on changes now, or did in a run that was cut short.
fn run_again<'a>(phase: &'a PhaseSteps, steps: &[&'a ReadyStep], seen: &Observed) -> BTreeSet<&'a str> {
    let changing: BTreeSet<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    phase
        .steps
        .iter()
        .filter(|step| {
            seen.pending.contains(&key(&step.id))
                || step.step.after_change_of.iter().any(|id| changing.contains(id.as_str()))
        })
        .map(|step| step.id.as_str())
        .collect()
}

fn body(out: &mut String, step: &ReadyStep, seen: &Observed, again: bool, last_use: bool) {
    match &step.step.action {
        Action::File(file) if file.absent => _ = writeln!(out, "remove_file {}", word(&file.path)),
        Action::File(_) => {}
        Action::Directory(directory) => {
            let path = word(directory.path.trim_end_matches('/'));
            _ = writeln!(out, "put_directory {path} {} {}", word(&directory.mode), word(&directory.owner));
        }
        Action::Package(package) => {
            let missing = package.names.iter().filter(|name| !seen.packages.contains(*name));
            _ = writeln!(out, "install_packages {}", words(missing.map(String::as_str)));
        }
        Action::Artifact(artifact) => install(out, step, artifact, last_use),
        Action::Unit(unit) => systemd(out, unit, again),
        Action::Sysctl(sysctl) => {
            for (name, value) in &sysctl.values {
                let path = wanted::sysctl_path(name);
                _ = writeln!(out, "set_sysctl {} {} {}", word(name), word(&path), word(value));
            }
        }
        Action::Module(module) => {
            for name in module.names.iter().filter(|name| !seen.modules.contains(&wanted::module_name(name))) {
                _ = writeln!(out, "load_module {}", word(name));
            }
        }
        Action::Fstab(action) => edit_fstab(out, action, seen),
        Action::Command(command) => run_command(out, step, command, again),
    }
    if let Some(file) = wanted::file(&step.step.action) {
        let call = format!("put_file {} {} {}", word(file.path), word(file.mode), word(file.owner));
        out.push_str(&heredoc(&call, file.content.as_bytes()));
    }
}

fn install(out: &mut String, step: &ReadyStep, action: &ArtifactAction, last_use: bool) {
    let Some(artifact) = &step.artifact else {
        _ = writeln!(out, "fail {}", word(&format!("hostspan has no artifact {}", action.name)));
        return;
    };
    let (sha256, key) = (&artifact.sha256, key(&step.id));
    if action.import_image {
        let reference = action.name.strip_prefix("image:").unwrap_or_default();
        _ = writeln!(out, "import_image {key} {sha256} {}", word(reference));
        return;
    }
    let members = action.install.iter().filter_map(|file| file.from.as_deref()).map(plain_member);
    match artifact.format {
        Format::Plain => {}
        Format::Tar => _ = writeln!(out, "unpack {sha256} '' {}", words(members)),
        Format::TarGz => _ = writeln!(out, "unpack {sha256} z {}", words(members)),
    }
    for file in &action.install {
        let source = match &file.from {
            Some(from) => format!("\"$UNPACKED\"/{}", word(plain_member(from))),
            None => format!("{}/{sha256}", names::CACHE_DIR),
        };
        let once = action.install.iter().filter(|other| other.from == file.from).count() == 1;
        let take = if once && (file.from.is_some() || last_use) { "mv" } else { "cp" };
        _ = writeln!(out, "install_file {take} {source} {} {}", word(&file.to), word(&file.mode));
    }
    let paths = words(action.install.iter().map(|file| file.to.as_str()));
    _ = writeln!(out, "receipt {key} {sha256} {paths}");
}

fn plain_member(from: &str) -> &str {
    from.strip_prefix("./").unwrap_or(from)
}

fn systemd(out: &mut String, unit: &UnitAction, again: bool) {
    let flag = |wanted: Option<bool>| match wanted {
        Some(true) => '1',
        Some(false) => '0',
        None => '-',
    };
    let (enabled, active) = (flag(unit.enabled), flag(unit.active));
    _ = writeln!(out, "unit {} {enabled} {active} {} {}", word(&unit.name), u8::from(unit.masked), u8::from(again));
}

fn edit_fstab(out: &mut String, action: &FstabAction, seen: &Observed) {
    let Some(text) = &seen.fstab else { return };
    for entry in fstab::entries(text, &action.disable_type) {
        if seen.swaps.contains(&entry.spec) {
            _ = writeln!(out, "swap_off {}", word(&entry.spec));
        }
    }
    let new = fstab::disable(text, &action.disable_type);
    if new != *text {
        let digests = [text, &new].map(|text| wanted::sha256(text.as_bytes())).join(" ");
        let call = format!("edit_file {} {digests}", wanted::FSTAB);
        out.push_str(&heredoc(&call, new.as_bytes()));
    }
}

fn run_command(out: &mut String, step: &ReadyStep, command: &CommandAction, again: bool) {
    out.push_str(&heredoc("stash script", command.run.as_bytes()));
    out.push_str(&heredoc("stash check", command.check.as_bytes()));
    out.push_str(&heredoc("stash input", command.input.as_deref().unwrap_or_default().as_bytes()));
    if let Some(undo) = &command.undo {
        out.push_str(&heredoc("stash undo", undo.as_bytes()));
    }
    let (id, timeout, again) = (word(&step.id), command.timeout, u8::from(again));
    if command.long {
        _ = writeln!(out, "run_long {id} {} {timeout} {again}", key(&step.id));
    } else {
        _ = writeln!(out, "run_command {id} {timeout} {again}");
    }
}

/// The longest that a script of these steps may take: commands say so themselves, the rest is given ample room.
pub(super) fn timeout(steps: &[&ReadyStep]) -> Duration {
    let seconds: u64 = steps
        .iter()
        .map(|step| match &step.step.action {
            Action::Command(command) => u64::from(command.timeout) + 30,
            Action::Package(_) => 3600,
            Action::Artifact(_) | Action::Unit(_) => 900,
            _ => 120,
        })
        .sum();
    // An hour for an earlier script to end its step.
    Duration::from_secs(seconds + 3600)
}
