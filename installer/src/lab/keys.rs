//! Keys, passwords and machine ids of a lab.

use std::fs;
use std::path::Path;

use rand::RngExt;

use super::tool::Tools;
use super::{LabError, disk};

/// Makes an ed25519 key pair at `path` and returns the public half's line, without its comment.
pub(super) async fn key_pair(tools: &Tools, path: &Path, comment: &str) -> Result<String, LabError> {
    let public = path.with_added_extension("pub");
    if !public.exists() {
        // ssh-keygen asks before it writes over a half-made pair.
        disk::remove_file(path)?;
        let file = path.display().to_string();
        tools.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", &file]).await?;
    }
    let line =
        fs::read_to_string(&public).map_err(LabError::io(format!("read {}", public.display())))?.trim().to_owned();
    let mut words = line.split_ascii_whitespace();
    Ok([words.next(), words.next()].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// `n` random letters and digits.
pub(super) fn random_text(n: usize) -> String {
    rand::rng().sample_iter(rand::distr::Alphanumeric).take(n).map(char::from).collect()
}

/// A machine id: 32 hex digits.
pub(super) fn machine_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// The crypt(3) hash of a password.
pub(super) async fn password_hash(tools: &Tools, password: &str) -> Result<String, LabError> {
    Ok(tools.run_with("openssl", &["passwd", "-6", "-stdin"], password).await?.trim().to_owned())
}
