//! The Gram matrix of (features, label): which entries are known, the exact integer sum of the others, repair and solution.

use crate::mechanisms::MechanismError;
#[cfg(test)]
use crate::mechanisms::noisy_statistics::matrix::apply;
use crate::mechanisms::noisy_statistics::matrix::inner;
use crate::problem::{FEATURE_UNIT, Problem};
use halflit_convex::solver::Cholesky;
use halflit_convex::{FEATURE_SCALE, Rows};
use halflit_noise::{Norm, clip};
use halflit_table::PublicFeatures;

/// Which coordinates of z = (features, label) are hidden.
#[derive(Clone, Debug)]
pub(super) struct Coordinates {
    pub known: Vec<usize>,
    pub hidden: Vec<usize>,
    /// Number of features, intercept included; the label comes after them.
    pub width: usize,
}

impl Coordinates {
    pub fn of(problem: &Problem) -> Result<Self, MechanismError> {
        let mut is_hidden = problem.encoding().sensitive_coordinates();
        let width = is_hidden.len();
        is_hidden.push(problem.encoded().public_view()?.labels.is_none());
        let (hidden, known) = (0..=width).partition(|&index| is_hidden[index]);
        Ok(Coordinates { known, hidden, width })
    }

    pub fn size(&self) -> usize {
        self.width + 1
    }

    pub fn label_is_hidden(&self) -> bool {
        self.hidden.last() == Some(&self.width)
    }

    /// How many numbers are released: known times hidden, and hidden times hidden.
    pub fn released(&self) -> usize {
        (self.known.len() + self.hidden.len()) * self.hidden.len()
    }
}

/// The known parts of the private rows: public features, the intercept, and the label if it is public. Hidden coordinates are zero.
pub(super) struct KnownParts {
    rows: Option<Rows>,
    labels: Option<Vec<i64>>,
    /// Where the intercept is, for tables without a public feature.
    intercept: Option<usize>,
    pub len: usize,
}

impl KnownParts {
    /// Reads what the relation makes public.
    pub fn of(problem: &Problem, coordinates: &Coordinates, len: usize) -> Result<Self, MechanismError> {
        let view = problem.encoded().public_view()?;
        let rows = match view.features {
            PublicFeatures::All(rows) => Some(rows.clone()),
            PublicFeatures::Some(rows) => Some(rows),
            PublicFeatures::None => None,
        };
        let intercept = coordinates.known.iter().copied().find(|&index| index < coordinates.width);
        let labels = view.labels.map(|labels| labels.iter().map(|&label| lattice_label(label)).collect());
        Ok(KnownParts { rows, labels, intercept, len })
    }

    /// The known part of a row, of full length, in feature units.
    pub fn part(&self, row: usize, size: usize) -> Result<Vec<i64>, MechanismError> {
        let mut part: Vec<i64> = match &self.rows {
            Some(rows) => rows.dense_row(row)?.into_iter().map(i64::from).collect(),
            None => vec![0; size - 1],
        };
        if let (None, Some(intercept)) = (&self.rows, self.intercept) {
            part[intercept] = i64::from(FEATURE_SCALE);
        }
        part.push(self.labels.as_ref().map_or(0, |labels| labels[row]));
        Ok(part)
    }

    /// The largest squared norm of a known part, in squared feature units.
    pub fn largest_squared_norm(&self) -> u64 {
        let features = match &self.rows {
            Some(rows) => rows.squared_norms().to_vec(),
            None => {
                vec![
                    if self.intercept.is_some() { u64::from(FEATURE_SCALE.unsigned_abs()).pow(2) } else { 0 };
                    self.len
                ]
            }
        };
        let label = |row: usize| self.labels.as_ref().map_or(0, |labels| labels[row].unsigned_abs().pow(2));
        features.iter().enumerate().map(|(row, square)| square + label(row)).max().unwrap_or(0)
    }
}

/// A label of [-1, 1] in feature units.
pub(super) fn lattice_label(label: f64) -> i64 {
    let scale = i64::from(FEATURE_SCALE);
    ((label * scale as f64).round() as i64).clamp(-scale, scale)
}

/// The exact integer sums of a s^T (known after known, hidden inside) and s s^T (all entries), in squared feature units.
pub(super) fn hidden_sum(
    coordinates: &Coordinates,
    known: &KnownParts,
    rows: &Rows,
    labels: &[f64],
    radius: u64,
) -> Result<Vec<i64>, MechanismError> {
    let h = coordinates.hidden.len();
    let mut sum = vec![0i64; coordinates.released()];
    let (cross, quadratic) = sum.split_at_mut(coordinates.known.len() * h);
    for (row, &label) in labels.iter().enumerate().take(known.len) {
        let a = known.part(row, coordinates.size())?;
        let mut z: Vec<i64> = rows.dense_row(row)?.into_iter().map(i64::from).collect();
        z.push(lattice_label(label));
        let mut s: Vec<i64> = coordinates.hidden.iter().map(|&index| z[index]).collect();
        // Always applied: the sensitivity rests on it.
        clip(Norm::L2, &mut s, radius);
        for (sums, &index) in cross.chunks_exact_mut(h).zip(&coordinates.known) {
            if a[index] != 0 {
                sums.iter_mut().zip(&s).for_each(|(sum, s)| *sum += a[index] * s);
            }
        }
        for (sums, &first) in quadratic.chunks_exact_mut(h).zip(&s) {
            if first != 0 {
                sums.iter_mut().zip(&s).for_each(|(sum, s)| *sum += first * s);
            }
        }
    }
    Ok(sum)
}

