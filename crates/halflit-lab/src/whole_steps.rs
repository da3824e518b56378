//! Steps as `halflit train` takes them: through plan, charge and run.

use crate::kernel_bench::scramble;
use halflit::mechanisms::Watch;
use halflit::mechanisms::noisy_gradient::modes::Constants;
use halflit::mechanisms::noisy_gradient::parts::Sampling;
use halflit::noise::{NoiseSource, Probability};
use halflit::table::{Budget, Column, Declaration, Declared, OutOfDomain, Table};
use halflit::{Ledger, Plans, Problem, Request};
use serde::Serialize;
use std::fmt::Write;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::time::Instant;

/// Rows of the table: its cells are kept as read, besides what the kernel keeps of them.
const ROWS: usize = 100_000;
const COLUMNS: usize = 100;
/// Rows that all timed steps take together, after some steps that are not timed.
const ROWS_TIMED: f64 = 3e7;
const UNTIMED: u64 = 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Rows per second of whole steps of the mechanism.
#[derive(Serialize)]
pub struct WholeSteps {
    pub rows: usize,
    pub columns: usize,
    /// Full batches.
    pub full_batch_rows_per_second: f64,
    /// Poisson batches of about 500 and 5,000 rows.
    pub poisson_examples_per_second: [f64; 2],
}

/// When the timed steps began.
#[derive(Default)]
struct Clock {
    start: Option<Instant>,
    seconds: f64,
}

impl Watch for Clock {
    fn progress(&mut self, done: u64, total: u64) -> ControlFlow<()> {
        if done == UNTIMED {
            self.start = Some(Instant::now());
        }
        if let Some(start) = self.start.filter(|_| done == total) {
            self.seconds = start.elapsed().as_secs_f64();
        }
        ControlFlow::Continue(())
    }
}

/// Logistic regression with everything private, on the current thread pool.
pub fn measure() -> Result<WholeSteps> {
    let mut text = format!(
        "[budget]\nepsilon = 100\ndelta = 1e-6\n[protect]\nunit = \"row\"\nchange = \"zero-out\"\nrows = {ROWS}\n\
         [task]\nlabel = \"y\"\nloss = \"logistic\"\nintercept = false\n[columns.y]\nvalues = [\"0\", \"1\"]\n"
    );
    let mut columns = Vec::with_capacity(COLUMNS + 1);
    for column in 0..COLUMNS {
        writeln!(text, "[columns.x{column}]\nbounds = [-1, 1]")?;
        let cell = |row: usize| (scramble((row * COLUMNS + column) as u64) % 2001) as f64 / 1000.0 - 1.0;
        columns.push((format!("x{column}"), Column::Numbers((0..ROWS).map(cell).collect())));
    }
    let label = |row: usize| (scramble(row as u64) % 2).to_string();
    columns.push(("y".to_owned(), Column::Text((0..ROWS).map(label).collect())));
    let declared = Declared::bind(Declaration::parse(&text, "made up")?, Table::from_columns(columns)?)?;
    let mut problem = Some(Problem::pose(declared, OutOfDomain::Refuse)?);
    let mut rows_per_second = |sampling: Sampling| -> Result<f64> {
        let batch = sampling.share() * ROWS as f64;
        let steps = (ROWS_TIMED / batch).ceil();
        let constants = Constants {
            steps: NonZeroU64::new(UNTIMED + steps as u64),
            step_size: Some(0.1),
            clip_norm: Some(1.0),
            sampling,
            ..Constants::default()
        };
        let request = Request {
            budget: Some(Budget { epsilon: 2.0, delta: 1e-6 }),
            gradient: constants.dp_sgd(),
            ..Request::default()
        };
        let plan = Plans::new(problem.take().ok_or("no problem")?, &request)?.best()?;
        let folder = tempfile::tempdir()?;
        let charged = Ledger::open_or_create(&folder.path().join("ledger"))?.charge(plan)?;
        let mut clock = Clock::default();
        problem = Some(charged.run(&mut NoiseSource::from_os()?, &mut clock)?.into_problem());
        Ok(steps * batch / clock.seconds)
    };
    let full = rows_per_second(Sampling::FullBatch)?;
    let mut sampled = |batch: u64| rows_per_second(Sampling::Poisson(Probability::new(batch, ROWS as u64)?));
    Ok(WholeSteps {
        rows: ROWS,
        columns: COLUMNS,
        full_batch_rows_per_second: full,
        poisson_examples_per_second: [sampled(500)?, sampled(5000)?],
    })
}
