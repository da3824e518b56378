use super::layout::Layout;
use super::parts::*;
use super::passes::Passes;
use super::public::{Length, PublicGradient};
use super::sampler::{HiddenBatch, KnownBatch, PublicBatch};
use super::*;
use crate::mechanisms::Watch;
use crate::problem::{FEATURE_UNIT, Problem};
use crate::testing::{LOSSES, Numbers, Story, seeded};
use halflit_convex::kernel::LatticeWeights;
use halflit_noise::{NoiseSource, Probability, SumLattice};
use halflit_privacy::calibrate::Budget;
use halflit_privacy::{Change, Delta, Epsilon, Event, Mu, NoiseMultiplier, Profile, SamplingRate};
use halflit_table::Unsealed;
use std::num::NonZeroU64;

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

fn lattice(plan: &Plan) -> &SumLattice {
    &plan.levels[0].0
}

/// What one lattice unit is worth under a fixed clip norm.
fn unit_of(plan: &Plan) -> f64 {
    clip_norm(plan) * lattice(plan).unit()
}

fn clip_norm(plan: &Plan) -> f64 {
    match plan.clip {
        Clip::Fixed { norm } => norm,
        Clip::Quantile { .. } | Clip::ResidualScale => 1.0,
    }
}

fn clipped_at(norm: f64) -> Params {
    Params { clip: Some(Clip::Fixed { norm }), ..Params::default() }
}

/// Every centre that the story allows, with the clip rule of `params`.
fn with_centres(story: &Story, params: &Params) -> Vec<Params> {
    let centres = [Centre::Zero, Centre::Midrange, Centre::Imputed, Centre::PublicMean, Centre::LastRelease];
    let with = |centre| Params { centre: Some(centre), ..params.clone() };
    let problem = story.problem();
    centres.map(with).into_iter().filter(|params| Plan::new(&problem, params, budget(1.0)).is_ok()).collect()
}

/// A common centre for the sums of a plan, far from zero: any public vector would do.
fn some_centre(plan: &Plan, size: usize) -> Option<Vec<i64>> {
    let length = lattice(plan).radius() as i64;
    plan.centre.is_common().then(|| (0..size as i64).map(|index| (index % 3 - 1) * (length / 2)).collect())
}

/// The clamped integer sum over some units of one story at some weights.
fn hidden_sum_of(story: &Story, plan: &Plan, seed: u64, batch: &HiddenBatch) -> Vec<i64> {
    let problem = story.problem();
    let layout = Layout::open(&problem, &key(), plan.split, plan.centre).unwrap();
    let passes = Passes::new(&layout, problem.encoding()).unwrap();
    let clamp = passes.clamp(lattice(plan).radius()).unwrap();
    let weights = LatticeWeights::new(&weights(&problem, seed), problem.loss().outputs()).unwrap();
    let centre = some_centre(plan, problem.dimension());
    passes.hidden(&clamp, &weights, unit_of(plan), centre.as_deref(), batch).unwrap()
}

fn hidden_sum(story: &Story, plan: &Plan, seed: u64) -> Vec<i64> {
    hidden_sum_of(story, plan, seed, &HiddenBatch::all())
}

/// The histogram of norms of one story at some weights.
fn norm_counts(
    story: &Story,
    whole: u64,
    seed: u64,
    centre: Option<&[f64]>,
    batch: &HiddenBatch,
) -> Vec<i64> {
    let problem = story.problem();
    let kind = if centre.is_some() { Centre::PublicMean } else { Centre::Zero };
    let layout = Layout::open(&problem, &key(), Split::Nothing, kind).unwrap();
    let passes = Passes::new(&layout, problem.encoding()).unwrap();
    let clamp = passes.clamp(1 << 20).unwrap();
    let weights = LatticeWeights::new(&weights(&problem, seed), problem.loss().outputs()).unwrap();
    passes.spread(&clamp, &weights, centre, batch, whole).unwrap()
}

fn squared_distance(a: &[i64], b: &[i64]) -> u128 {
    a.iter().zip(b).map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2)).sum()
}

