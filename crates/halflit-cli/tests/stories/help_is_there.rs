use crate::Desk;

const COMMANDS: [&str; 10] =
    ["demo", "init", "check", "plan", "train", "predict", "verify", "ledger", "account", "calibrate"];

#[test]
fn every_command_explains_itself() {
    let desk = Desk::new(1);
    let overview = desk.ok("--help");
    for command in COMMANDS {
        assert!(overview.contains(command), "{command}");
        let help = desk.ok(&format!("{command} --help"));
        assert!(help.len() > 300 && help.contains("Usage:"), "{command}: {help}");
    }
    for command in ["init", "check", "plan", "train", "predict", "verify"] {
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
        assert!(desk.ok(&format!("completions {shell}")).contains("calibrate"), "{shell}");
    }
}
