use super::layout::Layout;
use super::passes::Passes;
use super::*;
use crate::testing::{LOSSES, Numbers, Story, seeded};
use halflit_privacy::{Delta, Epsilon, Mu, Profile};
use halflit_table::Unsealed;

fn budget(epsilon: f64) -> Budget {
    Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-6).unwrap() }
}

#[expect(clippy::disallowed_methods, reason = "tests look at the integer sums themselves")]
fn key() -> Unsealed {
    Unsealed::charge_was_recorded()
}

/// Every combination that the mechanism supports: losses, units, changes, and what is public.
fn stories(rows: usize) -> Vec<Story> {
    let mut stories = Vec::new();
    for loss in LOSSES {
        for by_user in [false, true] {
            for public in [vec![], vec!["x", "u", "c"], vec!["x"], vec!["x", "y"]] {
                let zero_out = public.len() == 1;
                stories.push(Story {
                    by_user,
                    public,
                    zero_out,
                    public_rows: by_user,
                    ..Story::new(rows).loss(loss)
                });
            }
        }
    }
    stories
}

fn plan(story: &Story, params: &Params) -> Plan {
    Plan::new(&story.problem(), params, budget(story.epsilon)).unwrap()
}

fn weights(problem: &Problem, seed: u64) -> Vec<f64> {
    let mut numbers = Numbers(seed);
    (0..problem.dimension()).map(|_| 2.0 * numbers.next() - 1.0).collect()
}

/// The clamped integer sum of one story at some weights.
fn hidden_sum(story: &Story, plan: &Plan, seed: u64) -> Vec<i64> {
    let problem = story.problem();
    let layout = Layout::open(&problem, &key(), plan.split).unwrap();
    let passes =
        Passes::new(&layout, problem.encoding(), plan.lattice.radius(), plan.lattice.unit()).unwrap();
    let weights = LatticeWeights::new(&weights(&problem, seed), problem.loss().outputs()).unwrap();
    passes.hidden(&weights, Batch::All).unwrap()
}

fn squared_distance(a: &[i64], b: &[i64]) -> u128 {
    a.iter().zip(b).map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2)).sum()
}

#[test]
fn replacing_one_unit_moves_the_integer_sum_by_at_most_twice_the_radius() {
    for story in stories(60) {
        // A clip norm far below the gradients, so that the clamp is what keeps the bound.
        for params in [Params::default(), Params { clip_norm: Some(0.05), ..Params::default() }] {
            let plan = plan(&story, &params);
            let mut neighbour = story.clone();
            let user = story.cells.user[20].clone();
            for row in 0..story.cells.user.len() {
                let changes = if story.by_user { story.cells.user[row] == user } else { row == 20 };
                if !changes {
                    continue;
                }
                let is_sensitive = |column: &str| !story.public.contains(&column);
                if is_sensitive("x") {
                    neighbour.cells.x[row] = -neighbour.cells.x[row];
                }
                if is_sensitive("u") {
                    neighbour.cells.u[row] = 1.0 - neighbour.cells.u[row];
                }
                if is_sensitive("c") {
                    neighbour.cells.c[row] = "d".to_owned();
                }
                if is_sensitive("y") {
                    let other = story.cells.y.iter().find(|y| **y != story.cells.y[row]).unwrap();
                    neighbour.cells.y[row] = other.clone();
                }
            }
            for seed in 1..4 {
                let (one, other) = (hidden_sum(&story, &plan, seed), hidden_sum(&neighbour, &plan, seed));
                let bound = 2 * u128::from(plan.lattice.radius());
                assert!(squared_distance(&one, &other) <= bound * bound, "{} {:?}", story.loss, story.public);
            }
        }
    }
}

