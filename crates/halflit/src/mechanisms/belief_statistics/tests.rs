use super::*;
use crate::mechanisms::public_rows;
use crate::testing::{Numbers, Story, seeded};
use halflit_convex::Rows;
use halflit_privacy::{Delta, Epsilon, Profile};

fn budget(epsilon: f64) -> Budget {
    Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-6).unwrap() }
}

#[expect(clippy::disallowed_methods, reason = "tests look at the values themselves")]
fn key() -> Unsealed {
    Unsealed::charge_was_recorded()
}

/// Category `c` is sensitive and says something about the label; `x`, `u` and the label are public.
fn hidden_category(rows: usize, loss: &'static str) -> Story {
    let mut story = Story { public: vec!["x", "u", "y"], ..Story::new(rows).loss(loss) };
    if loss == "logistic" {
        let mut numbers = Numbers(23);
        for row in 0..rows {
            let effect = match story.cells.c[row].as_str() {
                "a" => 2.0,
                "b" => -2.0,
                _ => 0.0,
            };
            let score = 0.7 * story.cells.x[row] + effect;
            let is_positive = numbers.next() < 1.0 / (1.0 + (-score).exp());
            story.cells.y[row] = if is_positive { "yes" } else { "no" }.to_owned();
        }
    }
    story
}

/// Every combination of unit, change and loss; with the label public, and sensitive beside the category.
fn stories(rows: usize) -> Vec<Story> {
    let mut stories = Vec::new();
    for loss in ["logistic", "softmax", "squared", "smoothed-hinge"] {
        for by_user in [false, true] {
            for zero_out in [false, true] {
                let story = Story { by_user, zero_out, public_rows: by_user, ..hidden_category(rows, loss) };
                if loss != "squared" {
                    stories.push(Story { public: vec!["x", "u"], ..story.clone() });
                }
                stories.push(story);
            }
        }
    }
    stories
}

fn planned(story: &Story) -> (Problem, Plan) {
    let problem = story.problem();
    let plan = Plan::new(&problem, budget(story.epsilon)).unwrap();
    (problem, plan)
}

/// Every private row's value, and the range of rows of every unit.
fn private(problem: &Problem, plan: &Plan) -> (Vec<f64>, Vec<std::ops::Range<usize>>) {
    let values = as_labels(&plan.domain.private_positions(problem, &key()).unwrap());
    let units = match problem.encoded().private_units().open(&key()) {
        Units::Rows(rows) => (0..*rows).map(|row| row..row + 1).collect(),
        Units::Users { offsets } => offsets.windows(2).map(|user| user[0]..user[1]).collect(),
    };
    (values, units)
}

fn mean_loss(problem: &Problem, weights: &[f64]) -> f64 {
    let (key, encoded) = (key(), problem.encoded());
    let (rows, labels) = (encoded.private_rows().open(&key), encoded.private_labels().open(&key));
    let loss = |row: usize| problem.loss().value(&crate::problem::scores(rows, row, weights), labels[row]);
    (0..rows.len()).map(loss).sum::<f64>() / rows.len() as f64
}

#[test]
fn neighbours_differ_by_at_most_the_priced_sensitivity_and_some_by_that_much() {
    for story in stories(60) {
        let (problem, plan) = planned(&story);
        let (values, units) = private(&problem, &plan);
        let sensitivity = plan.lattice.sensitivity as f64;
        let k = plan.domain.len();
        let mut numbers = Numbers(5);
        let mut pick = || (numbers.next() * k as f64).floor();
        let mut farthest = 0.0f64;
        for unit in &units {
            let (mut one, mut other) = (values.clone(), values.clone());
            for attempt in 0..6 {
                for row in unit.clone() {
                    // First the same two values in all rows of the unit, then any.
                    (one[row], other[row]) = if attempt == 0 { (0.0, 1.0) } else { (pick(), pick()) };
                    if story.zero_out {
                        // A null unit: its hidden contribution is zero, as that of no value at all is.
                        other[row] = f64::NAN;
                    }
                }
                let (one, other) = (plan.hidden_sum(&one), plan.hidden_sum(&other));
                let square: f64 = one.iter().zip(&other).map(|(a, b)| (a.abs_diff(*b) as f64).powi(2)).sum();
                farthest = farthest.max(square.sqrt());
            }
        }
        assert!(farthest <= sensitivity, "{} {farthest} {sensitivity}", story.loss);
        // Rows attain it; users do up to the directions of their rows.
        let attained = if story.by_user { 0.5 } else { 1.0 - 1e-4 };
        assert!(farthest >= attained * sensitivity, "{} {farthest} {sensitivity}", story.loss);
    }
}

