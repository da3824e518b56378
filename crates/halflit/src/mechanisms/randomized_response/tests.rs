use super::*;
use crate::testing::{Story, seeded};
use halflit_privacy::{Delta, Profile};

fn budget(epsilon: f64) -> Budget {
    Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-6).unwrap() }
}

fn story(loss: &'static str) -> Story {
    Story { public: vec!["x", "u", "c"], ..Story::new(60).loss(loss) }
}

#[test]
fn the_price_is_the_epsilon_of_the_integers_and_within_the_budget() {
    for loss in ["logistic", "softmax", "squared", "poisson"] {
        for epsilon in [0.01, 0.25, 1.0, 8.0] {
            let problem = story(loss).problem();
            let plan = Plan::new(&problem, budget(epsilon)).unwrap();
            let statement = plan.statement(&problem);
            statement.check().unwrap();
            let price = Profile::of(&statement.event().unwrap()).unwrap().epsilon(Delta::new(0.0).unwrap());
            assert!(price.upper <= epsilon && price.lower > epsilon - 1e-6, "{loss} {epsilon} {price:?}");
            // The largest ratio of the probabilities of one report.
            let other = plan.falsehood() / (plan.values - 1) as f64;
            assert!(((1.0 - plan.falsehood()) / other).ln() <= price.upper);
        }
    }
}

/// Hypothesis: a report has its stated law, and a debiased report the mean t(y). n = 60000 reports per label; the mean of a variable with standard deviation s lies
/// within 4.9 s / sqrt(n) with probability 1 - 1e-6. Power: a chance of falsehood 3 % off is rejected.
#[test]
fn reports_have_their_law_and_no_bias_is_left() {
    const REPORTS: usize = 60_000;
    for (loss, labels) in
        [("softmax", vec![0.0, 2.0]), ("squared", vec![-1.0, 0.3, 1.0]), ("logistic", vec![0.0, 1.0])]
    {
        let problem = story(loss).problem();
        let plan = Plan::new(&problem, budget(1.0)).unwrap();
        let mut coins = seeded(9).stream().unwrap();
        for label in labels {
            let reports: Vec<u64> = (0..REPORTS).map(|_| plan.report(label, &mut coins).unwrap()).collect();
            for output in 0..problem.loss().outputs() {
                let values: Vec<f64> = reports.iter().map(|&report| plan.debiased(report, output)).collect();
                let mean = values.iter().sum::<f64>() / REPORTS as f64;
                let spread = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / REPORTS as f64).sqrt();
                let expected = plan.labels.statistic(label, output);
                let critical = 4.9 * spread / (REPORTS as f64).sqrt();
                assert!((mean - expected).abs() < critical, "{loss} {label} {mean}");
            }
            if loss == "logistic" {
                let share =
                    reports.iter().filter(|&&report| report as f64 != label).count() as f64 / REPORTS as f64;
                let r = plan.falsehood();
                let critical = 4.9 * (r * (1.0 - r) / REPORTS as f64).sqrt();
                assert!((share - r).abs() < critical, "{share} {r}");
                assert!((share - 1.05 * r).abs() > critical, "{share} {r}");
            }
        }
    }
}

/// Numbers are rounded to the ends of their interval, which no epsilon makes good for; two classes are not.
#[test]
fn predictions_know_what_rounding_costs() {
    let of = |loss: &'static str, epsilon: f64| {
        let plan = Plan::new(&story(loss).problem(), budget(epsilon)).unwrap();
        plan.predicted_excess
    };
    for loss in ["squared", "poisson"] {
        assert!(of(loss, 40.0) > 0.9 * of(loss, 12.0) && of(loss, 12.0) < of(loss, 1.0), "{loss}");
    }
    assert!(of("logistic", 20.0) < 1e-3 * of("logistic", 1.0));
}

/// A report is private even where its epsilon at a generous delta is 0: its certificate says what was spent, and no delta.
#[test]
fn a_release_that_reads_labels_is_never_certified_as_free() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = crate::Ledger::open_or_create(&folder.path().join("ledger")).unwrap();
    for epsilon in [0.1, 1e-7] {
        let budget = Some(halflit_table::Budget { epsilon, delta: 1e-7 });
        let request = crate::Request { budget, mechanism: Some(NAME.to_owned()), ..Default::default() };
        let plan = crate::Plans::new(story("logistic").problem(), &request).unwrap().best().unwrap();
        let output = ledger.charge(plan).unwrap().run(&mut NoiseSource::from_os().unwrap(), &mut ()).unwrap();
        let certificate = output.release(&[]).unwrap().certificate;
        assert_eq!((certificate.guarantee.epsilon, certificate.guarantee.delta), (epsilon, 0.0));
        certificate.verify().unwrap();
    }
}

#[test]
fn users_zero_out_and_hidden_features_are_refused() {
    for refused in
        [Story { by_user: true, ..story("logistic") }, Story { zero_out: true, ..story("logistic") }]
    {
        let problem = refused.problem();
        assert!(matches!(Plan::new(&problem, budget(1.0)), Err(MechanismError::RowsAndReplaceOnly)));
        assert!(!fits(&problem));
    }
    let problem = Story { public: vec!["x"], ..story("logistic") }.problem();
    assert!(matches!(Plan::new(&problem, budget(1.0)), Err(MechanismError::NeedsHiddenLabelOnly)));
}

#[test]
fn the_smallest_budgets_are_kept_or_refused() {
    for loss in ["logistic", "softmax"] {
        for epsilon in [1e-3, 1e-6, 1e-8, 1e-10, 1e-14] {
            let problem = story(loss).problem();
            let Ok(plan) = Plan::new(&problem, budget(epsilon)) else { continue };
            let statement = plan.statement(&problem);
            statement.check().unwrap();
            let Event::PureDp { epsilon: priced } = statement.event().unwrap() else { panic!() };
            let falsehood = statement.false_numerator as f64 / statement.false_denominator as f64;
            let truth = ((1.0 - falsehood) * (statement.values - 1) as f64 / falsehood).ln().abs();
            assert!(priced.get() >= truth && plan.contrast() > 0.0, "{loss} {epsilon}: {priced:?} {truth}");
            assert!(priced.get() <= epsilon, "{loss} {epsilon}: {priced:?}");
        }
    }
}

#[test]
fn a_tampered_statement_is_inconsistent() {
    let problem = story("softmax").problem();
    let honest = Plan::new(&problem, budget(1.0)).unwrap().statement(&problem);
    let changed: [fn(&mut Statement); 4] = [
        |s| s.values = 1,
        |s| s.false_numerator = 0,
        |s| s.false_numerator = s.false_denominator,
        // Never the truth is as telling as always the truth.
        |s| (s.values, s.false_numerator) = (2, s.false_denominator - 1),
    ];
    for change in changed {
        let mut statement = honest.clone();
        change(&mut statement);
        assert!(statement.check().is_err(), "{statement:?}");
    }
}
