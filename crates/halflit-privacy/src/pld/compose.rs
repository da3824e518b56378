//! Composition by Fourier transform under an exponential tilt, with its round-off bounded entry by entry.
//!
//! Each law is first tilted: mass_i e^{theta i h - c} with c close to its log moment generating function. The tilted laws
//! are folded onto a cycle of the transform's length, transformed, raised to their counts, multiplied and transformed
//! back. The composed mass at J is e^{sum(count c) - theta J h} times the result. Because the tilt centres the composed
//! law on the losses that decide delta, an absolute error of the result becomes a relative error of delta, however
//! small delta is. The bound is proved in `proof.md`, section 4.

use super::fft::{Complex, RealFft, UNIT_ROUNDOFF};
use libm::{exp, log, sqrt};

/// A law on the grid, with how often it occurs: (index, mass), masses not negative.
pub struct Factor<'a> {
    /// The law.
    pub law: &'a [(i64, f64)],
    /// How many copies are composed.
    pub count: u64,
}

/// A composed law on a window of the grid.
pub struct Composed {
    /// The tilt that was used.
    pub theta: f64,
    /// The grid step.
    pub spacing: f64,
    /// The index of the first entry.
    pub start: i64,
    /// Tilted masses; entry j belongs to index start + j and to everything a multiple of the length away.
    pub tilted: Vec<f64>,
    /// log of the factor that undoes the normalisation: sum of count * c.
    pub log_scale: f64,
    /// Bound on the absolute error of every tilted mass.
    pub entry_error: f64,
    /// Bound on the relative error of the weights e^{theta i h - c}, over all copies, and of `log_scale`.
    pub weight_error: f64,
}

/// log sum_i mass_i e^{theta i h}; -inf for an empty law.
pub fn log_moment(law: &[(i64, f64)], spacing: f64, theta: f64) -> f64 {
    let exponent = |index: i64| theta * (index as f64 * spacing);
    let ends = [law.first(), law.last()];
    let largest = ends.into_iter().flatten().map(|entry| exponent(entry.0)).fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let sum: f64 = law.iter().map(|&(index, mass)| mass * exp(exponent(index) - largest)).sum();
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

fn largest_exponent(law: &[(i64, f64)], spacing: f64, theta: f64) -> f64 {
    let ends = [law.first(), law.last()];
    ends.into_iter().flatten().map(|entry| (theta * entry.0 as f64 * spacing).abs()).fold(0.0, f64::max)
}

/// How the tilted laws are multiplied.
#[derive(Clone, Copy)]
pub enum Method<'a> {
    /// By transforms: fast, with an absolute error of every entry.
    Transform(&'a RealFft),
    /// By sums of products on a cycle of this length: slow, with a relative error only.
    Direct(usize),
}

/// Composes the factors on a window that begins at `start`.
pub fn compose(factors: &[Factor], spacing: f64, theta: f64, start: i64, method: Method) -> Composed {
    let len = match method {
        Method::Transform(fft) => fft.len(),
        Method::Direct(len) => len,
    };
    let mut product: Vec<Complex> = Vec::new();
    let mut errors: Vec<f64> = Vec::new();
    let mut direct: Option<Vec<f64>> = None;
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
        let mut sum = 0.0;
        for &(index, mass) in factor.law {
            let tilted = mass * exp(theta * (index as f64 * spacing) - log_norm);
            cycle[index.rem_euclid(len as i64) as usize] += tilted;
            sum += tilted;
        }
        match method {
            Method::Transform(fft) => {
                let spectrum = fft.forward(&cycle);
                let powered = power_spectrum(&spectrum, factor.count, fft.error_factor() * sum);
                if product.is_empty() {
                    (product, errors) = powered;
                } else {
                    multiply(&mut product, &mut errors, &powered);
                }
            }
            Method::Direct(len) => {
                let power = direct_power(cycle, factor.count);
                direct = Some(direct.map_or_else(|| power.clone(), |total| convolved(&total, &power)));
                // A power of m copies is within m (len + 2) u of exact, relatively: every entry is a sum of at most len
                // positive products. One more product joins it to the others.
                weight_error += 1.01 * (count + 1.0) * (len as f64 + 2.0) * UNIT_ROUNDOFF;
            }
        }
    }
    // Folding adds up to law-length entries per slot, each sum within n u of exact; a slot's sum of positive terms keeps
    // relative accuracy, so it joins the error of the weights.
    let folds: f64 =
        factors.iter().map(|factor| factor.count as f64 * (factor.law.len() / len + 2) as f64).sum();
    weight_error += folds * UNIT_ROUNDOFF;
    let (cycle, entry_error) = match method {
        Method::Transform(fft) => (fft.inverse(&product), inverse_error(&product, &errors, fft)),
        // What underflows is lost: fewer than len 2^64 products below the smallest normal number.
        Method::Direct(_) => (direct.unwrap_or_else(|| vec![0.0; len]), 1e-280),
    };
    // Entry j of the window is residue (start + j) mod len.
    let shift = start.rem_euclid(len as i64) as usize;
    let tilted = cycle[shift..].iter().chain(&cycle[..shift]).map(|&value| value.max(0.0)).collect();
    // log_scale is a sum of products, each within a few ulps of its size.
    weight_error += 8.0 * UNIT_ROUNDOFF * log_sizes;
    Composed { theta, spacing, start, tilted, log_scale, entry_error, weight_error }
}

