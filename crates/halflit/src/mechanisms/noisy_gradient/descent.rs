//! First-order descents: momentum, preconditioned and accelerated steps, averages of the iterates, and a ball to stay in.

use super::Schedule;
use super::parts::{Average, Descent};
use halflit_convex::{Domain, DomainError};

/// Weights never leave this ball, declared radius or not: numbers beyond it are of no use and would leave the score lattice.
const OUTERMOST_RADIUS: f64 = 1e6;

/// The state of a descent. Everything in it comes from noisy releases and public values.
pub(in crate::mechanisms) struct Iterates {
    rule: Descent,
    steps: u64,
    domain: Domain,
    start: Vec<f64>,
    weights: Vec<f64>,
    /// The velocity; for accelerated steps the aggregate of earlier iterates.
    memory: Vec<f64>,
    /// Where an accelerated step wants its gradient.
    middle: Vec<f64>,
    average: Vec<f64>,
    averaged: f64,
    done: u64,
}

impl Iterates {
    /// A descent of `steps` steps from `start`.
    pub fn new(rule: Descent, steps: u64, start: Vec<f64>, radius: Option<f64>) -> Result<Self, DomainError> {
        let radius = radius.map_or(OUTERMOST_RADIUS, |radius| radius.min(OUTERMOST_RADIUS));
        let dimension = start.len();
        let memory =
            if matches!(rule, Descent::Accelerated { .. }) { start.clone() } else { vec![0.0; dimension] };
        Ok(Iterates {
            rule,
            steps,
            domain: Domain::centred_ball(dimension, radius)?,
            weights: start.clone(),
            memory,
            middle: start.clone(),
            average: vec![0.0; dimension],
            averaged: 0.0,
            done: 0,
            start,
        })
    }

    /// Momentum from zero as a schedule says, the second half averaged.
    pub fn scheduled(schedule: Schedule, dimension: usize, radius: Option<f64>) -> Result<Self, DomainError> {
        let Schedule { steps, step_size, momentum } = schedule;
        let rule = Descent::Momentum { step_size, momentum, average: Average::Suffix };
        Iterates::new(rule, steps, vec![0.0; dimension], radius)
    }

    /// Where the next gradient is wanted.
    pub fn weights(&self) -> &[f64] {
        if matches!(self.rule, Descent::Accelerated { .. }) { &self.middle } else { &self.weights }
    }

    /// One step along a gradient (already turned, if the rule says so).
    pub fn step(&mut self, gradient: &[f64]) {
        self.done += 1;
        match self.rule {
            Descent::Momentum { step_size, momentum, average } => {
                self.plain(gradient, step_size, momentum, average)
            }
            Descent::Preconditioned { step_size, average, .. } => {
                self.plain(gradient, step_size, 0.0, average)
            }
            Descent::Newton { .. } => self.plain(gradient, 1.0, 0.0, Average::Last),
            Descent::Accelerated { damping, strong_convexity } => {
                self.accelerated(gradient, damping, strong_convexity)
            }
            // The posterior keeps its own state.
            Descent::Posterior => {}
        }
    }

    /// v <- m v + gradient; w <- projection of w - step v.
    fn plain(&mut self, gradient: &[f64], step_size: f64, momentum: f64, average: Average) {
        for ((weight, velocity), gradient) in self.weights.iter_mut().zip(&mut self.memory).zip(gradient) {
            *velocity = momentum * *velocity + gradient;
            *weight -= step_size * *velocity;
        }
        if self.stay_inside() {
            // The velocity that pushed against the ball is spent.
            self.memory.fill(0.0);
        }
        let share = match average {
            Average::Last => return self.average.clone_from(&self.weights),
            Average::Suffix if 2 * self.done <= self.steps => return,
            Average::Uniform | Average::Suffix => 1.0,
            Average::Weighted => self.done as f64,
        };
        self.averaged += share;
        for (average, weight) in self.average.iter_mut().zip(&self.weights) {
            *average += share / self.averaged * (weight - *average);
        }
    }

    /// Ghadimi and Lan 2012, AC-SA with alpha_t = 2/(t+1), gamma_t = 4 gamma/(t(t+1)) and strong convexity mu:
    ///
    /// middle    <- ((1 - alpha)(mu + gamma_t) aggregate + alpha ((1 - alpha) mu + gamma_t) w) / (gamma_t + (1 - alpha^2) mu)
    /// w         <- (alpha mu middle + ((1 - alpha) mu + gamma_t) w - alpha gradient(middle)) / (mu + gamma_t)
    /// aggregate <- alpha w + (1 - alpha) aggregate
    fn accelerated(&mut self, gradient: &[f64], damping: f64, mu: f64) {
        let constants = |t: f64| (2.0 / (t + 1.0), 4.0 * damping / (t * (t + 1.0)));
        let t = self.done as f64;
        let (alpha, gamma) = constants(t);
        let kept = (1.0 - alpha) * mu + gamma;
        for ((weight, middle), gradient) in self.weights.iter_mut().zip(&self.middle).zip(gradient) {
            *weight = (alpha * mu * middle + kept * *weight - alpha * gradient) / (mu + gamma);
        }
        self.stay_inside();
        let (next, next_gamma) = constants(t + 1.0);
        let of_weight = next * ((1.0 - next) * mu + next_gamma) / (next_gamma + (1.0 - next * next) * mu);
        for ((aggregate, middle), weight) in self.memory.iter_mut().zip(&mut self.middle).zip(&self.weights) {
            *aggregate += alpha * (weight - *aggregate);
            *middle = *aggregate + of_weight * (weight - *aggregate);
        }
        self.average.clone_from(&self.memory);
    }

