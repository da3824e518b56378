//! The noisy sum projected onto what labels can add up to: post-processing only.
//!
//! The sums that labels can have form the convex set
//!
//! ```text
//! C = { c(m) = S_public + sum_{private i} omega_i x_i m_i^T  :  m_i in conv t(Y) }
//! ```
//!
//! with the public rows' own sum S_public. The true sum is one of them; the noisy one rarely is. Its projection minimises f(m) = ||T c(m) - S~'||^2 / 2 over the soft labels m, a
//! least-squares problem over a product of intervals or simplices, which an accelerated projected gradient method solves (Beck and Teboulle 2009, with restarts by O'Donoghue and Candes 2015), one
//! pass over the rows per step.
//!
//! How near the minimum a step is, it says itself: f(m) >= <r, T c(m) - S~'> - ||r||^2/2 for every vector r, and the right-hand side is easily minimised over m, row by row. With r the residual
//! where the gradient was taken this costs no further pass. f is strongly convex in T c, so a gap g between the two bounds puts T c(m) within sqrt(2 g) of the projection.

use super::design::Design;
use super::lattice::LabelSteps;
use super::matrix::inner;
use super::posterior::{shaped, shaped_back};
use super::statistics::LabelStatistics;
use crate::problem::{add_row, scores};
use halflit_convex::{Domain, DomainError};
use rayon::prelude::*;

/// How near the projection a sum must be, as a share of the typical length of the noise.
const CLOSENESS: f64 = 0.03;

/// Steps at most; one to three hundred are usual for shaped noise, a few thousand for round noise.
const STEPS: usize = 4000;

/// Rows of one task; sums are added up task by task, in order, whatever the number of threads.
const TASK_ROWS: usize = 1024;

/// What labels could have added up to.
#[derive(Clone, Debug)]
pub struct Projection {
    /// One entry per output for each private row, then for each public row.
    pub soft_labels: Vec<Vec<f64>>,
    /// Their sum S^, one vector per output.
    pub sums: Vec<Vec<f64>>,
    /// The images of the sum and of the exact projection are at most this far apart, in standard deviations of the noise of one coordinate.
    pub distance: f64,
}

/// Where a pass went from one state: new soft labels, and what was added up on the way.
struct Pass {
    /// The new soft labels of the private rows, row after row.
    labels: Vec<f64>,
    added: Added,
}

#[derive(Clone)]
struct Added {
    /// sum_i omega_i x_i m_i^T of the new soft labels, output after output.
    sum: Vec<f64>,
    /// sum_i min_m omega_i <m, <u, x_i>>.
    least: f64,
    /// ||m - v||^2: how far the step went from where the gradient was taken.
    moved: f64,
    /// <v - m, m - current>: above zero the momentum points uphill.
    uphill: f64,
}

/// Soft labels, and the sum c of all rows with them.
#[derive(Clone)]
struct State {
    labels: Vec<f64>,
    sum: Vec<f64>,
}

struct Projector<'a> {
    design: &'a Design,
    statistics: &'a LabelStatistics,
    private_rows: usize,
    outputs: usize,
    /// conv t(Y), for classes.
    simplex: Domain,
    /// S_public.
    public_sum: Vec<f64>,
}

/// The projection of a released sum.
pub(super) fn project(design: &Design, statistics: &LabelStatistics) -> Result<Projection, DomainError> {
    let projector = Projector::new(design, statistics)?;
    let (state, gap) = projector.descended();
    let width = design.rows.width().max(1);
    let private = state.labels.chunks_exact(projector.outputs).map(<[f64]>::to_vec);
    let of_public = |&label: &f64| {
        (0..projector.outputs).map(|output| design.labels.statistic(label, output)).collect::<Vec<f64>>()
    };
    Ok(Projection {
        soft_labels: private.chain(design.public_labels.iter().map(of_public)).collect(),
        sums: state.sum.chunks_exact(width).map(<[f64]>::to_vec).collect(),
        distance: (2.0 * gap).sqrt() / statistics.noise_std,
    })
}

impl<'a> Projector<'a> {
    fn new(design: &'a Design, statistics: &'a LabelStatistics) -> Result<Self, DomainError> {
        let outputs = design.loss.outputs();
        Ok(Projector {
            design,
            statistics,
            private_rows: design.private_rows(),
            outputs,
            simplex: Domain::simplex(outputs)?,
            public_sum: design.sums_with(0.0),
        })
    }

