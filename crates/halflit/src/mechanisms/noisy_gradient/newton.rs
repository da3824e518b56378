//! Newton steps with the curvature of the public rows, as long as the public fit is uncertain.
//!
//! Let H be the curvature of the mean loss over all n rows, w* its minimizer, and w_0 the fit of the n_pub public rows under a normal prior of norm R.
//! As far as the loss is quadratic, w_0 - w* is about normal with mean 0 and precision P = N H + (d / R^2) I, where N = n_pub n / n_priv, and the noisy
//! gradient at w_t is H (w_t - w*) plus noise of variance s^2 per coordinate. The most likely w* given the first t + 1 of them is (Kalman 1960)
//!
//! ```text
//! w_{t+1} = w_t - H ((t + 1) H^2 + s^2 P)^-1 gradient_t
//! ```
//!
//! and T steps of s^2 = T a^2 leave the expected excess risk tr H (P + H^2 / a^2)^-1 / 2: direction by direction less than the public rows alone and less than the
//! noise alone. No step is longer than the public fit is uncertain, so the steps stay where the loss is about quadratic.
//!
//! H is not known. The public rows' own curvature stands in for it, in the steps with one row's share of its trace added in every direction: few
//! public rows miss directions, and steps that are too short are safe where steps that are too long are not. A curvature taken for 1/(1 - e) times what it
//! is leaves about e T^-(1 - e) of the public fit's error after T steps.

use super::schedule;
use crate::mechanisms::{MechanismError, public_rows};
use crate::problem::{FEATURE_UNIT, Problem};
use halflit_convex::solver::{self, ProblemSpec};
use halflit_convex::{Domain, Eigen, Interval, LabelDomain, Loss, LossSpec, Rows};
use std::borrow::Cow;

/// Most weights for which the matrix is formed and decomposed.
const MOST_WEIGHTS: usize = 1024;

/// Rows from which the curvature is measured: more would change it by a percent or so.
const MEASURED_ROWS: usize = 20_000;

/// How many steps: one would do if the loss were quadratic and the curvature known, many make up for what is not known.
pub(super) const STEPS: u64 = 64;

/// How wrong the measured curvature is guessed to be, times sqrt(weights / public rows); measured on surveys with 24 to 240 public rows for 7 weights.
const GUESSED_ERROR: f64 = 1.3;

/// From so many public rows per weight on their second moments are within a factor of two or so of what they stand for, in every direction.
const ROWS_PER_DIRECTION: f64 = 16.0;

/// Least share of the largest possible trace that the curvature must have to step by it.
const LEAST_BEND: f64 = 1e-3;

/// The curvature of the mean loss as the public rows show it, and how certain their fit is.
#[derive(Clone, Debug)]
pub(super) struct Curvature {
    along: Eigen,
    /// What is added to the curvature in every direction when a step is taken.
    missed: f64,
    /// lambda, which is part of the curvature.
    penalty: f64,
    /// 1 / phi ([`public_rows::dispersion`]): what a row makes certain per unit of curvature.
    certainty_per_row: f64,
    /// The same of all public rows: how certain their fit is.
    public: f64,
    /// N: the same with the public rows' part in the steps themselves.
    certainty: f64,
    /// d / R^2.
    prior: f64,
    /// e: by how much the curvature may be taken for too large, as a share of it.
    error: f64,
}

