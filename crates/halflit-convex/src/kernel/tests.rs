//! Every pass against a plain scalar reference, at every level, in both storages, on 1, 2 and 7 threads.

use super::clamp::{ceil_sqrt, clip_to_norm};
use super::*;
use crate::loss::{Loss, LossRule, LossSpec};
use crate::math::sigmoid;
use crate::rows::{DenseRows, Rows, SparseRows};
use crate::testing::Numbers;

/// Scale of the test rules: large enough that coefficients use all three digits.
const SCALE: f64 = (1 << 27) as f64;

/// A smooth rule whose last bits would show any difference in the score.
fn smooth(row: usize, score: f64) -> f64 {
    SCALE * (sigmoid(score) - (row % 2) as f64)
}

/// A rule with several outputs: a row's coefficients sum to zero.
struct Outputs(usize);

impl Rule for Outputs {
    fn outputs(&self) -> usize {
        self.0
    }

    #[inline(always)]
    fn fill(&self, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]) {
        let len = block.len();
        for position in 0..len {
            let total: f64 = (0..self.0).map(|k| sigmoid(scores[k * len + position])).sum();
            for k in 0..self.0 {
                let share = sigmoid(scores[k * len + position]) / total;
                let target = f64::from(u8::from(block.row(position) % self.0 == k));
                coefficients[k * len + position] = SCALE * (share - target);
            }
        }
    }
}

struct Table {
    dense: Rows,
    sparse: Rows,
}

fn table(rows: usize, width: usize, seed: u64) -> Table {
    let mut numbers = Numbers::new(seed);
    let rows: Vec<Vec<i16>> = (0..rows).map(|_| (0..width).map(|_| numbers.feature()).collect()).collect();
    Table {
        dense: DenseRows::from_rows(width, &rows).unwrap().into(),
        sparse: SparseRows::from_rows(width, &rows).unwrap().into(),
    }
}

fn weights(width: usize, outputs: usize, seed: u64) -> LatticeWeights {
    let mut numbers = Numbers::new(seed);
    let weights: Vec<f64> =
        (0..width * outputs).map(|_| numbers.symmetric() / (width as f64).sqrt()).collect();
    LatticeWeights::new(&weights, outputs).unwrap()
}

/// One row's clamped contribution, written as the specification says it.
fn contribution<R: Rule>(
    rows: &Rows,
    row: usize,
    weights: &LatticeWeights,
    rule: &R,
    bound: u64,
) -> Vec<i64> {
    let q = rows.dense_row(row).unwrap();
    let outputs = weights.outputs();
    let mut scores = vec![0.0; outputs];
    for (output, score) in scores.iter_mut().enumerate() {
        let sum: i64 =
            q.iter().zip(weights.integers(output)).map(|(&q, &w)| i64::from(q) * i64::from(w)).sum();
        *score = sum as f64 * weights.score_unit();
    }
    let mut values = vec![0.0; outputs];
    rule.fill(&Block::run(row, 1), &scores, &mut values);
    let limit = coefficient_limit(bound, rows.squared_norms()[row]);
    let mut coefficients: Vec<i64> =
        values.iter().map(|&value| i64::from(clamp_coefficient(value, limit))).collect();
    let squared: u128 = coefficients.iter().map(|s| u128::from(s.unsigned_abs()).pow(2)).sum();
    if squared > u128::from(limit).pow(2) {
        let factor = (i64::from(limit) << 31) / ceil_sqrt(squared) as i64;
        coefficients.iter_mut().for_each(|s| *s = s.signum() * ((s.abs() * factor) >> 31));
    }
    coefficients.iter().flat_map(|&s| q.iter().map(move |&q| s * i64::from(q))).collect()
}

fn add(total: &mut [i64], part: &[i64]) {
    total.iter_mut().zip(part).for_each(|(total, part)| *total += part);
}

