//! fleet.yaml: model, load with line and column in every error, rules between fields.

pub mod model;
