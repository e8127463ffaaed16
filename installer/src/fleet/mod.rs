//! fleet.yaml: model, load with line and column in every error, rules between fields.
//!
//! ```text
//! bytes --yaml::read--> Fleet --validate--> Loaded        Fleet --render_fleet--> fleet.yaml with comments
//! ```

mod load;
pub mod model;
mod validate;
mod write;

pub(crate) use load::expand_from;
pub use load::{FleetError, Loaded, STDIN, expand, load, parse};
pub use validate::{KIND, validate};
pub use write::render_fleet;

/// The JSON Schema of the fleet file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(model::Fleet).to_value()
}

#[cfg(test)]
mod tests;
