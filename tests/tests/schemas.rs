//! The committed JSON Schemas are what the types say. `UPDATE_GOLDEN=1` rewrites them.

use std::path::Path;

fn golden(name: &str, schema: &serde_json::Value) -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference").join(name);
    let now = serde_json::to_string_pretty(schema)? + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return Ok(std::fs::write(&path, now)?);
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == now, "{} is out of date: run the tests with UPDATE_GOLDEN=1 and commit it", path.display());
    Ok(())
}

#[test]
fn the_fleet_schema_is_committed() -> anyhow::Result<()> {
    golden("fleet.schema.json", &hostspan::fleet::schema())
}

#[test]
fn the_playbook_schema_is_committed() -> anyhow::Result<()> {
    golden("playbook.schema.json", &hostspan_playbooks::schema())
}
