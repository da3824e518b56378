use super::{LossError, check};
use crate::math::exp;

/// log sum_k e^z_k - z_y over K classes; derivative p - e_y with p the softmax of the scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Softmax {
    classes: usize,
}

impl Softmax {
    /// sqrt(2), rounded up: ||p - e_y|| for p concentrated on another class.
    pub const DERIVATIVE_BOUND: f64 = std::f64::consts::SQRT_2.next_up();

    /// Largest eigenvalue of diag(p) - p p^T: at most 1/2 (half on each of two classes).
    pub const CURVATURE_BOUND: f64 = 0.5;

    pub(super) fn new(classes: usize) -> Result<Self, LossError> {
        let fits = (2..=65_536).contains(&classes);
        check("softmax", "classes", classes as f64, "between 2 and 65536", fits)?;
        Ok(Softmax { classes })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// sqrt((K - 1)/K), rounded up: distance from the centre p - 1/K to every p - e_y.
    pub fn midrange_radius(&self) -> f64 {
        let classes = self.classes as f64;
        ((classes - 1.0) / classes).next_up().sqrt().next_up()
    }

    /// The loss of one row.
    pub fn value(&self, scores: &[f64], label: f64) -> f64 {
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|&score| exp(score - most)).sum();
        let own = scores.get(label as usize).copied().unwrap_or(f64::NAN);
        sum.ln() + (most - own)
    }

    /// The derivative of one row's loss in its scores.
    pub fn derivative(&self, scores: &[f64], label: f64, derivative: &mut [f64]) {
        self.probabilities(scores, 1, derivative);
        for (class, value) in derivative.iter_mut().enumerate() {
            *value -= one_hot(class, label);
        }
    }

    /// Softmax of `rows` rows at once, class-major. Row by row the operations are the same whatever `rows` is.
    #[inline(always)]
    pub(crate) fn probabilities(&self, scores: &[f64], rows: usize, probabilities: &mut [f64]) {
        const CHUNK: usize = 128;
        let mut from = 0;
        while from < rows {
            let len = CHUNK.min(rows - from);
            let mut most = [f64::NEG_INFINITY; CHUNK];
            for class in 0..self.classes {
                for (most, &score) in most.iter_mut().zip(&scores[class * rows + from..][..len]) {
                    *most = if score > *most { score } else { *most };
                }
            }
            let mut sum = [0.0; CHUNK];
            for class in 0..self.classes {
                let scores = &scores[class * rows + from..][..len];
                let powers = &mut probabilities[class * rows + from..][..len];
                for (((power, &score), &most), sum) in powers.iter_mut().zip(scores).zip(&most).zip(&mut sum)
                {
                    *power = exp(score - most);
                    *sum += *power;
                }
            }
            for class in 0..self.classes {
                let powers = &mut probabilities[class * rows + from..][..len];
                for (power, &sum) in powers.iter_mut().zip(&sum) {
                    *power /= sum;
                }
            }
            from += len;
        }
    }
}

/// 1 when the label names the class, else 0.
#[inline(always)]
pub(crate) fn one_hot(class: usize, label: f64) -> f64 {
    if label == class as f64 { 1.0 } else { 0.0 }
}
