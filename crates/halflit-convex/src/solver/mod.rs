//! Certified minimization: a point and a proved bound on its distance to the true minimizer. No privacy in here.
//!
//! The problem is
//!
//! ```text
//! minimise over w in K:  F(w) = (1/W) sum_i omega_i loss(<w, x_i>, y_i) - <S, w> + (lambda/2) ||w - w_0||^2
//! ```
//!
//! with lambda > 0, so the minimizer w* is unique. A mechanism that perturbs w* adds twice the bound to its sensitivity, so the
//! bound must be true for every table, rounding included, and must be reached for every table: an abort that
//! depends on the data would leak.
//!
//! [`minimize`] first runs a fast method (Newton, or Newton along a path of smoothed problems where a constraint or a kink is in the
//! way), which almost always ends with a certificate in a few dozen passes. If it does not, an accelerated gradient
//! method finishes, whose number of passes and final error are bounded by public constants alone
//! ([`Problem::worst_case_passes`]). A tolerance that this bound cannot meet is refused before any row is read
//! ([`Problem::smallest_tolerance`]). Statements and proofs are in `proof.md` beside this file.

mod barrier;
mod bounds;
mod certificate;
mod fine;
mod finisher;
mod hessian;
pub mod linear;
mod mean;
mod newton;
mod passes;
mod polish;
mod second_order;

pub use linear::Cholesky;
pub use second_order::SecondOrder;

use crate::domain::{Domain, Shape, norm_up};
use crate::loss::{LabelDomain, Loss};
use crate::rows::Rows;
use bounds::Bounds;
use passes::Passes;

/// A problem as posed: plain data, unchecked.
#[derive(Debug, Clone)]
pub struct ProblemSpec<'a> {
    /// The rows.
    pub rows: &'a Rows,
    /// Public bound on the norm of every row, in real units.
    pub row_norm: f64,
    /// One label per row. Without labels a canonical loss stands for its part A(z) alone; the label part then goes into `linear`.
    pub labels: Option<&'a [f64]>,
    /// Public weight omega_i of every row; 1 each when absent.
    pub row_weights: Option<&'a [f64]>,
    /// The public W that weights are divided by.
    pub total_weight: f64,
    /// The loss.
    pub loss: Loss,
    /// lambda.
    pub regularization: f64,
    /// w_0; zero when absent. `outputs * width` numbers, output after output.
    pub anchor: Option<&'a [f64]>,
    /// S; zero when absent.
    pub linear: Option<&'a [f64]>,
    /// K.
    pub domain: Domain,
}

/// A checked problem.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    passes: Passes<'a>,
    regularization: f64,
    anchor: Vec<f64>,
    linear: Vec<f64>,
    domain: Domain,
    bounds: Bounds,
}

/// The point found, and how near it is.
#[derive(Debug, Clone)]
pub struct Solution {
    /// The weights, in the domain: `outputs * width` numbers, output after output.
    pub weights: Vec<f64>,
    /// The proof of their quality.
    pub certificate: Certificate,
}

/// A proved bound on the distance to the minimizer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Certificate {
    /// ||w - w*|| is at most this, all rounding included.
    pub distance: f64,
    /// What proves it.
    pub evidence: Evidence,
    /// Passes over the rows that were made.
    pub passes: u64,
}

/// What a certificate rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The norm of the gradient mapping, divided by the strong convexity.
    GradientMapping,
    /// The duality gap, as a sum of nonnegative terms.
    DualityGap,
    /// The worst-case bound of the accelerated gradient method after its full number of passes.
    WorstCase,
    /// A closed formula, evaluated with bounded rounding, or a domain no wider than the tolerance.
    ClosedForm,
}

/// Why a problem was refused. Only public facts decide, except for input that is no table at all.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SolverError {
    /// A number outside its range.
    #[error("{name} is {value}; it must be {allowed}")]
    Parameter {
        /// Which.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A vector of the wrong length.
    #[error("{name} has {found} entries; {expected} are needed")]
    Length {
        /// Which.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The length it should have.
        expected: usize,
    },
    /// A row longer than the declared bound. For the data owner: it names a row.
    #[error("row {row} is longer than the declared row norm {row_norm}; clip the rows when encoding")]
    RowNorm {
        /// The row.
        row: usize,
        /// The declared bound.
        row_norm: f64,
    },
    /// A label outside the loss's domain. For the data owner: it names a row.
    #[error("the label of row {row} is outside the label domain of the loss; clamp labels when encoding")]
    Label {
        /// The row.
        row: usize,
    },
    /// No labels, and a loss in which the label does not enter linearly.
    #[error("the {loss} loss needs labels: its label does not enter linearly")]
    NeedsLabels {
        /// Which loss.
        loss: &'static str,
    },
    /// A tolerance that double precision cannot certify for every table of this shape.
    #[error(
        "the tolerance {tolerance:e} is below {smallest:e}, the smallest that can be certified for every table of this shape; raise it, or the regularization"
    )]
    Tolerance {
        /// What was asked for.
        tolerance: f64,
        /// The smallest possible.
        smallest: f64,
    },
}

