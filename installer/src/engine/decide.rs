//! The verdict on every step, from what was seen. Pure: nothing is asked and nothing is done here.

use std::collections::BTreeSet;

use hostspan_playbooks::model::{
    Action, ArtifactAction, DirectoryAction, FileAction, FstabAction, ModuleAction, PackageAction, SysctlAction,
    UnitAction,
};
use similar::TextDiff;

use super::observed::{Node, Observed};
use super::quote::key;
use super::wanted::{self, WantedFile};
use super::{PhasePlan, PhaseSteps, ReadyStep, StepPlan, Verdict, fstab};

/// Decides what a run of `phase` would do on the host that `seen` was seen on.
pub fn decide(phase: &PhaseSteps, seen: &Observed) -> PhasePlan {
    let mut changing: BTreeSet<&str> = BTreeSet::new();
    let mut steps = Vec::with_capacity(phase.steps.len());
    for step in &phase.steps {
        let again = seen.pending.contains(&key(&step.id))
            || step.step.after_change_of.iter().any(|id| changing.contains(id.as_str()));
        let mut changes = Changes::default();
        decide_step(step, seen, again, &mut changes);
        let verdict = if changes.summary.is_empty() {
            Verdict::Ok
        } else {
            changing.insert(&step.id);
            Verdict::Change { summary: changes.summary, diff: changes.diff }
        };
        steps.push(StepPlan { id: step.id.clone(), title: step.step.title.clone(), verdict });
    }
    PhasePlan { phase: phase.phase.clone(), steps }
}

#[derive(Default)]
struct Changes {
    summary: Vec<String>,
    diff: Option<String>,
}

impl Changes {
    fn add(&mut self, line: String) {
        self.summary.push(line);
    }
}

fn decide_step(step: &ReadyStep, seen: &Observed, again: bool, changes: &mut Changes) {
    match &step.step.action {
        Action::File(file) if file.absent => absent(file, seen, changes),
        Action::File(_) => {}
        Action::Directory(wanted) => directory(wanted, seen, changes),
        Action::Package(wanted) => packages(wanted, seen, changes),
        Action::Artifact(wanted) => artifact(step, wanted, seen, changes),
        Action::Unit(wanted) => unit(wanted, seen, again, changes),
        Action::Sysctl(wanted) => sysctls(wanted, seen, changes),
        Action::Module(wanted) => modules(wanted, seen, changes),
        Action::Fstab(wanted) => fstab_entries(wanted, seen, changes),
        Action::Command(_) => {
            if again || seen.checks.get(&step.id) != Some(&0) {
                changes.add(format!("~ run: {}", step.step.title));
            }
        }
    }
    if let Some(wanted) = wanted::file(&step.step.action) {
        file(&wanted, seen, changes);
    }
}

fn absent(file: &FileAction, seen: &Observed, changes: &mut Changes) {
    if seen.nodes.contains_key(&file.path) {
        changes.add(format!("- remove {}", file.path));
    }
}

fn file(wanted: &WantedFile<'_>, seen: &Observed, changes: &mut Changes) {
    let path = wanted.path;
    let Some(node) = seen.nodes.get(path) else {
        return changes.add(format!("+ create {path} ({} {})", wanted.mode, wanted.owner));
    };
    if node.kind != "regular file" {
        return changes.add(format!("~ {path}: a {} -> a file", node.kind));
    }
    if seen.digests.get(path) != Some(&wanted.sha256()) {
        changes.add(format!("~ {path}: {}", if wanted.secret { "content (secret)" } else { "content" }));
        if !wanted.secret {
            changes.diff = seen.contents.get(path).and_then(|old| diff(path, old, &wanted.content));
        }
    }
    owner_and_mode(path, node, wanted.owner, wanted.mode, changes);
}

fn owner_and_mode(path: &str, node: &Node, owner: &str, mode: &str, changes: &mut Changes) {
    if u32::from_str_radix(mode, 8) != Ok(node.mode) {
        changes.add(format!("~ {path}: mode {:04o} -> {mode}", node.mode));
    }
    if owner != node.owner && owner != node.ids {
        changes.add(format!("~ {path}: owner {} -> {owner}", node.owner));
    }
}

