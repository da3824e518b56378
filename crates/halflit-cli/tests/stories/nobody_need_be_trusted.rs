use crate::{Desk, files_of};

const PHONES: &str = r#"[budget]
epsilon = 4.0
delta = 1e-6

[protect]
unit = "row"

[columns.steps]
bounds = [0, 20000]

[columns.sleep]
bounds = [0, 12]
"#;

/// A desk with `rows` phones: 8000 steps and 7 hours on average.
fn phones(rows: usize) -> Desk {
    let desk = Desk::new(1);
    let mut csv = String::from("steps,sleep\n");
    for row in 0..rows {
        csv.push_str(&format!("{},{}\n", 4000 + 8000 * (row % 2), 6 + 2 * ((row / 2) % 2)));
    }
    desk.write("phones.csv", &csv);
    desk.write("phones.toml", PHONES);
    desk
}

const RANDOMIZE: &str = "local randomize phones.csv --privacy phones.toml --columns steps,sleep";

#[test]
fn rows_are_randomized_here_and_averaged_there() {
    let desk = phones(4000);
    let said = desk.ok(RANDOMIZE);
    assert!(said.contains("4,000 messages") && said.contains("ideal arithmetic"), "{said}");
    assert_eq!(files_of(&desk.path("phones-messages")), ["certificate.json", "messages.ndjson"]);
    desk.ok("verify phones-messages/certificate.json --model phones-messages/messages.ndjson");
    let verified = desk.ok("verify phones-messages");
    assert!(
        verified.contains("is the certified file of messages") && verified.contains("at delta 0 (pure"),
        "{verified}"
    );
    assert!(desk.ok("ledger show --ledger phones.ledger").contains("local"));

    let mean = desk.json("local aggregate phones-messages/messages.ndjson");
    assert_eq!(mean["mean"]["messages"], 4000);
    for (column, expected) in mean["mean"]["columns"].as_array().unwrap().iter().zip([8000.0, 7.0]) {
        let z = (column["mean"].as_f64().unwrap() - expected) / column["standard_error"].as_f64().unwrap();
        // Fresh randomness: |z| > 6 has probability 2e-9.
        assert!(z.abs() < 6.0, "{column}");
    }
    // Public rows help, and the file stands beside.
    let volunteers: String = (0..500).map(|row| format!("{},{}\n", 7000 + 2000 * (row % 2), 7)).collect();
    desk.write("volunteers.csv", &format!("steps,sleep\n{volunteers}"));
    let words = "local aggregate phones-messages/messages.ndjson --public volunteers.csv --all-rows-public";
    let both = desk.json(&format!("{words} --out mean.json"));
    assert_eq!(both["mean"]["public_rows"], 500);
    assert!(
        both["mean"]["columns"][0]["standard_error"].as_f64()
            < mean["mean"]["columns"][0]["standard_error"].as_f64()
    );
    assert!(desk.read("mean.json").contains("\"halflit_local_mean\": 1"));
    assert!(desk.ok(&format!("{words} --weights equal")).contains("standard error"));
}

#[test]
fn a_second_run_costs_again_and_the_budget_runs_out() {
    let desk = phones(10);
    desk.ok(&format!("{RANDOMIZE} --epsilon 3 --out one"));
    let refused = desk.refused(&format!("{RANDOMIZE} --epsilon 3 --out two"));
    assert!(refused.contains("account default allows epsilon 4"), "{refused}");
    assert!(!desk.path("two").exists());
    assert_eq!(desk.json(&format!("{RANDOMIZE} --epsilon 1 --mechanism duchi --out two"))["messages"], 10);
}