    /// Back to the start after an overflow, back into the ball otherwise; whether anything had to be done.
    fn stay_inside(&mut self) -> bool {
        let has_overflown = !self.weights.iter().all(|weight| weight.is_finite());
        if has_overflown {
            self.weights.clone_from(&self.start);
        }
        let is_outside = !self.domain.contains(&self.weights);
        if is_outside {
            self.domain.project(&mut self.weights);
        }
        has_overflown || is_outside
    }

    /// What the rule returns.
    pub fn into_weights(self) -> Vec<f64> {
        self.average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descend(rule: Descent, steps: u64) -> Vec<f64> {
        let mut descent = Iterates::new(rule, steps, vec![0.0; 2], None).unwrap();
        for _ in 0..steps {
            let w = descent.weights();
            let gradient = [0.1 * (w[0] - 3.0), 1.9 * (w[1] + 1.0)];
            descent.step(&gradient);
        }
        descent.into_weights()
    }

    fn momentum(step_size: f64, momentum: f64, average: Average) -> Descent {
        Descent::Momentum { step_size, momentum, average }
    }

    fn accelerated(strong_convexity: f64) -> Descent {
        Descent::Accelerated { damping: 3.8, strong_convexity }
    }

    #[test]
    fn a_quadratic_is_minimised() {
        for (rule, steps, tolerance) in [
            (momentum(0.5, 0.8, Average::Suffix), 400, 1e-6),
            (momentum(0.5, 0.0, Average::Last), 400, 1e-6),
            (momentum(0.5, 0.0, Average::Weighted), 20_000, 1e-2),
            (momentum(0.5, 0.0, Average::Uniform), 20_000, 1e-2),
            (accelerated(0.0), 400, 1e-2),
            // Proposition 9: an excess of at most 2 gamma |w*|^2 / (N (N + 1)) = 4.7e-4, which is 0.097 along a curvature of 0.1.
            (accelerated(0.1), 400, 0.097),
        ] {
            let found = descend(rule, steps);
            assert!(
                (found[0] - 3.0).abs() < tolerance && (found[1] + 1.0).abs() < tolerance,
                "{rule:?}: {found:?}"
            );
        }
    }

    #[test]
    fn acceleration_beats_plain_steps_on_a_flat_direction() {
        let excess = |w: &[f64]| 0.05 * (w[0] - 3.0).powi(2) + 0.95 * (w[1] + 1.0).powi(2);
        let plain = excess(&descend(momentum(1.0 / 1.9, 0.0, Average::Last), 40));
        let accelerated = excess(&descend(accelerated(0.0), 40));
        assert!(accelerated < 0.5 * plain, "{accelerated} {plain}");
    }

    #[test]
    fn iterates_stay_in_the_ball_and_survive_overflow() {
        let mut descent =
            Iterates::new(momentum(1.0, 0.0, Average::Last), 2, vec![0.0; 2], Some(2.0)).unwrap();
        descent.step(&[-30.0, 40.0]);
        assert!((descent.weights()[0] - 1.2).abs() < 1e-12 && (descent.weights()[1] + 1.6).abs() < 1e-12);
        descent.step(&[f64::MAX, -f64::MAX]);
        let length = descent.weights().iter().map(|w| w * w).sum::<f64>().sqrt();
        assert!(length <= 2.0 + 1e-12, "{length}");
    }

    #[test]
    fn averages_are_what_they_say() {
        // Gradients -1, -1, ... move the weight to 1, 2, 3, 4.
        for (average, expected) in [
            (Average::Last, 4.0),
            (Average::Uniform, 2.5),
            (Average::Suffix, 3.5),
            // (1*1 + 2*2 + 3*3 + 4*4) / 10
            (Average::Weighted, 3.0),
        ] {
            let mut descent = Iterates::new(momentum(1.0, 0.0, average), 4, vec![0.0], None).unwrap();
            for _ in 0..4 {
                descent.step(&[-1.0]);
            }
            assert!((descent.into_weights()[0] - expected).abs() < 1e-12, "{average:?}");
        }
    }
}
