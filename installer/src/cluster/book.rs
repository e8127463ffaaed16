//! The playbooks of a run: the shipped ones and the user's own, rendered for a host into steps for the engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hostspan_playbooks::model::{Action, At, Playbook};
use hostspan_playbooks::{PlaybookError, RenderError, UserPlaybook};
use serde_json::Value;

use super::phases::{PHASES, Phase};
use crate::artifacts::{ArtifactError, ArtifactRef, Store};
use crate::engine::{PhaseSteps, ReadyStep};
use crate::fleet::model::{Fleet, Host, Role};

/// Artifacts that come in the fleet file's Kubernetes version.
const KUBERNETES_ARTIFACTS: [&str; 3] = ["kubelet", "kubeadm", "kubectl"];

/// The playbooks of a run.
#[derive(Debug, Clone)]
pub struct Book {
    shipped: BTreeMap<String, Playbook>,
    user: Vec<UserPlaybook>,
}

/// Why the playbooks cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// A file is wrong.
    #[error(transparent)]
    Playbook(#[from] PlaybookError),
    /// A user's playbook has another one's name.
    #[error("{}: there already is a playbook called `{name}`; give it another `metadata.name`", file.display())]
    NameTaken {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
    },
    /// There is no such phase.
    #[error("{}: there is no phase `{phase}`; there are {}", file.display(), phase_names().join(", "))]
    NoPhase {
        /// The file.
        file: PathBuf,
        /// What it says.
        phase: String,
    },
}

/// Why a phase cannot be made ready for a host.
#[derive(Debug, thiserror::Error)]
pub enum StepsError {
    /// An expression cannot be filled in.
    #[error(transparent)]
    Render(#[from] Box<RenderError>),
    /// An artifact is not in the source.
    #[error("{step}: {error}")]
    Artifact {
        /// `playbook/step`.
        step: String,
        /// Why.
        error: Box<ArtifactError>,
    },
}

fn phase_names() -> Vec<&'static str> {
    PHASES.iter().map(|phase| phase.name).collect()
}

impl Book {
    /// The shipped playbooks, and the user's from `paths` (files or folders, relative to `fleet_dir`).
    pub fn load(paths: &[PathBuf], fleet_dir: &Path) -> Result<Self, BookError> {
        let mut shipped = BTreeMap::new();
        for (file, text) in hostspan_playbooks::shipped() {
            let playbook = hostspan_playbooks::parse(file, text)?;
            shipped.insert(playbook.metadata.name.clone(), playbook);
        }
        let mut user: Vec<UserPlaybook> = Vec::new();
        for path in paths {
            for new in hostspan_playbooks::load(&crate::fleet::expand(path, fleet_dir))? {
                let name = &new.playbook.metadata.name;
                if shipped.contains_key(name) || user.iter().any(|other| other.playbook.metadata.name == *name) {
                    return Err(BookError::NameTaken { file: new.file, name: name.clone() });
                }
                if let Some(At::Before(phase) | At::After(phase)) = &new.playbook.spec.at
                    && !phase_names().contains(&phase.as_str())
                {
                    return Err(BookError::NoPhase { phase: phase.clone(), file: new.file });
                }
                user.push(new);
            }
        }
        Ok(Self { shipped, user })
    }

    /// The steps of a phase on a host: the user's playbooks before it, its own if it is for that host, the user's after it.
    /// `arch` is the host's, in Kubernetes' words.
    pub fn steps(
        &self,
        phase: &Phase,
        fleet: &Fleet,
        host: &Host,
        arch: &str,
        variables: &Value,
        store: &Store,
    ) -> Result<PhaseSteps, StepsError> {
        let mut steps = Vec::new();
        let before = At::Before(phase.name.to_owned());
        let after = At::After(phase.name.to_owned());
        let mut add = |playbook: &Playbook, templates: &hostspan_playbooks::Templates<'_>| -> Result<(), StepsError> {
            let rendered = hostspan_playbooks::render(playbook, variables, templates).map_err(Box::new)?;
            steps.extend(ready(rendered, &fleet.spec.kubernetes.version, arch, store)?);
            Ok(())
        };
        for user in self.users(&before, host) {
            add(&user.playbook, &|name| user.templates.get(name).map(String::as_str))?;
        }
        if let Some(playbook) = self.shipped.get(phase.name).filter(|_| phase.is_for(fleet, host)) {
            add(playbook, &|name| hostspan_playbooks::template(name))?;
        }
        for user in self.users(&after, host) {
            add(&user.playbook, &|name| user.templates.get(name).map(String::as_str))?;
        }
        Ok(PhaseSteps { phase: phase.name.to_owned(), steps })
    }

    fn users<'a>(&'a self, at: &'a At, host: &'a Host) -> impl Iterator<Item = &'a UserPlaybook> {
        self.user.iter().filter(move |user| {
            let roles = &user.playbook.spec.roles;
            user.playbook.spec.at.as_ref() == Some(at)
                && (roles.is_empty() || roles.iter().any(|role| host.roles.iter().any(|has| role_name(*has) == role)))
        })
    }
}

/// A role as playbooks and the fleet file write it.
fn role_name(role: Role) -> &'static str {
    match role {
        Role::ControlPlane => "control-plane",
        Role::Worker => "worker",
    }
}

/// Steps of a rendered playbook with full ids, and with the artifacts that their names stand for.
fn ready(playbook: Playbook, version: &str, arch: &str, store: &Store) -> Result<Vec<ReadyStep>, StepsError> {
    let name = playbook.metadata.name;
    let full = |id: &str| format!("{name}/{id}");
    playbook
        .spec
        .steps
        .into_iter()
        .map(|mut step| {
            let id = full(&step.id);
            for other in &mut step.after_change_of {
                *other = full(other);
            }
            let artifact = match &step.action {
                Action::Artifact(action) => Some(
                    find(store, &action.name, version, arch)
                        .map_err(|error| StepsError::Artifact { step: id.clone(), error: Box::new(error) })?,
                ),
                _ => None,
            };
            Ok(ReadyStep { id, step, artifact })
        })
        .collect()
}

fn find(store: &Store, name: &str, version: &str, arch: &str) -> Result<ArtifactRef, ArtifactError> {
    let version = KUBERNETES_ARTIFACTS.contains(&name).then_some(version);
    store.find(name, version, arch)
}

#[cfg(test)]
mod tests;
