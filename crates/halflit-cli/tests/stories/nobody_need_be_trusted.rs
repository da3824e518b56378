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
    assert!(said.contains("4000 messages") && said.contains("ideal arithmetic"), "{said}");
    assert_eq!(files_of(&desk.path("phones-messages")), ["certificate.json", "messages.ndjson"]);
    desk.ok("verify phones-messages/certificate.json --model phones-messages/messages.ndjson");
    desk.ok("verify phones-messages");
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
    let words = "local aggregate phones-messages/messages.ndjson --public volunteers.csv";
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
    desk.write("public.csv", "steps,sleep\n99999,7\n");
    let outside = desk.refused("local aggregate phones-messages/messages.ndjson --public public.csv");
    assert!(outside.contains("99999 is outside [0, 20000]"), "{outside}");
    desk.ok("local aggregate phones-messages/messages.ndjson --public public.csv --coerce");
}
