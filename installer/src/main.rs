//! Exit codes and signals, nothing else.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Duration;

use hostspan::cli;
use hostspan::engine::{Cancel, Canceller, Stop};
use hostspan::exit::Exit;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    keep_memory_private();
    // First of all: with two providers in the tree rustls would otherwise refuse to choose. An error means that one is
    // installed already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let exit = match cli::parse(std::env::args_os()) {
        // A panic is our bug, and its exit code must not be Rust's own 101. Its text has been printed by then.
        Ok(cli) => std::panic::catch_unwind(AssertUnwindSafe(|| run(cli))).unwrap_or(Exit::Bug),
        Err(exit) => exit,
    };
    ExitCode::from(exit.code())
}

/// Keys and the sudo password are in this process's memory: no core file of it, and no other process of the same user that
/// reads it. Only Linux has it in this form; an error elsewhere would stop a run that is otherwise fine.
fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_dumpable(false);
}

fn run(cli: cli::Cli) -> Exit {
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return Exit::Bug };
    let (canceller, cancel) = Cancel::pair();
    let exit = runtime.block_on(async {
        tokio::spawn(watch(canceller, cancel.clone()));
        cli::run(cli, cancel).await
    });
    cli::restore_terminal();
    // Not waiting for threads that still read a terminal on which nobody will type.
    runtime.shutdown_background();
    exit
}

/// How long an urgent stop may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// The first Ctrl-C or SIGTERM asks for a stop after the running step; the second one for a stop at once, and ends the
/// process if that takes long. Hosts stand that: the next run goes on from what it sees.
async fn watch(canceller: Canceller, cancel: Cancel) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        canceller.escalate();
        if cancel.stop() == Stop::AtOnce {
            tokio::time::sleep(GRACE).await;
            cli::restore_terminal();
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
    }
}
