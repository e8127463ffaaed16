module hostspan.dev/lab/coredns

go 1.26.0

require github.com/coredns/coredns v1.14.2

tool (
	github.com/coredns/coredns
)
