//! Hostspan's playbooks: YAML with typed steps.
//!
//! ```text
//! playbooks/*.yaml --parse, check--> Playbook --render(variables)--> Playbook without templates
//! files/*.hbs      ---------------------------------^
//! ```
//!
//! Non-goals: running anything (the installer's engine does), loops, includes, a language.

mod check;
mod files;
pub mod model;
mod render;
mod shipped;
pub mod yaml;

pub use check::{check, is_label};
pub use files::{PlaybookError, UserPlaybook, load, parse};
pub use render::{RenderError, Templates, render};
pub use shipped::{shipped, template};

/// The JSON Schema of a playbook file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(model::Playbook).to_value()
}
