//! The model that fits best under beliefs about every row's sensitive value: post-processing only.
//!
//! ```text
//! minimise (1/W) ( sum_i omega_i sum_s p_i(s) loss(w; x_i(s), y_i(s)) + v sum over public rows of loss ) + (lambda/2) ||w||^2
//! ```
//!
//! x_i(s) = a_i + v(s): public features and the coordinates that value s fills. A pass needs n k scalars and one reading of the a_i. In a declared ball of radius R the minimizer is that of a larger
//! penalty, the one for which it lies on the sphere.

use crate::mechanisms::public_rows::default_penalty;
use crate::problem::{FEATURE_UNIT, Problem, scores};
use halflit_convex::kernel::SensitiveValues;
use halflit_convex::quasi_newton::{self, Smooth};
use halflit_convex::solver::Cholesky;
use halflit_convex::{Loss, Rows};
use halflit_table::Regularization;
use rayon::prelude::*;

/// Steps at most; twenty to forty are usual.
const STEPS: usize = 300;

/// What a step must promise to lower the mean loss by for another one, where the minimizer is the model.
pub(crate) const CLOSELY: f64 = 1e-10;

/// The same where the minimizer is a place to ask about.
pub(crate) const ROUGHLY: f64 = 1e-6;

/// Penalties that are tried at most to reach the border of a ball.
const PENALTIES: usize = 40;

/// Rows handed to a thread at a time. Fixed, so that sums of doubles do not depend on the number of threads.
const RUN_ROWS: usize = 4096;

/// Values less likely than this are left out of sums: together they change a mean loss by less than it is minimised to.
const LEAST_BELIEF: f32 = 1e-9;

/// The first guess of the curvature looks at no more than this many rows, and at values at least this likely.
const GUESSED_ROWS: usize = 8192;
const GUESSED_BELIEF: f32 = 1e-2;

/// Up to this many features the guess is a matrix; beyond, its diagonal.
const LARGEST_GUESSED: usize = 1024;

/// The declared penalty, or one that suits as many rows as there are.
pub(crate) fn penalty(problem: &Problem) -> f64 {
    match problem.regularization() {
        Regularization::Fixed(lambda) => lambda,
        Regularization::Auto => {
            default_penalty(problem.loss(), problem.dimension(), problem.total_weight(), problem.radius())
        }
    }
}

/// Rows whose sensitive values are believed in, beside rows that have none.
pub(crate) struct Believed<'a> {
    pub loss: Loss,
    /// Public features of the private rows; zero in sensitive coordinates.
    pub rows: &'a Rows,
    /// Labels of the private rows, if they are public.
    pub labels: Option<&'a [f64]>,
    pub values: &'a SensitiveValues,
    /// p_i(s), row after row.
    pub beliefs: &'a [f32],
    /// omega_i; 1 each when absent.
    pub row_weights: Option<&'a [f64]>,
    pub public: (&'a Rows, &'a [f64]),
    /// v.
    pub public_weight: f64,
    /// W.
    pub total_weight: f64,
}

