//! Choosing eta, tau, c, L_max and T: by the paper's formulas, or by rehearsal on made-up sensitive cells.

use super::answerer::{Answerer, Secret, Settings};
use super::centred::{CentredRun, Centring};
use super::gradient::PublicParts;
use super::noise::{AnswerNoise, TestNoise, block_event};
use super::online::{self, Task};
use super::optimizer::Optimizer;
use super::{Choice, Chosen, Constants, Method, Params, Variant};
use crate::mechanisms::MechanismError;
use crate::mechanisms::believed;
use crate::mechanisms::noisy_gradient::Schedule;
use crate::mechanisms::noisy_gradient::schedule::Scales;
use crate::mechanisms::sensitive_domain::SensitiveDomain;
use crate::problem::Problem;
use crate::rehearsal::{MadeUp, Rehearsal};
use halflit_convex::kernel::Beliefs;
use halflit_privacy::calibrate::{Budget, Careful, continuous};
use halflit_privacy::{AccountingError, ParameterError};

/// A rehearsal uses at most this many rows; its noise is scaled so that means are as noisy as with all of them.
const REHEARSED_ROWS: usize = 1_000;

/// Made-up tables, each with weights of its own size.
const REHEARSED_TABLES: u64 = 3;

/// No chosen plan takes more steps than this.
const MOST_STEPS: u64 = 200;

/// Times that a minimizer may be asked about, on average, before an update comes of it.
const ROUNDS_PER_UPDATE: u64 = 8;

/// zeta: the share of a block's rho that goes to the test and the size.
const TEST_SHARE: f64 = 0.5;

/// c of the paper.
const TRUNCATION: f64 = 3.0;

pub(super) struct Parameters {
    pub method: Method,
    pub answer: AnswerNoise,
    pub optimizer: Optimizer,
    pub by: Chosen,
    pub predicted_excess: f64,
}

pub(super) fn choose(
    problem: &Problem,
    domain: &SensitiveDomain,
    constants: &Constants,
    params: &Params,
    budget: Budget,
) -> Result<Parameters, MechanismError> {
    match (&params.choice, params.variant) {
        (Choice::Rehearsed, variant) => rehearsed(problem, domain, constants, variant, budget),
        (Choice::Paper { failure }, _) => paper(problem, constants, *failure, budget),
        (Choice::Online { settings, optimizer }, _) => {
            let (test, answer) = online_noise(budget, settings.max_updates, constants.rows)?;
            let method = Method::Online { settings: *settings, test };
            Ok(Parameters {
                method,
                answer,
                optimizer: *optimizer,
                by: Chosen::Caller,
                predicted_excess: unknown(constants),
            })
        }
        (Choice::Centred { centring, optimizer }, _) => {
            let answer = centred_noise(budget, optimizer.steps(), constants.rows)?;
            let method = Method::Centred { centring: *centring };
            Ok(Parameters {
                method,
                answer,
                optimizer: *optimizer,
                by: Chosen::Caller,
                predicted_excess: unknown(constants),
            })
        }
    }
}

/// What a plan that nobody rehearsed is ranked by: no better than doing nothing.
fn unknown(constants: &Constants) -> f64 {
    constants.radius * constants.vector_bound
}

/// The noise of `blocks` update blocks: e'^2 takes zeta of a block's rho, mu^2/2 the rest, as in the paper; the accountant says how
/// large rho may be.
pub(super) fn online_noise(
    budget: Budget,
    blocks: u64,
    rows: u64,
) -> Result<(TestNoise, AnswerNoise), MechanismError> {
    let found = continuous("rho of an update", budget, Careful::Small, (1e-10, 50.0), |rho| {
        let test = TestNoise::new((TEST_SHARE * rho).sqrt()).map_err(refused)?;
        let answer = AnswerNoise::new((2.0 * (1.0 - TEST_SHARE) * rho).sqrt(), rows).map_err(refused)?;
        let event = block_event(&test, &answer, blocks)?;
        Ok(((test, answer), event))
    })?;
    Ok(found.value)
}