#[test]
fn one_unit_alone_is_inside_the_radius() {
    // Zero-out: the sum with a unit minus the sum without it is that unit's contribution.
    for story in stories(40) {
        for clip_norm in [None, Some(0.05)] {
            let plan = plan(&story, &Params { clip_norm, ..Params::default() });
            let problem = story.problem();
            let layout = Layout::open(&problem, &key(), plan.split).unwrap();
            let passes =
                Passes::new(&layout, problem.encoding(), plan.lattice.radius(), plan.lattice.unit()).unwrap();
            let weights = LatticeWeights::new(&weights(&problem, 5), problem.loss().outputs()).unwrap();
            for unit in 0..layout.units() as u32 {
                let alone = passes.hidden(&weights, Batch::Only(&[unit])).unwrap();
                let radius = u128::from(plan.lattice.radius());
                assert!(squared_distance(&alone, &vec![0; alone.len()]) <= radius * radius, "{}", story.loss);
            }
        }
    }
}

#[test]
fn hidden_and_known_parts_add_up_to_the_gradient() {
    for story in stories(50) {
        // A clip norm that clips nothing.
        let plan = plan(&story, &Params { clip_norm: Some(200.0), ..Params::default() });
        let problem = story.problem();
        let layout = Layout::open(&problem, &key(), plan.split).unwrap();
        let passes =
            Passes::new(&layout, problem.encoding(), plan.lattice.radius(), plan.lattice.unit()).unwrap();
        let outputs = problem.loss().outputs();
        let lattice_weights = LatticeWeights::new(&weights(&problem, 9), outputs).unwrap();
        let hidden = passes.hidden(&lattice_weights, Batch::All).unwrap();
        let known = passes.known(&lattice_weights, None).unwrap();
        let expected = gradient(&problem, &lattice_weights.rounded());
        // Every coefficient is rounded by at most half a step, times a feature of at most 2^14 units.
        let rounding = layout.hidden.rows.len() as f64 * 0.5 * plan.lattice.unit() / FEATURE_UNIT;
        for (index, expected) in expected.iter().enumerate() {
            let found = plan.lattice.to_real(hidden[index]) + known[index];
            let is_near = (found - expected).abs() < rounding + 1e-9;
            assert!(is_near, "{} {:?}: {found} {expected}", story.loss, story.public);
        }
    }
}

/// The sum of the units' gradients, row by row in floating point.
fn gradient(problem: &Problem, weights: &[f64]) -> Vec<f64> {
    let key = key();
    let rows = problem.encoded().private_rows().open(&key);
    let labels = problem.encoded().private_labels().open(&key);
    let share: Vec<f64> = match problem.encoded().private_units().open(&key) {
        halflit_table::Units::Rows(rows) => vec![1.0; *rows],
        halflit_table::Units::Users { offsets } => offsets
            .windows(2)
            .flat_map(|user| vec![1.0 / (user[1] - user[0]) as f64; user[1] - user[0]])
            .collect(),
    };
    let (width, outputs) = (rows.width(), problem.loss().outputs());
    let mut total = vec![0.0; width * outputs];
    for row in 0..rows.len() {
        let x: Vec<f64> = rows.dense_row(row).unwrap().iter().map(|&q| f64::from(q) * FEATURE_UNIT).collect();
        let scores: Vec<f64> =
            weights.chunks(width).map(|weights| weights.iter().zip(&x).map(|(w, x)| w * x).sum()).collect();
        let mut derivative = vec![0.0; outputs];
        problem.loss().derivative(&scores, labels[row], &mut derivative);
        for (output, derivative) in derivative.iter().enumerate() {
            for (column, x) in x.iter().enumerate() {
                total[output * width + column] += share[row] * derivative * x;
            }
        }
    }
    total
}

#[test]
fn sums_do_not_depend_on_the_number_of_threads() {
    for story in [Story::new(3000), Story { by_user: true, public: vec!["x"], ..Story::new(3000) }] {
        let plan = plan(&story, &Params::default());
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| hidden_sum(&story, &plan, 3))
        };
        let one = on(1);
        assert_eq!(one, on(2));
        assert_eq!(one, on(7));
    }
}

