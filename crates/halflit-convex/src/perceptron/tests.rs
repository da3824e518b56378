//! Passes against materialised gradients, gradients against finite differences, norms against the bound.

use super::*;
use crate::kernel::{Batch, Level, MAX_COEFFICIENT, clamp_coefficient};
use crate::loss::{Loss, LossSpec};
use crate::rows::{DenseRows, Rows, SparseRows};
use crate::testing::Numbers;

const SCALE: f64 = (1u64 << 34) as f64;
const NO_BOUND: u64 = 1 << 54;

struct Table {
    rows: Vec<Vec<i16>>,
    dense: Rows,
    sparse: Rows,
    labels: Vec<f64>,
}

fn table(rows: usize, shape: PerceptronShape, seed: u64) -> Table {
    let mut numbers = Numbers::new(seed);
    let rows: Vec<Vec<i16>> =
        (0..rows).map(|_| (0..shape.inputs).map(|_| numbers.feature()).collect()).collect();
    let labels = rows.iter().map(|_| (numbers.next() % shape.classes as u64) as f64).collect();
    let dense = DenseRows::from_rows(shape.inputs, &rows).unwrap().into();
    let sparse = SparseRows::from_rows(shape.inputs, &rows).unwrap().into();
    Table { rows, dense, sparse, labels }
}

fn weights(shape: PerceptronShape, size: f64, seed: u64) -> Vec<f64> {
    let mut numbers = Numbers::new(seed);
    (0..shape.weights()).map(|_| size * numbers.symmetric()).collect()
}

/// The contribution of one row, written out: integer scores, activations, deltas, outer products. Not clipped.
fn gradient(model: &Perceptron, q: &[i16], label: f64, scale: f64) -> Vec<i128> {
    let shape = model.shape();
    let score = |weights: &[i32], vector: &[i16]| -> f64 {
        weights.iter().zip(vector).map(|(&w, &v)| i64::from(w) * i64::from(v)).sum::<i64>() as f64
    };
    let mut activations: Vec<i16> = Vec::new();
    let mut active = Vec::new();
    for j in 0..shape.hidden {
        let value = score(model.first.integers(j), q) * model.first.score_unit() * 2048.0;
        active.push(value > 0.0 && value < 32767.0);
        activations.push(value.clamp(0.0, 32767.0).round_ties_even() as i16);
    }
    activations.push(2048);
    let scores: Vec<f64> = (0..shape.classes)
        .map(|k| score(model.second.integers(k), &activations) * model.second.score_unit() * 8.0)
        .collect();
    let mut residuals = vec![0.0; shape.classes];
    let softmax = Loss::new(LossSpec::Softmax { classes: shape.classes }).unwrap();
    softmax.derivative(&scores, label, &mut residuals);
    let second = &model.rounded()[shape.hidden * shape.inputs..];
    let round = |value: f64| i128::from(clamp_coefficient(value, MAX_COEFFICIENT));
    let mut gradient = Vec::new();
    for (j, &active) in active.iter().enumerate() {
        let sum =
            (0..shape.classes).fold(0.0, |sum, k| sum + second[k * (shape.hidden + 1) + j] * residuals[k]);
        let delta = round(scale / 16384.0 * if active { sum } else { 0.0 });
        gradient.extend(q.iter().map(|&q| delta * i128::from(q)));
    }
    for residual in residuals {
        let delta = round(scale / 2048.0 * residual);
        gradient.extend(activations.iter().map(|&a| delta * i128::from(a)));
    }
    gradient
}

fn squared(vector: &[i128]) -> u128 {
    vector.iter().map(|v| v.unsigned_abs().pow(2)).sum()
}

fn difference(a: &[i128], b: &[i128]) -> Vec<i128> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn total(parts: impl Iterator<Item = Vec<i128>>, size: usize) -> Vec<i64> {
    let mut total = vec![0i128; size];
    for part in parts {
        total.iter_mut().zip(&part).for_each(|(total, part)| *total += part);
    }
    total.iter().map(|&value| i64::try_from(value).unwrap()).collect()
}

const SHAPES: [PerceptronShape; 4] = [
    PerceptronShape { inputs: 1, hidden: 1, classes: 2 },
    PerceptronShape { inputs: 7, hidden: 5, classes: 3 },
    PerceptronShape { inputs: 40, hidden: 33, classes: 11 },
    PerceptronShape { inputs: 33, hidden: 70, classes: 4 },
];

