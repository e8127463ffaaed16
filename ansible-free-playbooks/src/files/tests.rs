use std::fs;

use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"apiVersion: hostspan.dev/v1alpha1
kind: Playbook
metadata: {name: mine}
spec:
  at: {after: runtime}
  roles: [worker]
  steps:
    - id: file
      title: Write a file
      file: {path: /etc/mine, template: mine.hbs, mode: "0600"}
    - id: unit
      title: Restart it
      afterChangeOf: [file]
      unit: {name: mine.service, enabled: true, active: true}
"#;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder
}

#[test]
fn a_folder_is_read_in_the_order_of_names_with_templates() {
    let second = GOOD.replace("name: mine}", "name: second}");
    let folder = folder(&[("b.yaml", &second), ("a.yml", GOOD), ("README.md", "x"), ("files/mine.hbs", "{{v}}")]);
    let loaded = load(folder.path()).unwrap();
    let names: Vec<&str> = loaded.iter().map(|user| user.playbook.metadata.name.as_str()).collect();
    assert_eq!(names, ["mine", "second"]);
    assert_eq!(loaded[0].templates["mine.hbs"], "{{v}}");
    assert_eq!(load(&folder.path().join("b.yaml")).unwrap().len(), 1);
}

#[test]
fn what_is_missing_is_named() {
    let late = GOOD.replace("  at: {after: runtime}\n", "");
    for (files, wanted) in [
        (vec![("a.yaml", GOOD)], "a.yaml:10:41: spec.steps[0].file.template: "),
        (vec![("a.yaml", GOOD), ("files/mine.hbs", "{{#if}")], "a.yaml:10:41: spec.steps[0].file.template: mine.hbs: "),
        (vec![("a.yaml", &late), ("files/mine.hbs", "x")], "a.yaml:5:3: spec: a playbook of your own has to say when"),
        (vec![("a.txt", GOOD)], "there is no .yaml file in this folder"),
    ] {
        let error = load(folder(&files).path()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}\n  wants {wanted}");
    }
    let error = load(Path::new("/nonexistent/x.yaml")).unwrap_err().to_string();
    assert_eq!(error, "/nonexistent/x.yaml: No such file or directory (os error 2)");
}

fn must_not_panic(text: &[u8]) {
    if let Err(bad) = read("p.yaml", text) {
        for finding in &bad.findings {
            let place = finding.place.expect("every finding has a place");
            assert!(place.line >= 1 && place.column >= 1, "{bad}");
        }
        assert!(!bad.findings.is_empty());
        assert!(!bad.to_string().contains(|c: char| c.is_control() && c != '\n'), "{bad:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_playbook_or_findings_with_places(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        must_not_panic(&bytes);
    }

    #[test]
    fn a_damaged_playbook_gives_findings_with_places(
        at in 0..GOOD.len(),
        cut in 0..12_usize,
        put in "[ -~\t\n\u{7}é{}\\[\\]:&*!|>'\"%@`#-]{0,6}",
    ) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes.splice(at..(at + cut).min(GOOD.len()), put.bytes());
        must_not_panic(&bytes);
    }
}
