//! Asks a host for its facts: one script, one round trip.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hostspan_manifests::names::ETC_DIR;

use super::facts::Facts;
use super::parse::{self, ParseError, RoundTrip};
use crate::ssh::{Remote, RemoteError, Request};

/// The script, without the settings that [`script`] puts before it.
const FACTS: &str = include_str!("facts.sh");
/// It takes well under a second; a host that swaps itself to death may take longer.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Why there are no facts of a host.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The host could not be asked.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The script ended early.
    #[error("{host}: reading the host's facts ended with status {code}: {stderr}")]
    Script {
        /// The host.
        host: String,
        /// Its exit status.
        code: i32,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// It printed something else.
    #[error("{host}: {source}")]
    Parse {
        /// The host.
        host: String,
        /// What is wrong with it.
        source: ParseError,
    },
}

/// The script that [`gather`] runs.
pub fn script() -> String {
    format!("etc_dir={ETC_DIR}\n{FACTS}")
}

/// Reads a host's facts.
///
/// # Errors
/// [`FactsError`] when the host could not be asked or its answer is not whole. A tool or file that is not there is no
/// error: it is named in [`Facts::unreadable`].
pub async fn gather(remote: &dyn Remote) -> Result<Facts, FactsError> {
    let host = || remote.host().to_owned();
    let script = script();
    let asked_at = SystemTime::now();
    let asked = Instant::now();
    let finished = remote.run(Request { script: &script, root: true, timeout: TIMEOUT }, &mut |_| {}).await?;
    let half = asked.elapsed() / 2;
    if finished.code != 0 {
        let stderr = finished.stderr.trim_end().to_owned();
        return Err(FactsError::Script { host: host(), code: finished.code, stderr });
    }
    let middle = asked_at.duration_since(UNIX_EPOCH).unwrap_or_default() + half;
    let trip = RoundTrip { middle_ms: millis(middle), half_ms: millis(half).unsigned_abs() };
    parse::parse(&finished.stdout, trip).map_err(|source| FactsError::Parse { host: host(), source })
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
