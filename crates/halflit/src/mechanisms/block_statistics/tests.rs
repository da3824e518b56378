use super::*;
use crate::testing::{Numbers, Story, seeded};
use halflit_privacy::{Delta, Epsilon, Profile};

fn budget(epsilon: f64) -> Budget {
    Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-6).unwrap() }
}

#[expect(clippy::disallowed_methods, reason = "tests look at the integer sums themselves")]
fn key() -> Unsealed {
    Unsealed::charge_was_recorded()
}

fn stories(rows: usize) -> Vec<Story> {
    let mut stories = Vec::new();
    for public in [vec!["x"], vec!["x", "y"], vec!["x", "c", "y"], vec![]] {
        for zero_out in [false, true] {
            // With every column hidden, zero-out hides the number of rows too.
            if zero_out && public.is_empty() {
                continue;
            }
            stories.push(Story {
                public: public.clone(),
                zero_out,
                public_rows: true,
                ..Story::new(rows).loss("squared")
            });
        }
    }
    stories
}

/// ||(a (s - s')^T, s s^T - s' s'^T)|| for a known part of norm A.
fn movement(a: f64, s: &[f64], t: &[f64]) -> f64 {
    let dot = |u: &[f64], v: &[f64]| u.iter().zip(v).map(|(u, v)| u * v).sum::<f64>();
    let difference: f64 = s.iter().zip(t).map(|(s, t)| (s - t).powi(2)).sum();
    let quadratic = dot(s, s).powi(2) + dot(t, t).powi(2) - 2.0 * dot(s, t).powi(2);
    (a * a * difference + quadratic.max(0.0)).sqrt()
}

/// The closed form against a brute-force search over both hidden parts: never exceeded, and attained.
#[test]
fn the_joint_sensitivity_is_the_maximum() {
    for a in [0.0, 0.2, 0.5, 0.69, 0.72, 1.0, 1.3, 1.5, 4.0] {
        for b in [0.5, 1.0, 1.7] {
            // One hidden coordinate: a grid over s and s'.
            let grid = |index: i32| b * f64::from(index) / 300.0;
            let pairs = (-300..=300).flat_map(|i| (-300..=300).map(move |j| (i, j)));
            let found = pairs.map(|(i, j)| movement(a, &[grid(i)], &[grid(j)])).fold(0.0, f64::max);
            let claimed = joint_sensitivity(a, b, 1, Change::Replace);
            assert!(found <= claimed && found > 0.999 * claimed, "h = 1, A {a}, B {b}: {found} {claimed}");

            // Several: two norms and the angle between them say everything.
            let mut found = 0.0f64;
            for p in 0..=40 {
                for q in 0..=p {
                    for angle in 0..=200 {
                        let (p, q) = (b * f64::from(p) / 40.0, b * f64::from(q) / 40.0);
                        let (sine, cosine) = (std::f64::consts::PI * f64::from(angle) / 200.0).sin_cos();
                        found = found.max(movement(a, &[p, 0.0], &[q * cosine, q * sine]));
                    }
                }
            }
            let claimed = joint_sensitivity(a, b, 3, Change::Replace);
            assert!(found <= claimed && found > 0.999 * claimed, "h = 3, A {a}, B {b}: {found} {claimed}");

            let null = movement(a, &[b, 0.0], &[0.0, 0.0]);
            let claimed = joint_sensitivity(a, b, 2, Change::ZeroOut);
            assert!(null <= claimed && null > 0.999_999 * claimed);
        }
    }
}

#[test]
fn neighbours_differ_by_at_most_the_priced_sensitivity() {
    for story in stories(40) {
        let problem = story.problem();
        let plan = Plan::new(&problem, budget(1.0)).unwrap();
        let statement = plan.statement(&problem);
        statement.check().unwrap();
        let price = Profile::of(&statement.event().unwrap()).unwrap().epsilon(Delta::new(1e-6).unwrap());
        assert!(price.upper <= 1.0 && price.lower > 0.95, "{price:?}");
        let sum = |story: &Story| {
            let problem = story.problem();
            let known = KnownParts::of(&problem, &plan.coordinates, plan.private_rows).unwrap();
            let key = key();
            let (rows, labels) =
                (problem.encoded().private_rows().open(&key), problem.encoded().private_labels().open(&key));
            gram::hidden_sum(&plan.coordinates, &known, rows, labels, plan.hidden_radius).unwrap()
        };
        let base = sum(&story);
        let private: Vec<usize> = (0..40).filter(|&row| story.cells.consent[row] != "yes").collect();
        let mut numbers = Numbers(3);
        for &row in private.iter().take(12) {
            for attempt in 0..4 {
                let mut other = story.clone();
                let extreme = |high: f64, low: f64, numbers: &mut Numbers| {
                    if attempt == 0 {
                        high
                    } else if attempt == 1 {
                        low
                    } else {
                        low + (high - low) * numbers.next()
                    }
                };
                let is_sensitive = |column: &str| !story.public.contains(&column);
                if is_sensitive("x") {
                    other.cells.x[row] = extreme(3.0, -3.0, &mut numbers);
                }
                if is_sensitive("u") {
                    other.cells.u[row] = extreme(0.0, 1.0, &mut numbers);
                }
                if is_sensitive("c") {
                    other.cells.c[row] = ["a", "b", "d"][attempt % 3].to_owned();
                }
                if is_sensitive("y") {
                    other.cells.y[row] = format!("{}", extreme(10.0, 0.0, &mut numbers));
                }
                let moved: f64 =
                    sum(&other).iter().zip(&base).map(|(a, b)| (a.abs_diff(*b) as f64).powi(2)).sum();
                // Under zero-out a replaced row is two changes.
                let changes = if story.zero_out { 2.0 } else { 1.0 };
                let allowed = changes * plan.sensitivity as f64 / plan.steps as f64;
                assert!(moved.sqrt() <= allowed, "{:?}: {} {allowed}", story.public, moved.sqrt());
            }
        }
    }
}