#[test]
fn wrong_words_and_messages_are_refused() {
    let desk = phones(3);
    assert!(
        desk.refused("local randomize phones.csv --privacy phones.toml --columns step")
            .contains("did you mean `steps`")
    );
    assert!(desk.refused(&format!("{RANDOMIZE} --epsilon 0")).contains("must be a number between"));
    assert!(desk.refused(&format!("{RANDOMIZE} --epsilon NaN")).contains("must be a number between"));
    assert!(desk.refused("local aggregate nothing.ndjson").contains("nothing.ndjson cannot be read"));
    assert!(!desk.path("phones.ledger").exists(), "nothing was spent");
    desk.ok(RANDOMIZE);
    let messages = desk.read("phones-messages/messages.ndjson");
    desk.write("broken.ndjson", &format!("{messages}not a message\n"));
    assert!(
        desk.refused("local aggregate broken.ndjson")
            .contains("broken.ndjson: line 4: this is not a message")
    );
    desk.write("twice.ndjson", &format!("{messages}{messages}"));
    let refused = desk.refused("local aggregate twice.ndjson");
    assert!(
        refused.contains("line 4: the message ") && refused.contains("is already in line 1"),
        "{refused}"
    );
    let aggregate = "local aggregate phones-messages/messages.ndjson";
    desk.write("public.csv", "steps,sleep\n99999,7\n");
    let outside = desk.refused(&format!("{aggregate} --public public.csv --all-rows-public"));
    assert!(outside.contains("99999 is outside [0, 20000]"), "{outside}");
    desk.ok(&format!("{aggregate} --public public.csv --all-rows-public --coerce"));
    let refused = desk.refused(&format!("{aggregate} --out missing/mean.json"));
    assert!(refused.contains("the folder missing does not exist"), "{refused}");
}

/// What everyone may know needs no noise, and none is sold.
#[test]
fn public_columns_are_not_randomized() {
    let desk = phones(3);
    let public = "[columns.sleep]\nvisibility = \"public\"";
    desk.write("phones.toml", &PHONES.replace("[columns.sleep]", public));
    for words in [RANDOMIZE.to_owned(), format!("{RANDOMIZE} --plan")] {
        let refused = desk.refused(&words);
        assert!(refused.contains("column `sleep` is declared public"), "{refused}");
    }
    assert!(!desk.path("phones.ledger").exists());
}

#[test]
fn one_public_row_is_one() {
    let desk = phones(3);
    let selector = "unit = \"row\"\npublic_rows = { column = \"consent\", equals = 1 }";
    let consent = "[columns.consent]\nvisibility = \"public\"\n";
    desk.write("phones.toml", &(PHONES.replace("unit = \"row\"", selector) + consent));
    desk.write("phones.csv", "steps,sleep,consent\n1,2,1\n3,4,0\n");
    let said = desk.ok(RANDOMIZE);
    assert!(said.contains("The 1 public row is in") && said.contains("\n1 message, each"), "{said}");
}

const SURVEY: &str = r#"[budget]
epsilon = 4.0
delta = 0

[protect]
unit = "row"
public_rows = { column = "consent", equals = "yes" }

[columns.consent]
visibility = "public"

[columns.age]
bounds = [0, 100]

[columns.hours]
bounds = [0, 80]
"#;

/// A desk with a survey: everybody is 40 and works 50 hours, but for the 200 of 4,000 who consented, who are 60 and work 10.
fn survey() -> Desk {
    let desk = Desk::new(1);
    let mut csv = String::from("consent,age,hours\n");
    for row in 0..4000 {
        csv.push_str(if row % 20 == 0 { "yes,60,10\n" } else { "no,40,50\n" });
    }
    desk.write("survey.csv", &csv);
    desk.write("survey.toml", SURVEY);
    desk
}

