//! Upper bounds of the squared diameters of the rows' integer vectors.
//!
//! With c = c(y) and c' = c(y') the coefficients of two values, A the squared norm of a row's public features and v, v' the coordinates
//! that the values fill,
//!
//! ```text
//! ||c (a + v) - c' (a + v')||^2 = (c - c')^2 A + c^2 <v, v> + c'^2 <v', v'> - 2 c c' <v, v'>
//! ```
//!
//! summed over the outputs. Computed in doubles and rounded up by [`DISTANCE_SLACK`] of its terms.

use super::super::block::BLOCK_ROWS;
use super::columns::Column;
use super::values::SensitiveValues;

/// Relative error of a squared distance computed in doubles, at most: a dozen roundings of 2^-53 each.
pub(super) const DISTANCE_SLACK: f64 = 1.0 / (1u64 << 45) as f64;

/// Up to this many values all pairs are looked at; beyond, a bound that is nearly attained costs k instead of k^2.
const MOST_EXACT_VALUES: usize = 6;

#[inline(always)]
pub(super) fn larger(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// At least the squared diameter of every row of a block; zero only if the row's vectors are all equal.
///
/// `integers` are the rows' coefficients, entry `output * k + value`, `extremes` the least and the largest of the first output; `public` are
/// the squared norms of the rows' public features.
#[inline(always)]
pub(super) fn squared_diameters(
    values: &SensitiveValues,
    integers: &[Column<i32>],
    extremes: [&Column<i32>; 2],
    public: &Column<f64>,
) -> Column<f64> {
    let one_output = integers.len() == values.len();
    if one_output && !values.has_shifts {
        // all vectors point the same way
        Column::each(|row| {
            let [low, high] = extremes.map(|extreme| f64::from(extreme.0[row]));
            (high - low) * (high - low) * public.0[row] * (1.0 + DISTANCE_SLACK)
        })
    } else if one_output && values.len() > MOST_EXACT_VALUES && values.overlap >= 0.0 {
        bound_by_extremes(values, extremes, public)
    } else {
        all_pairs(values, integers, public)
    }
}

/// One output, without looking at pairs. For coefficients s, t between the lowest and the highest,
/// (s-t)^2 A + s^2 V + t^2 V is convex, so its largest value is at a corner; what two values share, -2 s t <v, v'>, only helps
/// where s and t have one sign and inner products are not negative. Where they differ in sign it adds at most -2 s t O with O <= V the
/// largest inner product, and the sum is convex still.
#[inline(always)]
fn bound_by_extremes(
    values: &SensitiveValues,
    extremes: [&Column<i32>; 2],
    public: &Column<f64>,
) -> Column<f64> {
    Column::each(|row| {
        let [low, high] = extremes.map(|extreme| f64::from(extreme.0[row]));
        let (low_square, high_square) = (low * low, high * high);
        let range = high - low;
        let opposite = larger(-2.0 * low * high, 0.0) * values.overlap;
        let corner = range * range * public.0[row] + (low_square + high_square) * values.longest + opposite;
        let same = 2.0 * larger(low_square, high_square) * values.longest;
        larger(corner, same) * (1.0 + DISTANCE_SLACK)
    })
}

/// Every pair of values, by the formula.
#[inline(always)]
fn all_pairs(values: &SensitiveValues, integers: &[Column<i32>], public: &Column<f64>) -> Column<f64> {
    let k = values.len();
    let mut diameters = Column::of(0.0);
    for y in 0..k {
        for other in 0..y {
            let (own, others) = (values.products[y * k + y], values.products[other * k + other]);
            let shared = values.products[y * k + other];
            let (mut square, mut magnitude) = (Column::of(0.0), Column::of(0.0));
            for of_output in integers.chunks_exact(k) {
                let (one, another) = (&of_output[y], &of_output[other]);
                for row in 0..BLOCK_ROWS {
                    let (s, t) = (f64::from(one.0[row]), f64::from(another.0[row]));
                    let apart = (s - t) * (s - t) * public.0[row];
                    let alone = s * s * own + t * t * others;
                    let cross = 2.0 * s * t * shared;
                    square.0[row] += apart + alone - cross;
                    magnitude.0[row] += apart + alone + cross.abs();
                }
            }
            let before = diameters;
            diameters = Column::each(|row| {
                let rounded_up = larger(square.0[row], 0.0) + DISTANCE_SLACK * magnitude.0[row];
                larger(rounded_up, before.0[row])
            });
        }
    }
    diameters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    /// Every branch against exact integers: coefficients that are equal, zero, of one sign and of both, rows without features, shifts
    /// that share coordinates or none.
    #[test]
    fn bounds_hold_for_made_up_coefficients() {
        let mut numbers = Numbers::new(31);
        let (mut attained, mut seen) = (0, 0);
        for case in 0..3000usize {
            let (k, outputs) = (1 + case % 11, 1 + case / 11 % 2);
            let most = [4_194_304i64, 536_000_000, 3][case % 3];
            let mut draw = |kind: usize| match kind {
                0 => 0,
                1 => most,
                2 => -most,
                _ => (numbers.symmetric() * most as f64) as i64,
            };
            let kinds = [[1, 1, 0], [1, 2, 1], [3, 3, 3], [2, 2, 3], [0, 0, 0]][case / 3 % 5];
            let integers: Vec<Column<i32>> =
                (0..outputs * k).map(|at| Column::of(draw(kinds[at % 3]) as i32)).collect();
            let shift = |value: usize| match case / 7 % 4 {
                0 => vec![],
                1 => vec![(value as u32, 16384)],
                2 => vec![(value as u32 % 3, 100 + value as i16), (5, 16384)],
                _ => vec![(value as u32 % 2, if value.is_multiple_of(3) { -16384 } else { 32767 })],
            };
            let values = SensitiveValues::new((0..k).map(shift).collect(), None).unwrap();
            let public = [0u64, 1 << 30, 123_456_789_012, 1 << 45][case / 5 % 4];
            let of_output = integers.chunks_exact(k).next().unwrap();
            let low = Column::of(of_output.iter().map(|own| own.0[0]).min().unwrap());
            let high = Column::of(of_output.iter().map(|own| own.0[0]).max().unwrap());
            let found =
                squared_diameters(&values, &integers, [&low, &high], &Column::of(public as f64)).0[case % 32];
            let mut exact = 0i128;
            for y in 0..k {
                for other in 0..y {
                    let square = integers.chunks_exact(k).map(|integers| {
                        let (s, t) = (i128::from(integers[y].0[0]), i128::from(integers[other].0[0]));
                        let product = |one: usize, two: usize| values.products[one * k + two] as i128;
                        (s - t) * (s - t) * i128::from(public)
                            + s * s * product(y, y)
                            + t * t * product(other, other)
                            - 2 * s * t * product(y, other)
                    });
                    exact = exact.max(square.sum());
                }
            }
            assert!(exact as f64 <= found, "{case}: {exact} {found}");
            assert!(
                exact > 0 || found == 0.0 || k > MOST_EXACT_VALUES || values.has_shifts,
                "{case}: {found}"
            );
            seen += u32::from(exact > 0);
            attained += u32::from(exact > 0 && found < exact as f64 * (1.0 + 1e-9));
        }
        assert!(3 * attained > 2 * seen, "{attained} of {seen}");
    }
}
