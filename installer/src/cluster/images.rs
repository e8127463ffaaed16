//! The container images of a Kubernetes version.

/// Where upstream's images are.
const REGISTRY: &str = "registry.k8s.io";

/// Images that a cluster of one Kubernetes version runs, each with registry and tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// kube-apiserver.
    pub apiserver: String,
    /// kube-controller-manager.
    pub controller_manager: String,
    /// kube-scheduler.
    pub scheduler: String,
    /// kube-proxy.
    pub proxy: String,
    /// etcd.
    pub etcd: String,
    /// CoreDNS.
    pub coredns: String,
    /// The sandbox of every pod.
    pub pause: String,
}

/// Tags of etcd, CoreDNS and pause by Kubernetes minor version: what the newest kubeadm of that minor asks for. They are
/// written into kubeadm's configuration, so that another patch release of kubeadm asks for the same images.
const TAGS: [(&str, &str, &str, &str); 3] = [
    ("1.34", "3.6.5-0", "v1.12.1", "3.10.1"),
    ("1.35", "3.6.6-0", "v1.13.1", "3.10.1"),
    ("1.36", "3.6.8-0", "v1.14.2", "3.10.2"),
];

impl Images {
    /// Images of `version` (`1.36.3`, without a `v`); `None` where hostspan does not know its minor version.
    pub fn of(version: &str) -> Option<Self> {
        let minor = version.rsplit_once('.')?.0;
        let (_, etcd, coredns, pause) = TAGS.iter().find(|tags| tags.0 == minor)?;
        let kube = |name: &str| format!("{REGISTRY}/{name}:v{version}");
        Some(Self {
            apiserver: kube("kube-apiserver"),
            controller_manager: kube("kube-controller-manager"),
            scheduler: kube("kube-scheduler"),
            proxy: kube("kube-proxy"),
            etcd: format!("{REGISTRY}/etcd:{etcd}"),
            coredns: format!("{REGISTRY}/coredns/coredns:{coredns}"),
            pause: format!("{REGISTRY}/pause:{pause}"),
        })
    }

    /// All of them.
    pub fn all(&self) -> [&str; 7] {
        [
            &self.apiserver,
            &self.controller_manager,
            &self.scheduler,
            &self.proxy,
            &self.etcd,
            &self.coredns,
            &self.pause,
        ]
    }
}

/// The tag of an image reference.
pub fn tag(image: &str) -> &str {
    image.rsplit_once(':').map_or("", |(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_default_version_are_the_ones_its_kubeadm_lists() {
        let images = Images::of("1.36.3").unwrap();
        assert_eq!(
            images.all(),
            [
                "registry.k8s.io/kube-apiserver:v1.36.3",
                "registry.k8s.io/kube-controller-manager:v1.36.3",
                "registry.k8s.io/kube-scheduler:v1.36.3",
                "registry.k8s.io/kube-proxy:v1.36.3",
                "registry.k8s.io/etcd:3.6.8-0",
                "registry.k8s.io/coredns/coredns:v1.14.2",
                "registry.k8s.io/pause:3.10.2",
            ]
        );
        assert_eq!(tag(&images.coredns), "v1.14.2");
    }

    #[test]
    fn a_version_outside_the_range_has_none() {
        for version in ["1.33.9", "1.37.0", "1.36", "", "latest"] {
            assert_eq!(Images::of(version), None, "{version}");
        }
    }
}
