use super::*;
use crate::findings::Fault;
use crate::table::Column;
use halflit_convex::{FEATURE_SCALE, Interval, LossSpec};
use proptest::prelude::*;

const ONE: i16 = FEATURE_SCALE;

fn declaration(task: &str, columns: &str) -> Declaration {
    let text =
        format!("[budget]\nepsilon = 1\ndelta = 1e-6\n[protect]\nunit = \"row\"\n[task]\n{task}\n{columns}");
    Declaration::parse(&text, "privacy.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn encoding(task: &str, columns: &str) -> Encoding {
    Encoding::from_declaration(&declaration(task, columns)).unwrap()
}

const LOGISTIC: &str = "label = \"y\"\nloss = \"logistic\"";
const COLUMNS: &str = r#"
[columns.age]
bounds = [0, 100]
[columns.job]
values = ["clerk", "nurse", 3]
default = "nurse"
[columns.y]
values = ["no", "yes"]
default = "no"
"#;

fn numbers(values: &[f64]) -> Column {
    Column::Numbers(values.to_vec())
}

fn texts(values: &[&str]) -> Column {
    Column::Text(values.iter().map(|&value| value.to_owned()).collect())
}

fn table(columns: Vec<(&str, Column)>) -> Table {
    Table::from_columns(columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect())
        .unwrap()
}

fn all_rows(rows: &Rows) -> Vec<Vec<i16>> {
    (0..rows.len()).map(|row| rows.dense_row(row).unwrap()).collect()
}

#[test]
fn a_row_is_scaled_one_hot_and_intercept() {
    let encoding = encoding(LOGISTIC, COLUMNS);
    assert_eq!(encoding.coordinate_names(), ["age", "job=clerk", "job=nurse", "job=3", "intercept"]);
    assert_eq!((encoding.width(), encoding.intercept()), (5, Some(4)));
    assert_eq!(encoding.sensitive_coordinates(), [true, true, true, true, false]);
    let table = table(vec![
        ("job", texts(&["nurse", "3.0", "clerk"])),
        ("age", numbers(&[0.0, 100.0, 75.0])),
        ("y", texts(&["yes", "no", "yes"])),
    ]);
    let rows = encoding.encode_features(&table, OutOfDomain::Refuse).unwrap();
    assert_eq!(all_rows(&rows), [[-ONE, 0, ONE, 0, ONE], [ONE, 0, 0, ONE, ONE], [ONE / 2, ONE, 0, 0, ONE]]);
    let labels = encoding.encode_labels(&table, OutOfDomain::Refuse).unwrap();
    assert_eq!(labels, [1.0, 0.0, 1.0]);
    assert_eq!(encoding.largest_squared_norm(), 3 << 28);
    assert!(
        encoding.row_norm_bound() >= 3f64.sqrt() && encoding.row_norm_bound() < 3f64.sqrt() * (1.0 + 1e-15)
    );
}

#[test]
fn labels_of_every_loss() {
    let bounded = "[columns.x]\nbounds = [0, 1]\n[columns.y]\nbounds = [0, 10]\n";
    let classes = "[columns.x]\nbounds = [0, 1]\n[columns.y]\nvalues = [\"a\", \"b\"]\n";
    let three = "[columns.x]\nbounds = [0, 1]\n[columns.y]\nvalues = [\"a\", \"b\", \"c\"]\n";
    let ys = || numbers(&[0.0, 2.5, 10.0]);
    let loss = |loss: &str| format!("label = \"y\"\nloss = {loss}");
    let labels = |task: &str, columns: &str, y: Column| {
        let table = table(vec![("x", numbers(&[0.0, 0.0, 0.0])), ("y", y)]);
        let declaration = declaration(&loss(task), columns);
        let encoding = Encoding::from_declaration(&declaration).unwrap();
        let labels = encoding.encode_labels(&table, OutOfDomain::Refuse).unwrap();
        // The loss and the encoding were made for each other.
        let domain = declaration.loss().label_domain();
        assert!(labels.iter().all(|&label| domain.contains(label)), "{labels:?} in {domain:?}");
        labels
    };
    for regression in
        ["'squared'", "'absolute'", "'huber'\nhuber_threshold = 1", "'quantile'\nquantile = 0.5"]
    {
        assert_eq!(labels(regression, bounded, ys()), [-1.0, -0.5, 1.0]);
    }
    assert_eq!(labels("'poisson'\nmax_abs_score = 2", bounded, ys()), [0.0, 2.5, 10.0]);
    let two = || texts(&["a", "b", "a"]);
    assert_eq!(labels("'logistic'", classes, two()), [0.0, 1.0, 0.0]);
    for margin in ["'hinge'", "'smoothed-hinge'\nsmoothing = 1"] {
        assert_eq!(labels(margin, classes, two()), [-1.0, 1.0, -1.0]);
    }
    assert_eq!(labels("'softmax'", three, texts(&["c", "a", "b"])), [2.0, 0.0, 1.0]);

    // Ten label units are two encoded units, so a threshold of 2 becomes 0.4.
    let huber = declaration(&loss("'huber'\nhuber_threshold = 2"), bounded).loss();
    assert_eq!(huber.spec(), LossSpec::Huber { threshold: 0.4, labels: Interval::UNIT });
    let scaled = encoding(&loss("'squared'"), bounded);
    assert_eq!(scaled.label().decode_number(-0.5), Some(2.5));
    assert_eq!(scaled.label().classes(), None);
    let named = encoding(&loss("'softmax'"), three);
    assert_eq!(named.label().classes().unwrap(), ["a", "b", "c"]);
}

#[test]
fn cells_outside_their_domain_are_refused_or_coerced() {
    let encoding = encoding(LOGISTIC, COLUMNS);
    let table = table(vec![
        ("age", numbers(&[150.0, f64::NAN, f64::NEG_INFINITY, 20.0])),
        ("job", texts(&["clerk", "baker", "", "clerk"])),
        ("y", texts(&["yes", "maybe", "", "no"])),
    ]);
    let EncodeError::OutOfDomain(findings) =
        encoding.encode_features(&table, OutOfDomain::Refuse).unwrap_err()
    else {
        panic!("findings expected")
    };
    assert_eq!(findings.total(), 5);
    assert_eq!(findings.by_column(), [("age".to_owned(), 3), ("job".to_owned(), 2)]);
    let faults: Vec<(usize, &str, &Fault)> = findings
        .listed()
        .iter()
        .map(|finding| (finding.row, finding.column.as_str(), &finding.fault))
        .collect();
    assert_eq!(
        faults,
        [
            (1, "age", &Fault::OutOfBounds { value: 150.0, low: 0.0, high: 100.0 }),
            (2, "age", &Fault::Missing),
            (2, "job", &Fault::NotListed { text: "baker".to_owned() }),
            (3, "age", &Fault::OutOfBounds { value: f64::NEG_INFINITY, low: 0.0, high: 100.0 }),
            (3, "job", &Fault::Missing),
        ]
    );
    let rows = encoding.encode_features(&table, OutOfDomain::Coerce).unwrap();
    // Clamped; the middle for want of a default; the default `nurse`.
    let age: Vec<i16> = all_rows(&rows).iter().map(|row| row[0]).collect();
    assert_eq!(age, [ONE, 0, -ONE, -9830]);
    let job: Vec<Vec<i16>> = all_rows(&rows).iter().map(|row| row[1..4].to_vec()).collect();
    assert_eq!(job, [[ONE, 0, 0], [0, ONE, 0], [0, ONE, 0], [ONE, 0, 0]]);
    let labels = encoding.encode_labels(&table, OutOfDomain::Coerce).unwrap();
    assert_eq!(labels, [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn without_a_default_a_category_is_nothing_and_a_label_is_refused() {
    let columns = "[columns.job]\nvalues = [\"a\", \"b\"]\n[columns.y]\nbounds = [0, 1]\n";
    let encoding = encoding("label = \"y\"\nloss = \"squared\"\nintercept = false", columns);
    let table = table(vec![("job", texts(&["", "c"])), ("y", numbers(&[0.0, 7.0]))]);
    let rows = encoding.encode_features(&table, OutOfDomain::Coerce).unwrap();
    assert_eq!(all_rows(&rows), [[0, 0], [0, 0]]);
    let error = encoding.encode_labels(&table, OutOfDomain::Coerce).unwrap_err();
    assert!(matches!(&error, EncodeError::NoLabelDefault { label } if label == "y"), "{error}");
}

#[test]
fn an_empty_cell_can_be_a_value() {
    let columns = "[columns.job]\nvalues = [\"a\", \"\"]\n[columns.y]\nbounds = [0, 1]\n";
    let encoding = encoding("label = \"y\"\nloss = \"squared\"\nintercept = false", columns);
    assert_eq!(encoding.coordinate_names(), ["job=a", "job=(empty)"]);
    let y = || numbers(&[0.0, 1.0]);
    for jobs in [texts(&["", "a"]), texts(&[" ", "a"])] {
        let table = table(vec![("job", jobs), ("y", y())]);
        let rows = encoding.encode_features(&table, OutOfDomain::Refuse).unwrap();
        assert_eq!(all_rows(&rows), [[0, ONE], [ONE, 0]]);
    }
    let none_read = table(vec![("job", numbers(&[f64::NAN, f64::NAN])), ("y", y())]);
    let rows = encoding.encode_features(&none_read, OutOfDomain::Refuse).unwrap();
    assert_eq!(all_rows(&rows), [[0, ONE], [0, ONE]]);
}

#[test]
fn the_type_in_the_file_does_not_matter() {
    let columns =
        "[columns.code]\nvalues = [1, 2]\n[columns.size]\nbounds = [0, 8]\n[columns.y]\nbounds = [0, 1]\n";
    let encoding = encoding("label = \"y\"\nloss = \"squared\"", columns);
    let y = || numbers(&[0.0, 1.0]);
    let native = table(vec![("code", texts(&["1", "2.0"])), ("size", numbers(&[0.0, 6.0])), ("y", y())]);
    let foreign = table(vec![("code", numbers(&[1.0, 2.0])), ("size", texts(&["0", "6.00"])), ("y", y())]);
    let [native, foreign] =
        [native, foreign].map(|table| encoding.encode_features(&table, OutOfDomain::Refuse).unwrap());
    assert_eq!(native, foreign);
}

#[test]
fn a_missing_column_is_named() {
    let encoding = encoding(LOGISTIC, COLUMNS);
    let table = table(vec![("age", numbers(&[1.0]))]);
    let error = encoding.encode_features(&table, OutOfDomain::Coerce).unwrap_err();
    assert!(matches!(&error, EncodeError::MissingColumn { column, .. } if column == "job"), "{error}");
}

#[test]
fn one_hot_heavy_tables_are_sparse_and_mean_the_same() {
    let values: Vec<String> = (0..60).map(|value| format!("v{value}")).collect();
    let columns = format!(
        "[columns.big]\nvalues = {values:?}\n[columns.n]\nbounds = [0, 1]\n[columns.y]\nbounds = [0, 1]\n"
    );
    let task = "label = \"y\"\nloss = \"squared\"\nrow_norm = 1.0";
    let sparse = encoding(task, &columns);
    assert_eq!(sparse.storage(), Storage::Sparse);
    let table = table(vec![
        ("big", texts(&["v0", "v59", "v7"])),
        ("n", numbers(&[0.0, 0.5, 1.0])),
        ("y", numbers(&[0.0, 0.0, 0.0])),
    ]);
    let order = [2, 0, 1];
    let coders: Vec<_> =
        sparse.columns.iter().map(|column| rows::ColumnCoder::new(&table, column).unwrap()).collect();
    let as_sparse = Rows::Sparse(sparse.sparse_rows(&coders, &order).unwrap());
    let as_dense = Rows::Dense(sparse.dense_rows(&coders, &order).unwrap());
    assert_eq!(all_rows(&as_sparse), all_rows(&as_dense));
    assert!(as_sparse.max_squared_norm() <= sparse.largest_squared_norm());
    assert_eq!(encoding(LOGISTIC, COLUMNS).storage(), Storage::Dense);
}

#[test]
fn a_stored_encoding_is_the_same_encoding() {
    for task in [LOGISTIC.to_owned(), format!("{LOGISTIC}\nrow_norm = 1.25\nintercept = false")] {
        let encoding = encoding(&task, COLUMNS);
        let stored = serde_json::to_string(&encoding).unwrap();
        let read: Encoding = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, encoding);
    }
}

#[test]
fn tampered_encodings_are_refused() {
    let good = serde_json::to_value(encoding(LOGISTIC, COLUMNS)).unwrap();
    let cases: &[(&str, serde_json::Value)] = &[
        ("/columns", serde_json::json!([])),
        ("/columns/0/name", serde_json::json!("")),
        ("/columns/0/name", serde_json::json!("job")),
        ("/columns/0/name", serde_json::json!("y")),
        ("/columns/0/domain/bounds/low", serde_json::json!(100.0)),
        ("/columns/0/domain/bounds/low", serde_json::json!(null)),
        ("/columns/0/domain", serde_json::json!({"values": []})),
        ("/columns/1/domain/values", serde_json::json!(["a", "a"])),
        ("/columns/1/domain/values", serde_json::json!(["1", "1.0"])),
        ("/columns/1/domain/values", serde_json::json!(["", ""])),
        ("/columns/1/default", serde_json::json!("baker")),
        ("/columns/0/default", serde_json::json!("200")),
        ("/columns/0/sensitive", serde_json::json!("perhaps")),
        ("/row_norm", serde_json::json!(0.0)),
        ("/row_norm", serde_json::json!(-1.0)),
        ("/label/encoding/classes/values", serde_json::json!(["no"])),
        ("/label/encoding/classes/values", serde_json::json!(["no", "yes", "maybe"])),
        ("/label/encoding", serde_json::json!({"counts": {"low": -1.0, "high": 3.0}})),
        ("/label/encoding", serde_json::json!({"scaled": {"low": 3.0, "high": 3.0}})),
        ("/label/encoding", serde_json::json!({"secret": {}})),
        ("/label/default", serde_json::json!("maybe")),
        ("/intercept", serde_json::json!(2)),
    ];
    for (pointer, replacement) in cases {
        let mut tampered = good.clone();
        *tampered.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not there")) =
            replacement.clone();
        assert!(serde_json::from_value::<Encoding>(tampered).is_err(), "{pointer} = {replacement}");
    }
    let mut extra = good;
    extra["surprise"] = serde_json::json!(1);
    assert!(serde_json::from_value::<Encoding>(extra).is_err());
}

proptest! {
    #[test]
    fn no_cell_makes_a_row_too_long(
        cells in proptest::collection::vec((any::<f64>(), "[abc ]{0,1}"), 1..20),
        row_norm in proptest::option::of(0.02f64..3.0),
        intercept: bool,
        public: bool,
    ) {
        let norm = row_norm.map_or(String::new(), |norm| format!("\nrow_norm = {norm:?}"));
        let visibility = if public { "visibility = 'public'" } else { "" };
        let columns = format!(
            "[columns.n]\nbounds = [-3, 5]\n{visibility}\n[columns.t]\nvalues = ['a', 'b']\n[columns.y]\nbounds = [0, 1]\n"
        );
        let encoding = encoding(&format!("label = 'y'\nloss = 'squared'\nintercept = {intercept}{norm}"), &columns);
        let (n, t): (Vec<f64>, Vec<String>) = cells.into_iter().unzip();
        let table = table(vec![("n", Column::Numbers(n)), ("t", Column::Text(t))]);
        let rows = encoding.encode_features(&table, OutOfDomain::Coerce).unwrap();
        prop_assert!(rows.max_squared_norm() <= encoding.largest_squared_norm());
        let bound = encoding.row_norm_bound();
        prop_assert!((encoding.largest_squared_norm() as f64 / 268435456.0).sqrt() <= bound);
        prop_assert!(bound <= row_norm.unwrap_or(f64::MAX).min(3f64.sqrt()) * (1.0 + 1e-15));
    }
}
