//! How large contributions are: a noisy histogram of their norms, and what is read off it.
//!
//! Every unit adds 1 to the bin of the norm of its contribution, as it is before the clamp: reduced by the centre, if all units share one. The bins
//! are powers of sqrt(2), found from the exponent of the squared norm: a function of the unit alone, without logarithms.

use crate::problem::FEATURE_UNIT;
use halflit_convex::Loss;
use halflit_convex::kernel::{Block, KernelError, Rule};
use halflit_convex::loss::LossRule;
use halflit_noise::{Stream, SumLattice};
use std::sync::atomic::{AtomicI64, Ordering};

/// Bins of the histogram, two per octave of the norm; what lies outside goes to the ends.
pub(super) const BINS: usize = 40;

/// The last bin's binary exponent of a squared norm if no bound on norms is known.
const HIGHEST_EXPONENT: i32 = 40;

/// Histograms of so many steps are averaged before a quantile is read off: norms change slowly, and noise averages out.
const AVERAGED_STEPS: u32 = 16;

/// Which norms the bins are for: a function of public values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// log2 of the squared lower end of the first bin.
    first_exponent: i32,
}

impl Window {
    /// The last bin is that of the largest norm there can be.
    pub fn up_to(largest_norm: f64) -> Self {
        let square = largest_norm * largest_norm;
        let highest =
            if square.is_normal() && square > 0.0 { binary_exponent(square) } else { HIGHEST_EXPONENT };
        Window { first_exponent: highest + 1 - BINS as i32 }
    }

    /// The bin of a squared norm. NaN and zero go to the first bin.
    pub fn bin(self, square: f64) -> usize {
        let place = binary_exponent(square) - self.first_exponent;
        if square > 0.0 { place.clamp(0, BINS as i32 - 1) as usize } else { 0 }
    }

    /// The lower end of a bin.
    fn lower_end(self, bin: usize) -> f64 {
        f64::from(bin as i32 + self.first_exponent).exp2().sqrt()
    }
}

fn binary_exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

/// Counts rows by the norm of their contribution; its coefficients are all zero, so that the pass sums nothing.
pub(super) struct NormCounter<'a> {
    rule: LossRule<'a>,
    loss: Loss,
    /// Squared norms of the rows, in feature units.
    squared_norms: &'a [u64],
    window: Window,
    counts: [AtomicI64; BINS],
}

impl<'a> NormCounter<'a> {
    /// Has seen no row yet. `rule` gives coefficients in units of 1.
    pub fn new(rule: LossRule<'a>, loss: Loss, squared_norms: &'a [u64], window: Window) -> Self {
        NormCounter { rule, loss, squared_norms, window, counts: std::array::from_fn(|_| AtomicI64::new(0)) }
    }

    /// The counts of all rows seen.
    pub fn into_counts(self) -> Vec<i64> {
        self.counts.into_iter().map(AtomicI64::into_inner).collect()
    }
}

impl Rule for NormCounter<'_> {
    fn outputs(&self) -> usize {
        self.loss.outputs()
    }

    fn check(&self, rows: usize) -> Result<(), KernelError> {
        self.rule.check(rows)?;
        match self.squared_norms.len() {
            found if found == rows => Ok(()),
            found => Err(KernelError::Length { name: "the squared norms", found, rows }),
        }
    }

    fn fill(&self, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]) {
        self.rule.fill(block, scores, coefficients);
        let (rows, mut counts) = (block.len(), [0i64; BINS]);
        for position in 0..rows {
            let row = block.row(position);
            let squares = coefficients.iter().skip(position).step_by(rows).map(|c| c * c).sum::<f64>();
            let square = squares * (self.squared_norms[row] as f64 * (FEATURE_UNIT * FEATURE_UNIT));
            counts[self.window.bin(square)] += 1;
        }
        for (total, count) in self.counts.iter().zip(counts) {
            total.fetch_add(count, Ordering::Relaxed);
        }
        coefficients.fill(0.0);
    }
}

/// A released histogram: shares of the units, noisy, and which norms they have.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    window: Window,
    shares: Vec<f64>,
    /// Histograms that it is the average of.
    steps: u32,
}

