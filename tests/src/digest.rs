//! What a host looks like to its owner: files, units, kernel settings, routes, packet filter. Two digests are compared
//! line by line, so that a difference names the very thing.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use hostspan::lab::Lab;

/// Run as root on the host. Prints one line per thing; volatile ones (random seeds, leases, clocks, counters) are left
/// out here, what a conversion may leave for good is the caller's list. Of the kernel's settings only those of the
/// network namespace: a container's others belong to the machine that it shares with every other host of the lab.
const SCRIPT: &str = r#"
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
find /etc /opt /usr/local /var/lib -xdev \
    \( -path /var/lib/systemd/timers -o -path /var/lib/systemd/timesync -o -path /var/lib/systemd/random-seed \
       -o -path /var/lib/dhcp -o -path /var/lib/systemd/linger -o -path /var/lib/private/systemd \) -prune -o \
    -printf 'path %y %m %u:%g %p %l\n' | sort
find /etc /opt /usr/local /var/lib -xdev \
    \( -path /var/lib/systemd -o -path /var/lib/dhcp \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
systemctl list-unit-files --no-legend --no-pager --plain | awk '$2 != "transient" {print "unit-file", $1, $2}' | sort
systemctl list-units --all --no-legend --no-pager --plain --type=service,socket,mount,swap |
    awk '$4 != "exited" && $3 == "active" {print "unit", $1, $3}' | grep -v -e session -e user@ -e 'ssh@' -e user-runtime -e hostnamed | sort
sysctl -a 2>/dev/null | grep '^net\.' | grep -v -e nf_conntrack_count -e 'neigh\.' -e stable_secret -e 'conf\.veth' | sed 's/^/sysctl /'
ip -o route show table all | grep -v -e 'dev veth' | sed -e 's/ expires [0-9]*sec//' -e 's/^/route /' | sort
ip -o link show | awk '{print "link", $2}' | sed 's/@.*//' | sort
nft list ruleset | sed 's/counter packets [0-9]* bytes [0-9]*/counter/; s/^/nft /'
grep -v -e ' /run' -e ' /proc' -e ' /sys' -e ' /dev' /proc/mounts | awk '{print "mount", $2, $3}' | sort
awk '{print "swap", $1}' /proc/swaps
"#;

/// The lines of a host's digest.
pub async fn of(lab: &Lab, host: &str) -> Result<BTreeSet<String>> {
    let text = lab
        .ssh(host, &format!("sudo -n sh -c {}", hostspan::ssh::quote(SCRIPT)))
        .await
        .with_context(|| format!("digest of {host}"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// `- gone` and `+ new` lines between two digests, those that contain one of `except` left out.
pub fn difference(before: &BTreeSet<String>, after: &BTreeSet<String>, except: &[&str]) -> Vec<String> {
    let keep = |line: &&String| !except.iter().any(|part| line.contains(part));
    let gone = before.difference(after).filter(keep).map(|line| format!("- {line}"));
    let new = after.difference(before).filter(keep).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}
