use super::*;
use halflit_privacy::{Change, PrivateRows, SensitiveColumns, Unit};
use proptest::prelude::*;

const FULL: &str = r#"
[budget]
epsilon = 1.0
delta = 1e-6

[protect]
unit = "user"
user = "patient_id"
change = "replace"
users = 500
rows_per_user = 10
public_rows = { column = "consent", in = ["yes", "licensed"] }

[task]
label = "income"
loss = "logistic"
regularization = 0.5
radius = 10
row_norm = 2.0
intercept = false

[columns.age]
bounds = [17, 90]
visibility = "public"
default = 40

[columns.workclass]
values = ["Private", "State-gov", 3, true]
default = "3.0"

[columns.income]
values = ["<=50K", ">50K"]

[columns.fnlwgt]
use = false

[columns.patient_id]
visibility = "public"

[columns.consent]
visibility = "public"
values = ["yes", "no", "licensed"]
"#;

const SMALL: &str = r#"
[budget]
epsilon = 1.0
delta = 1e-6
[protect]
unit = "row"
[task]
label = "y"
loss = "squared"
[columns.x]
bounds = [0, 1]
[columns.y]
bounds = [0, 10]
"#;

fn refusals(text: &str) -> Vec<Refusal> {
    match Declaration::parse(text, "privacy.toml") {
        Ok(_) => Vec::new(),
        Err(error) => error.problems.into_iter().map(|problem| problem.refusal).collect(),
    }
}

#[test]
fn every_key_is_read() {
    let declaration = Declaration::parse(FULL, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(declaration.budget(), Budget { epsilon: 1.0, delta: 1e-6 });
    let relation = declaration.relation();
    assert_eq!(*relation.unit(), Unit::User { id_column: "patient_id".to_owned() });
    assert_eq!(*relation.sensitive(), SensitiveColumns::named(["fnlwgt", "income", "workclass"]).unwrap());
    assert_eq!(relation.change(), Change::Replace);
    let PrivateRows::Outside(public) = relation.private_rows() else { panic!("a selector was declared") };
    assert_eq!(
        (public.column(), public.values()),
        ("consent", &["licensed".to_owned(), "yes".to_owned()][..])
    );
    assert_eq!((declaration.declared_units(), declaration.rows_per_user()), (Some(500), Some(10)));
    assert_eq!(
        *declaration.task(),
        Task {
            label: "income".to_owned(),
            loss: DeclaredLoss::Logistic,
            regularization: Regularization::Fixed(0.5),
            radius: Some(10.0),
            row_norm: Some(2.0),
            intercept: false,
        }
    );
    let names: Vec<&str> = declaration.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["age", "workclass", "income", "fnlwgt", "patient_id", "consent"]);
    let roles: Vec<Role> = declaration.columns().iter().map(|column| column.role).collect();
    use Role::{Feature, Label, Unused};
    assert_eq!(roles, [Feature, Feature, Label, Unused, Unused, Unused]);
    let age = declaration.column("age").unwrap();
    assert_eq!(age.domain, Some(ColumnDomain::Bounds { low: 17.0, high: 90.0 }));
    assert_eq!((age.visibility, age.default.as_deref()), (Visibility::Public, Some("40")));
    let workclass = declaration.column("workclass").unwrap();
    let values = ["Private", "State-gov", "3", "true"].map(str::to_owned).to_vec();
    assert_eq!(workclass.domain, Some(ColumnDomain::Values(values)));
    assert_eq!((workclass.visibility, workclass.default.as_deref()), (Visibility::Sensitive, Some("3")));
}