impl Spread {
    /// Adds the noise; from here on everything is post-processing. `units` is the expected number of units counted, a public constant.
    pub fn release(
        (window, mut counts): (Window, Vec<i64>),
        lattice: &SumLattice,
        noise: &mut Stream,
        units: f64,
    ) -> Self {
        lattice.add_noise(noise, &mut counts);
        let shares = counts.iter().map(|&count| lattice.to_real(count) / units).collect();
        Spread { window, shares, steps: 1 }
    }

    /// The average with those of earlier steps, in this one's window.
    pub fn averaged_with(mut self, earlier: Option<&Spread>) -> Self {
        let Some(earlier) = earlier else { return self };
        self.steps = (earlier.steps + 1).min(AVERAGED_STEPS);
        let moved = self.window.first_exponent - earlier.window.first_exponent;
        let mut before = [0.0; BINS];
        for (bin, share) in earlier.shares.iter().enumerate() {
            let place = (bin as i32).saturating_sub(moved).clamp(0, BINS as i32 - 1) as usize;
            before[place] += share;
        }
        for (share, before) in self.shares.iter_mut().zip(before) {
            *share = before + (*share - before) / f64::from(self.steps);
        }
        self
    }

    /// The norm below which a share `level` of the contributions lies.
    pub fn quantile(&self, level: f64) -> f64 {
        let below = self.cumulative();
        // The share below the last bin's upper end is 1.
        let bin = (0..BINS).find(|&bin| below[bin + 1] >= level).unwrap_or(BINS - 1);
        let share = below[bin + 1] - below[bin];
        let inside = if share > 0.0 { ((level - below[bin]) / share).clamp(0.0, 1.0) } else { 1.0 };
        self.window.lower_end(bin) * (0.5 * inside).exp2()
    }

    /// The share below each bin's lower end, and below the last one's upper end: never falling.
    ///
    /// Sums from below have the noise of the bins below, one minus sums from above that of the bins above: their best mean counts each by the number
    /// of the other's bins. Noise is not cut off at zero bin by bin, which would push every quantile down.
    fn cumulative(&self) -> [f64; BINS + 1] {
        let all: f64 = self.shares.iter().sum();
        let mut sum = 0.0;
        let mut below: [f64; BINS + 1] = std::array::from_fn(|bin| {
            let (from_below, from_above) = (sum, 1.0 - (all - sum));
            sum += self.shares.get(bin).unwrap_or(&0.0);
            let passed = bin as f64 / BINS as f64;
            (1.0 - passed) * from_below + passed * from_above
        });
        // Halfway between the largest so far and the least to come, within [0, 1].
        let mut rising = below;
        for bin in 1..=BINS {
            rising[bin] = rising[bin].max(rising[bin - 1]);
        }
        for bin in (0..BINS).rev() {
            below[bin] = below[bin].min(below[bin + 1]);
        }
        std::array::from_fn(|bin| (0.5 * (below[bin] + rising[bin])).clamp(0.0, 1.0))
    }

    /// The scale s for which the histogram looks most like that of |N(0, s^2)|: least squares over a grid of scales, so that noise in
    /// empty bins hardly matters.
    pub fn normal_scale(&self) -> f64 {
        let per_bin = 8;
        let misfit = |scale: f64| -> f64 {
            let mut below = 0.0;
            let expected = (0..BINS).map(|bin| {
                let end = if bin + 1 == BINS { 1.0 } else { within(self.window.lower_end(bin + 1) / scale) };
                let share = end - below;
                below = end;
                share
            });
            self.shares.iter().zip(expected).map(|(found, expected)| (found - expected).powi(2)).sum()
        };
        (0..BINS * per_bin)
            .map(|step| self.window.lower_end(0) * (0.5 * step as f64 / per_bin as f64).exp2())
            .min_by(|a, b| misfit(*a).total_cmp(&misfit(*b)))
            .unwrap_or(1.0)
    }
}

/// P(|Z| <= x) for a standard normal.
pub(super) fn within(x: f64) -> f64 {
    1.0 - 2.0 * halflit_privacy::special::normal_cdf(-x)
}

