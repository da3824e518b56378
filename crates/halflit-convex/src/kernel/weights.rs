//! Model weights on a lattice, so that every score <w, x> is an exact integer.
//!
//! A score computed in floating point depends on the order of its additions, which depends on vector width and tails. Here
//! the weights are rounded once, to 23 bits below the largest of them, and the score is an integer sum: the same
//! whatever the processor, the storage or the batch. The rounding is about that of a 32-bit float for the largest weight;
//! weights are public, so it concerns accuracy only.

use super::{KernelError, Level};
use crate::math::ROUNDING_MAGIC;
use crate::rows::FEATURE_BITS;

/// Bits of the largest weight.
const WEIGHT_BITS: i32 = 23;

/// Base of the two digits a weight is split into for 16-bit multiplications: |digit| <= 2^11.
pub(crate) const DIGIT_BITS: u32 = 12;

/// The largest weight in magnitude.
const LARGEST: f64 = 1e100;

/// Columns are padded to a multiple of this many with zero digits.
pub(crate) const LANES: usize = 32;

/// Weights of a linear model with one or more outputs, rounded to a power-of-two lattice.
#[derive(Debug, Clone)]
pub struct LatticeWeights {
    width: usize,
    outputs: usize,
    unit: f64,
    /// `outputs * width` integers.
    integers: Vec<i32>,
    /// Per output: the low digits, then the high digits, each padded to whole lines.
    digits: Vec<Line>,
}

/// Digits that are loaded together: a cache line, so that no load touches two.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([i16; LANES]);

impl LatticeWeights {
    /// Rounds `weights`: `outputs` vectors of `weights.len() / outputs` numbers, one after the other.
    pub fn new(weights: &[f64], outputs: usize) -> Result<Self, KernelError> {
        if outputs == 0 || !weights.len().is_multiple_of(outputs) {
            return Err(KernelError::Outputs { weights: weights.len(), outputs });
        }
        let level = Level::best();
        // The bits of positive numbers are ordered as they are, and integers have a largest one in whatever order they are compared.
        let largest = level.run(
            #[inline(always)]
            || weights.iter().fold(0, |most, w| w.abs().to_bits().max(most)),
        );
        if largest > LARGEST.to_bits() {
            let index = weights.iter().position(|w| !(w.abs() <= LARGEST)).unwrap_or(0);
            return Err(KernelError::Weight { index, value: weights[index] });
        }
        let exponent = exponent(f64::from_bits(largest)) + 1 - WEIGHT_BITS;
        let (unit, inverse) = (power_of_two(exponent), power_of_two(-exponent));
        let width = weights.len() / outputs;
        let lines = width.div_ceil(LANES);
        let mut integers = vec![0i32; weights.len()];
        let mut digits = vec![Line([0; LANES]); 2 * lines * outputs];
        level.run(
            #[inline(always)]
            || {
                for (integer, &weight) in integers.iter_mut().zip(weights) {
                    // |w| < 2^(e+1), so |integer| <= 2^23
                    *integer = (weight * inverse + ROUNDING_MAGIC).to_bits() as i32;
                }
                let each = integers.chunks_exact(width.max(1)).zip(digits.chunks_exact_mut(2 * lines.max(1)));
                for (integers, digits) in each {
                    let (low, high) = digits.split_at_mut(lines);
                    for ((low, high), integers) in low.iter_mut().zip(high).zip(integers.chunks(LANES)) {
                        let mut padded = [0; LANES];
                        padded[..integers.len()].copy_from_slice(integers);
                        for ((low, high), integer) in low.0.iter_mut().zip(&mut high.0).zip(padded) {
                            (*low, *high) = split(integer);
                        }
                    }
                }
            },
        );
        Ok(LatticeWeights { width, outputs, unit, integers, digits })
    }

    /// Features per output.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of outputs: 1, or the number of classes.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The weights that passes really use: the given ones rounded to the lattice.
    pub fn rounded(&self) -> Vec<f64> {
        self.integers.iter().map(|&w| f64::from(w) * self.unit).collect()
    }

    /// What one unit of the integer score is worth: a power of two.
    pub(crate) fn score_unit(&self) -> f64 {
        self.unit * power_of_two(-(FEATURE_BITS as i32))
    }

    /// The integers of one output.
    pub(crate) fn integers(&self, output: usize) -> &[i32] {
        &self.integers[output * self.width..][..self.width]
    }

    /// Low and high digits of one output, padded with zeros.
    pub(crate) fn digits(&self, output: usize) -> (&[Line], &[Line]) {
        let lines = self.width.div_ceil(LANES);
        self.digits[2 * lines * output..][..2 * lines].split_at(lines)
    }
}

/// Low and high digit.
#[inline(always)]
fn split(integer: i32) -> (i16, i16) {
    const HALF: i32 = 1 << (DIGIT_BITS - 1);
    let low = (integer.wrapping_add(HALF) & ((1 << DIGIT_BITS) - 1)).wrapping_sub(HALF);
    (low as i16, (integer.wrapping_sub(low) >> DIGIT_BITS) as i16)
}

/// floor(log2(x)) for normal x; a very negative exponent for smaller x, zero included.
fn exponent(x: f64) -> i32 {
    (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(-900)
}

/// 2^e for normal results.
fn power_of_two(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_round_to_the_lattice() {
        let weights = [0.0, 1.0, -1.5, 1e-9, std::f64::consts::PI, -std::f64::consts::E];
        let lattice = LatticeWeights::new(&weights, 2).unwrap();
        assert_eq!((lattice.width(), lattice.outputs()), (3, 2));
        for (rounded, weight) in lattice.rounded().iter().zip(weights) {
            assert!((rounded - weight).abs() <= 4.0 * 2f64.powi(-24), "{rounded} {weight}");
        }
        for output in 0..2 {
            let (&[Line(low)], &[Line(high)]) = lattice.digits(output) else { panic!("one line each") };
            for (column, &integer) in lattice.integers(output).iter().enumerate() {
                assert_eq!(i32::from(low[column]) + (i32::from(high[column]) << DIGIT_BITS), integer);
                assert!(low[column].abs() <= 1 << 11 && high[column].abs() <= 1 << 11);
            }
            assert!(low[3..].iter().chain(&high[3..]).all(|&digit| digit == 0));
        }
    }

    #[test]
    fn extremes_are_handled_or_refused() {
        assert!(LatticeWeights::new(&[0.0; 4], 1).unwrap().rounded().iter().all(|&w| w == 0.0));
        assert_eq!(LatticeWeights::new(&[1e-320], 1).unwrap().rounded(), [0.0]);
        assert_eq!(LatticeWeights::new(&[2f64.powi(300)], 1).unwrap().rounded(), [2f64.powi(300)]);
        let just_below = f64::from_bits(1f64.to_bits() - 1);
        assert_eq!(LatticeWeights::new(&[just_below], 1).unwrap().rounded(), [1.0]);
        assert!(matches!(LatticeWeights::new(&[f64::NAN], 1), Err(KernelError::Weight { index: 0, .. })));
        assert!(matches!(
            LatticeWeights::new(&[1.0, f64::INFINITY], 1),
            Err(KernelError::Weight { index: 1, .. })
        ));
        assert!(matches!(LatticeWeights::new(&[1.0; 3], 2), Err(KernelError::Outputs { .. })));
        assert!(matches!(LatticeWeights::new(&[], 0), Err(KernelError::Outputs { .. })));
    }
}
