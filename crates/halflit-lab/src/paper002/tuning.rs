//! The methods that have to be tuned, over the paper's grids (Tables 1 and 2 of its appendix), by the exact population risk: a luxury that only
//! makes them look better.

use super::regression::{Draw, FEATURE_BOUND, Result, train};
use halflit::Problem;
use halflit::mechanisms::noisy_gradient::Params;
use halflit::mechanisms::noisy_gradient::modes::Stochastic;
use halflit::mechanisms::noisy_gradient::parts::{Average, Start};
use halflit::noise::Probability;
use std::num::NonZeroU64;

/// The paper's constants.
pub const STEPS: u64 = 5000;
pub const PRIVATE_BATCH: f64 = 500.0;
const PUBLIC_BATCH: u64 = 200;
const CLIP_NORM: f64 = 1.0;
const HESSIAN_RIDGE: f64 = 0.01;

/// The paper's step sizes and weights; zero is public-only and has its own column.
const STEP_SIZES: [f64; 15] =
    [0.01, 0.03, 0.05, 0.07, 0.09, 0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 1.9];
const ALPHAS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// Every other step size, and three weights.
const COARSE_STEP_SIZES: [f64; 7] = [0.01, 0.03, 0.05, 0.1, 0.3, 0.5, 0.9];
const COARSE_ALPHAS: [f64; 4] = [0.3, 0.5, 0.7, 1.0];

/// A method of the paper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Method {
    Algorithm1,
    PdaMd,
    DpSgd,
}

/// A method with its tuned constants.
#[derive(Clone, Copy, Debug)]
pub struct Tuned {
    pub method: Method,
    pub step_size: f64,
    pub alpha: f64,
    pub warm: bool,
}

/// The paper's rate: one over the number of batches in a pass.
pub fn rate(private_rows: usize) -> Result<Probability> {
    let batches = (private_rows as f64 / PRIVATE_BATCH).ceil().max(1.0) as u64;
    Ok(Probability::new(1, batches)?)
}

impl Tuned {
    /// The method on encoded columns: a feature unit is worth b, a label unit y. The paper's loss is r^2, ours r^2/2 on encoded columns, so
    /// its gradients are 2 b y times ours, and a step of eta along them moves encoded weights by 2 b^2 eta times our gradient.
    fn params(&self, draw: &Draw, private_rows: usize, steps: NonZeroU64) -> Result<Params> {
        let unit = 2.0 * FEATURE_BOUND * draw.label_bound();
        let stochastic = Stochastic {
            steps,
            step_size: 2.0 * FEATURE_BOUND * FEATURE_BOUND * self.step_size,
            clip_norm: CLIP_NORM / unit,
            rate: rate(private_rows)?,
            public_batch: NonZeroU64::new(PUBLIC_BATCH),
            start: if self.warm { Start::PublicMinimizer } else { Start::Zero },
            average: Average::Last,
        };
        let ridge = HESSIAN_RIDGE / draw.dimension() as f64 / (FEATURE_BOUND * FEATURE_BOUND);
        Ok(match self.method {
            Method::Algorithm1 => stochastic.algorithm_1(self.alpha),
            Method::DpSgd => stochastic.dp_sgd(PRIVATE_BATCH),
            Method::PdaMd => stochastic.pda_md(ridge),
        })
    }

    /// The risk of one run.
    pub fn run(&self, draw: &Draw, problem: Problem, epsilon: f64, steps: u64) -> Result<(f64, Problem)> {
        let private_rows = problem.private_units() as usize;
        let steps = NonZeroU64::new(steps).ok_or("no steps")?;
        let params = self.params(draw, private_rows, steps)?;
        let (weights, problem) = train(problem, Some(params), "noisy_gradient", epsilon)?;
        Ok((draw.risk(&weights), problem))
    }
}

/// The best constants on one draw. Quick: the coarse step sizes at one weight, then the coarse weights at the best step size.
pub fn tune(
    method: Method,
    warm: bool,
    draw: &Draw,
    mut problem: Problem,
    epsilon: f64,
    quick: bool,
) -> Result<(Tuned, Problem)> {
    let sizes: &[f64] = if quick { &COARSE_STEP_SIZES } else { &STEP_SIZES };
    let weights: &[f64] = match (method, quick) {
        (Method::Algorithm1, true) => &COARSE_ALPHAS,
        (Method::Algorithm1, false) => &ALPHAS,
        _ => &[],
    };
    let first = Tuned { method, step_size: sizes[0], alpha: 0.9, warm };
    let mut best = (f64::INFINITY, first);
    let mut tried: Vec<Tuned> = sizes.iter().map(|&step_size| Tuned { step_size, ..first }).collect();
    for round in 0..2 {
        for tuned in tried.drain(..) {
            let (risk, back) = tuned.run(draw, problem, epsilon, STEPS)?;
            problem = back;
            if risk < best.0 {
                best = (risk, tuned);
            }
        }
        if round == 0 {
            // The full grid would be the product; the risk is close to separable, and the best pair is refined around its step size.
            let around = sizes.iter().position(|&size| size == best.1.step_size).unwrap_or(0);
            let near = if quick {
                around..around + 1
            } else {
                around.saturating_sub(1)..(around + 2).min(sizes.len())
            };
            for &alpha in weights {
                tried.extend(sizes[near.clone()].iter().map(|&step_size| Tuned {
                    step_size,
                    alpha,
                    ..first
                }));
            }
        }
    }
    Ok((best.1, problem))
}
