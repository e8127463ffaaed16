module hostspan.dev/lab/runc

go 1.26.0

require github.com/opencontainers/runc v1.5.3

tool (
	github.com/opencontainers/runc
)