fn squared(vector: &[i64]) -> u128 {
    vector.iter().map(|&v| u128::from(v.unsigned_abs()).pow(2)).sum()
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// Checks a rule over all rows and over a batch, at every level and in both storages, against the reference.
fn check<R: Rule>(table: &Table, weights: &LatticeWeights, rule: &R, bound: u64, batch: &[u32]) {
    let rows = table.dense.len();
    let contributions: Vec<Vec<i64>> =
        (0..rows).map(|row| contribution(&table.dense, row, weights, rule, bound)).collect();
    let mut all = vec![0; weights.width() * weights.outputs()];
    let mut some = all.clone();
    for contribution in &contributions {
        assert!(squared(contribution) <= u128::from(bound).pow(2));
        add(&mut all, contribution);
    }
    batch.iter().for_each(|&row| add(&mut some, &contributions[row as usize]));
    for storage in [&table.dense, &table.sparse] {
        for &level in Level::available() {
            let sums = RowSums::new(storage, bound).unwrap().at_level(level);
            assert_eq!(sums.sum(weights, rule, Batch::All).unwrap(), all, "{} all", level.name());
            assert_eq!(sums.sum(weights, rule, Batch::Only(batch)).unwrap(), some, "{} batch", level.name());
        }
    }
}

fn every_third(rows: usize) -> Vec<u32> {
    (0..rows as u32).filter(|row| row % 3 == 1).collect()
}

#[test]
fn every_width_and_tail_agrees_with_the_reference() {
    for width in (1..=70).chain([96, 97, 111, 112, 113, 127, 128, 129, 224, 225, 256, 449]) {
        let table = table(11, width, width as u64);
        check(&table, &weights(width, 1, 5), &PerRow(smooth), 1 << 40, &every_third(11));
    }
}

#[test]
fn every_number_of_rows_agrees_with_the_reference() {
    for rows in (0..=20).chain([63, 64, 65, 126, 127, 128, 129, 130, 255, 256, 257, 385]) {
        let table = table(rows, 37, 1000 + rows as u64);
        check(&table, &weights(37, 1, 6), &PerRow(smooth), 1 << 41, &every_third(rows));
    }
}

#[test]
fn several_outputs_agree_with_the_reference() {
    for outputs in [2, 3, 10] {
        for width in [1, 31, 33, 100] {
            let table = table(140, width, outputs as u64);
            check(&table, &weights(width, outputs, 7), &Outputs(outputs), 1 << 40, &every_third(140));
        }
    }
}

#[test]
fn extreme_values_do_not_overflow_a_lane() {
    // Every product at its largest: blocks of +-32767, coefficients at the limit, weights at theirs.
    for width in [32, 224, 500] {
        for sign in [1, -1] {
            let rows = vec![vec![32767 * sign; width]; 256];
            let dense: Rows = DenseRows::from_rows(width, &rows).unwrap().into();
            let sparse: Rows = SparseRows::from_rows(width, &rows).unwrap().into();
            let table = Table { dense, sparse };
            // 2^23 - 2^11, and others: both digits as large as they get
            for weight in [1.0 - 2f64.powi(-12), 1.0 - 2f64.powi(-25), -1.0, 0.5 + 2f64.powi(-12)] {
                let weights = LatticeWeights::new(&vec![weight; width], 1).unwrap();
                // the largest that two digits hold, and one more
                let two_digits = f64::from(QUICK_COEFFICIENT);
                let most = f64::from(MAX_COEFFICIENT);
                for value in [most, -most, f64::INFINITY, two_digits, -two_digits, two_digits + 1.0] {
                    check(&table, &weights, &PerRow(|_, _| value), 1 << 50, &every_third(256));
                    check(&table, &weights, &PerRow(|_, z: f64| z * 1e4), 1 << 50, &every_third(256));
                }
            }
        }
    }
}

/// A rule of the caller's, and the two that passes compute by code of their own.
struct Rules {
    labels: Vec<f64>,
}

impl Rules {
    fn new(rows: usize) -> Self {
        Rules { labels: (0..rows).map(|row| (row % 3) as f64).collect() }
    }

    fn of(&self, spec: LossSpec) -> LossRule<'_> {
        LossRule::derivative(Loss::new(spec).unwrap(), &self.labels, 3e7)
    }
}