impl Believed<'_> {
    /// The minimizer for this penalty, in the ball if there is one; a step that promises to lower the mean loss by `least_decrease` is still taken.
    pub fn minimizer(
        &self,
        lambda: f64,
        radius: Option<f64>,
        start: Vec<f64>,
        least_decrease: f64,
    ) -> Vec<f64> {
        let size = self.size();
        let at_penalty = |lambda: f64, start: Vec<f64>| {
            let objective = Objective { believed: self, lambda, guess: Guess::new(self, lambda) };
            quasi_newton::descend(&objective, start, STEPS, least_decrease).0
        };
        let free = at_penalty(lambda, start);
        let Some(radius) = radius.filter(|radius| !(norm(&free) <= *radius)) else { return free };
        // Norms fall as the penalty rises: bisection on its logarithm. The zero model is in every ball.
        let (mut low, mut high) = (lambda.max(1e-9), None);
        let mut inside = vec![0.0; size];
        for _ in 0..PENALTIES {
            let penalty = high.map_or(4.0 * low, |high: f64| (low * high).sqrt());
            let found = at_penalty(penalty, inside.clone());
            if norm(&found) <= radius {
                (high, inside) = (Some(penalty), found);
            } else {
                low = penalty;
            }
            if norm(&inside) >= radius * (1.0 - 1e-3) {
                break;
            }
        }
        inside
    }

    /// Number of weights.
    pub fn size(&self) -> usize {
        self.rows.width() * self.loss.outputs()
    }

    fn row_weight(&self, row: usize) -> f64 {
        self.row_weights.map_or(1.0, |weights| weights[row])
    }

    /// What every value adds to the scores, output after output within a value.
    fn shift_scores(&self, weights: &[f64]) -> Vec<f64> {
        let width = self.rows.width().max(1);
        let along = |value: usize, weights: &[f64]| {
            let shift = self.values.shift(value).iter();
            shift.map(|&(at, q)| f64::from(q) * weights[at as usize]).sum::<f64>() * FEATURE_UNIT
        };
        let of_value = |value: usize| weights.chunks(width).map(move |weights| along(value, weights));
        (0..self.values.len()).flat_map(of_value).collect()
    }

    /// The summed loss and its gradient over one run of private rows.
    fn run(&self, first: usize, weights: &[f64], shifts: &[f64]) -> Sums {
        let (outputs, k) = (self.loss.outputs(), self.values.len());
        let width = self.rows.width();
        let mut sums = Sums::zero(width * outputs);
        // What belongs to the coordinates that values fill, value by value.
        let mut of_values = vec![0.0; k * outputs];
        let (mut own, mut slope, mut total) = (vec![0.0; outputs], vec![0.0; outputs], vec![0.0; outputs]);
        for row in first..(first + RUN_ROWS).min(self.rows.len()) {
            let base = scores(self.rows, row, weights);
            let weight = self.row_weight(row);
            total.fill(0.0);
            for (value, &belief) in self.beliefs[row * k..(row + 1) * k].iter().enumerate() {
                if !(belief > LEAST_BELIEF) {
                    continue;
                }
                let shift = &shifts[value * outputs..(value + 1) * outputs];
                own.iter_mut().zip(&base).zip(shift).for_each(|((own, base), shift)| *own = base + shift);
                let label = match (self.labels, self.values.labels()) {
                    (Some(labels), _) => labels[row],
                    (None, Some(labels)) => labels[value],
                    (None, None) => 0.0,
                };
                let share = weight * f64::from(belief);
                sums.value += share * self.loss.value(&own, label);
                self.loss.derivative(&own, label, &mut slope);
                let of_value = &mut of_values[value * outputs..(value + 1) * outputs];
                for ((total, of_value), slope) in total.iter_mut().zip(of_value).zip(&slope) {
                    *total += share * slope;
                    *of_value += share * slope;
                }
            }
            add_multiples(self.rows, row, &total, &mut sums.gradient);
        }
        for (value, of_value) in of_values.chunks_exact(outputs).enumerate() {
            for &(at, q) in self.values.shift(value) {
                for (output, slope) in of_value.iter().enumerate() {
                    sums.gradient[output * width + at as usize] += slope * f64::from(q);
                }
            }
        }
        sums
    }

    /// The same over one run of public rows.
    fn public_run(&self, first: usize, weights: &[f64]) -> Sums {
        let (rows, labels) = self.public;
        let outputs = self.loss.outputs();
        let mut sums = Sums::zero(rows.width() * outputs);
        let mut slope = vec![0.0; outputs];
        for (row, &label) in labels.iter().enumerate().skip(first).take(RUN_ROWS) {
            let own = scores(rows, row, weights);
            sums.value += self.public_weight * self.loss.value(&own, label);
            self.loss.derivative(&own, label, &mut slope);
            slope.iter_mut().for_each(|slope| *slope *= self.public_weight);
            add_multiples(rows, row, &slope, &mut sums.gradient);
        }
        sums
    }

    /// The mean loss and its gradient.
    fn mean(&self, weights: &[f64]) -> Sums {
        let shifts = self.shift_scores(weights);
        let starts = |rows: usize| (0..rows).step_by(RUN_ROWS).collect::<Vec<_>>();
        let private: Vec<Sums> =
            starts(self.rows.len()).into_par_iter().map(|first| self.run(first, weights, &shifts)).collect();
        let public: Vec<Sums> = starts(self.public.0.len())
            .into_par_iter()
            .map(|first| self.public_run(first, weights))
            .collect();
        let mut mean = Sums::zero(weights.len());
        for sums in private.iter().chain(&public) {
            mean.value += sums.value / self.total_weight;
            for (mean, sum) in mean.gradient.iter_mut().zip(&sums.gradient) {
                *mean += sum * FEATURE_UNIT / self.total_weight;
            }
        }
        mean
    }
}

