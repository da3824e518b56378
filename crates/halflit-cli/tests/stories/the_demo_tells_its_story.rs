use crate::{Desk, files_of};

#[test]
fn the_demo_ends_with_a_report_and_a_sentence() {
    let desk = Desk::new(1);
    let demo = desk.ok("demo");
    assert!(demo.contains("The report: halflit-demo/release/report.html"), "{demo}");
    for row in ["without protection", "halflit", "consenting readers only"] {
        assert!(demo.contains(row), "{demo}");
    }
    let expected = ["ads.csv", "ads.ledger", "new-readers.csv", "privacy.toml", "release"];
    assert_eq!(files_of(&desk.path("halflit-demo")), expected);
    desk.ok("verify halflit-demo/release/certificate.json --model halflit-demo/release/model.json");
    assert!(desk.refused("demo").contains("exists already"));
}

#[test]
fn private_training_beats_the_consenting_readers_alone() {
    let desk = Desk::new(1);
    let answer = desk.json("demo --out story");
    let loss = |who: &str| answer["on_new_readers"][who]["mean_loss"].as_f64().unwrap();
    // The noise is fresh every time; the margins are far wider than its spread (0.001 over repeated runs).
    assert!(loss("private") < loss("public_rows_only") - 0.003, "{answer}");
    assert!(loss("private") < loss("without_protection") + 0.02, "{answer}");
}