#[test]
fn a_coefficient_does_not_know_its_company() {
    /// The sum over a batch equals the sum of one-row passes: no row's coefficient depends on who else is there.
    fn check(table: &Table, rule: &impl Rule) {
        let (size, weights) = (45 * rule.outputs(), weights(45, rule.outputs(), 8));
        let sums = RowSums::new(&table.dense, 1 << 42).unwrap();
        let sparse = RowSums::new(&table.sparse, 1 << 42).unwrap();
        let alone: Vec<Vec<i64>> =
            (0..300).map(|row| sums.sum(&weights, rule, Batch::Only(&[row])).unwrap()).collect();
        let mut numbers = Numbers::new(3);
        for _ in 0..50 {
            let batch: Vec<u32> = (0..300).filter(|_| numbers.next().is_multiple_of(3)).collect();
            let mut expected = vec![0; size];
            batch.iter().for_each(|&row| add(&mut expected, &alone[row as usize]));
            assert_eq!(sums.sum(&weights, rule, Batch::Only(&batch)).unwrap(), expected);
            assert_eq!(sparse.sum(&weights, rule, Batch::Only(&batch)).unwrap(), expected);
        }
    }
    let (table, rules) = (table(300, 45, 99), Rules::new(300));
    check(&table, &PerRow(smooth));
    check(&table, &rules.of(LossSpec::Logistic));
    check(&table, &rules.of(LossSpec::Softmax { classes: 3 }));
}

#[test]
fn threads_do_not_change_a_bit() {
    fn check(table: &Table, rule: &impl Rule) {
        let weights = weights(50, rule.outputs(), 9);
        let batch = every_third(9000);
        let offsets: Vec<usize> = (0..=9000).step_by(5).collect();
        let run = |rows: &Rows| {
            let sums = RowSums::new(rows, 1 << 44).unwrap();
            let units = UnitSums::new(rows, &offsets, 5, 1 << 43).unwrap();
            (
                sums.sum(&weights, rule, Batch::All).unwrap(),
                sums.sum(&weights, rule, Batch::Only(&batch)).unwrap(),
                units.sum(&weights, rule, None, Batch::All).unwrap(),
            )
        };
        let expected = on_threads(1, || run(&table.dense));
        for threads in [1, 2, 7] {
            for storage in [&table.dense, &table.sparse] {
                assert_eq!(on_threads(threads, || run(storage)), expected, "{threads} threads");
            }
        }
    }
    let (table, rules) = (table(9000, 50, 17), Rules::new(9000));
    check(&table, &PerRow(smooth));
    check(&table, &rules.of(LossSpec::Logistic));
    check(&table, &rules.of(LossSpec::Softmax { classes: 3 }));
}

#[test]
fn rows_of_zeros_contribute_nothing() {
    let dense: Rows = DenseRows::from_rows(3, &[[0, 0, 0], [1, 0, 0]]).unwrap().into();
    let sums = RowSums::new(&dense, 1000).unwrap();
    let weights = LatticeWeights::new(&[0.0; 3], 1).unwrap();
    assert_eq!(sums.sum(&weights, &PerRow(|_, _| f64::INFINITY), Batch::All).unwrap(), [1000, 0, 0]);
    assert_eq!(sums.sum(&weights, &PerRow(|_, _| f64::NAN), Batch::All).unwrap(), [0, 0, 0]);
}

/// Units as the specification says them: the exact sum, minus the centre, clipped.
fn unit_reference<R: Rule>(
    rows: &Rows,
    offsets: &[usize],
    weights: &LatticeWeights,
    rule: &R,
    centre: Option<Centre<'_>>,
    bound: u64,
) -> Vec<Vec<i64>> {
    let most = offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1).max(1) as u64;
    (0..offsets.len() - 1)
        .map(|unit| {
            let mut vector = vec![0; weights.width() * weights.outputs()];
            for row in offsets[unit]..offsets[unit + 1] {
                add(&mut vector, &contribution(rows, row, weights, rule, (1 << 61) / most));
            }
            if let Some(centre) = centre {
                let multiple = i64::from(centre.multiples.map_or(1, |multiples| multiples[unit]));
                vector.iter_mut().zip(centre.vector).for_each(|(v, c)| *v -= multiple * c);
            }
            clip_to_norm(&mut vector, bound);
            assert!(squared(&vector) <= u128::from(bound).pow(2));
            vector
        })
        .collect()
}

