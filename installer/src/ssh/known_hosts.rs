//! known_hosts: what the files say about a key that a host offers.
//!
//! Our own, since russh's stops at the first line that names the host, knows no markers, wildcards or tabs, and calls a
//! host that is known by another key type simply unknown.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::pattern::{Pattern, list_matches};

/// Where a line stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Counted from 1, comments and empty lines too.
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} line {}", self.file.display(), self.line)
    }
}

/// What the files say about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A line has this host and this key.
    Match,
    /// Lines have this host with a key of this type, and it is another key.
    Changed(Place),
    /// The host is known, but only by keys of other types.
    OtherType(Place),
    /// No line has this host. `authority`: a `@cert-authority` line has it, which we do not judge by.
    Unknown {
        /// Whether a `@cert-authority` line names the host.
        authority: bool,
    },
    /// A `@revoked` line has this key.
    Revoked(Place),
}

/// The lines of all known_hosts files.
#[derive(Debug, Clone, Default)]
pub struct KnownHosts {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    place: Place,
    marker: Marker,
    names: Names,
    key_type: String,
    key: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    None,
    CertAuthority,
    Revoked,
}

#[derive(Debug, Clone)]
enum Names {
    Listed(Vec<Pattern>),
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

impl Names {
    fn parse(text: &str) -> Option<Self> {
        let Some(rest) = text.strip_prefix('|') else {
            return Some(Self::Listed(text.split(',').map(Pattern::parse).collect()));
        };
        // |1|salt|HMAC-SHA1(salt, name)|; other numbers have never been assigned.
        let (salt, hash) = rest.strip_prefix("1|")?.split_once('|')?;
        Some(Self::Hashed { salt: STANDARD.decode(salt).ok()?, hash: STANDARD.decode(hash).ok()? })
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Listed(patterns) => list_matches(patterns, &[name]),
            Self::Hashed { salt, hash } => Hmac::<Sha1>::new_from_slice(salt)
                .is_ok_and(|mac| mac.chain_update(name.to_lowercase()).verify_slice(hash).is_ok()),
        }
    }
}

impl KnownHosts {
    /// Adds the lines of a file. Lines that are not well formed say nothing about any host, as with OpenSSH.
    pub fn add(&mut self, file: &Path, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let place = Place { file: file.to_path_buf(), line: index + 1 };
            self.entries.extend(parse_line(line, place));
        }
    }

    /// What the files say about the key that a host offers under `name` (as [`name_of`] writes it).
    ///
    /// `key` is the key's wire form and `key_type` its name there (`ssh-rsa` for RSA, whatever it signs with).
    pub fn verdict(&self, name: &str, key_type: &str, key: &[u8]) -> Verdict {
        let named: Vec<&Entry> = self.entries.iter().filter(|entry| entry.names.matches(name)).collect();
        let with = |marker: Marker| named.iter().filter(move |entry| entry.marker == marker);
        if let Some(entry) = with(Marker::Revoked).find(|entry| entry.key == key) {
            return Verdict::Revoked(entry.place.clone());
        }
        if with(Marker::None).any(|entry| entry.key == key) {
            return Verdict::Match;
        }
        if let Some(entry) = with(Marker::None).find(|entry| entry.key_type == key_type) {
            return Verdict::Changed(entry.place.clone());
        }
        match with(Marker::None).next() {
            Some(entry) => Verdict::OtherType(entry.place.clone()),
            None => Verdict::Unknown { authority: with(Marker::CertAuthority).next().is_some() },
        }
    }

    /// The verdict for a host that goes by several names. The first is what it was dialled as; the others can only
    /// vouch for it or revoke its key: another host may have been recorded under such a name.
    pub fn verdict_of_names(&self, names: &[String], key_type: &str, key: &[u8]) -> Verdict {
        let verdicts: Vec<Verdict> = names.iter().map(|name| self.verdict(name, key_type, key)).collect();
        let decisive = |wanted: fn(&Verdict) -> bool| verdicts.iter().find(|verdict| wanted(verdict)).cloned();
        decisive(|verdict| matches!(verdict, Verdict::Revoked(_)))
            .or_else(|| match verdicts.first() {
                Some(Verdict::Changed(place)) => Some(Verdict::Changed(place.clone())),
                _ => None,
            })
            .or_else(|| decisive(|verdict| *verdict == Verdict::Match))
            .or_else(|| verdicts.first().cloned())
            .unwrap_or(Verdict::Unknown { authority: false })
    }

    /// Types of the keys that are recorded for any of the names; they go first in negotiation.
    pub fn recorded_types(&self, names: &[String]) -> Vec<&str> {
        self.entries
            .iter()
            .filter(|entry| entry.marker == Marker::None && names.iter().any(|name| entry.names.matches(name)))
            .map(|entry| entry.key_type.as_str())
            .collect()
    }
}

