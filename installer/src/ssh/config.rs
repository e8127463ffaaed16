//! ssh_config: the settings in it that matter for reaching a host. Pure: text in, values out.
//!
//! The first value found wins, except for `IdentityFile`, which adds up. What we do not follow and what would change
//! the way to a host (`Include`, `Match`, `ProxyCommand`) gives a warning, never silence.

use super::pattern::{Pattern, list_matches};

/// A parsed file.
#[derive(Debug, Clone, Default)]
pub struct Config {
    blocks: Vec<Block>,
    warnings: Vec<String>,
}

#[derive(Debug, Clone)]
struct Block {
    applies: Applies,
    settings: Vec<Setting>,
}

#[derive(Debug, Clone)]
enum Applies {
    Always,
    Hosts(Vec<Pattern>),
    /// Under a `Match`, which we do not judge.
    Never,
}

#[derive(Debug, Clone)]
enum Setting {
    HostName(String),
    User(String),
    Port(u16),
    IdentityFile(String),
    IdentitiesOnly(bool),
    ProxyJump(Vec<Jump>),
    HostKeyAlias(String),
    UserKnownHostsFile(Vec<String>),
    /// A setting that changes the way to the host and that we do not have.
    Unsupported {
        keyword: String,
        line: usize,
    },
}

/// What a file says about one host. Absent is what it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `HostName` with `%h` filled in.
    pub host_name: Option<String>,
    /// `User`.
    pub user: Option<String>,
    /// `Port`.
    pub port: Option<u16>,
    /// `IdentityFile`s in order, `~` and tokens as they stand.
    pub identity_files: Vec<String>,
    /// `IdentitiesOnly`.
    pub identities_only: bool,
    /// `ProxyJump`, nearest to us first; empty for `none`.
    pub proxy_jump: Option<Vec<Jump>>,
    /// `HostKeyAlias`.
    pub host_key_alias: Option<String>,
    /// `UserKnownHostsFile`s, `~` and tokens as they stand; empty for `none`.
    pub user_known_hosts: Option<Vec<String>>,
}

/// `[user@]host[:port]` of a `ProxyJump`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jump {
    /// Login name.
    pub user: Option<String>,
    /// A name or an address, without brackets.
    pub host: String,
    /// Port.
    pub port: Option<u16>,
}

/// A line that is not ssh_config.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ConfigError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Config {
    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut block = Block { applies: Applies::Always, settings: Vec::new() };
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            let fail = |message: String| ConfigError { line, message };
            let Some((keyword, arguments)) = split_line(text).map_err(fail)? else { continue };
            let applies = match keyword.as_str() {
                "host" => Applies::Hosts(arguments.iter().map(|pattern| Pattern::parse(pattern)).collect()),
                "match" => {
                    config.warnings.push(format!("line {line}: the settings under `Match` are not read"));
                    Applies::Never
                }
                "include" => {
                    config.warnings.push(format!("line {line}: `Include` is not followed"));
                    continue;
                }
                _ => {
                    block.settings.extend(setting(&keyword, &arguments, line).map_err(fail)?);
                    continue;
                }
            };
            config.blocks.push(std::mem::replace(&mut block, Block { applies, settings: Vec::new() }));
        }
        config.blocks.push(block);
        Ok(config)
    }

    /// What the file says about a host that goes by `names`; the first is the one that `%h` stands for. Warnings are
    /// about what in the file we do not follow.
    pub fn lookup(&self, names: &[&str]) -> (Settings, Vec<String>) {
        let mut found = Settings::default();
        let mut identities_only = None;
        let mut warnings = self.warnings.clone();
        let applying = self.blocks.iter().filter(|block| match &block.applies {
            Applies::Always => true,
            Applies::Hosts(patterns) => list_matches(patterns, names),
            Applies::Never => false,
        });
        for setting in applying.flat_map(|block| &block.settings).cloned() {
            match setting {
                Setting::HostName(name) => first(&mut found.host_name, name),
                Setting::User(user) => first(&mut found.user, user),
                Setting::Port(port) => first(&mut found.port, port),
                Setting::IdentityFile(file) => found.identity_files.push(file),
                Setting::IdentitiesOnly(only) => first(&mut identities_only, only),
                Setting::ProxyJump(jumps) => first(&mut found.proxy_jump, jumps),
                Setting::HostKeyAlias(alias) => first(&mut found.host_key_alias, alias),
                Setting::UserKnownHostsFile(files) => first(&mut found.user_known_hosts, files),
                Setting::Unsupported { keyword, line } => {
                    warnings.push(format!("line {line}: `{keyword}` is not supported and was ignored"));
                }
            }
        }
        found.identities_only = identities_only.unwrap_or(false);
        if let (Some(pattern), Some(name)) = (&found.host_name, names.first()) {
            found.host_name = Some(expand(pattern, &[('h', *name)]));
        }
        // `none` among several files says nothing; alone it means: none at all.
        found.identity_files.retain(|file| file != "none");
        (found, warnings)
    }
}

