use crate::{DECLARATION, Desk};

/// A declaration with one thing wrong, and what the message must name.
const WRONG_DECLARATIONS: &[(&str, &str, &[&str])] = &[
    ("epsilon = 2.0", "epsilon = 0.0", &["epsilon", "0"]),
    ("epsilon = 2.0", "epsilon = -1", &["epsilon", "-1"]),
    ("epsilon = 2.0", "epsilon = nan", &["epsilon"]),
    ("epsilon = 2.0", "epsilon = inf", &["epsilon", "inf"]),
    ("epsilon = 2.0", "epsilon = 1e308", &["epsilon", "1e308", "at most 1e9"]),
    ("delta = 1e-6", "delta = 0.999999", &["delta", "0.999999", "at most 0.5"]),
    ("unit = \"row\"", "unit = \"row\"\nrows = 9223372036854775807", &["9223372036854775807", "1 to 1e15"]),
    ("delta = 1e-6", "delta = 1.0", &["delta"]),
    ("delta = 1e-6", "delta = -1e-9", &["delta", "at least 0"]),
    ("delta = 1e-6", "detla = 1e-6", &["detla", "delta"]),
    ("unit = \"row\"", "unit = \"user\"", &["user"]),
    ("unit = \"row\"", "unit = \"user\"\nuser = \"ward\"", &["ward", "public"]),
    (
        "unit = \"row\"",
        "unit = \"row\"\npublic_rows = { column = \"ward\", equals = \"south\" }",
        &["ward", "public"],
    ),
    ("label = \"ill\"", "label = \"sick\"", &["sick"]),
    ("loss = \"logistic\"", "loss = \"logistc\"", &["logistc", "logistic"]),
    ("bounds = [0, 100]", "bounds = [100, 0]", &["[100, 0]", "privacy.toml:13"]),
    ("bounds = [0, 100]", "", &["age", "bounds"]),
    ("values = [\"north\", \"south\"]", "values = []", &["ward"]),
    ("values = [\"north\", \"south\"]", "values = [\"north\", \"north\"]", &["north"]),
    ("[columns.ward]", "[colums.ward]", &["colums", "columns"]),
    ("[columns.ward]", "[columns.wrad]", &["wrad", "ward"]),
];

#[test]
fn wrong_declarations_name_the_line_the_value_and_the_remedy() {
    for (from, to, expected) in WRONG_DECLARATIONS {
        let desk = Desk::new(50);
        assert!(DECLARATION.contains(from), "{from}");
        desk.write("privacy.toml", &DECLARATION.replacen(from, to, 1));
        let message = desk.refused("train patients.csv");
        for word in *expected {
            assert!(message.contains(word), "{to}: {message}");
        }
        assert!(message.contains("privacy.toml"), "{message}");
        assert_eq!(desk.files(), ["patients.csv", "privacy.toml"], "{to}: nothing may be written or spent");
    }
}

#[test]
fn wrong_files_name_the_line_and_the_column() {
    let tables: &[(&str, &[&str])] = &[
        ("", &["patients.csv"]),
        ("age,ward\n1,north\n", &["ill"]),
        ("age,ward,ill\n", &["patients.csv"]),
        ("age,ward,ill\n1,north\n", &["patients.csv:2"]),
        ("age,ward,ill\n1,north,no\nold,south,yes\n", &["patients.csv:3", "age", "old"]),
        ("age,ward,ill\n1,north,no\n200,south,yes\n", &["patients.csv:3", "age", "200"]),
        ("age,ward,ill\n1,west,no\n", &["patients.csv: column `ward`", "halflit check"]),
        ("age,ward,ill\n1,north,no\n1,,no\n", &["patients.csv: column `ward`", "halflit check"]),
        ("age,ward,ill,age\n1,north,no,2\n", &["age"]),
    ];
    for (table, expected) in tables {
        let desk = Desk::new(1);
        desk.write("patients.csv", table);
        let message = desk.refused("train patients.csv");
        for word in *expected {
            assert!(message.contains(word), "{table:?}: {message}");
        }
        assert_eq!(desk.files(), ["patients.csv", "privacy.toml"]);
    }
    let desk = Desk::new(1);
    assert!(desk.refused("train nowhere.csv --privacy privacy.toml").contains("nowhere.csv"));
    assert!(desk.refused("train privacy.toml").contains("privacy.toml"));
}

#[test]
fn coercing_never_fails_on_a_cell() {
    let desk = Desk::new(1);
    let default = DECLARATION.replace("[\"no\", \"yes\"]", "[\"no\", \"yes\"]\ndefault = \"no\"");
    desk.write("privacy.toml", &default);
    desk.write("patients.csv", "age,ward,ill\n1,north,no\n200,west,\nold,,perhaps\n");
    assert!(desk.refused("train patients.csv").contains("--coerce"));
    desk.ok("train patients.csv --coerce");
}

