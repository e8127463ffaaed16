//! `bench-upload FLEET HOST FILE SHA256 TO`: brings one file to a host the way a step does, and prints the most memory that
//! this process had, in KiB. For `tests/bench/run`, which takes the time of the whole process as it does with scp.
#![allow(clippy::print_stdout, reason = "its output is for a script")]

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use hostspan::fleet;
use hostspan::ssh::{Dialer, NoPrompt, Options, Remote as _, Target, Upload};

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, host, local, sha256, to] = args.as_slice() else {
        bail!("bench-upload FLEET HOST FILE SHA256 TO");
    };
    let loaded = fleet::load(Path::new(file))?;
    let host = loaded.fleet.spec.hosts.iter().find(|h| h.name == *host).context("the fleet file has no such host")?;
    let (target, _) = Target::resolve(&loaded.fleet, host, &Options::of_this_user(&loaded.dir))?;
    let remote = Dialer::new(Arc::new(NoPrompt)).connect(target).await?;
    let upload = Upload { local: Path::new(local), sha256, to };
    ensure!(remote.upload(upload, &|_| {}).await?, "{to} was there already");
    println!("{}", peak_kib()?);
    Ok(())
}

fn peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
