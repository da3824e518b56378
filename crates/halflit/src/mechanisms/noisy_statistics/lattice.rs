//! The hidden statistic as an exact integer sum, and how far one unit can move it.
//!
//! A private row i with public integers q_i (its features, or their image under the public matrix of `shape`), public weight omega_i and label y_i contributes
//! c_i(y_i) q_i^T, where c_i is an integer vector with one entry per output. M_i = floor(M omega_i) is a public integer, the row's number of steps:
//!
//! | labels | c_i(y) | two labels differ by at most | one label, at most |
//! |---|---|---|---|
//! | an interval [low, high] (0 and 1 included) | round(M_i (2 t - low - high)/(high - low)), clamped to [-M_i, M_i] | 2 M_i | M_i |
//! | K classes | M_i (K e_y - 1) | M_i K sqrt(2) | M_i sqrt(K (K - 1)) |
//!
//! The middle of the label domain is subtracted in both, so a null unit contributes zero.

use super::shape::Shape;
use crate::mechanisms::summed_noise::SummedNoise;
use crate::mechanisms::{Inconsistency, MechanismError};
use crate::problem::{FEATURE_UNIT, Problem, UnitWeighting};
use halflit_convex::{LabelDomain, Rows};
use halflit_noise::{SumLattice, SumRequest};
use halflit_privacy::Change;
use halflit_table::Units;
use serde::{Deserialize, Serialize};

/// Bits after the point of a row's norm when norms are added up; every norm is rounded up.
const NORM_BITS: u32 = 16;

/// Bits after the point of the factor that turns norms into distances; rounded up.
const FACTOR_BITS: u32 = 20;

/// Steps per unit of weight with which the sensitivity is first measured, to choose the lattice.
pub(crate) const TRIAL_STEPS: u64 = 1 << 36;

/// What labels may be, and so how they become integer coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LabelSteps {
    /// A number in an interval.
    Interval {
        /// Its lower end.
        low: f64,
        /// Its upper end.
        high: f64,
    },
    /// One of K classes.
    Classes {
        /// K.
        classes: u64,
    },
}

impl LabelSteps {
    pub(crate) fn of(domain: LabelDomain) -> Option<Self> {
        match domain {
            LabelDomain::Binary => Some(LabelSteps::Interval { low: 0.0, high: 1.0 }),
            LabelDomain::Within(labels) => Some(LabelSteps::Interval { low: labels.low, high: labels.high }),
            LabelDomain::Classes(classes) => Some(LabelSteps::Classes { classes: classes as u64 }),
            LabelDomain::Signs | LabelDomain::None => None,
        }
    }

    /// The square of how far one row's coefficients can move, per step: an integer.
    fn squared_movement(self, change: Change) -> u64 {
        match (self, change) {
            (LabelSteps::Interval { .. }, Change::Replace) => 4,
            (LabelSteps::Interval { .. }, Change::ZeroOut) => 1,
            (LabelSteps::Classes { classes }, Change::Replace) => 2 * classes * classes,
            (LabelSteps::Classes { classes }, Change::ZeroOut) => classes * (classes - 1),
        }
    }

    /// How far one label can move the statistic of a row of length 1, in real units.
    pub(crate) fn movement(self, change: Change) -> f64 {
        (self.squared_movement(change) as f64).sqrt() * self.step_value()
    }

    /// What one step of a coefficient stands for in units of the label statistic, times M.
    fn step_value(self) -> f64 {
        match self {
            LabelSteps::Interval { low, high } => 0.5 * (high - low),
            LabelSteps::Classes { classes } => 1.0 / classes as f64,
        }
    }

    /// tbar: the middle of the label domain, the same for every output.
    pub(crate) fn middle(self) -> f64 {
        match self {
            LabelSteps::Interval { low, high } => 0.5 * (low + high),
            LabelSteps::Classes { classes } => 1.0 / classes as f64,
        }
    }

    /// t(y): the label statistic of one output.
    pub(crate) fn statistic(self, label: f64, output: usize) -> f64 {
        match self {
            LabelSteps::Interval { .. } => label,
            LabelSteps::Classes { .. } => f64::from(u8::from(label == output as f64)),
        }
    }

    /// c(y) of one output for a row with `steps` steps. Whatever the label, even NaN, the bounds of the table above hold.
    pub(crate) fn coefficient(self, steps: u64, label: f64, output: usize) -> i64 {
        let steps = steps as i64;
        match self {
            LabelSteps::Interval { low, high } => {
                let from_middle = (2.0 * label - low - high) / (high - low);
                // NaN becomes 0; the clamp is on the integer and always applied.
                ((steps as f64 * from_middle).round() as i64).clamp(-steps, steps)
            }
            LabelSteps::Classes { classes } => match class_of(label, classes) {
                None => 0,
                Some(class) if class == output => steps * (classes as i64 - 1),
                Some(_) => -steps,
            },
        }
    }
}

