//! How many steps, how long: chosen from declared constants, before any private cell is read.
//!
//! Gradient descent for a total time t (the sum of its effective step sizes) shrinks the error along a direction of curvature h
//! like e^(-h t), and the noise of all steps together adds d a^2 t / 4 to the risk at most, where a is the noise that the whole budget
//! puts on one release of the mean gradient: a^2 T per step and T steps of length t/T leave a^2 t, whatever T is. The
//! unfinished descent costs at most R^2 / (4 e t) for a minimizer of norm R. Balancing the two,
//!
//! ```text
//! t = R / (a sqrt(e d)),      predicted excess risk = d a^2 t / 4 + R^2 / (4 e t)
//! ```
//!
//! so the time acts as the regularizer, and the number of steps only has to be large enough for the descent to be stable: T = beta t
//! plain steps of size 1/beta, or T = 4 sqrt(beta t) with momentum, whichever is less. R is a guess about the size of the answer
//! (see [`crate::mechanisms::prior_radius`]); a wrong guess costs accuracy, never privacy.

use halflit_convex::Loss;

/// No default plan takes more steps than this.
pub(super) const MOST_STEPS: u64 = 2_000;

/// Curvature assumed for losses with a kink: that of the kink rounded over a score width of one half.
const KINK_CURVATURE: f64 = 2.0;

/// The constants that a schedule is made from; all public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::mechanisms) struct Scales {
    /// Number of weights.
    pub dimension: usize,
    /// Noise standard deviation, per coordinate of the mean gradient, if the whole budget went into one full-batch release.
    pub single_release_noise: f64,
    /// Bound on the curvature of the mean loss.
    pub smoothness: f64,
    /// Guess of the norm of the minimizer.
    pub prior_radius: f64,
}

/// A fixed number of equal steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Number of noisy gradients.
    pub steps: u64,
    /// Length of a step along the velocity.
    pub step_size: f64,
    /// Share of the velocity that survives a step.
    pub momentum: f64,
}

impl Schedule {
    /// The number of steps that the constants ask for.
    pub(in crate::mechanisms) fn recommended(scales: &Scales) -> Self {
        let length = scales.smoothness * best_time(scales);
        let steps = length.min(4.0 * length.sqrt()).ceil();
        // A length that is not a number asks for the most steps, not for none.
        let steps = if steps < MOST_STEPS as f64 { (steps as u64).max(1) } else { MOST_STEPS };
        Schedule::with_steps(scales, steps)
    }

    /// The best use of a given number of steps.
    pub(in crate::mechanisms) fn with_steps(scales: &Scales, steps: u64) -> Self {
        let count = steps as f64;
        // Momentum forgets within 1/(1 - momentum) = beta t / T steps: a quarter of the steps at most.
        let longest = count * count / (16.0 * scales.smoothness);
        let longest = longest.max(count / scales.smoothness);
        let time = best_time(scales).min(longest);
        let (per_step, stable) = (time / count, 1.0 / scales.smoothness);
        let momentum = if per_step > stable { 1.0 - stable / per_step } else { 0.0 };
        Schedule { steps, step_size: per_step.min(stable), momentum }
    }

    /// t: the sum of the effective step sizes.
    pub fn time(&self) -> f64 {
        self.steps as f64 * self.step_size / (1.0 - self.momentum)
    }

    /// Predicted excess risk when every step's gradient has this noise standard deviation per coordinate.
    pub(in crate::mechanisms) fn predicted_excess(&self, scales: &Scales, noise_per_step: f64) -> f64 {
        let time = self.time();
        let noise = scales.dimension as f64 * noise_per_step.powi(2) * (time / self.steps as f64) / 4.0;
        noise + scales.prior_radius.powi(2) / (4.0 * std::f64::consts::E * time)
    }
}

fn best_time(scales: &Scales) -> f64 {
    scales.prior_radius
        / (scales.single_release_noise * (std::f64::consts::E * scales.dimension as f64).sqrt())
}

/// Curvature of the loss in its score, or of its rounded kink.
pub(in crate::mechanisms) fn curvature(loss: Loss) -> f64 {
    loss.curvature_bound().unwrap_or(KINK_CURVATURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADULT: Scales =
        Scales { dimension: 108, single_release_noise: 9.7e-4, smoothness: 3.5, prior_radius: 8.0 };

    #[test]
    fn the_recommended_schedule_is_stable_and_balances_noise_and_bias() {
        let schedule = Schedule::recommended(&ADULT);
        assert!((100..400).contains(&schedule.steps), "{schedule:?}");
        assert!(schedule.step_size <= 1.0 / ADULT.smoothness);
        assert!((0.0..1.0).contains(&schedule.momentum));
        let noise = ADULT.single_release_noise * (schedule.steps as f64).sqrt();
        let best = schedule.predicted_excess(&ADULT, noise);
        for factor in [0.5, 2.0] {
            let other = Scales { prior_radius: factor * ADULT.prior_radius, ..ADULT };
            let schedule = Schedule::recommended(&other);
            let noise = ADULT.single_release_noise * (schedule.steps as f64).sqrt();
            assert!(schedule.predicted_excess(&ADULT, noise) > best);
        }
    }

    #[test]
    fn few_steps_never_overshoot() {
        for steps in 1..50 {
            let schedule = Schedule::with_steps(&ADULT, steps);
            assert!(schedule.step_size <= 1.0 / ADULT.smoothness && schedule.momentum < 1.0);
            let memory = 1.0 / (1.0 - schedule.momentum);
            assert!(memory <= 1.0f64.max(steps as f64 / 16.0) + 1e-9, "{schedule:?}");
        }
    }

    #[test]
    fn a_tiny_budget_takes_one_short_step() {
        let scales = Scales { single_release_noise: 1e6, ..ADULT };
        let schedule = Schedule::recommended(&scales);
        assert_eq!(schedule.steps, 1);
        assert!(schedule.time() < 1e-6);
        assert_eq!(Schedule::recommended(&Scales { single_release_noise: 0.0, ..ADULT }).steps, MOST_STEPS);
    }
}
