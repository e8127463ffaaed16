#!/bin/sh
# Makes a plain Debian tree into a lab host's: users, NICs by DHCP, no keys of its own. $1 is the tree.
set -eu
root=$1
here=$(dirname "$0")

# Every host gets keys and an id of its own.
rm -f "$root"/etc/ssh/ssh_host_*
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"

chroot "$root" useradd --create-home --shell /bin/bash --uid 1000 ops
chroot "$root" useradd --create-home --shell /bin/bash --uid 1001 --groups sudo admin
printf 'ops ALL=(ALL) NOPASSWD:ALL\n' >"$root/etc/sudoers.d/ops"
chmod 0440 "$root/etc/sudoers.d/ops"

printf 'LANG=C.UTF-8\n' >"$root/etc/default/locale"

cat >"$root/etc/systemd/network/10-eth0.network" <<EOF
[Match]
Name=eth0

[Network]
DHCP=ipv4
EOF
# The second segment leads nowhere: a host is online without it.
cat >"$root/etc/systemd/network/20-eth1.network" <<EOF
[Match]
Name=eth1

[Link]
RequiredForOnline=no

[Network]
DHCP=ipv4
EOF
chroot "$root" systemctl --quiet enable systemd-networkd.service systemd-resolved.service ssh.service
# There is no mirror to reach, and a package manager that wakes up by itself holds its lock when a test wants it.
chroot "$root" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer

# Containers only.
install -D -m 0755 "$here/writable.sh" "$root/usr/lib/hostspan-lab/writable"
cat >"$root/etc/systemd/system/hostspan-lab-writable.service" <<EOF
[Unit]
Description=Writable control groups and sysctls in a lab container
ConditionVirtualization=container
DefaultDependencies=no
Before=systemd-sysctl.service sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/hostspan-lab/writable

[Install]
WantedBy=sysinit.target
EOF
chroot "$root" systemctl --quiet enable hostspan-lab-writable.service