/// Fills in `%` tokens; `%%` is a percent sign, and a token that is not listed stays as it is.
pub fn expand(text: &str, tokens: &[(char, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('%') | None => out.push('%'),
            Some(token) => match tokens.iter().find(|(name, _)| *name == token) {
                Some((_, value)) => out.push_str(value),
                None => out.extend(['%', token]),
            },
        }
    }
    out
}

fn first<T>(slot: &mut Option<T>, value: T) {
    slot.get_or_insert(value);
}

impl Jump {
    /// Parses `[user@]host[:port]`; an IPv6 address with a port stands in brackets.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not [user@]host[:port]");
        let rest = text.strip_prefix("ssh://").map_or(text, |rest| rest.trim_end_matches('/'));
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, rest),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(bad)?;
                match after {
                    "" => (host, None),
                    _ => (host, Some(after.strip_prefix(':').ok_or_else(bad)?)),
                }
            }
            // Several colons without brackets: an IPv6 address.
            None => match rest.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (rest, None),
            },
        };
        let port = port.map(str::parse).transpose().map_err(|_| bad())?;
        let blank = |part: &str| part.is_empty() || part.contains(char::is_whitespace);
        if blank(host) || user.as_deref().is_some_and(blank) || port == Some(0) {
            return Err(bad());
        }
        Ok(Self { user, host: host.to_owned(), port })
    }
}

fn setting(keyword: &str, arguments: &[String], line: usize) -> Result<Option<Setting>, String> {
    let value = || arguments.first().cloned().ok_or_else(|| format!("`{keyword}` has no value"));
    Ok(Some(match keyword {
        "hostname" => Setting::HostName(value()?),
        "user" => Setting::User(value()?),
        "port" => match value()?.parse() {
            Ok(port) if port != 0 => Setting::Port(port),
            _ => return Err(format!("`{}` is not a port", value()?)),
        },
        "identityfile" => Setting::IdentityFile(value()?),
        "identitiesonly" => Setting::IdentitiesOnly(yes_or_no(&value()?)?),
        "proxyjump" => match value()? {
            none if none.eq_ignore_ascii_case("none") => Setting::ProxyJump(Vec::new()),
            list => Setting::ProxyJump(list.split(',').map(|jump| Jump::parse(jump.trim())).collect::<Result<_, _>>()?),
        },
        "hostkeyalias" => Setting::HostKeyAlias(value()?),
        "userknownhostsfile" => match value()? {
            none if none.eq_ignore_ascii_case("none") => Setting::UserKnownHostsFile(Vec::new()),
            _ => Setting::UserKnownHostsFile(arguments.to_vec()),
        },
        "proxycommand" | "identityagent" | "certificatefile" => {
            if value()?.eq_ignore_ascii_case("none") {
                return Ok(None);
            }
            Setting::Unsupported { keyword: keyword.to_owned(), line }
        }
        _ => return Ok(None),
    }))
}

fn yes_or_no(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err(format!("`{value}` is neither yes nor no")),
    }
}

/// The keyword in lower case and its arguments; `None` for an empty line or a comment.
fn split_line(line: &str) -> Result<Option<(String, Vec<String>)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let end = line.find(|c: char| c.is_whitespace() || c == '=' || c == '"').unwrap_or(line.len());
    let (keyword, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    Ok(Some((keyword.to_ascii_lowercase(), words(rest)?)))
}

/// Words as OpenSSH splits them: single and double quotes, a backslash before a quote or a backslash (outside quotes
/// before a space too), a comment from a `#` that begins a word.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (_, '\\') if chars.peek().is_some_and(|&n| "\\'\"".contains(n) || (quote.is_none() && n == ' ')) => {
                word.get_or_insert_default().extend(chars.next());
            }
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Config, Jump, Settings, expand, words};

    fn lookup(text: &str, name: &str) -> (Settings, Vec<String>) {
        Config::parse(text).unwrap().lookup(&[name])
    }

    fn jump(user: Option<&str>, host: &str, port: Option<u16>) -> Jump {
        Jump { user: user.map(str::to_owned), host: host.into(), port }
    }

    /// Case 77.
    const RACKS: &str = "
Host rack-a-* rack-b-* !rack-b-9
  HostName %h.example.test
  User ops
  IdentityFile '~/.ssh/rack key'
Host *
  Port 2200
  IdentityFile ~/.ssh/id_ed25519
  ProxyJump jump@[2001:db8::9]:2022,j2
