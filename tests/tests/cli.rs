//! The real binary, as a user or a script meets it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::process::Stdio;

use hostspan_tests::binary::{self, command, ended};

/// Every visible command, with those below it: `["lab", "up"]`.
fn commands() -> Vec<Vec<String>> {
    fn walk(command: &clap::Command, path: &[String], all: &mut Vec<Vec<String>>) {
        all.push(path.to_vec());
        for sub in command.get_subcommands() {
            walk(sub, &[path, &[sub.get_name().to_owned()]].concat(), all);
        }
    }
    let mut all = Vec::new();
    walk(&hostspan::cli::command(), &[], &mut all);
    all
}

#[test]
fn every_help_has_an_example_and_fits_its_width() {
    let dir = tempfile::tempdir().unwrap();
    for path in commands() {
        for columns in ["80", "200"] {
            let help = ended(command(dir.path()).args(&path).arg("--help").env("COLUMNS", columns).output().unwrap());
            assert_eq!((help.code, help.stderr.as_str()), (0, ""), "{path:?}");
            assert!(help.stdout.contains("\nExample"), "{path:?} has no example");
            for line in help.stdout.lines() {
                assert!(line.chars().count() <= 100, "{path:?}: wider than 100 columns: {line}");
            }
        }
    }
}

#[test]
fn examples_of_help_are_commands_that_parse() {
    for path in commands() {
        let mut command = hostspan::cli::command();
        let sub = path.iter().fold(&mut command, |c, name| c.find_subcommand_mut(name).unwrap());
        let examples = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in examples.lines().filter(|l| l.starts_with("  hostspan ")) {
            let line = line.split("  ").nth(1).unwrap();
            for one in line.split(" && ").filter(|one| one.starts_with("hostspan ")) {
                let words = one.split_whitespace().take_while(|w| !matches!(*w, "|" | ">" | ">>"));
                let parsed = hostspan::cli::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{path:?}: `{one}`: {}", parsed.unwrap_err());
            }
        }
    }
}

#[test]
fn wrong_usage_is_64_and_says_what_is_right() {
    let dir = tempfile::tempdir().unwrap();
    for (args, said) in [
        (vec!["aply"], "similar subcommand exists: 'apply'"),
        (vec!["apply", "--hosts", "a"], "'--host'"),
        (vec!["apply", "--parallel", "0"], "1..=512"),
        (vec!["apply", "-o", "yaml"], "[possible values: text, json]"),
        (vec!["apply", "-q", "-v"], "cannot be used with"),
        (vec![], "Usage: hostspan"),
    ] {
        let ended = binary::run(dir.path(), &args);
        assert_eq!((ended.code, ended.stdout.as_str()), (64, ""), "{args:?}");
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn version_and_help_are_results() {
    let dir = tempfile::tempdir().unwrap();
    for flag in ["--version", "--help"] {
        let ended = binary::run(dir.path(), [flag]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{flag}");
        assert!(ended.stdout.contains("hostspan"), "{flag}");
    }
}

#[test]
fn completion_knows_commands_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let ended = binary::run(dir.path(), ["completion", shell]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{shell}");
        for word in ["kubeconfig", "accept-new"] {
            assert!(ended.stdout.contains(word), "{shell} lacks {word}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut child =
        command(dir.path()).args(["completion", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = ended(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[test]
fn a_run_without_a_terminal_is_plain_lines_without_colour() {
    let dir = tempfile::tempdir().unwrap();
    let ended = binary::run(dir.path(), ["demo", "--hosts", "2", "--speed", "10000"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""));
    assert!(ended.stderr.contains("  kvm-02  [9/9] ready: Wait until the node is ready: done"), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\x1b'), "colour without a terminal");
}

#[test]
fn colour_can_be_forced_and_no_color_does_not_beat_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        ended(command(dir.path()).args(["demo", "--speed", "10000"]).args(args).env("NO_COLOR", "1").output().unwrap())
    };
    assert!(!run(&[]).stderr.contains('\x1b'));
    assert!(run(&["--color", "always"]).stderr.contains("\x1b[32mfinished\x1b[0m"));
}

#[test]
fn quiet_shows_errors_only() {
    let dir = tempfile::tempdir().unwrap();
    let ended = binary::run(dir.path(), ["demo", "-q", "--fail", "--speed", "10000"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (13, ""));
    assert!(ended.stderr.starts_with("error: kvm-03: Join the cluster failed\n"), "{}", ended.stderr);
}

#[test]
fn progress_and_errors_for_programs_are_json_lines_on_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let ended = binary::run(dir.path(), ["demo", "-o", "json", "--fail", "--speed", "10000"]);
    let lines: Vec<serde_json::Value> =
        ended.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines[0]["type"], "stage");
    let last = lines.last().unwrap();
    assert_eq!((last["type"].as_str(), last["exit"].as_i64()), (Some("error"), Some(13)));
    assert_eq!(last["problems"][0]["host"], "kvm-03");
}

#[test]
fn ctrl_c_once_stops_after_the_running_step_and_exits_130() {
    let dir = tempfile::tempdir().unwrap();
    let child = command(dir.path())
        .args(["demo", "--hosts", "1", "--speed", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1700));
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ended = ended(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(ended.stderr.contains("stopping after the running step"), "{}", ended.stderr);
    assert!(ended.stderr.contains("kvm-01  FAILED: stopped after"), "{}", ended.stderr);
}