/// The story with the sensitive cells of one unit changed.
fn neighbour(story: &Story) -> Story {
    let mut neighbour = story.clone();
    // A row whose owner did not consent: public rows are not protected.
    let chosen = (20..).find(|&row| story.cells.consent[row] != "yes").unwrap();
    let user = story.cells.user[chosen].clone();
    for row in 0..story.cells.user.len() {
        let changes = if story.by_user { story.cells.user[row] == user } else { row == chosen };
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
    neighbour
}

#[test]
fn replacing_one_unit_moves_the_integer_sum_by_at_most_twice_the_radius() {
    for story in stories(60) {
        let neighbour = neighbour(&story);
        // A clip norm far below the gradients, so that the clamp is what keeps the bound.
        for params in [Params::default(), clipped_at(0.05)] {
            for params in with_centres(&story, &params) {
                let plan = plan(&story, &params);
                for seed in 1..3 {
                    let (one, other) = (hidden_sum(&story, &plan, seed), hidden_sum(&neighbour, &plan, seed));
                    let bound = 2 * u128::from(lattice(&plan).radius());
                    let distance = squared_distance(&one, &other);
                    assert!(distance <= bound * bound, "{} {:?} {:?}", story.loss, story.public, plan.centre);
                }
            }
        }
    }
}

#[test]
fn one_unit_alone_is_inside_the_radius() {
    // Zero-out: the sum with a unit minus the sum without it is that unit's contribution.
    for story in stories(40) {
        for params in [Params::default(), clipped_at(0.05)] {
            for params in with_centres(&story, &params) {
                let plan = plan(&story, &params);
                for unit in 0..8 {
                    let alone = hidden_sum_of(&story, &plan, 5, &HiddenBatch::only(vec![unit]));
                    let radius = u128::from(lattice(&plan).radius());
                    let length = squared_distance(&alone, &vec![0; alone.len()]);
                    assert!(length <= radius * radius, "{} {:?}", story.loss, plan.centre);
                }
            }
        }
    }
}

#[test]
fn one_unit_adds_one_to_one_bin_of_the_histogram_of_norms() {
    let whole = 1_000_003;
    for loss in LOSSES {
        for (by_user, is_centred) in [(false, false), (false, true), (true, false), (true, true)] {
            let story = Story { by_user, ..Story::new(60).loss(loss) };
            let neighbour = neighbour(&story);
            let centre = is_centred.then(|| vec![0.3; story.problem().dimension()]);
            let counts = |story: &Story, batch| norm_counts(story, whole, 3, centre.as_deref(), &batch);
            let mut one_by_one = vec![0; super::spread::BINS];
            for unit in 0..8 {
                let mut alone = counts(&story, HiddenBatch::only(vec![unit]));
                one_by_one.iter_mut().zip(&alone).for_each(|(sum, count)| *sum += count);
                alone.sort_unstable();
                let (most, others) = alone.split_last().unwrap();
                assert!(*most == whole as i64 && others.iter().all(|&count| count == 0), "{loss}: {alone:?}");
            }
            assert_eq!(one_by_one, counts(&story, HiddenBatch::only((0..8).collect())), "{loss}");
            let (one, other) = (counts(&story, HiddenBatch::all()), counts(&neighbour, HiddenBatch::all()));
            assert!(squared_distance(&one, &other) <= 2 * u128::from(whole).pow(2), "{loss}");
        }
    }
}

/// The bins are those of the vectors that are clamped: of whole users, reduced by a common centre.
#[test]
fn histograms_are_of_what_will_be_clamped() {
    let story = Story { by_user: true, ..Story::new(60) };
    let problem = story.problem();
    let size = problem.dimension();
    let (one, two) = (vec![0.0; size], vec![100.0; size]);
    for (centre, expected) in [(None, None), (Some(one), None), (Some(two), Some(1e4 * size as f64))] {
        for unit in 0..8 {
            let batch = HiddenBatch::only(vec![unit]);
            let counts = norm_counts(&story, 1, 3, centre.as_deref(), &batch);
            let bin = counts.iter().position(|&count| count == 1).unwrap();
            let squares = match expected {
                // A centre far from every gradient is all there is.
                Some(squares) => squares,
                None => {
                    let plan = plan(&story, &clipped_at(1000.0));
                    let alone = hidden_sum_of(&story, &plan, 3, &batch);
                    alone.iter().map(|&sum| (sum as f64 * unit_of(&plan)).powi(2)).sum()
                }
            };
            let expected = super::spread::bin(squares);
            assert!(bin.abs_diff(expected) <= 1, "user {unit}: {bin} {expected}");
        }
    }
}

#[test]
fn hidden_and_known_parts_add_up_to_the_gradient() {
    // A clip norm that clips nothing.
    let params = |story: &Story| with_centres(story, &clipped_at(200.0));
    for (story, params) in
        stories(50).iter().flat_map(|story| params(story).into_iter().map(move |p| (story, p)))
    {
        let plan = plan(story, &params);
        if plan.centre.is_common() {
            // Its multiple of the number of units is added back in the run; see `every_centre_finds_the_same_minimizer`.
            continue;
        }
        let problem = story.problem();
        let layout = Layout::open(&problem, &key(), plan.split, plan.centre).unwrap();
        let passes = Passes::new(&layout, problem.encoding()).unwrap();
        let outputs = problem.loss().outputs();
        let lattice_weights = LatticeWeights::new(&weights(&problem, 9), outputs).unwrap();
        let clamp = passes.clamp(lattice(&plan).radius()).unwrap();
        let hidden =
            passes.hidden(&clamp, &lattice_weights, unit_of(&plan), None, &HiddenBatch::all()).unwrap();
        let known = passes.known(&lattice_weights, &KnownBatch::all()).unwrap();
        let expected = gradient(&problem, &lattice_weights.rounded());
        // Every coefficient is rounded by at most half a step, times a feature of at most 2^14 units.
        let rounding = layout.hidden.rows.len() as f64 * 0.5 * unit_of(&plan) / FEATURE_UNIT;
        for (index, expected) in expected.iter().enumerate() {
            let found = hidden[index] as f64 * unit_of(&plan) + known[index];
            let is_near = (found - expected).abs() < rounding + 1e-9;
            assert!(is_near, "{} {:?}: {found} {expected}", story.loss, story.public);
        }
    }
}

/// What is added back without noise.
#[test]
fn known_parts_do_not_see_sensitive_cells() {
    let known = |story: &Story, plan: &Plan| {
        let problem = story.problem();
        let layout = Layout::open(&problem, &key(), plan.split, plan.centre).unwrap();
        let passes = Passes::new(&layout, problem.encoding()).unwrap();
        let weights = LatticeWeights::new(&weights(&problem, 3), problem.loss().outputs()).unwrap();
        passes.known(&weights, &KnownBatch::all()).unwrap()
    };
    for story in stories(60) {
        let neighbour = neighbour(&story);
        for params in with_centres(&story, &Params::default()) {
            let plan = plan(&story, &params);
            let (one, other) = (known(&story, &plan), known(&neighbour, &plan));
            assert_eq!(one, other, "{} {:?} {:?}", story.loss, story.public, plan.centre);
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
    let multiplier = lattice(&plan).noise_multiplier();
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
    let ratio = multiplier / lattice(&half).noise_multiplier();
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
    let Descent::Momentum { step_size, .. } = plan.descent else { panic!("{:?}", plan.descent) };
    let mean_square = |assumed_std: f64| {
        let mut sum = 0.0;
        let mut count = 0.0;
        for run in 0..300u32 {
            let mut seed = [0; 32];
            seed[..4].copy_from_slice(&run.to_le_bytes());
            let mut source = NoiseSource::seeded_for_tests(seed);
            let weights = plan.run(&problem, &key(), &mut source, &mut ()).unwrap();
            for (weight, gradient) in weights.iter().zip(&gradient) {
                let noise = -weight * problem.total_weight() / step_size - gradient;
                sum += (noise / assumed_std).powi(2);
                count += 1.0;
            }
        }
        sum / count
    };
    let planned = plan.statement(&problem).levels[0].noise_std.unwrap();
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

/// What all classes have in common changes no prediction; it must not pile up in the weights, whatever the centre takes out of the hidden part.
#[test]
fn softmax_weights_have_nothing_in_common() {
    for public in [vec![], vec!["x"], vec!["x", "u", "c"]] {
        let story = Story { public, ..Story::new(200).loss("softmax") };
        let problem = story.problem();
        let plan = Plan::new(&problem, &Params::default(), budget(5.0)).unwrap();
        let weights = plan.run(&problem, &key(), &mut seeded(3), &mut ()).unwrap();
        let width = problem.encoding().width();
        let largest = weights.iter().fold(0.0f64, |most, weight| most.max(weight.abs()));
        for column in 0..width {
            let common: f64 = weights.iter().skip(column).step_by(width).sum();
            assert!(common.abs() < 1e-6 * largest, "{:?}: {common} of {largest}", story.public);
        }
    }
}

#[test]
fn poisson_batches_cost_less_noise_and_keep_their_exact_rate() {
    let story = Story::new(2000);
    let rate = Probability::new(1, 16).unwrap();
    let params = Params { sampling: Some(Sampling::Poisson(rate)), steps: Some(200), ..Params::default() };
    let plan = Plan::new(&story.problem(), &params, budget(1.0)).unwrap();
    let full =
        Plan::new(&story.problem(), &Params { steps: Some(200), ..Params::default() }, budget(1.0)).unwrap();
    assert!(lattice(&plan).noise_multiplier() < lattice(&full).noise_multiplier());
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
    let clip = |public: Vec<&'static str>| {
        clip_norm(&plan(&Story { public, ..Story::new(300) }, &Params::default()))
    };
    let (nothing, some, features) = (clip(vec![]), clip(vec!["x", "u"]), clip(vec!["x", "u", "c"]));
    assert!(features < 0.5 * nothing + 1e-9 && some < nothing, "{nothing} {some} {features}");
}

#[test]
fn a_centre_without_public_features_is_refused() {
    let params = Params { centre: Some(Centre::Midrange), ..Params::default() };
    let refused = Plan::new(&Story::new(50).problem(), &params, budget(1.0)).unwrap_err();
    assert!(matches!(refused, MechanismError::NoPublicFeature), "{refused}");
    for norm in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            Plan::new(&Story::new(50).problem(), &clipped_at(norm), budget(1.0)),
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
    let changed: [fn(&mut Statement); 12] = [
        |s| s.hidden_weight = 0.0,
        |s| s.hidden_weight = f64::NAN,
        |s| s.levels[0].noise_multiplier *= 1.0001,
        |s| s.levels[0].noise_multiplier = f64::NAN,
        |s| s.levels[0].lattice_radius *= 2,
        |s| s.levels[0].lattice_bits = 45,
        |s| s.levels[0].noise_std = s.levels[0].noise_std.map(|std| 1.01 * std),
        |s| s.total_weight = 1.0,
        |s| s.steps += 1,
        |s| s.batches = Some(1),
        |s| s.clip = Clip::Quantile { level: 0.5 },
        |s| s.spread = Some(s.levels[0].clone()),
    ];
    for change in changed {
        let mut statement = honest.clone();
        change(&mut statement);
        assert!(statement.check().is_err(), "{statement:?}");
    }
}

fn with_public_rows(rows: usize) -> Story {
    Story { public_rows: true, ..Story::new(rows) }
}

/// The mean loss of the private rows.
fn risk(problem: &Problem, weights: &[f64]) -> f64 {
    let key = key();
    let rows = problem.encoded().private_rows().open(&key);
    let labels = problem.encoded().private_labels().open(&key);
    let total: f64 = (0..rows.len())
        .map(|row| {
            let x = rows.dense_row(row).unwrap();
            let score = |w: &[f64]| w.iter().zip(&x).map(|(w, &q)| w * f64::from(q) * FEATURE_UNIT).sum();
            let scores: Vec<f64> = weights.chunks(rows.width()).map(score).collect();
            problem.loss().value(&scores, labels[row])
        })
        .sum();
    total / labels.len() as f64
}

#[test]
fn every_centre_sampling_and_combiner_finds_the_same_minimizer() {
    let story = Story { public: vec!["x", "u"], epsilon: 400.0, ..with_public_rows(3000) };
    let problem = story.problem();
    let run = |params: &Params| {
        let plan = Plan::new(&problem, params, budget(400.0)).unwrap();
        risk(&problem, &plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap())
    };
    let steps = Some(300);
    let best = run(&Params { steps, ..Params::default() });
    let zero = risk(&problem, &vec![0.0; problem.dimension()]);
    let centres = [Centre::Zero, Centre::Imputed, Centre::PublicMean, Centre::LastRelease];
    let mut tried: Vec<Params> =
        centres.map(|centre| Params { centre: Some(centre), steps, ..Params::default() }).to_vec();
    let rate = Probability::new(1, 2).unwrap();
    let growing = Params { budget_growth: Some(1.02), steps, ..Params::default() };
    let quantile = Params {
        clip: Some(Clip::Quantile { level: 0.9 }),
        centre: Some(Centre::Zero),
        steps,
        ..Params::default()
    };
    tried.extend([
        Params { sampling: Some(Sampling::Poisson(rate)), steps, ..Params::default() },
        Params { combiner: Some(Combiner::Automatic), steps, ..Params::default() },
        Params { combiner: Some(Combiner::Constant { alpha: 0.8 }), steps, ..Params::default() },
        Params { start: Some(Start::PublicMinimizer), steps, ..Params::default() },
        Params { sampling: Some(Sampling::Poisson(rate)), ..quantile.clone() },
        growing,
        quantile,
    ]);
    for params in tried {
        let found = run(&params);
        assert!(found - best < 0.05 * (zero - best), "{params:?}: found {found}, best {best}, zero {zero}");
    }
}

#[test]
fn newton_steps_lead_from_the_public_fit_to_the_minimizer_of_all_rows() {
    for loss in LOSSES {
        let story = with_public_rows(3000).loss(loss);
        let problem = story.problem();
        let warm = Params { start: Some(Start::PublicMinimizer), ..Params::default() };
        let run = |params: &Params| {
            let plan = Plan::new(&problem, params, budget(400.0)).unwrap();
            (plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap(), plan.descent)
        };
        let (weights, descent) = run(&warm);
        assert_eq!(matches!(descent, Descent::Newton { .. }), problem.loss().is_smooth(), "{loss}");
        let cold = run(&Params { steps: Some(1000), start: Some(Start::Zero), ..Params::default() }).0;
        let (found, best) = (risk(&problem, &weights), risk(&problem, &cold));
        let public = risk(
            &problem,
            &Plan::new(&problem, &warm, budget(1.0)).unwrap().starting_point(&problem).unwrap(),
        );
        assert!(
            found - best < 0.3 * (public - best).max(0.003),
            "{loss}: found {found}, best {best}, public {public}"
        );
    }
}

#[test]
fn one_pass_is_priced_once() {
    let story = with_public_rows(4000);
    let problem = story.problem();
    let batches = NonZeroU64::new(20).unwrap();
    let one_pass = Params { sampling: Some(Sampling::OnePass { batches }), ..Params::default() };
    let accelerated =
        Params { descent: Some(DescentChoice::Accelerated { damping: None }), ..one_pass.clone() };
    for params in [one_pass, accelerated] {
        let plan = Plan::new(&problem, &params, budget(1.0)).unwrap();
        assert_eq!(plan.steps(), 20);
        // Every unit is in one step: the noise of a single release, 2 / 0.236704.
        assert!((lattice(&plan).noise_multiplier() - 2.0 / 0.236_704).abs() < 1e-3);
        let statement = plan.statement(&problem);
        statement.check().unwrap();
        assert!(matches!(statement.event().unwrap(), Event::Parallel(_)));
        let weights = plan.run(&problem, &key(), &mut seeded(2), &mut ()).unwrap();
        assert!(weights.iter().all(|weight| weight.is_finite()));
    }
    let too_many =
        Params { sampling: Some(Sampling::OnePass { batches }), steps: Some(21), ..Params::default() };
    assert!(matches!(Plan::new(&problem, &too_many, budget(1.0)), Err(MechanismError::Part { .. })));
}

#[test]
fn two_statistics_of_one_batch_are_one_event() {
    let problem = Story::new(500).problem();
    let rate = Probability::new(1, 8).unwrap();
    let clip = Some(Clip::Quantile { level: 0.8 });
    let sampling = Some(Sampling::Poisson(rate));
    let params = Params { clip, sampling, steps: Some(50), ..Params::default() };
    let plan = Plan::new(&problem, &params, budget(1.0)).unwrap();
    let statement = plan.statement(&problem);
    statement.check().unwrap();
    let (gradient, histogram) =
        (statement.levels[0].noise_multiplier, statement.spread.as_ref().unwrap().noise_multiplier);
    let joint = (gradient.powi(-2) + histogram.powi(-2)).sqrt().recip();
    match statement.event().unwrap() {
        Event::Repeated { event, count } => match *event {
            Event::PoissonGaussian { noise_multiplier, .. } => {
                assert!((noise_multiplier.get() / joint - 1.0).abs() < 1e-12);
                assert_eq!(count.get(), 50);
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    // Full batch: two Gaussians per step, mu^2 adds up to the budget's.
    let full = Plan::new(&problem, &Params { sampling: None, ..params }, budget(1.0)).unwrap();
    let statement = full.statement(&problem);
    let spent: f64 = [&statement.levels[0], statement.spread.as_ref().unwrap()]
        .map(|level| 50.0 * (2.0 / level.noise_multiplier).powi(2))
        .iter()
        .sum();
    assert!((spent.sqrt() - 0.236_704).abs() < 1e-5, "{}", spent.sqrt());
}

#[test]
fn a_growing_budget_adds_up_to_the_declared_one() {
    let problem = Story::new(500).problem();
    let params = Params { budget_growth: Some(1.5), steps: Some(8), ..Params::default() };
    let plan = Plan::new(&problem, &params, budget(1.0)).unwrap();
    let mu: Vec<f64> = plan.step_lattices().map(|lattice| 2.0 * Plan::clip_over_noise(lattice)).collect();
    assert_eq!(mu.len(), 8);
    for pair in mu.windows(2) {
        assert!(((pair[1] / pair[0]).powi(2) - 1.5).abs() < 1e-3, "{mu:?}");
    }
    let total = mu.iter().map(|mu| mu * mu).sum::<f64>().sqrt();
    assert!((total - 0.236_704).abs() < 1e-5, "{total}");
    plan.statement(&problem).check().unwrap();
    let sampled = Params { sampling: Some(Sampling::Poisson(Probability::new(1, 2).unwrap())), ..params };
    assert!(matches!(Plan::new(&problem, &sampled, budget(1.0)), Err(MechanismError::Part { .. })));
}

#[test]
fn parts_that_need_public_rows_say_so() {
    let problem = Story::new(60).problem();
    for params in [
        Params { start: Some(Start::PublicMinimizer), ..Params::default() },
        Params { centre: Some(Centre::PublicMean), ..Params::default() },
        Params { combiner: Some(Combiner::Automatic), ..Params::default() },
        modes::posterior(),
    ] {
        let refused = Plan::new(&problem, &params, budget(1.0)).unwrap_err();
        assert!(matches!(refused, MechanismError::NoPublicRows), "{params:?}: {refused}");
    }
    let refused = Plan::new(&with_public_rows(400).problem(), &modes::posterior(), budget(1.0)).unwrap_err();
    assert!(matches!(refused, MechanismError::Part { part: "the posterior descent", .. }), "{refused}");
}

/// Algorithm 1 of Mahloujifar et al. 2023 with constants that suit the stories.
fn feature_dp(alpha: f64) -> Params {
    let constants = modes::Constants {
        steps: NonZeroU64::new(400),
        step_size: Some(0.1),
        clip_norm: Some(1.0),
        sampling: Sampling::Poisson(Probability::new(1, 4).unwrap()),
        average: Average::Suffix,
        ..modes::Constants::default()
    };
    constants.feature_dp(alpha, 0.9)
}

#[test]
fn feature_dp_needs_no_public_row_and_is_priced_by_its_radius() {
    let story = Story { public: vec!["u", "y"], epsilon: 200.0, ..Story::new(3000) };
    let problem = story.problem();
    let plan = Plan::new(&problem, &feature_dp(1.0), budget(200.0)).unwrap();
    let statement = plan.statement(&problem);
    statement.check().unwrap();
    statement.belongs_to(problem.relation()).unwrap();
    let one = Event::PoissonGaussian {
        rate: SamplingRate::new(0.25).unwrap(),
        noise_multiplier: NoiseMultiplier::new(statement.levels[0].noise_multiplier).unwrap(),
        change: Change::Replace,
    };
    assert_eq!(statement.event().unwrap(), one.repeated(400).unwrap());

    let run = |params: &Params| {
        let plan = Plan::new(&problem, params, budget(200.0)).unwrap();
        risk(&problem, &plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap())
    };
    let best = run(&Params { steps: Some(300), ..Params::default() });
    let zero = risk(&problem, &vec![0.0; problem.dimension()]);
    let found = run(&feature_dp(1.0));
    assert!(found - best < 0.05 * (zero - best), "found {found}, best {best}, zero {zero}");
    // With next to no weight on the hidden part, what the padded rows teach is all there is.
    let padded = run(&feature_dp(1e-6));
    assert!(padded > found + 0.05 * (zero - best), "padded {padded}, found {found}");
}

#[test]
fn a_hidden_weight_needs_a_known_part() {
    let problem = Story { public: vec!["x"], ..Story::new(60) }.problem();
    let zero = Params { centre: Some(Centre::Zero), ..feature_dp(0.5) };
    let refused = Plan::new(&problem, &zero, budget(1.0)).unwrap_err();
    assert!(matches!(refused, MechanismError::Part { part: "a hidden weight", .. }), "{refused}");
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Plan::new(&problem, &feature_dp(weight), budget(1.0)).is_err(), "{weight}");
    }
}

#[test]
fn public_gradients_can_be_rescaled_and_batched() {
    let problem = with_public_rows(2000).loss("squared").problem();
    let (rows, labels) = problem.public_data();
    let public = super::public::PublicRows::new(problem.loss(), rows, labels, problem.row_norm_bound())
        .unwrap()
        .unwrap();
    let at = LatticeWeights::new(&weights(&problem, 2), 1).unwrap();
    let plain = public.gradient(&at, &PublicBatch::all(), Length::AsItIs).unwrap();
    let rescaled = public.gradient(&at, &PublicBatch::all(), Length::Exactly(0.25)).unwrap();
    let clipped = public.gradient(&at, &PublicBatch::all(), Length::AtMost(0.25)).unwrap();
    assert_eq!(plain.rows, rows.len());
    // Every rescaled gradient has norm 0.25: mean square 0.0625 = variance + squared norm of the mean.
    let square = rescaled.mean.iter().map(|g| g * g).sum::<f64>();
    assert!((rescaled.variance + square - 0.0625).abs() < 1e-9, "{} {square}", rescaled.variance);
    assert!(plain.variance > 0.0);
    // Some gradients are shorter than that and stay as they are.
    let second_moment =
        |gradient: &PublicGradient| gradient.variance + gradient.mean.iter().map(|g| g * g).sum::<f64>();
    assert!(second_moment(&clipped) < 0.99 * 0.0625 && second_moment(&clipped) < second_moment(&plain));
}

/// Standard normal features and labels <w*, x> + noise: what the posterior descent is made for.
fn round_regression(rows: usize, public: usize, zero_out: bool) -> (Problem, Vec<f64>) {
    const WIDTH: usize = 20;
    let mut numbers = Numbers(3);
    // The sum of twelve uniform numbers is nearly normal.
    let mut normal = || (0..12).map(|_| numbers.next()).sum::<f64>() - 6.0;
    let best: Vec<f64> = (0..WIDTH).map(|_| normal()).collect();
    let mut features = vec![Vec::new(); WIDTH];
    let mut labels = Vec::new();
    for _ in 0..rows {
        let x: Vec<f64> = best.iter().map(|_| normal()).collect();
        labels.push(x.iter().zip(&best).map(|(x, w)| x * w).sum::<f64>() + normal());
        features.iter_mut().zip(&x).for_each(|(column, x)| column.push(*x));
    }
    let private = rows - public;
    let change = if zero_out { format!("zero-out\"\nrows = {private}") } else { "replace\"".to_owned() };
    let mut text = format!(
        "[budget]\nepsilon = 9\ndelta = 1e-5\n[protect]\nunit = \"row\"\nchange = \"{change}\n\
         public_rows = {{ column = \"public\", equals = \"yes\" }}\n\
         [task]\nlabel = \"y\"\nloss = \"squared\"\nintercept = false\n\
         [columns.y]\nbounds = [-40, 40]\n[columns.public]\nvisibility = \"public\"\nuse = false\n"
    );
    let mut columns = vec![("y".to_owned(), halflit_table::Column::Numbers(labels))];
    for (index, column) in features.into_iter().enumerate() {
        text += &format!("[columns.x{index}]\nbounds = [-6, 6]\n");
        columns.push((format!("x{index}"), halflit_table::Column::Numbers(column)));
    }
    let consent = (0..rows).map(|row| if row < public { "yes" } else { "no" }.to_owned()).collect();
    columns.push(("public".to_owned(), halflit_table::Column::Text(consent)));
    let declaration = halflit_table::Declaration::parse(&text, "privacy.toml").unwrap();
    let table = halflit_table::Table::from_columns(columns).unwrap();
    let declared = halflit_table::Declared::bind(declaration, table).unwrap();
    let encoded: Vec<f64> = best.iter().map(|w| w * 6.0 / 40.0).collect();
    (Problem::pose(declared, halflit_table::OutOfDomain::Refuse).unwrap(), encoded)
}

#[test]
fn the_posterior_descent_beats_public_rows_alone_under_both_changes() {
    for zero_out in [false, true] {
        let (problem, best) = round_regression(4000, 400, zero_out);
        let squared_error =
            |weights: &[f64]| weights.iter().zip(&best).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        // Least squares on 400 rows misses by d/(n - d - 1) times the noise (1/40)^2 over the curvature 1/36.
        let alone = 20.0 / 379.0 * 36.0 / 1600.0;
        let plan = Plan::new(&problem, &modes::posterior(), budget(1.0)).unwrap();
        plan.statement(&problem).check().unwrap();
        let errors: Vec<f64> = (0..10)
            .map(|seed| squared_error(&plan.run(&problem, &key(), &mut seeded(seed), &mut ()).unwrap()))
            .collect();
        let mean = errors.iter().sum::<f64>() / 10.0;
        assert!(mean < 0.5 * alone, "zero-out {zero_out}: {mean} against {alone}");
        // A generous budget reaches the error of least squares on all rows, d/n times the same; three times at most in this one draw.
        let generous = Plan::new(&problem, &modes::posterior(), budget(100.0)).unwrap();
        let found = squared_error(&generous.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap());
        let least_squares = 20.0 / 4000.0 * 36.0 / 1600.0;
        assert!(found < 3.0 * least_squares, "{found} against {least_squares}");
    }
}
