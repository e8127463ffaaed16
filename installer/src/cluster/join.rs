//! What a host needs to join, asked of the control plane.

use std::time::Duration;

use super::kubeadm::Join;
use crate::secret::Secret;
use crate::ssh::{Remote, Request};

/// After a reboot the API server takes a while to answer. The token lives as long as the longest join may take.
const SCRIPT: &str = "
tries=60
until said=$(/usr/local/bin/kubeadm token create --ttl 30m0s --print-join-command --kubeconfig /etc/kubernetes/admin.conf 2>&1); do
  tries=$((tries - 1))
  [ $tries -gt 0 ] || { echo \"$said\" >&2; exit 1; }
  sleep 1
done
echo \"$said\"
";

/// A bootstrap token and the hash of the cluster's CA.
pub(super) async fn token(control_plane: &dyn Remote) -> Result<Join, String> {
    let request = Request { script: SCRIPT, root: true, timeout: Duration::from_mins(5) };
    let finished = control_plane.run(request, &mut |_| ()).await.map_err(|error| error.message)?;
    if finished.code != 0 {
        let last = finished.stderr.lines().rev().find(|line| !line.trim().is_empty());
        return Err(last.unwrap_or("kubeadm token create failed").trim().to_owned());
    }
    parse(&finished.stdout).ok_or_else(|| "kubeadm printed no join command".into())
}

/// `kubeadm join ADDRESS --token TOKEN --discovery-token-ca-cert-hash sha256:HASH`
fn parse(text: &str) -> Option<Join> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |flag: &str| words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1)).copied();
    Some(Join {
        token: Secret::new(after("--token")?),
        ca_hash: after("--discovery-token-ca-cert-hash").filter(|hash| hash.starts_with("sha256:"))?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_and_hash_are_read_from_kubeadms_join_command() {
        let text = "W1130 warning\nkubeadm join 192.0.2.11:6443 --token abcdef.0123456789abcdef \
                    --discovery-token-ca-cert-hash sha256:1234 \n";
        let join = parse(text).unwrap();
        assert_eq!(join.token.expose(), "abcdef.0123456789abcdef");
        assert_eq!(join.ca_hash, "sha256:1234");
        assert_eq!(parse("error: connection refused"), None);
    }
}
