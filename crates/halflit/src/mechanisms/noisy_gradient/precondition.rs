//! The public preconditioner: steps along (X^T X / n + r I)^-1 of the public rows (Amid et al. 2022).

use super::MechanismError;
use crate::problem::{FEATURE_UNIT, Problem};
use halflit_convex::Rows;
use halflit_convex::solver::linear::Cholesky;
use rayon::prelude::*;
use std::sync::Arc;

/// Most weights for which the matrix is formed.
pub(super) const MOST_WEIGHTS: usize = 4096;

/// Rows that are added to the matrix at a time: it is larger than the caches, they are not.
const BLOCK: usize = 16;

/// Lines of the matrix that are worth a task of their own.
const LINES: usize = 64;

/// The inverse of a second-moment matrix, scaled so that its largest eigenvalue is 1.
///
/// Written out, and in single precision: a step is a product with it, and thousands of steps wait for it to come from memory. With a very
/// small ridge the stiffest directions are only roughly right, which changes the descent, not what it costs.
pub(super) struct Preconditioner {
    width: usize,
    inverse: Arc<[f32]>,
}

impl Preconditioner {
    /// For the problem's public rows and `ridge` added to the diagonal. The problem keeps the inverse.
    pub fn of(problem: &Problem, ridge: f64) -> Result<Self, MechanismError> {
        let (rows, _) = problem.public_data();
        let (width, key) = (rows.width(), ridge.to_bits());
        if let Some((_, inverse)) = problem.public_inverse().get().filter(|(known, _)| *known == key) {
            return Ok(Preconditioner { width, inverse: Arc::clone(inverse) });
        }
        let inverse = inverse(rows, ridge)?;
        problem.public_inverse().get_or_init(|| (key, Arc::clone(&inverse)));
        Ok(Preconditioner { width, inverse })
    }

    /// The preconditioned gradient.
    pub fn apply(&self, gradient: &[f64]) -> Vec<f64> {
        let mut product = vec![0f32; self.width];
        // The matrix is symmetric: its lines are its columns.
        let lines = self.inverse.chunks_exact(self.width.max(1)).zip(gradient);
        let mut lines: Vec<(&[f32], f32)> = lines.map(|(line, &g)| (line, g as f32)).collect();
        lines.resize(lines.len().next_multiple_of(4), (&self.inverse[..self.width], 0.0));
        for [(a, p), (b, q), (c, r), (d, s)] in lines.as_chunks().0 {
            for ((((sum, a), b), c), d) in product.iter_mut().zip(*a).zip(*b).zip(*c).zip(*d) {
                *sum += (a * p + b * q) + (c * r + d * s);
            }
        }
        product.into_iter().map(f64::from).collect()
    }
}

/// (X^T X / n + ridge)^-1, scaled.
fn inverse(rows: &Rows, ridge: f64) -> Result<Arc<[f32]>, MechanismError> {
    let (width, count) = (rows.width(), rows.len() as f64);
    let mut matrix = vec![0.0; width * width];
    for first in (0..rows.len()).step_by(BLOCK) {
        let mut block = Vec::with_capacity(BLOCK);
        for index in first..(first + BLOCK).min(rows.len()) {
            let row = rows.dense_row(index)?;
            block.push(row.iter().map(|&q| f64::from(q) * FEATURE_UNIT).collect::<Vec<_>>());
        }
        block.resize(block.len().next_multiple_of(4), vec![0.0; width]);
        let (fours, _) = block.as_chunks();
        matrix.par_chunks_exact_mut(width.max(1)).enumerate().with_min_len(LINES).for_each(|(i, line)| {
            for [a, b, c, d] in fours {
                for ((((entry, p), q), r), s) in line[..=i].iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *entry += (a[i] * p + b[i] * q) + (c[i] * r + d[i] * s);
                }
            }
        });
    }
    for (index, entry) in matrix.iter_mut().enumerate() {
        *entry /= count;
        if index / width == index % width {
            *entry += ridge;
        }
    }
    let factor = Cholesky::factor(matrix, width).ok_or(MechanismError::not_positive("ridge", ridge))?;
    // Inverse power iteration: its growth tends to 1 / (smallest eigenvalue).
    let mut vector: Vec<f64> = (0..width).map(|column| if column % 3 == 0 { -1.0 } else { 1.0 }).collect();
    let mut smallest = ridge;
    for _ in 0..50 {
        let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|v| *v /= length);
        vector = factor.solve(&vector);
        smallest = 1.0 / vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    }
    let line = |column: usize| {
        let unit: Vec<f64> = (0..width).map(|row| f64::from(u8::from(row == column))).collect();
        factor.solve(&unit).into_iter().map(|value| (value * smallest) as f32).collect::<Vec<_>>()
    };
    Ok((0..width).into_par_iter().flat_map_iter(line).collect::<Vec<_>>().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halflit_convex::DenseRows;

    #[test]
    fn the_inverse_undoes_the_matrix_and_is_at_most_one() {
        let (width, ridge) = (7, 0.01);
        let cell = |index: usize| ((index * 7919 + index * index * 31) % 32_769) as i32 - 16_384;
        let values: Vec<i16> = (0..40 * width).map(|index| cell(index) as i16).collect();
        let row = |index: usize| -> Vec<f64> {
            values[index * width..][..width].iter().map(|&q| f64::from(q) * FEATURE_UNIT).collect()
        };
        let matrix = |vector: &[f64]| -> Vec<f64> {
            let mut product: Vec<f64> = vector.iter().map(|v| ridge * v).collect();
            for row in (0..40).map(row) {
                let score: f64 = row.iter().zip(vector).map(|(x, v)| x * v).sum();
                product.iter_mut().zip(&row).for_each(|(p, x)| *p += score * x / 40.0);
            }
            product
        };
        let rows = Rows::from(DenseRows::from_values(width, values.clone()).unwrap());
        let preconditioner = Preconditioner { width, inverse: inverse(&rows, ridge).unwrap() };
        let vector: Vec<f64> = (0..width).map(|j| j as f64 - 2.5).collect();
        let back = preconditioner.apply(&matrix(&vector));
        let factor = back[0] / vector[0];
        for (back, vector) in back.iter().zip(&vector) {
            assert!((back - factor * vector).abs() < 1e-5, "{back} {vector} {factor}");
        }
        // the largest eigenvalue: repeated products neither grow nor vanish
        let mut longest = vector;
        for _ in 0..200 {
            let length = longest.iter().map(|v| v * v).sum::<f64>().sqrt();
            longest.iter_mut().for_each(|v| *v /= length);
            longest = preconditioner.apply(&longest);
        }
        let growth = longest.iter().map(|v| v * v).sum::<f64>().sqrt();
        assert!((growth - 1.0).abs() < 1e-3, "{growth}");
    }
}