#[test]
fn sums_and_ghost_norms_are_those_of_materialised_gradients() {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let table = table(150, shape, seed as u64);
        let other = self::table(150, shape, 100 + seed as u64);
        let model = Perceptron::new(shape, &weights(shape, 0.4, 3)).unwrap();
        let batch: Vec<u32> = (0..150).filter(|row| row % 3 != 1).collect();
        let columns: Vec<u32> = (0..shape.inputs as u32).filter(|column| column % 2 == 0).collect();
        let values: Vec<i16> = columns.iter().map(|&column| 1000 - 37 * column as i16).collect();
        let filled = |row: &[i16]| {
            let mut row = row.to_vec();
            columns.iter().zip(&values).for_each(|(&column, &value)| row[column as usize] = value);
            row
        };
        let centres = [
            None,
            Some(Centre::Rows(&other.dense)),
            Some(Centre::Filled { columns: &columns, values: &values }),
        ];
        for (kind, centre) in centres.into_iter().enumerate() {
            let expected: Vec<Vec<i128>> = (0..150)
                .map(|row| {
                    let own = gradient(&model, &table.rows[row], table.labels[row], SCALE);
                    let imputed = match kind {
                        0 => return own,
                        1 => other.rows[row].clone(),
                        _ => filled(&table.rows[row]),
                    };
                    difference(&own, &gradient(&model, &imputed, table.labels[row], SCALE))
                })
                .collect();
            for (rows, level) in [&table.dense, &table.sparse]
                .into_iter()
                .flat_map(|r| Level::available().iter().map(move |&l| (r, l)))
            {
                let sums = PerceptronSums::new(rows, &table.labels, centre, shape, NO_BOUND, SCALE)
                    .unwrap()
                    .at_level(level);
                let all = total(expected.iter().cloned(), shape.weights());
                assert_eq!(sums.sum(&model, Batch::All).unwrap(), all, "{} {kind}", level.name());
                let some = total(batch.iter().map(|&row| expected[row as usize].clone()), shape.weights());
                assert_eq!(sums.sum(&model, Batch::Only(&batch)).unwrap(), some, "{} {kind}", level.name());
                let norms = sums.squared_norms(&model, Batch::Only(&batch)).unwrap();
                let naive: Vec<u128> = batch.iter().map(|&row| squared(&expected[row as usize])).collect();
                assert_eq!(norms, naive, "{} {kind}", level.name());
            }
        }
    }
}

/// Average loss of the real-valued network, without lattices.
fn real_loss(shape: PerceptronShape, weights: &[f64], x: &[f64], label: usize) -> f64 {
    let (first, second) = weights.split_at(shape.hidden * shape.inputs);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut activations: Vec<f64> = first.chunks_exact(shape.inputs).map(|w| dot(w, x).max(0.0)).collect();
    activations.push(1.0);
    let scores: Vec<f64> = second.chunks_exact(shape.hidden + 1).map(|w| dot(w, &activations)).collect();
    let most = scores.iter().copied().fold(f64::MIN, f64::max);
    scores.iter().map(|s| (s - most).exp()).sum::<f64>().ln() + most - scores[label]
}