/// Checks that a stated sensitivity is how far one label can move the statistic of a unit of this norm.
pub(crate) fn check_movement(
    labels: LabelSteps,
    change: Change,
    unit_norm: f64,
    noise: &SummedNoise,
) -> Result<(), Inconsistency> {
    let is_valid = match labels {
        LabelSteps::Interval { low, high } => low.is_finite() && high.is_finite() && low < high,
        LabelSteps::Classes { classes } => (2..1 << 20).contains(&classes),
    };
    if !is_valid {
        return Err(Inconsistency::new("labels", "an interval, or from 2 to 2^20 classes"));
    }
    let expected = labels.movement(change) * unit_norm;
    if !((noise.sensitivity / expected - 1.0).abs() <= 1e-9) {
        return Err(Inconsistency::new(
            "sensitivity",
            "unit_norm times how far a label can move under the relation's change",
        ));
    }
    Ok(())
}

/// The class that a label names; none for anything else, NaN included.
fn class_of(label: f64, classes: u64) -> Option<usize> {
    let is_class = label >= 0.0 && label < classes as f64 && label.fract() == 0.0;
    is_class.then_some(label as usize)
}

/// Public integer weights of the private rows, the priced sensitivity and the noise.
#[derive(Clone, Debug)]
pub(crate) struct LabelLattice {
    pub labels: LabelSteps,
    steps: Steps,
    /// M.
    pub steps_per_weight: u64,
    /// How far one unit can move the sum, in lattice units, rounded up.
    pub sensitivity: u64,
    /// What one lattice unit is worth.
    pub unit: f64,
    pub sums: SumLattice,
}

/// M_i for every private row, or one number for all of them.
#[derive(Clone, Debug)]
enum Steps {
    Same(u64),
    PerRow(Vec<u64>),
}

/// The integers q_i of the private rows: their features, or the images of these under a public matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummedRows<'a> {
    pub rows: &'a Rows,
    pub shape: Option<&'a Shape>,
}

impl SummedRows<'_> {
    /// What one unit of a q_i is worth.
    fn unit(&self) -> f64 {
        self.shape.map_or(FEATURE_UNIT, |_| Shape::image_unit())
    }

    /// ceil(||q_i|| 2^NORM_BITS) for every row, in exact integers.
    fn norms(&self) -> Vec<u128> {
        let Some(shape) = self.shape else {
            return self.rows.squared_norms().iter().map(|&square| fine_norm(u128::from(square))).collect();
        };
        let mut image = vec![0; shape.size()];
        let norm = |row: usize| {
            shape.image(self.rows, row, &mut image);
            // 2^8 squares of numbers below 2^46: no overflow.
            fine_norm(image.iter().map(|&q| u128::from(q.unsigned_abs()).pow(2)).sum())
        };
        (0..self.rows.len()).map(norm).collect()
    }

    /// sum += coefficient * q_i.
    fn add(&self, row: usize, coefficient: i64, image: &mut [i64], sum: &mut [i64]) {
        match (self.shape, self.rows) {
            (Some(shape), rows) => {
                shape.image(rows, row, image);
                sum.iter_mut().zip(&*image).for_each(|(sum, &q)| *sum += coefficient * q);
            }
            (None, Rows::Dense(rows)) => {
                for (sum, &q) in sum.iter_mut().zip(rows.row(row)) {
                    *sum += coefficient * i64::from(q);
                }
            }
            (None, Rows::Sparse(rows)) => {
                for (column, q) in rows.row(row).iter() {
                    sum[column] += coefficient * i64::from(q);
                }
            }
        }
    }
}

impl LabelLattice {
    /// The finest lattice on which noise of `multiplier` sensitivities hides one unit. Reads public features and units only.
    pub fn plan(
        problem: &Problem,
        summed: SummedRows<'_>,
        units: &Units,
        labels: LabelSteps,
        multiplier: f64,
    ) -> Result<Self, MechanismError> {
        let movement = labels.squared_movement(problem.relation().change());
        let one_in = rows_sharing_a_weight(problem.unit_weighting(), units);
        let norms = summed.norms();
        let trial = sensitivity(&norms, units, &Steps::new(one_in.as_deref(), TRIAL_STEPS), movement);
        let step_value = summed.unit() * labels.step_value();
        let longest = norms.iter().max().map_or(1, |norm| norm.div_ceil(1 << NORM_BITS));
        let sums = SumLattice::plan(&SumRequest {
            contribution_step: u64::try_from(longest).unwrap_or(u64::MAX),
            ..SumRequest::l2(
                trial as f64 / TRIAL_STEPS as f64 * step_value,
                multiplier,
                problem.private_units(),
            )
        })?;
        let radius = sums.radius();
        let mut steps_per_weight =
            (u128::from(radius) * u128::from(TRIAL_STEPS) / u128::from(trial)).min(1 << 44) as u64;
        loop {
            if steps_per_weight == 0 {
                return Err(MechanismError::TooManyRowsPerUser { rows: problem.rows_per_unit() });
            }
            let steps = Steps::new(one_in.as_deref(), steps_per_weight);
            let sensitivity = sensitivity(&norms, units, &steps, movement);
            // What is priced is the sensitivity of these very integers; the radius is what the budget allows.
            if sensitivity <= radius {
                let unit = step_value / steps_per_weight as f64;
                return Ok(LabelLattice { labels, steps, steps_per_weight, sensitivity, unit, sums });
            }
            steps_per_weight -= 1 + steps_per_weight / (1 << 20);
        }
    }