/// The noise of `steps` answers.
pub(super) fn centred_noise(budget: Budget, steps: u64, rows: u64) -> Result<AnswerNoise, MechanismError> {
    let found = continuous("mu of an answer", budget, Careful::Small, (1e-5, 50.0), |mu| {
        let answer = AnswerNoise::new(mu, rows).map_err(refused)?;
        let event = answer.event()?.repeated(steps)?;
        Ok((answer, event))
    })?;
    Ok(found.value)
}

fn refused(_: MechanismError) -> AccountingError {
    let allowed = "representable on a lattice of 2^44 steps";
    ParameterError { name: "noise", value: f64::NAN, allowed, remedy: "raise epsilon or use fewer rows" }
        .into()
}

/// The settings of the proof of Theorem 13.
pub(super) fn paper(
    problem: &Problem,
    constants: &Constants,
    failure: f64,
    budget: Budget,
) -> Result<Parameters, MechanismError> {
    if !(failure > 0.0 && failure < 0.5) {
        return Err(MechanismError::not_positive("failure probability (below 1/2)", failure));
    }
    // Theorem 12 from Theorem 13.
    let rho = 0.1 * budget.epsilon.get().powi(2) / (1.0 / budget.delta.get()).ln();
    let optimizer = paper_optimizer(problem, constants);
    let settings = paper_settings(
        constants.rows,
        constants.values,
        optimizer.steps(),
        rho,
        failure,
        constants.vector_bound,
    );
    let (test, answer) = online_noise(budget, settings.max_updates, constants.rows)?;
    let method = Method::Online { settings, test };
    // 18 eta for a gradient oracle of error 2 R G alpha (Theorem 18); vacuous when eta is above 0.1.
    let predicted_excess = 36.0 * settings.rate * constants.radius * constants.vector_bound;
    Ok(Parameters { method, answer, optimizer, by: Chosen::Paper, predicted_excess })
}

/// eta is the smallest number above 1000 (ln k / rho)^(1/4) sqrt(ln(n T ln k / (rho beta eta))) / sqrt(n); tau = 16 eta, c = 3,
/// L_max = 1 + floor(ln k / eta^2).
pub(super) fn paper_settings(
    rows: u64,
    values: usize,
    queries: u64,
    rho: f64,
    failure: f64,
    vector_bound: f64,
) -> Settings {
    let (n, log_k) = (rows as f64, (values as f64).ln());
    let bound = |eta: f64| {
        let inside = (n * queries as f64 * log_k / (rho * failure * eta)).ln().max(0.0);
        1000.0 * (log_k / rho).powf(0.25) * (inside / n).sqrt()
    };
    // the bound falls as eta grows: iterate to the fixed point from above
    let mut eta = bound(1e-6).max(1e-6);
    for _ in 0..100 {
        eta = bound(eta).max(1e-6);
    }
    Settings {
        rate: eta.next_up(),
        truncation: TRUNCATION,
        threshold: 16.0 * eta,
        // the proof has iota >= 13 eta whenever there is an update
        size_floor: 13.0 * eta,
        vector_bound,
        max_updates: 1 + (log_k / (eta * eta)).floor() as u64,
    }
}

/// Theorem 24 where it applies, else Theorem 21; q is capped, for n^2 queries are out of reach.
fn paper_optimizer(problem: &Problem, constants: &Constants) -> Optimizer {
    if problem.loss().is_smooth() && constants.lambda > 0.0 {
        let (smooth, strong) = (constants.smoothness, constants.lambda);
        let radius = constants.vector_bound / strong;
        let steps = (40.0 * smooth / strong
            * (smooth * radius * radius / constants.rows as f64).max(std::f64::consts::E).ln())
        .ceil();
        Optimizer::inexact_gradient((steps as u64).clamp(1, MOST_STEPS), smooth, strong)
    } else {
        let steps = constants.rows.saturating_mul(constants.rows).clamp(1, MOST_STEPS);
        Optimizer::subgradient(steps, constants.radius, constants.vector_bound)
    }
}

