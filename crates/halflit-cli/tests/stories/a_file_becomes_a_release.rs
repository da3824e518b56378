use crate::{Desk, files_of};

#[test]
fn from_a_csv_to_a_model_a_certificate_and_a_report() {
    let desk = Desk::new(3000);
    let check = desk.ok("check patients.csv");
    assert!(
        check.contains(
            "Two tables are neighbours if they differ only in the columns ill and ward of one row."
        ),
        "{check}"
    );
    assert!(check.contains("4 coordinates") && check.contains("row norm bound"), "{check}");
    let plan = desk.ok("plan patients.csv");
    assert!(plan.contains("midrange") && plan.contains("centre zero"), "{plan}");
    assert_eq!(
        desk.files(),
        ["patients.csv", "privacy.toml"],
        "checking and planning write and spend nothing"
    );

    let train = desk.ok("train patients.csv");
    assert!(train.contains("Spent epsilon 2 at delta 1e-6"), "{train}");
    assert_eq!(desk.files(), ["patients-release", "patients.csv", "patients.ledger", "privacy.toml"]);
    assert_eq!(files_of(&desk.path("patients-release")), ["certificate.json", "model.json", "report.html"]);

    let verify = desk.ok("verify patients-release/certificate.json --model patients-release/model.json");
    assert!(
        verify.contains("The certificate holds") && verify.contains("is the certified model"),
        "{verify}"
    );
    assert!(
        desk.ok("verify patients-release").contains("is the certified model"),
        "a folder is checked whole"
    );
    let ledger = desk.ok("ledger show patients.csv");
    assert!(ledger.contains("released, model"), "{ledger}");

    let predictions = desk.ok("predict patients-release/model.json patients.csv");
    assert_eq!(predictions, desk.ok("predict patients-release patients.csv"));
    assert_eq!(predictions.lines().count(), 3001);
    assert_eq!(predictions.lines().next(), Some("ill,probability of no,probability of yes"));
    let evaluation = desk.json("predict patients-release/model.json patients.csv --evaluate");
    assert!(evaluation["evaluation"]["accuracy"].as_f64().unwrap() > 0.75, "{evaluation}");
}

#[test]
fn every_command_answers_in_json() {
    let desk = Desk::new(400);
    assert_eq!(desk.json("check patients.csv")["facts"]["private_units"], 400);
    let plan = desk.json("plan patients.csv");
    assert!(plan["epsilon"]["upper"].as_f64().unwrap() <= 2.0);
    let train = desk.json("train patients.csv --out here --epsilon 0.5");
    assert_eq!(train["guarantee"]["epsilon"], 0.5);
    assert_eq!(desk.json("verify here/certificate.json")["valid"], true);
    assert_eq!(desk.json("ledger show patients.csv")["charges"].as_array().unwrap().len(), 1);
    let predicted = desk.json("predict here/model.json patients.csv");
    assert_eq!((&predicted["rows"], &predicted["label"]), (&400.into(), &"ill".into()));
    let predictions = predicted["predictions"].as_array().unwrap();
    assert_eq!(predictions.len(), 400);
    let first = &predictions[0];
    assert!(first["probabilities"][first["class"].as_str().unwrap()].as_f64().unwrap() >= 0.5, "{first}");
    let elsewhere = desk.json("predict here/model.json patients.csv --out predicted.csv");
    assert!(elsewhere.get("predictions").is_none(), "they are in the file");
    let calibrated = desk.json("calibrate gaussian --epsilon 1 --delta 1e-6 --change replace");
    assert!(calibrated["noise_multiplier"].as_f64().unwrap() > 8.0);
    let account = desk.json("account gaussian --noise-multiplier 10 --delta 1e-6 --change replace");
    assert!(account["epsilon"]["lower"].as_f64() <= account["epsilon"]["upper"].as_f64());
}

#[test]
fn the_budget_runs_out_and_says_so() {
    let desk = Desk::new(400);
    desk.ok("train patients.csv --epsilon 1.5 --out one");
    let refused = desk.refused("train patients.csv --epsilon 1.5 --out two");
    assert!(refused.contains("account default allows epsilon 2") && refused.contains("fits"), "{refused}");
    assert!(!desk.path("two").exists());
    assert!(refused.contains("plan with a smaller --epsilon"), "{refused}");
    desk.ok("train patients.csv --epsilon 0.5 --out three");
    assert_eq!(desk.json("ledger show patients.csv")["charges"].as_array().unwrap().len(), 2);
    // Advice that cannot help is none.
    let desk = Desk::new(400);
    desk.ok("train patients.csv --out all");
    let refused = desk.refused("train patients.csv --epsilon 1");
    assert!(refused.contains("nothing is left") && !refused.contains("smaller"), "{refused}");
    let plan = desk.ok("plan patients.csv");
    assert!(plan.contains("Account default") && plan.contains("nothing left"), "{plan}");
    assert!(!plan.contains("Next: halflit train"), "{plan}");
}

/// All of it is there, not nearly all.
#[test]
fn of_an_unspent_budget_everything_is_left() {
    let desk = Desk::new(400);
    let refused = desk.refused("train patients.csv --epsilon 3");
    assert!(refused.contains("at most epsilon 2 fits"), "{refused}");
    desk.ok("ledger open patients.csv --account a");
    assert!(desk.ok("ledger show patients.csv").contains(", 2 left for"));
    desk.ok("train patients.csv --epsilon 2");
}

