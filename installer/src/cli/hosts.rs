//! What became of hosts, as failures with exit codes: shared by all commands that talk to several.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::failure::{Failure, Problem};
use crate::cluster::{FleetError, HostError};
use crate::engine::EngineError;
use crate::exit::Exit;
use crate::host::FactsError;
use crate::ssh::RemoteError;

/// What a host's error means for the exit code.
fn exit_of(error: &HostError) -> Exit {
    match error {
        HostError::Remote(error)
        | HostError::Facts(FactsError::Remote(error))
        | HostError::Engine(EngineError::Remote(error)) => remote_exit(error),
        HostError::Foreign { .. } => Exit::PreflightBlocked,
        HostError::Variables { .. } | HostError::Steps { .. } => Exit::FleetFile,
        HostError::Engine(EngineError::Interrupted { .. }) => Exit::Interrupted,
        HostError::Engine(EngineError::Panicked { .. }) | HostError::NotThere { .. } => Exit::Bug,
        HostError::Facts(_) | HostError::Token { .. } | HostError::Engine(_) => Exit::StepFailed,
    }
}

fn remote_exit(error: &RemoteError) -> Exit {
    Failure::from(error.clone()).exit
}

/// A host's error for people.
pub(super) fn problem(host: &str, error: &HostError) -> Problem {
    let text = error.to_string();
    let message = text.strip_prefix(&format!("{host}: ")).unwrap_or(&text).to_owned();
    let (detail, help) = match error {
        HostError::Remote(error) | HostError::Facts(FactsError::Remote(error)) => (String::new(), error.help.clone()),
        HostError::Engine(error) => (error.output().to_owned(), error.help()),
        HostError::Facts(_) => (String::new(), Some(format!("look at {host} by hand; nothing was changed there"))),
        _ => (String::new(), None),
    };
    Problem { host: Some(host.to_owned()), message, detail, help }
}

/// All hosts' errors as one failure. Its exit code is that of the one that a person should look at first: our bug, an
/// interruption, a failed step, then what kept hosts from being worked on at all.
pub(super) fn failure<'a>(errors: impl IntoIterator<Item = (&'a String, &'a Arc<HostError>)>) -> Option<Failure> {
    const ORDER: [Exit; 6] =
        [Exit::Bug, Exit::Interrupted, Exit::StepFailed, Exit::Unreachable, Exit::PreflightBlocked, Exit::FleetFile];
    let errors: BTreeMap<_, _> = errors.into_iter().collect();
    let exit = ORDER.into_iter().find(|exit| errors.values().any(|error| exit_of(error) == *exit))?;
    let problems = errors.into_iter().map(|(host, error)| problem(host, error)).collect();
    Some(Failure { exit, problems })
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        Self::new(Exit::FleetFile, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::paint::Paint;
    use crate::ssh::RemoteErrorKind;

    fn unreachable(host: &str) -> Arc<HostError> {
        Arc::new(HostError::Remote(RemoteError {
            host: host.into(),
            kind: RemoteErrorKind::Unreachable,
            message: "no TCP connection".into(),
            help: Some("check that it is up".into()),
        }))
    }

    #[test]
    fn every_host_is_named_once_and_the_gravest_decides_the_exit_code() {
        let foreign = HostError::Foreign { host: "b".into(), reason: "k3s is there".into() };
        let errors = BTreeMap::from([("a".to_owned(), unreachable("a")), ("b".to_owned(), Arc::new(foreign))]);
        let failure = failure(&errors).unwrap();
        assert_eq!(failure.exit, Exit::Unreachable);
        assert_eq!(
            failure.render(Paint::plain()),
            "error: a: no TCP connection\n  help: check that it is up\nerror: b: k3s is there\n"
        );
    }

    #[test]
    fn no_errors_are_no_failure() {
        assert_eq!(failure(&BTreeMap::new()), None);
    }
}