#[test]
fn what_is_left_out_has_the_documented_value() {
    let declaration = Declaration::parse(SMALL, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(*declaration.relation(), halflit_privacy::Relation::full(Change::Replace));
    let task = declaration.task();
    assert_eq!((task.regularization, task.radius, task.row_norm), (Regularization::Auto, None, None));
    assert!(task.intercept);
    assert_eq!((declaration.declared_units(), declaration.rows_per_user()), (None, None));
}

#[test]
fn the_relation_follows_the_visibilities() {
    let label_only = SMALL.replace("[columns.x]", "[columns.x]\nvisibility = \"public\"");
    let declaration = Declaration::parse(&label_only, "privacy.toml").unwrap();
    assert_eq!(*declaration.relation().sensitive(), SensitiveColumns::named(["y"]).unwrap());
    // An unused public column changes nothing: every used column is still sensitive.
    let unused = format!("{SMALL}[columns.z]\nuse = false\nvisibility = \"public\"\n");
    let declaration = Declaration::parse(&unused, "privacy.toml").unwrap();
    assert_eq!(*declaration.relation().sensitive(), SensitiveColumns::All);
    // A declared secret that the task does not use is a secret all the same; `use = false` alone does not make a column public.
    for z in ["use = false", "use = false\nvisibility = \"sensitive\"", "use = false\nbounds = [0, 1]"] {
        let unused = format!("{label_only}[columns.z]\n{z}\n");
        let declaration = Declaration::parse(&unused, "privacy.toml").unwrap();
        assert_eq!(*declaration.relation().sensitive(), SensitiveColumns::named(["y", "z"]).unwrap(), "{z}");
        assert!(declaration.relation().sentence().contains("the columns y and z of one row"));
    }
}

#[test]
fn reading_follows_the_declaration() {
    let options = Declaration::parse(FULL, "privacy.toml").unwrap().read_options();
    for (column, read_as) in [
        ("age", ReadAs::Number),
        ("workclass", ReadAs::Text),
        ("income", ReadAs::Text),
        ("patient_id", ReadAs::Text),
        ("consent", ReadAs::Text),
        ("fnlwgt", ReadAs::Skipped),
        ("unknown", ReadAs::Skipped),
    ] {
        assert_eq!(options.of(column), read_as, "{column}");
    }
}

#[test]
fn every_loss_and_its_parameters() {
    let classes = |count: usize| {
        SMALL
            .replace("[0, 10]", "@")
            .replace("bounds = @", &format!("values = {:?}", &["a", "b", "c"][..count]))
    };
    for (text, loss, expected) in [
        (classes(2), "logistic", DeclaredLoss::Logistic),
        (classes(3), "softmax", DeclaredLoss::Softmax),
        (classes(2), "hinge", DeclaredLoss::Hinge),
        (classes(2), "smoothed-hinge\"\nsmoothing = 0.5 #", DeclaredLoss::SmoothedHinge { smoothing: 0.5 }),
        (SMALL.to_owned(), "squared", DeclaredLoss::Squared),
        (SMALL.to_owned(), "huber\"\nhuber_threshold = 2 #", DeclaredLoss::Huber { threshold: 2.0 }),
        (
            SMALL.to_owned(),
            "pseudo-huber\"\nhuber_threshold = 2 #",
            DeclaredLoss::PseudoHuber { threshold: 2.0 },
        ),
        (SMALL.to_owned(), "absolute", DeclaredLoss::Absolute),
        (SMALL.to_owned(), "quantile\"\nquantile = 0.9 #", DeclaredLoss::Quantile { quantile: 0.9 }),
        (SMALL.to_owned(), "poisson\"\nmax_abs_score = 3 #", DeclaredLoss::Poisson { max_abs_score: 3.0 }),
    ] {
        let declaration = Declaration::parse(&text.replace("squared", loss), "privacy.toml");
        let read = declaration.unwrap_or_else(|error| panic!("{error}")).task().loss;
        assert_eq!(read, expected);
        assert!(loss.starts_with(read.name()));
    }
}

#[test]
fn a_budget_may_have_no_delta() {
    for written in ["0", "0.0", "0e-3"] {
        let text = SMALL.replace("delta = 1e-6", &format!("delta = {written}"));
        let declaration = Declaration::parse(&text, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(declaration.budget(), Budget { epsilon: 1.0, delta: 0.0 });
    }
}

/// Every refusal: what to change in a good declaration, and the message that must result.
#[test]
fn refused_declarations() {
    let cases: &[(&str, &str, &str, &str)] = &[
        // budget
        (
            SMALL,
            "epsilon = 1.0",
            "epsilon = 0",
            "`epsilon` is 0, but must be a number above 0 and at most 1e9",
        ),
        (SMALL, "epsilon = 1.0", "epsilon = -1", "`epsilon` is -1"),
        (SMALL, "epsilon = 1.0", "epsilon = nan", "`epsilon` is nan"),
        (SMALL, "epsilon = 1.0", "epsilon = inf", "`epsilon` is inf"),
        (SMALL, "epsilon = 1.0", "epsilon = \"1\"", "`epsilon` is a text, but must be a number"),
        (SMALL, "epsilon = 1.0\n", "", "[budget] needs `epsilon`"),
        (
            SMALL,
            "delta = 1e-6",
            "delta = 1",
            "`delta` is 1, but must be a number of at least 0 and at most 0.5",
        ),
        (SMALL, "delta = 1e-6", "delta = nan", "`delta` is nan"),
        (SMALL, "delta = 1e-6", "delta = -1e-6", "`delta` is -1e-6"),
        (SMALL, "delta = 1e-6", "delta = inf", "`delta` is inf"),
        (SMALL, "delta = 1e-6\n", "", "[budget] needs `delta`"),
        (SMALL, "[budget]\nepsilon = 1.0\ndelta = 1e-6", "", "[budget] needs `epsilon`"),
        // protect
        (SMALL, "unit = \"row\"\n", "", "[protect] needs `unit`"),
        (SMALL, "unit = \"row\"", "unit = \"rows\"", "did you mean \"row\"?"),
        (SMALL, "unit = \"row\"", "unit = \"user\"", "[protect] needs `user`"),
        (
            SMALL,
            "unit = \"row\"",
            "unit = \"row\"\nuser = \"x\"",
            "`user`: nothing would use it with this unit; set `unit = \"user\"`",
        ),
        (
            SMALL,
            "unit = \"row\"",
            "unit = \"row\"\nrows_per_user = 3",
            "`rows_per_user`: nothing would use it",
        ),
        (
            FULL,
            "rows_per_user = 10",
            "rows_per_user = 0",
            "`rows_per_user` is 0, but must be a whole number from 1 to 1e15",
        ),
        (FULL, "rows_per_user = 10", "rows_per_user = 2.5", "`rows_per_user` is 2.5"),
        (
            FULL,
            "users = 500",
            "rows = 500",
            "`rows`: nothing would use it with this unit; declare the number of users",
        ),
        (SMALL, "unit = \"row\"", "unit = \"row\"\nchange = \"add\"", "`change` is \"add\""),
        (
            SMALL,
            "unit = \"row\"",
            "unit = \"row\"\nchange = \"zero-out\"",
            "[protect] needs `rows`: under zero-out",
        ),
        (
            FULL,
            "change = \"replace\"\nusers = 500",
            "change = \"zero-out\"",
            "[protect] needs `users`: under zero-out",
        ),
        (
            FULL,
            "user = \"patient_id\"",
            "user = \"workclass\"",
            "column `workclass` is the user id but is not public",
        ),
        (
            FULL,
            "user = \"patient_id\"",
            "user = \"nobody\"",
            "column `nobody` is the user id but is not declared",
        ),
        (
            FULL,
            "[columns.patient_id]\nvisibility = \"public\"",
            "[columns.patient_id]",
            "column `patient_id` is the user id but is not public",
        ),
        (
            FULL,
            "column = \"consent\"",
            "column = \"income\"",
            "column `income` is the selector of public rows but is not public",
        ),
        (
            FULL,
            "column = \"consent\"",
            "column = \"conscent\"",
            "is the selector of public rows but is not declared",
        ),
        (FULL, "column = \"consent\", ", "", "[public_rows] needs `column`"),
        (FULL, ", in = [\"yes\", \"licensed\"]", "", "[public_rows] needs `equals`"),
        (
            FULL,
            "in = [\"yes\", \"licensed\"]",
            "in = []",
            "`in` is [], but must be a list of at least one value",
        ),
        (
            FULL,
            "in = [\"yes\", \"licensed\"]",
            "in = [\"Yes\"]",
            "must be one of the values of column `consent`; did you mean \"yes\"?",
        ),
        (FULL, "in = [", "equals = \"yes\", in = [", "`in`: `equals` is there too"),
        (FULL, "in = [\"yes\", \"licensed\"]", "in = [\"yes\", \"yes\"]", "`in` lists \"yes\" a second time"),
        (
            FULL,
            "public_rows = { column = \"consent\", in = [\"yes\", \"licensed\"] }",
            "public_rows = \"consent\"",
            "`public_rows` is a text, but must be a section",
        ),
        // task
        (SMALL, "label = \"y\"\n", "", "[task] needs `label`"),
        (
            SMALL,
            "label = \"y\"",
            "label = \"z\"",
            "column `z` is the label but is not declared (did you mean `x`?); add `[columns.z]`",
        ),
        (SMALL, "label = \"y\"", "label = \"fill in\"", "fill in `label` in [task]"),
        (SMALL, "loss = \"squared\"\n", "", "[task] needs `loss`"),
        (SMALL, "loss = \"squared\"", "loss = \"sqared\"", "did you mean \"squared\"?"),
        (SMALL, "loss = \"squared\"", "loss = \"zzzzzz\"", "choose from: logistic, softmax"),
        (SMALL, "loss = \"squared\"", "loss = \"quantile\"", "[task] needs `quantile`"),
        (SMALL, "loss = \"squared\"", "loss = \"quantile\"\nquantile = 1.0", "`quantile` is 1.0"),
        (SMALL, "loss = \"squared\"", "loss = \"quantile\"\nquantile = nan", "`quantile` is nan"),
        (
            SMALL,
            "loss = \"squared\"",
            "loss = \"squared\"\nquantile = 0.5",
            "`quantile`: the loss \"squared\" does not use it",
        ),
        (SMALL, "loss = \"squared\"", "loss = \"huber\"", "[task] needs `huber_threshold`"),
        (SMALL, "loss = \"squared\"", "loss = \"huber\"\nhuber_threshold = 0", "`huber_threshold` is 0"),
        (SMALL, "loss = \"squared\"", "loss = \"poisson\"", "[task] needs `max_abs_score`"),
        (SMALL, "loss = \"squared\"", "loss = \"poisson\"\nmax_abs_score = 31", "`max_abs_score` is 31"),
        (SMALL, "loss = \"squared\"", "loss = \"huber\"\nhuber_threshold = 1e300", "huber: threshold is 2"),
        (SMALL, "loss = \"squared\"", "loss = \"logistic\"", "predicts a class, but the label has bounds"),
        (SMALL, "loss = \"squared\"", "loss = \"softmax\"", "predicts a class, but the label has bounds"),
        (
            SMALL,
            "bounds = [0, 10]",
            "values = [\"a\", \"b\"]",
            "predicts a number, but the label has a list of values",
        ),
        (
            FULL,
            "values = [\"<=50K\", \">50K\"]",
            "values = [\"<=50K\"]",
            "separates two classes, but the label has 1",
        ),
        (
            FULL,
            "values = [\"<=50K\", \">50K\"]",
            "values = [\"a\", \"b\", \"c\"]",
            "separates two classes, but the label has 3",
        ),
        (FULL, "loss = \"logistic\"", "loss = \"softmax\"", "three classes or more, but the label has 2"),
        (SMALL, "loss = \"squared\"", "loss = \"squared\"\nradius = 0", "`radius` is 0"),
        (SMALL, "loss = \"squared\"", "loss = \"squared\"\nradius = nan", "`radius` is nan"),
        (SMALL, "loss = \"squared\"", "loss = \"squared\"\nrow_norm = 0.001", "`row_norm` is 0.001"),
        (SMALL, "loss = \"squared\"", "loss = \"squared\"\nregularization = -1", "`regularization` is -1"),
        (
            SMALL,
            "loss = \"squared\"",
            "loss = \"squared\"\nregularization = \"aut\"",
            "did you mean \"auto\"?",
        ),
        (
            SMALL,
            "loss = \"squared\"",
            "loss = \"squared\"\nregularization = []",
            "`regularization` is a list",
        ),
        (
            SMALL,
            "loss = \"squared\"",
            "loss = \"squared\"\nintercept = 1",
            "`intercept` is a number, but must be true or false",
        ),
        (FULL, "label = \"income\"", "label = \"patient_id\"", "`label`: the user id cannot be predicted"),
        // columns
        (SMALL, "bounds = [0, 1]\n", "", "[columns.x] needs `bounds`"),
        (SMALL, "bounds = [0, 10]\n", "", "[columns.y] needs `bounds`"),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "bounds = [1, 0]\n",
            "`columns.x.bounds` is [1, 0], but must be the lower bound first; write bounds = [0, 1]",
        ),
        (SMALL, "bounds = [0, 1]\n", "bounds = [1, 1]\n", "two different numbers"),
        (SMALL, "bounds = [0, 1]\n", "bounds = [0, 1e-320]\n", "two different numbers"),
        (SMALL, "bounds = [0, 1]\n", "bounds = [0, inf]\n", "two finite numbers"),
        (SMALL, "bounds = [0, 1]\n", "bounds = [nan, 1]\n", "two finite numbers"),
        (SMALL, "bounds = [0, 1]\n", "bounds = [0]\n", "exactly two numbers"),
        (SMALL, "bounds = [0, 1]\n", "bounds = 3\n", "`bounds` is a number, but must be two numbers"),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "bounds = [\"fill in\", \"fill in\"]\n",
            "fill in the bounds of column `x`",
        ),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "bounds = \"fill in: lowest and highest\"\n",
            "fill in the bounds of column `x`",
        ),
        (SMALL, "bounds = [0, 1]\n", "values = [\"fill in\"]\n", "fill in the values of column `x`"),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "values = []\n",
            "`columns.x.values` is [], but must be a list of at least one value",
        ),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "values = [\"a\", \"b\", \"a\"]\n",
            "`columns.x.values` lists \"a\" a second time",
        ),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "values = [1, 2, \"1.0\"]\n",
            "`columns.x.values` lists \"1.0\" a second time (first as `1`)",
        ),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "values = [\"\", \" \"]\n",
            "`columns.x.values` lists \" \" a second time",
        ),
        (FULL, "\"<=50K\", ", "\"\", ", "an empty label cannot be learned"),
        (FULL, "in = [\"yes\", \"licensed\"]", "in = [\"\"]", "a row whose selector is empty is private"),
        (SMALL, "bounds = [0, 1]\n", "values = [\"a\", []]\n", "`values` is a list, but must be a text"),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "values = [\"a\", inf]\n",
            "`values` is a number, but must be a text, a finite number",
        ),
        (SMALL, "bounds = [0, 1]\n", "bounds = [0, 1]\nvalues = [\"a\"]\n", "bounds or values, not both"),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "bounds = [0, 1]\ndefault = 2\n",
            "`default` is 2, but must be a number from 0 to 1",
        ),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "values = [\"a\"]\ndefault = \"b\"\n",
            "`default` is \"b\", but must be one of a",
        ),
        (SMALL, "bounds = [0, 1]\n", "bounds = [0, 1]\nvisibility = \"pubic\"\n", "did you mean \"public\"?"),
        (
            SMALL,
            "bounds = [0, 1]\n",
            "bounds = [0, 1]\nuse = \"no\"\n",
            "`use` is a text, but must be true or false",
        ),
        (SMALL, "bounds = [0, 1]\n", "use = false\n", "no column is used as a feature"),
        (SMALL, "bounds = [0, 10]\n", "bounds = [0, 10]\nuse = false\n", "`use`: the label is always used"),
        (
            SMALL,
            "[columns.x]\nbounds = [0, 1]\n[columns.y]\n",
            "[columns.x]\nbounds = [0, 1]\nvisibility = \"public\"\n[columns.y]\nvisibility = \"public\"\n",
            "nothing to protect",
        ),
        (
            SMALL,
            "[columns.x]\nbounds = [0, 1]",
            "[columns]\nx = 3",
            "`x` is a number, but must be a section of its own",
        ),
        // unknown keys, syntax
        (
            SMALL,
            "epsilon = 1.0",
            "epsilon = 1.0\nepsilonn = 2",
            "unknown key `epsilonn` in [budget]; did you mean `epsilon`?",
        ),
        (SMALL, "unit = \"row\"", "unit = \"row\"\npublic = 2", "unknown key `public` in [protect]"),
        (
            SMALL,
            "loss = \"squared\"",
            "loss = \"squared\"\nregularisation = 2",
            "did you mean `regularization`?",
        ),
        (
            SMALL,
            "bounds = [0, 1]",
            "bounds = [0, 1]\nmissing = 2",
            "known keys: bounds, values, visibility, use, default",
        ),
        (
            SMALL,
            "[protect]",
            "[protects]\n[protect]",
            "unknown key `protects` in the declaration; did you mean `protect`?",
        ),
        (SMALL, "epsilon = 1.0", "epsilon = ", "this is not TOML"),
        (SMALL, "epsilon = 1.0", "epsilon = 1.0\nepsilon = 2.0", "this is not TOML"),
    ];
    for (base, find, replace, message) in cases {
        assert!(base.contains(find), "the test's own text: {find}");
        let text = base.replacen(find, replace, 1);
        let error = match Declaration::parse(&text, "privacy.toml") {
            Ok(_) => panic!("accepted: {replace}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(message), "wanted {message:?} after {replace:?}, got:\n{error}");
    }
}

#[test]
fn several_problems_are_reported_in_file_order() {
    let text = SMALL
        .replace("epsilon = 1.0", "epsilon = 0")
        .replace("loss = \"squared\"", "los = \"squared\"")
        .replace("bounds = [0, 1]\n", "bounds = [3, 1]\n");
    let error = Declaration::parse(&text, "privacy.toml").unwrap_err();
    let lines: Vec<usize> = error.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 7, 9, 11], "{error}");
    assert!(error.to_string().contains("privacy.toml:11:10: `columns.x.bounds` is [3, 1]"), "{error}");
    assert!(error.to_string().contains(" 11 | bounds = [3, 1]\n    |          ^^^^^^"), "{error}");
}

