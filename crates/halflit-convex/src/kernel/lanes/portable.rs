//! The primitives in plain code.

use super::Panel;

/// Scores of the panel's rows.
pub(super) fn dots(panel: &Panel<'_>, weights: &[i32], scores: &mut [i64]) {
    for (score, &offset) in scores.iter_mut().zip(panel.offsets) {
        let row = &panel.values[offset..offset + panel.width];
        // |W q| < 2^38: no overflow below 2^24 columns, and the vector levels wrap alike
        *score =
            row.iter().zip(weights).fold(0, |sum, (&q, &w)| sum.wrapping_add(i64::from(w) * i64::from(q)));
    }
}

/// sums += sum_i coefficients[i] * row_i.
pub(super) fn accumulate(panel: &Panel<'_>, coefficients: &[i32], sums: &mut [i64]) {
    for (&coefficient, &offset) in coefficients.iter().zip(panel.offsets) {
        let row = &panel.values[offset..offset + panel.width];
        for (sum, &q) in sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(i64::from(coefficient) * i64::from(q));
        }
    }
}