#[test]
fn the_price_is_within_the_budget_and_close_to_it() {
    for story in stories(50) {
        let (problem, plan) = planned(&story);
        let statement = plan.statement(&problem);
        statement.check().unwrap();
        let profile = Profile::of(&statement.event().unwrap()).unwrap();
        let epsilon = profile.epsilon(Delta::new(1e-6).unwrap());
        assert!(epsilon.upper <= 1.0 && epsilon.lower > 0.999, "{} {epsilon:?}", story.loss);
    }
}

/// Neighbours make the same plan, to the last bit of every public number: nothing in it comes from a sensitive cell.
#[test]
fn plans_do_not_see_sensitive_values() {
    let story = hidden_category(80, "logistic");
    let mut other = story.clone();
    other.cells.c.iter_mut().for_each(|c| *c = "d".to_owned());
    let ((problem, one), (other_problem, other)) = (planned(&story), planned(&other));
    assert_eq!(one.statement(&problem), other.statement(&other_problem));
    assert_eq!(one.features.private, other.features.private);
    assert_eq!(one.predicted_excess.to_bits(), other.predicted_excess.to_bits());
}

/// Nor does what happens after the noise: the same release gives the same model on a table with other sensitive values.
#[test]
fn the_fit_does_not_see_sensitive_values() {
    let story = hidden_category(300, "logistic");
    let mut other = story.clone();
    other.cells.c.reverse();
    let (problem, plan) = planned(&story);
    let (values, _) = private(&problem, &plan);
    let release = plan.hidden_sum(&values);
    let fitted = |problem: &Problem| plan.fitted(problem, &release).unwrap().weights;
    assert_eq!(fitted(&problem), fitted(&other.problem()));
}

/// Hypothesis: each coordinate of the released sum has noise of standard deviation 2^k. Statistic: the mean square of n = 300 * 15 standardised differences; a chi-square
/// with n degrees of freedom leaves 1 +- 0.112 with probability below 1e-6 (5.3 sqrt(2/n)). Power: a scale 10 % too small is rejected.
#[test]
fn the_released_noise_has_the_planned_scale() {
    let (problem, plan) = planned(&hidden_category(100, "logistic"));
    let (values, _) = private(&problem, &plan);
    let exact = plan.hidden_sum(&values);
    let scale = plan.lattice.sums.bits().scale();
    let mean_square = |assumed: f64| {
        let (mut sum, mut count) = (0.0, 0.0);
        for run in 0..300u32 {
            let mut seed = [2; 32];
            seed[..4].copy_from_slice(&run.to_le_bytes());
            let mut noisy = exact.clone();
            let mut source = NoiseSource::seeded_for_tests(seed);
            plan.lattice.sums.add_noise(&mut source.stream().unwrap(), &mut noisy);
            for (noisy, exact) in noisy.iter().zip(&exact) {
                sum += ((noisy - exact) as f64 / assumed).powi(2);
                count += 1.0;
            }
        }
        assert_eq!(count, 4500.0);
        sum / count
    };
    assert!((mean_square(scale) - 1.0).abs() < 0.112);
    assert!((mean_square(0.9 * scale) - 1.0).abs() > 0.112);
}

