//! Where a host is and how to log in there: the fleet file first, ssh_config for what it leaves open.

use std::path::{Path, PathBuf};

use crate::fleet::expand_from;
use crate::fleet::model::{Fleet, Host, Ssh};

use super::config::{Config, Jump, Settings, expand};
use super::known_hosts::name_of;
use super::{RemoteError, RemoteErrorKind};

/// What this machine and the command line add to the fleet file.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the fleet file; relative paths in it start here.
    pub base: PathBuf,
    /// The home directory.
    pub home: PathBuf,
    /// The login name on this machine: the last resort for the one on the host.
    pub local_user: String,
    /// The agent's socket.
    pub agent: Option<PathBuf>,
    /// Keys from the command line; they replace those of the files.
    pub identity_files: Vec<PathBuf>,
    /// The login name from the command line.
    pub user: Option<String>,
    /// Record the keys of hosts that are not known yet, instead of refusing them.
    pub accept_new: bool,
}

impl Options {
    /// The options of this process's user, for a fleet file in `base`.
    pub fn of_this_user(base: &Path) -> Self {
        let account = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
        let home = std::env::var_os("HOME").map(PathBuf::from).or_else(|| account.as_ref().map(|a| a.dir.clone()));
        Self {
            base: base.to_path_buf(),
            home: home.unwrap_or_else(|| PathBuf::from("/")),
            local_user: account.map_or_else(|| "root".to_owned(), |account| account.name),
            agent: std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty()).map(PathBuf::from),
            identity_files: Vec::new(),
            user: None,
            accept_new: false,
        }
    }

    /// `~/` is the home directory, anything else relative to `base`.
    fn path(&self, text: &str, base: &Path) -> PathBuf {
        expand_from(Path::new(text), base, Some(&self.home))
    }
}

/// A host to connect to, with everything that was found about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host's name in the fleet file.
    pub host: String,
    /// The host itself.
    pub endpoint: Endpoint,
    /// Jump hosts, nearest to us first.
    pub jumps: Vec<Endpoint>,
    /// The agent's socket.
    pub agent: Option<PathBuf>,
    /// Whether unknown host keys are recorded instead of refused.
    pub accept_new: bool,
}

/// One sshd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Address or name, as the machine before it resolves it.
    pub address: String,
    /// Port.
    pub port: u16,
    /// Login name.
    pub user: String,
    /// Private key files (or public ones whose private half is in the agent), in the order they are tried.
    pub identity_files: Vec<PathBuf>,
    /// Key files that are tried when none is configured and they are there.
    pub default_identity_files: Vec<PathBuf>,
    /// Try nothing but `identity_files`.
    pub identities_only: bool,
    /// Its names in known_hosts; the first is the one that is recorded, the others can only vouch.
    pub known_names: Vec<String>,
    /// The user's known_hosts files; new keys go into the first one.
    pub known_hosts: Vec<PathBuf>,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{} port {}", self.user, self.address, self.port)
    }
}

/// As OpenSSH has them, without DSA.
const DEFAULT_FILES: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];

/// The longest chain of jump hosts that is followed.
const MAX_JUMPS: usize = 8;

impl Target {
    /// Works out how to reach a host. The second value is what a person should know, one sentence each.
    ///
    /// # Errors
    /// [`RemoteErrorKind::Local`] when ssh_config cannot be read or a jump host is not written as `[user@]host[:port]`.
    pub fn resolve(fleet: &Fleet, host: &Host, options: &Options) -> Result<(Self, Vec<String>), RemoteError> {
        let chosen = host.ssh.config.as_ref().or(fleet.spec.ssh.config.as_ref());
        let (path, named) = match chosen {
            Some(path) => (options.path(&path.to_string_lossy(), &options.base), true),
            None => (options.home.join(".ssh/config"), false),
        };
        let local = |message: String| RemoteError::new(&host.name, RemoteErrorKind::Local, message);
        let config = match std::fs::read_to_string(&path) {
            Ok(text) => Config::parse(&text).map_err(|error| local(format!("{}: {error}", path.display())))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => Config::default(),
            Err(error) => return Err(local(format!("{} cannot be read: {error}", path.display()))),
        };
        let (target, warnings) = resolve(&fleet.spec.ssh, host, &config, options).map_err(local)?;
        Ok((target, warnings.into_iter().map(|warning| format!("{}: {warning}", path.display())).collect()))
    }
}

