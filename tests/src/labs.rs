//! Labs that tests bring up are noted, so that `tests/run` can take down what a killed test left.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Notes a lab's name before it is brought up.
pub fn note(name: &str) -> std::io::Result<()> {
    let Some(file) = std::env::var_os("HOSTSPAN_TEST_LABS") else { return Ok(()) };
    writeln!(OpenOptions::new().append(true).create(true).open(file)?, "{name}")
}