impl<'a> Problem<'a> {
    /// Checks a problem.
    pub fn new(spec: ProblemSpec<'a>) -> Result<Self, SolverError> {
        let ProblemSpec { rows, loss, labels, row_weights, total_weight, .. } = spec;
        let size = rows.width() * loss.outputs();
        parameter("regularization", spec.regularization, "between 1e-12 and 1e12", 1e-12, 1e12)?;
        parameter("total_weight", total_weight, "between 1e-12 and 1e15", 1e-12, 1e15)?;
        parameter("row_norm", spec.row_norm, "between 1e-6 and 1e6", 1e-6, 1e6)?;
        length("the domain", spec.domain.dimension(), size)?;
        if let Some(labels) = labels {
            length("the labels", labels.len(), rows.len())?;
            check_labels(loss.label_domain(), labels)?;
        } else if !loss.is_canonical() && !loss.is_mean() {
            return Err(SolverError::NeedsLabels { loss: loss.name() });
        }
        if let Some(weights) = row_weights {
            length("the row weights", weights.len(), rows.len())?;
            for &weight in weights {
                parameter("a row weight", weight, "between 0 and 1e12", 0.0, 1e12)?;
            }
        }
        let anchor = vector("the anchor", spec.anchor, size)?;
        let linear = vector("the linear term", spec.linear, size)?;
        check_row_norms(rows, spec.row_norm)?;
        let passes = Passes { rows, loss, labels, weights: row_weights, total_weight };
        let bounds = Bounds::new(&passes, spec.row_norm, spec.regularization, &anchor, &linear, &spec.domain);
        Ok(Problem {
            passes,
            regularization: spec.regularization,
            anchor,
            linear,
            domain: spec.domain,
            bounds,
        })
    }

    /// Number of weights.
    pub fn size(&self) -> usize {
        self.anchor.len()
    }

    /// The loss.
    pub fn loss(&self) -> Loss {
        self.passes.loss
    }

    /// The domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The objective F at `weights`, to working precision.
    pub fn value(&self, weights: &[f64]) -> f64 {
        if self.passes.loss.is_mean() {
            return mean::value(self, weights);
        }
        let average = self.passes.evaluate(weights, passes::Smoothing::None, false).value;
        average + self.simple_value(weights)
    }

    /// Strong convexity of the objective, rounded down: lambda, and for the mean loss the average weight besides. A public constant.
    pub fn strong_convexity(&self) -> f64 {
        self.bounds.strong_convexity
    }

    /// Lipschitz constant of the gradient of F, rounded up; `None` for losses with a kink. A public constant.
    pub fn smoothness(&self) -> Option<f64> {
        self.bounds.smoothness()
    }

    /// The smallest tolerance that is certain to be reached, from public constants alone.
    pub fn smallest_tolerance(&self) -> f64 {
        if self.passes.loss.is_mean() {
            self.bounds.closed_form_error()
        } else {
            self.bounds.smallest_tolerance()
        }
    }

    /// Passes after which the finisher has reached the tolerance for every table of this shape; from public constants alone.
    pub fn worst_case_passes(&self, tolerance: f64) -> Result<u64, SolverError> {
        if self.passes.loss.is_mean() {
            return self.check_tolerance(tolerance).map(|()| 1);
        }
        Ok(self.bounds.plan(tolerance, self.bounds.diameter).ok_or_else(|| self.too_small(tolerance))?.passes)
    }

    fn check_tolerance(&self, tolerance: f64) -> Result<(), SolverError> {
        // exactly what the finisher will ask for: its plan exists or not whatever the data
        let reachable = match self.passes.loss.is_mean() {
            true => tolerance >= self.bounds.closed_form_error(),
            false => self.bounds.plan(tolerance, self.bounds.diameter).is_some(),
        };
        if tolerance.is_finite() && reachable { Ok(()) } else { Err(self.too_small(tolerance)) }
    }

    fn too_small(&self, tolerance: f64) -> SolverError {
        SolverError::Tolerance { tolerance, smallest: self.smallest_tolerance() }
    }

    /// - <S, w> + (lambda/2) ||w - w_0||^2.
    fn simple_value(&self, weights: &[f64]) -> f64 {
        let linear = linear::dot(&self.linear, weights);
        let squared: f64 = weights.iter().zip(&self.anchor).map(|(w, a)| (w - a) * (w - a)).sum();
        0.5 * self.regularization * squared - linear
    }

    /// gradient += - S + lambda (w - w_0).
    fn add_simple_gradient(&self, weights: &[f64], gradient: &mut [f64]) {
        for (j, g) in gradient.iter_mut().enumerate() {
            *g += self.regularization * (weights[j] - self.anchor[j]) - self.linear[j];
        }
    }

    fn is_unconstrained(&self) -> bool {
        matches!(self.domain.shape(), Shape::Whole { .. })
    }
}

