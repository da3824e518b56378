//! The fused passes against sums written out row by row.

use super::super::*;
use crate::rows::{DenseRows, FEATURE_SCALE, Rows, SparseRows};
use crate::testing::Numbers;
use crate::{Interval, Loss, LossSpec};

const WIDTH: usize = 37;
/// The last columns belong to the sensitive values.
const PUBLIC: usize = 31;

struct World {
    rows: Rows,
    labels: Vec<f64>,
    values: SensitiveValues,
    secret: Vec<u16>,
    loss: Loss,
    weights: Vec<f64>,
}

impl World {
    fn new(count: usize, spec: LossSpec, features: bool, label: bool, sparse: bool) -> World {
        let mut numbers = Numbers::new(7);
        let loss = Loss::new(spec).unwrap();
        let mut dense = DenseRows::new(WIDTH).unwrap();
        for _ in 0..count {
            let mut row = vec![0i16; WIDTH];
            for value in row.iter_mut().take(PUBLIC) {
                *value = (f64::from(FEATURE_SCALE) * numbers.symmetric()) as i16;
            }
            dense.push_row(&row).unwrap();
        }
        let rows = if sparse {
            let mut rows = SparseRows::new(WIDTH).unwrap();
            (0..count).for_each(|row| rows.push_dense_row(dense.row(row)).unwrap());
            Rows::Sparse(rows)
        } else {
            Rows::Dense(dense)
        };
        let label_values: Vec<f64> =
            if matches!(spec, LossSpec::Squared { .. }) { vec![-1.0, 0.0, 0.5, 1.0] } else { vec![0.0, 1.0] };
        let feature_values = if features { 3 } else { 1 };
        let (mut shifts, mut labels) = (Vec::new(), Vec::new());
        for feature in 0..feature_values {
            for &label in if label { &label_values[..] } else { &label_values[..1] } {
                let shift =
                    [(PUBLIC as u32 + feature, FEATURE_SCALE), (PUBLIC as u32 + 4, 100 * feature as i16)];
                shifts.push(if features { shift.to_vec() } else { Vec::new() });
                labels.push(label);
            }
        }
        let values = SensitiveValues::new(shifts, label.then_some(labels)).unwrap();
        let secret = (0..count).map(|_| (numbers.next() % values.len() as u64) as u16).collect();
        let weights = (0..WIDTH * loss.outputs()).map(|_| numbers.symmetric()).collect();
        let labels = (0..count).map(|_| (numbers.next() % 2) as f64).collect();
        World { rows, labels, values, secret, loss, weights }
    }

    fn rows(&self) -> BeliefRows<'_> {
        BeliefRows::new(&self.rows, &self.labels, &self.values).unwrap()
    }

    /// f(x_row, value) in real numbers.
    fn vector(&self, row: usize, value: usize) -> Vec<f64> {
        let mut x: Vec<f64> =
            self.rows.dense_row(row).unwrap().iter().map(|&q| f64::from(q) / 16384.0).collect();
        for &(column, q) in self.values.shift(value) {
            x[column as usize] += f64::from(q) / 16384.0;
        }
        let label = self.values.labels().map_or(self.labels[row], |labels| labels[value]);
        let scores: Vec<f64> =
            self.weights.chunks(WIDTH).map(|w| w.iter().zip(&x).map(|(w, x)| w * x).sum()).collect();
        let mut derivative = vec![0.0; scores.len()];
        self.loss.derivative(&scores, label, &mut derivative);
        derivative.iter().flat_map(|c| x.iter().map(move |x| c * x)).collect()
    }
}

fn worlds() -> Vec<World> {
    let squared = LossSpec::Squared { labels: Interval::UNIT };
    let mut worlds = Vec::new();
    for sparse in [false, true] {
        worlds.push(World::new(300, LossSpec::Logistic, true, false, sparse));
        worlds.push(World::new(300, LossSpec::Logistic, true, true, sparse));
        worlds.push(World::new(300, LossSpec::Hinge, false, true, sparse));
        worlds.push(World::new(300, squared, false, true, sparse));
        worlds.push(World::new(140, LossSpec::Softmax { classes: 3 }, true, true, sparse));
    }
    worlds
}

/// Beliefs that are not uniform: two updates along made-up directions.
fn bent(query: &GradientQuery<'_>, rows: usize, values: usize) -> Beliefs {
    let mut beliefs = Beliefs::uniform(rows, values);
    let mut numbers = Numbers::new(3);
    for _ in 0..2 {
        let direction = (0..query.dimension()).map(|_| numbers.symmetric()).collect();
        query
            .update(&mut beliefs, &BeliefUpdate { direction, rate: 0.4, size: 1.0, truncation: 3.0 })
            .unwrap();
    }
    beliefs
}

