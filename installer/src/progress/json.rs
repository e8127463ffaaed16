//! One JSON line an event, for programs.

use std::io::Write;
use std::time::Instant;

use super::{Driver, Event};

/// Writes each event as it comes; `type` names it.
pub(super) struct Json<W> {
    out: W,
}

impl<W: Write + Send> Json<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write + Send> Driver for Json<W> {
    fn event(&mut self, event: &Event, _now: Instant) {
        // A reader that went away is no error of the work.
        if let Ok(line) = serde_json::to_string(event) {
            drop(writeln!(self.out, "{line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::StepEnd;

    #[test]
    fn an_event_is_one_line_with_its_type_and_camel_case_keys() {
        let mut json = Json::new(Vec::new());
        json.event(
            &Event::StepFinished {
                host: "kvm-01".into(),
                phase: "runtime".into(),
                step: "runtime/containerd".into(),
                end: StepEnd::Changed,
                took_ms: 1200,
                message: None,
            },
            Instant::now(),
        );
        assert_eq!(
            String::from_utf8(json.out).unwrap(),
            "{\"type\":\"step-finished\",\"host\":\"kvm-01\",\"phase\":\"runtime\",\"step\":\"runtime/containerd\",\
             \"end\":\"changed\",\"tookMs\":1200}\n"
        );
    }
}
