//! The declaration that `halflit init` writes for the owner to complete.

use crate::declaration::{PLACEHOLDER, quoted_key, quoted_text};
use crate::table::{Cells, MISSING, Numbers, Table, Texts};
use crate::value::comparable;
use std::collections::BTreeSet;
use std::fmt::Write;

/// With measuring, a text column with more distinct texts than this is left unused.
const MOST_VALUES: usize = 50;

/// With measuring, a number column with at most this many distinct numbers may be a class.
const FEW_NUMBERS: usize = 10;

const HEAD: &str = r#"[budget]
epsilon = 1.0              # smaller protects more
delta = 1e-6               # well below one over the number of rows

[protect]
unit = "row"               # or "user": all rows of one user are protected together
# user = "..."             # with unit = "user": the column that says whose row it is; it must be public
# change = "zero-out"      # instead of "replace"; needs rows = ... (or users = ...)
# public_rows = { column = "...", equals = "yes" }    # rows that are no secret; the column must be public

"#;

/// A commented declaration from the header and the types of a table.
///
/// Bounds and values are left to be filled in, and [`crate::Declaration::parse`] says which are not. With `measure` they
/// are taken from the cells. That is **not private**: the smallest and largest cell, and every value that occurs, are then
/// in the declaration, the model and the report. The text says so.
pub fn skeleton(table: &Table, measure: bool) -> String {
    let mut text = format!(
        "# What is protected, and what is learned, in {}. Every key: docs/declaration.md.\n",
        one_line(table.source())
    );
    text.push_str(if measure {
        "#\n# WARNING: the bounds and values below were MEASURED on the data, so they are NOT PRIVATE: they show its most\n\
         # extreme cells and its rarest values. Replace them by what the columns mean before you rely on a guarantee.\n\n"
    } else {
        "# Nothing here was measured. Replace every \"fill in\" by what the columns mean, not by what the data shows.\n\n"
    });
    text.push_str(HEAD);
    // Writing to a String does not fail.
    let _ = write!(
        text,
        "[task]\nlabel = \"{PLACEHOLDER}\"          # the column to predict, one of those below\n\
         loss = \"{PLACEHOLDER}\"           # two classes: logistic, hinge, smoothed-hinge; more: softmax;\n\
         {:27}# numbers: squared, huber, pseudo-huber, absolute, quantile; counts: poisson\n\
         # regularization = \"auto\"\n# radius = 10.0            # keep the weights in a ball\n\n\
         # A column is a secret unless it says visibility = \"public\". Columns not listed are not used.\n",
        ""
    );
    for column in table.columns() {
        let _ = write!(text, "\n[columns.{}]\n", quoted_key(&column.name));
        text.push_str(&match &column.cells {
            Cells::Numbers(numbers) if measure => measured_bounds(numbers),
            Cells::Text(texts) if measure => measured_values(texts),
            Cells::Numbers(_) => unfilled_bounds(),
            Cells::Text(_) => unfilled_values(),
            Cells::NotRead(reason) => format!("use = false                # {}\n", one_line(reason)),
        });
        text.push_str("# visibility = \"public\"\n");
    }
    text
}

fn unfilled_bounds() -> String {
    format!("bounds = \"{PLACEHOLDER}\"         # numbers: [lowest, highest] that can occur\n")
}

fn unfilled_values() -> String {
    format!(
        "values = \"{PLACEHOLDER}\"         # texts: [\"...\", \"...\"], all that can occur; or use = false\n"
    )
}

fn measured_bounds(numbers: &Numbers) -> String {
    let finite = || numbers.values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if !(low <= high) {
        return unfilled_bounds();
    }
    if low == high {
        return "use = false                # one number throughout\n".to_owned();
    }
    let mut text = format!("bounds = [{low:?}, {high:?}]       # MEASURED: not private\n");
    if numbers.values.iter().any(|value| value.is_nan()) {
        text.push_str("# default = ...            # some cells are empty: what they become when coercing\n");
    }
    let mut distinct: BTreeSet<u64> = BTreeSet::new();
    for value in finite() {
        distinct.insert(value.to_bits());
        if distinct.len() > FEW_NUMBERS {
            return text;
        }
    }
    let mut values: Vec<f64> = distinct.into_iter().map(f64::from_bits).collect();
    values.sort_by(f64::total_cmp);
    let values: Vec<String> = values.iter().map(f64::to_string).collect();
    let _ = writeln!(
        text,
        "# values = [{}]          # instead of bounds, if the numbers are names of classes",
        values.join(", ")
    );
    text
}

