//! How large contributions are: a noisy histogram of their norms, and what is read off it.
//!
//! Every unit adds 1 to the bin of the norm of its contribution, as it is before the clamp: reduced by the centre, if all units share one. The bins
//! are powers of sqrt(2), found from the exponent of the squared norm: a function of the unit alone, without logarithms.

use halflit_convex::Loss;
use halflit_convex::kernel::{Block, KernelError, Rule};
use halflit_convex::loss::LossRule;
use halflit_noise::{Stream, SumLattice};
use std::sync::atomic::{AtomicI64, Ordering};

/// Bins of the histogram: from 2^-16 to 2^16, two per octave; what lies outside goes to the ends.
pub(super) const BINS: usize = 64;

/// log2 of the squared lower end of the first bin.
const FIRST_EXPONENT: i32 = -32;

/// Counts rows by the norm of their gradient; its coefficients are all zero, so that the pass sums nothing.
pub(super) struct NormCounter<'a> {
    derivative: LossRule<'a>,
    loss: Loss,
    /// Squared norms of the rows, in feature units.
    squared_norms: &'a [u64],
    /// What one squared feature unit is worth.
    squared_unit: f64,
    counts: [AtomicI64; BINS],
}

impl<'a> NormCounter<'a> {
    /// Has seen no row yet.
    pub fn new(loss: Loss, labels: &'a [f64], squared_norms: &'a [u64], feature_unit: f64) -> Self {
        NormCounter {
            derivative: LossRule::derivative(loss, labels, 1.0),
            loss,
            squared_norms,
            squared_unit: feature_unit * feature_unit,
            counts: std::array::from_fn(|_| AtomicI64::new(0)),
        }
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
        self.derivative.check(rows)?;
        match self.squared_norms.len() {
            found if found == rows => Ok(()),
            found => Err(KernelError::Length { name: "the squared norms", found, rows }),
        }
    }

    fn fill(&self, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]) {
        self.derivative.fill(block, scores, coefficients);
        let (rows, mut counts) = (block.len(), [0i64; BINS]);
        for position in 0..rows {
            let row = block.row(position);
            let squares = coefficients.iter().skip(position).step_by(rows).map(|c| c * c).sum::<f64>();
            let square = squares * (self.squared_norms[row] as f64 * self.squared_unit);
            counts[bin(square)] += 1;
        }
        for (total, count) in self.counts.iter().zip(counts) {
            total.fetch_add(count, Ordering::Relaxed);
        }
        coefficients.fill(0.0);
    }
}

/// The bin of a squared norm: its binary exponent. NaN and zero go to the first bin.
pub(super) fn bin(square: f64) -> usize {
    let exponent = ((square.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    if square > 0.0 { (exponent - FIRST_EXPONENT).clamp(0, BINS as i32 - 1) as usize } else { 0 }
}

/// The lower end of a bin.
fn lower_end(bin: usize) -> f64 {
    f64::from(bin as i32 + FIRST_EXPONENT).exp2().sqrt()
}

/// A released histogram: shares of the units, noisy, and which norms they have.
pub(super) struct Spread {
    shares: Vec<f64>,
}

impl Spread {
    /// Adds the noise; from here on everything is post-processing. `units` is the expected number of units counted, a public constant.
    pub fn release(mut counts: Vec<i64>, lattice: &SumLattice, noise: &mut Stream, units: f64) -> Self {
        lattice.add_noise(noise, &mut counts);
        Spread { shares: counts.iter().map(|&count| lattice.to_real(count) / units).collect() }
    }

    /// The norm below which a share `level` of the contributions lies, found on the noisy cumulative shares.
    pub fn quantile(&self, level: f64) -> f64 {
        let mut below = 0.0;
        for (bin, share) in self.shares.iter().enumerate() {
            let share = share.max(0.0);
            if below + share >= level && share > 0.0 {
                let inside = ((level - below) / share).clamp(0.0, 1.0);
                return lower_end(bin) * (0.5 * inside).exp2();
            }
            below += share;
        }
        lower_end(BINS)
    }

    /// The scale s for which the histogram looks most like that of |N(0, s^2)|: least squares over a grid of scales, so that noise in
    /// empty bins hardly matters.
    pub fn normal_scale(&self) -> f64 {
        let per_bin = 8;
        let misfit = |scale: f64| -> f64 {
            let mut below = 0.0;
            let expected = (0..BINS).map(|bin| {
                let end = if bin + 1 == BINS { 1.0 } else { within(lower_end(bin + 1) / scale) };
                let share = end - below;
                below = end;
                share
            });
            self.shares.iter().zip(expected).map(|(found, expected)| (found - expected).powi(2)).sum()
        };
        (0..BINS * per_bin)
            .map(|step| lower_end(0) * (0.5 * step as f64 / per_bin as f64).exp2())
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
    fn bins_are_half_octaves() {
        for (norm, expected) in [(1.0, 32), (1.41, 32), (1.42, 33), (0.999, 31), (1e-9, 0), (1e9, 63)] {
            assert_eq!(bin(norm * norm), expected, "{norm}");
        }
        for (square, expected) in [(0.0, 0), (f64::NAN, 0), (f64::INFINITY, 63), (5e-324, 0)] {
            assert_eq!(bin(square), expected);
        }
    }

    #[test]
    fn quantiles_and_scales_are_read_off() {
        let exact = |scale: f64| {
            let cumulative: Vec<f64> = (0..=BINS).map(|bin| within(lower_end(bin) / scale)).collect();
            Spread { shares: cumulative.windows(2).map(|ends| ends[1] - ends[0]).collect() }
        };
        for scale in [0.01, 0.7, 3.0, 500.0] {
            let spread = exact(scale);
            assert!((spread.normal_scale() / scale - 1.0).abs() < 0.05, "{scale}: {}", spread.normal_scale());
            // The median of |N(0, 1)| is 0.6745.
            assert!((spread.quantile(0.5) / (0.6745 * scale) - 1.0).abs() < 0.05);
            assert!(spread.quantile(0.9) > spread.quantile(0.5));
        }
        let nothing = Spread { shares: vec![0.0; BINS] };
        assert!(nothing.quantile(0.5).is_finite() && nothing.normal_scale() > 0.0);
    }

    #[test]
    fn clipping_moments_match_integrals() {
        // E min(Z^2, 1) = 0.51605, P(|Z| <= 1) = 0.68269 (scipy.integrate.quad).
        let (inside, second) = clipped_normal(1.0);
        assert!((inside - 0.682_689).abs() < 1e-6 && (second - 0.516_058).abs() < 1e-5, "{inside} {second}");
    }
}
