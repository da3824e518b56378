//! Diameters against all pairs of the vectors that are really added up, and what must not matter, on hostile tables.

use super::super::single::SINGLE_COEFFICIENT;
use super::super::*;
use crate::rows::{DenseRows, Rows, SparseRows};
use crate::testing::Numbers;
use crate::{Interval, Loss, LossSpec};

const PUBLIC: usize = 19;
/// The last columns belong to the sensitive values.
const WIDTH: usize = PUBLIC + 7;

struct Table {
    features: Vec<Vec<i16>>,
    labels: Vec<f64>,
    values: SensitiveValues,
    loss: Loss,
    weights: Vec<f64>,
}

/// What is sensitive.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hidden {
    Label,
    Feature,
    Both,
}

fn losses() -> [LossSpec; 8] {
    let labels = Interval::UNIT;
    [
        LossSpec::Logistic,
        LossSpec::Squared { labels },
        LossSpec::Poisson { max_count: 3.0, max_abs_score: 2.0 },
        // so steep that coefficients take three digits
        LossSpec::Poisson { max_count: 3.0, max_abs_score: 14.0 },
        LossSpec::Hinge,
        LossSpec::PseudoHuber { threshold: 0.3, labels },
        LossSpec::Softmax { classes: 3 },
        LossSpec::Mean,
    ]
}

impl Table {
    fn new(case: u64, count: usize, spec: LossSpec, hidden: Hidden, k: usize) -> Table {
        let mut numbers = Numbers::new(case);
        let loss = Loss::new(spec).unwrap();
        let feature = |row: usize, numbers: &mut Numbers| match row % 7 {
            0 => 32767,
            3 => 0,
            _ => numbers.feature(),
        };
        let features = (0..count)
            .map(|row| {
                let public = (0..PUBLIC).map(|_| feature(row, &mut numbers)).collect::<Vec<_>>();
                public.into_iter().chain([0; WIDTH - PUBLIC]).collect()
            })
            .collect();
        let classes = if spec == losses()[6] { 3 } else { 2 };
        let mut label = || match spec {
            LossSpec::Squared { .. } | LossSpec::PseudoHuber { .. } => numbers.symmetric(),
            LossSpec::Hinge => (numbers.next() % 2) as f64 * 2.0 - 1.0,
            _ => (numbers.next() % classes) as f64,
        };
        let labels = (0..count).map(|_| label()).collect();
        let value_labels: Vec<f64> = (0..k).map(|_| label()).collect();
        let shift = |_: usize| -> Vec<(u32, i16)> {
            let columns = (PUBLIC..WIDTH).filter(|_| !numbers.next().is_multiple_of(3)).collect::<Vec<_>>();
            // in every other case all of one sign: only then pairs need not be looked at
            let sign = |q: i16| if case.is_multiple_of(2) { q.abs() } else { q };
            columns.into_iter().map(|column| (column as u32, sign(numbers.feature()))).collect()
        };
        let shifts = if hidden == Hidden::Label { vec![Vec::new(); k] } else { (0..k).map(shift).collect() };
        let values =
            SensitiveValues::new(shifts, (hidden != Hidden::Feature).then_some(value_labels)).unwrap();
        let scale = [1.0, 0.01, 8.0, 0.0, 1e100, 1e-300][case as usize / 2 % 6];
        let mut draw = Numbers::new(case + 99);
        let weights = (0..WIDTH * loss.outputs()).map(|_| scale * draw.symmetric()).collect();
        Table { features, labels, values, loss, weights }
    }

    fn rows(&self, sparse: bool) -> Rows {
        if sparse {
            SparseRows::from_rows(WIDTH, &self.features).unwrap().into()
        } else {
            DenseRows::from_rows(WIDTH, &self.features).unwrap().into()
        }
    }

    fn len(&self) -> usize {
        self.features.len()
    }

    /// The same table beginning with another row.
    fn rotated(&self, by: usize) -> Table {
        let (mut features, mut labels) = (self.features.clone(), self.labels.clone());
        features.rotate_left(by);
        labels.rotate_left(by);
        Table { features, labels, values: self.values.clone(), weights: self.weights.clone(), ..*self }
    }

    /// Only these rows.
    fn only(&self, rows: &[usize]) -> Table {
        let features = rows.iter().map(|&row| self.features[row].clone()).collect();
        let labels = rows.iter().map(|&row| self.labels[row]).collect();
        Table { features, labels, values: self.values.clone(), weights: self.weights.clone(), ..*self }
    }

