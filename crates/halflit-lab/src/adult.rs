//! The foundation's yardstick: Adult under full differential privacy, from file to accuracy on the official test set.

use crate::Outcome;
use crate::datasets::shared_data;
use crate::record::COMMIT;
use halflit::noise::NoiseSource;
use halflit::table::{Declaration, Declared, OutOfDomain, Table};
use halflit::{Ledger, Plans, Problem, Request};
use serde_json::json;
use std::time::Instant;

/// Train on Adult (../shared/data/adult) under full DP, replace, delta = 1e-6, and report test accuracy over repeated runs.
#[derive(clap::Args)]
pub struct Args {
    /// The epsilons to train with.
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 1.0, 2.0])]
    epsilons: Vec<f64>,
    /// Runs per epsilon.
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Outcome {
    let Some(folder) = shared_data("adult") else {
        println!("skipped: ../shared/data/adult is not there");
        return Ok(());
    };
    let declaration = Declaration::parse(DECLARATION, "adult")?;
    let train = folder.join("adult_train.csv.gz");
    let mut rows = Vec::new();
    for &epsilon in &args.epsilons {
        let mut accuracies = Vec::new();
        let (mut seconds, mut row_steps) = (0.0, 0.0);
        for _ in 0..args.runs.max(1) {
            let table = Table::read(&train, &declaration.read_options())?;
            let problem = Problem::pose(Declared::bind(declaration.clone(), table)?, OutOfDomain::Refuse)?;
            let budget = Some(halflit::table::Budget { epsilon, delta: 1e-6 });
            let plan = Plans::new(problem, &Request { budget, ..Request::default() })?.best()?;
            row_steps += plan.summary().passes * plan.problem().private_units() as f64;
            let ledger = tempfile::tempdir()?;
            let charged = Ledger::open_or_create(&ledger.path().join("ledger"))?.charge(plan)?;
            let mut noise = NoiseSource::from_os()?;
            let start = Instant::now();
            let output = charged.run(&mut noise, &mut ())?;
            seconds += start.elapsed().as_secs_f64();
            let model = output.release(&[])?.model;
            let test = Table::read(&folder.join("adult_test.csv.gz"), &model.encoding().read_options(true))?;
            accuracies.push(model.evaluate(&test, OutOfDomain::Coerce)?.accuracy.unwrap_or(f64::NAN));
        }
        let count = accuracies.len() as f64;
        let mean = accuracies.iter().sum::<f64>() / count;
        let spread =
            (accuracies.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
        let least = accuracies.iter().copied().fold(f64::INFINITY, f64::min);
        rows.push(json!({
            "epsilon": epsilon, "accuracy": mean, "standard_deviation": spread, "least": least,
            "runs": accuracies.len(), "rows_per_second": row_steps / seconds,
        }));
    }
    if args.json {
        println!("{}", json!({ "experiment": "adult", "commit": COMMIT, "rows": rows }));
        return Ok(());
    }
    println!(
        "Adult, full DP, replace, delta = 1e-6; test accuracy (the best linear model without privacy: about 0.851)\n"
    );
    println!(
        "  {:>8} {:>10} {:>10} {:>10} {:>6} {:>14}",
        "epsilon", "accuracy", "sd", "least", "runs", "rows/s"
    );
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "  {:>8} {:>10.4} {:>10.4} {:>10.4} {:>6} {:>12.1} M",
            number("epsilon"),
            number("accuracy"),
            number("standard_deviation"),
            number("least"),
            row["runs"],
            number("rows_per_second") / 1e6
        );
    }
    Ok(())
}

/// Every column of the declaration with its domain, the label last; nothing for a column that is not used.
pub(crate) fn columns() -> Vec<(&'static str, String)> {
    let mut columns: Vec<(&'static str, String)> = Vec::new();
    for line in DECLARATION.lines() {
        if let Some(name) = line.strip_prefix("[columns.") {
            columns.push((name.trim_end_matches(']'), String::new()));
        } else if let Some((_, domain)) = columns.last_mut()
            && line != "use = false"
        {
            domain.push_str(line);
            domain.push('\n');
        }
    }
    columns
}

/// The census codebook: what can occur, not what does.
pub const DECLARATION: &str = r#"
[budget]
epsilon = 100.0
delta = 1e-6
[protect]
unit = "row"
change = "replace"
[task]
label = "income"
loss = "logistic"
[columns.age]
bounds = [17, 90]
[columns.workclass]
values = ["Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay", "Never-worked", ""]
[columns.fnlwgt]
use = false
[columns.education]
values = ["Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc", "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool"]
[columns.education_num]
bounds = [1, 16]
[columns.marital_status]
values = ["Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent", "Married-AF-spouse"]
[columns.occupation]
values = ["Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv", "Armed-Forces", ""]
[columns.relationship]
values = ["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"]
[columns.race]
values = ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"]
[columns.sex]
values = ["Female", "Male"]
[columns.capital_gain]
bounds = [0, 99999]
[columns.capital_loss]
bounds = [0, 4356]
[columns.hours_per_week]
bounds = [1, 99]
[columns.native_country]
values = ["United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany", "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran", "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal", "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia", "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador", "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands", ""]
[columns.income]
values = ["<=50K", ">50K"]
default = "<=50K"
"#;
