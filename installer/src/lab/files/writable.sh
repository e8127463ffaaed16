#!/bin/sh
# systemd-nspawn mounts control groups and sysctls read-only. A host writes both.
set -eu

for mount in /sys/fs/cgroup /sys/fs/cgroup/* /proc/sys; do
    # cpu,cpuacct and the like are symlinks where two controllers share a hierarchy.
    [ -L "$mount" ] || ! mountpoint -q "$mount" || mount -o remount,bind,rw "$mount"
done

# These are one for the whole machine. The host sees and sets a copy, so that it does not change the machine it runs on.
shadow=/run/hostspan-lab/sysctl
for key in fs/inotify/max_user_instances fs/inotify/max_user_watches kernel/panic kernel/panic_on_oops \
    vm/max_map_count vm/overcommit_memory vm/swappiness; do
    [ -f "/proc/sys/$key" ] || continue
    mkdir -p "$shadow/${key%/*}"
    cat "/proc/sys/$key" >"$shadow/$key"
    mount --bind "$shadow/$key" "/proc/sys/$key"
done
