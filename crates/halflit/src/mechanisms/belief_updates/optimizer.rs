//! Convex optimization with a gradient oracle that is off by a bounded error, or fails ([GKKMMZ24, Section 4]).

use crate::mechanisms::MechanismError;
use crate::mechanisms::noisy_gradient::Schedule;
use crate::mechanisms::noisy_gradient::descent::Iterates;
use halflit_convex::Domain;
use serde::{Deserialize, Serialize};

/// How gradients become weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Optimizer {
    /// Projected subgradient steps of length R/(G sqrt(q)), all iterates averaged: convex losses (Theorem 21).
    Subgradient {
        /// q.
        steps: u64,
        /// Length of a step.
        step_size: f64,
    },
    /// Gradient steps 1/(2 lambda) with an inexact oracle: smooth and strongly convex objectives (Theorems 19 and 24).
    InexactGradient {
        /// q.
        steps: u64,
        /// 1/(2 lambda), lambda the smoothness.
        step_size: f64,
        /// The weight of the newest iterate in the average: mu/(4 lambda), mu the strong convexity.
        newest: f64,
    },
    /// Steps with momentum, the second half averaged: what the noisy gradient does.
    Momentum {
        /// Number of steps.
        steps: u64,
        /// Length of a step.
        step_size: f64,
        /// Share of the velocity that survives a step.
        momentum: f64,
    },
    /// Minimise the loss that is expected under the beliefs, ask for the gradient there, and again after an update: smooth losses. Once the gradient there is answered, it is
    /// nearly zero for the table too, up to the threshold.
    Minimizers {
        /// How often at most.
        rounds: u64,
        /// The l2 penalty.
        penalty: f64,
    },
}

impl Optimizer {
    /// Theorem 21 for a ball of the given radius and gradients up to `bound`.
    pub fn subgradient(steps: u64, radius: f64, bound: f64) -> Self {
        Optimizer::Subgradient { steps, step_size: radius / (bound * (steps.max(1) as f64).sqrt()) }
    }

    /// Theorems 19 and 24: the oracle of a mu-strongly convex, lambda-smooth objective is (v, 2 lambda, mu/2)-inexact (Lemma 23), so the
    /// step is 1/(2 lambda) and the condition of the average mu/2 over 2 lambda.
    pub fn inexact_gradient(steps: u64, smoothness: f64, strong_convexity: f64) -> Self {
        let newest = (strong_convexity / (4.0 * smoothness)).clamp(0.0, 1.0);
        Optimizer::InexactGradient { steps, step_size: 0.5 / smoothness, newest }
    }

    /// Number of queries.
    pub fn steps(&self) -> u64 {
        match *self {
            Optimizer::Subgradient { steps, .. }
            | Optimizer::InexactGradient { steps, .. }
            | Optimizer::Momentum { steps, .. } => steps,
            Optimizer::Minimizers { rounds, .. } => rounds,
        }
    }

    /// Runs all steps. `oracle` returns the gradient at the given weights, or nothing when it has failed; then what has been reached
    /// so far is returned, which needs no private cell to choose.
    ///
    /// # Errors
    /// Those of the oracle; minimizers, which need beliefs and not an oracle.
    pub fn run(
        &self,
        dimension: usize,
        radius: Option<f64>,
        mut oracle: impl FnMut(u64, &[f64]) -> Result<Option<Vec<f64>>, MechanismError>,
    ) -> Result<Solution, MechanismError> {
        if let Optimizer::Minimizers { .. } = self {
            return Err(MechanismError::part("minimizers under beliefs", "the online variant"));
        }
        if let Optimizer::Momentum { steps, step_size, momentum } = *self {
            let mut descent =
                Iterates::scheduled(Schedule { steps, step_size, momentum }, dimension, radius)?;
            for step in 0..steps {
                match oracle(step, descent.weights())? {
                    Some(gradient) => descent.step(&gradient),
                    None => {
                        let weights = if 2 * step > steps {
                            descent.into_weights()
                        } else {
                            descent.weights().to_vec()
                        };
                        return Ok(Solution { weights, status: Status::Failed { after: step } });
                    }
                }
            }
            return Ok(Solution { weights: descent.into_weights(), status: Status::Finished });
        }
        let domain =
            Domain::centred_ball(dimension, radius.unwrap_or(OUTERMOST_RADIUS).min(OUTERMOST_RADIUS))?;
        let (mut weights, mut average) = (vec![0.0; dimension], vec![0.0; dimension]);
        for step in 0..self.steps() {
            let Some(gradient) = oracle(step, &weights)? else {
                return Ok(Solution { weights: average, status: Status::Failed { after: step } });
            };
            let (step_size, share) = match *self {
                // iterate i counts (1 - newest)^-i
                Optimizer::InexactGradient { step_size, newest, .. } if newest > 0.0 => {
                    (step_size, newest / (1.0 - (1.0 - newest).powf((step + 1) as f64)))
                }
                Optimizer::InexactGradient { step_size, .. } => (step_size, 1.0 / (step + 1) as f64),
                Optimizer::Subgradient { step_size, .. } | Optimizer::Momentum { step_size, .. } => {
                    (step_size, 1.0 / (step + 1) as f64)
                }
                Optimizer::Minimizers { .. } => (0.0, 0.0),
            };
            let before = weights.clone();
            for (weight, gradient) in weights.iter_mut().zip(&gradient) {
                *weight -= step_size * gradient;
            }
            if !weights.iter().all(|weight| weight.is_finite()) {
                weights.fill(0.0);
            }
            domain.project(&mut weights);
            // Theorem 21 bounds the average of the points where gradients were taken, Theorem 24 that of the points reached.
            let averaged = if matches!(self, Optimizer::Subgradient { .. }) { &before } else { &weights };
            for (average, weight) in average.iter_mut().zip(averaged) {
                *average += share * (weight - *average);
            }
        }
        Ok(Solution { weights: average, status: Status::Finished })
    }
}

