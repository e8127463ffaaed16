use serde_json::json;

use super::*;
use crate::parse;

fn playbook(steps: &str) -> Playbook {
    let text = format!(
        "apiVersion: hostspan.dev/v1alpha1\nkind: Playbook\nmetadata: {{name: test}}\nspec:\n  steps:\n{steps}"
    );
    parse("p.yaml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn content(expression: &str, vars: &Value) -> Result<String, String> {
    let quoted = serde_json::to_string(expression).unwrap();
    let steps = format!("  - {{id: a, title: T, file: {{path: /a, content: {quoted}}}}}\n");
    let rendered = render(&playbook(&steps), vars, &|_| None).map_err(|error| error.to_string())?;
    match rendered.spec.steps.into_iter().next().map(|step| step.action) {
        Some(Action::File(file)) => Ok(file.content.unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_string_of_a_step_is_rendered() {
    let steps = r#"
  - {id: a, title: "About {{v}}", file: {path: "/etc/{{v}}", content: "c {{v}}", mode: "{{mode}}", owner: "{{v}}:{{v}}"}}
  - {id: b, title: T, file: {path: /b, template: b.hbs}}
  - {id: c, title: T, directory: {path: "/{{v}}", mode: "{{mode}}", owner: "{{v}}:root"}}
  - {id: d, title: T, package: {names: ["{{v}}", other]}}
  - {id: e, title: T, artifact: {name: "{{v}}", install: [{from: "x/{{v}}", to: "/opt/{{v}}", mode: "{{mode}}"}]}}
  - {id: f, title: T, unit: {name: "{{v}}.service", active: true}}
  - {id: g, title: T, sysctl: {file: "/etc/sysctl.d/{{v}}.conf", values: {"net.{{v}}": "{{n}}"}}}
  - {id: h, title: T, module: {file: "/etc/modules-load.d/{{v}}.conf", names: ["{{v}}"]}}
  - {id: i, title: T, fstab: {disableType: "{{v}}"}}
  - {id: j, title: T, command: {check: "c {{v}}", run: "r {{v}}", undo: "u {{v}}", input: "i {{v}}"}}
"#;
    let template = |name: &str| (name == "b.hbs").then_some("t {{v}}\n");
    let rendered = render(&playbook(steps), &json!({"v": "val", "n": 1, "mode": "0640"}), &template).unwrap();
    let text = serde_json::to_string(&rendered).unwrap();
    assert!(!text.contains("{{"), "{text}");
    let steps = &rendered.spec.steps;
    assert_eq!(steps[0].title, "About val");
    let Action::File(b) = &steps[1].action else { panic!() };
    assert_eq!((b.content.as_deref(), b.template.as_deref()), (Some("t val\n"), None));
    let Action::Sysctl(g) = &steps[6].action else { panic!() };
    assert_eq!(g.values, BTreeMap::from([("net.val".to_owned(), "1".to_owned())]));
}

#[test]
fn a_name_that_does_not_exist_is_an_error_wherever_it_stands() {
    let vars = json!({"list": ["x"], "map": {"a": 1}, "empty": []});
    for expression in [
        "{{nope}}",
        "{{map.nope}}",
        "{{list.[3]}}",
        "{{#if nope}}a{{/if}}",
        "{{#if map.nope}}a{{else}}b{{/if}}",
        "{{#if empty}}a{{else if nope}}b{{/if}}",
        "{{#unless nope}}a{{/unless}}",
        "{{#each nope}}a{{/each}}",
        "{{#with nope}}a{{/with}}",
        "{{#each list}}{{nope}}{{/each}}",
        "{{#each list}}{{#if ../nope}}{{/if}}{{/each}}",
        "{{#with map}}{{b}}{{/with}}",
        "{{#if (eq nope 1)}}a{{/if}}",
        "{{#if (not nope)}}a{{/if}}",
        "{{#if (and list nope)}}a{{/if}}",
        "{{lookup map \"nope\"}}",
    ] {
        let error = content(expression, &vars).expect_err(expression);
        assert!(error.starts_with("playbook `test`, step `a`, file.content: "), "{error}");
    }
    let error = content("{{map.nope}}", &vars).unwrap_err();
    assert_eq!(error, "playbook `test`, step `a`, file.content: the variable `map.nope` does not exist");
}

#[test]
fn conditions_work_and_nothing_is_escaped() {
    let vars = json!({"list": ["a", 2], "map": {"k": ["v"]}, "number": 2, "html": "<&\"'>", "yes": true, "no": false});
    for (expression, wanted) in [
        ("{{html}}", "<&\"'>"),
        ("{{#if (and yes (eq number 2))}}1{{/if}}{{#if (or no (not yes))}}2{{/if}}", "1"),
        ("{{#if no}}1{{else if yes}}2{{/if}}{{#unless no}}3{{/unless}}", "23"),
        ("{{#each list}}{{this}}{{#unless @last}} {{/unless}}{{/each}}", "a 2"),
        ("\\{{literal}} {{html}}", "{{literal}} <&\"'>"),
        ("a\n{{#if yes}}\nb\n{{/if}}\nc\n", "a\nb\nc\n"),
    ] {
        assert_eq!(content(expression, &vars).as_deref(), Ok(wanted), "{expression}");
    }
}

#[test]
fn a_value_that_looks_like_an_expression_stays_as_it_is() {
    assert_eq!(content("{{v}}", &json!({"v": "{{#if}}"})).as_deref(), Ok("{{#if}}"));
}

#[test]
fn when_decides_and_a_dropped_step_is_nobody_s_cause() {
    let steps = r#"
  - {id: a, title: T, when: "{{not docker}}", file: {path: /a, content: x}}
  - {id: b, title: T, when: " {{docker}} ", file: {path: /b, content: x}}
  - {id: c, title: T, afterChangeOf: [a, b], unit: {name: c.service, active: true}}
"#;
    let rendered = render(&playbook(steps), &json!({"docker": true}), &|_| None).unwrap();
    let ids: Vec<&str> = rendered.spec.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["b", "c"]);
    assert_eq!(rendered.spec.steps[0].when, None);
    assert_eq!(rendered.spec.steps[1].after_change_of, ["b"]);
    for vague in [json!("yes"), json!(""), json!(1), json!(null)] {
        let steps = "  - {id: a, title: T, when: '{{v}}', file: {path: /a, content: x}}\n";
        let error = render(&playbook(steps), &json!({"v": vague}), &|_| None).unwrap_err();
        assert_eq!((error.step.as_str(), error.field.as_str()), ("a", "when"));
        assert!(error.message.starts_with("has to become `true` or `false`, not "), "{error}");
    }
}

#[test]
fn what_came_out_is_checked_again() {
    for (steps, wanted) in [
        ("file: {path: '{{v}}', content: x}", "step `a`, file.path: `not a path` is not an absolute path"),
        ("file: {path: /a, content: x, mode: '{{v}}'}", "step `a`, file.mode: `not a path` is not a mode (four octal"),
        ("package: {names: ['{{e}}']}", "step `a`, package.names[0]: must not be empty"),
        ("command: {check: '{{e}}', run: x}", "step `a`, command.check: must not be empty"),
        ("file: {path: /a, template: gone.hbs}", "step `a`, file.template: there is no template `gone.hbs`"),
    ] {
        let steps = format!(
            "  - {{id: z, title: T, when: 'false', fstab: {{disableType: x}}}}\n  - {{id: a, title: T, {steps}}}\n"
        );
        let error = render(&playbook(&steps), &json!({"v": "not a path", "e": ""}), &|_| None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("playbook `test`, {wanted}")), "{error}");
    }
}

#[test]
fn an_error_in_a_template_names_its_file_and_line() {
    let steps = "  - {id: a, title: T, file: {path: /a, template: a.hbs}}\n";
    let error = render(&playbook(steps), &json!({}), &|_| Some("x\ny {{gone}}\n")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "playbook `test`, step `a`, file.template a.hbs line 2: the variable `gone` does not exist"
    );
}