#[test]
fn wrong_options_name_the_option_and_spend_nothing() {
    let desk = Desk::new(100);
    for (words, expected) in [
        ("train patients.csv --epsilon 0", "--epsilon 0"),
        ("train patients.csv --epsilon nan", "--epsilon NaN"),
        ("train patients.csv --delta 1", "--delta 1"),
        ("train patients.csv --epsilon 1e308", "--epsilon 1e308: must be a number above 0 and at most 1e9"),
        ("train patients.csv --delta 0.999999", "--delta 0.999999: must be at least 0 and at most 0.5"),
        ("train patients.csv --steps 0", "--steps 0"),
        ("train patients.csv --steps 1000000000", "--steps 1000000000: must be at most 10,000,000"),
        ("train patients.csv --steps 1e9", "give a whole number in plain digits"),
        ("train patients.csv --one-pass 101", "--one-pass 101: there are 100 units"),
        ("train patients.csv --alpha 0", "--alpha 0: must be a number from 1e-6 to 1"),
        ("train patients.csv --alpha nan", "--alpha nan: must be a number from 1e-6 to 1"),
        ("train patients.csv --clip-norm 1e300", "--clip-norm 1e300: must be a number from 1e-9 to 1e9"),
        (
            "train patients.csv --clip-quantile 1e-300",
            "--clip-quantile 1e-300: must be a number from 0.001 to 0.999",
        ),
        ("train patients.csv --step-size 1e300", "--step-size 1e300: must be a number from 1e-9 to 1e9"),
        ("train patients.csv --hidden-weight 1e300", "--hidden-weight 1e300: must be"),
        ("train patients.csv --budget-growth 1e10", "--budget-growth 1e10: must be a number from 0.1 to 10"),
        ("train patients.csv --budget-growth 10 --steps 200", "--budget-growth 10: over that many steps"),
        ("train patients.csv --sampling-rate 1/101", "--sampling-rate 1/101: with 100 units"),
        ("train patients.csv --sampling-rate 1e-99", "--sampling-rate 1e-99: must be a ratio"),
        ("train patients.csv --clip-norm -1", "--clip-norm"),
        ("train patients.csv --clip-norm inf", "--clip-norm inf"),
        ("train patients.csv --sampling-rate 2", "--sampling-rate 2"),
        ("train patients.csv --sampling-rate 0/3", "--sampling-rate 0/3"),
        ("train patients.csv --mechanism magic", "magic"),
        ("train patients.csv --centre middle", "midrange"),
        ("train patients.csv --out no/such/folder", "does not exist"),
        ("predict nothing.json patients.csv", "nothing.json"),
        ("predict privacy.toml patients.csv", "not a halflit model"),
        ("verify nothing.json", "nothing.json"),
        ("ledger show patients.csv", "no ledger"),
        ("train patients.csv --epsilon 3", "allows epsilon 2"),
        ("ledger show --ledger privacy.toml", "not a halflit ledger"),
        ("train patients.csv --one-pass 5 --steps 9", "--steps 9: --one-pass 5 deals"),
        (
            "train patients.csv --budget-growth 2 --sampling-rate 0.1",
            "--budget-growth 2: steps on batches must all spend the same, and --sampling-rate 0.1",
        ),
        ("train patients.csv --epsilon abc", "give a number, such as 0.5"),
        ("train patients.csv --one-pass 0", "give a whole number of at least 1"),
        ("train patients.csv --steps -3", "give a whole number in plain digits"),
        ("train patients.csv --sampling-rate -1", "--sampling-rate -1: must be a ratio such as 1/64"),
        (
            "train patients.csv --method paper-002-alg-1",
            "--method paper-002-alg-1 needs batches (--sampling-rate, such as 1/64, or --one-pass, such as 100), and the weight of the private gradient",
        ),
        ("train patients.csv --method dp-gd --alpha 0.5", "--alpha: --method dp-gd has no such part"),
        ("train patients.csv --ledger .", "--ledger .: this is a folder, but the ledger is a file"),
        ("train patients.csv --privacy .", "--privacy .: this is a folder, but the declaration is a file"),
        ("ledger show --ledger .", "--ledger .: this is a folder"),
        ("ledger show nope.csv", "the data nope.csv cannot be read"),
        (
            "mean patients.csv --columns wards",
            "column `wards` is not declared; declared with bounds are: age",
        ),
        ("account gaussian --noise-multiplier nan --delta 1e-6 --change replace", "noise"),
        ("calibrate gaussian --epsilon -1 --delta 1e-6 --change replace", "epsilon"),
    ] {
        let message = desk.refused(words);
        assert!(message.contains(expected), "{words}: {message}");
    }
    assert_eq!(
        desk.files(),
        ["patients.csv", "privacy.toml"],
        "nothing was written, not even an empty ledger"
    );
}