/// Minimises the objective to within `tolerance` of the minimizer, in distance.
///
/// # Guarantee
///
/// For every checked problem and every tolerance of at least [`Problem::smallest_tolerance`] the returned weights lie in the domain and
/// ||w - w*|| <= certificate.distance <= tolerance. A smaller tolerance is refused without reading a row.
pub fn minimize(problem: &Problem<'_>, tolerance: f64) -> Result<Solution, SolverError> {
    minimize_from(problem, tolerance, None)
}

/// As [`minimize`], starting at `start` (say, the solution for a neighbouring regularization).
pub fn minimize_from(
    problem: &Problem<'_>,
    tolerance: f64,
    start: Option<&[f64]>,
) -> Result<Solution, SolverError> {
    solve(problem, tolerance, tolerance, start)
}

/// As [`minimize_from`] where `tolerance` can be promised. Where it cannot, the fast method still tries for it, and what is promised is
/// [`Problem::smallest_tolerance`]: for weights that nobody's privacy rests on.
pub fn minimize_as_far_as_possible(
    problem: &Problem<'_>,
    tolerance: f64,
    start: Option<&[f64]>,
) -> Result<Solution, SolverError> {
    solve(problem, tolerance, tolerance.max(problem.smallest_tolerance()), start)
}

/// Tries for `wished`, which may be out of reach, and ends within `promised`.
fn solve(
    problem: &Problem<'_>,
    wished: f64,
    promised: f64,
    start: Option<&[f64]>,
) -> Result<Solution, SolverError> {
    problem.check_tolerance(promised)?;
    let start = match start {
        Some(start) => vector("the start", Some(start), problem.size())?,
        None => problem.anchor.clone(),
    };
    if problem.passes.loss.is_mean() {
        return Ok(mean::solve(problem));
    }
    if let Some(solution) = small_domain(problem, wished) {
        return Ok(solution);
    }
    let attempt = newton::attempt(problem, wished, start);
    if attempt.distance <= promised {
        return Ok(attempt.into_solution());
    }
    finisher::finish(problem, promised, attempt, false).ok_or_else(|| problem.too_small(promised))
}

/// In a domain no wider than the tolerance every point is near enough, the minimizer being in there too.
fn small_domain(problem: &Problem<'_>, tolerance: f64) -> Option<Solution> {
    let bounds = &problem.bounds;
    let distance =
        bounds.diameter + bounds.landing_error() + bounds.projection_error(length_up(&problem.anchor));
    if problem.is_unconstrained() || !(distance <= tolerance) {
        return None;
    }
    let mut weights = problem.anchor.clone();
    problem.domain.project(&mut weights);
    // a far anchor rounds coarsely, the point it lands on does not
    problem.domain.project(&mut weights);
    Some(Attempt { weights, distance, evidence: Evidence::ClosedForm, passes: 0 }.into_solution())
}

/// A point with a bound that may not be good enough yet; infinite when nothing is proved.
#[derive(Debug, Clone)]
struct Attempt {
    weights: Vec<f64>,
    distance: f64,
    evidence: Evidence,
    passes: u64,
}

impl Attempt {
    fn into_solution(self) -> Solution {
        let Attempt { weights, distance, evidence, passes } = self;
        Solution { weights, certificate: Certificate { distance, evidence, passes } }
    }
}

fn parameter(
    name: &'static str,
    value: f64,
    allowed: &'static str,
    low: f64,
    high: f64,
) -> Result<(), SolverError> {
    if value >= low && value <= high { Ok(()) } else { Err(SolverError::Parameter { name, value, allowed }) }
}

fn length(name: &'static str, found: usize, expected: usize) -> Result<(), SolverError> {
    if found == expected { Ok(()) } else { Err(SolverError::Length { name, found, expected }) }
}

/// A vector of finite numbers of sensible size, or zeros.
fn vector(name: &'static str, values: Option<&[f64]>, size: usize) -> Result<Vec<f64>, SolverError> {
    let Some(values) = values else { return Ok(vec![0.0; size]) };
    length(name, values.len(), size)?;
    match values.iter().find(|value| !(value.abs() <= 1e12)) {
        Some(&value) => Err(SolverError::Parameter { name, value, allowed: "at most 1e12 in magnitude" }),
        None => Ok(values.to_vec()),
    }
}

fn check_labels(domain: LabelDomain, labels: &[f64]) -> Result<(), SolverError> {
    match labels.iter().position(|&label| !domain.contains(label)) {
        Some(row) => Err(SolverError::Label { row }),
        None => Ok(()),
    }
}

/// ||q_i||^2 2^-28 <= row_norm^2, up to the rounding of the bound itself.
fn check_row_norms(rows: &Rows, row_norm: f64) -> Result<(), SolverError> {
    let scaled = row_norm / passes::FEATURE_UNIT;
    let limit = (scaled * scaled * (1.0 + 4.0 * f64::EPSILON)) as u64;
    match rows.squared_norms().iter().position(|&norm| norm > limit) {
        Some(row) => Err(SolverError::RowNorm { row, row_norm }),
        None => Ok(()),
    }
}

/// The norm, rounded up.
fn length_up(values: &[f64]) -> f64 {
    norm_up(values.iter().copied())
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod hostile;
