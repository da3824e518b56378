//! Minimising a smooth function by a limited-memory quasi-Newton method around a first guess of its inverse curvature. No certificate: for post-processing, where any point
//! that is reached is legitimate.

use std::collections::VecDeque;

/// Pairs of differences that are remembered.
const MEMORY: usize = 10;

/// Halvings of a step before it is given up.
const HALVINGS: i32 = 30;

/// A smooth function of weights.
pub trait Smooth {
    /// What is known at a point: enough for its value, and a help for its gradient.
    type At;

    /// Looks at a point.
    fn at(&self, weights: &[f64]) -> Self::At;

    /// The value there.
    fn value(&self, weights: &[f64], at: &Self::At) -> f64;

    /// The gradient there.
    fn gradient(&self, weights: &[f64], at: &Self::At) -> Vec<f64>;

    /// The first guess of the inverse curvature, applied to a gradient: linear, symmetric and positive.
    fn guess(&self, gradient: &[f64]) -> Vec<f64>;
}

/// Descends from `start` until a step promises less than `least_decrease`, at most `steps` times.
pub fn descend<S: Smooth>(
    function: &S,
    start: Vec<f64>,
    steps: usize,
    least_decrease: f64,
) -> (Vec<f64>, S::At) {
    let mut weights = start;
    let mut at = function.at(&weights);
    let mut gradient = function.gradient(&weights, &at);
    let mut memory: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    for _ in 0..steps {
        let step = two_loops(&memory, &gradient, |gradient| function.guess(gradient));
        let promised = dot(&gradient, &step);
        // A comparison that NaN fails, here and below.
        if !(promised > least_decrease) {
            break;
        }
        let before = function.value(&weights, &at);
        let found = (0..HALVINGS).map(|halvings| 0.5f64.powi(halvings)).find_map(|share| {
            let moved: Vec<f64> = weights.iter().zip(&step).map(|(w, s)| w - share * s).collect();
            let there = function.at(&moved);
            let is_lower = function.value(&moved, &there) <= before - 1e-4 * share * promised;
            is_lower.then_some((moved, there))
        });
        let Some((moved, there)) = found else { break };
        let slope = function.gradient(&moved, &there);
        let difference: Vec<f64> = moved.iter().zip(&weights).map(|(new, old)| new - old).collect();
        let bend: Vec<f64> = slope.iter().zip(&gradient).map(|(new, old)| new - old).collect();
        if dot(&difference, &bend) > 0.0 {
            memory.push_back((difference, bend));
            if memory.len() > MEMORY {
                memory.pop_front();
            }
        }
        (weights, at, gradient) = (moved, there, slope);
    }
    (weights, at)
}

/// The quasi-Newton step for a gradient (Nocedal and Wright, Algorithm 7.4) around a first guess.
fn two_loops(
    memory: &VecDeque<(Vec<f64>, Vec<f64>)>,
    gradient: &[f64],
    guess: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let mut q = gradient.to_vec();
    let mut factors = Vec::with_capacity(memory.len());
    for (s, y) in memory.iter().rev() {
        let factor = dot(s, &q) / dot(s, y);
        q.iter_mut().zip(y).for_each(|(q, y)| *q -= factor * y);
        factors.push(factor);
    }
    let mut step = guess(&q);
    for ((s, y), factor) in memory.iter().zip(factors.iter().rev()) {
        let back = dot(y, &step) / dot(s, y);
        step.iter_mut().zip(s).for_each(|(step, s)| *step += (factor - back) * s);
    }
    step
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sum_j c_j (cosh(w_j - j) - 1): badly conditioned, far from quadratic.
    struct Valley;

    const SCALES: [f64; 4] = [1.0, 1e-2, 1e2, 1e-3];

    impl Smooth for Valley {
        type At = ();

        fn at(&self, _: &[f64]) {}

        fn value(&self, weights: &[f64], (): &()) -> f64 {
            (0..4).map(|j| SCALES[j] * ((weights[j] - j as f64).cosh() - 1.0)).sum()
        }

        fn gradient(&self, weights: &[f64], (): &()) -> Vec<f64> {
            (0..4).map(|j| SCALES[j] * (weights[j] - j as f64).sinh()).collect()
        }

        fn guess(&self, gradient: &[f64]) -> Vec<f64> {
            gradient.iter().zip(SCALES).map(|(g, scale)| g / scale).collect()
        }
    }

    #[test]
    fn a_valley_is_descended_to_its_bottom() {
        let (weights, ()) = descend(&Valley, vec![9.0, -9.0, 8.0, 0.0], 100, 1e-14);
        for (j, weight) in weights.iter().enumerate() {
            assert!((weight - j as f64).abs() < 1e-5, "{weights:?}");
        }
    }

    #[test]
    fn what_is_no_number_ends_the_descent() {
        let start = vec![f64::NAN; 4];
        let (weights, ()) = descend(&Valley, start, 100, 1e-14);
        assert!(weights.iter().all(|weight| weight.is_nan()));
        let (weights, ()) = descend(&Valley, vec![1e6; 4], 100, 1e-14);
        assert_eq!(weights, [1e6; 4], "an infinite value is no step");
    }
}
