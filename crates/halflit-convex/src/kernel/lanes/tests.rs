use super::super::block::BLOCK_ROWS;
use super::super::clamp::{MAX_COEFFICIENT, QUICK_COEFFICIENT};
use super::*;
use crate::rows::{FEATURE_SCALE, MAX_FEATURE};
use crate::testing::Numbers;

/// Rows, and what follows the last one, which must not count.
fn values(width: usize, mut feature: impl FnMut() -> i16) -> Vec<i16> {
    let mut values: Vec<i16> = (0..BLOCK_ROWS * width).map(|_| feature()).collect();
    values.resize(values.len() + LANES, 77);
    values
}

/// Scores and sums of a block against sums written out, at every level. `rows` are those of the block, `coefficients` one list
/// per output.
fn check(block: &impl DenseBlock, rows: &[&[i16]], weights: &LatticeWeights, coefficients: &[Vec<i32>]) {
    let (width, outputs) = (weights.width(), weights.outputs());
    let product = |row: &[i16], output: usize| -> i64 {
        row.iter().zip(weights.integers(output)).map(|(&q, &w)| i64::from(q) * i64::from(w)).sum()
    };
    let scores: Vec<i64> =
        (0..outputs).flat_map(|output| rows.iter().map(move |row| product(row, output))).collect();
    for &level in Level::available() {
        let mut found = vec![1; rows.len() * outputs];
        level.dots(block, weights, &mut found);
        assert_eq!(found, scores, "{} {width}", level.name());

        let mut sums = vec![vec![1000; width.next_multiple_of(LANES)]; outputs];
        let mut each: Vec<Weighted<'_>> = coefficients
            .iter()
            .zip(&mut sums)
            .map(|(coefficients, sums)| Weighted { coefficients, sums })
            .collect();
        level.accumulate(block, &mut each);
        for (sums, coefficients) in sums.iter().zip(coefficients) {
            let mut expected = vec![1000i64; width];
            for (row, &s) in rows.iter().zip(coefficients) {
                expected.iter_mut().zip(*row).for_each(|(sum, &q)| *sum += i64::from(s) * i64::from(q));
            }
            let mut columns = vec![0; width];
            level.unscramble(sums, &mut columns);
            assert_eq!(columns, expected, "{} {width}", level.name());
        }
    }
}

#[test]
fn blocks_agree_with_sums_written_out() {
    let mut numbers = Numbers::new(21);
    for width in (1..=70).chain([95, 96, 97, 111, 112, 113, 127, 128, 129, 255, 256, 257, 300, 513, 2100]) {
        // small features too, of which lanes hold more products
        let largest = [MAX_FEATURE, FEATURE_SCALE][width % 2];
        let values = values(width, || numbers.feature().clamp(-largest, largest));
        let rows: Vec<&[i16]> = values[..BLOCK_ROWS * width].chunks_exact(width).collect();
        for outputs in [1, 2, 3, 4, 5, 17] {
            let weights: Vec<f64> = (0..width * outputs).map(|_| numbers.symmetric()).collect();
            let weights = LatticeWeights::new(&weights, outputs).unwrap();
            for most in [QUICK_COEFFICIENT, MAX_COEFFICIENT, 5] {
                let mut coefficients: Vec<Vec<i32>> = (0..outputs)
                    .map(|_| {
                        (0..BLOCK_ROWS).map(|_| (numbers.symmetric() * f64::from(most)) as i32).collect()
                    })
                    .collect();
                let mut upcoming = Upcoming::nothing();
                check(&Run::new(&values, width, largest, &upcoming), &rows, &weights, &coefficients);
                upcoming.set(&values, width, &Block::run(0, BLOCK_ROWS));
                check(&Run::new(&values, width, largest, &upcoming), &rows, &weights, &coefficients);
                for count in [BLOCK_ROWS, 31, 7, 2, 1] {
                    // every third row, round and round
                    let order: Vec<usize> = (0..count).map(|i| 3 * i % BLOCK_ROWS).collect();
                    let offsets: Vec<usize> = order.iter().map(|row| row * width).collect();
                    upcoming.set(&values, width, &Block::list(&[7, 1, 0][..count % 4]));
                    let (values, offsets, upcoming) = (&values[..], &offsets[..], &upcoming);
                    let panel = Panel { values, offsets, width, largest, upcoming };
                    let rows: Vec<&[i16]> = order.iter().map(|&row| rows[row]).collect();
                    coefficients.iter_mut().for_each(|own| own.truncate(count));
                    check(&panel, &rows, &weights, &coefficients);
                }
            }
        }
    }
}

#[test]
fn extreme_values_do_not_overflow_a_lane() {
    let (quick, most) = (QUICK_COEFFICIENT as i32, MAX_COEFFICIENT as i32);
    for width in [16, 100, 127, 128, 129, 256, 300, 512, 991, 992, 993, 1984] {
        for q in [MAX_FEATURE, -MAX_FEATURE, FEATURE_SCALE, -FEATURE_SCALE] {
            let values = values(width, || q);
            let rows: Vec<&[i16]> = values[..BLOCK_ROWS * width].chunks_exact(width).collect();
            // both digits of weights as large as they get, or the high one alone; coefficients at and around what two digits hold
            for weight in [1.0 - 2f64.powi(-12), -1.0, 1.0f64.next_down()] {
                let signed = |column: usize| weight * if column.is_multiple_of(3) { -1.0 } else { 1.0 };
                let one: Vec<f64> = (0..width).map(signed).collect();
                let both = [one.clone(), vec![weight; width]].concat();
                for (s, t) in [(quick, -quick), (most, most), (-most, quick + 1), (-quick - 1, 0)] {
                    let coefficients = [vec![s; BLOCK_ROWS], vec![t; BLOCK_ROWS]];
                    let nothing = Upcoming::nothing();
                    let run = Run::new(&values, width, q.abs(), &nothing);
                    check(&run, &rows, &LatticeWeights::new(&both, 2).unwrap(), &coefficients);
                    for own in coefficients {
                        check(&run, &rows, &LatticeWeights::new(&one, 1).unwrap(), &[own]);
                    }
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "values.len() >=")]
fn runs_that_cannot_be_read_whole_are_refused() {
    let _ = Run::new(&[0; BLOCK_ROWS * 100], 100, 0, &Upcoming::nothing());
}