#[test]
fn an_empty_file_says_what_it_needs() {
    let found = refusals("");
    for key in ["epsilon", "delta", "unit", "label", "loss"] {
        let named = |refusal: &Refusal| matches!(refusal, Refusal::MissingKey { key: missing, .. } if *missing == key);
        assert!(found.iter().any(named), "{key}: {found:?}");
    }
}

#[test]
fn a_parameter_of_an_unknown_loss_is_not_a_second_problem() {
    let text = SMALL.replace("loss = \"squared\"", "loss = \"quantil\"\nquantile = 0.5");
    assert_eq!(refusals(&text).len(), 1);
}

const REFERENCE: &str = include_str!("../../../../docs/declaration.md");

#[test]
fn the_reference_has_every_key_and_loss() {
    for section in ["budget", "protect", "task", "columns.x"] {
        let found = refusals(&format!("[{section}]\nzzzzzzzzzzzz = 1\n"));
        let known = found.iter().find_map(|refusal| match refusal {
            Refusal::UnknownKey { known, .. } => Some(known),
            _ => None,
        });
        for key in known.expect("the key is unknown") {
            assert!(
                REFERENCE.contains(&format!("\n| `{key}` |")),
                "{key} of [{section}] is not in docs/declaration.md"
            );
        }
    }
    for loss in task::LOSSES {
        assert!(REFERENCE.contains(&format!("`\"{loss}\"`")), "{loss} is not in docs/declaration.md");
    }
}

