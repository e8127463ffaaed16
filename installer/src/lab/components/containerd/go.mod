module hostspan.dev/lab/containerd

go 1.26.0

require github.com/containerd/containerd/v2 v2.4.2

tool (
	github.com/containerd/containerd/v2/cmd/containerd
	github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
	github.com/containerd/containerd/v2/cmd/ctr
)