/// A value and its gradient; inside sums the gradient is in feature units.
struct Sums {
    value: f64,
    gradient: Vec<f64>,
}

impl Sums {
    fn zero(size: usize) -> Self {
        Sums { value: 0.0, gradient: vec![0.0; size] }
    }
}

/// gradient += slope_o q_row for every output o.
fn add_multiples(rows: &Rows, row: usize, slopes: &[f64], gradient: &mut [f64]) {
    for (&slope, gradient) in slopes.iter().zip(gradient.chunks_exact_mut(rows.width().max(1))) {
        match rows {
            Rows::Dense(rows) => {
                for (sum, &q) in gradient.iter_mut().zip(rows.row(row)) {
                    *sum += slope * f64::from(q);
                }
            }
            Rows::Sparse(rows) => {
                for (column, q) in rows.row(row).iter() {
                    gradient[column] += slope * f64::from(q);
                }
            }
        }
    }
}

fn norm(weights: &[f64]) -> f64 {
    weights.iter().map(|w| w * w).sum::<f64>().sqrt()
}

/// The penalised mean loss under beliefs.
struct Objective<'a> {
    believed: &'a Believed<'a>,
    lambda: f64,
    guess: Guess,
}

impl Smooth for Objective<'_> {
    type At = Sums;

    fn at(&self, weights: &[f64]) -> Sums {
        self.believed.mean(weights)
    }

    fn value(&self, weights: &[f64], at: &Sums) -> f64 {
        at.value + 0.5 * self.lambda * weights.iter().map(|w| w * w).sum::<f64>()
    }

    fn gradient(&self, weights: &[f64], at: &Sums) -> Vec<f64> {
        at.gradient.iter().zip(weights).map(|(g, w)| g + self.lambda * w).collect()
    }

    fn guess(&self, gradient: &[f64]) -> Vec<f64> {
        self.guess.apply(gradient)
    }
}

/// The inverse of c M / W + lambda, M the believed second moments of the rows, the same for every output.
enum Guess {
    Matrix { factor: Cholesky, width: usize },
    Diagonal(Vec<f64>),
}

impl Guess {
    /// (a + v)(a + v)^T = a a^T + a v^T + v a^T + v v^T: the public features count once for all values of a row, and what values fill once for all
    /// rows.
    fn new(believed: &Believed<'_>, lambda: f64) -> Self {
        let width = believed.rows.width();
        let curvature = crate::mechanisms::noisy_gradient::schedule::curvature(believed.loss);
        let mut moments = Moments::new(width);
        let k = believed.values.len();
        let mut sums_by_value = vec![0.0; k * width];
        let mut share_by_value = vec![0.0; k];
        for (row, every) in evenly_spread(believed.rows.len()) {
            let share = curvature * every * believed.row_weight(row) / believed.total_weight;
            let known = Entries::of(believed.rows, row);
            moments.add(&known, share);
            for (value, &belief) in believed.beliefs[row * k..(row + 1) * k].iter().enumerate() {
                if belief > GUESSED_BELIEF && !believed.values.shift(value).is_empty() {
                    let share = share * f64::from(belief);
                    share_by_value[value] += share;
                    let sums = &mut sums_by_value[value * width..][..width];
                    known.each().for_each(|(column, x)| sums[column] += share * x);
                }
            }
        }
        for (value, &share) in share_by_value.iter().enumerate() {
            let filled = Entries::some(believed.values.shift(value).iter().copied());
            moments.add(&filled, share);
            filled
                .each()
                .for_each(|(at, x)| moments.add_across(at, x, &sums_by_value[value * width..][..width]));
        }
        let (public, _) = believed.public;
        for (row, every) in evenly_spread(public.len()) {
            let share = curvature * every * believed.public_weight / believed.total_weight;
            moments.add(&Entries::of(public, row), share);
        }
        // Directions that these rows do not show are given a little curvature too.
        moments.inverse(lambda + 1e-6 * curvature)
    }