impl Curvature {
    /// At `weights`; none without public rows, for a loss with kinks, and for too many weights.
    pub fn of_public_rows(problem: &Problem, weights: &[f64]) -> Result<Option<Self>, MechanismError> {
        let (rows, labels) = problem.public_data();
        let size = problem.dimension();
        if !is_open_to(problem) {
            return Ok(None);
        }
        let count = rows.len() as f64;
        let (rows, labels) = thinned(rows, labels)?;
        let Some(mut along) = second_derivatives(problem, problem.loss(), &rows, &labels, weights)? else {
            return Ok(None);
        };
        // Rounding may leave a small negative number.
        let penalty = problem.declared_penalty();
        along.values.iter_mut().for_each(|value| *value = value.max(0.0) + penalty);
        let missed = along.values.iter().sum::<f64>() / count;
        // Rows that lie where the loss is straight say nothing about how it bends.
        if !(missed * count > LEAST_BEND * schedule::curvature(problem.loss()) * mean_squared_norm(&rows)) {
            return Ok(None);
        }
        let certainty_per_row = 1.0 / public_rows::dispersion(problem)?;
        let public = count * certainty_per_row;
        let certainty = public * problem.total_weight() / problem.private_units().max(1) as f64;
        let radius = public_rows::weights_norm(problem)?;
        let error = (GUESSED_ERROR * (size as f64 / count).sqrt()).min(0.9);
        let prior = size as f64 / radius.powi(2);
        Ok(Some(Curvature { along, missed, penalty, certainty_per_row, public, certainty, prior, error }))
    }

    /// The curvature seen along every direction, and what it may be there: few rows miss some of it.
    fn directions(&self) -> impl Iterator<Item = (f64, f64)> {
        self.along.values.iter().map(|&seen| (seen, seen + self.missed))
    }

    /// The expected excess risk of the public fit itself.
    pub fn excess_of_public_fit(&self) -> f64 {
        0.5 * self.directions().map(|(seen, h)| h / (self.public * seen + self.prior)).sum::<f64>()
    }

    /// Whether there are so many public rows that steps which follow their second moments without a safeguard may be predicted.
    pub fn shows_all_directions(&self, rows: u64) -> bool {
        rows as f64 >= ROWS_PER_DIRECTION * self.along.values.len() as f64
    }

    /// P along a direction of curvature h.
    fn precision(&self, h: f64) -> f64 {
        self.certainty * h + self.prior
    }

    /// The expected excess risk after Newton steps; `noise` is a, what the whole budget puts on one release of the mean gradient.
    pub fn excess_of_newton(&self, steps: u64, noise: f64) -> f64 {
        let left = self.error * (steps as f64).powf(self.error - 1.0);
        let excess = |(seen, h): (f64, f64)| {
            let precision = self.precision(seen);
            h / (precision + (h / noise).powi(2)) + left.powi(2) * h / precision
        };
        0.5 * self.directions().map(excess).sum::<f64>()
    }

    /// The step size of plain steps from the public fit along the gradients of `units` private units times (S + r)^-1, S the second moments, scaled to largest
    /// eigenvalue 1, that leaves the least excess risk, and that risk; `noise` is what every step's gradient has per coordinate.
    ///
    /// These steps lead to the private units' own minimizer, from which the public fit deviates more than from that of all rows, and which has an excess of its own.
    pub fn best_preconditioned(&self, ridge: f64, units: f64, steps: u64, noise: f64) -> (f64, f64) {
        let private = units * self.certainty_per_row;
        let both = self.public + private;
        let own: f64 = 0.5 * self.along.values.len() as f64 * (1.0 / private - 1.0 / both);
        let moment = |h: f64| (h - self.penalty).max(0.0) + ridge;
        let flattest = self.along.values.iter().map(|&h| moment(h)).fold(f64::INFINITY, f64::min);
        let excess = |step_size: f64| -> f64 {
            let along = |(seen, h): (f64, f64)| {
                let step = step_size * flattest / moment(seen);
                let kept = (1.0 - step * h).powi(2);
                let left = kept.powf(steps as f64);
                // noise^2 step^2 (1 + kept + kept^2 + ...): `steps` terms
                let terms = if kept < 1.0 { (1.0 - left) / (1.0 - kept) } else { steps as f64 };
                let precision = self.public * private / both * seen + self.prior;
                0.5 * h * (left / precision + (noise * step).powi(2) * terms)
            };
            own + self.directions().map(along).sum::<f64>()
        };
        // At the longest one a flat direction is crossed in one step, and none is overshot.
        let tried = (0..40).map(|halvings| (-0.5 * f64::from(halvings)).exp2() / flattest);
        let worst = (1.0 / flattest, f64::INFINITY);
        tried.map(|size| (size, excess(size))).fold(worst, |a, b| if b.1 < a.1 { b } else { a })
    }

