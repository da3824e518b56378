//! Centres of rows: the midrange when some features are sensitive, and the imputed row.
//!
//! A row splits into its public coordinates a and its sensitive ones; its gradient is l'(z) (a, s). The centre is m a, where m is the middle
//! of the values that l' can take over all sensitive cells (and labels, if the label is sensitive): it depends on a, the public label
//! and the weights alone. What remains hidden is ((l' - m) a, l' s), which is shorter than the gradient whenever l' varies by less than
//! its size. The imputed centre is the gradient of the row with its sensitive cells filled in from the public rows, averaged over their labels if
//! the label is sensitive.

use halflit_convex::Loss;
use halflit_convex::kernel::{Block, KernelError, LatticeWeights, Rule};
use halflit_table::{ColumnDomain, Encoding};

/// The rule for a layout in which row 2i is row i and row 2i + 1 its public part, or for the public parts alone.
pub(super) struct AroundPublicPart<'a> {
    loss: Loss,
    labels: &'a [f64],
    label_is_public: bool,
    row_weights: Option<&'a [f64]>,
    middle: Middle<'a>,
    scale: f64,
    is_interleaved: bool,
}

/// What the coefficient of a public part is.
pub(super) enum Middle<'a> {
    /// The middle of the derivative's range. Per output: how far the sensitive coordinates can lower and raise the score.
    Range(Vec<(f64, f64)>),
    /// The derivative at the imputed row, averaged over these labels if the label is sensitive.
    Imputed(&'a [f64]),
}

impl<'a> AroundPublicPart<'a> {
    /// `labels` and `row_weights` have one entry per row of the layout.
    pub fn new(loss: Loss, middle: Middle<'a>, labels: &'a [f64], label_is_public: bool, scale: f64) -> Self {
        AroundPublicPart {
            loss,
            labels,
            label_is_public,
            row_weights: None,
            middle,
            scale,
            is_interleaved: false,
        }
    }

    /// Every row's coefficient is multiplied by its weight.
    pub fn weighted(self, row_weights: Option<&'a [f64]>) -> Self {
        AroundPublicPart { row_weights, ..self }
    }

    /// Rows and their public parts alternate: the gradient's coefficient, then minus the centre's.
    pub fn interleaved(self) -> Self {
        AroundPublicPart { is_interleaved: true, ..self }
    }

    /// The centre's coefficient, for the public score(s) and the label of one row.
    fn middle(&self, scores: &[f64], label: f64, scratch: &mut Scratch, middle: &mut [f64]) {
        match &self.middle {
            Middle::Range(swing) => self.middle_of_range(swing, scores, label, scratch, middle),
            Middle::Imputed(_) if self.label_is_public => self.loss.derivative(scores, label, middle),
            Middle::Imputed(labels) => {
                middle.fill(0.0);
                for &label in *labels {
                    self.loss.derivative(scores, label, &mut scratch.derivative);
                    for (middle, derivative) in middle.iter_mut().zip(&scratch.derivative) {
                        *middle += derivative / labels.len() as f64;
                    }
                }
            }
        }
    }

    fn middle_of_range(
        &self,
        swing: &[(f64, f64)],
        scores: &[f64],
        label: f64,
        scratch: &mut Scratch,
        middle: &mut [f64],
    ) {
        if let [(low, high)] = swing[..] {
            let (lowest, highest) = (scores[0] + low, scores[0] + high);
            // The derivative of a convex loss grows with the score, so its extremes are at the ends.
            let (from, to) = if self.label_is_public {
                (self.derivative_at(lowest, label), self.derivative_at(highest, label))
            } else {
                let range = |score| self.loss.derivative_range(score).unwrap_or((0.0, 0.0));
                (range(lowest).0, range(highest).1)
            };
            middle[0] = 0.5 * (from + to);
            return;
        }
        // Softmax: a class is likeliest when its own score is highest and the others are lowest.
        let label = if self.label_is_public { label } else { NO_CLASS };
        let share = if self.label_is_public { 0.0 } else { 1.0 / swing.len() as f64 };
        for (class, middle) in middle.iter_mut().enumerate() {
            let mut ends = [0.0; 2];
            for (end, own_is_low) in ends.iter_mut().zip([true, false]) {
                for (other, score) in scratch.scores.iter_mut().enumerate() {
                    let (low, high) = swing[other];
                    *score = scores[other] + if (other == class) == own_is_low { low } else { high };
                }
                self.loss.derivative(&scratch.scores, label, &mut scratch.derivative);
                *end = scratch.derivative[class];
            }
            *middle = 0.5 * (ends[0] + ends[1]) - share;
        }
    }

    fn derivative_at(&self, score: f64, label: f64) -> f64 {
        let mut derivative = [0.0];
        self.loss.derivative(&[score], label, &mut derivative);
        derivative[0]
    }
}

/// A label that names no class: the derivative is then the vector of probabilities.
const NO_CLASS: f64 = -1.0;

struct Scratch {
    scores: Vec<f64>,
    derivative: Vec<f64>,
}

impl Rule for AroundPublicPart<'_> {
    fn outputs(&self) -> usize {
        self.loss.outputs()
    }

    fn check(&self, rows: usize) -> Result<(), KernelError> {
        let lengths = [
            ("the labels", Some(self.labels.len())),
            ("the row weights", self.row_weights.map(<[f64]>::len)),
        ];
        for (name, found) in lengths {
            if let Some(found) = found.filter(|&found| found != rows) {
                return Err(KernelError::Length { name, found, rows });
            }
        }
        Ok(())
    }

    fn fill(&self, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]) {
        let (len, outputs) = (block.len(), self.outputs());
        let mut scratch = Scratch { scores: vec![0.0; outputs], derivative: vec![0.0; outputs] };
        let (mut own, mut value) = (vec![0.0; outputs], vec![0.0; outputs]);
        for position in 0..len {
            let row = block.row(position);
            for (output, own) in own.iter_mut().enumerate() {
                *own = scores[output * len + position];
            }
            let is_centre = !self.is_interleaved || row % 2 == 1;
            if is_centre {
                self.middle(&own, self.labels[row], &mut scratch, &mut value);
            } else {
                self.loss.derivative(&own, self.labels[row], &mut value);
            }
            let sign = if self.is_interleaved && is_centre { -1.0 } else { 1.0 };
            let factor = sign * self.scale * self.row_weights.map_or(1.0, |weights| weights[row]);
            for (output, value) in value.iter().enumerate() {
                coefficients[output * len + position] = factor * value;
            }
        }
    }
}

/// How far the sensitive coordinates can move each output's score, over their declared domains.
pub(super) fn swing(encoding: &Encoding, weights: &LatticeWeights) -> Vec<(f64, f64)> {
    let rounded = weights.rounded();
    rounded
        .chunks_exact(weights.width().max(1))
        .map(|weights| {
            encoding.columns().iter().filter(|column| column.is_sensitive()).fold(
                (0.0, 0.0),
                |(low, high), column| {
                    let own = &weights[column.coordinates()];
                    let (down, up) = match column.domain() {
                        ColumnDomain::Bounds { .. } => (-own[0].abs(), own[0].abs()),
                        ColumnDomain::Values(_) => {
                            own.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &w| {
                                (low.min(w), high.max(w))
                            })
                        }
                    };
                    (low + down, high + up)
                },
            )
        })
        .collect()
}
