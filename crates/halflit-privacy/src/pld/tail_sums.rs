//! Weighted tail sums of a composed law: what every answer is read from.
//!
//! With r_i the tilted masses of the window and d = e^{-rate h}, T_j = sum_{i>=j} r_i d^{i-j}. Close to a normal law only a
//! few frequencies of the spectrum are left; then T_j is a short sum of geometric series and nothing is transformed
//! back. Otherwise the masses are transformed back and added up.

use super::fft::{Complex, RealFft, UNIT_ROUNDOFF};
use libm::{exp, expm1, sin, sqrt};
use std::f64::consts::PI;
use std::rc::Rc;

/// A spectrum with at most one bin in this many is kept as it is.
const SPARSE: usize = 64;

/// The tilted masses of a composed law on a window.
pub enum Masses {
    /// Entry by entry.
    Entries {
        /// Entry j belongs to the j-th grid point of the window and to everything a multiple of the length away.
        masses: Vec<f64>,
        /// Bound on the absolute error of every mass.
        entry_error: f64,
        /// Bound on the Euclidean norm of the errors of all masses.
        norm_error: f64,
    },
    /// By the frequencies that are left.
    Frequencies {
        /// (frequency, its bin turned so that the window begins at zero, bound on the bin's error), frequencies 0..=len/2.
        bins: Vec<(usize, Complex, f64)>,
        /// Bound on the sum of the bins left out, over all frequencies, divided by the length.
        left_out: f64,
        /// Roots of unity.
        fft: Rc<RealFft>,
    },
}

/// T_j for one rate.
pub struct TailSums {
    len: usize,
    /// The product rate * spacing.
    decay: f64,
    sums: Sums,
    /// Bound on |computed - exact| from errors of the masses, for every j.
    pub round_off: f64,
    /// Bound on the relative error of the summation itself.
    pub sum_error: f64,
}

enum Sums {
    Entries(Vec<f64>),
    Frequencies { terms: Vec<(usize, Complex)>, fft: Rc<RealFft> },
}

impl Masses {
    /// From a spectrum with bounds on the errors of its bins; the window begins at the index `start`.
    pub fn new(spectrum: &[Complex], errors: &[f64], start: i64, fft: &Rc<RealFft>) -> Self {
        let len = fft.len();
        let offset = start.rem_euclid(len as i64) as usize;
        let is_left = |bin: &Complex| bin.re != 0.0 || bin.im != 0.0;
        let left = spectrum.iter().filter(|bin| is_left(bin)).count();
        if left <= len / SPARSE {
            let mut bins = Vec::with_capacity(left);
            let mut left_out = 0.0;
            for (k, (bin, error)) in spectrum.iter().zip(errors).enumerate() {
                if is_left(bin) {
                    // exp(+2 pi i k start/len); one product with a rounded root.
                    let turned = bin.times(fft.root(k * offset % len).conjugate());
                    bins.push((k, turned, error + 5.0 * UNIT_ROUNDOFF * sqrt(bin.norm_squared())));
                } else {
                    left_out += 2.0 * error;
                }
            }
            let left_out = left_out / len as f64 * (1.0 + 1e-6);
            return Masses::Frequencies { bins, left_out, fft: Rc::clone(fft) };
        }
        let (entry_error, norm_error) = inverse_errors(spectrum, errors, fft);
        let mut masses = fft.inverse(spectrum);
        // Entry j of the window is residue (start + j) mod len.
        masses.rotate_left(offset);
        masses.iter_mut().for_each(|mass| *mass = mass.max(0.0));
        Masses::Entries { masses, entry_error, norm_error }
    }

    /// Bound on the error of T_j - x T'_j, where T' has the rate + 1 and e^-spacing <= x <= 1, for every j.
    pub fn difference_error(&self, rate: f64, spacing: f64) -> f64 {
        match self {
            Masses::Entries { masses, entry_error, norm_error } => {
                // The i-th mass after j counts with a weight of at most e^{-rate i h} (1 - e^{-(i+1) h}).
                let (factor, step) = (exp(-rate * spacing), exp(-spacing));
                let (mut power, mut discount) = (1.0, step);
                let (mut sum, mut squares) = (0.0, 0.0);
                for _ in masses {
                    let weight: f64 = power * (1.0 - discount);
                    sum += weight;
                    squares += weight * weight;
                    power *= factor;
                    discount *= step;
                }
                (entry_error * sum).min(norm_error * sqrt(squares)) * (1.0 + 1e-9)
            }
            Masses::Frequencies { .. } => {
                self.tails(rate, spacing).round_off + self.tails(rate + 1.0, spacing).round_off
            }
        }
    }

