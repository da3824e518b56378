use crate::Desk;
use serde_json::Value;

fn end(answer: &Value, what: &str, end: &str) -> f64 {
    answer[what][end].as_f64().unwrap_or_else(|| panic!("{what}.{end} in {answer}"))
}

#[test]
fn epsilon_at_a_delta_is_an_interval_around_what_others_compute() {
    let desk = Desk::new(1);
    let answer = desk.json(
        "account poisson-gaussian --rate 0.01 --noise-multiplier 1.0 --steps 10000 --delta 1e-5 --change zero-out",
    );
    // prv_accountant 0.2.0 bounds it by 6.1777 and 6.1977; dp_accounting 0.6.0 says 6.1877.
    let (lower, upper) = (end(&answer, "epsilon", "lower"), end(&answer, "epsilon", "upper"));
    assert!(
        lower <= upper && (6.1777..=6.1977).contains(&upper) && (6.1777..=6.1977).contains(&lower),
        "{answer}"
    );
    assert_eq!(answer["delta"], 1e-5);
    assert_eq!(answer["change"], "zero-out");
    assert_eq!(answer["event"]["kind"], "repeated");
    let replace = desk.json(
        "account poisson-gaussian --rate 1/100 --noise-multiplier 1.0 --steps 10000 --delta 1e-5 --change replace",
    );
    assert!(
        end(&replace, "epsilon", "lower") > 1.5 * upper,
        "replace is never priced as zero-out: {replace}"
    );
}

#[test]
fn delta_at_an_epsilon_goes_the_other_way() {
    let desk = Desk::new(1);
    let release = "account gaussian --noise-multiplier 2 --change replace";
    let delta = desk.json(&format!("{release} --epsilon 1"));
    // mu = 1: Phi(-1/2) - e Phi(-3/2) = 0.1269367
    assert!((end(&delta, "delta", "upper") - 0.126_936_737).abs() < 1e-8, "{delta}");
    assert_eq!(delta["epsilon"], 1.0);
    assert_eq!(delta["gdp_mu"].as_f64().map(|mu| (mu * 1e9).round() / 1e9), Some(1.0));
    let back = desk.json(&format!("{release} --delta {}", end(&delta, "delta", "upper")));
    assert!((end(&back, "epsilon", "upper") - 1.0).abs() < 1e-6, "{back}");
    let group = desk.json(&format!("{release} --epsilon 1 --group-size 3"));
    // mu = 3: Phi(7/6) - e Phi(-11/6) = 0.7876007
    assert!((end(&group, "delta", "upper") - 0.787_600_741).abs() < 1e-8, "{group}");
}

#[test]
fn every_kind_of_release_has_a_price() {
    let desk = Desk::new(1);
    let laplace = desk.json("account laplace --sensitivity 1 --scale 4 --delta 0");
    assert!((end(&laplace, "epsilon", "upper") - 0.25).abs() < 1e-9, "{laplace}");
    let pure = desk.json("account pure --epsilon-each 0.1 --steps 10 --delta 0");
    assert!((end(&pure, "epsilon", "upper") - 1.0).abs() < 1e-9, "{pure}");
    let composed = desk.json("account pure --epsilon-each 0.1 --steps 100 --delta 1e-6");
    assert!(end(&composed, "epsilon", "upper") < 6.0, "composition is better than adding up: {composed}");
    let subset = desk.json(
        "account fixed-size-gaussian --rate 500/30000 --noise-multiplier 3 --steps 100 --change replace --delta 1e-5",
    );
    assert!(end(&subset, "epsilon", "lower") <= end(&subset, "epsilon", "upper"), "{subset}");
    assert_eq!(subset["event"]["event"]["kind"], "fixed-size-gaussian");
}

#[test]
fn a_tree_of_events_is_read_from_a_file() {
    let desk = Desk::new(1);
    desk.write(
        "events.json",
        r#"{"kind": "composed", "events": [
            {"kind": "gaussian", "noise_multiplier": 4.0, "change": "replace"},
            {"kind": "repeated", "count": 4, "event": {"kind": "gaussian-diameter", "sensitivity": 1.0, "noise_std": 4.0}}]}"#,
    );
    // mu^2 = (2/4)^2 + 4 (1/4)^2 = 1/2, the same as one Gaussian of that mu.
    let tree = desk.json("account events events.json --delta 1e-6");
    desk.write("one.json", r#"{"kind": "gdp", "mu": 0.7071067811865476}"#);
    let one = desk.json("account events one.json --delta 1e-6");
    assert!((end(&tree, "epsilon", "upper") - end(&one, "epsilon", "upper")).abs() < 1e-6, "{tree} {one}");
    assert_eq!((&tree["change"], &one["change"]), (&Value::from("replace"), &Value::Null));
    let refused = desk.refused("account events events.json --delta 1e-6 --change zero-out");
    assert!(refused.contains("assume replace") && refused.contains("events.json"), "{refused}");
    desk.write("wrong.json", r#"{"kind": "gausian", "noise_multiplier": 1.0}"#);
    assert!(desk.refused("account events wrong.json --delta 1e-6").contains("gausian"));
    desk.write(
        "mixed.json",
        r#"{"kind": "composed", "events": [{"kind": "gaussian", "noise_multiplier": 4.0, "change": "replace"},
            {"kind": "gaussian", "noise_multiplier": 4.0, "change": "zero-out"}]}"#,
    );
    assert!(desk.refused("account events mixed.json --delta 1e-6").contains("both replace and zero-out"));
    assert!(desk.refused("account events nowhere.json --delta 1e-6").contains("nowhere.json"));
}