/// Whoever randomizes a file and then names that file as public must not get the private rows' mean for nothing.
#[test]
fn private_rows_are_never_averaged_as_they_are() {
    let desk = survey();
    let said = desk.ok("local randomize survey.csv --privacy survey.toml --columns age,hours");
    assert!(
        said.contains("3,800 messages")
            && said.contains("The 200 public rows are in survey-messages/public.csv"),
        "{said}"
    );
    let aggregate = "local aggregate survey-messages/messages.ndjson";

    // Nothing says which rows are public; then a declaration does; then one that marks none.
    desk.write("elsewhere.csv", &desk.read("survey.csv"));
    std::fs::remove_file(desk.path("privacy.toml")).unwrap();
    let refused = desk.refused(&format!("{aggregate} --public survey.csv"));
    assert!(refused.contains("--privacy FILE") && refused.contains("--all-rows-public"), "{refused}");
    let declared =
        desk.json(&format!("{aggregate} --public survey.csv --privacy survey.toml --weights equal"));
    assert_eq!(declared["mean"]["public_rows"], 200);
    let none = SURVEY.replace("public_rows = { column = \"consent\", equals = \"yes\" }\n", "");
    desk.write(
        "privacy.toml",
        &none.replace("visibility = \"public\"", "visibility = \"public\"\nuse = false"),
    );
    let refused = desk.refused(&format!("{aggregate} --public survey.csv"));
    assert!(refused.contains("no row is public"), "{refused}");
    // The declaration beside the file is found by itself.
    desk.write("privacy.toml", SURVEY);
    assert_eq!(desk.json(&format!("{aggregate} --public survey.csv"))["mean"]["public_rows"], 200);

    // The public rows beside the messages are the same rows, and every one of them is public.
    let beside = desk
        .json(&format!("{aggregate} --public survey-messages/public.csv --all-rows-public --weights equal"));
    assert_eq!(beside["mean"]["columns"], declared["mean"]["columns"]);
    assert_eq!(desk.read("survey-messages/public.csv").lines().nth(1), Some("60,10"));

    // What a private row says does not show: other private cells, the same public part. Cells that no one may have are not even looked at.
    desk.write("survey.csv", &desk.read("survey.csv").replace("no,40,50", "no,999,none"));
    let other = desk.json(&format!("{aggregate} --public survey.csv --weights equal"));
    assert_eq!(other["mean"], declared["mean"]);
    let said =
        desk.refused(&format!("{aggregate} --public survey.csv --all-rows-public --privacy survey.toml"));
    assert!(said.contains("cannot be used with"), "{said}");
    let said = desk.refused(&format!("{aggregate} --public survey.csv --all-rows-public"));
    assert!(said.contains("has a ledger") && said.contains("some of its rows are private"), "{said}");
}

#[test]
fn a_plan_says_what_messages_are_good_for_and_spends_nothing() {
    let desk = survey();
    let words = "local randomize survey.csv --privacy survey.toml --columns age,hours --plan";
    let said = desk.ok(words);
    for word in ["privunit", "duchi", "public rows, best", "The public rows alone", "Nothing was spent"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let outlook = &desk.json(words)["outlook"];
    assert_eq!((&outlook["messages"], &outlook["public_rows"]), (&3800.into(), &200.into()));
    let error = |key: &str| outlook["randomizers"][0][key].as_f64().unwrap();
    assert!(error("with_public_rows_best") <= error("with_public_rows_equal"));
    assert!(error("with_public_rows_equal") < error("messages_alone"));
    assert!(desk.refused(&format!("{words} --epsilon 0")).contains("must be a number between"));
    let mut files = desk.files();
    files.retain(|name| name.starts_with("survey"));
    assert_eq!(files, ["survey.csv", "survey.toml"]);
}

/// A budget without a delta: messages are pure, and the account adds their epsilons up.
#[test]
fn messages_need_no_delta() {
    let desk = survey();
    let randomize = "local randomize survey.csv --privacy survey.toml --columns age,hours";
    desk.ok(&format!("{randomize} --epsilon 1.5 --out one"));
    desk.ok(&format!("{randomize} --epsilon 2.5 --out two"));
    let shown = desk.ok("ledger show survey.csv");
    assert!(shown.contains("spent epsilon 4 of 4 at delta 0, nothing left"), "{shown}");
    let refused = desk.refused(&format!("{randomize} --epsilon 0.1 --out three"));
    assert!(refused.contains("account default allows epsilon 4 at delta 0"), "{refused}");
    desk.ok("verify two");
}
