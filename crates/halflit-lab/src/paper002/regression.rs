//! The paper's linear regression: standard normal features and minimizer, labels with unit noise; risk known exactly.

use crate::record::seeded;
use halflit::mechanisms::noisy_gradient::Params;
use halflit::noise::NoiseSource;
use halflit::table::{Budget, Column, Declaration, Declared, OutOfDomain, Table};
use halflit::{Ledger, Plan, Plans, Problem, Request};
use halflit_privacy::Change;
use rand_distr::{Distribution, StandardNormal};
use std::fmt::Write;

/// What can go wrong in an experiment.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Features beyond this many standard deviations are clipped to it: 7 in a million.
pub const FEATURE_BOUND: f64 = 4.5;
/// The same for labels, whose standard deviation is sqrt(d + 1).
const LABEL_BOUND: f64 = 5.5;
/// Rows longer than this times sqrt(d) are shortened to it: one in 10^10 for d = 2000.
const ROW_BOUND: f64 = 1.1;
/// The declared penalty. The paper has none; the public rows' minimizer needs one to be unique. Gradients are clipped and the penalty's is not, so it has
/// to be tiny: at w* a penalty of 1e-5 pulls towards zero as hard as all rows, clipped at the paper's norm, can pull the other way.
const PENALTY: f64 = 1e-9;

/// One draw of the data.
pub struct Draw {
    pub rows: usize,
    features: Vec<Vec<f64>>,
    labels: Vec<f64>,
    minimizer: Vec<f64>,
}

/// How a draw is declared.
#[derive(Clone, Copy, PartialEq)]
pub struct Setting {
    pub public_rows: usize,
    pub change: Change,
}

impl Draw {
    /// `dimension` standard normal columns and labels N(<w*, x>, 1) with a standard normal w*.
    pub fn new(rows: usize, dimension: usize, seed: u64) -> Self {
        let mut generator = seeded(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut generator) };
        let minimizer: Vec<f64> = (0..dimension).map(|_| normal()).collect();
        let mut labels: Vec<f64> = (0..rows).map(|_| normal()).collect();
        let mut features = Vec::with_capacity(dimension);
        for weight in &minimizer {
            let column: Vec<f64> = (0..rows).map(|_| normal()).collect();
            for (label, x) in labels.iter_mut().zip(&column) {
                *label += weight * x;
            }
            features.push(column);
        }
        Draw { rows, features, labels, minimizer }
    }

    pub fn dimension(&self) -> usize {
        self.minimizer.len()
    }

    /// What the labels are divided by when encoded.
    pub fn label_bound(&self) -> f64 {
        LABEL_BOUND * (self.dimension() as f64 + 1.0).sqrt()
    }

    /// The draw declared, encoded and sealed; the first rows are public.
    pub fn problem(&self, setting: Setting) -> Result<Problem> {
        let d = self.dimension();
        let private_rows = self.rows - setting.public_rows;
        let change = match setting.change {
            Change::Replace => "change = \"replace\"".to_owned(),
            Change::ZeroOut => format!("change = \"zero-out\"\nrows = {private_rows}"),
        };
        let row_norm = ROW_BOUND * (d as f64).sqrt() / FEATURE_BOUND;
        let label_bound = self.label_bound();
        let mut text = format!(
            "[budget]\nepsilon = 1000\ndelta = 1e-5\n[protect]\nunit = \"row\"\n{change}\n\
             public_rows = {{ column = \"public\", equals = \"yes\" }}\n\
             [task]\nlabel = \"y\"\nloss = \"squared\"\nintercept = false\nregularization = {PENALTY}\nrow_norm = {row_norm}\n\
             [columns.y]\nbounds = [-{label_bound}, {label_bound}]\ndefault = 0\n[columns.public]\nvisibility = \"public\"\nuse = false\n"
        );
        for column in 0..d {
            writeln!(text, "[columns.x{column}]\nbounds = [-{FEATURE_BOUND}, {FEATURE_BOUND}]")?;
        }
        let declaration = Declaration::parse(&text, "made up")?;
        let public = |row: usize| if row < setting.public_rows { "yes" } else { "no" }.to_owned();
        let mut columns: Vec<(String, Column)> = (0..d)
            .map(|column| (format!("x{column}"), Column::Numbers(self.features[column].clone())))
            .collect();
        columns.push(("y".to_owned(), Column::Numbers(self.labels.clone())));
        columns.push(("public".to_owned(), Column::Text((0..self.rows).map(public).collect())));
        Ok(Problem::pose(Declared::bind(declaration, Table::from_columns(columns)?)?, OutOfDomain::Coerce)?)
    }

    /// The population risk of weights on encoded columns: 1 + ||w - w*||^2.
    pub fn risk(&self, encoded: &[f64]) -> f64 {
        let factor = self.label_bound() / FEATURE_BOUND;
        1.0 + encoded.iter().zip(&self.minimizer).map(|(w, best)| (factor * w - best).powi(2)).sum::<f64>()
    }
}

/// The paper's delta for linear regression.
pub fn budget(epsilon: f64) -> Budget {
    Budget { epsilon, delta: 1e-5 }
}

/// The best plan: of one mechanism, or of all that fit.
pub fn plan(problem: Problem, gradient: Params, mechanism: Option<&str>, budget: Budget) -> Result<Plan> {
    let request = Request { budget: Some(budget), mechanism: mechanism.map(str::to_owned), gradient };
    Ok(Plans::new(problem, &request)?.best()?)
}

/// Charges and runs a plan, and hands the problem back for the next run.
pub fn run_plan(plan: Plan) -> Result<(Vec<f64>, Problem)> {
    let folder = tempfile::tempdir()?;
    let charged = Ledger::open_or_create(&folder.path().join("ledger"))?.charge(plan)?;
    let output = charged.run(&mut NoiseSource::from_os()?, &mut ())?;
    let weights = output.weights().to_vec();
    Ok((weights, output.into_problem()))
}

/// Trains once, through the whole flow (plan, charge, run).
pub fn train(
    problem: Problem,
    gradient: Params,
    mechanism: Option<&str>,
    budget: Budget,
) -> Result<(Vec<f64>, Problem)> {
    run_plan(plan(problem, gradient, mechanism, budget)?)
}
