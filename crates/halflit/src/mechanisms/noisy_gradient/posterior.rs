//! The posterior descent for regression: noisy gradients as measurements, public rows as data.
//!
//! Legend: w* the minimizer, h curvature per coordinate, n private units, d weights, r residual scale, t clip factor, m clip norm over noise std.
//!
//! With residuals clipped at t r the noisy mean gradient at w is about k h (w - w*), k = P(|Z| <= t), plus noise of variance
//!
//! ```text
//! r^2 h ( E min(Z^2, t^2) / n   +   t^2 d / (n m)^2  )          per coordinate: sampling, then privacy
//! ```
//!
//! so y = w - gradient/(k h) measures w* with a known variance, and t is chosen to make it smallest. The measurements' weighted mean, with the part of
//! its variance that does not average out (all steps see the same rows), is one Gaussian factor; the public rows and a wide Gaussian prior
//! are the others. The next weights are the mode of the product: a ridge regression on the public rows anchored at the measurements, solved by
//! conjugate gradients. Everything here is post-processing of releases and public rows.
//!
//! The curvature is taken to be the same in every direction; [`Shape::of`] checks that on the public rows, and plans with a
//! posterior descent exist only where it holds.

use super::MechanismError;
use super::public::PublicRows;
use super::spread::clipped_normal;
use halflit_convex::solver::linear::conjugate_gradients;

/// Steps of the posterior descent, all of one budget. With fewer public rows than weights it has to find whole directions by itself, at a rate that
/// the budget of a step limits: more and smaller steps lose less of it.
pub(super) fn default_steps(public_rows: usize, weights: usize) -> u64 {
    if public_rows < weights { 120 } else { 30 }
}

/// Relative spread of the curvature's eigenvalues beyond which they are not "the same in every direction".
const MOST_EIGENVALUE_VARIANCE: f64 = 0.1;

/// By how much chance may move that spread; beyond, the public rows are too few to tell.
const MOST_CHANCE: f64 = 0.2;

/// How far random vectors may leave the Frobenius norm of the public second moments uncertain, over h^2, and how many there are at most.
const PROBE_ERROR: f64 = 0.02;
const MOST_PROBES: f64 = 256.0;
/// Up to this many weights the norm is computed exactly.
const FEW_WEIGHTS: usize = 64;

/// Relative accuracy of conjugate gradients, and the most iterations.
const ACCURACY: f64 = 1e-4;
const MOST_ITERATIONS: usize = 300;

/// The public rows' second moments, summarised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    /// h: mean squared norm of a row over the number of weights.
    pub curvature: f64,
    /// Variance of the eigenvalues of the population's second moments over the square of their mean, as far as the rows can tell.
    pub eigenvalue_variance: f64,
    /// How far chance moves that number for rows of this many and this size, roughly.
    pub chance: f64,
}

impl Shape {
    /// Measures the public rows (Ledoit and Wolf 2004: what the sample's eigenvalues spread beyond what its size explains).
    pub fn of(public: &PublicRows<'_>, width: usize) -> Result<Self, MechanismError> {
        let (d, n) = (width as f64, public.len() as f64);
        let curvature = public.mean_squared_norm() / d;
        // About min(n, d) eigenvalues of about (1 + d/n) h: what one probe says about their mean square is off by this much.
        let one_probe_error = (1.0 + d / n) * (2.0 / n.min(d)).sqrt();
        let count = (one_probe_error / PROBE_ERROR).powi(2).ceil().clamp(1.0, MOST_PROBES);
        let probe_error = if width <= FEW_WEIGHTS { 0.0 } else { one_probe_error / count.sqrt() };
        let probes: Vec<Vec<f64>> = if width <= FEW_WEIGHTS {
            let axis = |own: usize| (0..width).map(|column| if column == own { 1.0 } else { 0.0 }).collect();
            (0..width).map(axis).collect()
        } else {
            let signs = |probe: u64| {
                (0..width as u64).map(move |column| sign(probe * width as u64 + column) / count.sqrt())
            };
            (0..count as u64).map(|probe| signs(probe).collect()).collect()
        };
        // ||S||^2: exactly by columns, or on average over random signs.
        let mut squares = 0.0;
        for probe in &probes {
            squares += square(&public.gram(probe)?);
        }
        // ||S||^2 / d - h^2 is what is seen; sum ||x||^4 / (n^2 d) - ||S||^2 / (n d) is what sampling explains.
        let seen = squares / d - curvature * curvature;
        let explained = public.mean_fourth_norm() / (n * d) - squares / (n * d);
        let eigenvalue_variance = ((seen - explained) / (curvature * curvature)).max(0.0);
        let chance = 2.0 * (1.0 + d / n) / (n * d).sqrt() + probe_error;
        Ok(Shape { curvature, eigenvalue_variance, chance })
    }

