//! What a pass does with a block of rows once it has their scores.

use super::super::block::BLOCK_ROWS;
use super::super::lanes::{Upcoming, VectorWork, Vectors};
use super::super::single::{SINGLE_COEFFICIENT, bounds, to_single, within};
use super::coefficients::Classes;
use super::columns::{Column, PARTS, Span};
use super::diameter::{larger, squared_diameters};
use super::gradient::GradientQuery;
use super::sums::{ByValue, Shares, add_by_value_wide, fill_shares, reduce, reduce_by_value};
use super::{BeliefUpdate, finite};
use crate::math::to_float;

/// A thread's working memory: one block, and what is collected over a run of blocks.
pub(super) struct Scratch {
    /// The last rows of the table, filled up to a block.
    pub(super) tail: Vec<i16>,
    /// The rows of the next block.
    pub(super) upcoming: Upcoming,
    /// Per output: scores, and products with a direction.
    pub(super) integer_scores: Vec<[i64; BLOCK_ROWS]>,
    pub(super) integer_products: Vec<[i64; BLOCK_ROWS]>,
    pub(super) scores: Vec<Column<f64>>,
    pub(super) products: Vec<Column<f32>>,
    pub(super) classes: Classes,
    /// The coefficients: entry `output * k + value`.
    pub(super) integers: Vec<Column<i32>>,
    /// Per value.
    pub(super) shares: Vec<Column<f32>>,
    /// Per output.
    pub(super) believed: Vec<Column<i32>>,
    pub(super) actual: Vec<Column<i32>>,
    /// Per output and value.
    pub(super) by_value: Vec<ByValue>,
    pub(super) squared_diameters: Column<f64>,
}

impl Scratch {
    pub(super) fn new(outputs: usize, values: usize) -> Self {
        Scratch {
            tail: Vec::new(),
            upcoming: Upcoming::nothing(),
            integer_scores: vec![[0; BLOCK_ROWS]; outputs],
            integer_products: vec![[0; BLOCK_ROWS]; outputs],
            scores: vec![Column::of(0.0); outputs],
            products: vec![Column::of(0.0); outputs],
            classes: Classes::default(),
            integers: vec![Column::of(0); outputs * values],
            shares: vec![Column::of(0.0); values],
            believed: vec![Column::of(0); outputs],
            actual: vec![Column::of(0); outputs],
            by_value: vec![ByValue::default(); outputs * values],
            squared_diameters: Column::of(0.0),
        }
    }

    /// Scores in real units.
    #[inline(always)]
    fn scale_scores(&mut self, unit: f64) {
        for (scores, integers) in self.scores.iter_mut().zip(&self.integer_scores) {
            *scores = Column::each(|row| to_float(integers[row]) * unit);
        }
    }
}

/// Believed and actual coefficients of a block, sums by value, squared diameters.
pub(super) struct ReduceBlock<'a> {
    pub(super) query: &'a GradientQuery<'a>,
    pub(super) span: Span,
    pub(super) logits: &'a [Column<f32>],
    pub(super) secret: &'a [u16],
    pub(super) scratch: &'a mut Scratch,
}

