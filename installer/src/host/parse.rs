//! What the facts script printed, as [`Facts`]. Pure, and forgiving: a line that makes no sense is passed over, a value
//! that is not there is named in [`Facts::unreadable`]. Only an answer that is not whole is an error.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hostspan_manifests::names::ETC_DIR;
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use super::facts::{Address, Existing, Facts, Interface, NetworkOwner, OwnState, Platform, ResolvConf, Route};
use super::os_release;

/// When the host was asked, by this machine's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// The middle of the round trip, in milliseconds since the epoch.
    pub middle_ms: i64,
    /// Half of its length, in milliseconds.
    pub half_ms: u64,
}

/// Why an answer is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The first record is not there.
    #[error("the answer to the facts script does not begin as it should; is the login shell or sudo replaced?")]
    NoBegin,
    /// The last record is not there.
    #[error("the answer to the facts script was cut off before its end")]
    NoEnd,
}

/// Reads the answer.
///
/// # Errors
/// [`ParseError`] when its begin or end is missing.
pub fn parse(answer: &str, trip: RoundTrip) -> Result<Facts, ParseError> {
    let raw = Raw::read(answer)?;
    let os = os_release::parse(raw.lines("/etc/os-release"));
    let os = |key: &str| os.get(key).cloned().unwrap_or_default();
    let (links, routes) = raw.network();
    let (clock_offset_ms, clock_error_ms) = raw.clock(trip);
    let running_guests = raw.base_names("guest-running", ".xml");
    let stopped_guests =
        raw.base_names("guest-defined", ".xml").into_iter().filter(|name| !running_guests.contains(name)).collect();
    let mut snaps: Vec<String> = raw
        .base_names("snap", ".snap")
        .iter()
        .map(|name| name.rsplit_once('_').map_or(name.as_str(), |(name, _revision)| name).to_owned())
        .collect();
    snaps.dedup();
    let units = raw.values("unit");
    Ok(Facts {
        hostname: raw.text("/proc/sys/kernel/hostname"),
        os_id: os("ID"),
        os_version: os("VERSION_ID"),
        os_name: os("PRETTY_NAME"),
        kernel: raw.text("/proc/sys/kernel/osrelease"),
        arch: match raw.value("arch") {
            "x86_64" => "amd64".to_owned(),
            "aarch64" => "arm64".to_owned(),
            other => other.to_owned(),
        },
        machine_id: raw.text("/etc/machine-id"),
        product_uuid: Some(raw.text("/sys/class/dmi/id/product_uuid").to_lowercase()).filter(|uuid| !uuid.is_empty()),
        boot_id: raw.text("/proc/sys/kernel/random/boot_id"),
        cgroup_version: if raw.has("cgroup2") { 2 } else { 1 },
        cpus: count_cpus(&raw.text("/sys/devices/system/cpu/online")),
        memory_bytes: raw.meminfo("MemTotal").saturating_mul(1024),
        disk_free_bytes: raw.disks(),
        kvm_device: raw.has("kvm"),
        kvm_cpu: raw.cpuinfo("flags").split(' ').any(|flag| flag == "vmx" || flag == "svm"),
        cpu_model: raw.cpuinfo("model name").to_owned(),
        platform: Platform {
            vendor: raw.text("/sys/class/dmi/id/sys_vendor"),
            product: raw.text("/sys/class/dmi/id/product_name"),
            container: Some(raw.text("/run/systemd/container")).filter(|name| !name.is_empty()),
        },
        systemd: raw.has("systemd"),
        read_only: raw.values("read-only"),
        swaps: raw.swaps(),
        fstab: raw.whole("/etc/fstab"),
        etc_hosts: raw.whole("/etc/hosts"),
        inotify_instances: raw.text("/proc/sys/fs/inotify/max_user_instances").parse().ok(),
        inotify_watches: raw.text("/proc/sys/fs/inotify/max_user_watches").parse().ok(),
        dpkg_lock: raw.record("dpkg-lock").map(|values| match values {
            [name, pid, ..] => format!("{name} (pid {pid})"),
            _ => "a process".to_owned(),
        }),
        clock_offset_ms,
        clock_error_ms,
        // ntpsec tells nothing without a query over the network, so that it runs must do.
        clock_synchronized: raw.has("synchronized") || units.iter().any(|unit| unit == "ntpsec.service"),
        interfaces: links.iter().map(|link| raw.interface(link)).collect(),
        addresses: links.iter().flat_map(Link::addresses).collect(),
        routes,
        listeners: raw.listeners(),
        resolv_conf: ResolvConf {
            nameservers: raw.nameservers("/etc/resolv.conf"),
            resolved_upstream: raw.nameservers("/run/systemd/resolve/resolv.conf"),
        },
        // Filled below: it is the default interface's.
        network_owner: NetworkOwner::Unknown,
        ufw_enabled: raw
            .lines("/etc/ufw/ufw.conf")
            .any(|line| line.trim().strip_prefix("ENABLED=").is_some_and(|value| value.eq_ignore_ascii_case("yes"))),
        forward_drop: raw.values("forward-drop"),
        bridge_nf_call: raw.text("/proc/sys/net/bridge/bridge-nf-call-iptables") == "1",
        running_guests,
        stopped_guests,
        snaps,
        existing: raw.existing(),
        modules: raw.values("module"),
        active_units: units,
        hostspan: raw.own_state(),
        unreadable: raw.unreadable(),
    }
    .with_network_owner())
}

