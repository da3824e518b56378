use crate::{DECLARATION, Desk};

/// Cells that nobody but the owner may see: a ward and an illness outside their domains, on the third line.
const SECRETS: [&str; 2] = ["gehenna", "plague"];

fn desk() -> Desk {
    let desk = Desk::new(60);
    let public_ward = DECLARATION.replace("\"south\"]\n", "\"south\"]\nvisibility = \"public\"\n");
    desk.write("labels.toml", &public_ward);
    desk.ok("train patients.csv --privacy labels.toml --mechanism noisy_statistics --ledger other.ledger --out release");
    let mut lines: Vec<String> = desk.read("patients.csv").lines().map(str::to_owned).collect();
    lines[2] = format!("37,{},{}", SECRETS[0], SECRETS[1]);
    desk.write("patients.csv", &(lines.join("\n") + "\n"));
    desk
}

#[test]
fn refusals_name_the_column_and_the_owner_looks_for_herself() {
    let desk = desk();
    for command in ["plan patients.csv", "train patients.csv", "train patients.csv --json"] {
        let refused = desk.refused(command);
        for column in ["ward", "ill"] {
            assert!(
                refused.contains(&format!("patients.csv: column `{column}` has private cells")),
                "{refused}"
            );
        }
        assert!(refused.contains("halflit check") && refused.contains("--coerce"), "{command}: {refused}");
        for secret in SECRETS {
            assert!(!refused.contains(secret) && !refused.contains("patients.csv:3"), "{command}: {refused}");
        }
    }
    let listed = desk.refused("check patients.csv");
    for secret in SECRETS {
        assert!(
            listed.contains(&format!("`{secret}` is not among")) && listed.contains("patients.csv:3"),
            "{listed}"
        );
    }
    assert!(!desk.path("patients.ledger").exists());
}

/// What everyone may know is shown, for whoever mends it.
#[test]
fn public_cells_are_shown() {
    let desk = desk();
    for command in ["plan patients.csv", "refit patients.csv --release release --out again"] {
        let refused = desk.refused(&format!("{command} --privacy labels.toml"));
        assert!(refused.contains("patients.csv:3: column `ward`: `gehenna` is not among"), "{refused}");
        assert!(!refused.contains("plague"), "{refused}");
    }
}

/// Means, messages and users: the same words whatever the private cells are.
#[test]
fn refusals_do_not_depend_on_private_cells() {
    let desk = Desk::new(1);
    desk.write(
        "p.toml",
        "[budget]\nepsilon = 1\ndelta = 1e-6\n[protect]\nunit = \"user\"\nuser = \"who\"\nrows_per_user = 2\n[columns.who]\nvisibility = \
         \"public\"\n[columns.pay]\nbounds = [0, 10]\n",
    );
    let said = |table: &str| {
        desk.write("p.csv", table);
        ["mean p.csv --privacy p.toml --columns pay", "local randomize p.csv --privacy p.toml --columns pay"]
            .map(|words| desk.refused(words))
    };
    let reference = said("who,pay\na,11\nb,1\n");
    assert!(reference[0].contains("column `pay` has private cells"), "{reference:?}");
    assert_eq!(said("who,pay\na,1\nb,777\nb,none\n"), reference);
    let reference = said("who,pay\na,1\na,2\na,3\nb,1\n");
    assert!(
        reference[0].contains("some users have more private rows than rows_per_user, which is 2"),
        "{reference:?}"
    );
    assert_eq!(said("who,pay\nb,1\nb,2\nb,3\nb,1\na,1\n"), reference);
    assert!(desk.refused("check p.csv --privacy p.toml").contains("user `b` has 4 private rows"));
    // Whose a row is must be known; where it stands is for the owner.
    let reference = said("who,pay\na,1\n,2\n");
    assert!(reference[0].contains("some row: column `who` is empty"), "{reference:?}");
    assert!(desk.refused("check p.csv --privacy p.toml").contains("it is row 2 (line 3)"));
}

/// Under zero-out the number of rows is a secret, too.
#[test]
fn the_number_of_units_is_not_told_under_zero_out() {
    let desk = Desk::new(57);
    let zero_out = DECLARATION.replace("unit = \"row\"", "unit = \"row\"\nchange = \"zero-out\"\nrows = 20");
    desk.write("privacy.toml", &zero_out.replace("visibility = \"public\"\n", ""));
    let refused = desk.refused("train patients.csv");
    assert!(refused.contains("at 20, but patients.csv has more") && !refused.contains("57"), "{refused}");
    assert!(desk.refused("check patients.csv").contains("it has 57 private rows"));
}

/// How long training takes depends on the number of rows that there are.
#[test]
fn the_time_is_told_only_where_it_is_no_secret() {
    let desk = Desk::new(57);
    assert!(crate::stderr(&desk.run("train patients.csv")).contains("units/s"));
    let zero_out = DECLARATION.replace("unit = \"row\"", "unit = \"row\"\nchange = \"zero-out\"\nrows = 60");
    desk.write("privacy.toml", &zero_out.replace("visibility = \"public\"\n", ""));
    let trained = desk.run("train patients.csv --ledger other.ledger --out other");
    assert_eq!(trained.status.code(), Some(0), "{trained:?}");
    assert!(!crate::stderr(&trained).contains(" s,"), "{trained:?}");
}
