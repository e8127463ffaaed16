//! The Debian packages of this machine that a lab needs.

use std::path::{Path, PathBuf};

use super::tool::{self, Tools};
use super::{Kind, LabError};
use crate::progress::{Event, Events};

/// A program and the package that has it.
struct Need {
    program: &'static str,
    package: &'static str,
}

const BOTH: &[Need] = &[
    Need { program: "mmdebstrap", package: "mmdebstrap" },
    Need { program: "dnsmasq", package: "dnsmasq-base" },
    Need { program: "ip", package: "iproute2" },
    Need { program: "ssh", package: "openssh-client" },
    Need { program: "ssh-keygen", package: "openssh-client" },
    Need { program: "openssl", package: "openssl" },
    Need { program: "unshare", package: "util-linux" },
    Need { program: "setsid", package: "util-linux" },
    Need { program: "nsenter", package: "util-linux" },
];
const CONTAINER: &[Need] = &[Need { program: "systemd-nspawn", package: "systemd-container" }];
const VM: &[Need] = &[
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Need { program: "mke2fs", package: "e2fsprogs" },
];

/// The Debian packages that a lab of `kind` needs and this machine lacks.
pub fn missing_packages(kind: Kind) -> Vec<String> {
    let folders: Vec<PathBuf> = std::env::split_paths(&tool::search_path()).collect();
    missing(kind, |program| folders.iter().any(|folder| is_program(&folder.join(program))))
}

fn missing(kind: Kind, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let own = match kind {
        Kind::Container => CONTAINER,
        Kind::Vm => VM,
    };
    let mut packages: Vec<String> =
        BOTH.iter().chain(own).filter(|n| !is_there(n.program)).map(|n| n.package.to_owned()).collect();
    packages.dedup();
    packages
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Installs `packages` on this machine. Ask the user first.
///
/// # Errors
/// [`LabError::Tool`] with apt's own words.
pub async fn install_packages(packages: &[String], events: &Events) -> Result<(), LabError> {
    if packages.is_empty() {
        return Ok(());
    }
    events.send(Event::Stage {
        name: "lab-packages".into(),
        title: format!("Installing {} on this machine", packages.join(", ")),
        done: None,
        total: None,
    });
    let tools = Tools::new("");
    let mut on_line = |line: &str| {
        events.send(Event::StepOutput { host: "local".into(), step: "lab-packages".into(), line: line.to_owned() });
    };
    // Package lists of a fresh machine are empty or too old to find anything.
    tools.run_lines("apt-get", &["update"], &mut on_line).await?;
    let mut args = vec!["DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"];
    args.extend(["install", "--yes", "--no-install-recommends"]);
    args.extend(packages.iter().map(String::as_str));
    tools.run_lines("env", &args, &mut on_line).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_named_once() {
        let lacks = |gone: &'static [&str]| move |program: &str| !gone.contains(&program);
        assert_eq!(missing(Kind::Container, lacks(&[])), Vec::<String>::new());
        assert_eq!(missing(Kind::Container, lacks(&["ssh", "ssh-keygen"])), ["openssh-client"]);
        assert_eq!(missing(Kind::Container, lacks(&["qemu-system-x86_64"])), Vec::<String>::new());
        assert_eq!(missing(Kind::Vm, lacks(&["qemu-system-x86_64"])), ["qemu-system-x86"]);
    }
}