#[test]
fn fused_sums_are_the_sums_written_out() {
    for world in worlds() {
        let query = world.rows().gradient(world.loss, &world.weights).unwrap();
        let (rows, k, d) = (world.rows.len(), world.values.len(), query.dimension());
        let beliefs = bent(&query, rows, k);
        let sums = query.sums(&beliefs, &world.secret).unwrap();
        let (mut believed, mut actual, mut diameter) = (vec![0.0; d], vec![0.0; d], 0.0f64);
        for row in 0..rows {
            let vectors: Vec<Vec<f64>> = (0..k).map(|value| world.vector(row, value)).collect();
            let shares = beliefs.probabilities(row);
            for (y, vector) in vectors.iter().enumerate() {
                for (sum, v) in believed.iter_mut().zip(vector) {
                    *sum += shares[y] * v;
                }
                for other in &vectors[..y] {
                    diameter = diameter.max(vector.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum());
                }
            }
            for (sum, v) in actual.iter_mut().zip(&vectors[usize::from(world.secret[row])]) {
                *sum += v;
            }
        }
        let name = world.loss.name();
        for (exact, lattice) in actual.iter().zip(&sums.actual).chain(believed.iter().zip(&sums.believed)) {
            // weights are rounded to 24 bits, shares to single precision: 1e-6 of sums of up to 300
            assert!((exact - *lattice as f64 * query.unit()).abs() < 3e-4, "{name} {exact} {lattice}");
        }
        let found = sums.diameter() as f64 * query.unit();
        assert!((found / diameter.sqrt() - 1.0).abs() < 1e-5, "{name} {found} {}", diameter.sqrt());
    }
}

/// What privacy rests on: changing one row's value moves the exact sum by less than the stated diameter, and nothing else moves.
#[test]
fn one_value_moves_the_actual_sum_by_at_most_the_diameter() {
    for world in worlds() {
        let query = world.rows().gradient(world.loss, &world.weights).unwrap();
        let k = world.values.len() as u16;
        let beliefs = bent(&query, world.rows.len(), usize::from(k));
        let reference = query.sums(&beliefs, &world.secret).unwrap();
        let mut closest = 0.0f64;
        for row in 0..60 {
            let mut changed = world.secret.clone();
            changed[row] = (changed[row] + 1 + (row as u16) % (k - 1)) % k;
            let sums = query.sums(&beliefs, &changed).unwrap();
            assert_eq!(
                (&sums.believed, sums.squared_diameter),
                (&reference.believed, reference.squared_diameter)
            );
            let moved: u128 = sums
                .actual
                .iter()
                .zip(&reference.actual)
                .map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2))
                .sum();
            assert!(moved <= u128::from(sums.diameter()).pow(2), "{}", world.loss.name());
            closest = closest.max((moved as f64).sqrt() / sums.diameter() as f64);
            assert!(sums.distance().abs_diff(reference.distance()) <= sums.diameter());
        }
        assert!(closest > 0.5, "the bound is not idle: {closest}");
    }
}

#[test]
fn threads_levels_and_storage_do_not_change_a_bit() {
    for (dense, sparse) in worlds().iter().take(5).zip(worlds().iter().skip(5)) {
        let query = |world: &World, level: Level| {
            let rows = world.rows().at_level(level);
            let query = rows.gradient(world.loss, &world.weights).unwrap();
            let beliefs = bent(&query, world.rows.len(), world.values.len());
            (query.sums(&beliefs, &world.secret).unwrap(), beliefs)
        };
        let reference = query(dense, Level::best());
        for &level in Level::available() {
            for threads in [1, 2, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert!(pool.install(|| query(dense, level)) == reference, "{} {threads}", level.name());
            }
        }
        assert!(query(sparse, Level::best()) == reference);
    }
}

#[test]
fn updates_follow_the_formula() {
    for world in worlds() {
        let query = world.rows().gradient(world.loss, &world.weights).unwrap();
        let mut numbers = Numbers::new(5);
        let direction: Vec<f64> = (0..query.dimension()).map(|_| numbers.symmetric()).collect();
        let mut beliefs = Beliefs::uniform(world.rows.len(), world.values.len());
        let update = BeliefUpdate { direction: direction.clone(), rate: 0.7, size: 0.9, truncation: 1.5 };
        query.update(&mut beliefs, &update).unwrap();
        for row in 0..20 {
            let exponent = |value: usize| {
                let product: f64 = world.vector(row, value).iter().zip(&direction).map(|(v, d)| v * d).sum();
                0.7 * (product / 0.9).clamp(-1.5, 1.5)
            };
            let shares: Vec<f64> = (0..world.values.len()).map(|value| exponent(value).exp()).collect();
            let total: f64 = shares.iter().sum();
            for (share, found) in shares.iter().zip(beliefs.probabilities(row)) {
                assert!((share / total - found).abs() < 1e-5, "{}", world.loss.name());
            }
        }
    }
}