#[test]
fn the_noise_is_what_the_budget_asks_for() {
    // Closed form: T Gaussian steps of multiplier s are one of mu = 2 sqrt(T) / s under replace.
    let plan = plan(&Story::new(500), &Params { steps: Some(25), ..Params::default() });
    let multiplier = plan.lattice.noise_multiplier();
    let mu = 2.0 * 5.0 / multiplier;
    let epsilon = Profile::of(&halflit_privacy::Event::Gdp { mu: Mu::new(mu).unwrap() })
        .unwrap()
        .epsilon(Delta::new(1e-6).unwrap());
    assert!(epsilon.upper <= 1.0 + 1e-6 && epsilon.lower > 0.9999, "{epsilon:?}");
    // Golden value: mu of (1, 1e-6) is 0.236704 (root of the closed form, checked with scipy).
    assert!((mu - 0.236_704).abs() < 2e-6, "{mu}");

    let zero_out = Story { zero_out: true, ..Story::new(500) };
    let half = Plan::new(&zero_out.problem(), &Params { steps: Some(25), ..Params::default() }, budget(1.0))
        .unwrap();
    let ratio = multiplier / half.lattice.noise_multiplier();
    assert!((ratio - 2.0).abs() < 1e-4, "replace needs twice the noise of zero-out: {ratio}");
}

/// One step from zero: the weights are -step * (gradient + noise) / W, so their spread shows the noise.
///
/// Hypothesis: the released noise has the planned standard deviation. Statistic: mean squared standardised deviation over n = 300 * 6 =
/// 1800 coordinates, chi-square with n degrees of freedom. alpha = 1e-6 two-sided by the Wilson-Hilferty approximation: the
/// mean square of honest noise lies in [0.845, 1.173].
#[test]
fn the_released_noise_has_the_planned_scale() {
    let story = Story { epsilon: 0.5, ..Story::new(200) };
    let problem = story.problem();
    let plan = Plan::new(&problem, &Params { steps: Some(1), ..Params::default() }, budget(0.5)).unwrap();
    let gradient = gradient(&problem, &vec![0.0; problem.dimension()]);
    let mean_square = |assumed_std: f64| {
        let mut sum = 0.0;
        let mut count = 0.0;
        for run in 0..300u32 {
            let mut seed = [0; 32];
            seed[..4].copy_from_slice(&run.to_le_bytes());
            let mut source = NoiseSource::seeded_for_tests(seed);
            let weights = plan.run(&problem, &key(), &mut source, &mut ()).unwrap();
            for (weight, gradient) in weights.iter().zip(&gradient) {
                let noise = -weight * problem.total_weight() / plan.schedule.step_size - gradient;
                sum += (noise / assumed_std).powi(2);
                count += 1.0;
            }
        }
        sum / count
    };
    let planned = plan.statement(&problem).noise_std;
    let inside = 0.845..=1.173;
    assert!(inside.contains(&mean_square(planned)), "{}", mean_square(planned));
    // Power: noise calibrated for zero-out (half as large), or wrong by a tenth, is rejected.
    for wrong in [0.5, 0.9, 1.1] {
        assert!(!inside.contains(&mean_square(planned * wrong)), "{wrong}");
    }
}

#[test]
fn a_generous_budget_finds_the_minimizer() {
    for loss in LOSSES {
        let story = Story { epsilon: 400.0, ..Story::new(3000).loss(loss) };
        let problem = story.problem();
        let plan =
            Plan::new(&problem, &Params { steps: Some(300), ..Params::default() }, budget(400.0)).unwrap();
        let found = plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap();
        let key = key();
        let rows = problem.encoded().private_rows().open(&key);
        let labels = problem.encoded().private_labels().open(&key);
        let best = crate::mechanisms::public_rows::fit(
            problem.loss(),
            rows,
            labels,
            problem.row_norm_bound(),
            1e-4,
            None,
        )
        .unwrap();
        let risk = |weights: &[f64]| {
            let (width, mut total) = (rows.width(), 0.0);
            for (row, label) in labels.iter().enumerate() {
                let x = rows.dense_row(row).unwrap();
                let scores: Vec<f64> = weights
                    .chunks(width)
                    .map(|weights| {
                        weights.iter().zip(&x).map(|(w, &q)| w * f64::from(q) * FEATURE_UNIT).sum()
                    })
                    .collect();
                total += problem.loss().value(&scores, *label);
            }
            total / labels.len() as f64
        };
        let (found, best, start) = (risk(&found), risk(&best), risk(&vec![0.0; problem.dimension()]));
        assert!(found - best < 0.05 * (start - best), "{loss}: found {found}, best {best}, start {start}");
    }
}

