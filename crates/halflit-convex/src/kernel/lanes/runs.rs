//! The primitives for a block of rows that follow one another: no table of addresses, and two sums in one reading.

use super::*;

/// A block of consecutive dense rows.
pub(crate) struct Run<'a> {
    /// Row-major values, with a tail that whole vectors may run into.
    values: &'a [i16],
    /// Number of columns.
    width: usize,
    /// Whether the rows after these are asked for while these are scored.
    ahead: bool,
}

impl<'a> Run<'a> {
    /// The first [`BLOCK_ROWS`] rows of `values`. Panics if they cannot be read in whole vectors.
    #[inline(always)]
    pub(crate) fn new(values: &'a [i16], width: usize) -> Self {
        assert!(values.len() >= (BLOCK_ROWS - 1) * width + width.next_multiple_of(LANES));
        Run { values, width, ahead: false }
    }

    /// The same rows; while they are scored the next block's are asked for.
    #[inline(always)]
    pub(crate) fn looking_ahead(self) -> Self {
        Run { ahead: true, ..self }
    }

    pub(super) fn start(&self) -> *const i16 {
        self.values.as_ptr()
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn looks_ahead(&self) -> bool {
        self.ahead
    }

    /// Calls `work` with the rows as a panel, for levels without code of their own.
    fn as_panel<T>(&self, work: impl FnOnce(&Panel<'_>) -> T) -> T {
        let mut offsets = [0; 2 * BLOCK_ROWS];
        for (row, offset) in offsets.iter_mut().enumerate() {
            *offset = row * self.width;
        }
        let (offsets, next) = offsets.split_at(BLOCK_ROWS);
        let (values, width, ahead) = (self.values, self.width, if self.ahead { next } else { &[] });
        work(&Panel { values, offsets, ahead, width })
    }
}

impl Level {
    /// Exact scores of the run's rows for one output, in score units.
    pub(crate) fn run_scores(
        self,
        run: &Run<'_>,
        weights: &LatticeWeights,
        output: usize,
        scores: &mut [i64; BLOCK_ROWS],
    ) {
        assert_eq!(weights.width(), run.width);
        match self.0 {
            // SAFETY: the level exists because the processor reported its features.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { avx2_runs::scores(run, weights.digits(output), scores) },
            _ => run.as_panel(|panel| self.dots(panel, weights, output, scores)),
        }
    }

    /// sums[j] += sum_i coefficients[j][i] * row_i for two sets of coefficients. `sums` are in the order of [`Level::run_columns`].
    ///
    /// |coefficient| <= MAX_COEFFICIENT.
    pub(crate) fn run_sums(
        self,
        run: &Run<'_>,
        coefficients: [&[i32; BLOCK_ROWS]; 2],
        sums: [&mut [i64]; 2],
    ) {
        for sums in &sums {
            assert_eq!(sums.len(), run.width.next_multiple_of(LANES));
        }
        match self.0 {
            // SAFETY: the level exists because the processor reported its features.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { avx2_runs::sums(run, coefficients, sums) },
            _ => run.as_panel(|panel| {
                for (coefficients, sums) in coefficients.into_iter().zip(sums) {
                    self.accumulate(panel, coefficients, sums);
                }
            }),
        }
    }

    /// Writes what [`Level::run_sums`] added up in column order, dropping the padding.
    pub(crate) fn run_columns(self, sums: &[i64], columns: &mut [i64]) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => {
                for (column, value) in columns.iter_mut().enumerate() {
                    *value = sums[avx2_runs::place_of(column)];
                }
            }
            _ => self.unscramble(sums, columns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::clamp::MAX_COEFFICIENT;
    use super::*;
    use crate::testing::Numbers;

    /// Scores and sums of a block against sums written out, at every level.
    fn check(
        width: usize,
        mut feature: impl FnMut() -> i16,
        weight: f64,
        coefficients: [[i32; BLOCK_ROWS]; 2],
    ) {
        let mut values: Vec<i16> = (0..BLOCK_ROWS * width).map(|_| feature()).collect();
        // what follows the last row must not count
        values.resize(values.len() + LANES, 77);
        let weights: Vec<f64> =
            (0..width).map(|column| weight * if column % 3 == 0 { -1.0 } else { 1.0 }).collect();
        let weights = LatticeWeights::new(&weights, 1).unwrap();
        let rows = || values[..BLOCK_ROWS * width].chunks_exact(width);
        let product = |row: &[i16]| -> i64 {
            row.iter().zip(weights.integers(0)).map(|(&q, &w)| i64::from(q) * i64::from(w)).sum()
        };
        let expected: Vec<i64> = rows().map(product).collect();
        let expected_sums = coefficients.map(|coefficients| {
            let mut sums = vec![1000i64; width];
            for (row, s) in rows().zip(coefficients) {
                sums.iter_mut().zip(row).for_each(|(sum, &q)| *sum += i64::from(s) * i64::from(q));
            }
            sums
        });
        for &level in Level::available() {
            for run in [Run::new(&values, width), Run::new(&values, width).looking_ahead()] {
                let mut scores = [1; BLOCK_ROWS];
                level.run_scores(&run, &weights, 0, &mut scores);
                assert_eq!(scores[..], expected[..], "{} {width}", level.name());
            }
            let mut sums =
                [vec![1000; width.next_multiple_of(LANES)], vec![1000; width.next_multiple_of(LANES)]];
            let [one, other] = &mut sums;
            let run = Run::new(&values, width);
            level.run_sums(&run, [&coefficients[0], &coefficients[1]], [one, other]);
            for (sums, expected) in sums.iter().zip(&expected_sums) {
                let mut columns = vec![0; width];
                level.run_columns(sums, &mut columns);
                assert_eq!(columns, *expected, "{} {width}", level.name());
            }
        }
    }

    #[test]
    fn runs_agree_with_sums_written_out() {
        let mut numbers = Numbers::new(21);
        for width in (1..=70).chain([95, 96, 97, 111, 112, 113, 255, 256, 257, 300, 513]) {
            for most in [QUICK_COEFFICIENT, MAX_COEFFICIENT, 5] {
                let mut draw = Numbers::new(width as u64 + u64::from(most));
                let coefficients: [[i32; BLOCK_ROWS]; 2] = std::array::from_fn(|_| {
                    std::array::from_fn(|_| (draw.symmetric() * f64::from(most)) as i32)
                });
                check(width, || numbers.feature(), 0.7, coefficients);
            }
        }
    }

    #[test]
    fn extreme_values_do_not_overflow_a_lane() {
        let (quick, most) = (QUICK_COEFFICIENT as i32, MAX_COEFFICIENT as i32);
        for width in [16, 100, 256, 300] {
            for q in [32767, -32767] {
                // both digits of weights as large as they get; coefficients at and around what two digits hold
                for weight in [1.0 - 2f64.powi(-12), -1.0] {
                    for (one, other) in [(quick, -quick), (most, most), (-most, quick + 1), (-quick - 1, 0)] {
                        check(width, || q, weight, [[one; BLOCK_ROWS], [other; BLOCK_ROWS]]);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "values.len() >=")]
    fn rows_that_cannot_be_read_whole_are_refused() {
        let _ = Run::new(&[0; BLOCK_ROWS * 100], 100);
    }
}
