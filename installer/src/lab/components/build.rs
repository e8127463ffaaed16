//! Runs `go build` for a recipe, into the cache, whole or not at all.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::ComponentError;
use super::progress::Progress;
use super::recipe::{Flavour, Recipe};
use crate::artifacts::ArtifactError;

/// Debian packages that a build needs.
pub const BUILD_PACKAGES: [&str; 4] = ["gcc", "libc6-dev", "pkg-config", "libseccomp-dev"];

/// Go before this cannot fetch a newer toolchain by itself.
const OLDEST_GO: (u32, u32) = (1, 21);
/// Lines of a failed command's output that an error shows.
const TAIL: usize = 15;

/// The version of the installed Go: `go1.26.8 linux/amd64`.
pub(super) async fn go_version() -> Result<String, ComponentError> {
    let output = match Command::new("go").arg("version").stdin(Stdio::null()).kill_on_drop(true).output().await {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(_) | Err(_) => return Err(ComponentError::NoGo),
    };
    let version = output.trim().trim_start_matches("go version ").to_owned();
    if numbers(&version) < OLDEST_GO {
        return Err(ComponentError::OldGo { found: version });
    }
    Ok(version)
}

/// Fails, naming them, if Debian packages are missing that builds need.
pub(super) async fn check_packages() -> Result<(), ComponentError> {
    let mut missing = Vec::new();
    if !succeeds("gcc", &["--version"]).await {
        missing.extend(["gcc", "libc6-dev"]);
    }
    if !succeeds("pkg-config", &["--version"]).await {
        missing.extend(["pkg-config", "libseccomp-dev"]);
    } else if !succeeds("pkg-config", &["--exists", "libseccomp"]).await {
        missing.push("libseccomp-dev");
    }
    if missing.is_empty() { Ok(()) } else { Err(ComponentError::Packages { missing: missing.join(" ") }) }
}

/// Builds `recipe` into `target`, working in `scratch`, which must be empty.
pub(super) async fn build(
    recipe: &Recipe,
    target: &Path,
    scratch: &Path,
    progress: &mut Progress<'_>,
) -> Result<(), ComponentError> {
    let (source, out) = (scratch.join("source"), scratch.join("out"));
    for dir in [&source, &out] {
        std::fs::create_dir_all(dir).map_err(ArtifactError::io("create", dir))?;
    }
    let mut files = vec![("go.mod", recipe.go_mod), ("go.sum", recipe.go_sum)];
    files.extend(recipe.main_go.map(|text| ("main.go", text)));
    for (name, text) in files {
        let path = source.join(name);
        std::fs::write(&path, text).map_err(ArtifactError::io("write", &path))?;
    }
    let mut command = go(&source);
    command.env("CGO_ENABLED", if recipe.cgo() { "1" } else { "0" });
    command.args(["build", "-v", "-trimpath"]).args(recipe.flags());
    // `tool` stands for every program that go.mod lists as a tool; the slash makes `-o` a folder.
    command.arg("-o").arg(out.join("")).arg(if recipe.main_go.is_some() { "." } else { "tool" });
    run_shown(command, recipe, progress).await?;
    if recipe.flavour == Flavour::Kubernetes {
        add_pause(recipe, &source, &out).await?;
    }
    for program in recipe.programs {
        // Written out before the rename, or a power cut could leave a complete-looking folder of empty files.
        let path = out.join(program);
        std::fs::File::open(&path).and_then(|file| file.sync_all()).map_err(ArtifactError::io("read", &path))?;
    }
    std::fs::rename(&out, target).map_err(ArtifactError::io("create", target))?;
    Ok(())
}