#[test]
fn poisson_batches_cost_less_noise_and_keep_their_exact_rate() {
    let story = Story::new(2000);
    let rate = Probability::new(1, 16).unwrap();
    let params = Params { sampling_rate: Some(rate), steps: Some(200), ..Params::default() };
    let plan = Plan::new(&story.problem(), &params, budget(1.0)).unwrap();
    let full =
        Plan::new(&story.problem(), &Params { steps: Some(200), ..Params::default() }, budget(1.0)).unwrap();
    assert!(plan.lattice.noise_multiplier() < full.lattice.noise_multiplier());
    let statement = plan.statement(&story.problem());
    assert_eq!(statement.sampling_rate, Some(statement::Rate { numerator: 1, denominator: 16 }));
    assert!(
        Profile::of(&statement.event().unwrap()).unwrap().epsilon(Delta::new(1e-6).unwrap()).upper <= 1.0
    );
    let weights = plan.run(&story.problem(), &key(), &mut seeded(3), &mut ()).unwrap();
    assert!(weights.iter().all(|weight| weight.is_finite()));
}

#[test]
fn public_columns_shrink_the_clip_norm() {
    let clip =
        |public: Vec<&'static str>| plan(&Story { public, ..Story::new(300) }, &Params::default()).clip_norm;
    let (nothing, some, features) = (clip(vec![]), clip(vec!["x", "u"]), clip(vec!["x", "u", "c"]));
    assert!(features < 0.5 * nothing + 1e-9 && some < nothing, "{nothing} {some} {features}");
}

#[test]
fn a_centre_without_public_features_is_refused() {
    let params = Params { centre: Some(Centre::Midrange), ..Params::default() };
    let refused = Plan::new(&Story::new(50).problem(), &params, budget(1.0)).unwrap_err();
    assert!(matches!(refused, MechanismError::NoPublicFeature), "{refused}");
    for clip_norm in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let params = Params { clip_norm: Some(clip_norm), ..Params::default() };
        assert!(matches!(
            Plan::new(&Story::new(50).problem(), &params, budget(1.0)),
            Err(MechanismError::NotPositive { name: "clip norm", .. })
        ));
    }
}

#[test]
fn an_interrupted_run_returns_nothing() {
    struct StopAt(u64);
    impl Watch for StopAt {
        fn progress(&mut self, done: u64, _total: u64) -> std::ops::ControlFlow<()> {
            if done == self.0 {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        }
    }
    let story = Story::new(100);
    let plan = plan(&story, &Params { steps: Some(5), ..Params::default() });
    let stopped = plan.run(&story.problem(), &key(), &mut seeded(1), &mut StopAt(3));
    assert!(matches!(stopped, Err(MechanismError::Interrupted)));
}

#[test]
fn a_tampered_statement_is_inconsistent() {
    let story = Story::new(100);
    let honest = plan(&story, &Params::default()).statement(&story.problem());
    honest.check().unwrap();
    let changed: [fn(&mut Statement); 6] = [
        |s| s.noise_multiplier *= 1.0001,
        |s| s.noise_multiplier = f64::NAN,
        |s| s.lattice_radius *= 2,
        |s| s.lattice_bits = 45,
        |s| s.noise_std *= 1.01,
        |s| s.total_weight = 1.0,
    ];
    for change in changed {
        let mut statement = honest.clone();
        change(&mut statement);
        assert!(statement.check().is_err(), "{statement:?}");
    }
}
