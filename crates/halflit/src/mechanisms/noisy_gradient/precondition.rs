//! The public preconditioner: steps along (X^T X / n + r I)^-1 of the public rows (Amid et al. 2022).

use super::MechanismError;
use crate::problem::FEATURE_UNIT;
use halflit_convex::Rows;
use halflit_convex::solver::linear::Cholesky;
use rayon::prelude::*;

/// Most weights for which the matrix is formed.
pub(super) const MOST_WEIGHTS: usize = 4096;

/// Rows that are added to the matrix at a time: it is larger than the caches, they are not.
const BLOCK: usize = 16;

/// Lines of the matrix that are worth a task of their own.
const LINES: usize = 64;

/// A factorised second-moment matrix, scaled so that its inverse has largest eigenvalue 1.
pub(super) struct Preconditioner {
    factor: Cholesky,
    smallest: f64,
}

impl Preconditioner {
    /// The matrix of these public rows with `ridge` added to its diagonal.
    pub fn new(rows: &Rows, ridge: f64) -> Result<Self, MechanismError> {
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
            matrix.par_chunks_exact_mut(width.max(1)).enumerate().with_min_len(LINES).for_each(
                |(i, line)| {
                    for [a, b, c, d] in fours {
                        for ((((entry, p), q), r), s) in line[..=i].iter_mut().zip(a).zip(b).zip(c).zip(d) {
                            *entry += (a[i] * p + b[i] * q) + (c[i] * r + d[i] * s);
                        }
                    }
                },
            );
        }
        for (index, entry) in matrix.iter_mut().enumerate() {
            *entry /= count;
            if index / width == index % width {
                *entry += ridge;
            }
        }
        let factor = Cholesky::factor(matrix, width).ok_or(MechanismError::not_positive("ridge", ridge))?;
        // Inverse power iteration: its growth tends to 1 / (smallest eigenvalue).
        let mut vector: Vec<f64> =
            (0..width).map(|column| if column % 3 == 0 { -1.0 } else { 1.0 }).collect();
        let mut smallest = ridge;
        for _ in 0..50 {
            let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
            vector.iter_mut().for_each(|v| *v /= length);
            vector = factor.solve(&vector);
            smallest = 1.0 / vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        }
        Ok(Preconditioner { factor, smallest })
    }

    /// The preconditioned gradient.
    pub fn apply(&self, gradient: &[f64]) -> Vec<f64> {
        self.factor.solve(gradient).iter().map(|value| value * self.smallest).collect()
    }
}
