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
    fn new(believed: &Believed<'_>, lambda: f64) -> Self {
        let width = believed.rows.width();
        let curvature = crate::mechanisms::noisy_gradient::schedule::curvature(believed.loss);
        let is_matrix = width <= LARGEST_GUESSED;
        let mut moments = vec![0.0; if is_matrix { width * width } else { width }];
        let mut add = |entries: &[(usize, f64)], share: f64| {
            for &(i, x) in entries {
                if is_matrix {
                    entries.iter().for_each(|&(j, y)| moments[i * width + j] += share * x * y);
                } else {
                    moments[i] += share * x * x;
                }
            }
        };
        let seen = believed.rows.len().min(GUESSED_ROWS);
        let scale = curvature * believed.rows.len() as f64 / (seen.max(1) as f64 * believed.total_weight);
        let k = believed.values.len();
        for index in 0..seen {
            let row = index * believed.rows.len() / seen;
            let known = entries(believed.rows, row);
            let beliefs = &believed.beliefs[row * k..(row + 1) * k];
            for (value, &belief) in beliefs.iter().enumerate().filter(|(_, p)| **p > GUESSED_BELIEF) {
                let mut filled = known.clone();
                let shift = believed.values.shift(value).iter();
                filled.extend(shift.map(|&(at, q)| (at as usize, f64::from(q) * FEATURE_UNIT)));
                add(&filled, scale * believed.row_weight(row) * f64::from(belief));
            }
        }
        let (public, _) = believed.public;
        let seen = public.len().min(GUESSED_ROWS);
        let scale = curvature * believed.public_weight * public.len() as f64
            / (seen.max(1) as f64 * believed.total_weight);
        for index in 0..seen {
            add(&entries(public, index * public.len() / seen), scale);
        }
        // Directions that these rows do not show are given a little curvature too.
        let ridge = lambda + 1e-6 * curvature;
        if is_matrix {
            let mut matrix = moments.clone();
            matrix.iter_mut().step_by(width + 1).for_each(|entry| *entry += ridge);
            if let Some(factor) = Cholesky::factor(matrix, width) {
                return Guess::Matrix { factor, width };
            }
            moments = moments.iter().step_by(width + 1).copied().collect();
        }
        Guess::Diagonal(moments.iter().map(|m| 1.0 / (m + ridge)).collect())
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

/// The entries of a row that are not zero, in real units.
fn entries(rows: &Rows, row: usize) -> Vec<(usize, f64)> {
    let real = |(column, q): (usize, i16)| (column, f64::from(q) * FEATURE_UNIT);
    match rows {
        Rows::Dense(rows) => {
            rows.row(row).iter().copied().enumerate().filter(|(_, q)| *q != 0).map(real).collect()
        }
        Rows::Sparse(rows) => rows.row(row).iter().map(real).collect(),
    }
}
