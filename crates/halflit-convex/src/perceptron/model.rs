use super::example::Forward;
use super::{ACTIVATION_BITS, PerceptronError};
use crate::kernel::pass::in_parallel;
use crate::kernel::weights::LatticeWeights;
use crate::kernel::{BLOCK_ROWS, Batch, Level};
use crate::rows::{FEATURE_BITS, Rows};

/// Sizes of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerceptronShape {
    /// Columns of a row.
    pub inputs: usize,
    /// Hidden units.
    pub hidden: usize,
    /// Classes.
    pub classes: usize,
}

impl PerceptronShape {
    /// Number of weights: hidden * inputs, then classes * (hidden + 1), the last of each class being its bias.
    pub fn weights(&self) -> usize {
        self.hidden * self.inputs + self.classes * (self.hidden + 1)
    }
}

/// Weights of a perceptron, rounded to lattices, so that scores are exact integers and the same everywhere. Not a convex model.
#[derive(Debug, Clone)]
pub struct Perceptron {
    shape: PerceptronShape,
    pub(super) first: LatticeWeights,
    pub(super) second: LatticeWeights,
    /// The second layer's rounded weights, class after class, without the bias.
    pub(super) back: Vec<f64>,
}

/// Average loss and accuracy of a model on labelled rows. Neither is private.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// Average cross-entropy.
    pub average_loss: f64,
    /// Share of rows whose most probable class is their label.
    pub accuracy: f64,
}

impl Perceptron {
    /// A model from its weights: those into each hidden unit, unit after unit, then those into each class, bias last.
    ///
    /// Weights that are not finite, or beyond 1e100, are refused.
    pub fn new(shape: PerceptronShape, weights: &[f64]) -> Result<Self, PerceptronError> {
        let sizes = [
            ("the number of inputs", shape.inputs, 1),
            ("the number of hidden units", shape.hidden, 1),
            ("the number of classes", shape.classes, 2),
        ];
        for (name, value, least) in sizes {
            let most = 1 << 16;
            if !(least..=most).contains(&value) {
                return Err(PerceptronError::Size { name, value, least, most });
            }
        }
        if weights.len() != shape.weights() {
            return Err(PerceptronError::Weights { found: weights.len(), expected: shape.weights() });
        }
        let (first, second) = weights.split_at(shape.hidden * shape.inputs);
        let first = LatticeWeights::new(first, shape.hidden)?;
        let second = LatticeWeights::new(second, shape.classes)?;
        let back = second
            .rounded()
            .chunks_exact(shape.hidden + 1)
            .flat_map(|w| w[..shape.hidden].to_vec())
            .collect();
        Ok(Perceptron { shape, first, second, back })
    }

    /// The sizes.
    pub fn shape(&self) -> PerceptronShape {
        self.shape
    }

    /// The weights that passes really use: the given ones rounded to their lattices.
    pub fn rounded(&self) -> Vec<f64> {
        [self.first.rounded(), self.second.rounded()].concat()
    }

    /// What one unit of an integer hidden score is worth.
    pub(super) fn hidden_unit(&self) -> f64 {
        self.first.score_unit()
    }

    /// What one unit of an integer class score is worth: activations have another unit than features.
    pub(super) fn class_unit(&self) -> f64 {
        self.second.score_unit() * f64::from(1u32 << (FEATURE_BITS - ACTIVATION_BITS))
    }

    /// Average loss and accuracy on labelled rows.
    pub fn evaluate(&self, rows: &Rows, labels: &[f64]) -> Result<Evaluation, PerceptronError> {
        check_rows(self.shape, rows, labels)?;
        // the loss in units of 2^-32, so that threads cannot change the sum
        let sum_range = |start: usize, end: usize| {
            let mut forward = Forward::new(self.shape);
            let (mut loss, mut right) = (0i64, 0i64);
            for from in (start..end).step_by(BLOCK_ROWS) {
                let to = (from + BLOCK_ROWS).min(end);
                forward.load(rows, Batch::All, from..to);
                forward.run(self, Level::best());
                for (position, &label) in labels[from..to].iter().enumerate() {
                    let p = |class: usize| forward.probabilities[class * BLOCK_ROWS + position];
                    let own = p(label as usize);
                    loss += (-own.max(1e-300).ln() * (1u64 << 32) as f64) as i64;
                    right += i64::from((0..self.shape.classes).all(|class| p(class) <= own));
                }
            }
            vec![loss, right]
        };
        let work = self.shape.weights();
        let sums = in_parallel(rows.len(), work, sum_range).unwrap_or_else(|| vec![0; 2]);
        let count = rows.len().max(1) as f64;
        Ok(Evaluation {
            average_loss: sums[0] as f64 / (1u64 << 32) as f64 / count,
            accuracy: sums[1] as f64 / count,
        })
    }
}

/// The rows have the model's inputs, the labels name its classes.
pub(super) fn check_rows(shape: PerceptronShape, rows: &Rows, labels: &[f64]) -> Result<(), PerceptronError> {
    if rows.width() != shape.inputs {
        return Err(PerceptronError::Inputs { found: rows.width(), expected: shape.inputs });
    }
    if labels.len() != rows.len() {
        let (found, rows) = (labels.len(), rows.len());
        return Err(crate::kernel::KernelError::Length { name: "the labels", found, rows }.into());
    }
    let names_a_class = |&label: &f64| label >= 0.0 && label < shape.classes as f64 && label.fract() == 0.0;
    match labels.iter().position(|label| !names_a_class(label)) {
        Some(row) => Err(PerceptronError::Label { row, classes: shape.classes }),
        None => Ok(()),
    }
}