#[test]
fn a_person_reads_one_sentence_and_a_small_table() {
    let desk = Desk::new(1);
    let told = desk.ok("account gaussian --noise-multiplier 2 --change replace --delta 1e-5");
    // epsilon = 4.37718 (scipy), rounded up.
    assert!(
        told.contains("1 Gaussian release with noise multiplier 2 is (4.3772, 1e-5)-differentially private"),
        "{told}"
    );
    assert!(told.contains("replaced by any others (replace)"), "{told}");
    let rows = told.lines().skip_while(|line| !line.contains("at least")).skip(1);
    assert_eq!(rows.map(|row| row.split_whitespace().count()).collect::<Vec<_>>(), [3; 5], "{told}");
    let unbounded = desk.ok("account gaussian --noise-multiplier 2 --change replace --delta 0");
    assert!(unbounded.contains("not differentially private at delta 0"), "{unbounded}");
    let several = desk.ok("account pure --epsilon-each 0.5 --steps 2 --epsilon 1 --group-size 2");
    assert!(several.starts_with("2 pure releases of epsilon 0.5 are (1, "), "{several}");
}

/// Plain digits would be 300 zeros.
#[test]
fn tiny_numbers_are_told_with_an_exponent() {
    let desk = Desk::new(1);
    let budget = "--epsilon 1e-200 --delta 1e-300";
    for told in [
        desk.ok("account gaussian --noise-multiplier 2 --change replace --delta 1e-300"),
        desk.ok("account gaussian --noise-multiplier 2 --change replace --epsilon 37.4"),
        desk.ok("account laplace --sensitivity 1e-300 --scale 1e-300 --delta 1e-300"),
        desk.ok("account pure --epsilon-each 1e-300 --delta 0"),
        desk.ok("calibrate laplace --sensitivity 1e-300 --epsilon 1e-5 --delta 1e-300"),
        desk.refused(&format!("calibrate gaussian {budget} --change replace")),
        desk.refused(&format!("calibrate pure {budget}")),
        desk.refused("account gaussian --noise-multiplier 1e-300 --change replace --delta 1e-5"),
    ] {
        assert!(told.contains("e-30") || told.contains("e-29"), "{told}");
        assert!(!told.contains("0.0000"), "{told}");
    }
}

#[test]
fn the_profile_is_drawn() {
    let desk = Desk::new(1);
    let told =
        desk.ok("account gaussian --noise-multiplier 2 --change replace --delta 1e-5 --plot profile.svg");
    assert!(told.contains("drawn in profile.svg"), "{told}");
    let drawing = desk.read("profile.svg");
    assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>") && drawing.contains("the promise"));
    let nowhere = "account gaussian --noise-multiplier 2 --change replace --delta 1e-5 --plot no/such.svg";
    assert!(desk.refused(nowhere).contains("the folder no does not exist"));
    desk.ok("calibrate gaussian --epsilon 1 --delta 1e-6 --change replace --plot noise.svg");
    assert!(desk.read("noise.svg").starts_with("<svg"));
}

#[test]
fn questions_without_an_answer_are_refused() {
    let desk = Desk::new(1);
    for (words, expected) in [
        ("gaussian --noise-multiplier 1 --delta 1e-5", "--change"),
        ("poisson-gaussian --rate 0.1 --noise-multiplier 1 --steps 5 --delta 1e-5", "--change"),
        ("gaussian --noise-multiplier 1 --change replace", "--delta"),
        ("gaussian --noise-multiplier 1 --change replace --delta 1e-5 --epsilon 1", "--epsilon"),
        ("gaussian --noise-multiplier -1 --change replace --delta 1e-5", "noise multiplier = -1"),
        ("gaussian --noise-multiplier 1 --change replace --delta 1.5", "delta = 1.5"),
        ("gaussian --noise-multiplier 1 --change replace --epsilon inf", "epsilon = inf"),
        ("gaussian --noise-multiplier 1 --change replace --delta 1e-5 --steps 0", "--steps 0"),
        ("gaussian --noise-multiplier 1 --change replace --delta 1e-5 --group-size 0", "--group-size"),
        ("gaussian --noise-multiplier 1 --change remove --delta 1e-5", "zero-out"),
        (
            "poisson-gaussian --rate 2 --noise-multiplier 1 --steps 5 --change replace --delta 1e-5",
            "rate = 2",
        ),
        ("poisson-gaussian --rate 1/0 --noise-multiplier 1 --steps 5 --change replace --delta 1e-5", "rate"),
        (
            "poisson-gaussian --rate often --noise-multiplier 1 --steps 5 --change replace --delta 1e-5",
            "500/29700",
        ),
        (
            "fixed-size-gaussian --rate 0.1 --noise-multiplier 1 --steps 5 --change zero-out --delta 1e-5",
            "replace only",
        ),
        ("laplace --sensitivity 0 --scale 1 --delta 1e-5", "--sensitivity"),
        ("pure --epsilon-each nan --delta 1e-5", "--epsilon-each"),
    ] {
        let message = desk.refused(&format!("account {words} --plot never.svg"));
        assert!(message.contains(expected), "{words}: {message}");
    }
    assert!(!desk.path("never.svg").exists());
}