/// Weights never leave this ball, declared radius or not.
const OUTERMOST_RADIUS: f64 = 1e6;

/// A model and how its optimization ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The weights.
    pub weights: Vec<f64>,
    /// How it ended.
    pub status: Status,
}

/// How an optimization ended. Known from noisy releases alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All steps were taken.
    Finished,
    /// The answerer failed; what came later, if anything did, rests on no private cell.
    Failed {
        /// Steps taken before.
        after: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// f(w) = 0.1 |w_0 - 3| + 0.5 |w_1 + 1| with a gradient error of norm up to xi.
    fn kinked(weights: &[f64], xi: f64) -> Vec<f64> {
        vec![0.1 * (weights[0] - 3.0).signum() + xi, 0.5 * (weights[1] + 1.0).signum()]
    }

    #[test]
    fn the_subgradient_bound_of_theorem_21_holds() {
        let (radius, bound) = (5.0, 0.51f64.hypot(0.1));
        for (steps, xi) in [(100, 0.0), (2_000, 0.0), (2_000, 0.02)] {
            let optimizer = Optimizer::subgradient(steps, radius, bound);
            let solution = optimizer.run(2, Some(radius), |_, w| Ok(Some(kinked(w, xi)))).unwrap();
            let w = &solution.weights;
            let excess = 0.1 * (w[0] - 3.0).abs() + 0.5 * (w[1] + 1.0).abs();
            // R G / sqrt(q) for the steps and |<error, y - u>| <= 2 R xi for the oracle
            assert!(
                excess <= 1.5 * radius * bound / (steps as f64).sqrt() + 2.0 * radius * xi,
                "{steps} {excess}"
            );
        }
    }

    #[test]
    fn the_inexact_gradient_bound_of_theorem_24_holds() {
        let (smooth, strong) = (2.0, 0.1);
        let gradient = |w: &[f64], xi: f64| vec![strong * (w[0] - 3.0) + xi, smooth * (w[1] + 1.0)];
        for (steps, xi) in [(50, 0.0), (800, 0.0), (800, 0.03)] {
            let optimizer = Optimizer::inexact_gradient(steps, smooth, strong);
            let solution = optimizer.run(2, None, |_, w| Ok(Some(gradient(w, xi)))).unwrap();
            let w = &solution.weights;
            let excess = 0.5 * strong * (w[0] - 3.0).powi(2) + 0.5 * smooth * (w[1] + 1.0).powi(2);
            let distance_squared = 10.0;
            let rate = (-(strong / (4.0 * smooth)) * steps as f64).exp();
            let oracle = xi * xi * (1.0 / strong + 0.5 / smooth);
            // (2 lambda) R^2 / 2 * exp(-mu q / (4 lambda)) + v
            assert!(excess <= smooth * distance_squared * rate + oracle + 1e-12, "{steps} {xi} {excess}");
        }
    }

    #[test]
    fn a_failing_oracle_leaves_the_model_reached_so_far() {
        for optimizer in [
            Optimizer::subgradient(10, 1.0, 1.0),
            Optimizer::inexact_gradient(10, 1.0, 0.1),
            Optimizer::Momentum { steps: 10, step_size: 0.1, momentum: 0.5 },
        ] {
            let run = |fails_at: u64| {
                optimizer.run(1, None, |step, _| Ok((step < fails_at).then(|| vec![-1.0]))).unwrap()
            };
            let failed = run(3);
            assert_eq!(failed.status, Status::Failed { after: 3 });
            assert!(failed.weights[0] > 0.0, "{optimizer:?}");
            assert_eq!(run(0), Solution { weights: vec![0.0], status: Status::Failed { after: 0 } });
            assert_eq!(run(10).status, Status::Finished);
        }
    }
}
