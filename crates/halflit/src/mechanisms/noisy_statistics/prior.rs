//! What is expected of weights before any label is seen: a function of public features. No privacy in here.
//!
//! A number counts in its standard deviations and from its mean, an indicator counts as it is. Then every weight is expected to be of the same size tau, and so is
//! the mean score. In the weights of the encoded columns that is a normal law of precision Lambda / tau^2,
//!
//! ```text
//! Lambda = diag(s_j^2) + m m^T,    s_j = standard deviation of a number, 1 for an indicator, 0 for a constant;   m = mean row
//! ```

use super::design::Design;
use super::matrix::inner;
use halflit_convex::{FEATURE_SCALE, Rows};

/// A number that hardly varies counts as if it varied this much: its weight is expected to be of size 32 at most.
const LEAST_DEVIATION: f64 = 1.0 / 32.0;

/// Keeps the law proper where a direction of weights never shows.
const LEAST_PRECISION: f64 = 1e-6;

/// The law of the weights of one output, up to tau; outputs are independent.
#[derive(Clone, Debug)]
pub(crate) struct Prior {
    /// s_j.
    scales: Vec<f64>,
    /// m.
    mean: Vec<f64>,
}

impl Prior {
    /// Looks at every row once.
    pub fn of(design: &Design) -> Self {
        let width = design.rows.width();
        let unit = crate::problem::FEATURE_UNIT;
        let (mut mean, mut square) = (vec![0.0; width], vec![0.0; width]);
        let mut is_indicator = vec![true; width];
        let mut total = 0.0;
        for row in 0..design.rows.len() {
            let weight = design.weight(row);
            total += weight;
            let mut see = |column: usize, q: i16| {
                let x = f64::from(q) * unit;
                mean[column] += weight * x;
                square[column] += weight * x * x;
                is_indicator[column] &= q == 0 || q == FEATURE_SCALE;
            };
            match &design.rows {
                Rows::Dense(rows) => rows.row(row).iter().enumerate().for_each(|(column, &q)| see(column, q)),
                Rows::Sparse(rows) => rows.row(row).iter().for_each(|(column, q)| see(column, q)),
            }
        }
        let total: f64 = if total > 0.0 { total } else { 1.0 };
        mean.iter_mut().for_each(|mean| *mean /= total);
        let scale = |column: usize| {
            let variance = (square[column] / total - mean[column] * mean[column]).max(0.0);
            match (variance > 1e-12, is_indicator[column]) {
                (false, _) => 0.0,
                (true, true) => 1.0,
                (true, false) => variance.sqrt().max(LEAST_DEVIATION),
            }
        };
        let scales: Vec<f64> = (0..width).map(scale).collect();
        Prior { scales, mean }
    }

    /// s_j.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    fn diagonal(&self) -> impl Iterator<Item = f64> + '_ {
        self.scales.iter().map(|scale| scale * scale + LEAST_PRECISION)
    }

    /// Lambda w, output by output.
    pub fn apply(&self, weights: &[f64]) -> Vec<f64> {
        let width = self.scales.len().max(1);
        let of_output = |block: &[f64]| -> Vec<f64> {
            let score = inner(block, &self.mean);
            let own = block.iter().zip(self.diagonal()).zip(&self.mean);
            own.map(|((w, diagonal), mean)| diagonal * w + mean * score).collect()
        };
        weights.chunks_exact(width).flat_map(of_output).collect()
    }

    /// matrix += factor * Lambda in every output's own block.
    pub fn add_to(&self, matrix: &mut [f64], factor: f64) {
        let width = self.scales.len().max(1);
        let size = matrix.len().isqrt();
        for start in (0..size).step_by(width) {
            for (row, (diagonal, one)) in self.diagonal().zip(&self.mean).enumerate() {
                let own = &mut matrix[(start + row) * size + start..][..width];
                own.iter_mut().zip(&self.mean).for_each(|(entry, other)| *entry += factor * one * other);
                own[row] += factor * diagonal;
            }
        }
    }

    /// Weights that are typical of the law: every one of size tau in its own units with the given signs, and mean score 0 as far as a constant column can see to it.
    pub fn typical(&self, weight_size: f64, sign: impl Fn(usize) -> f64, outputs: usize) -> Vec<f64> {
        let width = self.scales.len();
        let mut weights = Vec::with_capacity(width * outputs);
        for output in 0..outputs {
            let mut own: Vec<f64> = (self.scales.iter().enumerate())
                .map(
                    |(column, &scale)| {
                        if scale > 0.0 { weight_size * sign(output * width + column) / scale } else { 0.0 }
                    },
                )
                .collect();
            let score: f64 = own.iter().zip(&self.mean).map(|(w, m)| w * m).sum();
            let constant = (0..width).find(|&column| self.scales[column] == 0.0 && self.mean[column] != 0.0);
            if let Some(column) = constant {
                own[column] = -score / self.mean[column];
            }
            weights.extend(own);
        }
        weights
    }
}
