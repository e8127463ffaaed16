#!/bin/sh
# Runs one container host of a hostspan lab, again after each of its reboots, in a mount namespace of its own: its mounts
# are gone when its processes are.
# boot.sh FOLDER LOWER CGROUP NSPAWN-OPTION...
set -eu
folder=$1 lower=$2 group=$3
shift 3
for option; do
    case $option in --network-namespace-path=*) netns=${option##*/} ;; esac
done
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"

mount -t overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
mount --bind "$folder/var" "$folder/root/var"
# nspawn leaves lock files there.
mkdir -p /run/systemd/nspawn
mount -t tmpfs -o mode=0755 tmpfs /run/systemd/nspawn

hierarchies=$(awk '{ for (i = 7; i < NF; i++) if ($i == "-" && $(i + 1) ~ /^cgroup2?$/) print $5 }' /proc/self/mountinfo)

# Groups of the last boot hold pods that are no more; a kubelet that finds them waits for them for ever.
clean() {
    for hierarchy in $hierarchies; do
        [ ! -d "$hierarchy/$group" ] || find "$hierarchy/$group" -depth -type d -exec rmdir {} \; || return 1
    done
}

# The host's control groups are rooted where the process that starts it is.
join() {
    for hierarchy in $hierarchies; do
        mkdir -p "$hierarchy/$group" || return
        if [ -e "$hierarchy/cpuset.mems" ] && [ ! -e "$hierarchy/cgroup.controllers" ]; then
            for dir in "$hierarchy/${group%/*}" "$hierarchy/$group"; do
                cat "$hierarchy/cpuset.cpus" >"$dir/cpuset.cpus"
                cat "$hierarchy/cpuset.mems" >"$dir/cpuset.mems"
            done
        fi
        if [ -s "$hierarchy/cgroup.controllers" ]; then
            for dir in "$hierarchy" "$hierarchy/${group%/*}"; do
                for controller in $(cat "$dir/cgroup.controllers"); do
                    echo "+$controller" >"$dir/cgroup.subtree_control" || true
                done
            done
        fi
        echo 0 >"$hierarchy/$group/cgroup.procs" || return
    done
}

# "network" and not "1": networkd takes a writable /sys for a machine with udev and waits for it. A real host filters no
# system calls.
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network SYSTEMD_SECCOMP=0

# A namespace outlives a boot, a machine's network does not: packet filter, links of the host's own making, addresses and
# routes go, and the NICs are down until the host's own configuration brings them up. Most of this was never there.
unplug() {
    ip netns exec "$netns" chroot "$folder/root" nft flush ruleset
    for link in $(ip -netns "$netns" -o link show | sed 's/^[0-9]*: \([^:@]*\).*/\1/'); do
        case $link in
            lo | eth*) ip -netns "$netns" link set "$link" down && ip -netns "$netns" addr flush dev "$link" ;;
            *) ip -netns "$netns" link delete "$link" ;;
        esac
    done
    for family in -4 -6; do
        ip "$family" -netns "$netns" route flush table all
    done
    ip netns exec "$netns" sh -c 'echo 0 >/proc/sys/net/ipv4/ip_forward'
}

while :; do
    unplug >/dev/null 2>&1 || true
    tries=0
    until clean 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || { echo "control groups of the last boot stay busy" >&2; exit 1; }
        sleep 0.05
    done
    status=0
    (
        join || exit 1
        exec systemd-nspawn --quiet --directory="$folder/root" --boot --keep-unit --register=no --capability=all \
            --console=read-only --link-journal=no --resolv-conf=off --timezone=off "$@"
    ) || status=$?
    # nspawn's word for a reboot, with --keep-unit.
    [ "$status" -eq 133 ] || exit "$status"
done
