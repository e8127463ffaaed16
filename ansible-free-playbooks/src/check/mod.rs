//! The rules that the types cannot say. Pure; a finding names its value by path, the parser adds line and column.

use hostspan_manifests::names::API_VERSION;

use crate::model::{
    Action, ArtifactAction, At, CommandAction, FileAction, ModuleAction, PackageAction, Playbook, ROLES, Step,
    SysctlAction, UnitAction,
};
use crate::render::{has_expression, template_fault};
use crate::yaml::{Finding, nearest};

/// What `kind` says in a playbook.
pub const KIND: &str = "Playbook";

/// systemd's unit types.
const UNIT_TYPES: [&str; 11] =
    ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];

/// Everything that is wrong with a playbook. A string that still holds an expression is only checked for the expression's
/// syntax; [`crate::render`] checks the result again.
pub fn check(playbook: &Playbook) -> Vec<Finding> {
    Checker::run(playbook, false)
}

/// The same for a playbook in which `{{` is no longer the beginning of an expression.
pub(crate) fn check_rendered(playbook: &Playbook) -> Vec<Finding> {
    Checker::run(playbook, true)
}

/// Lower-case letters, digits and dashes, as in an RFC 1123 label.
pub fn is_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

struct Checker {
    findings: Vec<Finding>,
    rendered: bool,
}