    /// Sums under a prior and after two updates, and the beliefs then.
    fn pass(&self, rows: &Rows, secret: &[u16], level: Level) -> (BeliefSums, BeliefSums, Beliefs) {
        let rows = BeliefRows::new(rows, &self.labels, &self.values).unwrap().at_level(level);
        let query = rows.gradient(self.loss, &self.weights).unwrap();
        let prior: Vec<f64> = (0..self.values.len()).map(|value| 1.0 + value as f64).collect();
        let mut beliefs = Beliefs::with_prior(self.len(), &prior);
        let before = query.sums(&beliefs, secret).unwrap();
        let mut numbers = Numbers::new(17);
        for size in [3.0, 0.5] {
            let direction = (0..query.dimension()).map(|_| numbers.symmetric()).collect();
            let update = BeliefUpdate { direction, rate: 0.6, size, truncation: 2.0 };
            query.update(&mut beliefs, &update).unwrap();
        }
        (before, query.sums(&beliefs, secret).unwrap(), beliefs)
    }
}

fn secrets(count: usize, k: usize) -> Vec<u16> {
    let mut numbers = Numbers::new(8);
    (0..count).map(|_| (numbers.next() % k as u64) as u16).collect()
}

/// Every row's vectors as they are added up, apart from the vector of value 0: what changing one secret does to the actual sum.
fn vectors_used(query: &GradientQuery<'_>, beliefs: &Beliefs, count: usize, k: usize) -> Vec<Vec<Vec<i64>>> {
    let mut secret = vec![0u16; count];
    let origin = query.sums(beliefs, &secret).unwrap();
    let mut of_row = |row: usize| {
        let vectors = (0..k).map(|value| {
            secret[row] = value as u16;
            let sums = query.sums(beliefs, &secret).unwrap();
            assert_eq!(sums.believed, origin.believed, "public values only");
            assert_eq!(sums.squared_diameter, origin.squared_diameter, "public values only");
            sums.actual.iter().zip(&origin.actual).map(|(own, origin)| own - origin).collect()
        });
        let vectors = vectors.collect();
        secret[row] = 0;
        vectors
    };
    (0..count).map(&mut of_row).collect()
}

/// The largest squared distance of two of a row's vectors, exactly.
fn exact_squared_diameter(vectors: &[Vec<i64>]) -> u128 {
    let pairs = (0..vectors.len()).flat_map(|y| (0..y).map(move |other| (y, other)));
    let square = |(y, other): (usize, usize)| -> u128 {
        vectors[y].iter().zip(&vectors[other]).map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2)).sum()
    };
    pairs.map(square).max().unwrap_or(0)
}

/// The believed sum is the mean of the vectors under the beliefs, up to the rounding of every row's coefficients.
fn check_believed(query: &GradientQuery<'_>, beliefs: &Beliefs, vectors: &[Vec<Vec<i64>>]) {
    let origin = query.sums(beliefs, &vec![0; vectors.len()]).unwrap();
    let k = beliefs.values();
    // single precision rounds means to 2^-22 of the largest coefficient, and every row to the nearest step
    let uncertain = (1.0 + f64::from(query.limit) * 1e-6) * 32768.0 * ((k + 1) * vectors.len()) as f64;
    for (column, (&believed, &start)) in origin.believed.iter().zip(&origin.actual).enumerate() {
        let mean = |(row, vectors): (usize, &Vec<Vec<i64>>)| -> f64 {
            let shares = beliefs.probabilities(row);
            vectors.iter().zip(shares).map(|(vector, share)| share * vector[column] as f64).sum()
        };
        let expected = start as f64 + vectors.iter().enumerate().map(mean).sum::<f64>();
        assert!((believed as f64 - expected).abs() <= uncertain, "{column} {believed} {expected}");
    }
}