    /// sum_i c_i(y_i) q_i^T, output after output. Exact: no partial sum exceeds twice units * sensitivity < 2^63.
    pub fn hidden_sum(&self, summed: SummedRows<'_>, label_of: &[f64], outputs: usize) -> Vec<i64> {
        let width = summed.rows.width();
        let mut sum = vec![0i64; width * outputs];
        let mut image = vec![0; width];
        match self.labels {
            LabelSteps::Interval { .. } => {
                for (row, &label) in label_of.iter().enumerate() {
                    let coefficient = self.labels.coefficient(self.steps.of(row), label, 0);
                    summed.add(row, coefficient, &mut image, &mut sum);
                }
            }
            // M_i (K e_y - 1) q_i^T: K times the sum of the rows of a class, minus the sum of all rows.
            LabelSteps::Classes { classes } => {
                for (row, &label) in label_of.iter().enumerate() {
                    if let Some(class) = class_of(label, classes) {
                        let own = &mut sum[class * width..(class + 1) * width];
                        summed.add(row, self.steps.of(row) as i64, &mut image, own);
                    }
                }
                let mut all = vec![0i64; width];
                for own in sum.chunks_exact(width.max(1)) {
                    all.iter_mut().zip(own).for_each(|(all, own)| *all += own);
                }
                for own in sum.chunks_exact_mut(width.max(1)) {
                    own.iter_mut().zip(&all).for_each(|(own, all)| *own = *own * classes as i64 - all);
                }
            }
        }
        sum
    }

    /// The noise's standard deviation in real units, per coordinate.
    pub fn noise_std(&self) -> f64 {
        self.unit * self.sums.bits().scale()
    }

    /// The largest norm of a unit's features, or of their image: what the sensitivity is the movement of.
    pub fn unit_norm(&self, change: Change) -> f64 {
        self.noise().sensitivity / self.labels.movement(change)
    }

    /// What a certificate says about the noise.
    pub fn noise(&self) -> SummedNoise {
        SummedNoise::new(self.sums.bits().get(), self.sensitivity, self.unit)
    }
}

impl Steps {
    fn new(one_in: Option<&[u64]>, per_weight: u64) -> Self {
        match one_in {
            None => Steps::Same(per_weight),
            Some(one_in) => Steps::PerRow(one_in.iter().map(|one_in| per_weight / one_in).collect()),
        }
    }

    fn of(&self, row: usize) -> u64 {
        match self {
            Steps::Same(steps) => *steps,
            Steps::PerRow(steps) => steps[row],
        }
    }
}

/// 1 / omega_i for every private row; none if every row is a unit.
pub(super) fn rows_sharing_a_weight(weighting: UnitWeighting, units: &Units) -> Option<Vec<u64>> {
    let Units::Users { offsets } = units else { return None };
    let weights = offsets.windows(2).flat_map(|user| {
        let rows = user[1] - user[0];
        let one_in = match weighting {
            UnitWeighting::SingleRow => 1,
            UnitWeighting::Mean => rows as u64,
            UnitWeighting::Share { rows_per_user } => rows_per_user,
        };
        std::iter::repeat_n(one_in, rows)
    });
    Some(weights.collect())
}

/// max over units of sum over its rows of M_i ||q_i||, times the movement of a coefficient: rounded up throughout, at least 1.
fn sensitivity(norms: &[u128], units: &Units, steps: &Steps, squared_movement: u64) -> u64 {
    let unit = |range: std::ops::Range<usize>| {
        range.map(|row| u128::from(steps.of(row)).saturating_mul(norms[row])).fold(0, u128::saturating_add)
    };
    let largest = match units {
        Units::Rows(rows) => (0..*rows).map(|row| unit(row..row + 1)).max(),
        Units::Users { offsets } => offsets.windows(2).map(|user| unit(user[0]..user[1])).max(),
    };
    let factor = root_rounded_up(u128::from(squared_movement) << (2 * FACTOR_BITS));
    let product = largest.unwrap_or(0).saturating_mul(factor);
    u64::try_from(product.div_ceil(1 << (NORM_BITS + FACTOR_BITS))).unwrap_or(u64::MAX).max(1)
}

/// At least sqrt(square) 2^NORM_BITS, and no more than rounding up takes.
fn fine_norm(square: u128) -> u128 {
    if square < 1 << (128 - 2 * NORM_BITS) {
        root_rounded_up(square << (2 * NORM_BITS))
    } else {
        root_rounded_up(square) << NORM_BITS
    }
}

fn root_rounded_up(square: u128) -> u128 {
    let root = square.isqrt();
    if root * root == square { root } else { root + 1 }
}
