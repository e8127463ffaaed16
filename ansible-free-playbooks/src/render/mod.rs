//! Fills a host's variables into a playbook. Strict: a name that does not exist is an error.

use std::collections::BTreeMap;

use handlebars::{
    Context, Handlebars, Helper, HelperDef, HelperResult, JsonTruthy, Output, RenderContext,
    RenderError as HandlebarsError, RenderErrorReason, Renderable, ScopedJson, Template, no_escape,
};
use serde_json::Value;

use crate::check::check_rendered;
use crate::model::{Action, Playbook, Step};

/// Why a playbook could not be rendered for a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("playbook `{playbook}`, step `{step}`, {field}: {message}")]
pub struct RenderError {
    /// The playbook's name.
    pub playbook: String,
    /// The step's id.
    pub step: String,
    /// The field, as in the YAML: `file.path`. For a template its name and line too.
    pub field: String,
    /// What is wrong; names the variable where one is missing.
    pub message: String,
}

/// Finds the text of a template by its name.
pub type Templates<'a> = dyn Fn(&str) -> Option<&'a str> + 'a;

/// Renders every string of a playbook. Steps whose `when` is false are gone from the result, also from other steps'
/// `afterChangeOf`; a file's `template` has become its `content`.
///
/// # Errors
/// [`RenderError`] for a variable that does not exist, a `when` that is neither true nor false, a template that is not
/// there, and a rendered value that breaks the rules of [`crate::check`].
pub fn render(playbook: &Playbook, vars: &Value, templates: &Templates<'_>) -> Result<Playbook, RenderError> {
    let renderer = Renderer::new(&playbook.metadata.name, vars, templates)?;
    let mut rendered =
        Playbook { spec: crate::model::Spec { steps: Vec::new(), ..playbook.spec.clone() }, ..playbook.clone() };
    for step in &playbook.spec.steps {
        if let Some(mut step) = renderer.step(step)? {
            let kept = |id: &String| rendered.spec.steps.iter().any(|earlier| earlier.id == *id);
            step.after_change_of.retain(kept);
            rendered.spec.steps.push(step);
        }
    }
    match check_rendered(&rendered).into_iter().next() {
        None => Ok(rendered),
        Some(finding) => {
            let (step, field) = place_in_step(&rendered, &finding.path);
            let message = finding.help.map_or(finding.message.clone(), |help| format!("{} ({help})", finding.message));
            Err(RenderError { playbook: rendered.metadata.name, step, field, message })
        }
    }
}

/// Whether a string has anything to render.
pub(crate) fn has_expression(text: &str) -> bool {
    text.contains("{{")
}

/// What is wrong with the syntax of a string's expressions.
pub(crate) fn template_fault(text: &str) -> Option<String> {
    Template::compile(text).err().map(|error| {
        let reason = error.reason().to_string();
        format!("the expression is malformed: {}", reason.lines().map(str::trim).collect::<Vec<_>>().join(" "))
    })
}

/// `spec.steps[2].file.mode` as the step's id and `file.mode`.
fn place_in_step(playbook: &Playbook, path: &str) -> (String, String) {
    let inside = path.strip_prefix("spec.steps[").and_then(|rest| rest.split_once(']'));
    let Some((index, field)) = inside else { return (String::new(), path.to_owned()) };
    let step = index.parse::<usize>().ok().and_then(|index| playbook.spec.steps.get(index));
    (step.map(|step| step.id.clone()).unwrap_or_default(), field.trim_start_matches('.').to_owned())
}

struct Renderer<'a, 't> {
    playbook: &'a str,
    handlebars: Handlebars<'static>,
    context: Context,
    templates: &'a Templates<'t>,
}

impl<'a, 't> Renderer<'a, 't> {
    fn new(playbook: &'a str, vars: &Value, templates: &'a Templates<'t>) -> Result<Self, RenderError> {
        let mut handlebars = Handlebars::new();
        handlebars.set_strict_mode(true);
        handlebars.register_escape_fn(no_escape);
        handlebars.register_helper("if", Box::new(Conditional { wanted: true }));
        handlebars.register_helper("unless", Box::new(Conditional { wanted: false }));
        handlebars.register_helper("and", Box::new(Logic { all: true }));
        handlebars.register_helper("or", Box::new(Logic { all: false }));
        let context = Context::wraps(vars).map_err(|error| RenderError {
            playbook: playbook.to_owned(),
            step: String::new(),
            field: "variables".into(),
            message: error.to_string(),
        })?;
        Ok(Self { playbook, handlebars, context, templates })
    }

    /// `None` where the step's `when` is false.
    fn step(&self, step: &Step) -> Result<Option<Step>, RenderError> {
        let mut step = step.clone();
        if let Some(when) = step.when.take() {
            match self.text(&step.id, "when", &when)?.trim() {
                "true" => {}
                "false" => return Ok(None),
                other => {
                    let message = format!("has to become `true` or `false`, not `{}`", crate::yaml::shown(other));
                    return Err(self.error(&step.id, "when", message));
                }
            }
        }
        step.title = self.text(&step.id, "title", &step.title)?;
        self.action(&step.id, &mut step.action)?;
        Ok(Some(step))
    }

