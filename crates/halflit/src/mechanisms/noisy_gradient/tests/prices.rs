//! What runs cost, and which are refused.

use super::*;
use crate::mechanisms::Watch;
use crate::testing::seeded;
use halflit_noise::{NoiseSource, Probability};
use halflit_privacy::{Change, Event, Mu, NoiseMultiplier, Profile, SamplingRate};
use std::num::NonZeroU64;

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
            let weights = plan.run(&problem, &key(), &mut source, &mut ()).unwrap().weights;
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
    let weights = plan.run(&story.problem(), &key(), &mut seeded(3), &mut ()).unwrap().weights;
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
        let weights = plan.run(&problem, &key(), &mut seeded(2), &mut ()).unwrap().weights;
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

/// Rows and users, replace and zero-out, with public rows, with public columns, or with neither: sixteen declarations.
fn every_relation() -> impl Iterator<Item = Story> {
    let flags = (0..16u32).map(|bits| [1, 2, 4, 8].map(|bit| bits & bit != 0));
    flags.map(|[by_user, zero_out, public_rows, public_columns]| {
        let public = if public_columns { vec!["x", "u"] } else { vec![] };
        Story { by_user, zero_out, public_rows, public, ..Story::new(600) }
    })
}

/// The price of every way of sampling and clipping under every relation, computed here from the integers on the lattice: a unit moves a sum by its radius
/// if it is absent and by twice that if it is replaced.
#[test]
fn every_relation_has_its_price() {
    const STEPS: u64 = 12;
    let rate = Probability::new(1, 8).unwrap();
    let batches = NonZeroU64::new(STEPS).unwrap();
    let samplings = [Sampling::FullBatch, Sampling::Poisson(rate), Sampling::OnePass { batches }];
    for story in every_relation() {
        let problem = story.problem();
        let moved = if story.zero_out { 1.0 } else { 2.0 };
        let change = if story.zero_out { Change::ZeroOut } else { Change::Replace };
        for (sampling, clip) in samplings.iter().flat_map(|&sampling| {
            let clips = [Clip::Fixed { norm: 0.5 }, Clip::Quantile { level: 0.7 }];
            clips.map(|clip| (sampling, clip))
        }) {
            let params = Params {
                sampling: Some(sampling),
                clip: Some(clip),
                steps: Some(STEPS),
                centre: Some(Centre::Zero),
                start: Some(Start::Zero),
                descent: Some(DescentChoice::Momentum {
                    step_size: Some(0.1),
                    momentum: None,
                    average: Average::Last,
                }),
                ..Params::default()
            };
            let plan = Plan::new(&problem, &params, budget(1.0)).unwrap();
            let statement = plan.statement(&problem);
            statement.check().unwrap();
            statement.belongs_to(problem.relation()).unwrap();
            assert_eq!(statement.units, problem.private_units());
            // Moved distance over noise, of everything that one step releases together.
            let of = |level: &statement::Level| {
                moved * level.lattice_radius as f64 / (1u64 << level.lattice_bits) as f64
            };
            let [level] = &statement.levels[..] else { panic!("{:?}", statement.levels) };
            let step = of(level).hypot(statement.spread.as_ref().map_or(0.0, of));
            let event = statement.event().unwrap();
            let what = format!("{} {sampling:?} {clip:?}", problem.relation().sentence());
            match sampling {
                Sampling::FullBatch => {
                    assert!((step * 12f64.sqrt() / 0.236_704 - 1.0).abs() < 1e-4, "{what}")
                }
                Sampling::OnePass { .. } => assert!((step / 0.236_704 - 1.0).abs() < 1e-4, "{what}"),
                Sampling::Poisson(_) => {
                    let noise_multiplier = NoiseMultiplier::new(moved / step).unwrap();
                    let sampled = Event::PoissonGaussian {
                        rate: SamplingRate::at_least(1, 8).unwrap(),
                        noise_multiplier,
                        change,
                    };
                    let profile = Profile::of(&sampled.repeated(STEPS).unwrap()).unwrap();
                    let spent = profile.epsilon(Delta::new(1e-6).unwrap());
                    assert!((0.995..1.000_01).contains(&spent.upper), "{what}: {spent:?}");
                }
            }
            let spent = Profile::of(&event).unwrap().epsilon(Delta::new(1e-6).unwrap());
            assert!((0.995..=1.0).contains(&spent.upper), "{what}: {spent:?}");
        }
    }
}

