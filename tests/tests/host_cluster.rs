//! The README's main job on real hosts: a lab is converted, a second run changes nothing, a reset takes it back.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::io::Write as _;
use std::path::Path;

use hostspan_tests::binary::{self, Ended};
use serde_json::Value;

const LAB: &str = "t-cluster";

/// Takes the lab away however the test ends; `tests/run` does so too where this process was killed.
struct Down;

impl Down {
    fn later() -> Self {
        if let Some(list) = std::env::var_os("HOSTSPAN_TEST_LABS") {
            let mut file = std::fs::File::options().create(true).append(true).open(list).unwrap();
            writeln!(file, "{LAB}").unwrap();
        }
        Self
    }
}

impl Drop for Down {
    fn drop(&mut self) {
        hostspan(&["lab", "down", "--name", LAB]);
    }
}

/// With the real home: the lab's cache lives there.
fn hostspan(args: &[&str]) -> Ended {
    let home = std::env::var_os("HOME").unwrap_or_default();
    binary::ended(binary::command(Path::new("/")).env("HOME", home).args(args).output().unwrap())
}

fn json(args: &[&str]) -> Value {
    let ended = hostspan(args);
    assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect(&ended.stdout)
}

#[test]
fn a_lab_is_converted_settles_and_is_taken_back() {
    let down = Down::later();
    let up = hostspan(&["lab", "up", "--name", LAB, "--hosts", "2", "--yes"]);
    assert_eq!(up.code, 0, "{}", up.stderr);
    let lab = json(&["lab", "status", "--name", LAB, "-o", "json"]);
    let fleet = lab["fleetFile"].as_str().unwrap();

    let status = json(&["status", "-f", fleet, "-o", "json", "-q"]);
    let ready = |host: &Value| host["ready"] == true && host["kubeletVersion"] == "v1.36.3";
    assert!(status["hosts"].as_array().unwrap().iter().all(ready), "{status:#}");
    let plan = json(&["plan", "-f", fleet, "--exit-code", "-o", "json", "-q"]);
    assert_eq!((&plan["changes"], &plan["failed"]), (&Value::from(0), &Value::from(0)));
    let again = json(&["apply", "-f", fleet, "--yes", "-o", "json", "-q"]);
    assert_eq!((&again["changed"], &again["hosts"]["kvm-02"]["ok"]), (&Value::from(0), &Value::from(true)));

    let asked = hostspan(&["reset", "-f", fleet, "-q"]);
    assert_eq!(asked.code, 64, "a reset without a terminal and without --yes must not start: {}", asked.stdout);
    let reset = json(&["reset", "-f", fleet, "--yes", "-o", "json", "-q"]);
    assert_eq!(reset["failed"], 0, "{reset:#}");
    assert!(reset["changed"].as_u64().unwrap() > 50, "{reset:#}");
    let plain = json(&["status", "-f", fleet, "-o", "json", "-q"]);
    assert!(plain["hosts"].as_array().unwrap().iter().all(|host| host["fleet"].is_null()), "{plain:#}");
    drop(down);
    assert_eq!(hostspan(&["lab", "status", "--name", LAB]).code, 64);
}
