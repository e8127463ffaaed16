//! One script that asks a host everything that the steps of all phases want to know.
//!
//! Its speed is what a run without changes costs, so it starts as few processes as it can: one `stat`, one `sha256sum`,
//! one `grep` for all text files, one `systemctl`, one `dpkg-query`. It prints raw observations; judging is `decide`'s.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use hostspan_manifests::names;
use hostspan_playbooks::model::Action;

use super::quote::{key, word, words};
use super::{PhaseSteps, fstab, wanted};

/// Content of at most this many bytes is brought along to show a diff.
pub(super) const DIFF_LIMIT: usize = 64 * 1024;

const PROLOGUE: &str = r#"LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
nl='
'
content() {
  case "$sums" in *"$1  $2$nl"*) return ;; esac
  [ -f "$2" ] || return
  printf 'content\t%s\t' "$2"
  head -c 65537 <"$2" | base64 -w 0
  echo
}
check() {
  ( eval "$2" ) </dev/null >/dev/null 2>&1
  printf 'check\t%s\t%s\n' "$1" $?
}
"#;

#[derive(Default)]
struct Wants {
    stat: BTreeSet<String>,
    sums: BTreeSet<String>,
    contents: Vec<(String, String)>,
    texts: BTreeSet<String>,
    units: BTreeSet<String>,
    packages: BTreeSet<String>,
    modules: BTreeSet<String>,
    images: BTreeSet<String>,
    fstab: BTreeSet<String>,
    checks: Vec<(String, String)>,
    pending: BTreeSet<String>,
}

/// Compiles the probes of `phases` into one POSIX script that changes nothing.
pub(super) fn compile(phases: &[PhaseSteps]) -> String {
    let mut wants = Wants::default();
    for step in phases.iter().flat_map(|phase| &phase.steps) {
        if !step.step.after_change_of.is_empty() {
            wants.pending.insert(key(&step.id));
        }
        if let Some(file) = wanted::file(&step.step.action) {
            wants.stat.insert(file.path.into());
            wants.sums.insert(file.path.into());
            if !file.secret {
                wants.contents.push((file.sha256(), file.path.into()));
            }
        }
        for file in wanted::installs(step) {
            wants.stat.insert(file.to.clone());
        }
        match &step.step.action {
            Action::File(file) => {
                wants.stat.insert(file.path.clone());
            }
            Action::Directory(directory) => {
                wants.stat.insert(wanted::inside(&directory.path));
            }
            Action::Package(package) => wants.packages.extend(package.names.iter().cloned()),
            Action::Artifact(artifact) if artifact.import_image => {
                wants.images.insert(key(&step.id));
            }
            Action::Artifact(_) => {
                wants.texts.insert(format!("{}/{}", names::RECEIPTS_DIR, key(&step.id)));
            }
            Action::Unit(unit) => {
                wants.units.insert(unit.name.clone());
            }
            Action::Sysctl(sysctl) => {
                wants.texts.extend(sysctl.values.keys().map(|name| wanted::sysctl_path(name)));
            }
            Action::Module(module) => wants.modules.extend(module.names.iter().map(|name| wanted::module_name(name))),
            Action::Fstab(action) => {
                wants.stat.insert(wanted::FSTAB.into());
                wants.fstab.insert(action.disable_type.clone());
            }
            Action::Command(command) => wants.checks.push((step.id.clone(), command.check.clone())),
        }
    }
    script(&wants)
}

