//! What is built from which Go modules, with which flags. No I/O in here.

use sha2::{Digest, Sha256};

use crate::artifacts::hex;

/// Raised when the build steps change in a way that the other inputs of the key do not show.
const REVISION: &str = "1";

/// How a module's programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    /// Static Go programs.
    Plain,
    /// With their version inside (kubeadm refuses to work with a version that it does not know), and `pause`, which is C.
    Kubernetes,
    /// Links libseccomp, statically.
    Seccomp,
}

/// One module of ours that pins an upstream's programs.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) name: &'static str,
    /// Upstream's module.
    pub(super) module: &'static str,
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
    /// A main program of our own, where upstream's would link far more than the lab uses.
    pub(super) main_go: Option<&'static str>,
    /// Programs that other code takes from the build.
    pub(super) programs: &'static [&'static str],
    pub(super) flavour: Flavour,
    /// How long a build takes on two cores with nothing cached; only for the progress display.
    pub(super) seconds: u64,
}

macro_rules! recipe {
    ($name:literal, $module:literal, $flavour:ident, $seconds:literal, [$($program:literal),+]) => {
        Recipe {
            name: $name,
            module: $module,
            go_mod: include_str!(concat!($name, "/go.mod")),
            go_sum: include_str!(concat!($name, "/go.sum")),
            main_go: None,
            programs: &[$($program),+],
            flavour: Flavour::$flavour,
            seconds: $seconds,
        }
    };
}

pub(super) static KUBERNETES: Recipe = recipe!(
    "kubernetes",
    "k8s.io/kubernetes",
    Kubernetes,
    450,
    [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "kubelet",
        "kubeadm",
        "kubectl",
        "pause",
        "images.txt"
    ]
);
pub(super) static CONTAINERD: Recipe = recipe!(
    "containerd",
    "github.com/containerd/containerd/v2",
    Plain,
    95,
    ["containerd", "containerd-shim-runc-v2", "ctr"]
);
pub(super) static CNI_PLUGINS: Recipe = recipe!(
    "cni-plugins",
    "github.com/containernetworking/plugins",
    Plain,
    25,
    ["bridge", "ptp", "host-local", "loopback", "portmap", "static", "dhcp", "bandwidth"]
);
pub(super) static ETCD: Recipe = recipe!("etcd", "go.etcd.io/etcd/server/v3", Plain, 40, ["server"]);
pub(super) static COREDNS: Recipe = Recipe {
    main_go: Some(include_str!("coredns/main.go")),
    ..recipe!("coredns", "github.com/coredns/coredns", Plain, 60, ["coredns"])
};
pub(super) static CRICTL: Recipe = recipe!("crictl", "sigs.k8s.io/cri-tools", Plain, 20, ["crictl"]);
pub(super) static RUNC: Recipe = recipe!("runc", "github.com/opencontainers/runc", Seccomp, 12, ["runc"]);

/// All of them, the longest first.
pub(super) static ALL: [&Recipe; 7] = [&KUBERNETES, &CONTAINERD, &COREDNS, &ETCD, &CNI_PLUGINS, &CRICTL, &RUNC];

impl Recipe {
    /// The pinned version of upstream's module, without a `v`.
    pub(super) fn version(&self) -> &'static str {
        let required = |line: &'static str| {
            let line = line.trim().trim_start_matches("require ");
            line.strip_prefix(self.module)?.strip_prefix(" v")?.split(' ').next()
        };
        self.go_mod.lines().find_map(required).unwrap_or_default()
    }

    /// Arguments of `go build` apart from where its output goes.
    pub(super) fn flags(&self) -> Vec<String> {
        let strip = "-s -w";
        match self.flavour {
            Flavour::Plain => vec!["-ldflags".into(), strip.into()],
            Flavour::Seccomp => vec![
                "-tags".into(),
                "seccomp netgo osusergo".into(),
                "-ldflags".into(),
                format!("{strip} -extldflags -static"),
            ],
            Flavour::Kubernetes => {
                let version = self.version();
                let mut numbers = version.split('.');
                let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
                let base = "k8s.io/component-base/version";
                vec![
                    "-ldflags".into(),
                    format!(
                        "{strip} -X {base}.gitVersion=v{version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor} \
                         -X {base}.gitTreeState=clean -X {base}.gitCommit=hostspan-lab \
                         -X k8s.io/client-go/pkg/version.gitVersion=v{version}"
                    ),
                ]
            }
        }
    }

    /// Whether C code is part of it.
    pub(super) fn cgo(&self) -> bool {
        self.flavour == Flavour::Seccomp
    }

    /// The name of its folder in the cache: everything that decides its bytes is in it.
    pub(super) fn cache_name(&self, go_version: &str) -> String {
        let mut hasher = Sha256::new();
        let flags = self.flags().join("\n");
        for part in [REVISION, self.go_mod, self.go_sum, self.main_go.unwrap_or_default(), &flags, go_version] {
            hasher.update(part.len().to_le_bytes());
            hasher.update(part);
        }
        let key = hex(&hasher.finalize());
        format!("{}-{}-{}", self.name, self.version(), key.get(..16).unwrap_or(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_is_pinned() {
        for recipe in ALL {
            let version = recipe.version();
            assert!(version.split('.').count() == 3, "{}: {version}", recipe.name);
            let line = format!("{} v{version} h1:", recipe.module);
            assert!(recipe.go_sum.contains(&line), "{}: go.sum lacks {line}", recipe.name);
        }
    }

    #[test]
    fn kubernetes_knows_its_own_version() {
        assert_eq!(KUBERNETES.version(), "1.36.3");
        let flags = KUBERNETES.flags().join(" ");
        assert!(flags.contains("component-base/version.gitVersion=v1.36.3 "), "{flags}");
        assert!(flags.contains("version.gitMinor=36 "), "{flags}");
    }

    #[test]
    fn another_compiler_means_another_build() {
        let name = RUNC.cache_name("go1.26.8");
        assert!(name.starts_with("runc-1."), "{name}");
        assert_eq!(name, RUNC.cache_name("go1.26.8"));
        assert_ne!(name, RUNC.cache_name("go1.26.9"));
    }
}