/// A unified diff; none where the old content is not text.
fn diff(path: &str, old: &[u8], new: &str) -> Option<String> {
    let old = std::str::from_utf8(old).ok().filter(|old| !old.contains('\0'))?;
    Some(TextDiff::from_lines(old, new).unified_diff().context_radius(3).header(path, path).to_string())
}

fn directory(wanted: &DirectoryAction, seen: &Observed, changes: &mut Changes) {
    match seen.nodes.get(&wanted::inside(&wanted.path)) {
        None => changes.add(format!("+ create directory {} ({} {})", wanted.path, wanted.mode, wanted.owner)),
        Some(node) => owner_and_mode(&wanted.path, node, &wanted.owner, &wanted.mode, changes),
    }
}

fn packages(wanted: &PackageAction, seen: &Observed, changes: &mut Changes) {
    for name in wanted.names.iter().filter(|name| !seen.packages.contains(*name)) {
        changes.add(format!("+ install {name}"));
    }
}

fn artifact(step: &ReadyStep, wanted: &ArtifactAction, seen: &Observed, changes: &mut Changes) {
    let sha256 = step.artifact.as_ref().map_or("", |artifact| artifact.sha256.as_str());
    let key = key(&step.id);
    if wanted.import_image {
        if seen.images.get(&key).map(String::as_str) != Some(sha256) {
            changes.add(format!("+ import {}", wanted.name));
        }
        return;
    }
    let receipt = seen.receipt(&key);
    for file in &wanted.install {
        let to = &file.to;
        let Some(node) = seen.nodes.get(to) else {
            changes.add(format!("+ install {}: {to} ({})", wanted.name, file.mode));
            continue;
        };
        let stamp = format!("{} {} {:o} {to}", node.size, node.mtime, node.mode);
        match receipt {
            None => changes.add(format!("~ {to}: not ours -> {}", wanted.name)),
            Some((ours, _)) if ours != sha256 => changes.add(format!("~ {to}: another {}", wanted.name)),
            Some((_, files)) if !files.contains(&stamp) => {
                changes.add(format!("~ {to}: changed since it was installed -> {}", wanted.name));
            }
            Some(_) if u32::from_str_radix(&file.mode, 8) != Ok(node.mode) => {
                changes.add(format!("~ {to}: mode {:04o} -> {}", node.mode, file.mode));
            }
            Some(_) => {}
        }
    }
}

fn unit(wanted: &UnitAction, seen: &Observed, again: bool, changes: &mut Changes) {
    let name = &wanted.name;
    let unit = seen.units.get(name).cloned().unwrap_or_default();
    let masked = unit.load == "masked" || unit.file.starts_with("masked");
    // A unit that restarts itself over and over is "activating" in between; it was started, which is all that we ask for.
    let running = matches!(unit.active.as_str(), "active" | "activating" | "reloading" | "refreshing");
    if wanted.active == Some(false) && !matches!(unit.active.as_str(), "" | "inactive" | "failed") {
        changes.add(format!("- stop {name}"));
    }
    if wanted.masked {
        if !masked {
            changes.add(format!("- mask {name}"));
        }
        return;
    }
    if masked && (wanted.enabled == Some(true) || wanted.active == Some(true)) {
        changes.add(format!("+ unmask {name}"));
    }
    // Units without an [Install] section cannot be enabled, and need not be.
    let at_boot = unit.file == "enabled" || unit.file == "enabled-runtime" || unit.file == "linked";
    let cannot = matches!(unit.file.as_str(), "static" | "indirect" | "generated" | "alias" | "transient");
    match wanted.enabled {
        Some(true) if unit.file != "enabled" && !cannot => changes.add(format!("+ enable {name}")),
        Some(false) if at_boot => changes.add(format!("- disable {name}")),
        _ => {}
    }
    if wanted.active == Some(true) && !running {
        changes.add(format!("+ start {name}"));
    } else if again && wanted.active != Some(false) {
        changes.add(format!("~ restart {name}"));
    } else if unit.needs_reload {
        changes.add(format!("~ read the definition of {name} again"));
    }
}