/// What privacy rests on. Every short way is taken by some of these tables.
#[test]
fn the_diameter_bounds_all_pairs_of_the_vectors_really_used() {
    let (mut short, mut sigmoids, mut wide, mut near) = (0, 0, 0, 0);
    for case in 0..144u64 {
        let spec = losses()[case as usize % 8];
        let hidden = [Hidden::Label, Hidden::Feature, Hidden::Both][case as usize / 8 % 3];
        let k = 1 + case as usize * 5 % 12;
        let table = Table::new(case, 34 + case as usize % 5, spec, hidden, k);
        let rows = table.rows(case % 5 == 0);
        let rows = BeliefRows::new(&rows, &table.labels, &table.values).unwrap();
        let query = rows.gradient(table.loss, &table.weights).unwrap();
        let mut beliefs = Beliefs::uniform(table.len(), k);
        let direction = vec![1.0; query.dimension()];
        let update = BeliefUpdate { direction, rate: 1.0, size: 0.2 / query.unit(), truncation: 2.0 };
        query.update(&mut beliefs, &update).unwrap();
        let stated = query.sums(&beliefs, &secrets(table.len(), k)).unwrap();
        let vectors = vectors_used(&query, &beliefs, table.len(), k);
        check_believed(&query, &beliefs, &vectors);
        let exact = vectors.iter().map(|vectors| exact_squared_diameter(vectors)).max().unwrap();
        let name = format!("{case} {} {hidden:?} k = {k}", table.loss.name());
        assert!(exact as f64 <= stated.squared_diameter, "{name}: {exact} {}", stated.squared_diameter);
        assert!(exact <= u128::from(stated.diameter()).pow(2), "{name}");
        assert!(k > 1 || hidden == Hidden::Both || exact == 0, "{name}");
        short += u32::from(query.hidden_labels.is_some());
        sigmoids += u32::from(query.sigmoids.is_some() && hidden != Hidden::Label);
        wide += u32::from(query.limit > SINGLE_COEFFICIENT);
        near += u32::from(exact > 0 && stated.squared_diameter < 1.001 * exact as f64);
        assert!(stated.squared_diameter <= 2.0 * exact as f64 || exact < 1 << 20, "{name}: not far above");
    }
    assert!(short >= 10 && sigmoids >= 5 && wide >= 10 && near >= 50, "{short} {sigmoids} {wide} {near}");
}

/// Many values, so many that none of the all-pairs code is used.
#[test]
fn the_diameter_bounds_all_pairs_of_many_values() {
    for (case, spec, hidden, k) in [
        (2, LossSpec::Logistic, Hidden::Feature, 40),
        (3, LossSpec::Logistic, Hidden::Both, 33),
        (14, LossSpec::Squared { labels: Interval::UNIT }, Hidden::Label, 64),
        (4, LossSpec::Hinge, Hidden::Label, 31),
    ] {
        let table = Table::new(case, 33, spec, hidden, k);
        let rows = table.rows(false);
        let rows = BeliefRows::new(&rows, &table.labels, &table.values).unwrap();
        let query = rows.gradient(table.loss, &table.weights).unwrap();
        let beliefs = Beliefs::uniform(table.len(), k);
        let stated = query.sums(&beliefs, &vec![0; table.len()]).unwrap();
        let vectors = vectors_used(&query, &beliefs, table.len(), k);
        let exact = vectors.iter().map(|vectors| exact_squared_diameter(vectors)).max().unwrap();
        assert!(exact > 0 && exact as f64 <= stated.squared_diameter, "{case}");
        let ratio = stated.squared_diameter / exact as f64;
        assert!(ratio < 2.0, "{case}: {ratio}");
    }
}

/// A row's vectors, beliefs and steps are its own: neither its place in a block, nor the end of the table, nor company shows.
#[test]
fn neither_place_nor_company_nor_instructions_nor_threads_matter() {
    for (case, spec) in losses().into_iter().enumerate() {
        let hidden = [Hidden::Both, Hidden::Label, Hidden::Feature][case % 3];
        let (count, k) = (71, 2 + case);
        let table = Table::new(case as u64, count, spec, hidden, k);
        let secret = secrets(count, k);
        let reference = table.pass(&table.rows(false), &secret, Level::best());
        for &level in Level::available() {
            for threads in [1, 2, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let found = pool.install(|| table.pass(&table.rows(false), &secret, level));
                assert!(found == reference, "{spec:?} {} {threads}", level.name());
            }
            assert!(table.pass(&table.rows(true), &secret, level) == reference, "{spec:?} sparse");
        }
        for by in [1, 5, 31, 32, 33, 70] {
            let mut turned = secret.clone();
            turned.rotate_left(by);
            let found = table.rotated(by);
            let found = found.pass(&found.rows(false), &turned, Level::best());
            assert!(found.0 == reference.0 && found.1 == reference.1, "{spec:?} {by}");
            for row in 0..count {
                let before = reference.2.probabilities((row + by) % count);
                assert_eq!(found.2.probabilities(row), before, "{spec:?} {by} {row}");
            }
        }
    }
}