/// The Gram matrix of z: known entries exactly, the others from the noisy release; symmetric, row-major.
pub(super) fn assembled(
    problem: &Problem,
    coordinates: &Coordinates,
    known: &KnownParts,
    release: &[f64],
) -> Result<Vec<f64>, MechanismError> {
    let (size, h) = (coordinates.size(), coordinates.hidden.len());
    let mut gram = vec![0.0; size * size];
    let square = FEATURE_UNIT * FEATURE_UNIT;
    for row in 0..known.len {
        let part: Vec<f64> = known.part(row, size)?.into_iter().map(|a| a as f64).collect();
        add_square(&mut gram, &part, square);
    }
    let (cross, quadratic) = release.split_at(coordinates.known.len() * h);
    for (sums, &a) in cross.chunks_exact(h).zip(&coordinates.known) {
        for (&sum, &s) in sums.iter().zip(&coordinates.hidden) {
            gram[a * size + s] += sum;
            gram[s * size + a] += sum;
        }
    }
    for (i, &first) in coordinates.hidden.iter().enumerate() {
        for (j, &second) in coordinates.hidden.iter().enumerate() {
            // Both (i, j) and (j, i) were released: their mean has half the variance.
            gram[first * size + second] += 0.5 * (quadratic[i * h + j] + quadratic[j * h + i]);
        }
    }
    let (public, labels) = problem.public_data();
    for (row, &label) in labels.iter().enumerate() {
        let mut z: Vec<f64> =
            public.dense_row(row)?.into_iter().map(|q| f64::from(q) * FEATURE_UNIT).collect();
        z.push(label);
        add_square(&mut gram, &z, problem.public_row_weight());
    }
    Ok(gram)
}

/// gram += factor z z^T.
fn add_square(gram: &mut [f64], z: &[f64], factor: f64) {
    for (line, &first) in gram.chunks_exact_mut(z.len()).zip(z) {
        if first != 0.0 {
            line.iter_mut().zip(z).for_each(|(entry, second)| *entry += factor * first * second);
        }
    }
}

/// The nearest positive semidefinite matrix (negative eigenvalues become zero), and the smallest eigenvalue that was found.
pub(super) fn repaired(matrix: &[f64], size: usize) -> (Vec<f64>, f64) {
    let (values, vectors) = eigen(matrix.to_vec(), size);
    let mut repaired = vec![0.0; size * size];
    for (value, vector) in
        values.iter().zip(vectors.chunks_exact(size.max(1))).filter(|(value, _)| **value > 0.0)
    {
        add_square(&mut repaired, vector, *value);
    }
    (repaired, values.iter().copied().fold(f64::INFINITY, f64::min))
}

/// Eigenvalues and eigenvectors (one per line) of a symmetric matrix by cyclic Jacobi rotations.
fn eigen(mut matrix: Vec<f64>, size: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|i| vectors[i * size + i] = 1.0);
    let total = inner(&matrix, &matrix);
    for _sweep in 0..30 {
        let diagonal: f64 = (0..size).map(|i| matrix[i * size + i].powi(2)).sum();
        if !(inner(&matrix, &matrix) - diagonal > 1e-26 * total) {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                let off = matrix[p * size + q];
                if off == 0.0 {
                    continue;
                }
                let theta = (matrix[q * size + q] - matrix[p * size + p]) / (2.0 * off);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let cosine = 1.0 / t.hypot(1.0);
                let sine = t * cosine;
                for k in 0..size {
                    let (a, b) = (matrix[k * size + p], matrix[k * size + q]);
                    (matrix[k * size + p], matrix[k * size + q]) =
                        (cosine * a - sine * b, sine * a + cosine * b);
                }
                for lines in [&mut matrix, &mut vectors] {
                    for k in 0..size {
                        let (a, b) = (lines[p * size + k], lines[q * size + k]);
                        (lines[p * size + k], lines[q * size + k]) =
                            (cosine * a - sine * b, sine * a + cosine * b);
                    }
                }
            }
        }
    }
    ((0..size).map(|i| matrix[i * size + i]).collect(), vectors)
}

/// The minimizer of w^T X w / 2 - w^T y + l ||w||^2 / 2 for the blocks X, y of a Gram matrix, in a ball if there is one.
pub(super) fn ridge(gram: &[f64], width: usize, penalty: f64, radius: Option<f64>) -> Option<Vec<f64>> {
    let size = width + 1;
    let target: Vec<f64> = (0..width).map(|i| gram[i * size + width]).collect();
    let at = |penalty: f64| {
        let mut matrix: Vec<f64> =
            (0..width).flat_map(|i| gram[i * size..i * size + width].iter().copied()).collect();
        (0..width).for_each(|i| matrix[i * width + i] += penalty);
        Cholesky::factor(matrix, width).map(|factor| factor.solve(&target))
    };
    let norm = |weights: &[f64]| inner(weights, weights).sqrt();
    let free = at(penalty)?;
    let Some(radius) = radius.filter(|radius| norm(&free) > *radius) else { return Some(free) };
    // ||w|| falls as the penalty grows: the one that puts w on the ball, from outside.
    let (mut low, mut high) = (penalty, penalty + norm(&target) / radius);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if norm(&at(middle)?) > radius { low = middle } else { high = middle }
    }
    at(high)
}

/// How far a solution is from solving its equations, relative to their right-hand side. For tests.
#[cfg(test)]
pub(super) fn residual(gram: &[f64], width: usize, penalty: f64, weights: &[f64]) -> f64 {
    let size = width + 1;
    let square: Vec<f64> =
        (0..width).flat_map(|i| gram[i * size..i * size + width].iter().copied()).collect();
    let target: Vec<f64> = (0..width).map(|i| gram[i * size + width]).collect();
    let moved = apply(&square, weights);
    let left: f64 = (0..width).map(|i| (moved[i] + penalty * weights[i] - target[i]).powi(2)).sum();
    (left / inner(&target, &target)).sqrt()
}