#[test]
fn units_are_clipped_as_wholes() {
    let offsets = [0, 0, 1, 4, 4, 9, 140, 300, 428, 430];
    let multiples = [1, 2, 0, -1, 3, 1, 1, 4, 1];
    let batch = [0u32, 2, 5, 6, 8];
    for (width, outputs) in [(1, 1), (33, 1), (20, 3)] {
        let table = table(430, width, 50 + width as u64);
        let weights = weights(width, outputs, 11);
        let vector: Vec<i64> = (0..(width * outputs) as i64).map(|j| (j - 7) << 40).collect();
        let centres = [
            None,
            Some(Centre { vector: &vector, multiples: None }),
            Some(Centre { vector: &vector, multiples: Some(&multiples) }),
        ];
        for centre in centres {
            // the small bound clips every unit, the large one none
            for bound in [1 << 30, 1 << 44, 1 << 58] {
                let rule = Outputs(outputs);
                let parts = unit_reference(&table.dense, &offsets, &weights, &rule, centre, bound);
                let mut all = vec![0; width * outputs];
                parts.iter().for_each(|part| add(&mut all, part));
                let mut some = vec![0; width * outputs];
                batch.iter().for_each(|&unit| add(&mut some, &parts[unit as usize]));
                for storage in [&table.dense, &table.sparse] {
                    for &level in Level::available() {
                        let units = UnitSums::new(storage, &offsets, 160, bound).unwrap().at_level(level);
                        assert_eq!(units.sum(&weights, &rule, centre, Batch::All).unwrap(), all);
                        assert_eq!(units.sum(&weights, &rule, centre, Batch::Only(&batch)).unwrap(), some);
                    }
                }
            }
        }
    }
}

#[test]
fn what_would_break_the_bound_is_refused() {
    let table = table(4, 3, 1);
    let rows = &table.dense;
    assert!(matches!(RowSums::new(rows, 1 << 60), Err(KernelError::Overflow { count: 4, .. })));
    assert!(RowSums::new(rows, (1 << 60) - 1).is_ok());
    let sums = RowSums::new(rows, 1 << 30).unwrap();
    let one = weights(3, 1, 1);
    let rule = PerRow(smooth);
    for list in [&[1, 1][..], &[2, 1], &[4]] {
        assert!(matches!(sums.sum(&one, &rule, Batch::Only(list)), Err(KernelError::Batch { .. })));
    }
    assert!(matches!(sums.sum(&weights(2, 1, 1), &rule, Batch::All), Err(KernelError::Shape { .. })));
    assert!(matches!(sums.sum(&weights(3, 2, 1), &rule, Batch::All), Err(KernelError::Shape { .. })));
    for offsets in [&[][..], &[0], &[1, 4], &[0, 3], &[0, 3, 2, 4], &[0, 4]] {
        assert!(
            matches!(UnitSums::new(rows, offsets, 3, 1), Err(KernelError::Offsets { .. })),
            "{offsets:?}"
        );
    }
    let units = UnitSums::new(rows, &[0, 2, 4], 2, 1 << 30).unwrap();
    let sum = |centre| units.sum(&one, &rule, Some(centre), Batch::All);
    assert!(matches!(sum(Centre { vector: &[0; 2], multiples: None }), Err(KernelError::Centre { .. })));
    let long = [1 << 60, 1 << 60, 0];
    assert!(matches!(sum(Centre { vector: &long, multiples: None }), Err(KernelError::Centre { .. })));
    let short = [1 << 40, 0, 0];
    assert!(matches!(sum(Centre { vector: &short, multiples: Some(&[1]) }), Err(KernelError::Length { .. })));
    assert!(matches!(
        sum(Centre { vector: &short, multiples: Some(&[1, 1 << 30]) }),
        Err(KernelError::Centre { .. })
    ));
}
