//! A story of steps that share one lab: each counts as a test, and what comes after a broken step is not tried.

use std::future::Future;
use std::process::ExitCode;
use std::time::Instant;

/// Steps that are run in order, printed and counted as cargo's own tests are.
#[derive(Debug)]
pub struct Scenario {
    started: Instant,
    passed: usize,
    failed: usize,
    broken: bool,
}

impl Scenario {
    /// Nothing run yet.
    pub fn new() -> Self {
        Self { started: Instant::now(), passed: 0, failed: 0, broken: false }
    }

    /// Cleans up, also after a broken step.
    pub async fn always(&mut self, name: &str, step: impl Future<Output = anyhow::Result<()>>) {
        self.broken = false;
        self.step(name, step).await;
    }

    /// Runs a step that later steps do not stand on.
    pub async fn check(&mut self, name: &str, step: impl Future<Output = anyhow::Result<()>>) {
        self.step(name, step).await;
    }

    /// Runs a step that all later ones stand on: when it fails they are counted as failed and not run.
    pub async fn must(&mut self, name: &str, step: impl Future<Output = anyhow::Result<()>>) {
        if !self.step(name, step).await {
            self.broken = true;
        }
    }

    async fn step(&mut self, name: &str, step: impl Future<Output = anyhow::Result<()>>) -> bool {
        if self.broken {
            self.failed += 1;
            println!("test {name} ... FAILED (not run: an earlier step failed)");
            return false;
        }
        let started = Instant::now();
        let result = step.await;
        let took = started.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok ({took:.1}s)");
                true
            }
            Err(error) => {
                self.failed += 1;
                println!("test {name} ... FAILED ({took:.1}s)\n{error:#}\n");
                false
            }
        }
    }

    /// Prints the closing line that test runners and `tests/run` read.
    pub fn finish(self) -> ExitCode {
        let verdict = if self.failed == 0 { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s\n",
            self.passed,
            self.failed,
            self.started.elapsed().as_secs_f64()
        );
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self::new()
    }
}