    /// Whether there are enough rows to tell.
    pub fn is_certain(&self) -> bool {
        self.chance <= MOST_CHANCE
    }

    /// Whether one curvature stands for all directions.
    pub fn is_round(&self) -> bool {
        self.curvature > 0.0 && self.eigenvalue_variance <= MOST_EIGENVALUE_VARIANCE + 3.0 * self.chance
    }
}

/// A fixed sequence of signs: no randomness is needed where nothing is hidden.
fn sign(index: u64) -> f64 {
    // splitmix64
    let mut x = index.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    if (x ^ (x >> 31)) & 1 == 0 { 1.0 } else { -1.0 }
}

/// The variance of a measurement per coordinate, over r^2 / h, when residuals are clipped at t and the noise is 1/m clip norms:
/// (sampling, privacy).
pub(super) fn measurement_variance(t: f64, units: f64, dimension: f64, m: f64) -> (f64, f64) {
    let (inside, second) = clipped_normal(t);
    let sampling = second / units / (inside * inside);
    (sampling, t * t * dimension / (units * m).powi(2) / (inside * inside))
}

/// The clip factor with the smallest measurement variance.
pub(super) fn best_factor(units: f64, dimension: f64, m: f64) -> f64 {
    let variance = |t: f64| {
        let (sampling, privacy) = measurement_variance(t, units, dimension, m);
        sampling + privacy
    };
    // From 1/20 to 3 in steps of 7 %: the minimum is flat.
    let factors = (0..60).map(|step| 0.05 * (60f64.ln() * f64::from(step) / 59.0).exp());
    factors.min_by(|a, b| variance(*a).total_cmp(&variance(*b))).unwrap_or(1.0)
}

/// How many public rows the private rows are worth in one release of this m: the reciprocal of the best measurement variance.
pub(super) fn equivalent_rows(units: f64, dimension: f64, m: f64) -> f64 {
    let (sampling, privacy) = measurement_variance(best_factor(units, dimension, m), units, dimension, m);
    1.0 / (sampling + privacy)
}

/// What the weights are to minimise, besides what the public rows say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// n: private units.
    pub units: f64,
    /// lambda, the declared penalty of the mean loss.
    pub penalty: f64,
    /// Of the ball that weights stay in, if declared.
    pub radius: Option<f64>,
}

/// The state: measurements so far, and the weights that they and the public rows make most likely.
pub(super) struct Posterior<'a> {
    public: &'a PublicRows<'a>,
    curvature: f64,
    goal: Goal,
    /// X^T y / n of the public rows.
    moments: Vec<f64>,
    /// Residual variance of the public fit, if there are enough rows to know it.
    public_noise: Option<f64>,
    prior_variance: f64,
    weights: Vec<f64>,
    /// Sum of y / variance.
    weighted: Vec<f64>,
    /// Sum of 1 / variance.
    precision: f64,
    /// Sum of (privacy variance) / variance^2.
    privacy: f64,
    scale: f64,
    /// The clip factor of the present step.
    factor: f64,
}

