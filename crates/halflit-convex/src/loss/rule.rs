use super::softmax::one_hot;
use super::{Form, Loss, ScalarLoss, Softmax, with_scalar};
use crate::kernel::{BLOCK_ROWS, Block, KernelError, Probabilities, Rule, SingleSlopes};

/// The rule that turns scores into a loss's gradient coefficients, for the integer passes of `kernel`.
///
/// A row's coefficient is scale * weight_i * part(z_i, y_i), where the part is the derivative, the midrange centre of the
/// derivative over the label domain at that score (which needs no label), or the difference of the two. For the mean
/// loss, whose gradient is w - x, the coefficient of x is -1.
#[derive(Debug, Clone, Copy)]
pub struct LossRule<'a> {
    loss: Loss,
    part: Part,
    labels: &'a [f64],
    weights: Option<&'a [f64]>,
    scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Derivative,
    AroundMidrange,
    Midrange,
}

impl<'a> LossRule<'a> {
    /// The derivative of the loss, in units of 1 / `scale`.
    pub fn derivative(loss: Loss, labels: &'a [f64], scale: f64) -> Self {
        LossRule { loss, part: Part::Derivative, labels, weights: None, scale }
    }

    /// The derivative minus the midrange centre: what is left to hide when the label alone is sensitive.
    pub fn around_midrange(loss: Loss, labels: &'a [f64], scale: f64) -> Self {
        LossRule { loss, part: Part::AroundMidrange, labels, weights: None, scale }
    }

    /// The midrange centre alone: a function of the features and the weights, without the labels.
    pub fn midrange(loss: Loss, scale: f64) -> Self {
        LossRule { loss, part: Part::Midrange, labels: &[], weights: None, scale }
    }

    /// Multiplies every row's coefficient by its public weight.
    pub fn weighted(mut self, weights: &'a [f64]) -> Self {
        self.weights = Some(weights);
        self
    }

    #[inline(always)]
    fn fill_scalar<L: ScalarLoss>(
        &self,
        loss: L,
        block: &Block<'_>,
        scores: &[f64],
        coefficients: &mut [f64],
    ) {
        let mut buffer = [0.0; BLOCK_ROWS];
        let midrange = |z: f64| {
            let (low, high) = loss.derivative_range(z);
            0.5 * (low + high)
        };
        match self.part {
            Part::Midrange => {
                for (coefficient, &z) in coefficients.iter_mut().zip(scores) {
                    *coefficient = self.scale * midrange(z);
                }
            }
            Part::Derivative => {
                let labels = block.values(self.labels, &mut buffer);
                for ((coefficient, &z), &y) in coefficients.iter_mut().zip(scores).zip(labels) {
                    *coefficient = self.scale * loss.derivative(z, y);
                }
            }
            Part::AroundMidrange => {
                let labels = block.values(self.labels, &mut buffer);
                for ((coefficient, &z), &y) in coefficients.iter_mut().zip(scores).zip(labels) {
                    *coefficient = self.scale * (loss.derivative(z, y) - midrange(z));
                }
            }
        }
    }

    #[inline(always)]
    fn fill_softmax(&self, loss: Softmax, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]) {
        let mut buffer = [0.0; BLOCK_ROWS];
        let (rows, share) = (block.len(), 1.0 / loss.classes() as f64);
        if self.part == Part::AroundMidrange {
            // p - e_y - (p - 1/K): the scores drop out
            coefficients.fill(share);
        } else {
            loss.probabilities(scores, rows, coefficients);
        }
        if self.part == Part::Midrange {
            for coefficient in coefficients.iter_mut() {
                *coefficient = self.scale * (*coefficient - share);
            }
            return;
        }
        let labels = block.values(self.labels, &mut buffer);
        for (class, coefficients) in coefficients.chunks_exact_mut(rows).enumerate() {
            for (coefficient, &label) in coefficients.iter_mut().zip(labels) {
                *coefficient = self.scale * (*coefficient - one_hot(class, label));
            }
        }
    }
}

impl Rule for LossRule<'_> {
    fn outputs(&self) -> usize {
        self.loss.outputs()
    }

    fn check(&self, rows: usize) -> Result<(), KernelError> {
        let needs_labels = self.part != Part::Midrange && !self.loss.is_mean();
        if needs_labels && self.labels.len() != rows {
            return Err(KernelError::Length { name: "the labels", found: self.labels.len(), rows });
        }
        match self.weights {
            Some(weights) if weights.len() != rows => {
                Err(KernelError::Length { name: "the row weights", found: weights.len(), rows })
            }
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn prefetch(&self, block: &Block<'_>) {
        block.prefetch(self.labels);
        block.prefetch(self.weights.unwrap_or(&[]));
    }

    fn in_single(&self) -> Option<SingleSlopes<'_>> {
        let of = match self.loss.form() {
            Form::Logistic(_) => Probabilities::Logistic,
            Form::Softmax(_) => Probabilities::Softmax,
            _ => return None,
        };
        let plain = self.part == Part::Derivative && self.weights.is_none();
        plain.then_some(SingleSlopes { of, labels: self.labels, scale: self.scale })
    }

    #[inline(always)]
    fn fill(&self, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]) {
        with_scalar!(self.loss.form(), loss => self.fill_scalar(loss, block, scores, coefficients), form => match form {
            Form::Softmax(loss) => self.fill_softmax(loss, block, scores, coefficients),
            // no label, so the centre is the derivative itself
            _ => coefficients.fill(if self.part == Part::AroundMidrange { 0.0 } else { -self.scale }),
        });
        if let Some(weights) = self.weights {
            let mut buffer = [0.0; BLOCK_ROWS];
            let weights = block.values(weights, &mut buffer);
            for coefficients in coefficients.chunks_exact_mut(block.len()) {
                for (coefficient, &weight) in coefficients.iter_mut().zip(weights) {
                    *coefficient *= weight;
                }
            }
        }
    }
}
