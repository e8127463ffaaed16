//! Ctrl-C: once stops after the running step, twice at once.

use tokio::sync::watch;

/// How urgent a stop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Go on.
    No,
    /// End the running step, begin no other.
    AfterStep,
    /// Do not even wait for the running step.
    AtOnce,
}

/// The end that work code looks at. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Receiver<Stop>);

/// The end that the signal handler holds.
#[derive(Debug)]
pub struct Canceller(watch::Sender<Stop>);

impl Canceller {
    /// One step more urgent: the first call stops after the running step, the second at once.
    pub fn escalate(&self) {
        self.0.send_modify(|stop| {
            *stop = if *stop == Stop::No { Stop::AfterStep } else { Stop::AtOnce };
        });
    }
}

impl Cancel {
    /// Both ends.
    pub fn pair() -> (Canceller, Self) {
        let (tx, rx) = watch::channel(Stop::No);
        (Canceller(tx), Self(rx))
    }

    /// One that never stops anything.
    pub fn never() -> Self {
        Self::pair().1
    }

    /// Where it stands.
    pub fn stop(&self) -> Stop {
        *self.0.borrow()
    }

    /// Resolves when a stop of at least this urgency is asked for; never, where that can no longer happen.
    pub async fn reached(&self, level: Stop) {
        let mut rx = self.0.clone();
        if rx.wait_for(|stop| *stop >= level).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_ctrl_c_is_more_urgent_than_the_first() {
        let (canceller, cancel) = Cancel::pair();
        assert_eq!(cancel.stop(), Stop::No);
        canceller.escalate();
        cancel.reached(Stop::AfterStep).await;
        assert_eq!(cancel.stop(), Stop::AfterStep);
        canceller.escalate();
        cancel.reached(Stop::AtOnce).await;
    }
}
