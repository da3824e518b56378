//! Composition by Fourier transform under an exponential tilt, with its round-off bounded entry by entry.
//!
//! Each law is first tilted: mass_i e^{theta i h - c} with c close to its log moment generating function. The tilted laws
//! are folded onto a cycle of the transform's length, transformed, raised to their counts, multiplied and read off or
//! transformed back (`tail_sums.rs`). The composed mass at J is e^{sum(count c) - theta J h} times the result. Because the tilt centres the composed
//! law on the losses that decide delta, an absolute error of the result becomes a relative error of delta, however
//! small delta is. The bound is proved in `proof.md`, section 4.

use super::fft::{Complex, RealFft, UNIT_ROUNDOFF};
use super::tail_sums::Masses;
use libm::{exp, log, sqrt};
use std::rc::Rc;

/// A law on the grid, with how often it occurs: (index, mass), masses not negative.
pub struct Factor<'a> {
    /// The law.
    pub law: &'a [(i64, f64)],
    /// How many copies are composed.
    pub count: u64,
}

/// A composed law on a window of the grid.
pub struct Composed {
    /// The tilted masses.
    pub masses: Masses,
    /// log of the factor that undoes the normalisation: sum of count * c.
    pub log_scale: f64,
    /// Bound on the relative error of the weights e^{theta i h - c}, over all copies, and of `log_scale`.
    pub weight_error: f64,
}

/// log sum_i mass_i e^{theta i h}; -inf for a law without mass.
pub fn log_moment(law: &[(i64, f64)], spacing: f64, theta: f64) -> f64 {
    let exponent = |index: i64| theta * (index as f64 * spacing);
    // Relative to the largest exponent that has any mass: what underflows then is nothing beside that term.
    let has_mass = |entry: &&(i64, f64)| entry.1 > 0.0;
    let ends = [law.iter().find(has_mass), law.iter().rev().find(has_mass)];
    let largest = ends.into_iter().flatten().map(|entry| exponent(entry.0)).fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let sum: f64 = law.iter().map(|&(index, mass)| mass * exp((exponent(index) - largest).min(0.0))).sum();
    largest + log(sum)
}

/// The mean index of the tilted law.
pub fn tilted_mean_index(law: &[(i64, f64)], spacing: f64, theta: f64) -> f64 {
    let log_total = log_moment(law, spacing, theta);
    law.iter()
        .map(|&(index, mass)| index as f64 * mass * exp(theta * (index as f64 * spacing) - log_total))
        .sum()
}

/// An upper bound on log of the composed mass at losses beyond `loss`, on the side that the sign of `theta` says:
/// sum(count log E[e^{theta L}]) - theta loss (Chernoff), rounded up.
pub fn log_chernoff(factors: &[Factor], spacing: f64, theta: f64, loss: f64) -> f64 {
    let mut total = 0.0;
    let mut slack = (theta * loss).abs();
    for factor in factors {
        let value = factor.count as f64 * log_moment(factor.law, spacing, theta);
        total += value;
        // A sum of n positive terms errs by n u; each exponential by a few ulps and by its exponent's rounding.
        slack += value.abs()
            + factor.count as f64
                * (factor.law.len() as f64 + 16.0 + largest_exponent(factor.law, spacing, theta));
    }
    total - theta * loss + 4.0 * UNIT_ROUNDOFF * slack
}

/// An upper bound on log of the composed mass beyond `top`: Chernoff at a few tilts around the given one; nothing if no
/// sum of losses gets there. Infinite if no tilt says anything: lifted masses may add up to more than one.
pub fn log_beyond(factors: &[Factor], spacing: f64, tilt: f64, top: f64) -> f64 {
    let last = |factor: &Factor| factor.law.last().map_or(0, |entry| entry.0) as f64 * spacing;
    let largest: f64 = factors.iter().map(|factor| factor.count as f64 * last(factor)).sum();
    if largest * (1.0 + 1e-12) + spacing < top {
        return f64::NEG_INFINITY;
    }
    [1.0, 1.1, 1.3]
        .map(|scale| log_chernoff(factors, spacing, scale * tilt, top))
        .into_iter()
        .fold(f64::INFINITY, f64::min)
}

/// The most entries of a law that fold onto one slot of the cycle. Far out they may all lie a whole length apart, because
/// both the widths of cells and the length are powers of two.
fn most_in_a_slot(law: &[(i64, f64)], len: usize) -> usize {
    let (first, last) = (law.first().map_or(0, |entry| entry.0), law.last().map_or(0, |entry| entry.0));
    law.len().min(((last - first) / len as i64) as usize + 1) + 1
}

fn largest_exponent(law: &[(i64, f64)], spacing: f64, theta: f64) -> f64 {
    let ends = [law.first(), law.last()];
    ends.into_iter().flatten().map(|entry| (theta * entry.0 as f64 * spacing).abs()).fold(0.0, f64::max)
}