/// A larger account lets more through than the declaration foresees, but not in silence.
#[test]
fn spending_beyond_the_declared_budget_is_warned_of() {
    let desk = Desk::new(400);
    desk.ok("ledger open patients.csv --account large --epsilon 100");
    let within = desk.json("train patients.csv --epsilon 1 --out within");
    assert_eq!(within["warnings"], serde_json::json!([]));
    let means =
        "[budget]\nepsilon = 2\ndelta = 1e-6\n[protect]\nunit = \"row\"\n[columns.age]\nbounds = [0, 100]\n";
    desk.write("means.toml", means);
    for (command, file) in
        [("train", "patients.csv"), ("mean --columns age", "patients.csv --privacy means.toml")]
    {
        let ledger = format!("{}.ledger", &command[..4]);
        desk.ok(&format!("ledger open {file} --account large --epsilon 100 --ledger {ledger}"));
        let said = desk.run(&format!(
            "{command} {file} --epsilon 5 --out {}-out --ledger {ledger} --json",
            &command[..4]
        ));
        let warning: serde_json::Value = serde_json::from_slice(&said.stderr).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        let words = warning["warning"].as_str().unwrap();
        assert!(words.contains("beyond the declared budget (epsilon 2, delta 1e-6)"), "{words}");
        assert_eq!(answer["warnings"], serde_json::json!([words]));
    }
}

/// Whoever reads the warning in time can still stop: it stands before the charge, in words and in JSON.
#[test]
fn training_that_buys_nothing_is_warned_of() {
    let desk = Desk::new(40);
    let hopeless = "train patients.csv --mechanism noisy_gradient --epsilon 0.001";
    let said = desk.run(&format!("{hopeless} --out words"));
    assert_eq!(said.status.code(), Some(0));
    assert!(crate::stderr(&said).starts_with("warning: at this budget the model"), "{said:?}");
    let said = desk.run(&format!("{hopeless} --out json --json"));
    let warning: serde_json::Value = serde_json::from_slice(&said.stderr).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(answer["warnings"], serde_json::json!([warning["warning"]]));
    // A ledger that refuses the charge comes after it.
    let refused = desk.refused(&format!("{hopeless} --out late --ledger privacy.toml"));
    assert!(refused.find("warning").unwrap() < refused.find("not a halflit ledger").unwrap(), "{refused}");
}

#[test]
fn a_skeleton_is_filled_in_step_by_step() {
    let desk = Desk::new(200);
    std::fs::remove_file(desk.path("privacy.toml")).unwrap();
    assert!(
        desk.refused("check patients.csv").contains("halflit init"),
        "a missing declaration names the remedy"
    );
    desk.ok("init patients.csv");
    let skeleton = desk.read("privacy.toml");
    assert!(!skeleton.contains("north"), "nothing is measured: {skeleton}");
    let unfilled = desk.refused("check patients.csv");
    assert!(unfilled.contains("fill in") && unfilled.contains("privacy.toml:"), "{unfilled}");
    assert!(desk.refused("init patients.csv").contains("--force"));
    desk.ok("init patients.csv --measure --force");
    let measured = desk.read("privacy.toml").replace("label = \"fill in\"", "label = \"ill\"");
    assert!(measured.contains("NOT PRIVATE") && measured.contains("\"north\", \"south\""), "{measured}");
    desk.write("privacy.toml", &measured.replace("loss = \"fill in\"", "loss = \"logistic\""));
    desk.ok("check patients.csv");
}

#[test]
fn gzip_and_another_place_for_everything() {
    let desk = Desk::new(300);
    std::fs::create_dir(desk.path("elsewhere")).unwrap();
    std::fs::rename(desk.path("privacy.toml"), desk.path("elsewhere/p.toml")).unwrap();
    desk.ok("train patients.csv --privacy elsewhere/p.toml --ledger elsewhere/l --out elsewhere/out --mechanism noisy_gradient --sampling-rate 1/4 --steps 30");
    assert_eq!(files_of(&desk.path("elsewhere")), ["l", "out", "p.toml"]);
    let certificate = desk.read("elsewhere/out/certificate.json");
    assert!(
        certificate.contains("\"denominator\": 4") && certificate.contains("poisson-gaussian"),
        "{certificate}"
    );
    desk.ok("verify elsewhere/out/certificate.json");
    desk.ok("ledger show --ledger elsewhere/l");
}

#[test]
fn a_tampered_certificate_fails() {
    let desk = Desk::new(300);
    desk.ok("train patients.csv --out out");
    let certificate = desk.read("out/certificate.json");
    desk.write("out/certificate.json", &certificate.replace("\"epsilon\": 2.0", "\"epsilon\": 1.0"));
    let output = desk.run("verify out/certificate.json");
    assert_eq!(output.status.code(), Some(1));
    assert!(crate::stderr(&output).contains("altered"), "{}", crate::stderr(&output));
    desk.write("out/certificate.json", &certificate);
    desk.write("out/model.json", &desk.read("out/model.json").replace("0.", "1."));
    assert_eq!(desk.run("verify out/certificate.json --model out/model.json").status.code(), Some(1));
}

#[test]
fn accounts_are_opened_and_closed() {
    let desk = Desk::new(300);
    desk.ok("ledger open patients.csv --account year --epsilon 4 --delta 1e-6");
    desk.ok("train patients.csv --epsilon 3 --out one");
    let full = "[columns.age]\nbounds = [0, 100]\n";
    desk.write(
        "full.toml",
        &desk
            .read("privacy.toml")
            .replace("[columns.age]\nbounds = [0, 100]\nvisibility = \"public\"\n", full),
    );
    assert!(
        desk.refused("ledger open patients.csv --privacy full.toml --account all")
            .contains("no bounded cost")
    );
    assert!(desk.refused("ledger close patients.csv --account nobody").contains("open accounts: year"));
    let ledger = "--account year --ledger patients.ledger";
    assert!(desk.ok(&format!("ledger close {ledger}")).contains("closed in patients.ledger"));
    assert!(desk.ok("ledger show patients.csv").contains("year (closed)"));
}