/// The best of a fixed grid on average over made-up tables: what is right where secrets matter little by chance may be wrong where they matter.
fn rehearsed(
    problem: &Problem,
    domain: &SensitiveDomain,
    constants: &Constants,
    variant: Variant,
    budget: Budget,
) -> Result<Parameters, MechanismError> {
    let stages = (0..REHEARSED_TABLES).map(|number| Stage::new(number, problem, domain, constants));
    let stages = stages.collect::<Result<Vec<_>, _>>()?;
    let mut best: Option<Parameters> = None;
    for (method, answer, optimizer) in grid(problem, constants, variant, budget)? {
        let each = stages.iter().map(|stage| stage.excess(method, answer, optimizer, 0));
        let predicted_excess = each.sum::<Result<f64, _>>()? / stages.len() as f64;
        let better = best.as_ref().is_none_or(|best| predicted_excess < best.predicted_excess);
        if better {
            best = Some(Parameters { method, answer, optimizer, by: Chosen::Rehearsal, predicted_excess });
        }
    }
    let best = best.ok_or(MechanismError::not_positive("number of candidates", 0.0))?;
    // The winner was lucky: its prediction comes from runs that did not choose it, with weights of the size that every plan is predicted for.
    let again = |run: u64| stages[0].excess(best.method, best.answer, best.optimizer, run);
    let predicted_excess = 0.5 * (again(1)? + again(2)?);
    Ok(Parameters { predicted_excess, ..best })
}

/// What is tried.
fn grid(
    problem: &Problem,
    constants: &Constants,
    variant: Variant,
    budget: Budget,
) -> Result<Vec<(Method, AnswerNoise, Optimizer)>, MechanismError> {
    let one_release = centred_noise(budget, 1, constants.rows)?;
    let noise = 2.0 * constants.vector_bound / (one_release.mu() * constants.rows as f64);
    let scales = |factor: f64| Scales {
        dimension: constants.dimension,
        single_release_noise: factor * noise,
        smoothness: constants.smoothness,
        prior_radius: constants.radius,
    };
    let mut grid = Vec::new();
    match variant {
        Variant::Centred => {
            // A smaller assumed noise makes a longer descent.
            for factor in [1.0, 0.4, 0.15] {
                let Schedule { steps, .. } = Schedule::recommended(&scales(factor));
                let Schedule { steps, step_size, momentum } =
                    Schedule::with_steps(&scales(factor), steps.min(MOST_STEPS));
                let optimizer = Optimizer::Momentum { steps, step_size, momentum };
                let answer = centred_noise(budget, steps, constants.rows)?;
                for (trust, rate) in [(1.0, 0.0), (0.5, 0.1), (0.25, 0.3)] {
                    let vector_bound = constants.vector_bound;
                    let centring = Centring { trust, rate, truncation: TRUNCATION, vector_bound };
                    grid.push((Method::Centred { centring }, answer, optimizer));
                }
            }
        }
        Variant::Online => {
            for max_updates in [2, 4, 8, 16] {
                let (test, answer) = online_noise(budget, max_updates, constants.rows)?;
                // the test's noise, in units of G: diameters are at most 2 G / n
                let test_noise = 8.0 / (test.threshold_epsilon() * constants.rows as f64);
                // A needless update wastes one of few; a missed one leaves the answer off by the threshold.
                let threshold = (0.5 * test_noise).min(0.5);
                for rate in [0.3, 1.0] {
                    let settings = Settings {
                        rate,
                        truncation: TRUNCATION,
                        threshold,
                        size_floor: threshold / 2.0,
                        vector_bound: constants.vector_bound,
                        max_updates,
                    };
                    let optimizer = online_optimizer(problem, constants, max_updates);
                    grid.push((Method::Online { settings, test }, answer, optimizer));
                }
            }
        }
    }
    Ok(grid)
}