fn measured_values(texts: &Texts) -> String {
    if texts.distinct.len() > MOST_VALUES {
        return format!("use = false                # {} distinct texts\n", texts.distinct.len());
    }
    // Texts that are one value in two spellings are listed once.
    let mut seen = BTreeSet::new();
    let mut values: Vec<&str> =
        texts.distinct.iter().map(|text| &**text).filter(|text| seen.insert(comparable(text))).collect();
    values.sort_unstable();
    if texts.codes.contains(&MISSING) {
        values.push("");
    }
    let values: Vec<String> = values.into_iter().map(quoted_text).collect();
    format!("values = [{}]       # MEASURED: not private; \"\" is an empty cell\n", values.join(", "))
}

/// Text for a comment: no line ends, no control characters.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declaration::{Declaration, Refusal};
    use crate::declared::Declared;
    use crate::table::Column;
    use proptest::prelude::*;

    fn table() -> Table {
        let text = |cells: [&str; 4]| Column::Text(cells.map(str::to_owned).to_vec());
        let columns = vec![
            ("age", Column::Numbers(vec![31.0, 47.5, f64::NAN, 18.0])),
            ("work class", text(["Private", "State \"gov\"", "", "Private"])),
            ("flag", Column::Numbers(vec![0.0, 1.0, 1.0, 0.0])),
            ("constant", Column::Numbers(vec![3.0; 4])),
            ("empty", Column::Numbers(vec![f64::NAN; 4])),
            ("answer", text(["yes", "no", "no", "yes"])),
        ];
        Table::from_columns(columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect())
            .unwrap()
    }

    #[test]
    fn nothing_measured_is_written() {
        let text = skeleton(&table(), false);
        for cell in ["31", "47.5", "18", "Private", "gov", "yes\", \"no"] {
            assert!(!text.contains(cell), "{cell}:\n{text}");
        }
        let error = Declaration::parse(&text, "privacy.toml").unwrap_err();
        let unfilled: Vec<&str> = error
            .problems
            .iter()
            .map(|problem| match &problem.refusal {
                Refusal::Unfilled { what, .. } => what.as_str(),
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(
            unfilled,
            [
                "`label` in [task]: the column to predict",
                "`loss` in [task]: how errors are measured",
                "the bounds of column `age`",
                "the values of column `work class`",
                "the bounds of column `flag`",
                "the bounds of column `constant`",
                "the bounds of column `empty`",
                "the values of column `answer`",
            ]
        );
    }

    #[test]
    fn a_measured_skeleton_says_so_and_fits_its_table() {
        let text = skeleton(&table(), true);
        assert!(text.contains("WARNING") && text.contains("NOT PRIVATE"), "{text}");
        assert!(text.contains("bounds = [18.0, 47.5]       # MEASURED: not private"), "{text}");
        assert!(text.contains("# values = [0, 1]"), "{text}");
        let filled = text
            .replace("label = \"fill in\"", "label = \"answer\"")
            .replace("loss = \"fill in\"", "loss = \"logistic\"")
            .replace("bounds = \"fill in\"", "use = false");
        let declaration =
            Declaration::parse(&filled, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
        let declared = Declared::bind(declaration, table()).unwrap();
        // The missing number is all that is left to mend; the missing text has become a value.
        assert_eq!(declared.findings().unwrap().total(), 1);
        assert_eq!(declared.facts().features, 3);
    }

    proptest! {
        #[test]
        fn any_names_and_texts_make_toml(
            names in proptest::collection::hash_set("\\PC{1,6}|[a\n\"#]{1,3}", 1..5),
            cells in proptest::collection::vec("\\PC{0,6}|[a\n\"#]{0,3}", 3),
            measure: bool,
        ) {
            let columns = names.into_iter().map(|name| (name, Column::Text(cells.clone()))).collect();
            let text = skeleton(&Table::from_columns(columns).unwrap(), measure);
            let error = Declaration::parse(&text, "privacy.toml").unwrap_err();
            let is_toml = !error.problems.iter().any(|problem| matches!(problem.refusal, Refusal::Syntax { .. }));
            prop_assert!(is_toml, "{error}");
        }
    }
}