#[test]
fn a_query_written_down_gives_the_same_answers() {
    struct Written<'a>(&'a World);
    impl VectorQuery for Written<'_> {
        fn dimension(&self) -> usize {
            self.0.weights.len()
        }
        fn fill(&self, row: usize, values: &mut [f64]) {
            for (value, out) in values.chunks_mut(self.0.weights.len()).enumerate() {
                // scaled into the unit ball
                out.iter_mut().zip(self.0.vector(row, value)).for_each(|(out, v)| *out = v / 64.0);
            }
        }
    }
    for world in worlds().iter().take(2) {
        let (rows, k) = (world.rows.len(), world.values.len());
        let query = world.rows().gradient(world.loss, &world.weights).unwrap();
        let written = Written(world);
        let plain = PlainQuery::new(&written, rows, k);
        let beliefs = bent(&query, rows, k);
        let (fused, plain_sums) =
            (query.sums(&beliefs, &world.secret).unwrap(), plain.sums(&beliefs, &world.secret).unwrap());
        let real = |sums: &[i64], unit: f64| sums.iter().map(|&sum| sum as f64 * unit).collect::<Vec<_>>();
        let pairs = [(&fused.actual, &plain_sums.actual), (&fused.believed, &plain_sums.believed)];
        for (fused, plain_sums) in pairs {
            for (a, b) in real(fused, query.unit()).iter().zip(real(plain_sums, 64.0 * plain.unit())) {
                assert!((a - b).abs() < 1e-3, "{a} {b}");
            }
        }
        let ratio =
            fused.diameter() as f64 * query.unit() / (plain_sums.diameter() as f64 * 64.0 * plain.unit());
        assert!((ratio - 1.0).abs() < 1e-5, "{ratio}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let world = World::new(10, LossSpec::Logistic, true, false, false);
    let query = world.rows().gradient(world.loss, &world.weights).unwrap();
    assert!(query.sums(&Beliefs::uniform(9, 3), &world.secret).is_err());
    assert!(query.sums(&Beliefs::uniform(10, 2), &world.secret).is_err());
    assert!(query.sums(&Beliefs::uniform(10, 3), &world.secret[1..]).is_err());
    assert!(world.rows().gradient(world.loss, &world.weights[1..]).is_err());
    assert!(SensitiveValues::new(Vec::new(), None).is_err());
    assert!(SensitiveValues::new(vec![Vec::new(); MAX_VALUES + 1], None).is_err());
    assert!(BeliefRows::new(&world.rows, &world.labels[1..], &world.values).is_err());
    let wide = SensitiveValues::new(vec![vec![(WIDTH as u32, 1)]], None).unwrap();
    assert!(BeliefRows::new(&world.rows, &world.labels, &wide).is_err());
}

/// Many values: the bound that does not look at pairs is a bound, and near.
#[test]
fn the_bound_for_many_values_holds_and_is_near() {
    for (label, spec) in [(false, LossSpec::Logistic), (true, LossSpec::Logistic), (true, LossSpec::Hinge)] {
        let mut world = World::new(80, spec, true, label, false);
        let shift = |y: usize| {
            vec![
                (PUBLIC as u32 + (y % 3) as u32, FEATURE_SCALE),
                (PUBLIC as u32 + 3 + (y / 3) as u32, FEATURE_SCALE),
            ]
        };
        let (mut shifts, mut labels) = (Vec::new(), Vec::new());
        for y in 0..9 {
            for own in if label { &[0.0, 1.0][..] } else { &[0.0][..] } {
                shifts.push(shift(y));
                labels.push(*own);
            }
        }
        world.values = SensitiveValues::new(shifts, label.then_some(labels)).unwrap();
        let k = world.values.len();
        let query = world.rows().gradient(world.loss, &world.weights).unwrap();
        let sums = query.sums(&Beliefs::uniform(80, k), &world.secret).unwrap();
        let mut exact = 0.0f64;
        for row in 0..80 {
            let vectors: Vec<Vec<f64>> = (0..k).map(|value| world.vector(row, value)).collect();
            for (y, one) in vectors.iter().enumerate() {
                for other in &vectors[..y] {
                    exact = exact.max(one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum());
                }
            }
        }
        let found = sums.diameter() as f64 * query.unit();
        let ratio = found / exact.sqrt();
        assert!((1.0 - 1e-6..1.25).contains(&ratio), "{ratio}");
    }
}
