use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Doc {
    name: String,
    #[serde(default)]
    port: Option<u16>,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    items: Vec<Item>,
    #[serde(default)]
    free: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Item {
    address: std::net::IpAddr,
    #[serde(default)]
    color: Option<Color>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Color {
    Red,
    Green,
}

fn error(text: &str) -> String {
    match read::<Doc>("f.yaml", text.as_bytes()) {
        Ok((value, _)) => panic!("accepted: {value:?}"),
        Err(bad) => bad.to_string(),
    }
}

#[test]
fn a_good_document_keeps_texts_as_written() {
    let (doc, places) = read::<Doc>("f.yaml", b"name: 010\nitems:\n  - address: 192.0.2.1\n    color: red\n").unwrap();
    assert_eq!(doc.name, "010");
    assert_eq!(places.of("items[0].color"), Place { line: 4, column: 12 });
    assert_eq!(places.of("items[0].nothing.there"), Place { line: 3, column: 5 }, "the nearest thing around it");
}

#[test]
fn errors_have_place_and_help() {
    let mut wrong = String::new();
    for (text, wanted) in [
        ("name: a\nprot: 1\n", "f.yaml:2:1: prot: unknown key `prot` (did you mean `port`?)"),
        ("name: a\nzzz: 1\n", "f.yaml:2:1: zzz: unknown key `zzz` (known: name, port, strict, items, free)"),
        ("name: a\nport: many\n", "f.yaml:2:7: port: expected a whole number that fits, found `many`"),
        ("name: a\nport: 70000\n", "f.yaml:2:7: port: expected a whole number that fits, found `70000`"),
        ("name: a\nport: [1]\n", "f.yaml:2:7: port: expected a single value, found a list or keys"),
        ("name: a\nitems: x\n", "f.yaml:2:8: items: expected a list"),
        ("name: a\nitems:\n", "f.yaml:2:6: items: expected a list"),
        ("name: a\nstrict: yes\n", "f.yaml:2:9: strict: `yes` is not a boolean (write `true`)"),
        ("name: a\nstrict: Off # x\n", "f.yaml:2:9: strict: `Off` is not a boolean (write `false`)"),
        ("name: a\nstrict: maybe\n", "f.yaml:2:9: strict: `maybe` is not a boolean (write `true` or `false`)"),
        ("name: a\nname: b\n", "f.yaml:2:1: the key `name` is there twice"),
        ("name: a\nfree: {x: 1, x: 2}\n", "f.yaml:2:14: the key `x` is there twice"),
        ("port: 1\n", "f.yaml:1:1: the key `name` is missing"),
        ("name: a\nitems:\n  - color: red\n", "f.yaml:3:5: items[0]: the key `address` is missing"),
        ("name:\n", "f.yaml:1:5: name: a value is missing (write \"\" if an empty text is meant)"),
        ("name: a\nitems:\n  - address: 192.0.2.300\n", "f.yaml:3:14: items[0].address: invalid IP address syntax"),
        (
            "name: a\nitems:\n  - address: 192.0.2.3\n    color: gren\n",
            "f.yaml:4:12: items[0].color: `gren` is not known here (did you mean `green`?)",
        ),
        ("", "f.yaml:1:1: the file is empty"),
        ("# only a comment\n", "f.yaml:1:1: the file is empty"),
        ("---\n", "f.yaml:1:1: the file is empty"),
        ("- a\n", "f.yaml:1:1: expected keys and values at the top of the file"),
        ("just text\n", "f.yaml:1:1: expected keys and values at the top of the file"),
        ("name: a\n\tport: 1\n", "f.yaml:2:1: a tab is used for indentation (YAML wants spaces there)"),
        (
            "items:\n\t- address: 192.0.2.1\nname: a\n",
            "f.yaml:2:1: a tab is used for indentation (YAML wants spaces there)",
        ),
        ("free:\n  a: 1\n \tb: 2\nname: a\n", "f.yaml:3:2: a tab is used for indentation (YAML wants spaces there)"),
        (
            "name: a\n---\nname: b\n",
            "f.yaml:3:1: a second YAML document begins (one file holds one document: take the `---` out)",
        ),
        ("name: \"a\n", "f.yaml:1:7: "),
        ("name: [a\n", "f.yaml:"),
        ("name: *nothing\n", "f.yaml:1:7: "),
        ("name: a\nfree: {? [a] : b}\n", "f.yaml:2:"),
        ("name: a\nport: .inf\n", "f.yaml:2:7: "),
        ("name: a\u{7}\n", "f.yaml:1:7: "),
    ] {
        let message = error(text);
        if !message.starts_with(wanted) || message.contains('\n') {
            writeln!(wrong, "{text:?}\n  gave  {message}\n  wants {wanted}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_file_that_is_not_utf8_names_the_byte_s_place() {
    let error = read::<Doc>("f.yaml", b"name: a\nport\xff: 1\n").unwrap_err();
    assert_eq!(error.to_string(), "f.yaml:2:5: the file is not UTF-8 text (save it as UTF-8)");
    let utf16 = read::<Doc>("f.yaml", b"\xff\xfen\0a\0m\0e\0").unwrap_err();
    assert_eq!(utf16.to_string(), "f.yaml:1:1: the file is not UTF-8 text (save it as UTF-8)");
}

#[test]
fn a_megabyte_of_nesting_is_refused() {
    const MEGABYTE: usize = 1_000_000;
    let mappings = "{a: ".repeat(MEGABYTE / 4);
    let blocks: String = (0..1_400).flat_map(|depth| [" ".repeat(depth), "a:\n".to_owned()]).collect();
    for nested in
        ["[".repeat(MEGABYTE), format!("name: {}", "[".repeat(MEGABYTE)), mappings, "- ".repeat(MEGABYTE / 2), blocks]
    {
        let message = error(&nested);
        assert!(message.contains("too much nesting"), "{message}");
    }
}

#[test]
fn alias_bombs_are_refused() {
    let mut bomb = String::from("name: a\nfree:\n  l0: &l0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let aliases = vec![format!("*l{}", level - 1); 9].join(", ");
        writeln!(bomb, "  l{level}: &l{level} [{aliases}]").unwrap();
    }
    let message = error(&bomb);
    assert!(message.contains("too many aliases"), "{message}");
}

#[test]
fn a_huge_file_is_refused_unread() {
    let message = error(&"a".repeat(MAX_BYTES + 1));
    assert!(message.starts_with("f.yaml:1:1: the file has 4194305 bytes"), "{message}");
}

#[test]
fn aliases_and_merge_keys_work_in_moderation() {
    let text = "name: a\nfree:\n  one: &one {x: 1}\n  two: {<<: *one, y: 2}\n";
    let (doc, _) = read::<Doc>("f.yaml", text.as_bytes()).unwrap();
    assert_eq!(doc.free["two"], serde_json::json!({"x": 1, "y": 2}));
}

#[test]
fn what_is_shown_of_a_file_cannot_drive_a_terminal() {
    let message = error("name: a\n\"\\e[2Jx\": 1\n");
    assert!(message.starts_with("f.yaml:2:1: "), "{message}");
    assert!(!message.contains('\u{1b}'), "{message:?}");
}
