//! A value that never shows itself: passwords, tokens, keys.

use std::fmt;

/// A string that `Debug` prints as `[redacted]`, that has no `Display`, and that serde cannot serialise.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The bare value, for the one place that hands it to the other side. Never log or format it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
