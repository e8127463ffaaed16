//! Typed events in; bars, plain lines or JSON lines out. Work code only sends events and never prints.

mod event;

pub use event::{Event, Events, StepEnd};
