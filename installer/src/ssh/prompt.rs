//! What a person is asked, at most once a run: passphrases of key files and passwords for sudo.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use russh::keys::{PrivateKey, decode_secret_key};
use tokio::sync::Mutex;

use crate::secret::Secret;

/// Asks a person, or takes the answer from wherever the command line says. May block; `None` when there is no answer.
pub trait Prompt: Send + Sync {
    /// The passphrase of a private key file.
    fn key_passphrase(&self, file: &Path) -> Option<Secret>;

    /// The password that sudo wants of `user` on `host` (its name in the fleet file).
    fn sudo_password(&self, user: &str, host: &str) -> Option<Secret>;
}

/// Has no answers: for runs without a person and without secrets.
#[derive(Debug, Clone, Copy)]
pub struct NoPrompt;

impl Prompt for NoPrompt {
    fn key_passphrase(&self, _file: &Path) -> Option<Secret> {
        None
    }

    fn sudo_password(&self, _user: &str, _host: &str) -> Option<Secret> {
        None
    }
}

/// Remembers answers, bad ones too, so that twenty hosts with the same key ask once. One lock: two questions at the
/// same time would garble each other on a terminal.
pub(super) struct Answers {
    prompt: Arc<dyn Prompt>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<PathBuf, Result<Arc<PrivateKey>, String>>,
    passwords: HashMap<(String, String), Option<Secret>>,
}

impl Answers {
    pub(super) fn new(prompt: Arc<dyn Prompt>) -> Self {
        Self { prompt, known: Mutex::default() }
    }

    /// The key in an encrypted file; `text` is the file's content.
    pub(super) async fn unlock(&self, file: &Path, text: String) -> Result<Arc<PrivateKey>, String> {
        let mut known = self.known.lock().await;
        if let Some(key) = known.keys.get(file) {
            return key.clone();
        }
        let (prompt, path) = (Arc::clone(&self.prompt), file.to_path_buf());
        let unlocked = tokio::task::spawn_blocking(move || {
            let passphrase = prompt.key_passphrase(&path).ok_or("is encrypted, and there is no passphrase for it")?;
            let key = decode_secret_key(&text, Some(passphrase.expose())).map_err(|_| "has another passphrase")?;
            Ok(Arc::new(key))
        });
        let key = unlocked.await.unwrap_or(Err("could not be unlocked")).map_err(str::to_owned);
        known.keys.insert(file.to_path_buf(), key.clone());
        key
    }

    /// The password that sudo wants of `user` on `host`.
    pub(super) async fn sudo_password(&self, user: &str, host: &str) -> Option<Secret> {
        let mut known = self.known.lock().await;
        let place = (user.to_owned(), host.to_owned());
        if let Some(password) = known.passwords.get(&place) {
            return password.clone();
        }
        let (prompt, (user, host)) = (Arc::clone(&self.prompt), place.clone());
        let asked = tokio::task::spawn_blocking(move || prompt.sudo_password(&user, &host));
        let password = asked.await.unwrap_or(None);
        known.passwords.insert(place, password.clone());
        password
    }
}