";

    #[test]
    fn racks() {
        let common = Settings {
            port: Some(2200),
            identity_files: vec!["~/.ssh/id_ed25519".into()],
            proxy_jump: Some(vec![jump(Some("jump"), "2001:db8::9", Some(2022)), jump(None, "j2", None)]),
            ..Settings::default()
        };
        let of_rack = |name: &str| Settings {
            host_name: Some(format!("{name}.example.test")),
            user: Some("ops".into()),
            identity_files: vec!["~/.ssh/rack key".into(), "~/.ssh/id_ed25519".into()],
            ..common.clone()
        };
        assert_eq!(lookup(RACKS, "rack-a-1"), (of_rack("rack-a-1"), vec![]));
        assert_eq!(lookup(RACKS, "rack-b-1"), (of_rack("rack-b-1"), vec![]));
        assert_eq!(lookup(RACKS, "rack-b-9"), (common.clone(), vec![]), "negated");
        assert_eq!(lookup(RACKS, "elsewhere"), (common, vec![]));
    }

    #[test]
    fn spellings() {
        let text = "PORT=2201\nuser = \"a b\"\nIdentitiesOnly YES\nhostkeyalias\tsame # a comment\n\
                    UserKnownHostsFile ~/a \"/b c/d\"\nProxyCommand none\n  # nothing\n\
                    hostname=10.0.0.1\nPort 99\nUser late\nServerAliveInterval 5\n";
        let (settings, warnings) = lookup(text, "x");
        let expected = Settings {
            host_name: Some("10.0.0.1".into()),
            user: Some("a b".into()),
            port: Some(2201),
            identities_only: true,
            host_key_alias: Some("same".into()),
            user_known_hosts: Some(vec!["~/a".into(), "/b c/d".into()]),
            ..Settings::default()
        };
        assert_eq!((settings, warnings), (expected, vec![]));
    }

    #[test]
    fn none_switches_off() {
        let text = "IdentityFile none\nProxyJump none\nUserKnownHostsFile none\nHost *\nProxyJump j\n";
        let (settings, _) = lookup(text, "x");
        assert_eq!(settings.identity_files, Vec::<String>::new());
        assert_eq!(settings.proxy_jump, Some(vec![]));
        assert_eq!(settings.user_known_hosts, Some(vec![]));
    }

    #[test]
    fn what_is_not_followed_gives_a_warning() {
        let text = "Include config.d/*\nMatch host x\nPort 1\nHost x\nProxyCommand nc %h %p\nHost y\nProxyCommand nc\n";
        let (settings, warnings) = lookup(text, "x");
        assert_eq!(settings, Settings::default(), "what stands under Match does not count");
        let lines: Vec<&str> = warnings.iter().filter_map(|warning| warning.split(':').next()).collect();
        assert_eq!(lines, ["line 1", "line 2", "line 5"]);
    }

    #[test]
    fn faults_have_their_line() {
        for (text, line) in [
            ("Port x", 1),
            ("\nPort 0", 2),
            ("User", 1),
            ("IdentityFile \"open", 1),
            ("Host *\nIdentitiesOnly maybe", 2),
            ("ProxyJump a@b@:x", 1),
            ("ProxyJump [::1", 1),
            ("ProxyJump ,", 1),
            ("Port 70000", 1),
        ] {
            assert_eq!(Config::parse(text).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn jumps() {
        for (text, expected) in [
            ("h", jump(None, "h", None)),
            ("u@h:22", jump(Some("u"), "h", Some(22))),
            ("u@dom@h", jump(Some("u@dom"), "h", None)),
            ("2001:db8::1", jump(None, "2001:db8::1", None)),
            ("[2001:db8::1]", jump(None, "2001:db8::1", None)),
            ("u@[2001:db8::1]:2022", jump(Some("u"), "2001:db8::1", Some(2022))),
            ("ssh://u@h:2022/", jump(Some("u"), "h", Some(2022))),
        ] {
            assert_eq!(Jump::parse(text).as_ref(), Ok(&expected), "{text}");
        }
        for text in ["", "@h", "h:", "h:0", "h:65536", "[::1]x", "a b", "u@"] {
            assert!(Jump::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quotes_and_escapes() {
        for (text, expected) in [
            (r#"a "b c" d"#, vec!["a", "b c", "d"]),
            (r"a\ b 'it\'s' x\y", vec!["a b", "it's", r"x\y"]),
            (r#""" a#b #c"#, vec!["", "a#b"]),
            (r#"pre"mid dle"post"#, vec!["premid dlepost"]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn tokens() {
        assert_eq!(expand("%h-%%h-%x-%", &[('h', "name")]), "name-%h-%x-%");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).{0,300}", name in ".{0,20}") {
            if let Ok(config) = Config::parse(&text) {
                config.lookup(&[&name]);
            }
        }

        #[test]
        fn near_misses_do_not_panic(
            parts in prop::collection::vec(
                prop::sample::select(vec!["Host", "Match", "Port", "ProxyJump", "IdentityFile", "HostName", "=", " ", "\t", "\n",
                    "\"", "'", "\\", "#", "*", "!", "%h", "%", "[", "]", ":", "@", ",", "22", "none", "ä"]), 0..40)
        ) {
            if let Ok(config) = Config::parse(&parts.concat()) {
                config.lookup(&["ä", "22"]);
            }
        }
    }
}
