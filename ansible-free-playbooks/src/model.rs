//! What a playbook is: typed steps, each of which can be probed, made and undone. No execution in this crate.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// A playbook file.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Playbook {
    /// `hostspan.dev/v1alpha1`.
    pub api_version: String,
    /// `Playbook`.
    pub kind: String,
    /// Its name.
    pub metadata: Metadata,
    /// Its contents.
    pub spec: Spec,
}

/// Metadata of a playbook.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metadata {
    /// Lower-case letters, digits and dashes; unique among the playbooks of a run.
    pub name: String,
}

/// Contents of a playbook.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Where a user's own playbook goes. The shipped ones are placed by the installer and have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
    /// Only hosts with one of these roles; empty means every host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// In this order.
    pub steps: Vec<Step>,
}

/// Before or after a built-in phase.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum At {
    /// Before the phase of that name.
    Before(String),
    /// After the phase of that name.
    After(String),
}

/// The roles of hosts that a playbook may name.
pub const ROLES: [&str; 2] = ["control-plane", "worker"];

/// One step. All strings below may hold handlebars expressions over the host's variables; a name that does not exist is
/// an error, never an empty string. Ids, `afterChangeOf` and a file's `template` are taken as they are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// Lower-case letters, digits and dashes; unique in its playbook.
    pub id: String,
    /// One line for people, in the imperative: "Load the kernel modules".
    pub title: String,
    /// Renders to `true` or `false`; the step is left out on `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How long it usually takes when there is something to do, in seconds. Only for the progress display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<u32>,
    /// Ids of earlier steps of this playbook: when one of them changed since this step last ran, it runs again
    /// (a unit is restarted, a command is run). Survives an installer that is killed in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_change_of: Vec<String>,
    /// What is wanted.
    #[serde(flatten)]
    pub action: Action,
}

impl<'de> Deserialize<'de> for Step {
    /// Not derived: serde's `flatten` buffers the action, and an error inside it would then have no line and column.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Flat {
            id: String,
            title: String,
            when: Option<String>,
            takes: Option<u32>,
            #[serde(default)]
            after_change_of: Vec<String>,
            file: Option<FileAction>,
            directory: Option<DirectoryAction>,
            package: Option<PackageAction>,
            artifact: Option<ArtifactAction>,
            unit: Option<UnitAction>,
            sysctl: Option<SysctlAction>,
            module: Option<ModuleAction>,
            fstab: Option<FstabAction>,
            command: Option<CommandAction>,
        }

        let flat = Flat::deserialize(deserializer)?;
        let mut actions = [
            flat.file.map(Action::File),
            flat.directory.map(Action::Directory),
            flat.package.map(Action::Package),
            flat.artifact.map(Action::Artifact),
            flat.unit.map(Action::Unit),
            flat.sysctl.map(Action::Sysctl),
            flat.module.map(Action::Module),
            flat.fstab.map(Action::Fstab),
            flat.command.map(Action::Command),
        ]
        .into_iter()
        .flatten();
        let (Some(action), None) = (actions.next(), actions.next()) else {
            return Err(D::Error::custom(format!(
                "step `{}` has to have exactly one of file, directory, package, artifact, unit, sysctl, module, fstab, \
                 command",
                flat.id
            )));
        };
        drop(actions);
        Ok(Self {
            id: flat.id,
            title: flat.title,
            when: flat.when,
            takes: flat.takes,
            after_change_of: flat.after_change_of,
            action,
        })
    }
}

/// The kinds of steps.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// A file with this content, owner and mode.
    File(FileAction),
    /// A directory.
    Directory(DirectoryAction),
    /// Packages of the host's own package manager.
    Package(PackageAction),
    /// A release file or image archive, verified by digest, brought from this machine.
    Artifact(ArtifactAction),
    /// A systemd unit's state.
    Unit(UnitAction),
    /// Kernel settings, now and at boot.
    Sysctl(SysctlAction),
    /// Kernel modules, now and at boot.
    Module(ModuleAction),
    /// Entries of /etc/fstab to switch off.
    Fstab(FstabAction),
    /// A shell command with a check.
    Command(CommandAction),
}

/// A file. Exactly one of `content`, `template` and `absent: true`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FileAction {
    /// Absolute path.
    pub path: String,
    /// The content itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A file below `files/` of the playbook's folder, rendered by handlebars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The file must not exist.
    #[serde(default)]
    pub absent: bool,
    /// Four octal digits in quotes.
    #[serde(default = "mode_0644")]
    pub mode: String,
    /// Owner, `user:group`.
    #[serde(default = "root_root")]
    pub owner: String,
    /// Its content is shown nowhere: not in a plan, not in the journal's text.
    #[serde(default)]
    pub secret: bool,
}

/// A directory.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DirectoryAction {
    /// Absolute path; parents are made too.
    pub path: String,
    /// Four octal digits in quotes.
    #[serde(default = "mode_0755")]
    pub mode: String,
    /// Owner, `user:group`.
    #[serde(default = "root_root")]
    pub owner: String,
}

/// Packages that must be installed. Undo removes those that this step installed.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PackageAction {
    /// Debian package names.
    pub names: Vec<String>,
}

/// A release file.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ArtifactAction {
    /// Its name in the artifact source: `kubelet`, `containerd`, `image:registry.k8s.io/pause:3.10.2`.
    pub name: String,
    /// Files to install. From a plain file: one entry without `from`. From a tar or tar.gz: one entry a member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install: Vec<InstallFile>,
    /// Import it into containerd's `k8s.io` namespace instead (an OCI or docker archive).
    #[serde(default)]
    pub import_image: bool,
}

/// A file that an artifact installs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InstallFile {
    /// The member's path in the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Absolute path on the host.
    pub to: String,
    /// Four octal digits in quotes.
    #[serde(default = "mode_0755")]
    pub mode: String,
}

/// A systemd unit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct UnitAction {
    /// With its suffix: `containerd.service`.
    pub name: String,
    /// Started at boot or not; untouched where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Running or not; untouched where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// Masked.
    #[serde(default)]
    pub masked: bool,
}

/// Kernel settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SysctlAction {
    /// Absolute path below /etc/sysctl.d that makes them last.
    pub file: String,
    /// `net.ipv4.ip_forward: "1"`.
    pub values: BTreeMap<String, String>,
}

/// Kernel modules.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ModuleAction {
    /// Absolute path below /etc/modules-load.d that makes them last.
    pub file: String,
    /// Their names. One that is built into the kernel counts as loaded.
    pub names: Vec<String>,
}

/// Switches entries of /etc/fstab off by commenting them out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FstabAction {
    /// Entries whose third field is this type, nothing else: `swap`.
    pub disable_type: String,
}

/// A shell command.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CommandAction {
    /// POSIX shell; exit status 0 means that there is nothing to do. Cheap: it is part of every plan, and it must change
    /// nothing.
    pub check: String,
    /// POSIX shell, run as root, stopped at its first failing command (`sh -e`). After it `check` must hold.
    pub run: String,
    /// POSIX shell that takes it back at `reset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// Given to `run` on standard input; treated as a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Seconds before it counts as failed.
    #[serde(default = "ten_minutes")]
    pub timeout: u32,
    /// Runs in a named transient systemd unit: a lost link does not kill it, and a later run waits for it.
    #[serde(default)]
    pub long: bool,
}

fn mode_0644() -> String {
    "0644".into()
}
fn mode_0755() -> String {
    "0755".into()
}
fn root_root() -> String {
    "root:root".into()
}
fn ten_minutes() -> u32 {
    600
}
