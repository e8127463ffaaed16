//! Every name that Hostspan puts on a host or into a cluster, in one place.

/// API group and version of the fleet file and of playbooks.
pub const API_VERSION: &str = "hostspan.dev/v1alpha1";
/// Prefix of annotations and labels.
pub const PREFIX: &str = "hostspan.dev";
/// Namespace of what runs in clusters.
pub const NAMESPACE: &str = "hostspan-system";
/// Field manager of the installer.
pub const INSTALLER_FIELD_MANAGER: &str = "hostspan-installer";

/// Folder of our configuration on a host.
pub const ETC_DIR: &str = "/etc/hostspan";
/// Folder of our state on a host.
pub const STATE_DIR: &str = "/var/lib/hostspan";
/// The journal: what was changed, with the original content.
pub const JOURNAL_DIR: &str = "/var/lib/hostspan/journal";
/// Receipts of installed artifacts.
pub const RECEIPTS_DIR: &str = "/var/lib/hostspan/receipts";
/// Uploaded artifacts, by digest.
pub const CACHE_DIR: &str = "/var/lib/hostspan/cache";
/// Marks of steps that must run again since something they depend on changed.
pub const PENDING_DIR: &str = "/var/lib/hostspan/pending";
/// State that does not outlive a boot: the lock, scripts and results of long steps.
pub const RUN_DIR: &str = "/run/hostspan";
/// containerd, its shim, ctr and runc; not in PATH, so that no other runtime on the host finds them.
pub const CONTAINERD_BIN_DIR: &str = "/usr/local/lib/hostspan";
/// containerd's configuration.
pub const CONTAINERD_CONFIG_DIR: &str = "/etc/hostspan/containerd";
/// containerd's images and containers.
pub const CONTAINERD_ROOT: &str = "/var/lib/hostspan/containerd";
/// containerd's state of this boot.
pub const CONTAINERD_STATE: &str = "/run/hostspan-containerd";
/// containerd's socket.
pub const CONTAINERD_SOCKET: &str = "/run/hostspan-containerd/containerd.sock";
/// containerd's unit.
pub const CONTAINERD_UNIT: &str = "hostspan-containerd.service";
/// Prefix of transient systemd units.
pub const UNIT_PREFIX: &str = "hostspan-";
