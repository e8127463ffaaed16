//! What the probes saw: values as found, without a verdict.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostspan_manifests::names;
use hostspan_playbooks::model::Action;

use super::probe::DIFF_LIMIT;
use super::{PhaseSteps, wanted};

/// The state of one host, as far as the probed steps care.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) digests: BTreeMap<String, String>,
    pub(super) contents: BTreeMap<String, Vec<u8>>,
    /// The lines of kernel settings and of receipts, by path.
    pub(super) texts: BTreeMap<String, Vec<String>>,
    pub(super) units: BTreeMap<String, Unit>,
    pub(super) packages: BTreeSet<String>,
    pub(super) modules: BTreeSet<String>,
    /// Digest of the imported archive, by step key.
    pub(super) images: BTreeMap<String, String>,
    pub(super) fstab: Option<String>,
    pub(super) swaps: BTreeSet<String>,
    pub(super) pending: BTreeSet<String>,
    pub(super) checks: BTreeMap<String, i32>,
}

/// Something in the file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Permission bits.
    pub mode: u32,
    /// `0:0`.
    pub ids: String,
    /// `root:root`.
    pub owner: String,
    pub size: u64,
    pub mtime: i64,
    /// In stat's words: `regular file`, `directory`, `symbolic link`.
    pub kind: String,
}

/// A systemd unit, in systemd's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Unit {
    pub load: String,
    pub active: String,
    pub file: String,
    pub needs_reload: bool,
}

