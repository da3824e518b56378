use crate::Desk;
use serde_json::Value;
use std::process::Stdio;

/// Every command, and every command below a command, as the help lists them.
fn commands(desk: &Desk, above: &str) -> Vec<String> {
    let help = desk.ok(&format!("{above} --help"));
    let Some(list) = help.split("\nCommands:\n").nth(1) else { return vec![above.to_owned()] };
    let names = list
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> =
        names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(!names.is_empty(), "{help}");
    names.into_iter().flat_map(|name| commands(desk, format!("{above} {name}").trim())).collect()
}

#[test]
fn every_command_takes_json_and_refuses_wrong_words_in_json() {
    let desk = Desk::new(1);
    let all = commands(&desk, "");
    assert!(all.len() >= 20 && all.contains(&"account events".to_owned()), "{all:?}");
    for command in all {
        let help = desk.ok(&format!("{command} --help"));
        assert!(help.contains("--json"), "{command}: {help}");
        let message = desk.refused(&format!("{command} --no-such-option --json"));
        let error: Value = serde_json::from_str(&message).unwrap_or_else(|_| panic!("{command}: {message}"));
        assert!(error["error"].as_str().unwrap().contains("--no-such-option"), "{command}: {error}");
    }
}

const COMMANDS: [&str; 12] = [
    "mean",
    "local",
    "demo",
    "init",
    "check",
    "plan",
    "train",
    "predict",
    "verify",
    "ledger",
    "account",
    "calibrate",
];

#[test]
fn every_command_explains_itself() {
    let desk = Desk::new(1);
    let overview = desk.ok("--help");
    for command in COMMANDS {
        assert!(overview.contains(command), "{command}");
        let help = desk.ok(&format!("{command} --help"));
        assert!(help.len() > 300 && help.contains("Usage:"), "{command}: {help}");
    }
    for command in [
        "mean",
        "local",
        "init",
        "check",
        "plan",
        "train",
        "predict",
        "verify",
        "account",
        "calibrate",
        "ledger show",
        "ledger open",
    ] {
        assert!(desk.ok(&format!("{command} --help")).contains("Example"), "{command}");
    }
    assert!(desk.ok("--version").starts_with("halflit "));
}

#[test]
fn unknown_words_are_bad_input() {
    let desk = Desk::new(1);
    assert!(desk.refused("trian patients.csv").contains("train"));
    desk.refused("train patients.csv --epsilno 1");
    desk.refused("train");
}

#[test]
fn shells_get_their_completions() {
    let desk = Desk::new(1);
    for shell in ["bash", "zsh", "fish"] {
        let script = desk.ok(&format!("completions {shell}"));
        for word in ["calibrate", "poisson-gaussian", "zero-out", "sampling-rate"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let desk = Desk::new(1);
    for words in [
        "completions bash",
        "account gaussian --noise-multiplier 2 --change replace --delta 1e-5",
        "check patients.csv",
    ] {
        let mut process = desk.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(process.stdout.take());
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}: {}", crate::stderr(&output));
        assert!(output.stderr.is_empty(), "{words}: {}", crate::stderr(&output));
    }
}