/// The names of the images that this kubeadm wants, and the one of them that is written in C.
async fn add_pause(recipe: &Recipe, source: &Path, out: &Path) -> Result<(), ComponentError> {
    let mut kubeadm = Command::new(out.join("kubeadm"));
    let version = format!("v{}", recipe.version());
    let images = output(kubeadm.args(["config", "images", "list", "--kubernetes-version", &version])).await?;
    let path = out.join("images.txt");
    std::fs::write(&path, &images).map_err(ArtifactError::io("write", &path))?;
    let tag = images.lines().find_map(|line| line.split_once("/pause:")).map_or("unknown", |(_, tag)| tag);

    let module = output(go(source).args(["list", "-m", "-f", "{{.Dir}}", recipe.module])).await?;
    let program = PathBuf::from(module.trim()).join("build/pause/linux/pause.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-Os", "-Wall", "-static", &format!("-DVERSION=v{tag}"), "-s", "-o"]).arg(out.join("pause")).arg(program);
    output(&mut gcc).await?;
    Ok(())
}

/// Go below the priority of what a person does meanwhile, with the user's settings that say where modules come from, and
/// without those that would change what comes out. It ends with this process, also when that is killed: left alone it
/// would keep both cores from the next run.
fn go(source: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "nice", "-n", "5", "go"]).current_dir(source);
    command.env("GOFLAGS", "-buildvcs=false").env("GOWORK", "off").env("GOTMPDIR", source);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a build and shows what it is at.
async fn run_shown(mut command: Command, recipe: &Recipe, progress: &mut Progress<'_>) -> Result<(), ComponentError> {
    let name = format!("go build of {}", recipe.name);
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| ComponentError::command(&name, &error.to_string()))?;
    let Some(stderr) = child.stderr.take() else { return Err(ComponentError::command(&name, "no output")) };
    let mut lines = BufReader::new(stderr).lines();
    let (start, mut tick) = (Instant::now(), tokio::time::interval(Duration::from_secs(1)));
    let (mut tail, mut at) = (Vec::new(), String::from("compiling and linking"));
    loop {
        tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => {
                    line.trim_start_matches("go: ").clone_into(&mut at);
                    tail.push(line);
                    if tail.len() > TAIL {
                        tail.remove(0);
                    }
                }
                // The end of the output; not UTF-8 cannot come from Go, and the exit status still tells.
                Ok(None) | Err(_) => break,
            },
            _ = tick.tick() => {
                let title = format!("Building {} {}: {at}", recipe.name, recipe.version());
                progress.show(&title, start.elapsed().as_secs().min(recipe.seconds));
            }
        }
    }
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(ComponentError::command(&name, &tail.join("\n"))),
        Err(error) => Err(ComponentError::command(&name, &error.to_string())),
    }
}

/// Standard output of a command that must succeed.
pub(in crate::lab) async fn output(command: &mut Command) -> Result<String, ComponentError> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let result = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = result.map_err(|error| ComponentError::command(&name, &error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = errors.lines().collect();
    let tail = lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default();
    Err(ComponentError::command(&name, &tail.join("\n")))
}

async fn succeeds(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.status().await.is_ok_and(|status| status.success())
}

/// Major and minor of `go1.26.8 linux/amd64`; a development version counts as the newest.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.trim_start_matches("go").split(['.', ' ', 'r', 'b']).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (u32::MAX, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_versions_are_compared_as_numbers() {
        assert!(numbers("go1.19.8 linux/amd64") < OLDEST_GO);
        assert!(numbers("go1.26.8 linux/amd64") >= OLDEST_GO);
        assert_eq!(numbers("go1.26rc1 linux/amd64"), (1, 26));
        assert!(numbers("devel go1.27-abc linux/amd64") >= OLDEST_GO);
    }

    #[tokio::test]
    async fn a_failed_command_shows_the_end_of_its_output() {
        let mut command = Command::new("sh");
        let error = output(command.args(["-c", "seq 100 >&2; exit 3"])).await.unwrap_err().to_string();
        assert!(error.contains("sh failed") && error.contains("100") && !error.contains("\n85\n"), "{error}");
    }
}
