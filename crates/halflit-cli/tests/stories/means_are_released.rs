use crate::{Desk, files_of};

const CLINIC: &str = r#"[budget]
epsilon = 1.0
delta = 1e-6

[protect]
unit = "user"
user = "patient"
public_rows = { column = "consent", equals = "yes" }

[columns.patient]
visibility = "public"

[columns.consent]
visibility = "public"

[columns.age]
bounds = [0, 100]
visibility = "public"

[columns.glucose]
bounds = [0, 1000]

[columns.bmi]
bounds = [0, 100]
"#;

/// Visits of a clinic: glucose around 100, bmi around 25, two visits per patient, one patient in ten consented.
fn clinic(rows: usize) -> Desk {
    let desk = Desk::new(1);
    let mut csv = String::from("patient,consent,age,glucose,bmi\n");
    for row in 0..rows {
        let consent = if row / 2 % 10 == 0 { "yes" } else { "no" };
        csv.push_str(&format!(
            "{},{consent},{},{},{}\n",
            row / 2,
            row % 90,
            80 + row * 7 % 41,
            20 + row * 3 % 11
        ));
    }
    desk.write("clinic.csv", &csv);
    desk.write("clinic.toml", CLINIC);
    desk
}

const MEAN: &str = "mean clinic.csv --privacy clinic.toml --columns age,glucose,bmi";

#[test]
fn a_declaration_without_a_task_gives_means_and_a_certificate() {
    let desk = clinic(4000);
    let plan = desk.ok(&format!("{MEAN} --plan"));
    assert!(
        plan.contains("centred-weighted")
            && plan.contains("public-only")
            && plan.contains("Nothing was spent"),
        "{plan}"
    );
    assert!(!desk.path("clinic.ledger").exists());

    let said = desk.ok(MEAN);
    // Laplace noise is the better one here, and it uses nothing of the declared delta.
    assert!(said.contains("laplace noise") && said.contains("Spent epsilon 1 at delta 0;"), "{said}");
    assert_eq!(
        files_of(&desk.path("clinic-mean")),
        ["certificate.json", "mean.json", "mean.svg", "report.html"]
    );
    desk.ok("verify clinic-mean/certificate.json --model clinic-mean/mean.json");
    assert!(
        desk.ok("verify clinic-mean").contains("mean.json is the certified"),
        "a folder is checked whole"
    );
    assert!(desk.ok("ledger show --ledger clinic.ledger").contains("weighted_mean"));

    let mean: serde_json::Value = serde_json::from_str(&desk.read("clinic-mean/mean.json")).unwrap();
    let column = |index: usize, key: &str| mean["columns"][index][key].as_f64();
    // The public column is exact; the others are within six standard errors of 100 and 25 (fresh randomness: 2e-9).
    assert_eq!(column(0, "noise_deviation"), Some(0.0));
    for (index, expected) in [(1, 100.0), (2, 25.0)] {
        let z = (column(index, "mean").unwrap() - expected) / column(index, "standard_error").unwrap();
        assert!(z.abs() < 6.0, "{mean}");
    }
    assert!(desk.read("clinic-mean/report.html").contains("Private means of 3 columns"));
}