    /// The expected excess risk of a descent from zero for a total time t to a minimizer of norm R in a random direction.
    pub fn excess_of_descent(&self, time: f64, noise: f64) -> f64 {
        let excess = |h: f64| {
            let left = (-2.0 * h * time).exp();
            0.5 * h * left / self.prior + 0.25 * noise.powi(2) * time * (1.0 - left)
        };
        self.along.values.iter().map(|&h| excess(h)).sum()
    }
}

/// Whether there can be Newton steps: public rows, a smooth loss, few enough weights.
pub(super) fn is_open_to(problem: &Problem) -> bool {
    let (rows, _) = problem.public_data();
    !rows.is_empty() && problem.dimension() <= MOST_WEIGHTS && problem.loss().is_smooth()
}

/// The second derivatives of the mean of a loss over some public rows, at `weights`.
fn second_derivatives(
    problem: &Problem,
    loss: Loss,
    rows: &Rows,
    labels: &[f64],
    weights: &[f64],
) -> Result<Option<Eigen>, MechanismError> {
    let measured = solver::Problem::new(ProblemSpec {
        rows,
        row_norm: problem.row_norm_bound(),
        labels: Some(labels),
        row_weights: None,
        total_weight: rows.len() as f64,
        loss,
        // Second derivatives leave the penalty out.
        regularization: 1.0,
        anchor: None,
        linear: None,
        domain: Domain::whole(weights.len(), None)?,
    })?;
    Ok(Eigen::of(&measured.second_order(weights).hessian, weights.len()))
}

/// The standard deviation that the public rows leave of a minimizer that was normal with norm R, as far as their features' second moments s tell: the
/// root of the sum of 1 / (n c s + d / R^2) over their directions and the outputs, c the curvature of the loss along a score. Infinite for too many features.
pub(super) fn left_open(problem: &Problem) -> Result<f64, MechanismError> {
    let (rows, labels) = problem.public_data();
    let (count, loss) = (rows.len() as f64, problem.loss());
    if rows.is_empty() || rows.width() > MOST_WEIGHTS {
        return Ok(f64::INFINITY);
    }
    let (rows, labels) = thinned(rows, labels)?;
    let (squared, labels) =
        (Loss::new(LossSpec::Squared { labels: Interval::UNIT })?, vec![0.0; labels.len()]);
    let zero = vec![0.0; rows.width()];
    let Some(moments) = second_derivatives(problem, squared, &rows, &labels, &zero)? else {
        return Ok(f64::INFINITY);
    };
    let curvature = match loss.label_domain() {
        LabelDomain::Classes(classes) => 1.0 / classes as f64,
        _ => schedule::curvature(loss),
    };
    let radius = public_rows::weights_norm(problem)?;
    let prior = problem.dimension() as f64 / radius.powi(2);
    let variance = |moment: f64| loss.outputs() as f64 / (count * curvature * moment.max(0.0) + prior);
    Ok(moments.values.iter().map(|&moment| variance(moment)).sum::<f64>().sqrt())
}

/// Why there are no Newton steps.
pub(super) fn no_curvature() -> MechanismError {
    MechanismError::part(
        "Newton steps",
        "public rows that lie where the loss bends (a few may not), a smooth loss and at most 1024 weights; take another descent",
    )
}

/// The mean squared norm of a row.
fn mean_squared_norm(rows: &Rows) -> f64 {
    let total: f64 = rows.squared_norms().iter().map(|&norm| norm as f64).sum();
    total * FEATURE_UNIT * FEATURE_UNIT / rows.len().max(1) as f64
}