/// A host's name in known_hosts: bare for port 22, else `[host]:port`.
pub fn name_of(host: &str, port: u16) -> String {
    let host = host.to_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

/// A line for a new host, with its newline.
pub fn line_for(name: &str, key_type: &str, key: &[u8]) -> String {
    format!("{name} {key_type} {}\n", STANDARD.encode(key))
}

fn parse_line(line: &str, place: Place) -> Option<Entry> {
    let mut fields = line.split([' ', '\t', '\r']).filter(|field| !field.is_empty());
    let mut first = fields.next()?;
    if first.starts_with('#') {
        return None;
    }
    let marker = match first {
        "@revoked" => Marker::Revoked,
        "@cert-authority" => Marker::CertAuthority,
        other if other.starts_with('@') => return None,
        _ => Marker::None,
    };
    if marker != Marker::None {
        first = fields.next()?;
    }
    let names = Names::parse(first)?;
    let key_type = fields.next()?;
    let key = STANDARD.decode(fields.next()?).ok()?;
    // The blob names its own type; a line where the two differ is damaged.
    let inner = key.get(4..4 + usize::try_from(u32::from_be_bytes(key.get(..4)?.try_into().ok()?)).ok()?)?;
    (inner == key_type.as_bytes()).then(|| Entry { place, marker, names, key_type: key_type.to_owned(), key })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hmac::{Hmac, KeyInit, Mac};
    use proptest::prelude::*;
    use sha1::Sha1;

    use super::{KnownHosts, Place, Verdict, line_for, name_of};

    const ED: &str = "ssh-ed25519";
    const EC: &str = "ecdsa-sha2-nistp256";
    const RSA: &str = "ssh-rsa";

    /// A key's wire form, as far as known_hosts looks into it.
    fn key(key_type: &str, content: u8) -> Vec<u8> {
        let mut blob = u32::try_from(key_type.len()).unwrap().to_be_bytes().to_vec();
        blob.extend_from_slice(key_type.as_bytes());
        blob.extend_from_slice(&[0, 0, 0, 1, content]);
        blob
    }

    fn line(names: &str, key_type: &str, content: u8) -> String {
        line_for(names, key_type, &key(key_type, content))
    }

    fn hashed(name: &str) -> String {
        let salt = b"twenty bytes of salt";
        let mac = Hmac::<Sha1>::new_from_slice(salt).unwrap().chain_update(name).finalize();
        format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(mac.into_bytes()))
    }

    fn known(text: &str) -> KnownHosts {
        let mut known = KnownHosts::default();
        known.add(Path::new("kh"), text);
        known
    }

    fn at(line: usize) -> Place {
        Place { file: PathBuf::from("kh"), line }
    }

    const UNKNOWN: Verdict = Verdict::Unknown { authority: false };

    #[test]
    fn any_matching_line_wins() {
        // Case 74: the right key stands on a later line, after other types and after an old key of the same type.
        let text = format!(
            "# h1 by hand\n\n{}{}{}{}",
            line("h1", RSA, 1),
            line("h1", ED, 2),
            line("h1", ED, 3),
            line("h1", EC, 4)
        );
        let known = known(&text);
        for (key_type, content) in [(RSA, 1), (ED, 2), (ED, 3), (EC, 4)] {
            assert_eq!(known.verdict("h1", key_type, &key(key_type, content)), Verdict::Match, "{key_type} {content}");
        }
        assert_eq!(known.verdict("h1", ED, &key(ED, 9)), Verdict::Changed(at(4)));
        assert_eq!(known.verdict("h2", ED, &key(ED, 2)), UNKNOWN);
        assert_eq!(known.recorded_types(&["h1".into()]), [RSA, ED, ED, EC]);
    }

    #[test]
    fn a_host_known_by_other_types_only_is_not_unknown() {
        let known = known(&line("h1", RSA, 1));
        assert_eq!(known.verdict("h1", ED, &key(ED, 1)), Verdict::OtherType(at(1)));
    }

    #[test]
    fn names_as_openssh_writes_them() {
        let (h1, tab) = (hashed("h1"), line("h1", ED, 1).replace(' ', "\t"));
        let cases: &[(String, &str, bool)] = &[
            (line(&h1, ED, 1), "h1", true),
            (line(&h1, ED, 1), "H1", true),
            (line(&h1, ED, 1), "h2", false),
            (line(&hashed("[h1]:2222"), ED, 1), "[h1]:2222", true),
            (line("[h1]:2222", ED, 1), "[h1]:2222", true),
            (line("[h1]:2222", ED, 1), "h1", false),
            (line("h1", ED, 1), "[h1]:2222", false),
            (line("a,h1,192.0.2.1", ED, 1), "192.0.2.1", true),
            (line("*.example.test", ED, 1), "h1.example.test", true),
            (line("*.example.test,!h2.example.test", ED, 1), "h2.example.test", false),
            (line("!h2,*", ED, 1), "h1", true),
            (line("H1", ED, 1), "h1", true),
            (line("2001:db8::1", ED, 1), "2001:db8::1", true),
            (tab.clone(), "h1", true),
            (format!("  {tab}"), "h1", true),
            (line("h1", ED, 1).replace('\n', " comment\r\n"), "h1", true),
            (line("|2|abc|def", ED, 1), "|2|abc|def", false),
            (line("|1|!|!", ED, 1), "h1", false),
        ];
        for (text, name, matches) in cases {
            let expected = if *matches { Verdict::Match } else { UNKNOWN };
            assert_eq!(known(text).verdict(name, ED, &key(ED, 1)), expected, "{name} in {text}");
        }
    }

    #[test]
    fn markers() {
        let text = format!("@revoked * {}@cert-authority *.test {}", line("x", ED, 1), line("x", ED, 2));
        let text = text.replace("* x ", "* ").replace("test x ", "test ");
        let text = format!("{text}{}", line("h1", ED, 1));
        let known = known(&text);
        assert_eq!(known.verdict("h1", ED, &key(ED, 1)), Verdict::Revoked(at(1)), "even where it is recorded");
        assert_eq!(known.verdict("h9", ED, &key(ED, 1)), Verdict::Revoked(at(1)));
        assert_eq!(
            known.verdict("h9", ED, &key(ED, 3)),
            UNKNOWN,
            "a revoked key of the type says nothing about others"
        );
        // An authority's key is not a host key.
        assert_eq!(known.verdict("a.test", ED, &key(ED, 2)), Verdict::Unknown { authority: true });
        assert!(known.recorded_types(&["a.test".into()]).is_empty());
    }

    #[test]
    fn damaged_lines_say_nothing_and_are_counted() {
        let damaged = ["h1", "h1 ssh-ed25519", "h1 ssh-ed25519 %%%", "@what h1 ssh-ed25519 AAAA", "h1 1024 35 1234"];
        let other_type = line("h1", ED, 5).replace(ED, RSA);
        let text = format!("{}\n{other_type}{}", damaged.join("\n"), line("h1", ED, 1));
        let known = known(&text);
        assert_eq!(known.verdict("h1", ED, &key(ED, 1)), Verdict::Match);
        assert_eq!(known.verdict("h1", ED, &key(ED, 2)), Verdict::Changed(at(7)));
    }

    #[test]
    fn further_names_can_only_vouch() {
        let known = known(&format!("{}{}", line("192.0.2.1", ED, 1), line("kvm-01", ED, 2)));
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let verdict = |list: &[&str], content| known.verdict_of_names(&names(list), ED, &key(ED, content));
        assert_eq!(verdict(&["192.0.2.1", "kvm-01"], 1), Verdict::Match);
        assert_eq!(verdict(&["192.0.2.9", "kvm-01"], 2), Verdict::Match);
        assert_eq!(verdict(&["192.0.2.9", "kvm-01"], 3), UNKNOWN, "another fleet may have a kvm-01 too");
        assert_eq!(verdict(&["192.0.2.1", "kvm-01"], 2), Verdict::Changed(at(1)));
    }

    #[test]
    fn names_with_ports() {
        assert_eq!(name_of("H1", 22), "h1");
        assert_eq!(name_of("2001:DB8::1", 2222), "[2001:db8::1]:2222");
    }

    proptest! {
        #[test]
        fn no_text_panics_and_a_recorded_key_is_found(noise in "(?s).{0,200}", name in "[a-z0-9.-]{1,20}", port in 1u16..) {
            let name = name_of(&name, port);
            let text = format!("{noise}\n{}", line(&name, ED, 7));
            let verdict = known(&text).verdict(&name, ED, &key(ED, 7));
            prop_assert_eq!(verdict, Verdict::Match);
        }

        #[test]
        fn near_misses_do_not_panic(
            parts in prop::collection::vec(
                prop::sample::select(vec!["@revoked", "@cert-authority", " ", "\t", ",", "!", "*", "|1|", "|", "h1", "[h1]:2",
                    "ssh-rsa", "AAAA", "AAAAB3NzaC1yc2EAAAADAQAB", "=", "#", "\n", "\r", "ä"]), 0..40)
        ) {
            known(&parts.concat()).verdict("h1", RSA, &key(RSA, 1));
        }
    }
}
