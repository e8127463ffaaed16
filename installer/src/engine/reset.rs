//! Taking everything back, from the journal on the host alone: no playbook and no fleet file's variables are needed.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use hostspan_manifests::names;

use super::quote::word;
use super::redact::Redactor;
use super::run::{Fetch, HostRun};
use super::stream::{Ended, Reader};
use super::{Cancel, EngineError, change};
use crate::artifacts::ArtifactRef;
use crate::progress::Events;
use crate::ssh::{Line, Remote, Request};

const RESET: &str = include_str!("reset.sh");
/// Undo commands have no time-out of their own; draining and removing a node takes minutes.
const UNDO_TIMEOUT: Duration = Duration::from_hours(2);
const LIST_TIMEOUT: Duration = Duration::from_mins(1);

/// The phase that events of a reset name.
const PHASE: &str = "reset";

/// What [`undo`] would do on this host, one line each, in its order; empty where hostspan has changed nothing.
///
/// # Errors
/// [`EngineError::Remote`] or [`EngineError::Probe`].
pub async fn undo_plan(remote: &dyn Remote) -> Result<Vec<String>, EngineError> {
    let script = format!(
        "for e in {journal}/1*-*; do\n  [ -d \"$e\" ] || continue\n  o=-\n  \
         if [ -e \"$e/original\" ] || [ -L \"$e/original\" ]; then o=original; fi\n  \
         printf '%s\\t%s\\t%s\\t' \"$(cat \"$e/kind\")\" \"$(cat \"$e/name\")\" $o\n  \
         [ ! -e \"$e/was\" ] || tr '\\n' ' ' <\"$e/was\"\n  echo\ndone\necho end\n",
        journal = word(names::JOURNAL_DIR),
    );
    let mut records = Vec::new();
    let mut on_line = |line: Line<'_>| {
        if let Line::Out(line) = line {
            records.push(line.to_owned());
        }
    };
    remote.run(Request { script: &script, root: true, timeout: LIST_TIMEOUT }, &mut on_line).await?;
    if records.pop().as_deref() != Some("end") {
        let message = "its journal could not be read to its end".into();
        return Err(EngineError::Probe { host: remote.host().into(), message });
    }
    Ok(records.iter().rev().map(|record| describe(record)).collect())
}

fn describe(record: &str) -> String {
    let mut fields = record.splitn(4, '\t');
    let mut next = || fields.next().unwrap_or_default();
    let (kind, name, original, was) = (next(), next(), next(), next().trim());
    match kind {
        "file" if original == "original" => format!("~ restore {name}"),
        "file" => format!("- remove {name}"),
        "parent" => format!("- remove directory {name} if it is empty"),
        "directory" => format!("- remove directory {name} and all in it"),
        "mode" => format!("~ {name}: mode and owner back to {was}"),
        "unit" => format!("~ unit {name} back to: {}", unit_state(was)),
        "sysctl" => format!("~ {name} back to {was}"),
        "module" => format!("- unload module {name}"),
        "swap" => format!("+ swapon {name}"),
        "package" => format!("- remove package {name}"),
        "command" => format!("- undo {name}"),
        other => format!("? {other} {name}"),
    }
}

/// `LoadState=loaded ActiveState=active UnitFileState=enabled` in fewer words.
fn unit_state(was: &str) -> String {
    let values: Vec<&str> = was
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .filter(|(key, value)| *key != "NeedDaemonReload" && !value.is_empty() && *value != "loaded")
        .map(|(_, value)| value)
        .collect();
    values.join(", ")
}

/// Restores what the journal recorded, newest first, and removes every trace of hostspan. Can be called again after a
/// failure or a kill: it goes on with what is left. Gives the number of entries that were restored.
///
/// # Errors
/// [`EngineError`]; in [`EngineError::Undo`] everything else was restored, and the journal keeps what was not.
pub async fn undo(remote: &dyn Remote, events: &Events, cancel: &Cancel) -> Result<usize, EngineError> {
    let run = HostRun::new(remote, events, cancel, &Nothing);
    let redactor = Redactor::none();
    let mut reader = Reader::new(remote.host(), PHASE, events, &redactor);
    let script = |run: &change::Run<'_>| format!("{}{RESET}", change::prologue(run));
    let outcome = run
        .hold(async {
            loop {
                match run.under_lock(UNDO_TIMEOUT, &mut reader, &[], script).await {
                    // Each round waited for the end of an earlier script, of which there are only so many.
                    Ok(Ended::Again) => {}
                    ended => break ended,
                }
            }
        })
        .await;
    let (mut failures, restored) = (reader.failures(), reader.succeeded());
    if let Err(EngineError::Step(failure)) = &outcome {
        failures.insert(0, format!("{}: {}", failure.step, failure.why));
    }
    let host = remote.host().to_owned();
    match outcome {
        _ if !failures.is_empty() => Err(EngineError::Undo { host, failures }),
        Ok(Ended::Done(_) | Ended::Again) => Ok(restored),
        Ok(Ended::Stopped(entry)) => Err(EngineError::Interrupted { host, place: format!("before restoring {entry}") }),
        Err(error) => Err(error),
    }
}

/// A reset installs nothing.
struct Nothing;

impl Fetch for Nothing {
    fn fetch<'a>(&'a self, artifact: &'a ArtifactRef, _: &'a Events) -> BoxFuture<'a, Result<PathBuf, String>> {
        Box::pin(async move { Err(format!("a reset needs no {}", artifact.name)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_reads_like_a_plan() {
        assert_eq!(describe("file\t/etc/fstab\toriginal\t"), "~ restore /etc/fstab");
        assert_eq!(describe("file\t/etc/x\t-\t"), "- remove /etc/x");
        let unit =
            "unit\tdocker.service\t-\tLoadState=loaded ActiveState=active UnitFileState=enabled NeedDaemonReload=no ";
        assert_eq!(describe(unit), "~ unit docker.service back to: active, enabled");
    }
}