    fn action(&self, step: &str, action: &mut Action) -> Result<(), RenderError> {
        let text = |field: &str, value: &mut String| -> Result<(), RenderError> {
            if has_expression(value) {
                *value = self.text(step, field, value)?;
            }
            Ok(())
        };
        let each = |field: &str, values: &mut [String]| -> Result<(), RenderError> {
            values.iter_mut().enumerate().try_for_each(|(index, value)| text(&format!("{field}[{index}]"), value))
        };
        match action {
            Action::File(file) => {
                text("file.path", &mut file.path)?;
                text("file.mode", &mut file.mode)?;
                text("file.owner", &mut file.owner)?;
                if let Some(content) = &mut file.content {
                    text("file.content", content)?;
                }
                if let Some(name) = file.template.take() {
                    file.content = Some(self.template(step, &name)?);
                }
            }
            Action::Directory(directory) => {
                text("directory.path", &mut directory.path)?;
                text("directory.mode", &mut directory.mode)?;
                text("directory.owner", &mut directory.owner)?;
            }
            Action::Package(package) => each("package.names", &mut package.names)?,
            Action::Artifact(artifact) => {
                text("artifact.name", &mut artifact.name)?;
                for (index, file) in artifact.install.iter_mut().enumerate() {
                    let at = format!("artifact.install[{index}]");
                    if let Some(from) = &mut file.from {
                        text(&format!("{at}.from"), from)?;
                    }
                    text(&format!("{at}.to"), &mut file.to)?;
                    text(&format!("{at}.mode"), &mut file.mode)?;
                }
            }
            Action::Unit(unit) => text("unit.name", &mut unit.name)?,
            Action::Sysctl(sysctl) => {
                text("sysctl.file", &mut sysctl.file)?;
                let mut values = BTreeMap::new();
                for (mut key, mut value) in std::mem::take(&mut sysctl.values) {
                    let field = format!("sysctl.values.{key}");
                    text(&field, &mut key)?;
                    text(&field, &mut value)?;
                    if values.insert(key.clone(), value).is_some() {
                        return Err(self.error(step, &field, format!("`{key}` is there twice")));
                    }
                }
                sysctl.values = values;
            }
            Action::Module(module) => {
                text("module.file", &mut module.file)?;
                each("module.names", &mut module.names)?;
            }
            Action::Fstab(fstab) => text("fstab.disableType", &mut fstab.disable_type)?,
            Action::Command(command) => {
                text("command.check", &mut command.check)?;
                text("command.run", &mut command.run)?;
                if let Some(undo) = &mut command.undo {
                    text("command.undo", undo)?;
                }
                if let Some(input) = &mut command.input {
                    text("command.input", input)?;
                }
            }
        }
        Ok(())
    }

    fn template(&self, step: &str, name: &str) -> Result<String, RenderError> {
        let text = (self.templates)(name)
            .ok_or_else(|| self.error(step, "file.template", format!("there is no template `{name}`")))?;
        self.text(step, &format!("file.template {name}"), text)
    }

    fn text(&self, step: &str, field: &str, text: &str) -> Result<String, RenderError> {
        self.handlebars.render_template_with_context(text, &self.context).map_err(|error| {
            let field = match error.line_no {
                Some(line) if text.contains('\n') => format!("{field} line {line}"),
                _ => field.to_owned(),
            };
            self.error(step, &field, message(error.reason()))
        })
    }

    fn error(&self, step: &str, field: &str, message: String) -> RenderError {
        RenderError { playbook: self.playbook.to_owned(), step: step.to_owned(), field: field.to_owned(), message }
    }
}

/// The values themselves are never part of a message: they may be secrets.
fn message(reason: &RenderErrorReason) -> String {
    match reason {
        RenderErrorReason::MissingVariable(Some(name)) => format!("the variable `{name}` does not exist"),
        RenderErrorReason::MissingVariable(None) => "a variable does not exist".into(),
        RenderErrorReason::HelperNotFound(name) => format!("there is no helper `{name}`"),
        RenderErrorReason::ParamNotFoundForIndex(helper, index) => {
            format!("parameter {} of `{helper}` is missing or names a variable that does not exist", index + 1)
        }
        RenderErrorReason::ParamNotFoundForName(helper, name) => {
            format!("`{name}` of `{helper}` is missing or names a variable that does not exist")
        }
        other => other.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" "),
    }
}

/// `if` and `unless`. The built-in ones take a variable that does not exist for false, even in strict mode.
struct Conditional {
    wanted: bool,
}

impl HelperDef for Conditional {
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        registry: &'reg Handlebars<'reg>,
        context: &'rc Context,
        render: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        let name = if self.wanted { "if" } else { "unless" };
        let condition = helper.param(0).ok_or(RenderErrorReason::ParamNotFoundForIndex(name, 0))?;
        if condition.is_value_missing() {
            return Err(RenderErrorReason::MissingVariable(condition.relative_path().cloned()).into());
        }
        let chosen =
            if condition.value().is_truthy(false) == self.wanted { helper.template() } else { helper.inverse() };
        chosen.map_or(Ok(()), |template| template.render(registry, context, render, out))
    }
}

/// `and` and `or`, for the same reason.
struct Logic {
    all: bool,
}

impl HelperDef for Logic {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        _: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, HandlebarsError> {
        if let Some(missing) = helper.params().iter().find(|value| value.is_value_missing()) {
            return Err(RenderErrorReason::MissingVariable(missing.relative_path().cloned()).into());
        }
        let mut values = helper.params().iter().map(|value| value.value().is_truthy(false));
        let holds = if self.all { values.all(|value| value) } else { values.any(|value| value) };
        Ok(ScopedJson::Derived(Value::Bool(holds)))
    }
}

#[cfg(test)]
mod tests;