impl Facts {
    fn with_network_owner(mut self) -> Self {
        self.network_owner = self.default_interface().map_or(NetworkOwner::Unknown, |interface| interface.owner);
        self
    }
}

/// The answer, sorted by kind of line.
#[derive(Debug, Default)]
struct Raw<'a> {
    /// Lines of files by path.
    files: BTreeMap<&'a str, Vec<&'a str>>,
    /// Records by key, each with its values.
    records: BTreeMap<&'a str, Vec<Vec<&'a str>>>,
    /// What `ip` printed.
    json: Vec<Value>,
    /// Lines of `ss`.
    sockets: Vec<&'a str>,
}

impl<'a> Raw<'a> {
    fn read(answer: &'a str) -> Result<Self, ParseError> {
        let mut raw = Self::default();
        let mut lines = answer.lines();
        // A shell's start-up files may have printed something before it.
        if !lines.any(|line| line == "begin\thostspan-facts") {
            return Err(ParseError::NoBegin);
        }
        for line in lines {
            if line == "end\thostspan-facts" {
                return Ok(raw);
            } else if line.starts_with('/') {
                if let Some((path, text)) = line.split_once(':') {
                    raw.files.entry(path).or_default().push(text);
                }
            } else if line.starts_with('[') {
                let arrays = serde_json::Deserializer::from_str(line).into_iter::<Vec<Value>>();
                raw.json.extend(arrays.map_while(Result::ok).flatten());
            } else if line.starts_with("LISTEN ") {
                raw.sockets.push(line);
            } else if let Some((key, values)) = line.split_once('\t') {
                raw.records.entry(key).or_default().push(values.split('\t').collect());
            }
        }
        Err(ParseError::NoEnd)
    }