/// The pure part of [`Target::resolve`].
fn resolve(fleet: &Ssh, host: &Host, config: &Config, options: &Options) -> Result<(Target, Vec<String>), String> {
    let address = host.address.to_string();
    let (settings, mut warnings) = config.lookup(&[&host.name, &address]);
    let port = host.ssh.port.or(fleet.port).or(settings.port).unwrap_or(22);
    let user = options.user.clone().or_else(|| host.ssh.user.clone()).or_else(|| fleet.user.clone());
    let mut endpoint = endpoint(&address, &host.name, user, port, &settings, options);

    let files = [&host.ssh.identity_files, &fleet.identity_files].into_iter().find(|files| !files.is_empty());
    let from_base = |path: &PathBuf| options.path(&path.to_string_lossy(), &options.base);
    let identity_files: Option<Vec<PathBuf>> = files.map(|files| files.iter().map(from_base).collect());
    if let Some(files) = &identity_files
        && options.identity_files.is_empty()
    {
        endpoint.identity_files.clone_from(files);
    }
    let known_hosts = [&host.ssh.known_hosts, &fleet.known_hosts].into_iter().find(|files| !files.is_empty());
    let known_hosts: Option<Vec<PathBuf>> = known_hosts.map(|files| files.iter().map(from_base).collect());
    if let Some(files) = &known_hosts {
        endpoint.known_hosts.clone_from(files);
    }

    let jumps = [&host.ssh.jump, &fleet.jump].into_iter().find(|jumps| !jumps.is_empty());
    let jumps = match jumps {
        Some(jumps) if jumps.iter().all(|jump| jump == "none") => Vec::new(),
        Some(jumps) => jumps.iter().map(|jump| Jump::parse(jump)).collect::<Result<_, _>>()?,
        None => settings.proxy_jump.clone().unwrap_or_default(),
    };
    let mut chain = Vec::new();
    follow(&jumps, config, options, &mut vec![(address, port)], &mut chain, &mut warnings)?;
    for jump in &mut chain {
        // The fleet file's keys open its jump hosts too; ssh_config's own for that host go first.
        if let Some(files) = &identity_files
            && jump.identity_files.is_empty()
        {
            jump.identity_files.clone_from(files);
        }
        if let Some(files) = &known_hosts {
            jump.known_hosts.clone_from(files);
        }
    }
    warnings.sort();
    warnings.dedup();
    let target = Target {
        host: host.name.clone(),
        endpoint,
        jumps: chain,
        agent: options.agent.clone(),
        accept_new: options.accept_new,
    };
    Ok((target, warnings))
}

/// Turns a list of jump hosts into endpoints. The first one may itself stand behind others; a host that is on the way
/// already (`ProxyJump` under `Host *` names itself) is not gone through again.
fn follow(
    jumps: &[Jump],
    config: &Config,
    options: &Options,
    on_the_way: &mut Vec<(String, u16)>,
    chain: &mut Vec<Endpoint>,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    for (index, jump) in jumps.iter().enumerate() {
        let (settings, more) = config.lookup(&[&jump.host]);
        warnings.extend(more);
        let address = settings.host_name.clone().unwrap_or_else(|| jump.host.clone());
        let port = jump.port.or(settings.port).unwrap_or(22);
        let nested = settings.proxy_jump.clone().unwrap_or_default();
        on_the_way.push((address.clone(), port));
        let turns_back = nested.iter().any(|next| {
            let (settings, _) = config.lookup(&[&next.host]);
            let address = settings.host_name.unwrap_or_else(|| next.host.clone());
            on_the_way.contains(&(address, next.port.or(settings.port).unwrap_or(22)))
        });
        if index == 0 && !turns_back {
            follow(&nested, config, options, on_the_way, chain, warnings)?;
        }
        if chain.len() == MAX_JUMPS {
            return Err(format!("more than {MAX_JUMPS} jump hosts in a row"));
        }
        chain.push(endpoint(&address, &jump.host, jump.user.clone(), port, &settings, options));
    }
    Ok(())
}

