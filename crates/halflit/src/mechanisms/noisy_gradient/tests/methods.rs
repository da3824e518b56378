//! Where the descents end, and the papers' methods.

use super::*;
use crate::mechanisms::noisy_gradient::public::{Length, PublicGradient, PublicRows};
use crate::mechanisms::noisy_gradient::sampler::PublicBatch;
use crate::testing::{LOSSES, seeded};
use halflit_convex::kernel::LatticeWeights;
use halflit_noise::Probability;
use halflit_privacy::{Change, Event, NoiseMultiplier, SamplingRate};
use std::num::NonZeroU64;

#[test]
fn a_generous_budget_finds_the_minimizer() {
    for loss in LOSSES {
        let story = Story { epsilon: 400.0, ..Story::new(3000).loss(loss) };
        let problem = story.problem();
        let plan =
            Plan::new(&problem, &Params { steps: Some(300), ..Params::default() }, budget(400.0)).unwrap();
        let found = plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap().weights;
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

/// One or a few public rows say nothing about most directions: what steps by their second moments without a safeguard is not predicted, so never the default.
#[test]
fn a_few_public_rows_are_not_preconditioned_by() {
    let with_public = |count: usize| {
        let mut story = Story { public_rows: true, ..Story::new(1000).loss("squared") };
        let consent = |row: usize| if row % (1000 / count) == 2 { "yes" } else { "no" }.to_owned();
        story.cells.consent = (0..1000).map(consent).collect();
        story
    };
    let planned = |count: usize| {
        let plans = crate::Plans::new(with_public(count).problem(), &crate::Request::default()).unwrap();
        plans.summaries().cloned().collect::<Vec<_>>()
    };
    for count in [1, 2, 4, 10, 20] {
        let summaries = planned(count);
        let of = |name: &str| summaries.iter().find(|row| row.variant.contains(name));
        assert_eq!(of("PDA-MD").map(|row| row.predicted_excess), Some(f64::INFINITY), "{count}");
        assert!(of("posterior").is_none(), "{count}");
        // Nobody is expected to know the minimizer from a row or two: the labels' variance over the number of rows.
        assert!(summaries[0].predicted_excess > 1e-5, "{count} {summaries:?}");
        let plan = crate::Plans::new(with_public(count).problem(), &crate::Request::default()).unwrap();
        let plan = plan.best().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = crate::Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
        let charged = ledger.charge(plan).unwrap();
        let output = charged.run(&mut halflit_noise::NoiseSource::from_os().unwrap(), &mut ()).unwrap();
        // Scores of labels in [-1, 1]: weights that went off are far larger.
        assert!(output.weights().iter().all(|w| w.abs() < 3.0), "{count} {:?}", output.weights());
    }
    let many = planned(200);
    assert!(many.iter().any(|row| row.variant.contains("PDA-MD") && row.predicted_excess < 0.1), "{many:?}");
}

/// What all classes have in common changes no prediction; it must not pile up in the weights, whatever the centre takes out of the hidden part.
#[test]
fn softmax_weights_have_nothing_in_common() {
    for public in [vec![], vec!["x"], vec!["x", "u", "c"]] {
        let story = Story { public, ..Story::new(200).loss("softmax") };
        let problem = story.problem();
        let plan = Plan::new(&problem, &Params::default(), budget(5.0)).unwrap();
        let weights = plan.run(&problem, &key(), &mut seeded(3), &mut ()).unwrap().weights;
        let width = problem.encoding().width();
        let largest = weights.iter().fold(0.0f64, |most, weight| most.max(weight.abs()));
        for column in 0..width {
            let common: f64 = weights.iter().skip(column).step_by(width).sum();
            assert!(common.abs() < 1e-6 * largest, "{:?}: {common} of {largest}", story.public);
        }
    }
}

#[test]
fn every_centre_sampling_and_combiner_finds_the_same_minimizer() {
    let story = Story { public: vec!["x", "u"], epsilon: 400.0, ..with_public_rows(3000) };
    let problem = story.problem();
    let run = |params: &Params| {
        let plan = Plan::new(&problem, params, budget(400.0)).unwrap();
        risk(&problem, &plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap().weights)
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
        Params { centre: Some(Centre::PublicMean), ..quantile.clone() },
        growing,
        quantile,
        Params { steps, ..modes::all_rows_as_private() },
    ]);
    let open = modes::Constants { steps: NonZeroU64::new(300), ..modes::Constants::default() };
    let sampled = modes::Constants { sampling: Sampling::Poisson(rate), ..open };
    tried.extend([open.dp_sgd(), sampled.dp_sgd(), sampled.accelerated(0.8), sampled.feature_dp(1.0, 0.5)]);
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
            (plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap().weights, plan.descent)
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

/// Public rows treated as private: the noise is the same, and a public row moves a step no farther than a private one could.
#[test]
fn public_rows_can_be_treated_as_private_ones() {
    let story = with_public_rows(400);
    let problem = story.problem();
    let (rows, labels) = problem.public_data();
    let public = PublicRows::new(problem.loss(), rows, labels, problem.row_norm_bound()).unwrap().unwrap();
    let at = LatticeWeights::new(&weights(&problem, 2), 1).unwrap();
    let clipped = public.gradient(&at, &PublicBatch::all(), Length::AtMost(0.1)).unwrap();
    let size = |gradient: &[f64]| gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    assert!(size(&clipped.mean) <= 0.1 + 1e-9, "{}", size(&clipped.mean));

    let steps = NonZeroU64::new(20);
    let constants = modes::Constants { steps, clip_norm: Some(0.1), ..modes::Constants::default() };
    let plan = Plan::new(&problem, &constants.dp_sgd(), budget(1.0)).unwrap();
    let plain = Plan::new(&problem, &Params { steps: Some(20), ..clipped_at(0.1) }, budget(1.0)).unwrap();
    assert_eq!(lattice(&plan).noise_multiplier(), lattice(&plain).noise_multiplier());
    plan.statement(&problem).check().unwrap();
    // Neither a weight alpha nor a centre fits.
    for params in [
        Params { combiner: Some(Combiner::Automatic), ..constants.dp_sgd() },
        Params { centre: Some(Centre::PublicMean), ..constants.dp_sgd() },
    ] {
        assert!(matches!(Plan::new(&problem, &params, budget(1.0)), Err(MechanismError::Part { .. })));
    }
}

/// Numbers that a caller leaves open are chosen, and what is given is kept; nothing is predicted of what is given.
#[test]
fn methods_leave_constants_open() {
    let problem = with_public_rows(2000).loss("squared").problem();
    let plan = |params: &Params| Plan::new(&problem, params, budget(1.0)).unwrap();
    let one_pass = Sampling::OnePass { batches: NonZeroU64::new(10).unwrap() };
    let open = modes::Constants { sampling: one_pass, ..modes::Constants::from_public_fit() };
    let Descent::Accelerated { damping, .. } = plan(&open.accelerated(0.5)).descent else { panic!() };
    let smoothness = problem.row_norm_bound().powi(2);
    assert!(damping >= 2.0 * smoothness, "{damping} {smoothness}");
    let Descent::Preconditioned { step_size, ridge, .. } = plan(&open.pda_md(None)).descent else { panic!() };
    assert!(step_size > 0.0 && ridge > 0.0);
    let given = modes::Constants { step_size: Some(0.07), ..open };
    for params in [given.algorithm_1(0.5), given.dp_sgd(), given.pda_md(Some(0.2)), open.algorithm_1(0.5)] {
        assert!(plan(&params).summary(&problem).predicted_excess.is_infinite());
    }
    assert!(matches!(plan(&given.algorithm_1(0.5)).descent, Descent::Momentum { step_size: 0.07, .. }));
    let predicted = |params: &Params| plan(params).summary(&problem).predicted_excess;
    let pda_md = modes::Constants::from_public_fit().pda_md(None);
    for params in [pda_md, modes::all_rows_as_private(), Params::default()] {
        assert!(predicted(&params).is_finite(), "{params:?}");
    }
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
        risk(&problem, &plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap().weights)
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
    let public = PublicRows::new(problem.loss(), rows, labels, problem.row_norm_bound()).unwrap().unwrap();
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
    round_regression_with("", rows, public, zero_out)
}

/// The same with more lines in its task.
fn round_regression_with(task: &str, rows: usize, public: usize, zero_out: bool) -> (Problem, Vec<f64>) {
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
         [task]\nlabel = \"y\"\nloss = \"squared\"\nintercept = false\n{task}\
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
            .map(|seed| {
                squared_error(&plan.run(&problem, &key(), &mut seeded(seed), &mut ()).unwrap().weights)
            })
            .collect();
        let mean = errors.iter().sum::<f64>() / 10.0;
        assert!(mean < 0.5 * alone, "zero-out {zero_out}: {mean} against {alone}");
        // A generous budget reaches the error of least squares on all rows, d/n times the same; three times at most in this one draw.
        let generous = Plan::new(&problem, &modes::posterior(), budget(100.0)).unwrap();
        let found = squared_error(&generous.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap().weights);
        let least_squares = 20.0 / 4000.0 * 36.0 / 1600.0;
        assert!(found < 3.0 * least_squares, "{found} against {least_squares}");
    }
}

/// A declared ball and a declared penalty bind the posterior descent as they do every other.
#[test]
fn the_posterior_descent_stays_in_its_ball_and_heeds_its_penalty() {
    let size = |task: &str| {
        let (problem, _) = round_regression_with(task, 2000, 200, false);
        let plan = Plan::new(&problem, &modes::posterior(), budget(100.0)).unwrap();
        let weights = plan.run(&problem, &key(), &mut seeded(2), &mut ()).unwrap().weights;
        weights.iter().map(|w| w * w).sum::<f64>().sqrt()
    };
    let free = size("");
    assert!(size("radius = 0.1\n") <= 0.1 + 1e-12 && free > 0.2, "{free}");
    // Curvature 1/36 in every direction: a penalty of 1/36 halves the weights.
    let half = size("regularization = 0.027777\n");
    assert!((half / free - 0.5).abs() < 0.05, "{half} {free}");
}
