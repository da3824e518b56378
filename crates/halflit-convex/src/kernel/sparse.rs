//! The two primitives for sparse rows: plain integer code, compiled for the processor's vectors by [`Level::run`](super::Level).
//!
//! What belongs to one column, a weight or a sum per output, lies side by side. No sum leaves 64 bits (`proof.md`, section 3).

use crate::rows::SparseRows;
use std::ops::Range;

/// scores[output * rows.len() + position] = the exact score of each of these rows.
#[inline(always)]
pub(super) fn scores(table: &SparseRows, rows: &[u32], weights: &[i32], outputs: usize, scores: &mut [i64]) {
    if outputs == 1 {
        for (score, &row) in scores.iter_mut().zip(rows) {
            *score = table.row(row as usize).iter().fold(0i64, |sum, (column, q)| {
                sum.wrapping_add(i64::from(weights[column]).wrapping_mul(i64::from(q)))
            });
        }
        return;
    }
    let mut own = vec![0i64; outputs];
    for (position, &row) in rows.iter().enumerate() {
        own.fill(0);
        for (column, q) in table.row(row as usize).iter() {
            for (score, &weight) in own.iter_mut().zip(&weights[column * outputs..][..outputs]) {
                *score = score.wrapping_add(i64::from(weight).wrapping_mul(i64::from(q)));
            }
        }
        for (score, &own) in scores[position..].iter_mut().step_by(rows.len()).zip(&own) {
            *score = own;
        }
    }
}

/// sums[column * outputs + output] += s q over a block's `positions`; coefficients are as scores are.
#[inline(always)]
pub(super) fn add(
    table: &SparseRows,
    rows: &[u32],
    positions: Range<usize>,
    coefficients: &[i32],
    sums: &mut [i64],
) {
    let outputs = coefficients.len() / rows.len().max(1);
    let row = |position: usize| table.row(rows[position] as usize);
    if outputs == 1 {
        for position in positions {
            let s = i64::from(coefficients[position]);
            for (column, q) in row(position).iter() {
                sums[column] = sums[column].wrapping_add(s.wrapping_mul(i64::from(q)));
            }
        }
        return;
    }
    let mut own = vec![0i64; outputs];
    for position in positions {
        for (own, &s) in own.iter_mut().zip(coefficients[position..].iter().step_by(rows.len())) {
            *own = i64::from(s);
        }
        for (column, q) in row(position).iter() {
            for (sum, &s) in sums[column * outputs..][..outputs].iter_mut().zip(&own) {
                *sum = sum.wrapping_add(s.wrapping_mul(i64::from(q)));
            }
        }
    }
}
