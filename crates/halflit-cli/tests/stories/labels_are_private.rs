use crate::{DECLARATION, Desk, files_of};

/// Patients whose age and ward are public and whose illness is not.
fn desk() -> Desk {
    let desk = Desk::new(3000);
    let public_ward = DECLARATION.replace("\"south\"]\n", "\"south\"]\nvisibility = \"public\"\n");
    desk.write("privacy.toml", &public_ward);
    desk
}

#[test]
fn one_release_serves_many_models() {
    let desk = desk();
    assert!(desk.ok("check patients.csv").contains("differ only in the column ill of one row"));
    let plan = desk.json("plan patients.csv");
    assert_eq!(plan["candidates"][0]["mechanism"], "noisy_statistics", "{plan}");
    assert!(desk.ok("train patients.csv").contains("statistics.json and report.html in patients-release"));
    assert!(desk.read("patients-release/report.html").contains("and the statistics where there are any"));
    assert_eq!(
        files_of(&desk.path("patients-release")),
        ["certificate.json", "model.json", "report.html", "statistics.json"]
    );
    assert!(desk.ok("verify patients-release").contains("holds the certified statistics"));
    assert!(desk.read("patients-release/report.html").contains("standard error"));

    let refit = "refit patients.csv --release patients-release --out again --regularization 0.001";
    assert!(desk.ok(refit).contains("Nothing was charged"));
    desk.ok("verify again");
    desk.ok("refit patients.csv --release again --weight-size 0.5 --out once-more");
    assert_ne!(desk.read("again/model.json"), desk.read("once-more/model.json"));
    // A whole path costs nothing, and the least estimated loss can be taken.
    let path = desk.json("refit patients.csv --release patients-release --path");
    assert_eq!(path["path"].as_array().unwrap().len(), 15);
    assert!(desk.ok("refit patients.csv --release patients-release --path").contains("what stein takes"));
    desk.ok("refit patients.csv --release patients-release --regularization stein --out by-stein");
    let projected = "refit patients.csv --release patients-release --sums projected";
    assert!(desk.ok(&format!("{projected} --regularization 0.01 --out near")).contains("projected onto"));
    assert!(desk.ok(&format!("{projected} --path")).contains("no estimate"));
    for wrong in ["", "--weight-size 1 --regularization 0.1", "--regularization stein"] {
        desk.refused(&format!("{projected} --out wrong {wrong}"));
    }
    desk.ok("verify by-stein");
    for wrong in ["0", "-1", "NaN", "many", "1e308"] {
        let refused = desk.refused(&format!(
            "refit patients.csv --release patients-release --out wrong --regularization {wrong}"
        ));
        assert!(refused.contains("above 0 and at most 1e9, or stein"), "{refused}");
    }
    assert_eq!(desk.json("ledger show patients.csv")["charges"].as_array().unwrap().len(), 1);
}

/// The fit reads the released sums and public columns: other labels in the file change nothing.
#[test]
fn a_refit_does_not_see_the_labels() {
    let desk = desk();
    desk.ok("train patients.csv");
    desk.ok("refit patients.csv --release patients-release --out before");
    let flipped = desk.read("patients.csv").replace(",yes\n", ",no\n");
    desk.write("patients.csv", &flipped);
    desk.ok("refit patients.csv --release patients-release --out after");
    assert_eq!(desk.read("before/model.json"), desk.read("after/model.json"));
    // They may be anything, or not be there at all.
    desk.write("patients.csv", &flipped.replace(",no\n", ",withdrawn\n"));
    desk.ok("refit patients.csv --release patients-release --out withdrawn");
    let without: String =
        flipped.lines().map(|line| line.rsplit_once(',').unwrap().0.to_owned() + "\n").collect();
    desk.write("patients.csv", &without);
    desk.ok("refit patients.csv --release patients-release --out without");
    for other in ["withdrawn", "without"] {
        assert_eq!(desk.read("before/model.json"), desk.read(&format!("{other}/model.json")));
    }
    assert!(desk.refused("train patients.csv --out never").contains("column `ill` is declared"));
}

#[test]
fn other_statistics_are_refused() {
    let desk = desk();
    desk.ok("train patients.csv");
    let statistics = desk.read("patients-release/statistics.json");
    desk.write("patients-release/statistics.json", &statistics.replacen("\"sums\"", " \"sums\"", 1));
    let output = desk.run("verify patients-release");
    assert_eq!(output.status.code(), Some(1));
    assert!(crate::stderr(&output).contains("is not the statistics"), "{}", crate::stderr(&output));
    let refused = desk.refused("refit patients.csv --release patients-release --out again");
    assert!(refused.contains("not the statistics that the certificate is about"), "{refused}");
    assert!(!desk.path("again").exists());
    for size in ["0", "-1", "NaN", "inf", "1e300", "1e-300"] {
        desk.write("patients-release/statistics.json", &statistics);
        let refused = desk.refused(&format!(
            "refit patients.csv --release patients-release --out again --weight-size {size}"
        ));
        assert!(refused.contains("--weight-size") && refused.contains("from 1e-9 to 1e9"), "{refused}");
    }
}

/// A model of the same numbers read otherwise would be a model of the opposite.
#[test]
fn a_label_that_means_something_else_is_refused() {
    let desk = desk();
    desk.ok("train patients.csv");
    let declared = desk.read("privacy.toml");
    let flipped = declared.replace(r#"values = ["no", "yes"]"#, r#"values = ["yes", "no"]"#);
    assert_ne!(flipped, declared);
    desk.write("privacy.toml", &flipped);
    let refused = desk.refused("refit patients.csv --release patients-release --out again");
    assert!(refused.contains("`ill`") && refused.contains("same order"), "{refused}");
    assert!(!desk.path("again").exists());
}

/// A delta of one over the number of people would let one of them be published.
#[test]
fn a_delta_that_protects_nobody_is_remarked_on() {
    let desk = desk();
    let declared = desk.read("privacy.toml");
    assert!(!desk.ok("check patients.csv").contains("Note:"));
    desk.write("privacy.toml", &declared.replace("delta = 1e-6", "delta = 0.1"));
    let said = desk.ok("check patients.csv");
    assert!(said.contains("is not below one in 3000"), "{said}");
}

/// delta = 0: what is pure trains, what is not says what to do, and nothing is spent on the way.
#[test]
fn a_model_can_be_pure() {
    let desk = desk();
    desk.write("privacy.toml", &desk.read("privacy.toml").replace("delta = 1e-6", "delta = 0"));
    assert!(desk.ok("check patients.csv").contains("epsilon 2, delta 0"));
    let refused = desk.refused("train patients.csv --mechanism noisy_statistics");
    assert!(refused.contains("delta = 0") && refused.contains("randomized_response"), "{refused}");
    assert!(!desk.path("patients.ledger").exists());
    let plan = desk.json("plan patients.csv");
    assert_eq!(plan["candidates"][0]["mechanism"], "randomized_response", "{plan}");
    let said = desk.ok("train patients.csv");
    assert!(said.contains("at delta 0; charge"), "{said}");
    assert!(desk.ok("verify patients-release").contains("pure differential privacy"));
    // Where everything is a secret, nothing that is pure fits.
    let desk = Desk::new(50);
    let refused = desk.refused("train patients.csv --delta 0");
    assert!(refused.contains("noisy_gradient has no finite epsilon at delta = 0"), "{refused}");
}