    fn lines(&self, path: &str) -> impl Iterator<Item = &'a str> {
        self.files.get(path).into_iter().flatten().copied()
    }

    /// The first line of a file, trimmed.
    fn text(&self, path: &str) -> String {
        self.lines(path).next().unwrap_or_default().trim().to_owned()
    }

    /// All of a file.
    fn whole(&self, path: &str) -> String {
        self.lines(path).flat_map(|line| [line, "\n"]).collect()
    }

    fn record(&self, key: &str) -> Option<&[&'a str]> {
        self.records.get(key)?.first().map(Vec::as_slice)
    }

    fn has(&self, key: &str) -> bool {
        self.records.contains_key(key)
    }

    /// First value of the first record of that key.
    fn value(&self, key: &str) -> &'a str {
        self.record(key).and_then(|values| values.first()).copied().unwrap_or_default()
    }

    /// First value of every record of that key.
    fn values(&self, key: &str) -> Vec<String> {
        let records = self.records.get(key).into_iter().flatten();
        records.filter_map(|values| values.first()).map(|&value| value.to_owned()).collect()
    }

    /// Paths, without folder and suffix.
    fn base_names(&self, key: &str, suffix: &str) -> Vec<String> {
        let base = |path: &String| {
            let file = path.rsplit('/').next().unwrap_or_default();
            file.strip_suffix(suffix).unwrap_or(file).to_owned()
        };
        self.values(key).iter().map(base).collect()
    }

    fn clock(&self, trip: RoundTrip) -> (i64, u64) {
        let (seconds, nanos) = match self.record("clock") {
            Some([seconds, nanos, ..]) => (seconds.parse::<i64>().ok(), nanos.parse::<i64>().ok()),
            _ => (None, None),
        };
        let Some(seconds) = seconds else { return (0, u64::MAX) };
        // A date without %N knows whole seconds only: take the middle of this one.
        let (ms, coarse) = nanos.map_or((500, 500), |nanos| (nanos / 1_000_000, 0));
        let host_ms = seconds.saturating_mul(1000).saturating_add(ms);
        (host_ms.saturating_sub(trip.middle_ms), trip.half_ms.saturating_add(coarse))
    }

    fn meminfo(&self, key: &str) -> u64 {
        let value = |line: &'a str| {
            let (name, value) = line.split_once(':')?;
            (name == key).then(|| value.trim().trim_end_matches("kB").trim().parse().ok())?
        };
        self.lines("/proc/meminfo").find_map(value).unwrap_or_default()
    }

    fn cpuinfo(&self, key: &str) -> &'a str {
        let value = |line: &'a str| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then_some(value.trim())
        };
        self.lines("/proc/cpuinfo").find_map(value).unwrap_or_default()
    }

    fn disks(&self) -> BTreeMap<String, u64> {
        let disk = |values: &Vec<&str>| match values.as_slice() {
            [path, blocks, size, ..] => {
                let bytes = blocks.parse::<u64>().ok()?.saturating_mul(size.parse().ok()?);
                Some(((*path).to_owned(), bytes))
            }
            _ => None,
        };
        self.records.get("disk").into_iter().flatten().filter_map(disk).collect()
    }

    fn swaps(&self) -> Vec<String> {
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        self.lines("/proc/swaps").skip(1).filter_map(first).collect()
    }

    fn nameservers(&self, path: &str) -> Vec<String> {
        let server = |line: &str| {
            let mut words = line.split_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next().map(str::to_owned))?
        };
        self.lines(path).filter_map(server).collect()
    }

    fn listeners(&self) -> BTreeMap<u16, String> {
        let mut listeners: BTreeMap<u16, String> = BTreeMap::new();
        for line in &self.sockets {
            let mut words = line.split_whitespace().skip(3);
            let port = words.next().and_then(|local| local.rsplit_once(':')?.1.parse().ok());
            let Some(port) = port else { continue };
            // users:(("sshd",pid=1,fd=3))
            let process = line.split('"').nth(1).unwrap_or_default();
            let known = listeners.entry(port).or_default();
            if known.is_empty() {
                process.clone_into(known);
            }
        }
        listeners
    }

    fn network(&self) -> (Vec<Link>, Vec<Route>) {
        let mut links = Vec::new();
        let mut routes = Vec::new();
        for value in &self.json {
            if value.get("ifname").is_some() {
                links.extend(Link::deserialize(value));
            } else {
                routes.extend(KernelRoute::deserialize(value).ok().and_then(KernelRoute::into_route));
            }
        }
        (links, routes)
    }

    fn interface(&self, link: &Link) -> Interface {
        let wireless = self.values("wireless").contains(&link.ifname);
        let kind = match &link.linkinfo.info_kind {
            _ if wireless => "wlan",
            Some(kind) => kind.as_str(),
            None if link.medium == "loopback" => "loopback",
            None => "ether",
        };
        let speed = self.text(&format!("/sys/class/net/{}/speed", link.ifname));
        Interface {
            name: link.ifname.clone(),
            mac: link.address.to_lowercase(),
            mtu: link.mtu,
            master: link.master.clone(),
            kind: kind.to_owned(),
            up: link.flags.iter().any(|flag| flag == "UP"),
            // -1 without a link.
            speed_mbps: speed.parse().ok().filter(|speed| *speed > 0),
            owner: self.owner(link),
            network_file: Some(self.setting(&networkd_state(link), "NETWORK_FILE").to_owned())
                .filter(|file| !file.is_empty()),
        }
    }

    /// A line `KEY=value` of one of the small files.
    fn setting(&self, path: &str, key: &str) -> &'a str {
        self.lines(path).find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default()
    }

    fn owner(&self, link: &Link) -> NetworkOwner {
        let device = format!("/run/NetworkManager/devices/{}", link.ifindex);
        if self.setting(&device, "managed") == "true" && !self.setting(&device, "connection-uuid").is_empty() {
            return NetworkOwner::NetworkManager;
        }
        let state = networkd_state(link);
        let file = self.setting(&state, "NETWORK_FILE");
        if !file.is_empty() && self.setting(&state, "ADMIN_STATE") != "unmanaged" {
            let netplan = file.rsplit('/').next().is_some_and(|name| name.starts_with("10-netplan-"));
            return if netplan { NetworkOwner::Netplan } else { NetworkOwner::Networkd };
        }
        // `eth0=eth0`: a logical name follows the interface's.
        let up = |line: &str| line.split_once('=').is_some_and(|(name, _)| name == link.ifname);
        if self.lines("/run/network/ifstate").any(up) { NetworkOwner::Ifupdown } else { NetworkOwner::Unknown }
    }

    fn own_state(&self) -> OwnState {
        let own = |name: &str| format!("{ETC_DIR}/{name}");
        let some = |name: &str| Some(self.text(&own(name))).filter(|text| !text.is_empty());
        let network = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            words.nth(1)?.parse().ok().map(|network| (name, network))
        };
        OwnState {
            fleet: some("fleet"),
            ca_sha256: some("ca.sha256"),
            pod_networks: self.lines(&own("pod-networks")).filter_map(network).collect(),
        }
    }

    fn existing(&self) -> Existing {
        let server = |line: &'a str| line.trim().strip_prefix("server:");
        let distributions = self.records.get("distribution").into_iter().flatten();
        let mut names: Vec<String> = self.values("distribution");
        names.dedup();
        Existing {
            kubernetes_files: self.values("kubernetes"),
            kubelet_server: self
                .lines("/etc/kubernetes/kubelet.conf")
                .find_map(server)
                .map(|url| url.trim().to_owned()),
            ca_sha256: self.value("ca").split(' ').next().filter(|digest| !digest.is_empty()).map(str::to_owned),
            distributions: names,
            distribution_files: distributions.filter_map(|values| values.get(1)).map(|&file| file.to_owned()).collect(),
            // Ours is in /usr/local/bin, on a host that says it is ours.
            foreign_containerd: self.values("containerd").into_iter().next(),
            cni_configs: self.values("cni"),
            docker: self.has("docker"),
            libvirt_apparmor: self.has("apparmor-libvirtd"),
        }
    }

    fn unreadable(&self) -> Vec<String> {
        let tools = self.values("missing").into_iter().map(|tool| {
            let lost = match tool.as_str() {
                "ip" => "interfaces, addresses and routes",
                "ss" => "the ports in use",
                "systemctl" => "the services that run",
                "stat" => "free disk space",
                "grep" => "almost everything",
                "bash" | "timeout" => "whether hosts reach each other",
                _ => "something",
            };
            format!("`{tool}` is not installed: {lost} cannot be read")
        });
        let files = [
            "/etc/os-release",
            "/etc/machine-id",
            "/proc/sys/kernel/hostname",
            "/proc/sys/kernel/random/boot_id",
            "/proc/meminfo",
            "/sys/devices/system/cpu/online",
        ];
        let files = files.into_iter().filter(|file| self.text(file).is_empty());
        tools.chain(files.map(|file| format!("{file} is empty or cannot be read"))).collect()
    }
}

