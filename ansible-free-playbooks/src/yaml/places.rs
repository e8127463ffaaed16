//! Where every value of a document stands.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::{Finding, Place, shown};

/// The places of a document's keys and values by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    values: BTreeMap<String, Place>,
    keys: BTreeMap<String, Place>,
    root: Root,
}

/// What the document is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Root {
    #[default]
    Nothing,
    Mapping,
    Other,
}

impl Places {
    pub(super) fn read(text: &str, options: serde_saphyr::Options) -> Result<Self, serde_saphyr::Error> {
        let mut places = Self::default();
        let tree: Option<Spanned<Node>> = serde_saphyr::from_str_with_options(text, options)?;
        if let Some(tree) = tree {
            places.root = match tree.value {
                Node::Null => Root::Nothing,
                Node::Mapping(_) => Root::Mapping,
                Node::Scalar | Node::Sequence(_) => Root::Other,
            };
            places.add(String::new(), &tree);
        }
        Ok(places)
    }

    fn add(&mut self, path: String, node: &Spanned<Node>) {
        match &node.value {
            Node::Null | Node::Scalar => {}
            Node::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add(format!("{path}[{index}]"), item);
                }
            }
            Node::Mapping(entries) => {
                for (key, value) in entries {
                    let name = shown(&key.value);
                    let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                    if let Some(place) = place(&key.referenced) {
                        self.keys.insert(path.clone(), place);
                    }
                    self.add(path, value);
                }
            }
        }
        if let Some(place) = place(&node.referenced) {
            self.values.insert(path, place);
        }
    }

    pub(super) fn refuse_empty(&self) -> Result<(), Finding> {
        match self.root {
            Root::Mapping => Ok(()),
            Root::Nothing => Err(Finding::at(Place::START, "the file is empty")),
            Root::Other => Err(Finding::at(
                self.values.get("").copied().unwrap_or(Place::START),
                "expected keys and values at the top of the file",
            )),
        }
    }

    /// Where the value at `path` stands, or else the nearest thing around it.
    pub fn of(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(place) = self.values.get(path).or_else(|| self.keys.get(path)) {
                return *place;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return self.values.get("").copied().unwrap_or(Place::START),
            }
        }
    }

    /// The path of the key that starts at `place`.
    pub(super) fn key_at(&self, place: Place) -> Option<&str> {
        longest_at(&self.keys, place)
    }

    /// The path of the value that starts at `place`; the innermost where several do.
    pub(super) fn value_at(&self, place: Place) -> Option<&str> {
        longest_at(&self.values, place)
    }

    /// Gives findings their places and puts them into the file's order.
    pub fn locate(&self, findings: &mut [Finding]) {
        for finding in findings.iter_mut() {
            finding.place = Some(self.of(&finding.path));
        }
        findings.sort_by_key(|finding| finding.place);
    }
}

fn longest_at(paths: &BTreeMap<String, Place>, place: Place) -> Option<&str> {
    paths.iter().filter(|(_, at)| **at == place).map(|(path, _)| path.as_str()).max_by_key(|path| path.len())
}

/// `None` where the reader does not know.
pub(super) fn place(location: &Location) -> Option<Place> {
    let line = usize::try_from(location.line()).ok().filter(|line| *line > 0)?;
    let column = usize::try_from(location.column()).ok().filter(|column| *column > 0)?;
    Some(Place { line, column })
}

/// A document of no particular type.
enum Node {
    Null,
    Scalar,
    Sequence(Vec<Spanned<Node>>),
    Mapping(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut sequence = Vec::new();
        while let Some(item) = items.next_element()? {
            sequence.push(item);
        }
        Ok(Node::Sequence(sequence))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut mapping = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            mapping.push(entry);
        }
        Ok(Node::Mapping(mapping))
    }
}
