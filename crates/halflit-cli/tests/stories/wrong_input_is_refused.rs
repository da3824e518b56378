use crate::{DECLARATION, Desk};

/// A declaration with one thing wrong, and what the message must name.
const WRONG_DECLARATIONS: &[(&str, &str, &[&str])] = &[
    ("epsilon = 2.0", "epsilon = 0.0", &["epsilon", "0"]),
    ("epsilon = 2.0", "epsilon = -1", &["epsilon", "-1"]),
    ("epsilon = 2.0", "epsilon = nan", &["epsilon"]),
    ("epsilon = 2.0", "epsilon = inf", &["epsilon", "inf"]),
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
        ("age,ward,ill\n1,west,no\n", &["patients.csv:2", "ward", "west"]),
        ("age,ward,ill\n1,north,no\n1,,no\n", &["patients.csv:3", "ward"]),
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
        ("train patients.csv --steps 0", "--steps 0"),
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
        ("account gaussian --noise-multiplier nan --delta 1e-6 --change replace", "noise"),
        ("calibrate gaussian --epsilon -1 --delta 1e-6 --change replace", "epsilon"),
    ] {
        let message = desk.refused(words);
        assert!(message.contains(expected), "{words}: {message}");
    }
    // The refused charge may have made a ledger but wrote no charge into it.
    let shown = desk.run("ledger show patients.csv --json");
    let charges =
        serde_json::from_slice(&shown.stdout).map(|shown: serde_json::Value| shown["charges"].clone());
    assert!(
        charges.is_ok_and(|charges| charges == serde_json::json!([]))
            || crate::stderr(&shown).contains("no ledger"),
        "{shown:?}"
    );
    assert!(!desk.path("patients-release").exists());
}