/// Where systemd-networkd says what it makes of an interface.
fn networkd_state(link: &Link) -> String {
    format!("/run/systemd/netif/links/{}", link.ifindex)
}

/// `0-3,8` are five.
fn count_cpus(ranges: &str) -> u32 {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    ranges.split(',').filter_map(count).fold(0, u32::saturating_add)
}

/// An element of `ip -j -d addr show`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Link {
    ifindex: u32,
    ifname: String,
    flags: Vec<String>,
    mtu: u32,
    #[serde(rename = "link_type")]
    medium: String,
    address: String,
    master: Option<String>,
    linkinfo: LinkInfo,
    addr_info: Vec<AddrInfo>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LinkInfo {
    info_kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AddrInfo {
    local: Option<IpAddr>,
    prefixlen: u8,
}

impl Link {
    fn addresses(&self) -> impl Iterator<Item = Address> {
        self.addr_info.iter().filter_map(|info| {
            let address = IpNet::new(info.local?, info.prefixlen).ok()?;
            Some(Address { interface: self.ifname.clone(), address })
        })
    }
}

/// An element of `ip -j -d route show table all`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KernelRoute {
    dst: String,
    gateway: Option<IpAddr>,
    via: Option<Via>,
    dev: Option<String>,
    table: Option<String>,
    nexthops: Vec<NextHop>,
}

/// A next hop of the other address family.
#[derive(Debug, Deserialize)]
struct Via {
    host: IpAddr,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NextHop {
    gateway: Option<IpAddr>,
    dev: Option<String>,
}

impl KernelRoute {
    /// Of several next hops the first. `None` for other tables than the main one and for what has no interface.
    fn into_route(self) -> Option<Route> {
        if self.table.is_some_and(|table| table != "main") {
            return None;
        }
        let destination = match self.dst.as_str() {
            "default" => None,
            dst => Some(dst.parse::<IpNet>().or_else(|_| dst.parse::<IpAddr>().map(IpNet::from)).ok()?),
        };
        let hop = self.nexthops.into_iter().next().unwrap_or_default();
        let via = self.gateway.or(self.via.map(|via| via.host)).or(hop.gateway);
        Some(Route { destination, via, interface: self.dev.or(hop.dev)? })
    }
}