/// What clipping a standard normal residual at +-t does: (P(|Z| <= t), E min(Z^2, t^2)).
pub(super) fn clipped_normal(t: f64) -> (f64, f64) {
    let inside = within(t);
    let density = (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (inside, inside - 2.0 * t * density + t * t * (1.0 - inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_half_octaves_below_the_largest_norm() {
        // The last bin holds squares from 1 to 2.
        let window = Window::up_to(1.2);
        for (norm, expected) in [(1.0, 39), (1.41, 39), (50.0, 39), (0.999, 38), (0.7, 37), (1e-9, 0)] {
            assert_eq!(window.bin(norm * norm), expected, "{norm}");
        }
        for (square, expected) in [(0.0, 0), (f64::NAN, 0), (f64::INFINITY, 39), (5e-324, 0), (-1.0, 0)] {
            assert_eq!(window.bin(square), expected);
        }
        for odd in [f64::NAN, f64::INFINITY, 0.0, 1e300] {
            assert_eq!(Window::up_to(odd), Window { first_exponent: 1 }, "{odd}");
        }
    }

    /// The histogram of |N(0, scale^2)|.
    fn exact(scale: f64) -> Spread {
        let window = Window::up_to(1000.0);
        let mut cumulative: Vec<f64> = (0..=BINS).map(|bin| within(window.lower_end(bin) / scale)).collect();
        // what lies below the first bin goes there
        cumulative[0] = 0.0;
        let shares = cumulative.windows(2).map(|ends| ends[1] - ends[0]).collect();
        Spread { window, shares, steps: 1 }
    }

    #[test]
    fn quantiles_and_scales_are_read_off() {
        for scale in [0.01, 0.7, 3.0, 100.0] {
            let spread = exact(scale);
            assert!((spread.normal_scale() / scale - 1.0).abs() < 0.05, "{scale}: {}", spread.normal_scale());
            // The median of |N(0, 1)| is 0.6745.
            assert!((spread.quantile(0.5) / (0.6745 * scale) - 1.0).abs() < 0.05);
            assert!(spread.quantile(0.9) > spread.quantile(0.5));
        }
        let nothing = Spread { shares: vec![0.0; BINS], ..exact(1.0) };
        assert!(nothing.quantile(0.5).is_finite() && nothing.normal_scale() > 0.0);
    }

    /// Noise in empty bins used to add up and pull quantiles down by orders of magnitude.
    #[test]
    fn noise_does_not_push_quantiles_down() {
        let (honest, mut numbers) = (exact(1.0), crate::testing::Numbers(5));
        let mut averaged: Option<Spread> = None;
        let mut quantiles = Vec::new();
        for step in 0..400 {
            let mut noisy = honest.clone();
            // Twelve uniform numbers are nearly normal; a standard deviation of 0.1 per bin.
            noisy.shares.iter_mut().for_each(|share| {
                *share += 0.1 * ((0..12).map(|_| numbers.next()).sum::<f64>() - 6.0);
            });
            let now = noisy.averaged_with(averaged.as_ref());
            if step >= 16 {
                quantiles.push((now.quantile(0.8) / honest.quantile(0.8)).log2());
            }
            averaged = Some(now);
        }
        quantiles.sort_by(f64::total_cmp);
        let (low, median, high) = (quantiles[19], quantiles[192], quantiles[364]);
        assert!(median.abs() < 0.5 && low > -1.5 && high < 2.5, "octaves off: {low} {median} {high}");
    }

    #[test]
    fn histograms_of_different_windows_are_averaged_norm_by_norm() {
        let (one, mut other) = (exact(1.0), exact(1.0));
        other.window = Window::up_to(4000.0);
        other.shares.rotate_left(4);
        let averaged = other.averaged_with(Some(&one));
        assert_eq!(averaged.steps, 2);
        assert!((averaged.normal_scale() - 1.0).abs() < 0.05, "{}", averaged.normal_scale());
    }

    #[test]
    fn clipping_moments_match_integrals() {
        // E min(Z^2, 1) = 0.51605, P(|Z| <= 1) = 0.68269 (scipy.integrate.quad).
        let (inside, second) = clipped_normal(1.0);
        assert!((inside - 0.682_689).abs() < 1e-6 && (second - 0.516_058).abs() < 1e-5, "{inside} {second}");
    }
}