#[test]
fn hidden_parts_are_clipped_whatever_they_are() {
    let problem = Story { public: vec!["x"], ..Story::new(30).loss("squared") }.problem();
    let plan = Plan::new(&problem, budget(1.0)).unwrap();
    let known = KnownParts::of(&problem, &plan.coordinates, 1).unwrap();
    let width = plan.coordinates.width;
    let wild = halflit_convex::DenseRows::from_values(width, vec![32_767; width]).unwrap();
    let sum = gram::hidden_sum(&plan.coordinates, &known, &wild.into(), &[f64::INFINITY], plan.hidden_radius)
        .unwrap();
    let norm = sum.iter().map(|s| (*s as f64).powi(2)).sum::<f64>().sqrt();
    let most = joint_sensitivity(plan.known_norm, plan.hidden_radius as f64, 2, Change::ZeroOut);
    assert!(norm <= most, "{norm} {most}");
}

#[test]
fn a_generous_budget_finds_the_least_squares_fit() {
    for story in stories(1500) {
        let problem = Story { epsilon: 1e4, ..story }.problem();
        let plan = Plan::new(&problem, budget(1e4)).unwrap();
        let found = plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap().weights;
        let key = key();
        let private = problem.encoded().private_rows().open(&key);
        let (public, public_labels) = problem.public_data();
        let rows = private.concat(public).unwrap();
        let labels = [problem.encoded().private_labels().open(&key).as_slice(), public_labels].concat();
        let best = crate::mechanisms::public_rows::fit(
            problem.loss(),
            &rows,
            &labels,
            problem.row_norm_bound(),
            1e-6,
            None,
        )
        .unwrap();
        let risk = |weights: &[f64]| {
            (0..rows.len())
                .map(|row| {
                    let x = rows.dense_row(row).unwrap();
                    let score: f64 =
                        weights.iter().zip(&x).map(|(w, &q)| w * f64::from(q) * FEATURE_UNIT).sum();
                    0.5 * (score - labels[row]).powi(2)
                })
                .sum::<f64>()
                / rows.len() as f64
        };
        let (found, best, start) = (risk(&found), risk(&best), risk(&vec![0.0; rows.width()]));
        assert!(found - best < 0.02 * (start - best), "found {found}, best {best}, start {start}");
    }
}

#[test]
fn a_matrix_is_repaired_to_the_nearest_semidefinite_one() {
    // Eigenvalues 3 and -1 along (1, 1) and (1, -1).
    let (repaired, least) = gram::repaired(&[1.0, 2.0, 2.0, 1.0], 2);
    assert!((least + 1.0).abs() < 1e-12);
    assert!(repaired.iter().all(|entry| (entry - 1.5).abs() < 1e-12), "{repaired:?}");
    // A random semidefinite matrix stays as it is, and the ridge solves its equations, on the ball too.
    let mut numbers = Numbers(2);
    let size = 7;
    let rows: Vec<Vec<f64>> = (0..20).map(|_| (0..size).map(|_| numbers.next() - 0.5).collect()).collect();
    let gram: Vec<f64> =
        (0..size * size).map(|k| rows.iter().map(|r| r[k / size] * r[k % size]).sum()).collect();
    let (same, _) = gram::repaired(&gram, size);
    assert!(gram.iter().zip(&same).all(|(a, b)| (a - b).abs() < 1e-10));
    let weights = gram::ridge(&gram, size - 1, 0.1, None).unwrap();
    assert!(gram::residual(&gram, size - 1, 0.1, &weights) < 1e-10);
    let short = gram::ridge(&gram, size - 1, 0.1, Some(0.01)).unwrap();
    let norm = short.iter().map(|w| w * w).sum::<f64>().sqrt();
    assert!(norm <= 0.01 && norm > 0.009_999, "{norm}");
}

#[test]
fn other_declarations_are_refused() {
    let squared = Story::new(40).loss("squared");
    for refused in [
        Story { public: vec!["x"], ..Story::new(40) },
        Story { public: vec!["x", "u", "c"], ..squared.clone() },
        Story { by_user: true, public: vec!["x"], ..squared.clone() },
        Story { zero_out: true, ..squared },
    ] {
        let refusal = Plan::new(&refused.problem(), budget(1.0));
        assert!(matches!(refusal, Err(MechanismError::NeedsHiddenFeaturesAndSquaredLoss)));
    }
}

#[test]
fn a_tampered_statement_is_inconsistent() {
    let problem = Story { public: vec!["x"], ..Story::new(40).loss("squared") }.problem();
    let honest = Plan::new(&problem, budget(1.0)).unwrap().statement(&problem);
    let changed: [fn(&mut Statement); 8] = [
        |s| (s.units, s.total_weight) = (1 << 50, (1u64 << 50) as f64),
        |s| s.known_norm = -1000.0,
        |s| s.hidden_coordinates = 0,
        |s| s.hidden_radius *= 1.01,
        |s| s.known_norm *= 2.0,
        |s| s.noise.lattice_sensitivity /= 2,
        |s| s.noise.noise_std *= 1.001,
        |s| s.noise.lattice_bits = 50,
    ];
    for change in changed {
        let mut statement = honest.clone();
        change(&mut statement);
        assert!(statement.check().is_err(), "{statement:?}");
    }
}
