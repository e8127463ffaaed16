//! A real sshd on the loopback, with its own keys and, in a mount namespace of its own, its own accounts and sudoers:
//! nothing of this machine is changed.

use std::fmt::Write;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostspan::secret::Secret;
use hostspan::ssh::{Dialer, Endpoint, Finished, Prompt, Remote, RemoteError, Request, SshRemote, Target};
use sha2::{Digest, Sha256};

/// May use sudo with its password only.
pub const ADMIN: &str = "hostspan-admin";
/// The password of [`ADMIN`].
pub const PASSWORD: &str = "it's $canary \"pw\"";
/// `openssl passwd -6 -salt hostspan`, done beforehand: a test looks for the password in all argument lists.
const PASSWORD_HASH: &str =
    "$6$hostspan$mDIxNIQ2Q0IZuvI1XIN.XwK6ZF5UT17vVUvQDlBkhPz1Baq8lIWCZcXBwMuuX6mqQQESY2p7QMQrYllEzHu5B.";
/// May use sudo without a password.
pub const FREE: &str = "hostspan-free";
/// May not use sudo.
pub const GUEST: &str = "hostspan-guest";

pub struct Sshd {
    pub dir: tempfile::TempDir,
    pub port: u16,
    child: Child,
}

impl Sshd {
    pub fn start() -> Self {
        Self::with("")
    }

    /// With more lines of sshd_config; they come first, and sshd takes the first value that it sees. `{dir}` in them is
    /// the folder of this sshd; its `sftp.log` can be written by everybody.
    pub fn with(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["host_ed25519", "id_ed25519"] {
            keygen(&path.join(name), &["-t", "ed25519", "-N", ""]);
        }
        fs::copy(path.join("id_ed25519.pub"), path.join("authorized_keys")).unwrap();
        accounts(path);
        fs::write(path.join("sftp.log"), "").unwrap();
        fs::set_permissions(path.join("sftp.log"), fs::Permissions::from_mode(0o666)).unwrap();
        let port = free_port();
        let config = config.replace("{dir}", path.to_str().unwrap());
        let sftp = if config.contains("Subsystem") { "" } else { "Subsystem sftp internal-sftp" };
        let text = format!(
            "{config}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {0}/host_ed25519\n\
             AuthorizedKeysFile {0}/authorized_keys\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n\
             PasswordAuthentication no\nPidFile none\nMaxStartups 100\n{sftp}\n",
            path.display()
        );
        fs::write(path.join("sshd_config"), text).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        let script = format!(
            "for file in passwd shadow group sudoers; do mount --bind {0}/$file /etc/$file || exit 1; done; \
             exec /usr/sbin/sshd -D -E {0}/log -f {0}/sshd_config",
            path.display()
        );
        let child = Command::new("unshare").args(["-m", "sh", "-c", &script]).stdin(Stdio::null()).spawn().unwrap();
        let mut sshd = Self { dir, port, child };
        sshd.wait();
        sshd
    }

    fn wait(&mut self) {
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(self.child.try_wait().unwrap().is_none(), "sshd ended: {}", self.log());
            assert!(since.elapsed() < Duration::from_secs(20), "sshd does not listen: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a further key; `authorize` lets it in.
    pub fn key(&self, name: &str, arguments: &[&str], authorize: bool) -> PathBuf {
        let file = self.path(name);
        keygen(&file, arguments);
        if authorize {
            let public = fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap();
            let authorized = fs::read_to_string(self.path("authorized_keys")).unwrap();
            fs::write(self.path("authorized_keys"), authorized + &public).unwrap();
        }
        file
    }

    /// The line of known_hosts for a client that sees this sshd at `port` of the loopback.
    pub fn known_line(&self, port: u16) -> String {
        format!("[127.0.0.1]:{port} {}", fs::read_to_string(self.path("host_ed25519.pub")).unwrap())
    }

    pub fn endpoint(&self, user: &str) -> Endpoint {
        let known = self.path("known_hosts");
        if !known.exists() {
            fs::write(&known, self.known_line(self.port)).unwrap();
        }
        Endpoint {
            address: "127.0.0.1".into(),
            port: self.port,
            user: user.into(),
            identity_files: vec![self.path("id_ed25519")],
            default_identity_files: Vec::new(),
            identities_only: true,
            known_names: vec![format!("[127.0.0.1]:{}", self.port)],
            known_hosts: vec![known],
        }
    }

    pub fn target(&self, user: &str) -> Target {
        Target {
            host: "kvm-01".into(),
            endpoint: self.endpoint(user),
            jumps: Vec::new(),
            agent: None,
            accept_new: false,
        }
    }

    pub async fn connect(&self, user: &str) -> Arc<SshRemote> {
        connect(self.target(user)).await.unwrap_or_else(|error| panic!("{error:?}\n{}", self.log()))
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn keygen(file: &Path, arguments: &[&str]) {
    let status = Command::new("ssh-keygen").arg("-q").args(arguments).arg("-f").arg(file).status().unwrap();
    assert!(status.success());
}

fn accounts(dir: &Path) {
    let mut copies = [("passwd", 0o644), ("shadow", 0o640), ("group", 0o644)]
        .map(|(name, mode)| (name, mode, fs::read_to_string(format!("/etc/{name}")).unwrap()));
    for (number, user) in [(54_321, ADMIN), (54_322, FREE), (54_323, GUEST)] {
        writeln!(copies[0].2, "{user}:x:{number}:{number}::/tmp:/bin/sh").unwrap();
        writeln!(copies[1].2, "{user}:{PASSWORD_HASH}:19000:0:99999:7:::").unwrap();
        writeln!(copies[2].2, "{user}:x:{number}:").unwrap();
    }
    let sudoers = format!(
        "Defaults env_reset\nroot ALL=(ALL:ALL) ALL\n{ADMIN} ALL=(ALL:ALL) ALL\n{FREE} ALL=(ALL) NOPASSWD: ALL\n"
    );
    for (name, mode, text) in copies.into_iter().chain([("sudoers", 0o440, sudoers)]) {
        fs::write(dir.join(name), text).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Answers with fixed secrets and counts how often it is asked.
#[derive(Default)]
pub struct Fixed {
    pub passphrase: Option<&'static str>,
    pub password: Option<&'static str>,
    pub asked: std::sync::atomic::AtomicUsize,
}

impl Prompt for Fixed {
    fn key_passphrase(&self, _file: &Path) -> Option<Secret> {
        self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        self.passphrase.map(Secret::new)
    }

    fn sudo_password(&self, _user: &str, _host: &str) -> Option<Secret> {
        self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        self.password.map(Secret::new)
    }
}

/// In lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

pub async fn connect(target: Target) -> Result<Arc<SshRemote>, RemoteError> {
    Dialer::new(Arc::new(Fixed::default())).connect(target).await
}

/// Runs a script as the login user.
pub async fn sh(remote: &SshRemote, script: &str) -> Result<Finished, RemoteError> {
    remote.run(Request { script, root: false, timeout: Duration::from_mins(1) }, &mut |_| {}).await
}

/// Runs a script as root.
pub async fn as_root(remote: &SshRemote, script: &str) -> Result<Finished, RemoteError> {
    remote.run(Request { script, root: true, timeout: Duration::from_mins(1) }, &mut |_| {}).await
}
