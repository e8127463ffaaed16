//! Many hosts at once, where one host's failure never hides another's.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use futures::{FutureExt, StreamExt, stream};

use super::error::HostPanic;

/// Runs `work` for every host, at most `parallel` at a time, and gives what became of each one. A panic in one of them is
/// that host's failure.
pub async fn each<T, E, W>(
    hosts: impl IntoIterator<Item = String>,
    parallel: usize,
    work: impl Fn(String) -> W,
) -> BTreeMap<String, Result<T, E>>
where
    E: From<HostPanic>,
    W: Future<Output = Result<T, E>>,
{
    let work = &work;
    stream::iter(hosts)
        .map(|host| async move {
            let outcome = AssertUnwindSafe(async { work(host.clone()).await }).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|panic| {
                let message = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                    .unwrap_or_else(|| "a panic without a message".into());
                Err(HostPanic { host: host.clone(), message }.into())
            });
            (host, outcome)
        })
        .buffer_unordered(parallel.max(1))
        .collect()
        .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::engine::EngineError;

    #[tokio::test]
    async fn failures_and_panics_stay_with_their_host() {
        let hosts = ["a", "b", "c"].map(String::from);
        let outcome = each(hosts, 2, |host| async move {
            match host.as_str() {
                "a" => Ok(1),
                "b" => Err(EngineError::LockLost { host }),
                _ => panic!("boom"),
            }
        })
        .await;
        assert!(matches!(outcome["a"], Ok(1)));
        assert!(matches!(&outcome["b"], Err(EngineError::LockLost { host }) if host == "b"));
        assert!(matches!(&outcome["c"], Err(EngineError::Panicked { message, .. }) if message == "boom"));
    }

    #[tokio::test]
    async fn never_more_than_asked_for_at_once() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome: BTreeMap<_, Result<(), EngineError>> = each((0..10).map(|n| format!("h{n}")), 3, |_| async {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
        .await;
        assert_eq!(outcome.len(), 10);
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }
}