impl VectorWork for ReduceBlock<'_> {
    #[inline(always)]
    fn run(self, v: impl Vectors) {
        let ReduceBlock { query, span, logits, secret, scratch } = self;
        let values = query.rows.values;
        let (k, last) = (values.len(), values.len() as i32 - 1);
        let secret = Column::padded(secret, 0);
        let secret = Column::each(|row| i32::from(secret.0[row]).min(last));
        scratch.scale_scores(query.weights.score_unit());
        let Scratch { scores, classes, integers, shares, believed, actual, .. } = scratch;
        if let Some(hidden) = &query.hidden_labels {
            hidden.reduce(v, &scores[0], logits, &secret, [&mut believed[0], &mut actual[0]]);
            return;
        }
        query.coefficients(v, span, scores, classes, integers);
        let normalisers = &fill_shares(v, logits, shares);
        let beliefs = Shares { shares, normalisers };
        let mut extremes = [Column::of(0); 2];
        for (output, integers) in integers.chunks_exact(k).enumerate() {
            let sums = &mut scratch.by_value[output * k..][..k];
            let found = if values.has_shifts && query.limit <= SINGLE_COEFFICIENT {
                reduce_by_value(v, integers, beliefs, &secret, query.limit, sums)
            } else {
                if values.has_shifts {
                    add_by_value_wide(integers, beliefs, &secret, query.limit, sums);
                }
                reduce(v, integers, beliefs, &secret, query.limit)
            };
            (believed[output], actual[output]) = (found.believed, found.actual);
            if output == 0 {
                extremes = [found.lowest, found.highest];
            }
        }
        let norms = Column::padded(span.of(query.rows.rows.squared_norms()), 0);
        // norms are below 2^62
        let norms = Column::each(|row| to_float(norms.0[row] as i64));
        let found = squared_diameters(values, integers, extremes.each_ref(), &norms);
        let most = scratch.squared_diameters;
        scratch.squared_diameters = Column::each(|row| larger(found.0[row], most.0[row]));
    }
}

/// How inner products become steps.
pub(super) struct Steps {
    /// What a unit of an integer inner product adds to a logit, for a coefficient of one.
    unit: f64,
    /// The inner products of what the values fill, in the same measure, by output and value.
    along: Vec<f32>,
    /// The largest step.
    cap: f32,
}

impl Steps {
    /// Far above any inner product that matters; its products with coefficients are finite, so that steps are numbers.
    const MOST: f64 = 1e25;

    /// `score_unit` is what an integer inner product is worth, `scale` a coefficient's steps per unit.
    pub(super) fn new(update: &BeliefUpdate, score_unit: f64, along: &[f64], scale: f64) -> Self {
        let factor = finite(update.logit_per_product() / scale, 1e200);
        Steps {
            unit: finite(score_unit * factor, 1e200),
            along: along.iter().map(|along| to_single(along * factor, Steps::MOST)).collect(),
            cap: update.largest_step(),
        }
    }
}

/// logit_y += sum_o c_o(y) (inner product with the direction), within the cap.
pub(super) struct UpdateBlock<'a> {
    pub(super) query: &'a GradientQuery<'a>,
    pub(super) span: Span,
    pub(super) steps: &'a Steps,
    pub(super) scratch: &'a mut Scratch,
    pub(super) logits: &'a mut [Column<f32>],
}

impl VectorWork for UpdateBlock<'_> {
    #[inline(always)]
    fn run(self, v: impl Vectors) {
        let UpdateBlock { query, span, steps, scratch, logits } = self;
        scratch.scale_scores(query.weights.score_unit());
        let Scratch { scores, classes, integers, products, integer_products, .. } = scratch;
        for (products, integers) in products.iter_mut().zip(integer_products) {
            *products = Column::each(|row| to_single(to_float(integers[row]) * steps.unit, Steps::MOST));
        }
        if let Some(hidden) = &query.hidden_labels {
            hidden.update(v, &scores[0], &products[0], steps.cap, logits);
            return;
        }
        query.coefficients(v, span, scores, classes, integers);
        let (k, along, caps) = (logits.len(), &steps.along, bounds(v, steps.cap));
        for (value, logits) in logits.iter_mut().enumerate() {
            let mut steps = [v.splat(0.0); PARTS];
            for (output, products) in products.iter().enumerate() {
                let (integers, along) = (&integers[output * k + value], v.splat(along[output * k + value]));
                for (part, step) in steps.iter_mut().enumerate() {
                    let coefficient = v.to_floats(v.load_integers(integers.part(part)));
                    *step = *step + coefficient * (v.load(products.part(part)) + along);
                }
            }
            for (part, step) in steps.into_iter().enumerate() {
                v.store(v.load(logits.part(part)) + within(v, step, caps), logits.part_mut(part));
            }
        }
    }
}
