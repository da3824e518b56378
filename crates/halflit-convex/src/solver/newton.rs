//! The fast method: Newton steps, along a path of barriers where a constraint or a kink is in the way.
//!
//! Nothing here is trusted: whatever it returns carries a certificate computed afterwards, or an infinite bound.

use super::barrier::{Barrier, interior, is_flat, keeps_sum};
use super::bounds::has_kink;
use super::hessian::Operator;
use super::linear::{Cholesky, axpy, conjugate_gradients, dot};
use super::passes::Smoothing;
use super::{Attempt, Evidence, Problem, certificate, polish};

/// Up to this many weights the Hessian is assembled and factored; beyond, it is applied inside conjugate gradients.
pub(super) const LARGEST_ASSEMBLED: usize = 512;

/// Newton steps on one smooth problem, at most.
const STEPS: usize = 60;

/// Steps without progress that end an attempt.
const PATIENCE: usize = 3;

/// Tries to find a point certified to `tolerance`; the caller checks the bound it comes with.
pub(super) fn attempt(problem: &Problem<'_>, tolerance: f64, start: Vec<f64>) -> Attempt {
    let mut search = Search { problem, tolerance, passes: 0, best: None };
    let smooth = !has_kink(problem.passes.loss.form());
    if smooth {
        search.free(start.clone());
    }
    if !search.done() && (!smooth || !problem.is_unconstrained()) {
        search.path(&start);
    }
    let Search { passes, best, .. } = search;
    let none =
        Attempt { weights: start, distance: f64::INFINITY, evidence: Evidence::GradientMapping, passes };
    Attempt { passes, ..best.unwrap_or(none) }
}

/// Applies the inverse of a Hessian.
type LinearSolve<'a> = Box<dyn Fn(&[f64]) -> Vec<f64> + 'a>;

struct Search<'p, 'a> {
    problem: &'p Problem<'a>,
    tolerance: f64,
    passes: u64,
    best: Option<Attempt>,
}

/// The objective at a point of a path: F with kinks smoothed and the domain's barrier added.
struct Merit {
    value: f64,
    gradient: Vec<f64>,
    /// Gradient of the loss average alone.
    slope_sum: Vec<f64>,
    barrier: Barrier,
}

/// Weights and what was found there.
type Point = (Vec<f64>, Merit);