fn sysctls(wanted: &SysctlAction, seen: &Observed, changes: &mut Changes) {
    for (name, value) in &wanted.values {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        match seen.sysctl(name) {
            Some(live) if live == value => {}
            Some(live) => changes.add(format!("~ {name}: {live} -> {value}")),
            None => changes.add(format!("+ {name}: {value}")),
        }
    }
}

fn modules(wanted: &ModuleAction, seen: &Observed, changes: &mut Changes) {
    for name in wanted.names.iter().filter(|name| !seen.modules.contains(&wanted::module_name(name))) {
        changes.add(format!("+ load module {name}"));
    }
}

fn fstab_entries(wanted: &FstabAction, seen: &Observed, changes: &mut Changes) {
    let Some(text) = &seen.fstab else { return };
    for entry in fstab::entries(text, &wanted.disable_type) {
        if !entry.off {
            changes.add(format!("- {}: {}", wanted::FSTAB, entry.line.trim_end()));
        }
        if seen.swaps.contains(&entry.spec) {
            changes.add(format!("- swapoff {}", entry.spec));
        }
    }
    let new = fstab::disable(text, &wanted.disable_type);
    if new != *text {
        changes.diff = diff(wanted::FSTAB, text.as_bytes(), &new);
    }
}

#[cfg(test)]
mod tests {
    use super::super::observed::Unit;
    use super::*;

    fn lines(wanted: &UnitAction, load: &str, file: &str, active: &str, again: bool) -> Vec<String> {
        let mut seen = Observed::default();
        let state = Unit { load: load.into(), file: file.into(), active: active.into(), needs_reload: false };
        seen.units.insert(wanted.name.clone(), state);
        let mut changes = Changes::default();
        unit(wanted, &seen, again, &mut changes);
        changes.summary
    }

    fn wanted(enabled: Option<bool>, active: Option<bool>, masked: bool) -> UnitAction {
        UnitAction { name: "x.service".into(), enabled, active, masked }
    }

    #[test]
    fn a_unit_differs_only_where_something_was_asked_for() {
        let nothing: [String; 0] = [];
        let on = wanted(Some(true), Some(true), false);
        assert_eq!(lines(&on, "loaded", "enabled", "active", false), nothing);
        assert_eq!(lines(&on, "loaded", "static", "activating", false), nothing, "cannot be enabled; restarts itself");
        assert_eq!(lines(&on, "loaded", "disabled", "failed", false), ["+ enable x.service", "+ start x.service"]);
        assert_eq!(
            lines(&on, "masked", "masked", "inactive", false),
            ["+ unmask x.service", "+ enable x.service", "+ start x.service"]
        );
        let off = wanted(Some(false), Some(false), false);
        assert_eq!(lines(&off, "not-found", "", "inactive", false), nothing);
        assert_eq!(lines(&off, "loaded", "enabled", "active", false), ["- stop x.service", "- disable x.service"]);
        assert_eq!(lines(&off, "loaded", "disabled", "failed", true), nothing, "what is to be off is not restarted");
        let boot_only = wanted(Some(true), None, false);
        assert_eq!(lines(&boot_only, "loaded", "enabled", "inactive", false), nothing);
        let masked = wanted(None, None, true);
        assert_eq!(lines(&masked, "not-found", "", "inactive", false), ["- mask x.service"]);
        assert_eq!(lines(&masked, "masked", "masked", "active", false), nothing);
    }

    #[test]
    fn a_changed_dependency_restarts_what_runs_and_starts_what_does_not() {
        let on = wanted(None, Some(true), false);
        assert_eq!(lines(&on, "loaded", "enabled", "active", true), ["~ restart x.service"]);
        assert_eq!(lines(&on, "loaded", "enabled", "inactive", true), ["+ start x.service"]);
    }
}