/// An endpoint with what ssh_config and the command line say about it.
fn endpoint(
    address: &str,
    alias: &str,
    user: Option<String>,
    port: u16,
    settings: &Settings,
    options: &Options,
) -> Endpoint {
    let user = user.or_else(|| settings.user.clone()).unwrap_or_else(|| options.local_user.clone());
    let (home, port_text) = (options.home.to_string_lossy(), port.to_string());
    let tokens = [
        ('h', address),
        ('n', alias),
        ('p', port_text.as_str()),
        ('r', user.as_str()),
        ('u', options.local_user.as_str()),
        ('d', &*home),
    ];
    // Relative paths in ssh_config are relative to ~/.ssh for nobody but sloppy writers; OpenSSH takes the folder it
    // was started in, and so do we.
    let path = |text: &String| options.path(&expand(text, &tokens), Path::new(""));
    let known_names = if let Some(name) = &settings.host_key_alias {
        vec![name.to_lowercase()]
    } else {
        let mut names = vec![name_of(address, port), name_of(alias, port)];
        if port != 22 {
            names.push(name_of(address, 22));
        }
        names.dedup();
        names
    };
    let known_hosts = match &settings.user_known_hosts {
        Some(files) => files.iter().map(path).collect(),
        None => vec![options.home.join(".ssh/known_hosts")],
    };
    let identity_files = match options.identity_files.as_slice() {
        [] => settings.identity_files.iter().map(path).collect(),
        files => files.to_vec(),
    };
    Endpoint {
        address: address.to_owned(),
        port,
        user,
        identity_files,
        default_identity_files: DEFAULT_FILES.iter().map(|name| options.home.join(".ssh").join(name)).collect(),
        identities_only: settings.identities_only,
        known_names,
        known_hosts,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::fleet::model::{Host, Ssh};

    use super::{Options, Target, resolve};
    use crate::ssh::config::Config;

    fn options() -> Options {
        Options {
            base: "/fleets/a".into(),
            home: "/home/me".into(),
            local_user: "me".into(),
            agent: None,
            identity_files: Vec::new(),
            user: None,
            accept_new: false,
        }
    }

    fn host(ssh: Ssh) -> Host {
        Host {
            name: "kvm-01".into(),
            address: "192.0.2.11".parse().unwrap(),
            roles: Vec::new(),
            uplink: crate::fleet::model::Uplink::default(),
            ssh,
        }
    }

    fn resolved(fleet: &Ssh, of_host: Ssh, config: &str, options: &Options) -> Target {
        resolve(fleet, &host(of_host), &Config::parse(config).unwrap(), options).unwrap().0
    }

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    /// Where each jump goes: user, address, port.
    fn route(target: &Target) -> Vec<String> {
        target.jumps.iter().map(|hop| format!("{}@{}:{}", hop.user, hop.address, hop.port)).collect()
    }

    #[test]
    fn what_nobody_says_is_as_with_ssh() {
        let target = resolved(&Ssh::default(), Ssh::default(), "", &options());
        let endpoint = &target.endpoint;
        assert_eq!((endpoint.user.as_str(), endpoint.address.as_str(), endpoint.port), ("me", "192.0.2.11", 22));
        assert_eq!(endpoint.known_hosts, paths(&["/home/me/.ssh/known_hosts"]));
        assert_eq!(endpoint.known_names[..2], ["192.0.2.11", "kvm-01"]);
        assert_eq!(endpoint.default_identity_files[0], PathBuf::from("/home/me/.ssh/id_ed25519"));
        assert!(endpoint.identity_files.is_empty() && target.jumps.is_empty());
    }

    #[test]
    fn the_host_wins_over_the_fleet_over_ssh_config() {
        let fleet = Ssh {
            user: Some("ops".into()),
            port: Some(2201),
            identity_files: paths(&["~/.ssh/fleet", "keys/second"]),
            jump: vec!["ops@bastion.example.test".into()],
            known_hosts: paths(&["known"]),
            config: None,
        };
        let config = "Host kvm-*\nUser nobody\nPort 9\nIdentityFile ~/x\nProxyJump z\nHostName other\n";
        let target = resolved(&fleet, Ssh { port: Some(2202), ..Ssh::default() }, config, &options());
        assert_eq!((target.endpoint.user.as_str(), target.endpoint.port), ("ops", 2202));
        assert_eq!(target.endpoint.address, "192.0.2.11", "the fleet file says where the host is");
        assert_eq!(target.endpoint.identity_files, paths(&["/home/me/.ssh/fleet", "/fleets/a/keys/second"]));
        assert_eq!(target.endpoint.known_hosts, paths(&["/fleets/a/known"]));
        assert_eq!(target.endpoint.known_names[0], "[192.0.2.11]:2202");
        assert_eq!(route(&target), ["ops@bastion.example.test:22"]);
        assert_eq!(target.jumps[0].identity_files, target.endpoint.identity_files);

        let none = Ssh { jump: vec!["none".into()], ..Ssh::default() };
        assert!(resolved(&fleet, none, config, &options()).jumps.is_empty());
        let flags = Options { user: Some("root".into()), identity_files: paths(&["/k"]), ..options() };
        let target = resolved(&fleet, Ssh::default(), config, &flags);
        assert_eq!((target.endpoint.user.as_str(), &target.endpoint.identity_files), ("root", &paths(&["/k"])));
    }

    #[test]
    fn ssh_config_fills_what_is_open() {
        let config = "Host 192.0.2.*\nUser %u\nHostKeyAlias Same\nUserKnownHostsFile ~/kh /etc/kh\n\
                      IdentityFile ~/.ssh/%r-%h\nIdentitiesOnly yes\n";
        let target = resolved(&Ssh::default(), Ssh::default(), &config.replace("%u", "ops"), &options());
        assert_eq!(target.endpoint.known_names, ["same"]);
        assert_eq!(target.endpoint.known_hosts, paths(&["/home/me/kh", "/etc/kh"]));
        assert_eq!(target.endpoint.identity_files, paths(&["/home/me/.ssh/ops-192.0.2.11"]));
        assert!(target.endpoint.identities_only);
    }

    #[test]
    fn jump_chains() {
        // Case 77: a jump for every host does not lead to itself for ever.
        let config = "Host *\nPort 2200\nProxyJump jump@[2001:db8::9]:2022,j2\n";
        let target = resolved(&Ssh::default(), Ssh::default(), config, &options());
        assert_eq!(route(&target), ["jump@2001:db8::9:2022", "me@j2:2200"]);

        let config = "Host kvm-*\nProxyJump inner\nHost inner\nHostName 10.0.0.1\nUser in\nProxyJump outer\n\
                      Host outer\nHostName outer.example.test\nPort 2022\n";
        let target = resolved(&Ssh::default(), Ssh::default(), config, &options());
        assert_eq!(route(&target), ["me@outer.example.test:2022", "in@10.0.0.1:22"]);
        assert_eq!(target.jumps[1].known_names, ["10.0.0.1", "inner"]);

        let turning = "Host kvm-*\nProxyJump a\nHost a\nProxyJump b\nHost b\nProxyJump a\n";
        let target = resolved(&Ssh::default(), Ssh::default(), turning, &options());
        assert_eq!(route(&target), ["me@b:22", "me@a:22"]);

        let long: Vec<String> = (0..9).map(|number| format!("j{number}")).collect();
        let fleet = Ssh { jump: long, ..Ssh::default() };
        let error = resolve(&fleet, &host(Ssh::default()), &Config::default(), &options()).unwrap_err();
        assert!(error.contains("jump hosts"), "{error}");
    }
}
