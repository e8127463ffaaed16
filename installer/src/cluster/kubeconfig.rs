//! The cluster's admin kubeconfig, for the admin's machine.

use std::time::Duration;

use serde_json::{Value, json};

use super::session::{FleetError, Session};
use crate::secret::Secret;
use crate::ssh::{RemoteError, Request};

/// Where kubeadm puts it.
const ADMIN_CONF: &str = "/etc/kubernetes/admin.conf";

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The fleet has no control plane.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// It could not be reached.
    #[error("the control plane {0} could not be reached")]
    NotConnected(String),
    /// It could not be asked.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// It has none.
    #[error("{0} has no {ADMIN_CONF}: it is no control plane yet; run `hostspan apply`")]
    NotThere(String),
    /// It has something else there.
    #[error("{host}: {ADMIN_CONF} is not a kubeconfig: {message}")]
    Unreadable {
        /// The control plane.
        host: String,
        /// Why.
        message: String,
    },
}

/// Fetches it, and calls cluster, user and context after the fleet, so that several fleets fit into one file.
pub async fn kubeconfig(session: &Session) -> Result<Secret, KubeconfigError> {
    let host = &session.control_plane()?.name;
    let connected = session.connected.get(host).ok_or_else(|| KubeconfigError::NotConnected(host.clone()))?;
    let script = format!("cat {ADMIN_CONF}");
    let request = Request { script: &script, root: true, timeout: Duration::from_secs(30) };
    let finished = connected.remote.run(request, &mut |_| ()).await?;
    if finished.code != 0 {
        return Err(KubeconfigError::NotThere(host.clone()));
    }
    rename(&finished.stdout, &session.fleet.metadata.name)
        .map(Secret::new)
        .map_err(|message| KubeconfigError::Unreadable { host: host.clone(), message })
}

fn rename(text: &str, fleet: &str) -> Result<String, String> {
    let old: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let part = |list: &str, key: &str| {
        let found = old[list].get(0).and_then(|entry| entry.get(key)).cloned();
        found.ok_or_else(|| format!("{list} is empty"))
    };
    let user = format!("{fleet}-admin");
    let new = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": fleet, "cluster": part("clusters", "cluster")?}],
        "users": [{"name": user, "user": part("users", "user")?}],
        "contexts": [{"name": fleet, "context": {"cluster": fleet, "user": user}}],
        "current-context": fleet,
    });
    serde_saphyr::to_string(&new).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMIN: &str = "
apiVersion: v1
clusters:
- cluster: {certificate-authority-data: Q0E=, server: 'https://192.0.2.11:6443'}
  name: kubernetes
contexts:
- context: {cluster: kubernetes, user: kubernetes-admin}
  name: kubernetes-admin@kubernetes
current-context: kubernetes-admin@kubernetes
kind: Config
preferences: {}
users:
- name: kubernetes-admin
  user: {client-certificate-data: QQ==, client-key-data: Qg==}
";

    #[test]
    fn cluster_user_and_context_are_called_after_the_fleet() {
        let renamed: Value = serde_saphyr::from_str(&rename(ADMIN, "kvm-a").unwrap()).unwrap();
        assert_eq!(
            renamed,
            json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "kvm-a",
                "clusters": [{"name": "kvm-a", "cluster":
                    {"certificate-authority-data": "Q0E=", "server": "https://192.0.2.11:6443"}}],
                "users": [{"name": "kvm-a-admin", "user": {"client-certificate-data": "QQ==", "client-key-data": "Qg=="}}],
                "contexts": [{"name": "kvm-a", "context": {"cluster": "kvm-a", "user": "kvm-a-admin"}}],
            })
        );
        assert!(rename("clusters: []", "kvm-a").is_err());
    }
}
