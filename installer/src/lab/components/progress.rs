//! One bar over everything that a folder needs, in seconds of expected work.

use crate::progress::{Event, Events};

/// How far the work is.
pub(super) struct Progress<'a> {
    events: &'a Events,
    done: u64,
    total: u64,
}

impl<'a> Progress<'a> {
    /// Of `total` seconds.
    pub(super) fn new(events: &'a Events, total: u64) -> Self {
        Self { events, done: 0, total }
    }

    /// Says what is done now, `within` seconds into the current piece of work.
    pub(super) fn show(&self, title: &str, within: u64) {
        self.events.send(Event::Stage {
            name: "components".into(),
            title: title.into(),
            done: Some(self.done + within),
            total: Some(self.total),
        });
    }

    /// A piece of work is done, however long it took.
    pub(super) fn finished(&mut self, seconds: u64) {
        self.done += seconds;
    }
}