/// With a large budget the model is nearly the minimizer; with hardly any it is the model of the public columns.
#[test]
fn the_model_lies_between_the_public_columns_and_the_minimizer() {
    let story = hidden_category(4000, "logistic");
    let problem = story.problem();
    let (key, encoded) = (key(), problem.encoded());
    let fit = |rows: &Rows| {
        let labels = encoded.private_labels().open(&key);
        public_rows::fit(problem.loss(), rows, labels, problem.row_norm_bound(), 1e-5, None).unwrap()
    };
    let view = encoded.public_view().unwrap();
    let PublicFeatures::Some(known) = view.features else { panic!() };
    let (dropped, best) = (fit(&known), fit(encoded.private_rows().open(&key)));
    let (dropped, best) = (mean_loss(&problem, &dropped), mean_loss(&problem, &best));
    assert!(dropped > best + 0.1, "the category matters: {dropped} {best}");
    let excess = |epsilon: f64, seed: u8| {
        let plan = Plan::new(&problem, budget(epsilon)).unwrap();
        let fitted = plan.run(&problem, &super::tests::key(), &mut seeded(seed), &mut ()).unwrap();
        mean_loss(&problem, &fitted.weights) - best
    };
    assert!(excess(20.0, 1) < 0.01 * (dropped - best), "{}", excess(20.0, 1));
    for seed in 0..5 {
        let little = excess(1e-4, seed) / (dropped - best);
        assert!(little < 1.1, "{little} of what dropping the column costs");
        let some = excess(1.0, seed) / (dropped - best);
        assert!(some < 0.1, "{some}");
    }
}

/// The value of a public row is known: it enters the sums exactly, whatever the noise, and the model.
#[test]
fn public_rows_count_with_their_own_values() {
    let story = Story { public_rows: true, epsilon: 20.0, ..hidden_category(1000, "logistic") };
    let mut other = story.clone();
    for (c, consent) in other.cells.c.iter_mut().zip(&story.cells.consent) {
        if consent == "yes" {
            *c = "a".to_owned();
        }
    }
    let weight_of_a = |story: &Story| {
        let (problem, plan) = planned(story);
        let fitted = plan.run(&problem, &key(), &mut seeded(3), &mut ()).unwrap();
        let names = problem.encoding().coordinate_names();
        let weight = |name: &str| fitted.weights[names.iter().position(|known| known == name).unwrap()];
        weight("c=a") - weight("c=d")
    };
    let (honest, mixed) = (weight_of_a(&story), weight_of_a(&other));
    assert!(
        honest > 1.5 && mixed < honest - 0.2,
        "a tenth of the rows now say a whatever they are: {honest} {mixed}"
    );
}

#[test]
fn a_declared_ball_is_kept() {
    let text = hidden_category(500, "logistic")
        .declaration()
        .replace("[columns.user]", "radius = 0.7\n[columns.user]");
    let story = hidden_category(500, "logistic");
    let declaration = halflit_table::Declaration::parse(&text, "privacy.toml").unwrap();
    let declared = halflit_table::Declared::bind(declaration, story.cells.table_for("logistic")).unwrap();
    let problem = Problem::pose(declared, halflit_table::OutOfDomain::Refuse).unwrap();
    let plan = Plan::new(&problem, budget(5.0)).unwrap();
    let weights = plan.run(&problem, &key(), &mut seeded(9), &mut ()).unwrap().weights;
    let norm = weights.iter().map(|w| w * w).sum::<f64>().sqrt();
    assert!(norm <= 0.7 && norm > 0.69, "{norm}");
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let refused = |story: Story| Plan::new(&story.problem(), budget(1.0)).unwrap_err();
    let kinked = refused(Story { public: vec!["x", "u", "y"], ..Story::new(50).loss("hinge") });
    assert!(kinked.to_string().contains("smoothed-hinge"), "{kinked}");
    let number = refused(Story { public: vec!["x", "y"], ..Story::new(50) });
    assert!(matches!(number, MechanismError::SensitiveNumber { .. }));
    assert!(matches!(refused(Story::new(50)), MechanismError::NoPublicFeature));
}

#[test]
fn a_tampered_statement_is_inconsistent() {
    let (problem, plan) = planned(&hidden_category(60, "logistic"));
    let honest = plan.statement(&problem);
    let changed: [fn(&mut Statement); 7] = [
        |s| (s.units, s.total_weight) = (1 << 50, (1u64 << 50) as f64),
        |s| s.noise.lattice_sensitivity /= 2,
        |s| s.noise.noise_std *= 1.001,
        |s| s.values = 1,
        |s| s.released += 1,
        |s| s.total_weight = 1.0,
        |s| s.total_weight = f64::NAN,
    ];
    for change in changed {
        let mut statement = honest.clone();
        change(&mut statement);
        assert!(statement.check().is_err(), "{statement:?}");
    }
}