impl Search<'_, '_> {
    fn done(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.distance <= self.tolerance)
    }

    /// Keeps the attempt if it is the best so far; returns its distance. NaN proves nothing.
    fn offer(&mut self, mut attempt: Attempt) -> f64 {
        let distance = if attempt.distance.is_nan() { f64::INFINITY } else { attempt.distance };
        attempt.distance = distance;
        if self.best.as_ref().is_none_or(|best| distance < best.distance) {
            self.best = Some(attempt);
        }
        distance
    }

    /// Newton's method without the constraint: enough when the minimizer lies inside the domain.
    fn free(&mut self, start: Vec<f64>) {
        let Some(mut point) = self.merit(start, 0.0) else { return };
        let mut progress = Progress::new();
        for _ in 0..STEPS {
            let distance = self.offer_gradient_mapping(&point.0, &point.1.gradient);
            if self.done() || progress.has_ended(distance) {
                return;
            }
            let Some((next, decrement)) = self.step(&point, 0.0) else { return };
            if decrement > noise(next.1.value) {
                // still descending: the certificate need not fall in every step
                progress = Progress::new();
            }
            point = next;
        }
    }

    /// Newton's method along barriers of decreasing weight.
    fn path(&mut self, start: &[f64]) {
        let problem = self.problem;
        let Some(start) = interior(&problem.domain, start) else { return };
        let mut weight = 0.1 * problem.bounds.gradient_bound().min(1.0);
        let Some(mut point) = self.merit(start, weight) else { return };
        let mut progress = Progress::new();
        while weight > 1e-22 {
            self.centre(&mut point, weight);
            let distance = self.offer_from_path(&point, weight);
            if self.done() || progress.has_ended(distance) {
                return;
            }
            weight *= 0.1;
            let Some(next) = self.merit(point.0, weight) else { return };
            point = next;
        }
    }

    /// Newton steps until the point is centred for this weight: near in the barrier's own measure, and with a gradient small
    /// enough not to spoil a duality gap, which contains ||gradient||^2 / (2 lambda).
    fn centre(&mut self, point: &mut Point, weight: f64) {
        let mut extra = 0;
        for _ in 0..STEPS {
            // a failed step ends the centring, not the path: what there is may still be certified
            let Some((next, decrement)) = self.step(point, weight) else { return };
            *point = next;
            if decrement <= 1e-3 * weight {
                let squared = dot(&point.1.gradient, &point.1.gradient);
                extra += 1;
                if squared <= 0.1 * self.problem.regularization * weight || extra > PATIENCE {
                    return;
                }
            }
        }
    }

    fn offer_gradient_mapping(&mut self, weights: &[f64], gradient: &[f64]) -> f64 {
        let problem = self.problem;
        let Some(smoothness) = problem.smoothness() else { return f64::INFINITY };
        let error = problem.bounds.gradient_error();
        let mut distance = certificate::gradient_mapping(problem, weights, gradient, smoothness, error);
        let mut weights = weights.to_vec();
        if !problem.is_unconstrained() {
            problem.domain.project(&mut weights);
            distance += problem.bounds.landing_error();
        }
        self.offer(Attempt { weights, distance, evidence: Evidence::GradientMapping, passes: self.passes })
    }

    /// The certificate at a point of the path: a duality gap for kinks, else the gradient mapping on the boundary.
    fn offer_from_path(&mut self, (weights, merit): &Point, weight: f64) -> f64 {
        self.passes += 1;
        if has_kink(self.problem.passes.loss.form()) {
            // rounding may have carried the steps off the plane of a simplex
            let mut weights = weights.clone();
            self.problem.domain.project(&mut weights);
            let slopes = polish::barrier_slopes(self.problem, &weights, weight);
            let mut distance = self.offer(certificate::duality_gap(self.problem, &weights, &slopes));
            if !self.done() && weight <= polish::LARGEST_WEIGHT {
                for (weights, slopes) in polish::polish(self.problem, &weights, slopes, weight) {
                    self.passes += polish::PASSES;
                    distance =
                        distance.min(self.offer(certificate::duality_gap(self.problem, &weights, &slopes)));
                }
            }
            return distance;
        }
        // one projected gradient step lands on the constraints that are active
        let Some(smoothness) = self.problem.smoothness() else { return f64::INFINITY };
        let mut gradient = merit.slope_sum.clone();
        self.problem.add_simple_gradient(weights, &mut gradient);
        let mut landed = weights.clone();
        axpy(&mut landed, -1.0 / smoothness, &gradient);
        self.problem.domain.project(&mut landed);
        let mut there = self.problem.passes.evaluate(&landed, Smoothing::None, false).gradient;
        self.problem.add_simple_gradient(&landed, &mut there);
        self.offer_gradient_mapping(&landed, &there)
    }

    /// Value and derivatives at `weights`; `None` outside the barrier's domain or where nothing is finite.
    fn merit(&mut self, weights: Vec<f64>, barrier_weight: f64) -> Option<Point> {
        let problem = self.problem;
        let size = problem.size();
        let barrier = match barrier_weight > 0.0 {
            true => Barrier::at(&problem.domain, &weights)?,
            false => Barrier {
                value: 0.0,
                gradient: vec![0.0; size],
                diagonal: vec![0.0; size],
                rank_one: Vec::new(),
            },
        };
        let evaluation = problem.passes.evaluate(&weights, smoothing(barrier_weight), false);
        self.passes += 1;
        let value = evaluation.value + problem.simple_value(&weights) + barrier_weight * barrier.value;
        let slope_sum = evaluation.gradient.clone();
        let mut gradient = evaluation.gradient;
        problem.add_simple_gradient(&weights, &mut gradient);
        axpy(&mut gradient, barrier_weight, &barrier.gradient);
        if barrier_weight > 0.0 {
            // a coordinate without room stays where it is
            (0..size).filter(|&j| is_flat(&problem.domain, j)).for_each(|j| gradient[j] = 0.0);
        }
        if barrier_weight > 0.0 && keeps_sum(&problem.domain) {
            // the part across the plane is the plane's business, and would drown the rest in rounding
            let mean = gradient.iter().sum::<f64>() / size as f64;
            gradient.iter_mut().for_each(|g| *g -= mean);
        }
        value.is_finite().then_some((weights, Merit { value, gradient, slope_sum, barrier }))
    }

    /// One damped Newton step; also returns the squared Newton decrement.
    fn step(&mut self, from: &Point, barrier_weight: f64) -> Option<(Point, f64)> {
        let (weights, merit) = from;
        let direction = self.direction(weights, merit, barrier_weight)?;
        let noise = noise(merit.value);
        let decrement = -dot(&direction, &merit.gradient);
        // a decrement that comes out barely negative is rounding
        if !(decrement >= -noise && decrement.is_finite()) {
            return None;
        }
        let mut length = 1.0;
        for _ in 0..50 {
            let mut moved = weights.clone();
            axpy(&mut moved, length, &direction);
            if let Some(next) = self.merit(moved, barrier_weight)
                && next.1.value <= merit.value - 1e-4 * length * decrement + noise
            {
                return Some((next, decrement));
            }
            length *= 0.5;
        }
        None
    }

    /// The Newton direction, by factorisation or by conjugate gradients.
    fn direction(&mut self, weights: &[f64], merit: &Merit, barrier_weight: f64) -> Option<Vec<f64>> {
        let problem = self.problem;
        let size = weights.len();
        let diagonal: Vec<f64> =
            merit.barrier.diagonal.iter().map(|d| problem.regularization + barrier_weight * d).collect();
        let solve: LinearSolve<'_> = if size <= LARGEST_ASSEMBLED {
            self.passes += 1;
            let mut matrix = problem.passes.evaluate(weights, smoothing(barrier_weight), true).hessian?;
            for (j, d) in diagonal.iter().enumerate() {
                matrix[j * size + j] += d;
            }
            for (factor, vector) in &merit.barrier.rank_one {
                for (i, &value) in vector.iter().enumerate() {
                    let row = &mut matrix[i * size..i * size + i + 1];
                    axpy(row, barrier_weight * factor * value, vector);
                }
            }
            let factor = Cholesky::factor(matrix, size)?;
            Box::new(move |b| factor.solve(b))
        } else {
            let operator = Operator::new(problem.passes, weights, smoothing(barrier_weight));
            let curvature = operator.diagonal();
            let preconditioner: Vec<f64> = diagonal.iter().zip(&curvature).map(|(d, c)| d + c).collect();
            let rank_one = &merit.barrier.rank_one;
            Box::new(move |b| {
                let apply = |x: &[f64]| {
                    let mut y = operator.apply(x);
                    for ((y, x), d) in y.iter_mut().zip(x).zip(&diagonal) {
                        *y += d * x;
                    }
                    for (factor, vector) in rank_one {
                        axpy(&mut y, barrier_weight * factor * dot(vector, x), vector);
                    }
                    y
                };
                conjugate_gradients(apply, &preconditioner, b, 1e-6, 500)
            })
        };
        let mut direction = solve(&merit.gradient);
        if keeps_sum(&problem.domain) && barrier_weight > 0.0 {
            // stay in the plane: subtract the multiple of H^-1 1 that makes the sum zero
            let ones = solve(&vec![1.0; size]);
            let multiple = direction.iter().sum::<f64>() / ones.iter().sum::<f64>();
            axpy(&mut direction, -multiple, &ones);
        }
        direction.iter_mut().for_each(|d| *d = -*d);
        if barrier_weight > 0.0 {
            (0..size).filter(|&j| is_flat(&problem.domain, j)).for_each(|j| direction[j] = 0.0);
        }
        direction.iter().all(|d| d.is_finite()).then_some(direction)
    }
}

/// Differences of the objective below this are rounding.
fn noise(value: f64) -> f64 {
    1e-14 * (1.0 + value.abs())
}

/// Notices when certificates have stopped improving.
struct Progress {
    best: f64,
    idle: usize,
}

impl Progress {
    fn new() -> Self {
        Progress { best: f64::INFINITY, idle: 0 }
    }

    fn has_ended(&mut self, distance: f64) -> bool {
        self.idle = if distance < self.best { 0 } else { self.idle + 1 };
        self.best = self.best.min(distance);
        self.idle >= PATIENCE
    }
}

fn smoothing(barrier_weight: f64) -> Smoothing {
    if barrier_weight > 0.0 { Smoothing::Barrier(barrier_weight) } else { Smoothing::None }
}