    /// The tail sums with d = e^{-rate spacing}.
    pub fn tails(&self, rate: f64, spacing: f64) -> TailSums {
        let decay = rate * spacing;
        match self {
            Masses::Entries { masses, entry_error, norm_error } => {
                let (len, factor) = (masses.len(), exp(-decay));
                let mut sums = vec![0.0; len];
                let mut sum = 0.0;
                for (j, mass) in masses.iter().enumerate().rev() {
                    sum = mass + factor * sum;
                    sums[j] = sum;
                }
                // sum_i |error_i| d^{i-j}: by the largest error or by both Euclidean norms, whichever is less.
                let powers = |decay: f64| geometric(decay, len as f64);
                let round_off = (entry_error * powers(decay)).min(norm_error * sqrt(powers(2.0 * decay)));
                TailSums {
                    len,
                    decay,
                    sums: Sums::Entries(sums),
                    round_off: round_off * (1.0 + 1e-9),
                    // Every step of the recursion multiplies the relative error by at most 1 + 4u.
                    sum_error: UNIT_ROUNDOFF * (4.0 * len as f64 + 16.0),
                }
            }
            Masses::Frequencies { bins, left_out, fft } => {
                let len = fft.len();
                let mut round_off = left_out * len as f64;
                let mut terms = Vec::with_capacity(bins.len());
                for &(k, bin, error) in bins {
                    // Frequencies other than 0 and len/2 stand for two.
                    let twice = if k == 0 || 2 * k == len { 1.0 } else { 2.0 };
                    let share = twice / len as f64;
                    // |sum_i (d w)^i| <= 2/|1 - dw|, and at most the sum of d^i.
                    let gap = one_minus(decay, k, len);
                    let (all, quotient) = (geometric(decay, len as f64), 2.0 / sqrt(gap.norm_squared()));
                    // The terms' own roundings, and those of adding them up.
                    let own = (32.0 + bins.len() as f64) * UNIT_ROUNDOFF * sqrt(bin.norm_squared());
                    let computed = if k == 0 { all } else { quotient };
                    round_off += share * (error * all.min(quotient) + own * computed);
                    let scaled = Complex { re: share * bin.re, im: share * bin.im };
                    terms.push((k, if k == 0 { scaled } else { scaled.over(gap) }));
                }
                TailSums {
                    len,
                    decay,
                    sums: Sums::Frequencies { terms, fft: Rc::clone(fft) },
                    round_off: round_off * (1.0 + 1e-9),
                    sum_error: 0.0,
                }
            }
        }
    }
}

impl TailSums {
    /// Length of the window.
    pub fn len(&self) -> usize {
        self.len
    }

    /// T_j; zero beyond the window.
    pub fn at(&self, j: usize) -> f64 {
        if j >= self.len {
            return 0.0;
        }
        match &self.sums {
            Sums::Entries(sums) => sums[j],
            Sums::Frequencies { terms, fft } => {
                let rest = (self.len - j) as f64;
                // d^{len-j}
                let last = exp(-self.decay * rest);
                let term = |&(k, term): &(usize, Complex)| {
                    if k == 0 {
                        return term.re * geometric(self.decay, rest);
                    }
                    // X_k (w^j - d^{len-j})/(1 - dw)
                    let root = fft.root(k * j % self.len).conjugate();
                    let turned = Complex { re: root.re - last, im: root.im };
                    term.times(turned).re
                };
                terms.iter().map(term).sum()
            }
        }
    }
}

/// sum_{i < n} e^{-decay i}.
fn geometric(decay: f64, n: f64) -> f64 {
    if decay > 1e-300 { expm1(-decay * n) / expm1(-decay) } else { n }
}

/// 1 - e^{-decay} e^{2 pi i k/len}, each part within a few ulps.
fn one_minus(decay: f64, k: usize, len: usize) -> Complex {
    let (d, half_angle) = (exp(-decay), PI * (k as f64 / len as f64));
    let (s, c) = (sin(half_angle), libm::cos(half_angle));
    // 1 - d cos = (1 - d) + 2 d sin^2(half), d sin = 2 d sin(half) cos(half)
    Complex { re: 2.0 * d * s * s - expm1(-decay), im: -2.0 * d * s * c }
}

/// The error of every entry, at most (1/len) sum over all frequencies of (error + transform error per unit of the bins),
/// and of all entries together: by Parseval the norm of the spectrum's errors over sqrt(len), and the transform's own.
fn inverse_errors(spectrum: &[Complex], errors: &[f64], fft: &RealFft) -> (f64, f64) {
    let (mut sum, mut squares, mut bin_squares) = (0.0, 0.0, 0.0);
    let factor = fft.error_factor();
    for (bin, error) in spectrum.iter().zip(errors) {
        let square = bin.norm_squared();
        // Frequencies other than 0 and len/2 stand for two; counting all twice is an upper bound.
        sum += 2.0 * (error * (1.0 + factor) + factor * sqrt(square));
        squares += 2.0 * error * error;
        bin_squares += 2.0 * square;
    }
    let len = fft.len() as f64;
    // norm of the computed outputs <= norm of the computed spectrum / sqrt(len)
    let norm = (sqrt(squares) + fft.norm_error_factor() * sqrt(bin_squares)) / sqrt(len);
    (sum / len * (1.0 + 1e-6), norm * (1.0 + 1e-6) + 1e-300)
}