fn script(wants: &Wants) -> String {
    let mut out = String::from(PROLOGUE);
    if !wants.stat.is_empty() {
        let paths = words(wants.stat.iter().map(String::as_str));
        _ = writeln!(out, "stat -c 'stat\t%a\t%u:%g\t%U:%G\t%s\t%Y\t%F\t%n' -- {paths} 2>/dev/null");
    }
    if !wants.sums.is_empty() {
        // Only regular files: reading a FIFO would wait for ever.
        _ = writeln!(
            out,
            "set --\nfor f in {}; do [ -f \"$f\" ] && set -- \"$@\" \"$f\"; done\nsums=\n\
             [ $# -gt 0 ] && sums=\"$(sha256sum -- \"$@\" 2>/dev/null)$nl\"\nprintf %s \"$sums\"",
            words(wants.sums.iter().map(String::as_str))
        );
    }
    for (sha256, path) in &wants.contents {
        _ = writeln!(out, "content {sha256} {}", word(path));
    }
    if !wants.texts.is_empty() {
        // Not `read`: dash reads a byte at a time, and the kernel gives only the first byte of a setting that way.
        let paths = words(wants.texts.iter().map(String::as_str));
        _ = writeln!(out, "printf 'texts\\n'\ngrep -sH '' -- {paths}\nprintf 'end-texts\\n'");
    }
    if !wants.units.is_empty() {
        _ = writeln!(
            out,
            "printf 'units\\n'\nsystemctl show -p Names -p LoadState -p ActiveState -p UnitFileState \
             -p NeedDaemonReload -- {} 2>&1\nprintf 'end-units\\n'",
            words(wants.units.iter().map(String::as_str))
        );
    }
    if !wants.packages.is_empty() {
        _ = writeln!(
            out,
            "dpkg-query -W -f='package\\t${{db:Status-Status}}\\t${{Package}}\\n' -- {} 2>/dev/null",
            words(wants.packages.iter().map(String::as_str))
        );
    }
    if !wants.modules.is_empty() {
        modules(&mut out, &wants.modules);
    }
    for image in &wants.images {
        _ = writeln!(
            out,
            "if [ -f {dir}/{image} ]; then read -r sum blob <{dir}/{image}; \
             [ \"$blob\" = - ] || [ -e {blobs}/\"${{blob#sha256:}}\" ] && printf 'image\\t%s\\t%s\\n' {image} \"$sum\"; fi",
            dir = wanted::image_receipts_dir(),
            blobs = wanted::image_blobs_dir(),
        );
    }
    for kind in &wants.fstab {
        swaps(&mut out, kind);
    }
    for pending in &wants.pending {
        _ = writeln!(out, "[ -e {dir}/{pending} ] && printf 'pending\\t%s\\n' {pending}", dir = names::PENDING_DIR);
    }
    for (id, check) in &wants.checks {
        _ = writeln!(out, "check {id} {}", word(check));
    }
    out.push_str("printf 'done\\n'\n");
    out
}

/// A module is there when it is loaded or built in. A built-in one has a folder in /sys/module only where it takes
/// parameters, so the rest is looked up in the kernel's own list, and, where a host has no such list (a container with the
/// kernel of another system), in what the module brings: a filesystem or a device.
fn modules(out: &mut String, modules: &BTreeSet<String>) {
    _ = writeln!(
        out,
        "missing=\nfor m in {}; do if [ -d /sys/module/$m ]; then printf 'module\\t%s\\n' $m; \
         else missing=\"$missing $m\"; fi; done",
        words(modules.iter().map(String::as_str))
    );
    out.push_str(
        r#"if [ -n "$missing" ]; then
  builtin=$(cat "/lib/modules/$(uname -r)/modules.builtin" 2>/dev/null | tr - _)$nl
  brings=$(cat /proc/filesystems /proc/misc 2>/dev/null | tr '\t-' ' _')$nl
  for m in $missing; do
    case "$builtin$brings" in *"/$m.ko$nl"* | *" $m$nl"*) printf 'module\t%s\n' $m ;; esac
  done
fi
"#,
    );
}

/// /etc/fstab itself, and which of its entries of this type are swapped to right now. The path behind `UUID=` and the
/// like is only known to the host.
fn swaps(out: &mut String, kind: &str) {
    _ = writeln!(
        out,
        "if [ -f {fstab} ]; then printf 'fstab\\t'; base64 -w 0 <{fstab}; echo; fi\n\
         mark={mark}\nkind={kind}",
        fstab = wanted::FSTAB,
        mark = word(fstab::MARKER),
        kind = word(kind),
    );
    out.push_str(
        r#"if [ "$kind" = swap ] && [ -f /etc/fstab ]; then
  on=$nl
  while read -r d _; do on=$on$d$nl; done </proc/swaps
  while IFS= read -r l || [ -n "$l" ]; do
    echo "${l#"$mark"}"
  done </etc/fstab | while read -r spec _ type _; do
    [ "$type" = swap ] || continue
    case "$spec" in
      UUID=*) d=/dev/disk/by-uuid/${spec#*=} ;;
      LABEL=*) d=/dev/disk/by-label/${spec#*=} ;;
      PARTUUID=*) d=/dev/disk/by-partuuid/${spec#*=} ;;
      PARTLABEL=*) d=/dev/disk/by-partlabel/${spec#*=} ;;
      *) d=$spec ;;
    esac
    [ -e "$d" ] || continue
    case "$on" in *"$nl$(readlink -f "$d")$nl"*) printf 'swap\t%s\n' "$spec" ;; esac
  done
fi
"#,
    );
}