/// Tables of every length: each row adds what it adds to a table of two. (The first row is the longest, which fixes the lattice.)
#[test]
fn every_tail_adds_its_rows_own_vectors() {
    for (case, spec, hidden) in [
        (2, LossSpec::Logistic, Hidden::Feature),
        (12, LossSpec::Squared { labels: Interval::UNIT }, Hidden::Label),
        (1, LossSpec::Softmax { classes: 3 }, Hidden::Both),
    ] {
        let (count, k) = (67, 5);
        let table = Table::new(case, count, spec, hidden, k);
        let secret = secrets(count, k);
        let minus =
            |one: &[i64], other: &[i64]| -> Vec<i64> { one.iter().zip(other).map(|(a, b)| a - b).collect() };
        for &level in Level::available() {
            let sums = |rows: &[usize]| {
                let some = table.only(rows);
                let secret: Vec<u16> = rows.iter().map(|&row| secret[row]).collect();
                some.pass(&some.rows(false), &secret, level).1
            };
            let first = sums(&[0]);
            let mut before = sums(&[0]);
            for end in 2..=count {
                let now = sums(&(0..end).collect::<Vec<_>>());
                let alone = sums(&[0, end - 1]);
                assert_eq!(minus(&now.actual, &before.actual), minus(&alone.actual, &first.actual), "{end}");
                assert_eq!(
                    minus(&now.believed, &before.believed),
                    minus(&alone.believed, &first.believed),
                    "{end}"
                );
                assert_eq!(now.squared_diameter, before.squared_diameter.max(alone.squared_diameter));
                before = now;
            }
        }
    }
}

/// The short ways give what the long way gives, up to the steps that single precision leaves uncertain.
#[test]
fn short_ways_lead_to_the_same_place() {
    for (case, spec, hidden) in [
        (0, LossSpec::Logistic, Hidden::Label),
        (0, LossSpec::Squared { labels: Interval::UNIT }, Hidden::Label),
        (2, LossSpec::Poisson { max_count: 3.0, max_abs_score: 2.0 }, Hidden::Label),
        (0, LossSpec::Logistic, Hidden::Feature),
        (1, LossSpec::Logistic, Hidden::Both),
        (4, LossSpec::Logistic, Hidden::Feature),
    ] {
        let (count, k) = (70, 7);
        let table = Table::new(case, count, spec, hidden, k);
        let rows = table.rows(false);
        let rows = BeliefRows::new(&rows, &table.labels, &table.values).unwrap();
        let query = rows.gradient(table.loss, &table.weights).unwrap();
        let long = GradientQuery { hidden_labels: None, sigmoids: None, ..query.clone() };
        assert!(query.hidden_labels.is_some() || query.sigmoids.is_some());
        let secret = secrets(count, k);
        let update =
            BeliefUpdate { direction: vec![0.3; query.dimension()], rate: 1.0, size: 2.0, truncation: 3.0 };
        let (mut beliefs, mut others) = (Beliefs::uniform(count, k), Beliefs::uniform(count, k));
        query.update(&mut beliefs, &update).unwrap();
        long.update(&mut others, &update).unwrap();
        for row in 0..count {
            for (one, other) in beliefs.probabilities(row).iter().zip(others.probabilities(row)) {
                assert!((one - other).abs() < 1e-5, "{spec:?} {row} {one} {other}");
            }
        }
        let (found, expected) =
            (query.sums(&beliefs, &secret).unwrap(), long.sums(&beliefs, &secret).unwrap());
        // two steps per row and coordinate of 2^15, k of them where values fill coordinates
        let uncertain = (2 * (k + 1) * count) as f64 * 32768.0;
        let pairs =
            found.actual.iter().zip(&expected.actual).chain(found.believed.iter().zip(&expected.believed));
        for (one, other) in pairs {
            assert!((one - other).abs() as f64 <= uncertain, "{spec:?} {one} {other}");
        }
        let ratio = found.squared_diameter / expected.squared_diameter;
        assert!((ratio - 1.0).abs() < 1e-4, "{spec:?} {ratio}");
    }
}