/// Some of the rows, evenly spread, if there are very many.
fn thinned<'a>(rows: &'a Rows, labels: &'a [f64]) -> Result<(Cow<'a, Rows>, Cow<'a, [f64]>), MechanismError> {
    let apart = rows.len().div_ceil(MEASURED_ROWS);
    if apart <= 1 {
        return Ok((Cow::Borrowed(rows), Cow::Borrowed(labels)));
    }
    let picked: Vec<u32> = (0..rows.len() as u32).step_by(apart).collect();
    let labels = labels.iter().copied().step_by(apart).collect();
    Ok((Cow::Owned(rows.select(&picked)?), Cow::Owned(labels)))
}

/// How a gradient is turned, step after step.
pub(super) struct Newton {
    curvature: Curvature,
    /// s.
    noise: f64,
    done: u64,
}

impl Newton {
    pub fn new(curvature: Curvature, noise: f64) -> Self {
        Newton { curvature, noise, done: 0 }
    }

    /// What to subtract from the weights for this gradient.
    pub fn step(&mut self, gradient: &[f64]) -> Vec<f64> {
        self.done += 1;
        let size = gradient.len();
        let mut step = vec![0.0; size];
        let Curvature { along, missed, .. } = &self.curvature;
        for (vector, &seen) in along.vectors.chunks_exact(size.max(1)).zip(&along.values) {
            let h = seen + missed;
            let certain = self.noise.powi(2) * self.curvature.precision(seen);
            let gain = h / (self.done as f64 * h * h + certain);
            let part: f64 = vector.iter().zip(gradient).map(|(v, g)| v * g).sum();
            step.iter_mut().zip(vector).for_each(|(step, v)| *step += gain * part * v);
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::{Clip, Descent, Start};
    use super::super::{Params, Plan};
    use super::*;
    use crate::testing::Numbers;
    use halflit_privacy::calibrate::Budget;
    use halflit_privacy::{Delta, Epsilon};
    use halflit_table::{Column, Declaration, Declared, OutOfDomain, Table};

    /// Twelve uniform numbers: near enough to a normal one, with the same two moments.
    fn normals(seed: u64) -> impl FnMut() -> f64 {
        let mut numbers = Numbers(seed);
        move || (0..12).map(|_| numbers.next()).sum::<f64>() - 6.0
    }

    const STEPS: u64 = 8;
    const NOISE: f64 = 0.3;

    /// Curvatures 2 and 0.1 along (0.6, 0.8) and (0.8, -0.6), known exactly.
    fn curvature() -> Curvature {
        let along = Eigen { values: vec![2.0, 0.1], vectors: vec![0.6, 0.8, 0.8, -0.6] };
        Curvature {
            along,
            missed: 0.0,
            penalty: 0.0,
            certainty_per_row: 1.0,
            public: 50.0,
            certainty: 50.0,
            prior: 0.5,
            error: 0.0,
        }
    }

    fn times_curvature(w: [f64; 2]) -> [f64; 2] {
        let (one, two) = (2.0 * (0.6 * w[0] + 0.8 * w[1]), 0.1 * (0.8 * w[0] - 0.6 * w[1]));
        [0.6 * one + 0.8 * two, 0.8 * one - 0.6 * two]
    }

    /// The last iterate and the mean of H w - gradient over the steps, which is H w* but for noise.
    fn descend(start: [f64; 2], normal: &mut impl FnMut() -> f64) -> ([f64; 2], [f64; 2]) {
        let mut newton = Newton::new(curvature(), NOISE);
        let (mut w, mut measured) = (start, [0.0; 2]);
        for _ in 0..STEPS {
            let at = times_curvature(w);
            let gradient = at.map(|value| value + NOISE * normal());
            for i in 0..2 {
                measured[i] += (at[i] - gradient[i]) / STEPS as f64;
            }
            let step = newton.step(&gradient);
            w = [w[0] - step[0], w[1] - step[1]];
        }
        (w, measured)
    }

    #[test]
    fn the_last_iterate_is_the_most_likely_minimizer() {
        let mut normal = normals(7);
        let start = [1.0, -2.0];
        let (found, measured) = descend(start, &mut normal);
        // Along an eigenvector: (p w_0 + T h m / s^2) / (p + T h^2 / s^2), m the mean measurement of h w*.
        for (vector, h) in [([0.6, 0.8], 2.0), ([0.8, -0.6], 0.1)] {
            let part = |w: [f64; 2]| vector[0] * w[0] + vector[1] * w[1];
            let (p, worth) = (50.0 * h + 0.5, STEPS as f64 * h / NOISE.powi(2));
            let expected = (p * part(start) + worth * part(measured)) / (p + worth * h);
            assert!((part(found) - expected).abs() < 1e-12, "{h}: {} {expected}", part(found));
        }
    }

    #[test]
    fn the_excess_is_the_predicted_one() {
        // A chi-squared of 2 x 4,000 draws has a relative deviation of 3 % at most (here less, by unequal weights): 5 deviations are 15 %.
        let mut normal = normals(8);
        let draws = 4_000;
        let mut total = 0.0;
        for _ in 0..draws {
            // The minimizer is 0; the public fit deviates from it along each eigenvector by 1 / sqrt(p).
            let (one, two) = (normal() / 100.5f64.sqrt(), normal() / 5.5f64.sqrt());
            let start = [0.6 * one + 0.8 * two, 0.8 * one - 0.6 * two];
            let (found, _) = descend(start, &mut normal);
            let gradient = times_curvature(found);
            total += 0.5 * (found[0] * gradient[0] + found[1] * gradient[1]);
        }
        let (mean, predicted) =
            (total / f64::from(draws), curvature().excess_of_newton(STEPS, NOISE / (STEPS as f64).sqrt()));
        assert!((mean / predicted - 1.0).abs() < 0.15, "{mean} {predicted}");
        // A prediction without the noise, or without the public rows, would fail.
        assert!(curvature().excess_of_newton(STEPS, NOISE) > 1.3 * predicted);
    }

    /// The predicted excess of preconditioned steps is the one measured, and no other step size in a wide range does better.
    #[test]
    fn preconditioned_steps_are_chosen_by_their_excess() {
        let (ridge, draws) = (0.05, 4_000);
        // So many private units that their own minimizer is the best there is.
        let (step_size, predicted) = curvature().best_preconditioned(ridge, 1e12, STEPS, NOISE);
        let flattest = 0.1 + ridge;
        let mut normal = normals(9);
        let mut measured = |step_size: f64| {
            let mut total = 0.0;
            for _ in 0..draws {
                for (h, p) in [(2.0, 100.5), (0.1, 5.5f64)] {
                    let mut w = normal() / p.sqrt();
                    for _ in 0..STEPS {
                        w -= step_size * flattest / (h + ridge) * (h * w + NOISE * normal());
                    }
                    total += 0.5 * h * w * w;
                }
            }
            total / f64::from(draws)
        };
        // As in `the_excess_is_the_predicted_one`: 5 deviations are 15 %.
        let found = measured(step_size);
        assert!((found / predicted - 1.0).abs() < 0.15, "{found} {predicted}");
        for wrong in [0.25, 4.0] {
            assert!(measured(wrong * step_size) > predicted, "{wrong}");
        }
        // Few private units have a minimizer that is itself far off: about d / 2n.
        let few = curvature().best_preconditioned(ridge, 10.0, STEPS, 1e-6).1;
        assert!((few / (1.0 / 10.0 - 1.0 / 60.0) - 1.0).abs() < 0.2, "{few}");
    }

    #[test]
    fn both_together_are_better_than_either() {
        let alone = |noise: f64| curvature().excess_of_newton(STEPS, noise);
        let public_rows = 0.5 * (2.0 / 100.5 + 0.1 / 5.5);
        for noise in [1e-3f64, 0.03, 0.3, 3.0] {
            let noise_only = 0.5 * noise.powi(2) * (1.0 / 2.0 + 1.0 / 0.1);
            assert!(alone(noise) < public_rows && alone(noise) < noise_only, "{noise}");
        }
        assert!((alone(1e6) / public_rows - 1.0).abs() < 1e-6);
        let mistaken = Curvature { error: 0.5, ..curvature() };
        assert!(mistaken.excess_of_newton(4, 1e-3) > mistaken.excess_of_newton(400, 1e-3));
    }

    /// `features` columns of noise, three classes, and every fourth row public.
    fn wide_problem(rows: usize, features: usize) -> Problem {
        let mut numbers = Numbers(5);
        let mut columns: Vec<(String, Column)> = (0..features)
            .map(|j| {
                (format!("x{j}"), Column::Numbers((0..rows).map(|_| 2.0 * numbers.next() - 1.0).collect()))
            })
            .collect();
        let text = |value: &dyn Fn(usize) -> &'static str| {
            Column::Text((0..rows).map(|row| value(row).to_owned()).collect())
        };
        columns.push(("label".to_owned(), text(&|row| ["a", "b", "c"][row % 3])));
        columns.push(("consent".to_owned(), text(&|row| if row % 4 == 0 { "yes" } else { "no" })));
        let mut declaration = format!(
            "[budget]\nepsilon = 1\ndelta = 1e-6\n[protect]\nunit = \"row\"\nchange = \"replace\"\nrows = {}\n\
             public_rows = {{ column = \"consent\", equals = \"yes\" }}\n[task]\nlabel = \"label\"\nloss = \"softmax\"\n\
             [columns.label]\nvalues = [\"a\", \"b\", \"c\"]\n[columns.consent]\nvisibility = \"public\"\nuse = false\n",
            rows - rows.div_ceil(4)
        );
        (0..features).for_each(|j| declaration += &format!("[columns.x{j}]\nbounds = [-1, 1]\n"));
        let declaration = Declaration::parse(&declaration, "test").unwrap();
        let declared = Declared::bind(declaration, Table::from_columns(columns).unwrap()).unwrap();
        Problem::pose(declared, OutOfDomain::Refuse).unwrap()
    }

    /// With too many weights for Newton steps, the clip norm is what public gradients usually have, and a public fit that leaves much open is not taken for certain.
    #[test]
    fn many_weights_are_clipped_as_public_gradients_are_long_and_go_far_from_the_public_fit() {
        let budget = Budget { epsilon: Epsilon::new(1.0).unwrap(), delta: Delta::new(1e-6).unwrap() };
        let warm = Params { start: Some(Start::PublicMinimizer), ..Params::default() };
        let plan = |problem: &Problem, params: &Params| Plan::new(problem, params, budget).unwrap();

        let clip = |problem: &Problem, params: &Params| plan(problem, params).clip;

        let few = wide_problem(80, 5);
        assert!(matches!(plan(&few, &warm).descent, Descent::Newton { .. }));
        let bound = few.loss().derivative_bound(0.0) * few.row_norm_bound();
        assert_eq!(clip(&few, &warm), Clip::Fixed { norm: bound });

        let many = wide_problem(80, 400);
        assert!(many.dimension() > MOST_WEIGHTS);
        let mut norms = many.public_data().0.squared_norms().to_vec();
        norms.sort_unstable();
        let usual = (2.0f64 / 3.0).next_up().sqrt().next_up() * (norms[10] as f64).sqrt() * FEATURE_UNIT;
        assert_eq!(clip(&many, &warm), Clip::Fixed { norm: usual });
        let given = Params { clip: Some(Clip::Fixed { norm: 9.0 }), ..warm };
        assert_eq!(clip(&many, &given), Clip::Fixed { norm: 9.0 });

        // 20 rows say next to nothing about 1203 weights; 3000 say a lot about 18.
        let radius = |problem: &Problem| public_rows::weights_norm(problem).unwrap();
        let open = |problem: &Problem| left_open(problem).unwrap() / radius(problem);
        assert!(open(&many) > 0.9 && open(&many) <= 1.0 + 1e-9, "{}", open(&many));
        let certain = wide_problem(12_000, 5);
        assert!(open(&certain) < 0.2, "{}", open(&certain));
    }
}