/// The cyclic convolution of two laws by its definition.
fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let len = a.len();
    let mut result = vec![0.0; len];
    for (shift, &factor) in a.iter().enumerate() {
        if factor == 0.0 {
            continue;
        }
        let (before, after) = result.split_at_mut(shift);
        for (target, value) in after.iter_mut().zip(b) {
            *target += factor * value;
        }
        for (target, value) in before.iter_mut().zip(&b[len - shift..]) {
            *target += factor * value;
        }
    }
    result
}

/// The cyclic convolution power by repeated squaring; `count` is at least one.
fn direct_power(law: Vec<f64>, mut count: u64) -> Vec<f64> {
    let mut square = law;
    let mut power: Option<Vec<f64>> = None;
    loop {
        if count % 2 == 1 {
            power = Some(power.map_or_else(|| square.clone(), |power| convolved(&power, &square)));
        }
        count /= 2;
        match power {
            Some(power) if count == 0 => return power,
            _ => square = convolved(&square, &square),
        }
    }
}

/// Every bin to the power `count`, with a bound on its error; `bin_error` bounds the error of every bin.
fn power_spectrum(spectrum: &[Complex], count: u64, bin_error: f64) -> (Vec<Complex>, Vec<f64>) {
    let exponent = count as f64;
    // Bins whose power is below e^-90 are set to zero; what they were is charged.
    let negligible = exp(-180.0 / exponent);
    let dropped = 1.01 * exp(exponent * log(sqrt(negligible) * (1.0 + 4.0 * UNIT_ROUNDOFF) + bin_error));
    // count - 1 complex products of relative error sqrt(8) u each, compounded.
    let growth = exp(exponent * 3.0 * UNIT_ROUNDOFF) - 1.0;
    let mut powers = Vec::with_capacity(spectrum.len());
    let mut errors = Vec::with_capacity(spectrum.len());
    for &bin in spectrum {
        let square = bin.norm_squared();
        if square < negligible {
            powers.push(Complex::default());
            errors.push(dropped);
            continue;
        }
        let power = bin.power(count);
        let modulus = sqrt(square) * (1.0 + 4.0 * UNIT_ROUNDOFF);
        // |x^T - y^T| <= T |x - y| max(|x|,|y|)^{T-1}
        let drift = exponent * bin_error * exp((exponent - 1.0) * log(modulus + bin_error));
        let size = sqrt(power.norm_squared());
        powers.push(power);
        errors.push((drift + growth * 1.01 * size) * 1.01 + 1e-300);
    }
    (powers, errors)
}

/// The product of two spectra with the error of the product: |xy - XY| <= |x| dy + |y| dx + dx dy + sqrt(8) u |xy|.
fn multiply(product: &mut [Complex], errors: &mut [f64], other: &(Vec<Complex>, Vec<f64>)) {
    for (((x, dx), y), dy) in product.iter_mut().zip(errors).zip(&other.0).zip(&other.1) {
        let (size_x, size_y) = (sqrt(x.norm_squared()), sqrt(y.norm_squared()));
        *dx = (size_x * dy + size_y * *dx + *dx * dy + 3.0 * UNIT_ROUNDOFF * size_x * size_y) * (1.0 + 1e-12)
            + 1e-300;
        *x = x.times(*y);
    }
}

/// |entry error| <= (1/len) sum over all frequencies of (error + transform error per unit of the bins).
fn inverse_error(spectrum: &[Complex], errors: &[f64], fft: &RealFft) -> f64 {
    let mut total = 0.0;
    let factor = fft.error_factor();
    for (bin, error) in spectrum.iter().zip(errors) {
        // Frequencies other than 0 and len/2 stand for two; counting all twice is an upper bound.
        total += 2.0 * (error * (1.0 + factor) + factor * sqrt(bin.norm_squared()));
    }
    total / fft.len() as f64 * (1.0 + 1e-6)
}
