# Prints what hostspan wants to know of a host; facts.rs has the meaning, parse.rs reads the lines.
#
# It is in the path of every run, so it forks as little as it can: one grep reads all small files at once (its lines are
# `/path:text`), tests and globs are the shell's own. Whatever is not there is simply not printed; nothing here fails.
# Other lines are records: a key, a tab, values with tabs between them. `ip` prints JSON and `ss` lines with LISTEN.
# Set before this text: etc_dir, our own folder on the host.
t='	'
echo "begin${t}hostspan-facts"
date "+clock${t}%s${t}%N"
for tool in ip ss systemctl stat grep bash timeout; do
  command -v "$tool" >/dev/null || echo "missing${t}$tool"
done

set -- /etc/os-release /etc/machine-id /etc/fstab /etc/hosts /etc/resolv.conf /run/systemd/resolve/resolv.conf \
  /proc/sys/kernel/hostname /proc/sys/kernel/osrelease /proc/sys/kernel/random/boot_id /proc/meminfo /proc/swaps \
  /proc/sys/fs/inotify/max_user_instances /proc/sys/fs/inotify/max_user_watches \
  /proc/sys/net/bridge/bridge-nf-call-iptables /sys/devices/system/cpu/online /run/systemd/container \
  /sys/class/dmi/id/product_uuid /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name \
  /etc/ufw/ufw.conf /run/network/ifstate "$etc_dir/fleet" "$etc_dir/ca.sha256" "$etc_dir/pod-networks"
for link in /sys/class/net/*; do
  name=${link##*/}
  # Ends of pods' and guests' links: there may be hundreds, and none is an uplink.
  case $name in lo | veth* | cali* | lxc* | vnet* | tap*) continue ;; esac
  [ -r "$link/ifindex" ] && read -r index <"$link/ifindex" || continue
  [ ! -e "$link/wireless" ] && [ ! -e "$link/phy80211" ] || echo "wireless${t}$name"
  [ ! -e "$link/device" ] || set -- "$@" "$link/speed"
  set -- "$@" "/run/systemd/netif/links/$index" "/run/NetworkManager/devices/$index"
done
grep -Hs '' "$@"
grep -Hs -m 2 -E '^(model name|flags|Features)' /proc/cpuinfo
# Only this line: the file may hold a private key.
[ ! -r /etc/kubernetes/kubelet.conf ] || grep -Hs -E '^ *server:' /etc/kubernetes/kubelet.conf

echo "arch${t}$(uname -m)"
printf '%s\n' 'addr show' 'route show table all' | ip -j -d -batch - 2>/dev/null
stat -f -c "disk${t}%n${t}%a${t}%S" / /var/lib 2>/dev/null
# Names of processes cost a walk through all of /proc, and only tell something before the host is ours.
if [ -e "$etc_dir/fleet" ]; then ss -Hltn; else ss -Hltnp; fi 2>/dev/null

[ ! -f /sys/fs/cgroup/cgroup.controllers ] || echo "cgroup2${t}yes"
[ ! -c /dev/kvm ] || echo "kvm${t}yes"
for path in /etc /var/lib /usr/local; do
  [ -w "$path" ] || echo "read-only${t}$path"
done
for module in br_netfilter overlay kvm kvm_intel kvm_amd vhost_net tun nf_tables; do
  [ ! -d "/sys/module/$module" ] || echo "module${t}$module"
done

nftables=
if [ -d /run/systemd/system ]; then
  echo "systemd${t}yes"
  set -- docker.service containerd.service kubelet.service libvirtd.service virtqemud.service ufw.service \
    firewalld.service nftables.service multipathd.service NetworkManager.service systemd-networkd.service \
    systemd-resolved.service systemd-timesyncd.service chrony.service ntpsec.service unattended-upgrades.service \
    apt-daily.service apt-daily-upgrade.service
  for state in $(systemctl is-active "$@" 2>/dev/null); do
    case $state in
      active | activating | reloading)
        echo "unit${t}$1"
        [ "$1" != nftables.service ] || nftables=yes
        ;;
    esac
    shift
  done
fi

if [ -e /run/systemd/timesync/synchronized ]; then
  echo "synchronized${t}timesyncd"
elif [ -S /run/chrony/chronyd.sock ]; then
  case $(chronyc -n tracking 2>/dev/null) in *": Normal"*) echo "synchronized${t}chrony" ;; esac
fi

for tool in iptables ip6tables; do
  # Without a table there is no policy, and asking would load the kernel's module for it.
  [ -d /sys/module/nf_tables ] || [ -d /sys/module/ip_tables ] || break
  command -v "$tool" >/dev/null || continue
  case $("$tool" -S FORWARD 2>/dev/null) in "-P FORWARD DROP"*) echo "forward-drop${t}$tool FORWARD" ;; esac
done
if [ "$nftables" ]; then
  case $(nft list chain inet filter forward 2>/dev/null) in
    *"policy drop"*) echo "forward-drop${t}nft inet filter forward" ;;
  esac
fi

set -- $(ls -i /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock 2>/dev/null)
if [ $# -eq 4 ] && [ -r /proc/locks ]; then
  while read -r _ _ _ _ pid file _; do
    case $file in
      *:"$1" | *:"$3")
        comm=unknown
        [ ! -r "/proc/$pid/comm" ] || read -r comm <"/proc/$pid/comm"
        echo "dpkg-lock${t}$comm${t}$pid"
        ;;
    esac
  done </proc/locks
fi

for file in /run/libvirt/qemu/*.xml; do
  [ ! -e "$file" ] || echo "guest-running${t}$file"
done
for file in /etc/libvirt/qemu/*.xml; do
  [ ! -e "$file" ] || echo "guest-defined${t}$file"
done
for profile in /sys/kernel/security/apparmor/policy/profiles/libvirtd.*; do
  [ -e "$profile" ] || continue
  grep -qs /usr/libexec/qemu-kvm /etc/apparmor.d/usr.sbin.libvirtd /etc/apparmor.d/local/usr.sbin.libvirtd ||
    echo "apparmor-libvirtd${t}yes"
done
for file in /var/lib/snapd/snaps/*.snap; do
  [ ! -e "$file" ] || echo "snap${t}$file"
done

for file in /etc/kubernetes/*.conf /etc/kubernetes/manifests/*.yaml /etc/kubernetes/pki/ca.crt /var/lib/etcd/member \
  /var/lib/kubelet/config.yaml; do
  [ ! -e "$file" ] || echo "kubernetes${t}$file"
done
[ ! -r /etc/kubernetes/pki/ca.crt ] || echo "ca${t}$(sha256sum /etc/kubernetes/pki/ca.crt 2>/dev/null)"
for pair in k3s:/usr/local/bin/k3s k3s:/etc/rancher/k3s rke2:/usr/local/bin/rke2 rke2:/etc/rancher/rke2 \
  microk8s:/var/snap/microk8s k0s:/usr/local/bin/k0s k0s:/etc/k0s k0s:/var/lib/k0s; do
  [ ! -e "${pair#*:}" ] || echo "distribution${t}${pair%%:*}${t}${pair#*:}"
done
for file in /etc/cni/net.d/*.conf /etc/cni/net.d/*.conflist /etc/cni/net.d/*.json; do
  [ ! -e "$file" ] || echo "cni${t}$file"
done
for file in /usr/bin/containerd /usr/sbin/containerd /usr/local/bin/containerd; do
  [ ! -x "$file" ] || echo "containerd${t}$file"
done
[ ! -x /usr/bin/dockerd ] && [ ! -S /run/docker.sock ] || echo "docker${t}yes"
echo "end${t}hostspan-facts"