    /// Soft labels whose sum is near enough, or what the last step reached; and the gap.
    fn descended(&self) -> (State, f64) {
        let size = self.design.size();
        let allowed = 0.5 * (CLOSENESS * self.statistics.noise_std).powi(2) * size as f64;
        let mut current = self.middle();
        let mut before = current.clone();
        let mut curvature = self.least_curvature();
        let (mut inertia, mut momentum) = (1.0f64, 0.0);
        let mut bound = 0.0f64;
        let mut gap = self.half_square(&self.residual(&current.sum));
        for _ in 0..STEPS {
            // A comparison that NaN passes: nothing is promised then.
            if gap <= allowed || gap.is_nan() {
                break;
            }
            let ahead = extrapolated(&current.sum, &before.sum, momentum);
            let residual = self.residual(&ahead);
            let direction = shaped_back(self.statistics.shape.as_ref(), &residual);
            let Pass { labels, added } = self.pass(&current, &before, momentum, &direction, curvature);
            let sum: Vec<f64> = self.public_sum.iter().zip(&added.sum).map(|(p, s)| p + s).collect();
            let bent: Vec<f64> = sum.iter().zip(&ahead).map(|(to, from)| to - from).collect();
            if 2.0 * self.half_square(&shaped(self.statistics.shape.as_ref(), &bent))
                > curvature * added.moved
            {
                curvature *= 1.5;
                continue;
            }
            bound = bound.max(
                inner(&direction, &self.public_sum) + added.least
                    - inner(&residual, &self.statistics.sums)
                    - self.half_square(&residual),
            );
            gap = (self.half_square(&self.residual(&sum)) - bound).max(0.0);
            before = std::mem::replace(&mut current, State { labels, sum });
            if added.uphill > 0.0 {
                (inertia, momentum) = (1.0, 0.0);
            } else {
                let next = 0.5 * (1.0 + (1.0 + 4.0 * inertia * inertia).sqrt());
                (inertia, momentum) = (next, (inertia - 1.0) / next);
            }
        }
        (current, gap)
    }

    /// Every private label in the middle of its domain.
    fn middle(&self) -> State {
        let middle = self.design.labels.middle();
        State { labels: vec![middle; self.private_rows * self.outputs], sum: self.design.sums_with(middle) }
    }

    /// A lower bound of the largest curvature of f: that along moving all labels alike.
    fn least_curvature(&self) -> f64 {
        let all = self.design.weighted_sum(|row| f64::from(u8::from(row < self.private_rows)));
        let bend =
            2.0 * self.half_square(&shaped(self.statistics.shape.as_ref(), &all)) / self.private_rows as f64;
        if bend > 0.0 { bend } else { 1.0 }
    }

    /// T c - S~'.
    fn residual(&self, sum: &[f64]) -> Vec<f64> {
        let image = shaped(self.statistics.shape.as_ref(), sum);
        image.iter().zip(&self.statistics.sums).map(|(image, released)| image - released).collect()
    }

    fn half_square(&self, vector: &[f64]) -> f64 {
        0.5 * inner(vector, vector)
    }

    /// One projected gradient step of length 1 / curvature from v = current + momentum (current - before), where the gradient of row i is omega_i <direction, x_i>.
    fn pass(
        &self,
        current: &State,
        before: &State,
        momentum: f64,
        direction: &[f64],
        curvature: f64,
    ) -> Pass {
        let cells = TASK_ROWS * self.outputs;
        let mut labels = vec![0.0; current.labels.len()];
        let tasks: Vec<Added> = labels
            .par_chunks_mut(cells)
            .zip(current.labels.par_chunks(cells).zip(before.labels.par_chunks(cells)))
            .enumerate()
            .map(|(task, (labels, (current, before)))| {
                labels.copy_from_slice(&extrapolated(current, before, momentum));
                self.moved(task * TASK_ROWS, labels, current, direction, curvature)
            })
            .collect();
        let nothing = Added { sum: vec![0.0; self.design.size()], least: 0.0, moved: 0.0, uphill: 0.0 };
        let added = tasks.into_iter().fold(nothing, |mut all, task| {
            all.sum.iter_mut().zip(&task.sum).for_each(|(all, task)| *all += task);
            all.least += task.least;
            all.moved += task.moved;
            all.uphill += task.uphill;
            all
        });
        Pass { labels, added }
    }

    /// Moves the soft labels of some rows from v to where the step goes.
    fn moved(
        &self,
        first_row: usize,
        labels: &mut [f64],
        current: &[f64],
        direction: &[f64],
        curvature: f64,
    ) -> Added {
        let width = self.design.rows.width();
        let mut added = Added { sum: vec![0.0; self.design.size()], least: 0.0, moved: 0.0, uphill: 0.0 };
        let mut ahead = vec![0.0; self.outputs];
        let rows = labels.chunks_exact_mut(self.outputs).zip(current.chunks_exact(self.outputs));
        for (row, (labels, current)) in rows.enumerate() {
            let row = first_row + row;
            let weight = self.design.weight(row);
            let mut slopes = scores(&self.design.rows, row, direction);
            slopes.iter_mut().for_each(|slope| *slope *= weight);
            ahead.copy_from_slice(labels);
            labels.iter_mut().zip(&slopes).for_each(|(label, slope)| *label -= slope / curvature);
            added.least += match self.design.labels {
                LabelSteps::Interval { low, high } => {
                    labels[0] = labels[0].clamp(low, high);
                    (low * slopes[0]).min(high * slopes[0])
                }
                LabelSteps::Classes { .. } => {
                    self.simplex.project(labels);
                    slopes.iter().copied().fold(f64::INFINITY, f64::min)
                }
            };
            for (output, &label) in labels.iter().enumerate() {
                added.moved += (label - ahead[output]).powi(2);
                added.uphill += (ahead[output] - label) * (label - current[output]);
                let sum = &mut added.sum[output * width..(output + 1) * width];
                add_row(&self.design.rows, row, weight * label, sum);
            }
        }
        added
    }
}

/// current + momentum (current - before).
fn extrapolated(current: &[f64], before: &[f64], momentum: f64) -> Vec<f64> {
    current.iter().zip(before).map(|(now, before)| now + momentum * (now - before)).collect()
}