/// Composes the factors on a window that begins at `start`.
pub fn compose(factors: &[Factor], spacing: f64, theta: f64, start: i64, fft: &Rc<RealFft>) -> Composed {
    let len = fft.len();
    let mut product: Vec<Complex> = Vec::new();
    let mut errors: Vec<f64> = Vec::new();
    let (mut log_scale, mut log_sizes) = (0.0, 0.0);
    let mut weight_error = 0.0;
    for factor in factors {
        let log_norm = log_moment(factor.law, spacing, theta);
        let count = factor.count as f64;
        log_scale += count * log_norm;
        log_sizes += (count * log_norm).abs();
        // exp(x) errs by one ulp plus the error of x = theta i h - c, at most 3u(|theta i h| + |c|).
        let exponents = largest_exponent(factor.law, spacing, theta) + log_norm.abs();
        weight_error += count * UNIT_ROUNDOFF * (6.0 + 3.0 * exponents);
        let mut cycle = vec![0.0; len];
        let (mut at_zero, mut elsewhere) = (0.0, 0.0);
        for &(index, mass) in factor.law {
            let tilted = mass * exp(theta * (index as f64 * spacing) - log_norm);
            if index == 0 {
                at_zero = tilted;
            } else {
                cycle[index.rem_euclid(len as i64) as usize] += tilted;
                elsewhere += tilted;
            }
        }
        // What sits at zero, often nearly all, has a flat spectrum: added afterwards, with one rounding.
        let mut spectrum = fft.forward(&cycle);
        spectrum.iter_mut().for_each(|bin| bin.re += at_zero);
        let bin_error =
            (fft.error_factor() * elsewhere + UNIT_ROUNDOFF * (at_zero + elsewhere)) * (1.0 + 1e-9);
        let bounds = raise(&mut spectrum, factor.count, bin_error);
        if product.is_empty() {
            (product, errors) = (spectrum, bounds);
        } else {
            multiply(&mut product, &mut errors, &spectrum, &bounds);
        }
    }
    // A slot's sum of n positive terms is within n u of exact, relatively, so it joins the error of the weights.
    let folds: f64 =
        factors.iter().map(|factor| factor.count as f64 * most_in_a_slot(factor.law, len) as f64).sum();
    weight_error += folds * UNIT_ROUNDOFF;
    // log_scale is a sum of products, each within a few ulps of its size.
    weight_error += 8.0 * UNIT_ROUNDOFF * log_sizes;
    Composed { masses: Masses::new(&product, &errors, start, fft), log_scale, weight_error }
}

/// Raises every bin to the power `count` and bounds the errors of the results; `bin_error` bounds that of every bin.
fn raise(spectrum: &mut [Complex], count: u64, bin_error: f64) -> Vec<f64> {
    let exponent = count as f64;
    // Bins whose power is below e^-90 are set to zero; what they were is charged.
    let negligible = exp(-180.0 / exponent);
    let dropped = 1.01 * exp(exponent * log(sqrt(negligible) * (1.0 + 4.0 * UNIT_ROUNDOFF) + bin_error));
    // count - 1 complex products of relative error sqrt(5) u each, compounded.
    let growth = exp(exponent * 2.24 * UNIT_ROUNDOFF) - 1.0;
    let mut errors = vec![dropped; spectrum.len()];
    for (bin, error) in spectrum.iter_mut().zip(&mut errors) {
        let square = bin.norm_squared();
        if square < negligible {
            *bin = Complex::default();
            continue;
        }
        let power = bin.power(count);
        let (modulus, size) = (sqrt(square), sqrt(power.norm_squared()));
        // |x^T - y^T| <= T |x - y| max(|x|,|y|)^{T-1}, and max(|x|,|y|) <= |x| (1 + e/|x|).
        let excess = (exponent - 1.0) * bin_error / modulus;
        let compounded = if excess < 1e-3 { 1.002 } else { exp(1.01 * excess) };
        let drift = exponent * bin_error * (size / modulus) * (1.0 + 2.0 * growth) * compounded;
        *bin = power;
        *error = (drift + growth * 1.01 * size) * 1.01 + 1e-300;
    }
    errors
}

/// The product of two spectra with the error of the product: |xy - XY| <= |x| dy + |y| dx + dx dy + sqrt(8) u |xy|.
fn multiply(product: &mut [Complex], errors: &mut [f64], other: &[Complex], other_errors: &[f64]) {
    for (((x, dx), y), dy) in product.iter_mut().zip(errors).zip(other).zip(other_errors) {
        let (size_x, size_y) = (sqrt(x.norm_squared()), sqrt(y.norm_squared()));
        *dx = (size_x * dy + size_y * *dx + *dx * dy + 3.0 * UNIT_ROUNDOFF * size_x * size_y) * (1.0 + 1e-12)
            + 1e-300;
        *x = x.times(*y);
    }
}
