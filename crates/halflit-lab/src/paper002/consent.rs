//! The survey of docs/examples/public-rows.md: what 5 % consenting people buy at each epsilon, measured.

use super::Args;
use super::regression::Result;
use crate::Outcome;
use crate::record::{COMMIT, Measured, write};
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use halflit::mechanisms::public_rows;
use halflit::noise::NoiseSource;
use halflit::plot::{LineChart, Scale, Series};
use halflit::table::{Budget, Column, Declaration, Declared, OutOfDomain, Table};
use halflit::{Ledger, Model, Plans, Problem, Request};
use serde_json::json;
use std::fmt::Write;

const ROWS: usize = 12_000;
/// Of the people, how many consent.
const SHARE: f64 = 0.05;
const DELTA: f64 = 1e-6;
const SELECTOR: &str = "public_rows = { column = \"consent\", equals = \"yes\" }";
const DECLARATION: &str = "[budget]\nepsilon = 1000\ndelta = 1e-6\n\
    [protect]\nunit = \"row\"\nchange = \"replace\"\nSELECTOR\n\
    [task]\nlabel = \"income\"\nloss = \"logistic\"\n\
    [columns.age]\nbounds = [18, 80]\n[columns.hours]\nbounds = [0, 60]\n\
    [columns.education]\nvalues = [\"school\", \"college\", \"university\"]\n[columns.children]\nbounds = [0, 10]\n\
    [columns.consent]\nvisibility = \"public\"\nuse = false\n[columns.income]\nvalues = [\"low\", \"high\"]\n";

/// What is compared: the selector given or not, and the mechanism asked for.
const WAYS: [(&str, bool, Option<&str>); 3] = [
    ("without the public rows", false, None),
    ("the public rows alone", true, Some(public_rows::NAME)),
    ("both", true, None),
];

pub fn run(args: &Args) -> Outcome {
    let draws = args.draws.unwrap_or(if args.quick { 3 } else { 20 }).max(1);
    let epsilons: &[f64] = if args.quick { &[0.25, 1.0] } else { &[0.1, 0.2, 0.5, 1.0, 2.0, 4.0] };
    let mut csv = format!(
        "# consent survey, commit {COMMIT}, seeds {}..{}, {draws} draws\nepsilon,way,excess,standard_error\n",
        args.seed,
        args.seed + draws as u64 - 1
    );
    let mut lines = WAYS.map(|_| Vec::new());
    let mut records = Vec::new();
    for &epsilon in epsilons {
        for (line, (name, with_selector, mechanism)) in lines.iter_mut().zip(WAYS) {
            let request = Request {
                budget: Some(Budget { epsilon, delta: DELTA }),
                mechanism: mechanism.map(str::to_owned),
                ..Request::default()
            };
            let excesses: Result<Vec<f64>> = (args.seed..args.seed + draws as u64)
                .map(|seed| excess(&Survey::draw(seed), with_selector, &request))
                .collect();
            let Some(measured) = Measured::of(&excesses?) else { continue };
            let Measured { mean, standard_error, .. } = measured;
            line.push((epsilon, mean));
            writeln!(csv, "{epsilon},{name},{mean},{standard_error}")?;
            records.push(
                json!({ "epsilon": epsilon, "way": name, "excess": mean, "standard_error": standard_error }),
            );
            if !args.json {
                println!("epsilon {epsilon:<5} {name:<24} excess loss {mean:.5} ± {standard_error:.5}");
            }
        }
    }
    let chart = LineChart {
        title: "What 5 % public rows buy".to_owned(),
        x_label: "epsilon".to_owned(),
        y_label: "excess of the mean loss".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: WAYS.iter().zip(lines).map(|((name, ..), line)| Series::line(*name, line).marked()).collect(),
    };
    let table = write(&args.out, "consent-survey.csv", &csv)?;
    let picture = write(&args.out, "consent-survey.svg", &chart.to_svg())?;
    if args.json {
        println!(
            "{}",
            json!({ "experiment": "consent-survey", "commit": COMMIT, "seed": args.seed, "draws": draws, "rows": records })
        );
    } else {
        println!(
            "\nMean loss over all rows above the best model's, mean of {draws} draws. Wrote {} and {}.",
            table.display(),
            picture.display()
        );
    }
    Ok(())
}

/// One draw of the example's table.
struct Survey {
    age: Vec<f64>,
    hours: Vec<f64>,
    education: Vec<String>,
    children: Vec<f64>,
    consent: Vec<String>,
    income: Vec<String>,
}

impl Survey {
    fn draw(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha12Rng::from_seed(key);
        let mut unit = || (generator.next_u64() >> 11) as f64 * f64::exp2(-53.0);
        let mut survey = Survey {
            age: vec![],
            hours: vec![],
            education: vec![],
            children: vec![],
            consent: vec![],
            income: vec![],
        };
        for _ in 0..ROWS {
            let mut whole = |low: f64, high: f64| (low + unit() * (high - low + 1.0)).floor();
            let (age, hours, level, children) =
                (whole(18.0, 80.0), whole(0.0, 60.0), whole(0.0, 2.0), whole(0.0, 4.0));
            let score = 0.05 * (age - 45.0) + 0.06 * (hours - 35.0) + (level - 1.0) - 0.2 * children;
            survey.age.push(age);
            survey.hours.push(hours);
            survey.education.push(["school", "college", "university"][level as usize].to_owned());
            survey.children.push(children);
            survey.consent.push(if unit() < SHARE { "yes" } else { "no" }.to_owned());
            survey.income.push(if unit() < 1.0 / (1.0 + (-score).exp()) { "high" } else { "low" }.to_owned());
        }
        survey
    }

    fn table(&self) -> Result<Table> {
        let text = |column: &[String]| Column::Text(column.to_vec());
        let number = |column: &[f64]| Column::Numbers(column.to_vec());
        Ok(Table::from_columns(vec![
            ("age".to_owned(), number(&self.age)),
            ("hours".to_owned(), number(&self.hours)),
            ("education".to_owned(), text(&self.education)),
            ("children".to_owned(), number(&self.children)),
            ("consent".to_owned(), text(&self.consent)),
            ("income".to_owned(), text(&self.income)),
        ])?)
    }
}

/// How far the trained model's mean loss lies above the best model's, over all rows.
fn excess(survey: &Survey, with_selector: bool, request: &Request) -> Result<f64> {
    let text = DECLARATION.replace("SELECTOR", if with_selector { SELECTOR } else { "" });
    let declaration = Declaration::parse(&text, "survey")?;
    let problem = Problem::pose(Declared::bind(declaration, survey.table()?)?, OutOfDomain::Refuse)?;
    let (encoding, loss, table) = (problem.encoding().clone(), problem.loss(), survey.table()?);
    let rows = encoding.encode_features(&table, OutOfDomain::Refuse)?;
    let labels = encoding.encode_labels(&table, OutOfDomain::Refuse)?;
    let best = public_rows::fit(loss, &rows, &labels, problem.row_norm_bound(), 1e-7, None)?;
    let best = Model::new(loss, encoding, vec![best])?.evaluate(&table, OutOfDomain::Refuse)?.mean_loss;
    let plan = Plans::new(problem, request)?.best()?;
    let ledger = tempfile::tempdir()?;
    let charged = Ledger::open_or_create(&ledger.path().join("ledger"))?.charge(plan)?;
    let model = charged.run(&mut NoiseSource::from_os()?, &mut ())?.release(&[])?.model;
    Ok(model.evaluate(&table, OutOfDomain::Refuse)?.mean_loss - best)
}
