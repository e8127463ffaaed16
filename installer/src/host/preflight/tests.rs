use super::*;

/// A fleet of a control plane `a` and a worker `b`.
pub(super) fn fleet() -> Fleet {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "hostspan.dev/v1alpha1", "kind": "Fleet", "metadata": {"name": "kvm-a"},
        "spec": {"hosts": [
            {"name": "a", "address": "192.0.2.11", "roles": ["control-plane", "worker"]},
            {"name": "b", "address": "192.0.2.12"},
        ]},
    }))
    .unwrap()
}
