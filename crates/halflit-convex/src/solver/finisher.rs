//! The method that finishes for every table: accelerated projected gradients in pairs of doubles. See `proof.md`.

use super::bounds::Plan;
use super::passes::Smoothing;
use super::{Attempt, Evidence, Problem, Solution, certificate, fine, length_up};
use crate::domain::Domain;
use crate::double::Double;

/// Runs the planned number of iterations from the best point known, or fewer when a certificate comes earlier (unless told to go
/// to the end).
///
/// `None` only below the smallest tolerance, which the caller has excluded.
pub(super) fn finish(
    problem: &Problem<'_>,
    tolerance: f64,
    start: Attempt,
    to_the_end: bool,
) -> Option<Solution> {
    let bounds = &problem.bounds;
    let weights = match start.weights.iter().all(|w| w.is_finite()) {
        true => start.weights,
        false => problem.anchor.clone(),
    };
    let mut x = doubles(&weights);
    bounds.region.project_number(&mut x);
    // projecting moves no point away from the minimizer, but for its own rounding
    let rounding = bounds.projection_error(length_up(&weights));
    let plan = bounds.plan(tolerance, start.distance.min(bounds.diameter) + rounding)?;
    let region = bounds.region.clone();
    let mut run = Run { problem, plan, region, v: x.clone(), x, passes: start.passes };
    Some(run.go(tolerance, to_the_end))
}

struct Run<'p, 'a> {
    problem: &'p Problem<'a>,
    plan: Plan,
    region: Domain,
    x: Vec<Double>,
    v: Vec<Double>,
    passes: u64,
}

impl Run<'_, '_> {
    /// y = (x + r v)/(1 + r);  x <- P(y - g/L);  v <- P((1 - r) v + r y - (r/m) g)  with r = sqrt(m/L).
    fn go(&mut self, tolerance: f64, to_the_end: bool) -> Solution {
        let Plan { curvature, convexity, rate, .. } = self.plan;
        let mix = Double::from(rate) / (Double::from(1.0) + Double::from(rate));
        let keep = Double::from(1.0) - mix;
        let descent = Double::from(1.0) / Double::from(curvature);
        let pull = Double::from(rate);
        let push = Double::from(rate) / Double::from(convexity);
        for _ in 0..self.plan.passes {
            let y: Vec<Double> = self.x.iter().zip(&self.v).map(|(&x, &v)| keep * x + mix * v).collect();
            let gradient = self.gradient(&y);
            self.passes += 1;
            if !to_the_end && let Some(solution) = self.certified(&y, &gradient, tolerance) {
                return solution;
            }
            for (j, &g) in gradient.iter().enumerate() {
                let g = Double::from(g);
                self.x[j] = y[j] - descent * g;
                self.v[j] = self.v[j] + pull * (y[j] - self.v[j]) - push * g;
            }
            self.region.project_number(&mut self.x);
            self.region.project_number(&mut self.v);
        }
        self.solution(&self.x, self.plan.distance, Evidence::WorstCase)
    }

    /// The computed gradient of F, or of its smoothing.
    fn gradient(&self, point: &[Double]) -> Vec<f64> {
        let rounded = singles(point);
        let mut gradient = match self.plan.smoothing > 0.0 {
            true => fine::moreau_gradient(self.problem, point, self.plan.smoothing),
            false => self.problem.passes.evaluate(&rounded, Smoothing::None, false).gradient,
        };
        self.problem.add_simple_gradient(&rounded, &mut gradient);
        gradient
    }

    /// The gradient mapping at y, when it already proves enough.
    fn certified(&self, y: &[Double], gradient: &[f64], tolerance: f64) -> Option<Solution> {
        let (problem, bounds) = (self.problem, &self.problem.bounds);
        let smoothness = 0.5 * self.plan.curvature;
        let weights = singles(y);
        // the gradient belongs to y, or (smooth losses) to y rounded; a smoothed loss is steep, so count the rounding there
        let moved =
            if self.plan.smoothing > 0.0 { smoothness * crate::domain::ROUNDOFF * bounds.reach } else { 0.0 };
        let error = bounds.planned_gradient_error(&self.plan) + moved;
        let near = certificate::gradient_mapping(problem, &weights, gradient, smoothness, error);
        let smoothing = (2.0 * bounds.smoothing_cost(self.plan.smoothing) / bounds.strong_convexity).sqrt();
        let distance = (near + smoothing + bounds.landing_error()) * (1.0 + 4.0 * f64::EPSILON);
        (distance <= tolerance).then(|| self.solution(y, distance, Evidence::GradientMapping))
    }

    fn solution(&self, point: &[Double], distance: f64, evidence: Evidence) -> Solution {
        let mut weights = singles(point);
        self.problem.domain.project(&mut weights);
        Attempt { weights, distance, evidence, passes: self.passes }.into_solution()
    }
}

fn doubles(values: &[f64]) -> Vec<Double> {
    values.iter().map(|&value| Double::from(value)).collect()
}

fn singles(values: &[Double]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}
