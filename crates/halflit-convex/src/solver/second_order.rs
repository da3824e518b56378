//! Value, gradient and second derivatives at a point, for whoever post-processes a fit: traces, standard errors, predictions.

use super::Problem;
use super::hessian::Operator;
use super::passes::Smoothing;

/// The average loss at a point, without the linear term and the penalty.
#[derive(Debug, Clone)]
pub struct SecondOrder {
    /// (1/W) sum_i omega_i loss_i.
    pub value: f64,
    /// Its gradient.
    pub gradient: Vec<f64>,
    /// Its Hessian: symmetric, row-major.
    pub hessian: Vec<f64>,
}

impl Problem<'_> {
    /// The average loss and its derivatives at `weights`, to working precision.
    ///
    /// The Hessian is assembled: `size()` squared numbers.
    pub fn second_order(&self, weights: &[f64]) -> SecondOrder {
        let size = self.size();
        let found = self.passes.evaluate(weights, Smoothing::None, true);
        let mut hessian = found.hessian.unwrap_or_else(|| vec![0.0; size * size]);
        for i in 0..size {
            for j in 0..i {
                hessian[j * size + i] = hessian[i * size + j];
            }
        }
        SecondOrder { value: found.value, gradient: found.gradient, hessian }
    }

    /// The Hessian of the average loss at `weights` times a direction, without assembling it.
    pub fn curvature_along(&self, weights: &[f64], direction: &[f64]) -> Vec<f64> {
        Operator::new(self.passes, weights, Smoothing::None).apply(direction)
    }

    /// The average loss and its gradient at `weights`, without the linear term and the penalty, to working precision.
    pub fn first_order(&self, weights: &[f64]) -> (f64, Vec<f64>) {
        let found = self.passes.evaluate(weights, Smoothing::None, false);
        (found.value, found.gradient)
    }
}