impl Observed {
    /// Reads what the probe script printed.
    ///
    /// # Errors
    /// One sentence on what is missing, when the output is not whole.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (seen, whole) = Self::read(text);
        if whole { Ok(seen) } else { Err(format!("its answer ends after {} bytes", text.len())) }
    }

    /// What the probe script printed so far, and whether that is all.
    pub(super) fn read(text: &str) -> (Self, bool) {
        let mut seen = Self::default();
        let mut whole = false;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            match line.split_once('\t') {
                None if line == "units" => {
                    let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "end-units").collect();
                    seen.read_units(&block);
                }
                None if line == "texts" => {
                    for line in lines.by_ref().take_while(|line| *line != "end-texts") {
                        if let Some((path, line)) = line.split_once(':') {
                            seen.texts.entry(path.into()).or_default().push(line.into());
                        }
                    }
                }
                None if line == "done" => whole = true,
                None => seen.read_digest(line),
                Some((kind, rest)) => seen.read_record(kind, rest),
            }
        }
        (seen, whole)
    }

    /// What `phases` asked for and this does not answer: a sentence, or none where it is complete.
    pub(super) fn gap(&self, phases: &[PhaseSteps]) -> Option<String> {
        phases.iter().flat_map(|phase| &phase.steps).find_map(|step| match &step.step.action {
            Action::Unit(unit) if !self.units.contains_key(&unit.name) => Some(format!(
                "systemd does not say anything about {} (is it running, and is the name right?)",
                unit.name
            )),
            Action::Command(_) if !self.checks.contains_key(&step.id) => {
                Some(format!("the check of {} gave no answer", step.id))
            }
            _ => None,
        })
    }

    fn read_record(&mut self, kind: &str, rest: &str) {
        match kind {
            "stat" => self.read_node(rest),
            "content" => {
                if let Some((path, encoded)) = rest.split_once('\t')
                    && let Ok(bytes) = STANDARD.decode(encoded)
                    && bytes.len() <= DIFF_LIMIT
                {
                    self.contents.insert(path.into(), bytes);
                }
            }
            "package" => {
                if let Some(name) = rest.strip_prefix("installed\t") {
                    self.packages.insert(name.into());
                }
            }
            "module" => {
                self.modules.insert(rest.into());
            }
            "image" => {
                if let Some((key, sha256)) = rest.split_once('\t') {
                    self.images.insert(key.into(), sha256.into());
                }
            }
            "fstab" => {
                self.fstab = STANDARD.decode(rest).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            }
            "swap" => {
                self.swaps.insert(rest.into());
            }
            "pending" => {
                self.pending.insert(rest.into());
            }
            "check" => {
                if let Some((id, code)) = rest.split_once('\t')
                    && let Ok(code) = code.parse()
                {
                    self.checks.insert(id.into(), code);
                }
            }
            _ => {}
        }
    }

    fn read_node(&mut self, rest: &str) {
        let fields: Vec<&str> = rest.splitn(7, '\t').collect();
        if let [mode, ids, owner, size, mtime, kind, path] = fields[..] {
            // An empty file is a kind of its own to stat.
            let kind = if kind == "regular empty file" { "regular file" } else { kind };
            let node = Node {
                mode: u32::from_str_radix(mode, 8).unwrap_or_default(),
                ids: ids.into(),
                owner: owner.into(),
                size: size.parse().unwrap_or_default(),
                mtime: mtime.parse().unwrap_or_default(),
                kind: kind.into(),
            };
            self.nodes.insert(path.into(), node);
        }
    }

    fn read_digest(&mut self, line: &str) {
        if let Some((sha256, path)) = line.split_once("  ")
            && sha256.len() == 64
        {
            self.digests.insert(path.into(), sha256.into());
        }
    }

    /// Blocks of `Key=Value` with a blank line between; every name of a unit leads to it, since an alias may be asked for.
    fn read_units(&mut self, lines: &[&str]) {
        for block in lines.split(|line| line.is_empty()) {
            let mut unit = Unit::default();
            let mut names = "";
            for (name, value) in block.iter().filter_map(|line| line.split_once('=')) {
                match name {
                    "Names" => names = value,
                    "LoadState" => unit.load = value.into(),
                    "ActiveState" => unit.active = value.into(),
                    "UnitFileState" => unit.file = value.into(),
                    "NeedDaemonReload" => unit.needs_reload = value == "yes",
                    _ => {}
                }
            }
            for name in names.split_whitespace() {
                self.units.insert(name.into(), unit.clone());
            }
        }
    }

    /// The live value of a kernel setting, its fields one blank apart.
    pub(super) fn sysctl(&self, name: &str) -> Option<String> {
        let lines = self.texts.get(&wanted::sysctl_path(name))?;
        Some(lines.first()?.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The receipt of an installed artifact: its digest, and `size mtime mode path` of each file.
    pub(super) fn receipt(&self, key: &str) -> Option<(&str, &[String])> {
        let (sha256, files) = self.texts.get(&format!("{}/{key}", names::RECEIPTS_DIR))?.split_first()?;
        Some((sha256, files))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_that_was_cut_off_is_no_answer() {
        let whole =
            "stat\t644\t0:0\troot:root\t3\t100\tregular file\t/etc/x y\ntexts\n/proc/sys/a/b:1\t2\nend-texts\ndone\n";
        let seen = Observed::parse(whole).unwrap();
        assert_eq!(seen.nodes["/etc/x y"].mode, 0o644);
        assert_eq!(seen.sysctl("a.b").as_deref(), Some("1 2"));
        assert_eq!(Observed::parse(&whole[..40]).unwrap_err(), "its answer ends after 40 bytes");
    }

    #[test]
    fn a_unit_is_found_under_every_name_it_has() {
        let text = "units\nNames=ssh.service sshd.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n\
                    NeedDaemonReload=yes\n\nNames=gone.service\nLoadState=not-found\nActiveState=inactive\n\
                    UnitFileState=\nNeedDaemonReload=no\nend-units\ndone\n";
        let seen = Observed::parse(text).unwrap();
        assert!(seen.units["sshd.service"].needs_reload);
        assert_eq!(seen.units["gone.service"].load, "not-found");
        assert_eq!(seen.units.len(), 3);
    }

    proptest! {
        #[test]
        fn no_answer_panics(lines in prop::collection::vec(
            "(stat|content|check|package|image|units|end-units|texts|end-texts|fstab|swap|done)?[ -~\t]{0,60}", 0..20,
        )) {
            drop(Observed::parse(&lines.join("\n")));
        }
    }
}