impl<'a> Posterior<'a> {
    /// Starts at the public rows' own fit.
    pub fn new(
        public: &'a PublicRows<'a>,
        curvature: f64,
        goal: Goal,
        width: usize,
    ) -> Result<Self, MechanismError> {
        let moments = public.moments(width)?;
        let (rows, d) = (public.len() as f64, width as f64);
        let mut posterior = Posterior {
            public,
            curvature,
            goal,
            moments,
            public_noise: None,
            prior_variance: 0.0,
            weights: vec![0.0; width],
            weighted: vec![0.0; width],
            precision: 0.0,
            privacy: 0.0,
            scale: 0.0,
            factor: 1.0,
        };
        // A ridge of a thousandth of the curvature: next to no shrinkage where the rows say anything at all.
        posterior.solve(1.0, 1e-3 * rows * curvature, &vec![0.0; width])?;
        posterior.prior_variance = square(&posterior.weights) / rows.min(d);
        if rows > 1.05 * d {
            // mean r^2 = mean y^2 - 2 <w, X^T y / n> + <w, X^T X w / n>
            let fitted = public.gram(&posterior.weights)?;
            let mean_square = public.mean_square_label() - 2.0 * dot(&posterior.weights, &posterior.moments)
                + dot(&posterior.weights, &fitted);
            posterior.public_noise = Some(mean_square.max(0.0) * rows / (rows - d));
        }
        posterior.stay_inside();
        Ok(posterior)
    }

    /// Where the next gradient is wanted.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The clip factor for the next release, given the residual scale and the release's m.
    ///
    /// Measurements at the same scale are averaged, so that the noise to balance is that of all of them.
    pub fn choose_factor(&mut self, scale: f64, m: f64) -> f64 {
        let dimension = self.weights.len() as f64;
        if self.scale == 0.0 {
            self.widen_prior(scale);
        }
        let (sampling, privacy) = measurement_variance(self.factor, self.goal.units, dimension, m);
        let earlier = self.precision * (sampling + privacy) * scale * scale / self.curvature;
        self.scale = scale;
        self.factor = best_factor(self.goal.units, dimension, m * (1.0 + earlier).sqrt());
        self.factor
    }

    /// With fewer public rows than weights, what the first residuals show beyond the fit lies in the other directions.
    fn widen_prior(&mut self, scale: f64) {
        let free = self.weights.len() as f64 - self.public.len() as f64;
        if free > 0.0 {
            self.prior_variance = self.prior_variance.max(scale * scale / (self.curvature * free));
        }
    }

    /// Takes in the noisy mean gradient released after [`Posterior::choose_factor`].
    pub fn measure(&mut self, gradient: &[f64], m: f64) -> Result<(), MechanismError> {
        let dimension = self.weights.len() as f64;
        let (sampling, privacy) = measurement_variance(self.factor, self.goal.units, dimension, m);
        let unit = self.scale * self.scale / self.curvature;
        let variance = unit * (sampling + privacy);
        let step = 1.0 / (clipped_normal(self.factor).0 * self.curvature);
        for ((weighted, weight), gradient) in self.weighted.iter_mut().zip(&self.weights).zip(gradient) {
            *weighted += (weight - step * gradient) / variance;
        }
        self.precision += 1.0 / variance;
        self.privacy += unit * privacy / (variance * variance);
        // The sampling error is common to all steps: it does not shrink by averaging.
        let certain = 1.0 / (self.privacy / (self.precision * self.precision) + unit * sampling);
        let anchor: Vec<f64> = self.weighted.iter().map(|sum| sum / self.precision * certain).collect();
        let noise =
            self.public_noise.map_or(self.scale * self.scale, |noise| noise.min(self.scale * self.scale));
        let prior = if self.prior_variance > 0.0 { 1.0 / self.prior_variance } else { 0.0 };
        // The penalty counts beside the mean loss as lambda beside its curvature, whatever the rows of either kind are worth.
        let penalty = self.goal.penalty * (self.public.len() as f64 / noise + certain / self.curvature);
        self.solve(noise, certain + prior + penalty, &anchor)?;
        if !self.weights.iter().all(|weight| weight.is_finite()) {
            self.weights.fill(0.0);
        }
        self.stay_inside();
        Ok(())
    }

    /// Brings weights outside the declared ball back to its surface.
    fn stay_inside(&mut self) {
        let norm = square(&self.weights).sqrt();
        if let Some(radius) = self.goal.radius.filter(|&radius| norm > radius) {
            self.weights.iter_mut().for_each(|weight| *weight *= radius / norm);
        }
    }