/// `check` takes the declaration as it is, and says what it is good for.
#[test]
fn a_declaration_without_a_task_is_checked() {
    let desk = clinic(100);
    let check = "check clinic.csv --privacy clinic.toml";
    let said = desk.ok(check);
    for words in [
        "none; good for halflit mean and halflit local randomize",
        "columns with bounds     age, glucose, bmi",
        "halflit mean clinic.csv --privacy clinic.toml --columns age,glucose,bmi --plan",
        "plan, train and refit need a section [task]",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let answer = desk.json(check);
    assert_eq!((&answer["label"], &answer["facts"]["public_rows"]), (&serde_json::Value::Null, &10.into()));
    // Whoever needs a task says so.
    assert!(desk.refused("plan clinic.csv --privacy clinic.toml").contains("[task] needs `label`"));
    desk.write("clinic.csv", &desk.read("clinic.csv").replace(",20\n", ",200\n"));
    assert!(desk.refused(check).contains("column `bmi`: 200 is outside [0, 100]"));
}

/// A selector that selects nothing is a slip more often than not.
#[test]
fn a_selector_without_rows_is_pointed_out() {
    let desk = clinic(100);
    desk.write("clinic.toml", &CLINIC.replace("equals = \"yes\"", "equals = \"Yes\""));
    let said = desk.ok("check clinic.csv --privacy clinic.toml");
    assert!(said.contains("column `consent` is never Yes") && said.contains("it is yes, no"), "{said}");
    let answer = desk.json("check clinic.csv --privacy clinic.toml");
    assert_eq!(answer["remarks"].as_array().unwrap().len(), 1);
}

#[test]
fn variants_noise_and_budget_can_be_chosen() {
    let desk = clinic(2000);
    for (index, (variant, noise)) in
        [("gaussian", "gaussian"), ("weighted", "laplace"), ("centred-weighted", "gaussian")]
            .into_iter()
            .enumerate()
    {
        let words = format!("{MEAN} --variant {variant} --noise {noise} --epsilon 0.3 --out out{index}");
        let release = desk.json(&words);
        assert_eq!(
            (&release["mean"]["variant"], &release["mean"]["noise"]),
            (&variant.into(), &noise.into())
        );
        desk.ok(&format!("verify out{index}/certificate.json"));
    }
    let refused = desk.refused(&format!("{MEAN} --epsilon 0.9 --out more"));
    assert!(refused.contains("account default allows epsilon 1"), "{refused}");
    assert!(!desk.path("more").exists());
    // The public rows alone cost nothing, whatever was spent.
    assert_eq!(desk.json(&format!("{MEAN} --variant public-only --out free"))["guarantee"]["epsilon"], 0.0);
}

#[test]
fn wrong_words_are_refused_before_anything_is_spent() {
    let desk = clinic(100);
    for (words, says) in [
        ("--columns glucoze", "did you mean `glucose`"),
        ("--columns patient", "set `use = true`"),
        ("--columns consent", "set `use = true`"),
        ("--columns bmi --variant gaussian --noise laplace", "the variant gaussian needs Gaussian noise"),
        ("--columns bmi --noise gaussian --delta 0", "no finite epsilon at delta = 0"),
        ("--columns bmi --epsilon -1", "must be a number above 0 and at most 1e9"),
        ("--columns bmi --delta NaN", "at least 0 and at most 0.5"),
        ("--columns bmi,bmi", "twice"),
        ("--columns bmi --variant best", "possible values"),
        ("--columns bmi --variant public-only --noise laplace", "--variant public-only adds no noise"),
        ("", "--columns"),
    ] {
        let refused = desk.refused(&format!("mean clinic.csv --privacy clinic.toml {words}"));
        assert!(refused.contains(says), "{words}: {refused}");
    }
    desk.write("clinic.csv", &desk.read("clinic.csv").replace(",20\n", ",200\n"));
    let refused = desk.refused(MEAN);
    // The first of them is in a public row.
    assert!(refused.contains("column `bmi` has private cells"), "{refused}");
    assert_eq!(refused.matches("200 is outside [0, 100]").count(), 1, "{refused}");
    assert!(!desk.path("clinic.ledger").exists(), "nothing was spent");
    let answer = desk.json(&format!("{MEAN} --coerce"));
    assert!(answer["warnings"][0].as_str().unwrap().contains("the middle of its bounds"), "{answer}");
}

/// delta = 0 from the declaration to the account: Laplace noise, a certificate of pure differential privacy, epsilons that add up.
#[test]
fn a_mean_can_be_pure() {
    let desk = clinic(2000);
    let plan = desk.ok(&format!("{MEAN} --plan --delta 0"));
    assert!(plan.contains("laplace") && plan.contains("public-only") && !plan.contains("gaussian"), "{plan}");
    let public_only = plan.lines().find(|line| line.contains("public-only")).unwrap();
    assert!(public_only.ends_with("none"), "no clip norm without private cells: {plan}");

    desk.write("clinic.toml", &CLINIC.replace("delta = 1e-6", "delta = 0"));
    let half = format!("{MEAN} --variant weighted --epsilon 0.5");
    let said = desk.ok(&format!("{half} --out one"));
    assert!(
        said.contains("at delta 0; charge") && said.contains("left for one further pure release"),
        "{said}"
    );
    desk.ok(&format!("{half} --out two"));
    let verified = desk.ok("verify two");
    assert!(verified.contains("epsilon 0.5 at delta 0 (pure differential privacy)"), "{verified}");
    assert!(verified.contains("is the certified mean"), "{verified}");
    let certificate: serde_json::Value = serde_json::from_str(&desk.read("two/certificate.json")).unwrap();
    assert_eq!(certificate["guarantee"]["delta"], 0.0);
    assert_eq!(certificate["mechanism"]["public_columns"], serde_json::json!(["age"]));
    assert_eq!(certificate["mechanism"]["sensitive_columns"], serde_json::json!(["glucose", "bmi"]));
    let refused = desk.refused(&format!("{half} --out three"));
    assert!(refused.contains("account default allows epsilon 1 at delta 0"), "{refused}");
    // A release that is not pure does not fit the account, whatever it costs.
    let refused = desk.refused(&format!("{MEAN} --variant gaussian --delta 1e-6 --epsilon 0.01 --out four"));
    assert!(refused.contains("pure differential privacy only") && refused.contains("--delta 0"), "{refused}");
    // The mean of a public column is free and exact, under any budget.
    let free = desk.json("mean clinic.csv --privacy clinic.toml --columns age --out free");
    assert_eq!(free["mechanism"]["variant"], "exact");
    desk.ok("verify free");
}

#[test]
fn spaces_around_names_do_not_count() {
    let desk = clinic(200);
    let mut command = desk.command("mean clinic.csv --privacy clinic.toml --plan --columns");
    let output = command.arg("age, glucose , bmi").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", crate::stderr(&output));
}