#[test]
fn the_example_of_the_reference_is_a_declaration() {
    let (_, after) = REFERENCE.split_once("```toml\n").unwrap();
    let (example, _) = after.split_once("```").unwrap();
    Declaration::parse(example, "docs/declaration.md").unwrap_or_else(|error| panic!("{error}"));
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,200}") {
        let _ = refusals(&text);
    }

    /// Bytes of any kind, as far as they are text: control characters, line ends, unfinished escapes.
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
        let _ = refusals(&String::from_utf8_lossy(&bytes));
    }

    /// Lines of a real declaration in any order, cut anywhere, with any character changed.
    #[test]
    fn damaged_declarations_do_not_panic(
        order in proptest::collection::vec(any::<prop::sample::Index>(), 1..60),
        at in any::<prop::sample::Index>(),
        with in "\\PC",
    ) {
        let lines: Vec<&str> = FULL.lines().collect();
        let mut text: String = order.iter().map(|index| format!("{}\n", index.get(&lines))).collect();
        let characters: Vec<usize> = text.char_indices().map(|(byte, _)| byte).collect();
        text.insert_str(*at.get(&characters), &with);
        if let Err(error) = Declaration::parse(&text, "privacy.toml") {
            prop_assert!(!error.problems.is_empty());
            let _ = error.to_string();
        }
    }

    #[test]
    fn one_damaged_character_is_refused_or_harmless(at in 0usize..FULL.len(), with in "[ -~]") {
        prop_assume!(FULL.is_char_boundary(at) && FULL.is_char_boundary(at + 1));
        let mut text = FULL.to_owned();
        text.replace_range(at..at + 1, &with);
        if let Ok(declaration) = Declaration::parse(&text, "privacy.toml") {
            let budget = declaration.budget();
            prop_assert!(budget.epsilon.is_finite() && budget.epsilon > 0.0);
            prop_assert!(budget.delta >= 0.0 && budget.delta < 1.0);
            for column in declaration.columns().iter().filter(|column| column.role != Role::Unused) {
                prop_assert!(column.domain.is_some());
            }
        }
    }
}