#[test]
fn gradients_agree_with_finite_differences() {
    let shape = PerceptronShape { inputs: 6, hidden: 9, classes: 4 };
    let table = table(12, shape, 5);
    let weights = weights(shape, 0.7, 8);
    let model = Perceptron::new(shape, &weights).unwrap();
    let rounded = model.rounded();
    let mut active = 0;
    for (row, &label) in table.rows.iter().zip(&table.labels) {
        let x: Vec<f64> = row.iter().map(|&q| f64::from(q) / 16384.0).collect();
        let found = gradient(&model, row, label, SCALE);
        for (index, &found) in found.iter().enumerate() {
            let at = |step: f64| {
                let mut moved = rounded.clone();
                moved[index] += step;
                real_loss(shape, &moved, &x, label as usize)
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            // activations are rounded to 2^-11, nine of them with weights up to 0.7; the row is at most 2 long per column
            let error = (found as f64 / SCALE - expected).abs();
            assert!(error <= 0.01, "{index}: {} {expected}", found as f64 / SCALE);
            active += usize::from(expected.abs() > 0.05);
        }
    }
    assert!(active > 300, "the example shows nothing: {active}");
}

#[test]
fn no_contribution_exceeds_the_bound() {
    // Huge and tiny weights, extreme rows, bounds down to zero, with and without a centre.
    let shape = PerceptronShape { inputs: 20, hidden: 17, classes: 5 };
    let mut table = table(64, shape, 1);
    table.rows[3] = vec![32767; 20];
    table.rows[4] = vec![-32767; 20];
    table.rows[5] = vec![0; 20];
    let rows: Rows = DenseRows::from_rows(20, &table.rows).unwrap().into();
    let opposite: Vec<Vec<i16>> = table.rows.iter().map(|row| row.iter().map(|q| -q).collect()).collect();
    let opposite: Rows = DenseRows::from_rows(20, &opposite).unwrap().into();
    let columns: Vec<u32> = (0..20).collect();
    let mut clipped = 0;
    for size in [1e-9, 0.3, 30.0, 1e9, 1e90] {
        let model = Perceptron::new(shape, &weights(shape, size, 2)).unwrap();
        for centre in [
            None,
            Some(Centre::Rows(&opposite)),
            Some(Centre::Filled { columns: &columns, values: &[1; 20] }),
        ] {
            for bound in [0, 1, 1000, 1 << 20, 1 << 33, 1 << 40, 1 << 55] {
                for scale in [1.0, SCALE, 1e15] {
                    let sums =
                        PerceptronSums::new(&rows, &table.labels, centre, shape, bound, scale).unwrap();
                    let norms = sums.squared_norms(&model, Batch::All).unwrap();
                    for row in 0..64u32 {
                        let sum = sums.sum(&model, Batch::Only(&[row])).unwrap();
                        let length = squared(&sum.iter().map(|&v| i128::from(v)).collect::<Vec<_>>());
                        assert!(length <= u128::from(bound).pow(2), "{size} {bound} {scale} {row}");
                        if norms[row as usize] <= u128::from(bound).pow(2) {
                            assert_eq!(length, norms[row as usize]);
                        } else {
                            clipped += 1;
                            // not thrown away either: truncation costs little against a large bound
                            let most = (length as f64).sqrt();
                            assert!(
                                bound < 1 << 33 || most >= 0.9 * bound as f64,
                                "{size} {bound} {scale} {row} {most:e}"
                            );
                        }
                    }
                }
            }
        }
    }
    assert!(clipped > 1000, "{clipped}");
}

#[test]
fn a_contribution_does_not_know_its_company() {
    let shape = PerceptronShape { inputs: 30, hidden: 12, classes: 6 };
    let table = table(400, shape, 4);
    let model = Perceptron::new(shape, &weights(shape, 0.5, 6)).unwrap();
    let columns: Vec<u32> = (10..30).collect();
    let centre = Some(Centre::Filled { columns: &columns, values: &[0; 20] });
    let sums = PerceptronSums::new(&table.dense, &table.labels, centre, shape, 1 << 33, SCALE).unwrap();
    let alone: Vec<Vec<i64>> = (0..400).map(|row| sums.sum(&model, Batch::Only(&[row])).unwrap()).collect();
    let mut numbers = Numbers::new(3);
    for _ in 0..20 {
        let batch: Vec<u32> = (0..400).filter(|_| numbers.next().is_multiple_of(3)).collect();
        let parts = batch.iter().map(|&row| alone[row as usize].iter().map(|&v| i128::from(v)).collect());
        assert_eq!(sums.sum(&model, Batch::Only(&batch)).unwrap(), total(parts, shape.weights()));
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let shape = PerceptronShape { inputs: 50, hidden: 20, classes: 10 };
    let table = table(3000, shape, 12);
    let model = Perceptron::new(shape, &weights(shape, 0.3, 1)).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let sums = PerceptronSums::new(&table.dense, &table.labels, None, shape, 1 << 33, SCALE).unwrap();
            (sums.sum(&model, Batch::All).unwrap(), model.evaluate(&table.dense, &table.labels).unwrap())
        })
    };
    let one = run(1);
    assert!(one.0.iter().any(|&v| v != 0) && one.1.average_loss > 0.5 && one.1.accuracy < 0.5);
    assert_eq!(run(2), one);
    assert_eq!(run(7), one);
}

