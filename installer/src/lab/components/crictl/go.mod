module hostspan.dev/lab/crictl

go 1.26.0

require sigs.k8s.io/cri-tools v1.36.0

tool (
	sigs.k8s.io/cri-tools/cmd/crictl
)