/// Minimizers where losses are smooth; else a long descent, because answers are off by the threshold however many there are.
fn online_optimizer(problem: &Problem, constants: &Constants, max_updates: u64) -> Optimizer {
    if problem.loss().is_smooth() {
        return Optimizer::Minimizers {
            rounds: ROUNDS_PER_UPDATE * (max_updates + 1),
            penalty: believed::penalty(problem),
        };
    }
    let scales = Scales {
        dimension: 1,
        single_release_noise: f64::MIN_POSITIVE,
        smoothness: constants.smoothness,
        prior_radius: constants.radius,
    };
    let Schedule { steps, step_size, momentum } = Schedule::with_steps(&scales, MOST_STEPS);
    Optimizer::Momentum { steps, step_size, momentum }
}

/// A made-up problem, ready for many short runs.
struct Stage {
    rehearsal: Rehearsal,
    domain: SensitiveDomain,
    secret: Vec<u16>,
    lambda: f64,
    best_loss: Option<f64>,
    /// Rows of the real table per rehearsed row: by how much the noise is scaled down.
    ratio: f64,
}

impl Stage {
    fn new(
        number: u64,
        problem: &Problem,
        domain: &SensitiveDomain,
        constants: &Constants,
    ) -> Result<Stage, MechanismError> {
        let side = problem.public_side()?;
        let rehearsal = Rehearsal::numbered(number, &side, &MadeUp::Model, REHEARSED_ROWS)?;
        let (rows, labels) = rehearsal.cells();
        let secret = domain.positions(rows, labels, rehearsal.problem().encoding())?;
        let ratio = constants.rows as f64 / secret.len().max(1) as f64;
        // Only a reference point: without it losses are compared as they are.
        let best_loss = rehearsal.best_loss(constants.lambda).ok();
        Ok(Stage { rehearsal, domain: domain.clone(), secret, lambda: constants.lambda, best_loss, ratio })
    }

    /// The excess loss of one run with these parameters. Equal run numbers meet the same noise.
    fn excess(
        &self,
        method: Method,
        answer: AnswerNoise,
        optimizer: Optimizer,
        run: u64,
    ) -> Result<f64, MechanismError> {
        let problem = self.rehearsal.problem();
        let parts = PublicParts::of(problem)?;
        let rows = self.secret.len() as u64;
        let answer = AnswerNoise::new(answer.mu() * self.ratio, rows)?;
        let secret = Secret(self.secret.clone());
        let mut stream = self.rehearsal.repeated_stream(run)?;
        let dimension = problem.dimension();
        let solution = match method {
            Method::Centred { centring } => {
                let (loss, radius, lambda) = (problem.loss(), problem.radius(), self.lambda);
                let domain = &self.domain;
                let centred = CentredRun {
                    parts: &parts,
                    domain,
                    loss,
                    lambda,
                    radius,
                    optimizer,
                    centring,
                    noise: answer,
                };
                centred.run(dimension, &secret, &mut stream, &mut ())?
            }
            Method::Online { settings, test } => {
                let test = TestNoise::new(test.threshold_epsilon() * self.ratio)?;
                let beliefs = Beliefs::uniform(self.secret.len(), self.domain.len());
                let mut answerer = Answerer::new(settings, test, answer, beliefs, secret, stream)?;
                let task = Task {
                    loss: problem.loss(),
                    regularization: self.lambda,
                    radius: problem.radius(),
                    optimizer,
                };
                online::solve(&mut answerer, &parts, &self.domain, &task, dimension, &mut ())?
            }
        };
        self.rehearsal.excess(&solution.weights, self.best_loss.unwrap_or(0.0))
    }
}
