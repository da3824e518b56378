//! Descent with momentum, the average of the second half of the iterates, and a ball to stay in.

use super::Schedule;
use halflit_convex::{Domain, DomainError};

/// Weights never leave this ball, declared radius or not: numbers beyond it are of no use and would leave the score lattice.
const OUTERMOST_RADIUS: f64 = 1e6;

/// The state of a descent. Everything in it comes from noisy releases and public values.
pub(in crate::mechanisms) struct Descent {
    schedule: Schedule,
    domain: Domain,
    weights: Vec<f64>,
    velocity: Vec<f64>,
    average: Vec<f64>,
    averaged: u64,
    done: u64,
}

impl Descent {
    /// Starts at zero.
    pub fn new(schedule: Schedule, dimension: usize, radius: Option<f64>) -> Result<Self, DomainError> {
        let radius = radius.map_or(OUTERMOST_RADIUS, |radius| radius.min(OUTERMOST_RADIUS));
        Ok(Descent {
            schedule,
            domain: Domain::centred_ball(dimension, radius)?,
            weights: vec![0.0; dimension],
            velocity: vec![0.0; dimension],
            average: vec![0.0; dimension],
            averaged: 0,
            done: 0,
        })
    }

    /// Where the next gradient is wanted.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// v <- m v + gradient; w <- projection of w - step v.
    pub fn step(&mut self, gradient: &[f64]) {
        let Schedule { steps, step_size, momentum } = self.schedule;
        for ((weight, velocity), gradient) in self.weights.iter_mut().zip(&mut self.velocity).zip(gradient) {
            *velocity = momentum * *velocity + gradient;
            *weight -= step_size * *velocity;
        }
        if !self.weights.iter().all(|weight| weight.is_finite()) {
            // An overflow: back to the start.
            self.weights.fill(0.0);
            self.velocity.fill(0.0);
        }
        if !self.domain.contains(&self.weights) {
            self.domain.project(&mut self.weights);
            // The velocity that pushed against the ball is spent.
            self.velocity.fill(0.0);
        }
        self.done += 1;
        if 2 * self.done > steps {
            self.averaged += 1;
            let share = 1.0 / self.averaged as f64;
            for (average, weight) in self.average.iter_mut().zip(&self.weights) {
                *average += share * (weight - *average);
            }
        }
    }

    /// The average of the second half of the iterates.
    pub fn into_average(self) -> Vec<f64> {
        self.average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quadratic_is_minimised_with_momentum() {
        let schedule = Schedule { steps: 400, step_size: 0.5, momentum: 0.8 };
        let mut descent = Descent::new(schedule, 2, None).unwrap();
        for _ in 0..schedule.steps {
            let w = descent.weights();
            let gradient = [0.1 * (w[0] - 3.0), 1.9 * (w[1] + 1.0)];
            descent.step(&gradient);
        }
        let average = descent.into_average();
        assert!((average[0] - 3.0).abs() < 1e-6 && (average[1] + 1.0).abs() < 1e-6, "{average:?}");
    }

    #[test]
    fn iterates_stay_in_the_ball_and_survive_overflow() {
        let schedule = Schedule { steps: 2, step_size: 1.0, momentum: 0.0 };
        let mut descent = Descent::new(schedule, 2, Some(2.0)).unwrap();
        descent.step(&[-30.0, 40.0]);
        assert!((descent.weights()[0] - 1.2).abs() < 1e-12 && (descent.weights()[1] + 1.6).abs() < 1e-12);
        descent.step(&[f64::MAX, -f64::MAX]);
        assert_eq!(descent.weights(), [0.0, 0.0]);
    }

    #[test]
    fn one_step_is_its_own_average() {
        let mut descent =
            Descent::new(Schedule { steps: 1, step_size: 1.0, momentum: 0.0 }, 1, None).unwrap();
        descent.step(&[-2.0]);
        assert_eq!(descent.into_average(), [2.0]);
    }
}