/// A private table that is taken for the declaration must not be told line by line.
#[test]
fn the_data_is_not_its_own_declaration() {
    let desk = Desk::new(50);
    for command in
        ["check", "plan", "train", "mean --columns age", "ledger open --account a", "init", "init --force"]
    {
        for privacy in ["patients.csv", "./patients.csv"] {
            let refused = desk.refused(&format!("{command} patients.csv --privacy {privacy}"));
            assert!(refused.contains(&format!("--privacy {privacy} is the data file itself")), "{refused}");
        }
    }
    desk.write("other.csv", &desk.read("patients.csv"));
    let refused = desk.refused("train patients.csv --privacy other.csv");
    assert!(refused.contains("this is no declaration") && !refused.contains("north"), "{refused}");
    // One that is nearly right is told where it is wrong, and not at any length.
    desk.write("privacy.toml", &(DECLARATION.to_owned() + &"no key\n".repeat(30)));
    let refused = desk.refused("train patients.csv");
    assert_eq!(refused.matches("privacy.toml:").count(), 10, "{refused}");
    assert!(refused.contains("no key") && refused.trim().ends_with("more"), "{refused}");
}

#[test]
fn an_account_has_a_name() {
    let desk = Desk::new(50);
    for name in ["", "  ", "a\nb", "\u{1b}[31mred"] {
        let output = desk.command("ledger open patients.csv --account").arg(name).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name:?}");
        let message = crate::stderr(&output);
        assert!(message.contains(&format!("the account name {name:?}")), "{message}");
    }
    assert_eq!(desk.files(), ["patients.csv", "privacy.toml"]);
}

/// In JSON the key says that it is an error.
#[test]
fn errors_in_json_are_not_called_errors_twice() {
    let refused = Desk::new(50).refused("train patients.csv --no-such-option --json");
    let message: serde_json::Value = serde_json::from_str(&refused).unwrap();
    assert!(message["error"].as_str().unwrap().starts_with("unexpected argument"), "{message}");
}

/// One mistake, one message, about the thing that is wrong.
#[test]
fn the_message_is_about_the_mistake() {
    let desk = Desk::new(50);
    // The declaration beside a data file that is not there is not what is missing.
    let refused = desk.refused("check elsewhere/patients.csv");
    assert!(refused.contains("the data elsewhere/patients.csv cannot be read"), "{refused}");
    assert!(desk.refused("ledger open patient.csv --account a").contains("the data patient.csv"));
    // A ratio, a decimal and a power of ten are the same rate.
    desk.ok("plan patients.csv --sampling-rate 1e-1");
    let user = DECLARATION.replace("unit = \"row\"", "unit = \"user\"\nuser = \"patient\"");
    desk.write("privacy.toml", &user);
    let refused = desk.refused("check patients.csv");
    assert!(
        refused.contains("column `patient`") && refused.matches("privacy.toml:").count() == 1,
        "{refused}"
    );
    // The column is there under another name, or is not named: what it lacks as a feature is beside the point.
    let unnamed = user.replace("user = \"patient\"\n", "");
    for (declaration, says) in [(&user, "did you mean `patients`?"), (&unnamed, "[protect] needs `user`")] {
        desk.write("privacy.toml", &format!("{declaration}[columns.patients]\nvisibility = \"public\"\n"));
        let refused = desk.refused("check patients.csv");
        assert!(refused.contains(says) && refused.matches("privacy.toml:").count() == 1, "{refused}");
    }
    desk.write("privacy.toml", &(user + "[columns.patient]\n"));
    let refused = desk.refused("check patients.csv");
    assert!(refused.contains("is not public") && refused.matches("privacy.toml:").count() == 1, "{refused}");
}

/// A budget of 1e-300 is a number like any other.
#[test]
fn tiny_budgets_are_told_with_an_exponent() {
    let desk = Desk::new(50);
    desk.write("privacy.toml", &DECLARATION.replace("epsilon = 2.0", "epsilon = 1e-300"));
    for words in ["check patients.csv", "plan patients.csv"] {
        assert!(desk.ok(words).contains("epsilon 1e-300, delta 1e-6"), "{words}");
    }
    let means =
        "[budget]\nepsilon = 2\ndelta = 1e-6\n[protect]\nunit = \"row\"\n[columns.age]\nbounds = [0, 100]\n";
    desk.write("means.toml", means);
    let refused = desk.refused("mean patients.csv --privacy means.toml --columns age --epsilon 1e-300");
    assert!(refused.contains("a noise multiplier of 2.00e300"), "{refused}");
    desk.ok("ledger open patients.csv --account tiny");
    assert!(desk.ok("ledger show patients.csv").contains("of 1e-300 at delta 1e-6"));
}

/// What is printed does not steer the terminal, whatever columns are called.
#[test]
fn control_characters_of_names_are_written_out() {
    let desk = Desk::new(50);
    desk.write("patients.csv", &desk.read("patients.csv").replacen("ward", "wa\u{1b}[2Jrd", 1));
    let refused = desk.refused("check patients.csv");
    assert!(refused.contains("wa\\u{1b}[2Jrd") && !refused.contains('\u{1b}'), "{refused}");
    desk.write("privacy.toml", &DECLARATION.replace("[columns.ward]", "[columns.\"wa\\u001B[2Jrd\"]"));
    let checked = desk.ok("check patients.csv");
    assert!(checked.contains("wa\\u{1b}[2Jrd") && !checked.contains('\u{1b}'), "{checked}");
}
