use std::fmt::Write as _;

use crate::parse;

fn playbook(steps: &str) -> String {
    format!("apiVersion: hostspan.dev/v1alpha1\nkind: Playbook\nmetadata: {{name: test}}\nspec:\n  steps:\n{steps}")
}

fn findings(text: &str) -> Vec<String> {
    match parse("p.yaml", text) {
        Ok(_) => Vec::new(),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn every_kind_of_step_is_accepted() {
    let text = playbook(
        r#"
  - {id: a, title: A file, file: {path: /etc/a, content: "x", mode: "0600", owner: "root:adm", secret: true}}
  - {id: b, title: A template, file: {path: "/etc/{{name}}", template: sub/b.hbs}}
  - {id: c, title: No file, file: {path: /etc/c, absent: true}}
  - {id: d, title: A folder, directory: {path: /opt/cni/bin, mode: 0755}}
  - {id: e, title: Packages, package: {names: [socat, libc6, g++]}}
  - {id: f, title: A binary, artifact: {name: kubelet, install: [{to: /usr/local/bin/kubelet}]}}
  - {id: g, title: An image, artifact: {name: "image:registry.k8s.io/pause:3.10.2", importImage: true}}
  - {id: h, title: A unit, afterChangeOf: [a, b], unit: {name: kubelet.service, enabled: true, active: true}}
  - {id: i, title: Settings, sysctl: {file: /etc/sysctl.d/90-x.conf, values: {net.ipv4.ip_forward: 1}}}
  - {id: j, title: Modules, module: {file: /etc/modules-load.d/x.conf, names: [overlay, br_netfilter]}}
  - {id: k, title: Swap, fstab: {disableType: swap}}
  - {id: l, title: A command, when: "{{x}}", takes: 5, command: {check: "test -e /x", run: "touch /x", undo: "rm /x"}}
"#,
    );
    assert_eq!(findings(&text), Vec::<String>::new());
}

#[test]
fn a_broken_step_is_named_with_its_place() {
    let mut wrong = String::new();
    for (step, wanted) in [
        (
            "{id: A, title: T, fstab: {disableType: swap}}",
            "p.yaml:6:10: spec.steps[0].id: `A` is not a name (lower-case",
        ),
        ("{id: a, title: '', fstab: {disableType: swap}}", "p.yaml:6:20: spec.steps[0].title: must not be empty"),
        ("{id: a, title: T}", "p.yaml:6:5: spec.steps[0]: step `a` has to have exactly one of file, directory,"),
        (
            "{id: a, title: T, fstab: {disableType: swap}, unit: {name: a.service, active: true}}",
            "p.yaml:6:5: spec.steps[0]: step `a` has to have exactly one of",
        ),
        (
            "{id: a, title: T, fiel: {path: /a}}",
            "p.yaml:6:23: spec.steps[0].fiel: unknown key `fiel` (did you mean `file`?)",
        ),
        (
            "{id: a, title: T, file: {path: /a, contents: x}}",
            "p.yaml:6:40: spec.steps[0].file.contents: unknown key `contents` (did you mean `content`?)",
        ),
        (
            "{id: a, title: T, file: {path: /a, content: x, absent: true}}",
            "p.yaml:6:29: spec.steps[0].file: exactly one of",
        ),
        (
            "{id: a, title: T, file: {path: /a}}",
            "p.yaml:6:29: spec.steps[0].file: exactly one of `content`, `template`",
        ),
        (
            "{id: a, title: T, file: {path: a, content: x}}",
            "p.yaml:6:36: spec.steps[0].file.path: `a` is not an absolute",
        ),
        (
            "{id: a, title: T, file: {path: /a/../b, content: x}}",
            "p.yaml:6:36: spec.steps[0].file.path: `/a/../b` is not",
        ),
        ("{id: a, title: T, file: {path: /a/, content: x}}", "p.yaml:6:36: spec.steps[0].file.path: `/a/` is not"),
        (
            "{id: a, title: T, file: {path: /a, content: x, mode: 644}}",
            "p.yaml:6:58: spec.steps[0].file.mode: `644` is not",
        ),
        (
            "{id: a, title: T, file: {path: /a, content: x, mode: '0888'}}",
            "p.yaml:6:58: spec.steps[0].file.mode: `0888`",
        ),
        (
            "{id: a, title: T, file: {path: /a, content: x, owner: root}}",
            "p.yaml:6:59: spec.steps[0].file.owner: `root`",
        ),
        (
            "{id: a, title: T, file: {path: /a, template: ../x}}",
            "p.yaml:6:50: spec.steps[0].file.template: `../x` is not",
        ),
        (
            "{id: a, title: T, file: {path: /a, template: '{{x}}'}}",
            "p.yaml:6:50: spec.steps[0].file.template: the name",
        ),
        (
            "{id: a, title: T, file: {path: /a, content: '{{#if x}}'}}",
            "p.yaml:6:49: spec.steps[0].file.content: the expr",
        ),
        (
            "{id: a, title: T, file: {path: /a, content: x, absent: no}}",
            "p.yaml:6:60: spec.steps[0].file.absent: `no` is",
        ),
        ("{id: a, title: T, package: {names: []}}", "p.yaml:6:40: spec.steps[0].package.names: no name is given"),
        (
            "{id: a, title: T, package: {names: [A b]}}",
            "p.yaml:6:41: spec.steps[0].package.names[0]: `A b` is not the name",
        ),
        (
            "{id: a, title: T, package: {names: [aa, aa]}}",
            "p.yaml:6:45: spec.steps[0].package.names[1]: `aa` is there twice",
        ),
        ("{id: a, title: T, artifact: {name: k}}", "p.yaml:6:33: spec.steps[0].artifact: exactly one of `install` and"),
        (
            "{id: a, title: T, artifact: {name: k, importImage: true, install: [{to: /a}]}}",
            "p.yaml:6:33: spec.steps[0].artifact: exactly one of `install` and",
        ),
        (
            "{id: a, title: T, artifact: {name: k, install: [{from: a, to: /a}, {to: /b}]}}",
            "p.yaml:6:72: spec.steps[0].artifact.install[1]: of several files each needs `from`",
        ),
        (
            "{id: a, title: T, unit: {name: kubelet, active: true}}",
            "p.yaml:6:36: spec.steps[0].unit.name: `kubelet` is not",
        ),
        ("{id: a, title: T, unit: {name: k.service}}", "p.yaml:6:29: spec.steps[0].unit: at least one of"),
        (
            "{id: a, title: T, unit: {name: k.service, masked: true, active: true}}",
            "p.yaml:6:29: spec.steps[0].unit: a masked",
        ),
        (
            "{id: a, title: T, sysctl: {file: /etc/sysctl.conf, values: {a.b: 1}}}",
            "p.yaml:6:38: spec.steps[0].sysctl.file:",
        ),
        (
            "{id: a, title: T, sysctl: {file: /etc/sysctl.d/a.conf, values: {}}}",
            "p.yaml:6:68: spec.steps[0].sysctl.values: no",
        ),
        (
            "{id: a, title: T, module: {file: /etc/modules, names: [x]}}",
            "p.yaml:6:38: spec.steps[0].module.file: `/etc/mod",
        ),
        (
            "{id: a, title: T, command: {check: ' ', run: x}}",
            "p.yaml:6:40: spec.steps[0].command.check: must not be empty",
        ),
        ("{id: a, title: T, command: {run: x}}", "p.yaml:6:33: spec.steps[0].command: the key `check` is missing"),
        (
            "{id: a, title: T, command: {check: x, run: x, timeout: 0}}",
            "p.yaml:6:60: spec.steps[0].command.timeout: a command",
        ),
        (
            "{id: a, title: T, command: {check: \"a\\0\", run: x}}",
            "p.yaml:6:40: spec.steps[0].command.check: a NUL character",
        ),
        (
            "{id: a, title: T, afterChangeOf: [b], unit: {name: k.service, active: true}}",
            "p.yaml:6:39: spec.steps[0].afterChangeOf[0]: `b` is no earlier step",
        ),
    ] {
        let found = findings(&playbook(&format!("  - {step}\n"))).join("\n");
        if !found.starts_with(wanted) {
            writeln!(wrong, "{step}\n  gave  {found}\n  wants {wanted}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn all_findings_come_at_once_in_the_file_s_order() {
    let text = "\
apiVersion: hostspan.dev/v1
kind: Play
metadata: {name: Te_st}
spec:
  at: {after: Run time}
  roles: [worker, contrl-plane, worker]
  steps:
  - {id: a, title: T, fstab: {disableType: swap}}
  - {id: a, title: T, afterChangeOf: [aa, a, a], fstab: {disableType: swap}}
";
    let found = findings(text);
    let starts = [
        "p.yaml:1:13: apiVersion: `hostspan.dev/v1` is not known (write `hostspan.dev/v1alpha1`)",
        "p.yaml:2:7: kind: `Play` is not a playbook (write `Playbook`)",
        "p.yaml:3:18: metadata.name: `Te_st` is not a name",
        "p.yaml:5:15: spec.at.after: `Run time` is not a name",
        "p.yaml:6:19: spec.roles[1]: `contrl-plane` is not a role (did you mean `control-plane`?)",
        "p.yaml:6:33: spec.roles[2]: `worker` is there twice",
        "p.yaml:9:10: spec.steps[1].id: the id `a` is there twice",
        "p.yaml:9:38: spec.steps[1].afterChangeOf: only a unit or a command can run again",
        "p.yaml:9:39: spec.steps[1].afterChangeOf[0]: `aa` is no earlier step of this playbook (did you mean `a`?)",
        "p.yaml:9:46: spec.steps[1].afterChangeOf[2]: `a` is there twice",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, wanted) in found.iter().zip(starts) {
        assert!(found.starts_with(wanted), "{found}\n  wants {wanted}");
    }
}

#[test]
fn a_playbook_without_steps_is_refused() {
    let found = findings(&playbook("").replace("  steps:\n", "  steps: []\n"));
    assert_eq!(found, ["p.yaml:5:10: spec.steps: a playbook needs at least one step"]);
}
