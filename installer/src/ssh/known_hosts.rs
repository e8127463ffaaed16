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
