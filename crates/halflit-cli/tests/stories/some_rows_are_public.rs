use crate::Desk;

const DECLARATION: &str = r#"[budget]
epsilon = 100.0
delta = 1e-6

[protect]
unit = "row"
public_rows = { column = "consent", equals = "yes" }

[task]
label = "cost"
loss = "squared"

[columns.age]
bounds = [0, 100]

[columns.weight]
bounds = [40, 120]

[columns.cost]
bounds = [0, 200]

[columns.consent]
visibility = "public"
use = false
"#;

/// Patients of whom every tenth consented; what they cost grows with age and weight.
fn desk() -> Desk {
    let desk = Desk::new(0);
    let mut csv = String::from("age,weight,consent,cost\n");
    for row in 0..2000 {
        let (age, weight) = ((row * 37) % 101, 40 + (row * 53) % 81);
        let cost = age / 2 + weight / 2 + (row * 13) % 40;
        let consent = if row % 10 == 0 { "yes" } else { "no" };
        csv.push_str(&format!("{age},{weight},{consent},{cost}\n"));
    }
    desk.write("patients.csv", &csv);
    desk.write("privacy.toml", DECLARATION);
    desk
}

#[test]
fn the_plan_ranks_what_can_be_done_with_public_rows() {
    let desk = desk();
    assert!(desk.ok("check patients.csv").contains("among the rows where consent is not yes"));
    let plan = desk.json("plan patients.csv --epsilon 1");
    let candidates = plan["candidates"].as_array().unwrap();
    let excess = |words: &str| {
        let is_meant = |candidate: &&serde_json::Value| {
            let text = |key: &str| candidate[key].as_str().unwrap().to_owned();
            text("mechanism") == words || text("variant").contains(words)
        };
        let found = candidates.iter().find(is_meant).unwrap_or_else(|| panic!("{words}: {plan}"));
        found["predicted_excess"].as_f64().unwrap_or_else(|| panic!("{words} is not predicted"))
    };
    let best = candidates[0]["predicted_excess"].as_f64().unwrap();
    for words in ["from the public fit", "PDA-MD", "public rows treated as private", "public_rows"] {
        assert!(excess(words) >= best, "{words}");
    }
    let text = desk.ok("train patients.csv --epsilon 1");
    assert!(text.contains("public rows lower the predicted excess loss"), "{text}");
    let report = desk.read("patients-release/report.html");
    assert!(
        report.contains("public rows lower the predicted excess loss"),
        "the report says what they bought"
    );
    desk.ok("verify patients-release");
}

#[test]
fn the_papers_methods_run_by_name() {
    let desk = desk();
    for (number, method) in [
        "dp-gd",
        "dp-sgd --sampling-rate 1/20 --steps 100",
        "dp-sgd --one-pass 10 --momentum 0.5",
        "paper-002-alg-1 --sampling-rate 1/20 --steps 100 --alpha 0.7 --public-batch 50",
        "paper-002-alg-1 --one-pass 18 --alpha 0.7 --clip-norm 0.5 --step-size 0.3 --start zero",
        "paper-002-alg-1 --one-pass 18 --alpha 0.7 --keep-public-norms --clip-quantile 0.8",
        "paper-002-accelerated --one-pass 18 --alpha 0.7",
        "pda-md",
        "pda-md --sampling-rate 1/20 --steps 100",
        "newton",
    ]
    .into_iter()
    .enumerate()
    {
        desk.ok(&format!("train patients.csv --epsilon 5 --method {method} --out release-{number}"));
        desk.ok(&format!("verify release-{number}"));
    }
}

#[test]
fn methods_say_what_they_need() {
    let desk = desk();
    for (options, expected) in [
        ("--method dp-sgd", "--sampling-rate"),
        ("--method paper-002-alg-1 --alpha 0.5", "--sampling-rate"),
        ("--method paper-002-alg-1 --sampling-rate 1/20", "--alpha"),
        ("--method paper-002-alg-1 --sampling-rate 1/20 --alpha auto", "--alpha"),
        ("--method paper-002-accelerated --sampling-rate 1/20 --alpha 0.5", "--one-pass"),
        ("--method dp-gd --sampling-rate 1/20", "--sampling-rate: --method dp-gd has no such part"),
        ("--method posterior --clip-norm 2", "--clip-norm: --method posterior"),
        ("--method newton --start zero", "--start: --method newton"),
        (
            "--method paper-002-accelerated --one-pass 10 --alpha 0.5 --step-size 1",
            "--step-size: --method paper-002-accelerated",
        ),
        ("--keep-public-norms", "paper-002-alg-1"),
        ("--known-rate 2", "--known-rate 2"),
        ("--known-rate 1/2", "a rate of the known part"),
        ("--method pda-md --alpha 0.5", "--alpha"),
        ("--method pda-md --momentum 0.5", "--momentum"),
        ("--method dp-gd --public-batch 5", "--public-batch"),
        ("--momentum 1", "below 1"),
        ("--momentum NaN", "below 1"),
        ("--mechanism public_rows --steps 5", "public_rows has no steps"),
        ("--method newton --sampling-rate 1/20", "--sampling-rate: --method newton"),
        ("--method paper-003-alg-1 --sampling-rate 1/20", "public feature"),
    ] {
        let refused = desk.refused(&format!("train patients.csv {options}"));
        assert!(refused.contains(expected), "{options}: {refused}");
        assert!(!desk.path("patients.ledger").exists(), "{options}");
    }
}

/// A model of the public rows alone says so, and claims no noise and no help from others.
#[test]
fn a_model_of_the_public_rows_alone_says_so() {
    let desk = desk();
    let text = desk.ok("train patients.csv --mechanism public_rows");
    assert!(text.contains("The 200 public rows alone come to a predicted excess loss"), "{text}");
    let report = desk.read("patients-release/report.html");
    for (wrong, right) in [
        ("with both", "of them alone"),
        ("weights are noisy", "No noise was added"),
        ("do not lower", "nothing is spent"),
    ] {
        assert!(!report.contains(wrong) && report.contains(right), "{wrong}");
    }
}