/// Directions, rates and sizes of any kind leave distributions, and labels that are no numbers leave a bound.
#[test]
fn what_is_not_a_number_does_no_harm() {
    let wild = [0.0, f64::NAN, f64::INFINITY, -1.0, 1e-300, 1e300];
    for (case, spec) in [(0, LossSpec::Logistic), (4, losses()[1]), (8, losses()[1]), (3, losses()[6])] {
        for hidden in [Hidden::Label, Hidden::Feature] {
            let table = Table::new(case, 37, spec, hidden, 4);
            let rows = table.rows(false);
            let rows = BeliefRows::new(&rows, &table.labels, &table.values).unwrap();
            let query = rows.gradient(table.loss, &table.weights).unwrap();
            for rate in wild {
                for size in wild {
                    for truncation in wild {
                        let direction = vec![if rate == 1e300 { 1e100 } else { 0.5 }; query.dimension()];
                        let mut beliefs = Beliefs::uniform(37, 4);
                        for _ in 0..2 {
                            let direction = direction.clone();
                            let update = BeliefUpdate { direction, rate, size, truncation };
                            query.update(&mut beliefs, &update).unwrap();
                        }
                        for row in [0, 3, 36] {
                            let shares = beliefs.probabilities(row);
                            let total: f64 = shares.iter().sum();
                            assert!(
                                (total - 1.0).abs() < 1e-9 && shares.iter().all(|&p| p > 0.0),
                                "{shares:?}"
                            );
                        }
                    }
                }
            }
        }
    }
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 1e6] {
        for (spec, labels) in [
            (LossSpec::Logistic, vec![0.0, odd, 1.0]),
            (losses()[1], vec![odd, -1.0, 0.25]),
            (LossSpec::Hinge, vec![-1.0, 1.0, odd]),
        ] {
            let mut table = Table::new(0, 33, spec, Hidden::Label, 3);
            table.values = SensitiveValues::new(vec![Vec::new(); 3], Some(labels)).unwrap();
            let rows = table.rows(false);
            let rows = BeliefRows::new(&rows, &table.labels, &table.values).unwrap();
            let query = rows.gradient(table.loss, &table.weights).unwrap();
            let beliefs = Beliefs::uniform(33, 3);
            let stated = query.sums(&beliefs, &secrets(33, 3)).unwrap();
            let vectors = vectors_used(&query, &beliefs, 33, 3);
            let exact = vectors.iter().map(|vectors| exact_squared_diameter(vectors)).max().unwrap();
            assert!(exact > 0 && exact as f64 <= stated.squared_diameter, "{spec:?} {odd}");
        }
    }
}

/// A value beyond the last counts as the last, as it always has.
#[test]
fn values_out_of_range_count_as_the_last() {
    for hidden in [Hidden::Label, Hidden::Feature] {
        let table = Table::new(6, 40, LossSpec::Logistic, hidden, 3);
        let rows = table.rows(false);
        let sums = |value: u16| table.pass(&rows, &[value; 40], Level::best()).1;
        assert_eq!(sums(2), sums(3));
        assert_eq!(sums(2), sums(u16::MAX));
        assert_ne!(sums(1), sums(2));
    }
}

/// Diameters take a row's public features and what its value fills to share no coordinate.
#[test]
fn public_features_where_values_go_are_refused() {
    let values = SensitiveValues::new(vec![vec![(1, 5)], vec![(3, 7)]], None).unwrap();
    let mut features = vec![vec![1i16, 0, 2, 0]; 50];
    let all_pass = |features: &[Vec<i16>]| {
        let storages: [Rows; 2] = [
            DenseRows::from_rows(4, features).unwrap().into(),
            SparseRows::from_rows(4, features).unwrap().into(),
        ];
        storages.map(|rows| BeliefRows::new(&rows, &[0.0; 50], &values).map(|_| ()))
    };
    assert_eq!(all_pass(&features), [Ok(()), Ok(())]);
    for (row, column) in [(0, 1), (31, 3), (49, 1)] {
        features[row][column] = -1;
        assert_eq!(all_pass(&features), [Err(KernelError::Filled), Err(KernelError::Filled)]);
        features[row][column] = 0;
    }
}

/// Long runs of one and the same row, all certain of one value: sums by value, too, are n times one row's.
#[test]
fn sums_of_many_equal_rows_are_multiples() {
    let (count, row) = (70_001, vec![16384i16, 0, 0]);
    let values = SensitiveValues::new(vec![vec![(1, 16384)], vec![(2, 32767)]], None).unwrap();
    let loss = Loss::new(LossSpec::Logistic).unwrap();
    let sums = |count: usize| {
        let rows: Rows = DenseRows::from_rows(3, &vec![row.clone(); count]).unwrap().into();
        let labels = vec![0.0; count];
        let rows = BeliefRows::new(&rows, &labels, &values).unwrap();
        // sigma is almost 1: coefficients are as large as they get
        let query = rows.gradient(loss, &[20.0, 15.0, 15.0]).unwrap();
        assert_eq!(query.limit, SINGLE_COEFFICIENT);
        query.sums(&Beliefs::with_prior(count, &[0.0, 1.0]), &vec![1; count]).unwrap()
    };
    let (one, all) = (sums(1), sums(count));
    let times = |sums: &[i64]| sums.iter().map(|sum| sum * count as i64).collect::<Vec<_>>();
    assert!(one.actual[2] > 1 << 36);
    assert_eq!(all.actual, times(&one.actual));
    assert_eq!(all.believed, times(&one.believed));
    assert_eq!(all.squared_diameter, one.squared_diameter);
}