    /// weights <- solution of (n G / noise + shift) w = n X^T y / (n noise) + anchor, from the present weights on.
    fn solve(&mut self, noise: f64, shift: f64, anchor: &[f64]) -> Result<(), MechanismError> {
        let rows = self.public.len() as f64 / noise;
        let target: Vec<f64> = self.moments.iter().zip(anchor).map(|(m, a)| rows * m + a).collect();
        let apply = |v: &[f64]| -> Vec<f64> {
            // A direction that is no vector of numbers ends the iteration; the caller looks at the result.
            let gram = self.public.gram(v).unwrap_or_else(|_| vec![f64::NAN; v.len()]);
            gram.iter().zip(v).map(|(g, v)| rows * g + shift * v).collect()
        };
        let missing: Vec<f64> = apply(&self.weights).iter().zip(&target).map(|(a, b)| b - a).collect();
        // From the present weights on, so the residual need only fall to a share of the target, not of itself.
        let reduction = (ACCURACY * (square(&target) / square(&missing)).sqrt()).min(0.5);
        let step = conjugate_gradients(apply, &vec![1.0; target.len()], &missing, reduction, MOST_ITERATIONS);
        for (weight, step) in self.weights.iter_mut().zip(&step) {
            *weight += step;
        }
        Ok(())
    }

    /// The most likely weights.
    pub fn into_weights(self) -> Vec<f64> {
        self.weights
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn square(a: &[f64]) -> f64 {
    dot(a, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;
    use halflit_convex::{DenseRows, Interval, Loss, LossSpec, Rows};

    #[test]
    fn more_noise_asks_for_a_tighter_clip() {
        let factors: Vec<f64> =
            [0.01, 0.1, 0.5, 2.0, 50.0].map(|m| best_factor(30_000.0, 2000.0, m)).to_vec();
        assert!(factors.windows(2).all(|pair| pair[0] <= pair[1]), "{factors:?}");
        assert!(factors[0] < 0.1 && factors[4] > 2.5, "{factors:?}");
    }

    /// Whether rows of independent coordinates are called round, the first half of the coordinates `stretch` times as long as the others.
    fn is_round(rows: usize, width: usize, stretch: f64, seed: u64) -> bool {
        let mut numbers = Numbers(seed);
        let mut cell = |column: usize| {
            let length = if column < width / 2 { stretch } else { 1.0 };
            (8000.0 / stretch.max(1.0) * length * (2.0 * numbers.next() - 1.0)) as i16
        };
        let rows: Vec<Vec<i16>> = (0..rows).map(|_| (0..width).map(&mut cell).collect()).collect();
        let labels = vec![0.0; rows.len()];
        let rows = Rows::from(DenseRows::from_rows(width, &rows).unwrap());
        let loss = Loss::new(LossSpec::Squared { labels: Interval { low: -1.0, high: 1.0 } }).unwrap();
        let public = PublicRows::new(loss, &rows, &labels, (width as f64).sqrt()).unwrap().unwrap();
        Shape::of(&public, width).unwrap().is_round()
    }

    #[test]
    fn round_rows_are_not_refused_by_chance() {
        // With few rows a few probes say little about the shape: eight of them, taken at their word, refuse some of these.
        for seed in 1..20 {
            assert!(is_round(60, 400, 1.0, seed), "{seed}");
        }
        for seed in 1..4 {
            assert!(is_round(500, 100, 1.0, seed), "{seed}");
            assert!(!is_round(500, 100, 4.0, seed) && !is_round(60, 400, 8.0, seed), "{seed}");
        }
    }

    #[test]
    fn private_rows_are_worth_less_than_public_ones() {
        // No privacy: all of them. m = 0.5: 30,000 rows of 2000 weights count 30,000 / 1.68, by hand with t = 1.
        let (few, many) = (equivalent_rows(30_000.0, 2000.0, 0.5), equivalent_rows(30_000.0, 2000.0, 1e6));
        assert!(many > 0.95 * 30_000.0 && many < 30_000.0, "{many}");
        assert!((few / (30_000.0 / 1.68) - 1.0).abs() < 0.03, "{few}");
    }
}
