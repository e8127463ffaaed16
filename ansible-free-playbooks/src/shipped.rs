//! The playbooks and templates that are part of the program. A new file is one more line here.

macro_rules! embed {
    ($folder:literal: $($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../", $folder, "/", $file)))),*]
    };
}

/// Files of `playbooks/`.
const PLAYBOOKS: &[(&str, &str)] = embed!("playbooks":
    "control-plane.yaml",
    "node.yaml",
    "pod-network.yaml",
    "prepare.yaml",
    "ready.yaml",
    "runtime.yaml",
    "workers.yaml",
);

/// Files of `files/`.
const TEMPLATES: &[(&str, &str)] = embed!("files":
    "10-hostspan.conflist.hbs",
    "containerd.service.hbs",
    "containerd.toml.hbs",
    "hostspan-masquerade.service.hbs",
    "hostspan-pod-routes.service.hbs",
    "kubelet-kubeadm.conf.hbs",
    "kubelet.service.hbs",
    "masquerade.nft.hbs",
    "networkd-pod-routes.conf.hbs",
    "pod-networks.hbs",
    "pod-routes.hbs",
);

/// File names and texts of the shipped playbooks.
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    PLAYBOOKS
}

/// The text of a shipped template.
pub fn template(name: &str) -> Option<&'static str> {
    TEMPLATES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Action;

    fn files_of(folder: &str) -> Vec<String> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn sorted(embedded: &[(&str, &str)]) -> Vec<String> {
        let mut names: Vec<String> = embedded.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn every_file_of_the_folders_is_embedded() {
        assert_eq!(sorted(PLAYBOOKS), files_of("playbooks"));
        assert_eq!(sorted(TEMPLATES), files_of("files"));
    }

    #[test]
    fn every_shipped_playbook_is_sound_and_every_template_has_a_user() {
        let mut names = Vec::new();
        let mut used = Vec::new();
        for (file, text) in shipped() {
            let playbook = crate::parse(file, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(format!("{}.yaml", playbook.metadata.name), *file, "a shipped playbook is named like its file");
            assert_eq!(playbook.spec.at, None, "{file}: the installer places the shipped playbooks");
            for step in &playbook.spec.steps {
                if let Action::File(action) = &step.action
                    && let Some(name) = &action.template
                {
                    let text = template(name).unwrap_or_else(|| panic!("{file}: {}: no template {name}", step.id));
                    assert_eq!(crate::render::template_fault(text), None, "{name}");
                    used.push(name.clone());
                }
            }
            names.push(playbook.metadata.name);
        }
        names.sort();
        let mut unique = names.clone();
        unique.dedup();
        assert_eq!(names, unique);
        for (name, _) in TEMPLATES {
            assert!(used.iter().any(|user| user == name), "no step uses the template {name}");
        }
    }
}