impl Checker {
    fn run(playbook: &Playbook, rendered: bool) -> Vec<Finding> {
        let mut checker = Self { findings: Vec::new(), rendered };
        checker.playbook(playbook);
        checker.findings
    }

    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding::new(path, message));
    }

    fn playbook(&mut self, playbook: &Playbook) {
        if playbook.api_version != API_VERSION {
            let found = Finding::new("apiVersion", format!("`{}` is not known", playbook.api_version));
            self.findings.push(found.help(format!("write `{API_VERSION}`")));
        }
        if playbook.kind != KIND {
            self.findings.push(
                Finding::new("kind", format!("`{}` is not a playbook", playbook.kind)).help(format!("write `{KIND}`")),
            );
        }
        self.label("metadata.name", &playbook.metadata.name);
        if let Some(at) = &playbook.spec.at {
            let (key, phase) = match at {
                At::Before(phase) => ("before", phase),
                At::After(phase) => ("after", phase),
            };
            self.label(&format!("spec.at.{key}"), phase);
        }
        for (index, role) in playbook.spec.roles.iter().enumerate() {
            let path = format!("spec.roles[{index}]");
            if !ROLES.contains(&role.as_str()) {
                let help = match nearest(role, ROLES) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known: {}", ROLES.join(", ")),
                };
                self.findings.push(Finding::new(path, format!("`{role}` is not a role")).help(help));
            } else if playbook.spec.roles[..index].contains(role) {
                self.add(path, format!("`{role}` is there twice"));
            }
        }
        if playbook.spec.steps.is_empty() && !self.rendered {
            self.add("spec.steps", "a playbook needs at least one step");
        }
        for (index, step) in playbook.spec.steps.iter().enumerate() {
            self.step(&format!("spec.steps[{index}]"), step, &playbook.spec.steps[..index]);
        }
    }

    fn step(&mut self, path: &str, step: &Step, earlier: &[Step]) {
        let id = format!("{path}.id");
        self.label(&id, &step.id);
        if earlier.iter().any(|other| other.id == step.id) {
            self.add(id, format!("the id `{}` is there twice", step.id));
        }
        let title = format!("{path}.title");
        if self.text(&title, &step.title) && step.title.contains('\n') {
            self.add(title, "a title is one line");
        }
        if let Some(when) = &step.when {
            self.text(&format!("{path}.when"), when);
        }
        for (index, other) in step.after_change_of.iter().enumerate() {
            let path = format!("{path}.afterChangeOf[{index}]");
            if step.after_change_of[..index].contains(other) {
                self.add(path, format!("`{other}` is there twice"));
            } else if !earlier.iter().any(|earlier| earlier.id == *other) {
                let finding = Finding::new(path, format!("`{other}` is no earlier step of this playbook"));
                self.findings.push(match nearest(other, earlier.iter().map(|step| step.id.as_str())) {
                    Some(near) => finding.help(format!("did you mean `{near}`?")),
                    None => finding,
                });
            }
        }
        if !step.after_change_of.is_empty() && !matches!(step.action, Action::Unit(_) | Action::Command(_)) {
            self.add(format!("{path}.afterChangeOf"), "only a unit or a command can run again after a change");
        }
        self.action(path, &step.action);
    }

    fn action(&mut self, step: &str, action: &Action) {
        match action {
            Action::File(file) => self.file(&format!("{step}.file"), file),
            Action::Directory(directory) => {
                let at = format!("{step}.directory");
                self.path(&format!("{at}.path"), &directory.path);
                self.mode(&format!("{at}.mode"), &directory.mode);
                self.owner(&format!("{at}.owner"), &directory.owner);
            }
            Action::Package(package) => self.package(&format!("{step}.package"), package),
            Action::Artifact(artifact) => self.artifact(&format!("{step}.artifact"), artifact),
            Action::Unit(unit) => self.unit(&format!("{step}.unit"), unit),
            Action::Sysctl(sysctl) => self.sysctl(&format!("{step}.sysctl"), sysctl),
            Action::Module(module) => self.module(&format!("{step}.module"), module),
            Action::Fstab(fstab) => {
                let at = format!("{step}.fstab.disableType");
                if self.text(&at, &fstab.disable_type) && fstab.disable_type.contains(char::is_whitespace) {
                    self.add(at, "a file system type has no spaces");
                }
            }
            Action::Command(command) => self.command(&format!("{step}.command"), command),
        }
    }

    fn file(&mut self, at: &str, file: &FileAction) {
        self.path(&format!("{at}.path"), &file.path);
        self.mode(&format!("{at}.mode"), &file.mode);
        self.owner(&format!("{at}.owner"), &file.owner);
        let kinds = [file.content.is_some(), file.template.is_some(), file.absent];
        if kinds.into_iter().filter(|given| *given).count() != 1 {
            self.add(at, "exactly one of `content`, `template` and `absent: true` is wanted");
        }
        if let Some(content) = &file.content {
            self.expression(&format!("{at}.content"), content);
        }
        if let Some(template) = &file.template {
            let at = format!("{at}.template");
            if has_expression(template) {
                self.add(at, "the name of a template cannot hold an expression");
            } else if template.is_empty()
                || template.starts_with('/')
                || template.split('/').any(|part| part.is_empty() || part == "." || part == "..")
            {
                self.add(at, format!("`{template}` is not a file below `files/`"));
            }
        }
    }

    fn package(&mut self, at: &str, package: &PackageAction) {
        self.names(&format!("{at}.names"), &package.names, "a Debian package", |name| {
            name.len() > 1
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b))
                && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        });
    }

    fn artifact(&mut self, at: &str, artifact: &ArtifactAction) {
        self.text(&format!("{at}.name"), &artifact.name);
        if artifact.import_image != artifact.install.is_empty() {
            self.add(at, "exactly one of `install` and `importImage: true` is wanted");
        }
        for (index, file) in artifact.install.iter().enumerate() {
            let at = format!("{at}.install[{index}]");
            self.path(&format!("{at}.to"), &file.to);
            self.mode(&format!("{at}.mode"), &file.mode);
            if artifact.install[..index].iter().any(|other| other.to == file.to) {
                self.add(format!("{at}.to"), format!("`{}` is there twice", file.to));
            }
            match &file.from {
                Some(from) => {
                    self.text(&format!("{at}.from"), from);
                }
                None if artifact.install.len() > 1 => {
                    self.add(&at, "of several files each needs `from`, its path in the archive");
                }
                None => {}
            }
        }
    }

    fn unit(&mut self, at: &str, unit: &UnitAction) {
        let name = format!("{at}.name");
        let known = unit.name.rsplit_once('.').is_some_and(|(_, suffix)| UNIT_TYPES.contains(&suffix));
        if self.text(&name, &unit.name) && (!known || unit.name.contains(char::is_whitespace)) {
            let finding = Finding::new(name, format!("`{}` is not the full name of a unit", unit.name));
            self.findings.push(finding.help("with its suffix: `containerd.service`"));
        }
        if unit.enabled.is_none() && unit.active.is_none() && !unit.masked {
            self.add(at, "at least one of `enabled`, `active` and `masked` is wanted");
        }
        if unit.masked && (unit.enabled == Some(true) || unit.active == Some(true)) {
            self.add(at, "a masked unit can be neither enabled nor active");
        }
    }

    fn sysctl(&mut self, at: &str, sysctl: &SysctlAction) {
        self.below(&format!("{at}.file"), &sysctl.file, "/etc/sysctl.d/");
        let at = format!("{at}.values");
        if sysctl.values.is_empty() {
            self.add(&at, "no setting is given");
        }
        for (key, value) in &sysctl.values {
            let path = format!("{at}.{key}");
            let plain = |key: &str| key.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
            if self.text(&path, key) && !plain(key) {
                self.add(&path, format!("`{key}` is not the name of a kernel setting"));
            }
            if self.text(&path, value) && value.contains('\n') {
                self.add(&path, "a setting's value is one line");
            }
        }
    }

    fn module(&mut self, at: &str, module: &ModuleAction) {
        self.below(&format!("{at}.file"), &module.file, "/etc/modules-load.d/");
        self.names(&format!("{at}.names"), &module.names, "a kernel module", |name| {
            name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        });
    }

    fn command(&mut self, at: &str, command: &CommandAction) {
        self.text(&format!("{at}.check"), &command.check);
        self.text(&format!("{at}.run"), &command.run);
        if let Some(undo) = &command.undo {
            self.text(&format!("{at}.undo"), undo);
        }
        if let Some(input) = &command.input {
            self.expression(&format!("{at}.input"), input);
        }
        if command.timeout == 0 {
            self.add(format!("{at}.timeout"), "a command needs at least a second");
        }
    }

    fn names(&mut self, at: &str, names: &[String], what: &str, valid: impl Fn(&str) -> bool) {
        if names.is_empty() {
            self.add(at, "no name is given");
        }
        for (index, name) in names.iter().enumerate() {
            let at = format!("{at}[{index}]");
            if !self.text(&at, name) {
                continue;
            }
            if !valid(name) {
                self.add(at, format!("`{name}` is not the name of {what}"));
            } else if names[..index].contains(name) {
                self.add(at, format!("`{name}` is there twice"));
            }
        }
    }

    fn label(&mut self, at: &str, name: &str) {
        if !is_label(name) {
            let finding = Finding::new(at, format!("`{name}` is not a name"));
            self.findings.push(finding.help("lower-case letters, digits and dashes, at most 63"));
        }
    }

    /// Whether `text` is there and can be judged, that is, holds no expression.
    fn text(&mut self, at: &str, text: &str) -> bool {
        if text.trim().is_empty() {
            self.add(at, "must not be empty");
            return false;
        }
        self.expression(at, text)
    }

    /// Whether `text` holds no expression; one that it holds must at least be well-formed.
    fn expression(&mut self, at: &str, text: &str) -> bool {
        if text.contains('\0') {
            self.add(at, "a NUL character cannot be sent to a host");
            return false;
        }
        if self.rendered || !has_expression(text) {
            return true;
        }
        if let Some(fault) = template_fault(text) {
            self.add(at, fault);
        }
        false
    }

    fn path(&mut self, at: &str, path: &str) {
        if self.text(at, path) && !is_clean_path(path) {
            self.add(at, format!("`{path}` is not an absolute path without `.`, `..` and double slashes"));
        }
    }

    fn below(&mut self, at: &str, path: &str, folder: &str) {
        if !self.text(at, path) {
            return;
        }
        let name = path.strip_prefix(folder).and_then(|name| name.strip_suffix(".conf"));
        let direct = name.is_some_and(|name| !name.is_empty() && !name.contains('/'));
        if !direct {
            self.add(at, format!("`{path}` is not a .conf file in {folder}"));
        }
    }

    fn mode(&mut self, at: &str, mode: &str) {
        if self.text(at, mode) && !(mode.len() == 4 && mode.bytes().all(|b| (b'0'..=b'7').contains(&b))) {
            let finding = Finding::new(at, format!("`{mode}` is not a mode"));
            self.findings.push(finding.help("four octal digits in quotes: \"0644\""));
        }
    }

    fn owner(&mut self, at: &str, owner: &str) {
        let valid = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
                && !name.starts_with('-')
        };
        let well_formed = owner.split_once(':').is_some_and(|(user, group)| valid(user) && valid(group));
        if self.text(at, owner) && !well_formed {
            let finding = Finding::new(at, format!("`{owner}` is not an owner"));
            self.findings.push(finding.help("user and group: \"root:root\""));
        }
    }
}

fn is_clean_path(path: &str) -> bool {
    path.len() > 1
        && path.starts_with('/')
        && !path.contains(char::is_control)
        && path[1..].split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests;