/// What cannot go together is refused when planned, and in a certificate.
#[test]
fn parts_that_do_not_go_together_are_refused() {
    let problem = with_public_rows(400).problem();
    let rate = Probability::new(1, 4).unwrap();
    let newton = Params {
        start: Some(Start::PublicMinimizer),
        descent: Some(DescentChoice::Newton),
        ..Params::default()
    };
    let as_private = modes::all_rows_as_private();
    for (params, part) in [
        (Params { start: Some(Start::Zero), ..newton.clone() }, "Newton steps"),
        (Params { sampling: Some(Sampling::Poisson(rate)), ..newton.clone() }, "Newton steps"),
        (Params { descent: newton.descent, ..as_private }, "public rows treated as private"),
        (Params { known_rate: Some(rate), ..Params::default() }, "a rate of the known part"),
        (Params { clip: Some(Clip::ResidualScale), ..Params::default() }, "the residual scale"),
        (Params { clip: Some(Clip::Quantile { level: f64::NAN }), ..Params::default() }, "a clip quantile"),
        (
            Params { combiner: Some(Combiner::Constant { alpha: f64::NAN }), ..Params::default() },
            "a constant weight",
        ),
    ] {
        match Plan::new(&problem, &params, budget(1.0)) {
            Err(MechanismError::Part { part: found, .. }) => assert_eq!(found, part),
            other => panic!("{part}: {other:?}"),
        }
    }
    let honest = Plan::new(&problem, &newton, budget(1.0)).unwrap().statement(&problem);
    honest.check().unwrap();
    honest.belongs_to(problem.relation()).unwrap();
    let changed: [fn(&mut Statement); 8] = [
        |s| s.start = Start::Zero,
        |s| s.sampling_rate = Some(statement::Rate { numerator: 1, denominator: 2 }),
        |s| s.public = PublicPart::AsPrivate,
        |s| s.combiner = Combiner::Constant { alpha: 3.0 },
        |s| s.hidden_weight = 2.0,
        |s| s.clip_norms = vec![1.0; 64],
        |s| s.known_rate = Some(statement::Rate { numerator: 0, denominator: 2 }),
        |s| s.descent = Descent::Accelerated { damping: 1.0, strong_convexity: 0.5 },
    ];
    for change in changed {
        let mut statement = honest.clone();
        change(&mut statement);
        assert!(statement.check().is_err(), "{statement:?}");
    }
    // Without public rows there is no fit to start from.
    let mut nobody = honest;
    nobody.total_weight = nobody.units as f64;
    assert!(nobody.belongs_to(problem.relation()).is_err());
}

/// One pass of K private rows per step is the paper's: sigma^2 = 2 C^2 / (rho K^2) on the mean for rho-zCDP under replace.
#[test]
fn the_noise_of_one_pass_is_the_papers() {
    let problem = with_public_rows(4000).problem();
    let batches = NonZeroU64::new(20).unwrap();
    let constants = modes::Constants {
        sampling: Sampling::OnePass { batches },
        clip_norm: Some(0.7),
        ..modes::Constants::from_public_fit()
    };
    let plan = Plan::new(&problem, &constants.algorithm_1(0.5), budget(1.0)).unwrap();
    let statement = plan.statement(&problem);
    let Event::Parallel(steps) = statement.event().unwrap() else { panic!() };
    let Event::Gaussian { noise_multiplier, change } = &steps[0] else { panic!() };
    let rho = 0.5 * (change.sensitivity_per_radius() / noise_multiplier.get()).powi(2);
    let batch = problem.private_units() as f64 / 20.0;
    let on_mean = statement.levels[0].noise_std.unwrap() / batch;
    assert!((on_mean.powi(2) / (2.0 * 0.49 / (rho * batch * batch)) - 1.0).abs() < 1e-4);
}

/// Every step's clip norm is stated, and a quantile of all contributions is not far from what they are.
#[test]
fn measured_clip_norms_are_stated() {
    for (public, centre) in
        [(vec![], Centre::Zero), (vec!["x"], Centre::Midrange), (vec!["x"], Centre::Imputed)]
    {
        let problem = Story { public, epsilon: 20.0, ..Story::new(2000) }.problem();
        let params = Params {
            clip: Some(Clip::Quantile { level: 0.8 }),
            centre: Some(centre),
            steps: Some(40),
            ..Params::default()
        };
        let plan = Plan::new(&problem, &params, budget(20.0)).unwrap();
        let fitted = plan.run(&problem, &key(), &mut seeded(4), &mut ()).unwrap();
        assert_eq!(fitted.clip_norms.len(), 40);
        let (bound, last) =
            (problem.loss().derivative_bound(0.0) * problem.row_norm_bound(), fitted.clip_norms[39]);
        assert!(last > 0.05 * bound && last <= 1.5 * bound, "{centre:?}: {last} of {bound}");
        let mut statement = plan.statement(&problem);
        statement.clip_norms = fitted.clip_norms;
        statement.check().unwrap();
        statement.clip_norms[3] = f64::NAN;
        assert!(statement.check().is_err());
    }
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
        Params { combiner: Some(Combiner::Constant { alpha: 0.5 }), ..Params::default() },
        Params {
            public: Some(PublicPart::Mean { batch: NonZeroU64::new(5), rescaled: false }),
            ..Params::default()
        },
        modes::posterior(),
    ] {
        let refused = Plan::new(&problem, &params, budget(1.0)).unwrap_err();
        assert!(matches!(refused, MechanismError::NoPublicRows), "{params:?}: {refused}");
    }
    let refused = Plan::new(&with_public_rows(400).problem(), &modes::posterior(), budget(1.0)).unwrap_err();
    assert!(matches!(refused, MechanismError::Part { part: "the posterior descent", .. }), "{refused}");
}
