//! This machine as a host, for tests of scripts.

use std::process::Stdio;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt;

use crate::ssh::{Finished, OnLine, Remote, RemoteError, Request, Upload};

/// Runs scripts with this machine's `sh`, as SSH would: the text on standard input.
pub(super) struct Local;

impl Remote for Local {
    fn host(&self) -> &'static str {
        "a"
    }

    fn run<'a>(&'a self, request: Request<'a>, _: OnLine<'a>) -> BoxFuture<'a, Result<Finished, RemoteError>> {
        async move {
            let mut child = tokio::process::Command::new("sh")
                .env("LC_ALL", "C")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(request.script.as_bytes()).await.unwrap();
            drop(stdin);
            let output = child.wait_with_output().await.unwrap();
            Ok(Finished {
                code: output.status.code().unwrap(),
                stdout: String::from_utf8(output.stdout).unwrap(),
                stderr: String::from_utf8(output.stderr).unwrap(),
            })
        }
        .boxed()
    }

    fn upload<'a>(
        &'a self,
        _: Upload<'a>,
        _: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        async { Ok(false) }.boxed()
    }

    fn reconnect(&self) -> BoxFuture<'_, Result<(), RemoteError>> {
        async { Ok(()) }.boxed()
    }
}
