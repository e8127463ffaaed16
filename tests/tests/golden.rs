//! Generated files that are committed equal what the code makes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use hostspan_tests::{binary, golden};

#[test]
fn command_line_reference() {
    golden::check("docs/src/reference/cli.md", &golden::reference(hostspan::cli::command()));
}

#[test]
fn json_schemas() {
    for (name, schema) in [("fleet", hostspan::fleet::schema()), ("playbook", hostspan_playbooks::schema())] {
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        golden::check(&format!("docs/src/reference/{name}.schema.json"), &text);
    }
}

#[test]
fn manual_pages() {
    let dir = tempfile::tempdir().unwrap();
    let ended = binary::run(dir.path(), ["man", "--dir", "man"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let made = golden::names_in(&dir.path().join("man"));
    for name in &made {
        golden::check(
            &format!("docs/man/{name}"),
            &std::fs::read_to_string(dir.path().join("man").join(name)).unwrap(),
        );
    }
    assert_eq!(golden::names_in(&binary::root().join("docs/man")), made, "a page of a command that is no more");
}
