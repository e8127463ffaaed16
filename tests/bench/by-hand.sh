#!/usr/bin/env bash
# The conversion of a lab's hosts as an admin who knows every command would script it: OpenSSH with one connection a host,
# all hosts at once, files sent by scp, the same files and the same kubeadm calls as hostspan's. It verifies nothing, keeps
# no journal and cannot be run twice; what hostspan does on top of it is what the comparison shows.
#
#   by-hand.sh STATE FILES ARTIFACTS HOST=ADDRESS...
#
# STATE is the lab's folder (key, known_hosts), FILES a folder with each host's own configuration files, ARTIFACTS the folder
# of programs and images. The first host gets the control plane.
set -euo pipefail
state=$1 files=$2 artifacts=$3
shift 3
hosts=("$@")
first=${hosts[0]%%=*}

scratch=$(mktemp -d)
jobs=()
options=(-F none -q -i "$state/id_ed25519" -o "UserKnownHostsFile=$state/known_hosts" -o StrictHostKeyChecking=yes
    -o BatchMode=yes -o ControlMaster=auto -o ControlPath="$scratch/%h" -o ControlPersist=60)

close() {
    local host
    kill "${jobs[@]}" 2>/dev/null || true
    for host in "${hosts[@]}"; do ssh "${options[@]}" -O exit "ops@${host#*=}" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap close EXIT
trap 'exit 130' INT TERM

as_root() { ssh "${options[@]}" "ops@$1" sudo sh -es; }

# Everything up to kubeadm: programs, configuration, kernel settings, runtime, images, pod network.
prepare() {
    local name=$1 address=$2
    local images=("$artifacts"/images/*_{pause,kube-proxy,coredns}_*.tar)
    if [ "$name" = "$first" ]; then
        images+=("$artifacts"/images/*_{etcd,kube-apiserver,kube-controller-manager,kube-scheduler}_*.tar)
    fi
    ssh "${options[@]}" "ops@$address" mkdir /tmp/hand /tmp/hand/images
    tar -C "$files/$name" -cf "$scratch/$name.tar" .
    scp "${options[@]}" "$scratch/$name.tar" "$artifacts"/{kubelet,kubeadm,kubectl,runc,containerd.tar.gz,cni-plugins.tgz,crictl.tar.gz} \
        "ops@$address:/tmp/hand"
    scp "${options[@]}" "${images[@]}" "ops@$address:/tmp/hand/images"
    as_root "$address" <<END
cd /tmp/hand
tar -C / -xf $name.tar --no-same-owner
mkdir -p /usr/local/lib/hostspan /opt/cni/bin /etc/hostspan/containerd/certs.d
modprobe -q overlay || grep -qw overlay /proc/filesystems
sysctl -q -p /etc/sysctl.d/99-hostspan.conf
tar -xzf containerd.tar.gz -C /usr/local/lib/hostspan --strip-components=1 --no-same-owner \
    bin/containerd bin/containerd-shim-runc-v2 bin/ctr
install runc /usr/local/lib/hostspan/runc
tar -xzf cni-plugins.tgz -C /opt/cni/bin --no-same-owner ./loopback ./ptp ./host-local ./portmap
tar -xzf crictl.tar.gz -C /usr/local/bin --no-same-owner crictl
install kubelet kubeadm kubectl /usr/local/bin
systemctl daemon-reload
systemctl -q enable --now hostspan-containerd hostspan-masquerade
systemctl -q enable kubelet
for image in images/*; do
    /usr/local/lib/hostspan/ctr -a /run/hostspan-containerd/containerd.sock -n k8s.io images import \$image
done
/etc/hostspan/pod-routes
rm -rf /tmp/hand
END
}

control_plane() {
    prepare "$@"
    as_root "$2" <<'END'
kubeadm init --config /etc/hostspan/kubeadm.yaml --skip-token-print
END
    as_root "$2" >"$scratch/join.new" <<'END'
kubeadm token create --ttl 30m --print-join-command --kubeconfig /etc/kubernetes/admin.conf
END
    mv "$scratch/join.new" "$scratch/join"
}

worker() {
    local endpoint token hash
    prepare "$@"
    until [ -e "$scratch/join" ]; do sleep 0.1; done
    # kubeadm join ADDRESS --token TOKEN --discovery-token-ca-cert-hash HASH
    read -r _ _ endpoint _ token _ hash <"$scratch/join"
    as_root "$2" <<END
kubeadm join --config /dev/stdin <<JOIN
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken: {apiServerEndpoint: "$endpoint", token: "$token", caCertHashes: ["$hash"]}
nodeRegistration:
  name: $1
  criSocket: unix:///run/hostspan-containerd/containerd.sock
  imagePullPolicy: IfNotPresent
  kubeletExtraArgs: [{name: node-ip, value: "$2"}]
  ignorePreflightErrors: [SystemVerification, Swap]
JOIN
END
}

for host in "${hosts[@]}"; do
    name=${host%%=*} address=${host#*=}
    if [ "$name" = "$first" ]; then control_plane "$name" "$address" & else worker "$name" "$address" & fi
    jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done

as_root "${hosts[0]#*=}" <<'END'
export KUBECONFIG=/etc/kubernetes/admin.conf
while read -r node _ network; do
    until kubectl get node "$node" >/dev/null 2>&1; do sleep 1; done
    kubectl patch node "$node" -p "{\"spec\":{\"podCIDR\":\"$network\",\"podCIDRs\":[\"$network\"]}}"
    kubectl label node "$node" node-role.kubernetes.io/worker=
done </etc/hostspan/pod-networks
kubectl wait --for=condition=Ready node --all --timeout=300s
kubectl -n kube-system rollout status deployment/coredns --timeout=300s
kubectl -n kube-system rollout status daemonset/kube-proxy --timeout=300s
END
