//! A file and a declaration become sealed rows; the encoding is stored, and a new file becomes rows with it.
#![allow(clippy::disallowed_methods, reason = "these tests look inside what they have sealed themselves")]

use halflit_table::{
    Declaration, Declared, EncodeError, Encoding, Fault, OutOfDomain, ReadOptions, Table, Unsealed, skeleton,
};
use std::path::{Path, PathBuf};

const TRAIN: &str = "id,age,job,consent,note,income
7,17,clerk,no,\"two
lines\",<=50K
3,90,\"nurse, head\",yes,,>50K
7.0,53.5,clerk,no,,>50K
12,30,,no,,<=50K
";

const DECLARATION: &str = r#"
[budget]
epsilon = 1.0
delta = 1e-6
[protect]
unit = "user"
user = "id"
rows_per_user = 5
public_rows = { column = "consent", equals = "yes" }
[task]
label = "income"
loss = "logistic"
[columns.age]
bounds = [17, 90]
visibility = "public"
[columns.job]
values = ["clerk", "nurse, head", ""]
[columns.income]
values = ["<=50K", ">50K"]
[columns.id]
visibility = "public"
[columns.consent]
visibility = "public"
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn declaration() -> Declaration {
    Declaration::parse(DECLARATION, "privacy.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn bind(path: &Path) -> Declared {
    let declaration = declaration();
    let table = Table::read(path, &declaration.read_options()).unwrap_or_else(|error| panic!("{error}"));
    Declared::bind(declaration, table).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn from_file_to_sealed_rows_and_back_to_a_new_file() {
    let folder = Folder::new();
    let declared = bind(&folder.file("train.csv", TRAIN));
    assert_eq!(
        declared.relation().sentence(),
        "Two tables are neighbours if they differ only in the columns income and job of the rows of one user (the rows \
         with the same id), among the rows where consent is not yes."
    );
    assert_eq!(declared.facts().undeclared_columns, ["note"]);
    assert_eq!((declared.facts().private_units, declared.facts().public_rows), (2, 1));

    let encoded = declared.encode(OutOfDomain::Refuse).unwrap_or_else(|error| panic!("{error}"));
    let token = Unsealed::charge_was_recorded();
    let private = encoded.private_rows().open(&token);
    assert_eq!(private.len(), 3);
    assert_eq!(
        encoded.encoding().coordinate_names(),
        ["age", "job=clerk", "job=nurse, head", "job=(empty)", "intercept"]
    );
    assert_eq!(encoded.public_rows().dense_row(0).unwrap(), [16384, 0, 16384, 0, 16384]);

    let stored = serde_json::to_string(encoded.encoding()).unwrap();
    let encoding: Encoding = serde_json::from_str(&stored).unwrap();
    let new = folder.file("new.csv", "job,extra,age\nclerk,1,53.5\n");
    let table = Table::read(&new, &encoding.read_options(false)).unwrap();
    let rows = encoding.encode_features(&table, OutOfDomain::Refuse).unwrap();
    // The same cells give the same row, whatever the file around them: user 7's second row stands last.
    assert_eq!(rows.dense_row(0).unwrap(), private.dense_row(2).unwrap());
}

#[test]
fn the_owner_is_told_the_line_of_every_bad_cell() {
    let folder = Folder::new();
    let text = TRAIN.replace("7.0,53.5,clerk", "7.0,NA,plumber").replace(",30,", ",130,");
    let declared = bind(&folder.file("train.csv", &text));
    assert!(matches!(declared.encode(OutOfDomain::Refuse), Err(EncodeError::ProtectedOutOfDomain(_))));
    let findings = declared.findings().unwrap();
    let told: Vec<(Option<u64>, &str, &Fault)> = findings
        .listed()
        .iter()
        .map(|finding| (finding.line, finding.column.as_str(), &finding.fault))
        .collect();
    assert_eq!(
        told,
        [
            (Some(5), "age", &Fault::NotANumber { text: "NA".to_owned() }),
            (Some(5), "job", &Fault::NotListed { text: "plumber".to_owned() }),
            (Some(6), "age", &Fault::OutOfBounds { value: 130.0, low: 17.0, high: 90.0 }),
        ]
    );
    let message = findings.to_string();
    assert!(message.contains("train.csv:5: column `age`: `NA` is not a number"), "{message}");
    assert!(message.contains("train.csv:6: column `age`: 130 is outside [17, 90]"), "{message}");
}

#[test]
fn a_skeleton_leads_to_a_declaration() {
    let folder = Folder::new();
    let table = Table::read(&folder.file("train.csv", TRAIN), &ReadOptions::default()).unwrap();
    let error = Declaration::parse(&skeleton(&table, false), "privacy.toml").unwrap_err().to_string();
    assert!(error.contains("fill in the bounds of column `age`"), "{error}");
    assert!(error.contains("fill in the values of column `job`"), "{error}");
}