#[test]
fn descent_learns_what_a_linear_model_cannot() {
    // Exclusive or of two signs: chance for every linear model.
    let shape = PerceptronShape { inputs: 3, hidden: 16, classes: 2 };
    let mut numbers = Numbers::new(21);
    let rows: Vec<Vec<i16>> = (0..400)
        .map(|_| vec![(numbers.symmetric() * 16384.0) as i16, (numbers.symmetric() * 16384.0) as i16, 16384])
        .collect();
    let labels: Vec<f64> = rows.iter().map(|q| f64::from(u8::from((q[0] > 0) != (q[1] > 0)))).collect();
    let rows: Rows = DenseRows::from_rows(3, &rows).unwrap().into();
    let mut weights = weights(shape, 0.8, 9);
    let sums = PerceptronSums::new(&rows, &labels, None, shape, 1 << 36, SCALE).unwrap();
    for _ in 0..400 {
        let model = Perceptron::new(shape, &weights).unwrap();
        let sum = sums.sum(&model, Batch::All).unwrap();
        weights.iter_mut().zip(&sum).for_each(|(w, &g)| *w -= 1.0 * g as f64 / SCALE / 400.0);
    }
    let evaluation = Perceptron::new(shape, &weights).unwrap().evaluate(&rows, &labels).unwrap();
    assert!(evaluation.accuracy > 0.95, "{evaluation:?}");
}

#[test]
fn what_would_break_the_bound_is_refused() {
    let shape = PerceptronShape { inputs: 2, hidden: 3, classes: 2 };
    let table = table(4, shape, 1);
    let good = weights(shape, 1.0, 1);
    for bad in [f64::NAN, f64::INFINITY, 1e101] {
        for index in [0, good.len() - 1] {
            let mut weights = good.clone();
            weights[index] = bad;
            assert!(matches!(
                Perceptron::new(shape, &weights),
                Err(PerceptronError::Kernel(KernelError::Weight { .. }))
            ));
        }
    }
    assert!(matches!(Perceptron::new(shape, &good[1..]), Err(PerceptronError::Weights { .. })));
    for wrong in [
        PerceptronShape { hidden: 0, ..shape },
        PerceptronShape { classes: 1, ..shape },
        PerceptronShape { inputs: 1 << 17, ..shape },
    ] {
        assert!(matches!(Perceptron::new(wrong, &good), Err(PerceptronError::Size { .. })));
    }
    let sums = |labels: &[f64], centre, shape, bound, scale| {
        PerceptronSums::new(&table.dense, labels, centre, shape, bound, scale).map(|_| ()).unwrap_err()
    };
    assert!(matches!(
        sums(&table.labels, None, shape, 1 << 60, 1.0),
        PerceptronError::Kernel(KernelError::Overflow { .. })
    ));
    assert!(matches!(
        sums(&[0.0; 3], None, shape, 1, 1.0),
        PerceptronError::Kernel(KernelError::Length { .. })
    ));
    for label in [2.0, -1.0, 0.5, f64::NAN] {
        assert!(matches!(
            sums(&[0.0, label, 0.0, 0.0], None, shape, 1, 1.0),
            PerceptronError::Label { row: 1, .. }
        ));
    }
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(sums(&table.labels, None, shape, 1, scale), PerceptronError::Scale { .. }));
    }
    assert!(matches!(
        sums(&table.labels, None, PerceptronShape { inputs: 3, ..shape }, 1, 1.0),
        PerceptronError::Inputs { .. }
    ));
    for (columns, values) in
        [(&[0u32, 0][..], &[1i16, 1][..]), (&[2], &[1]), (&[0, 1], &[1]), (&[0], &[i16::MIN])]
    {
        let centre = Some(Centre::Filled { columns, values });
        assert!(matches!(sums(&table.labels, centre, shape, 1, 1.0), PerceptronError::Centre { columns: 2 }));
    }
    let other = PerceptronShape { hidden: 4, ..shape };
    let model = Perceptron::new(other, &weights(other, 1.0, 1)).unwrap();
    let sums = PerceptronSums::new(&table.dense, &table.labels, None, shape, 1, 1.0).unwrap();
    assert!(matches!(sums.sum(&model, Batch::All), Err(PerceptronError::Weights { .. })));
}
