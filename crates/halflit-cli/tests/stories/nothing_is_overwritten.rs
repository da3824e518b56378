use crate::{DECLARATION, Desk, files_of};

const PRICE: &str = "account gaussian --noise-multiplier 2 --change replace --delta 1e-5";

/// Every command that writes, with where it writes to left open.
const WRITERS: [&str; 9] = [
    "train patients.csv --epsilon 0.5 --out",
    "mean patients.csv --columns age --out",
    "local randomize patients.csv --privacy hidden.toml --columns age --epsilon 0.5 --out",
    "refit patients.csv --privacy labels.toml --release release --out",
    "predict release patients.csv --out",
    "local aggregate messages/messages.ndjson --out",
    "account gaussian --noise-multiplier 2 --change replace --delta 1e-5 --plot",
    "calibrate gaussian --epsilon 1 --delta 1e-5 --change replace --plot",
    "demo --out",
];

/// Patients with a release of their labels and messages, each charged to a ledger of its own.
fn desk() -> Desk {
    let desk = Desk::new(300);
    let public_ward = DECLARATION.replace("\"south\"]\n", "\"south\"]\nvisibility = \"public\"\n");
    desk.write("labels.toml", &public_ward);
    desk.write(
        "hidden.toml",
        &DECLARATION.replace("bounds = [0, 100]\nvisibility = \"public\"", "bounds = [0, 100]"),
    );
    desk.ok("train patients.csv --privacy labels.toml --ledger one.ledger --out release");
    desk.ok(
        "local randomize patients.csv --privacy hidden.toml --columns age --ledger two.ledger --out messages",
    );
    desk
}

#[test]
fn what_is_there_stays_as_it_is() {
    let desk = desk();
    std::fs::create_dir(desk.path("empty")).unwrap();
    let (table, files) = (desk.read("patients.csv"), desk.files());
    for words in WRITERS {
        for taken in ["patients.csv", "one.ledger", "release", "empty"] {
            let refused = desk.refused(&format!("{words} {taken}"));
            let option = words.rsplit(' ').next().unwrap();
            assert!(
                refused.contains(&format!("{taken} exists already and is not overwritten")),
                "{words}: {refused}"
            );
            assert!(refused.contains(&format!("another place with {option}")), "{words}: {refused}");
        }
    }
    assert_eq!((desk.read("patients.csv"), desk.files()), (table, files), "nothing was written or charged");
    assert!(
        desk.refused("init patients.csv --privacy patients.csv --force").contains("is the data file itself")
    );
}

/// A place that cannot be written is found before the ledger is charged.
#[test]
fn what_cannot_be_written_is_not_paid_for() {
    let desk = desk();
    let files = desk.files();
    for words in WRITERS {
        for (place, why) in [
            ("no/such", "the folder no does not exist; make it first"),
            ("patients.csv/x", "patients.csv is a file, not a folder"),
            ("patients.csv/x/y", "patients.csv is a file, not a folder"),
        ] {
            let refused = desk.refused(&format!("{words} {place}"));
            assert!(refused.contains(&format!("{place} cannot be written: {why}")), "{words}: {refused}");
        }
        // A folder that is there and takes no files, not even from root.
        if cfg!(target_os = "linux") {
            assert!(
                desk.refused(&format!("{words} /proc/x")).contains("/proc/x cannot be written"),
                "{words}"
            );
        }
        let long = "x".repeat(250);
        assert!(desk.refused(&format!("{words} {long}")).contains("cannot be written"), "{words}");
    }
    let refused = desk.refused("train patients.csv --out both --ledger ./both");
    assert!(refused.contains("cannot be the release and the ledger at once"), "{refused}");
    assert_eq!(desk.files(), files, "no ledger, no release, no litter");
}

/// A first charge that is refused leaves no ledger behind.
#[test]
fn a_refused_charge_leaves_no_ledger() {
    let desk = desk();
    for words in [
        "train patients.csv --epsilon 3",
        "mean patients.csv --privacy hidden.toml --columns age --epsilon 3",
        "local randomize patients.csv --privacy hidden.toml --columns age --epsilon 3",
    ] {
        assert!(desk.refused(words).contains("account default allows epsilon 2"), "{words}");
        assert!(!desk.path("patients.ledger").exists(), "{words}");
    }
    desk.ok("train patients.csv --epsilon 1 --out first");
    assert!(desk.refused("train patients.csv --epsilon 1.9 --out second").contains("fits"));
}

#[test]
fn what_is_new_is_written_whole() {
    let desk = desk();
    desk.ok("predict release patients.csv --out predictions.csv");
    assert_eq!(desk.read("predictions.csv").lines().count(), 301);
    desk.ok(&format!("{PRICE} --plot profile.svg"));
    desk.ok("local aggregate messages/messages.ndjson --out mean.json");
    let litter: Vec<String> = desk.files().into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(litter, Vec::<String>::new());
    assert_eq!(files_of(&desk.path("messages")), ["certificate.json", "messages.ndjson"]);
}