    fn apply(&self, gradient: &[f64]) -> Vec<f64> {
        match self {
            Guess::Matrix { factor, width } => {
                gradient.chunks_exact((*width).max(1)).flat_map(|block| factor.solve(block)).collect()
            }
            Guess::Diagonal(inverse) => {
                gradient.iter().zip(inverse.iter().cycle()).map(|(g, inverse)| g * inverse).collect()
            }
        }
    }
}

/// At most [`GUESSED_ROWS`] rows, and how many each of them stands for.
fn evenly_spread(rows: usize) -> impl Iterator<Item = (usize, f64)> {
    let seen = rows.min(GUESSED_ROWS);
    (0..seen).map(move |index| (index * rows / seen, rows as f64 / seen as f64))
}

/// Second moments: on and below the diagonal of a matrix, or the diagonal alone of a large one.
struct Moments {
    sums: Vec<f64>,
    width: usize,
    is_matrix: bool,
}

impl Moments {
    fn new(width: usize) -> Self {
        let is_matrix = width <= LARGEST_GUESSED;
        Moments { sums: vec![0.0; if is_matrix { width * width } else { width }], width, is_matrix }
    }

    /// Adds `share` x x^T.
    fn add(&mut self, entries: &Entries, share: f64) {
        for (own, (column, x)) in entries.each().enumerate() {
            if !self.is_matrix {
                self.sums[column] += share * x * x;
                continue;
            }
            let (line, x) = (&mut self.sums[column * self.width..][..self.width], share * x);
            let others = &entries.values[..=own];
            match &entries.columns {
                None => line.iter_mut().zip(others).for_each(|(sum, y)| *sum += x * y),
                Some(columns) => columns.iter().zip(others).for_each(|(&other, y)| line[other] += x * y),
            }
        }
    }

    /// Adds x times other columns' sums to the moments of `column`, where they are zero themselves.
    fn add_across(&mut self, column: usize, x: f64, sums: &[f64]) {
        for (other, sum) in sums.iter().enumerate().filter(|_| self.is_matrix) {
            self.sums[column.max(other) * self.width + column.min(other)] += x * sum;
        }
    }

    /// The inverse of these and a ridge.
    fn inverse(self, ridge: f64) -> Guess {
        let Moments { mut sums, width, is_matrix } = self;
        let apart = if is_matrix { width + 1 } else { 1 };
        sums.iter_mut().step_by(apart).for_each(|sum| *sum += ridge);
        let diagonal = || Guess::Diagonal(sums.iter().step_by(apart).map(|sum| 1.0 / sum).collect());
        if !is_matrix {
            return diagonal();
        }
        match Cholesky::factor(sums.clone(), width) {
            Some(factor) => Guess::Matrix { factor, width },
            None => diagonal(),
        }
    }
}

/// Entries of a row in real units, in the order of columns.
struct Entries {
    /// Their columns, if they are not all.
    columns: Option<Vec<usize>>,
    values: Vec<f64>,
}

impl Entries {
    /// Those of a row.
    fn of(rows: &Rows, row: usize) -> Self {
        match rows {
            Rows::Dense(rows) => {
                let values = rows.row(row).iter().map(|&q| f64::from(q) * FEATURE_UNIT).collect();
                Entries { columns: None, values }
            }
            Rows::Sparse(rows) => Entries::some(rows.row(row).iter().map(|(column, q)| (column as u32, q))),
        }
    }

