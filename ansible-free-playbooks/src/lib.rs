//! Hostspan's playbooks: YAML with typed steps.
//!
//! ```text
//! playbooks/*.yaml --parse--> Playbook --check--> Playbook --render(variables)--> Playbook without templates
//! files/*.hbs      ------------------------------------------^
//! ```
//!
//! Non-goals: running anything (the installer's engine does), loops, includes, a language.

pub mod model;
