# Mounts a throwaway root in a mount namespace of its own and keeps both for as long as it lives. D is the sandbox's folder.
set -e
mount --make-rprivate /
mount -t overlay -o "lowerdir=/,upperdir=$D/upper,workdir=$D/work" overlay "$D/root"
mount --rbind /dev "$D/root/dev"
mount --bind /proc "$D/root/proc"
mount --bind "$D/proc-sys" "$D/root/proc/sys"
mount --bind "$D/proc-swaps" "$D/root/proc/swaps"
mount --bind "$D/run" "$D/root/run"
echo ready
exec sleep infinity