    fn some(entries: impl Iterator<Item = (u32, i16)>) -> Self {
        let real = |(column, q): (u32, i16)| (column as usize, f64::from(q) * FEATURE_UNIT);
        let (columns, values) = entries.map(real).unzip();
        Entries { columns: Some(columns), values }
    }

    fn each(&self) -> impl Iterator<Item = (usize, f64)> {
        let column = |own: usize| self.columns.as_ref().map_or(own, |columns| columns[own]);
        self.values.iter().enumerate().map(move |(own, &value)| (column(own), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;
    use halflit_convex::{DenseRows, LossSpec, SparseRows};

    /// The guess against the sum of (a + v)(a + v)^T over rows and values written out, in both storages and beyond what is kept as a matrix.
    #[test]
    fn the_guessed_curvature_is_that_of_rows_with_their_values() {
        for width in [5, LARGEST_GUESSED + 1] {
            let mut numbers = Numbers(3);
            // Columns 1 and 3 are the sensitive ones.
            let cell = |column: usize, number: f64| match column {
                1 | 3 => 0,
                _ => (16_384.0 * (2.0 * number - 1.0)) as i16,
            };
            let cells: Vec<Vec<i16>> =
                (0..40).map(|_| (0..width).map(|column| cell(column, numbers.next())).collect()).collect();
            let mut sparse = SparseRows::new(width).unwrap();
            for row in &cells {
                let (columns, values): (Vec<u32>, Vec<i16>) =
                    (0..).zip(row).filter(|(_, q)| **q != 0).map(|(column, q)| (column, *q)).unzip();
                sparse.push_row(&columns, &values).unwrap();
            }
            let shifts = vec![vec![], vec![(1, 16_384)], vec![(1, -9_000), (3, 12_000)]];
            let values = SensitiveValues::new(shifts.clone(), None).unwrap();
            let beliefs: Vec<f32> =
                (0..40).flat_map(|row| [0.2, 0.3 + 0.01 * row as f32, 0.5 - 0.01 * row as f32]).collect();
            let loss = Loss::new(LossSpec::Logistic).unwrap();
            let (lambda, curvature) = (0.01, 0.25);
            let mut expected = vec![0.0; width * width];
            let mut add = |row: &[f64], share: f64| {
                for i in 0..width {
                    for j in 0..width {
                        expected[i * width + j] += curvature * share * row[i] * row[j];
                    }
                }
            };
            let real = |row: &[i16]| row.iter().map(|&q| f64::from(q) * FEATURE_UNIT).collect::<Vec<_>>();
            for (row, beliefs) in cells.iter().zip(beliefs.chunks_exact(3)) {
                for (shift, &belief) in shifts.iter().zip(beliefs) {
                    let mut filled = row.clone();
                    shift.iter().for_each(|&(column, q)| filled[column as usize] = q);
                    add(&real(&filled), f64::from(belief) / 50.0);
                }
                add(&real(row), 0.5 / 50.0);
            }
            expected.iter_mut().step_by(width + 1).for_each(|entry| *entry += lambda + 1e-6 * curvature);
            let gradient: Vec<f64> = (0..width).map(|_| numbers.next() - 0.5).collect();
            let labels = vec![1.0; 40];
            for rows in [Rows::from(DenseRows::from_rows(width, &cells).unwrap()), sparse.into()] {
                let believed = Believed {
                    loss,
                    rows: &rows,
                    labels: Some(&labels),
                    values: &values,
                    beliefs: &beliefs,
                    row_weights: None,
                    public: (&rows, &labels),
                    public_weight: 0.5,
                    total_weight: 50.0,
                };
                let found = Guess::new(&believed, lambda).apply(&gradient);
                for (i, g) in gradient.iter().enumerate() {
                    let line = &expected[i * width..][..width];
                    let back = if width <= LARGEST_GUESSED {
                        line.iter().zip(&found).map(|(h, w)| h * w).sum()
                    } else {
                        line[i] * found[i]
                    };
                    assert!((back - g).abs() < 1e-6, "{width} {i}: {back} {g}");
                }
            }
        }
    }
}
