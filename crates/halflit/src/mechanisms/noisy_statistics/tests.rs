use super::*;
use crate::testing::{Numbers, Story, seeded};
use halflit_privacy::{Delta, Epsilon, Profile};
use halflit_table::Units;

const CANONICAL: [&str; 4] = ["logistic", "softmax", "squared", "poisson"];

fn budget(epsilon: f64) -> Budget {
    Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-6).unwrap() }
}

#[expect(clippy::disallowed_methods, reason = "tests look at the integer sums themselves")]
fn key() -> Unsealed {
    Unsealed::charge_was_recorded()
}

fn hidden_label(rows: usize, loss: &'static str) -> Story {
    Story { public: vec!["x", "u", "c"], ..Story::new(rows).loss(loss) }
}

/// Every combination that the mechanism supports.
fn stories(rows: usize) -> Vec<Story> {
    let mut stories = Vec::new();
    for loss in CANONICAL {
        for by_user in [false, true] {
            for zero_out in [false, true] {
                let public_rows = by_user;
                stories.push(Story { by_user, zero_out, public_rows, ..hidden_label(rows, loss) });
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

/// Private rows, their labels, and the range of rows of every unit.
fn private(problem: &Problem) -> (&Rows, Vec<f64>, Vec<std::ops::Range<usize>>) {
    let key = key();
    let rows = problem.encoded().private_rows().open(&key);
    let labels = problem.encoded().private_labels().open(&key).clone();
    let units = match problem.encoded().private_units().open(&key) {
        halflit_table::Units::Rows(rows) => (0..*rows).map(|row| row..row + 1).collect(),
        halflit_table::Units::Users { offsets } => offsets.windows(2).map(|user| user[0]..user[1]).collect(),
    };
    (rows, labels, units)
}

fn distance(a: &[i64], b: &[i64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a.abs_diff(*b) as f64).powi(2)).sum::<f64>().sqrt()
}

/// The extreme labels of a loss, and one that is no label at all.
fn extremes(story: &Story) -> Vec<f64> {
    match story.loss {
        "softmax" => vec![0.0, 1.0, 2.0],
        "squared" => vec![-1.0, 1.0, f64::INFINITY],
        "poisson" => vec![0.0, 6.0, 1e300],
        _ => vec![0.0, 1.0],
    }
}

#[test]
fn neighbours_differ_by_at_most_the_priced_sensitivity_and_some_by_that_much() {
    for story in stories(60) {
        let (problem, plan) = planned(&story);
        let (rows, labels, units) = private(&problem);
        let outputs = problem.loss().outputs();
        let sum = |labels: &[f64]| plan.lattice.hidden_sum(plan.summed(rows), labels, outputs);
        let sensitivity = plan.lattice.sensitivity as f64;
        let extremes = extremes(&story);
        let mut numbers = Numbers(5);
        let mut pick = || extremes[(numbers.next() * extremes.len() as f64) as usize];
        let mut farthest = 0.0f64;
        for unit in &units {
            let mut one = labels.clone();
            let mut other = labels.clone();
            for attempt in 0..6 {
                for row in unit.clone() {
                    // First the same extreme labels in all rows of the unit, then any.
                    (one[row], other[row]) =
                        if attempt == 0 { (extremes[0], extremes[1]) } else { (pick(), pick()) };
                    if story.zero_out {
                        // A null unit: its hidden contribution is zero, as a missing label's is.
                        other[row] = f64::NAN;
                    }
                }
                farthest = farthest.max(distance(&sum(&one), &sum(&other)));
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

/// Golden values, no shape: row of largest norm, label diameter, and mu(1, 1e-6) = 0.236704 (checked with scipy) give the noise.
#[test]
fn round_noise_follows_from_the_longest_row() {
    for (loss, replace, zero_out) in [
        ("logistic", 1.0, 0.5),
        ("softmax", 2f64.sqrt(), (2.0f64 / 3.0).sqrt()),
        ("squared", 2.0, 1.0),
        ("poisson", 6.0, 3.0),
    ] {
        for (is_zero_out, diameter) in [(false, replace), (true, zero_out)] {
            let story = Story { zero_out: is_zero_out, ..hidden_label(100, loss) };
            let (problem, labels) = (story.problem(), label_steps(story.problem().loss()).unwrap());
            let (rows, _, units) = private(&problem);
            let units = Units::Rows(units.len());
            let multiplier = gaussian_std_per_sensitivity(budget(story.epsilon)).unwrap();
            let round = SummedRows { rows, shape: None };
            let lattice = LabelLattice::plan(&problem, round, &units, labels, multiplier).unwrap();
            let longest = (rows.max_squared_norm() as f64).sqrt() * crate::problem::FEATURE_UNIT;
            let expected = longest * diameter / 0.236_704;
            let found = lattice.noise_std();
            assert!((found / expected - 1.0).abs() < 1e-4, "{loss}: {found} {expected}");
        }
    }
}

#[test]
fn without_noise_the_statistic_is_the_weighted_sum() {
    for story in stories(80) {
        let (problem, plan) = planned(&story);
        let (rows, labels, units) = private(&problem);
        let outputs = problem.loss().outputs();
        let hidden = plan.lattice.hidden_sum(plan.summed(rows), &labels, outputs);
        let statistics = plan.statistics(&problem, &hidden).unwrap();
        let mut expected = vec![0.0; problem.dimension()];
        let mut add = |row: &[i16], label: f64, weight: f64| {
            for (output, expected) in expected.chunks_mut(row.len()).enumerate() {
                let t = if outputs > 1 { f64::from(u8::from(label == output as f64)) } else { label };
                for (expected, &q) in expected.iter_mut().zip(row) {
                    *expected += weight * t * f64::from(q) / 16384.0;
                }
            }
        };
        for unit in units {
            let weight = 1.0 / unit.len() as f64;
            for row in unit {
                add(&rows.dense_row(row).unwrap(), labels[row], weight);
            }
        }
        let (public, public_labels) = problem.public_data();
        for (row, &label) in public_labels.iter().enumerate() {
            add(&public.dense_row(row).unwrap(), label, problem.public_row_weight());
        }
        for (found, expected) in statistics.sums().concat().iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-2, "{}: {found} {expected}", story.loss);
        }
    }
}

/// Hypothesis: the released noise has the planned standard deviation. Statistic: mean squared standardised deviation of S~ over n = 300 * 6 = 1800
/// coordinates, chi-square with n degrees of freedom; alpha = 1e-6 two-sided (Wilson-Hilferty): [0.845, 1.173].
#[test]
fn the_released_noise_has_the_planned_scale() {
    let (problem, plan) = planned(&hidden_label(200, "logistic"));
    let (rows, labels, _) = private(&problem);
    let exact = plan.statistics(&problem, &plan.lattice.hidden_sum(plan.summed(rows), &labels, 1)).unwrap();
    let mean_square = |assumed_std: f64| {
        let (mut sum, mut count) = (0.0, 0.0);
        for run in 0..300u32 {
            let mut seed = [0; 32];
            seed[..4].copy_from_slice(&run.to_le_bytes());
            let mut release = plan.lattice.hidden_sum(plan.summed(rows), &labels, 1);
            let mut source = NoiseSource::seeded_for_tests(seed);
            plan.lattice.sums.add_noise(&mut source.stream().unwrap(), &mut release);
            let noisy = plan.statistics(&problem, &release).unwrap();
            for (noisy, exact) in noisy.sums.iter().zip(&exact.sums) {
                sum += ((noisy - exact) / assumed_std).powi(2);
                count += 1.0;
            }
        }
        sum / count
    };
    let planned = plan.statement(&problem).noise.noise_std;
    let inside = 0.845..=1.173;
    assert!(inside.contains(&mean_square(planned)), "{}", mean_square(planned));
    // Power: noise calibrated for zero-out (half as large), or wrong by a tenth, is rejected.
    for wrong in [0.5, 0.9, 1.1] {
        assert!(!inside.contains(&mean_square(planned * wrong)), "{wrong}");
    }
}

fn mean_loss(problem: &Problem, weights: &[f64]) -> f64 {
    let (rows, labels, units) = private(problem);
    let width = rows.width();
    let mut total = 0.0;
    for unit in &units {
        for row in unit.clone() {
            let x = rows.dense_row(row).unwrap();
            let score = |w: &[f64]| w.iter().zip(&x).map(|(w, &q)| w * f64::from(q) / 16384.0).sum();
            let scores: Vec<f64> = weights.chunks(width).map(score).collect();
            total += problem.loss().value(&scores, labels[row]) / unit.len() as f64;
        }
    }
    total / units.len() as f64
}

#[test]
fn a_generous_budget_finds_the_minimizer() {
    for loss in CANONICAL {
        for by_user in [false, true] {
            let story = Story { by_user, epsilon: 400.0, ..hidden_label(3000, loss) };
            let (problem, plan) = planned(&story);
            let found = plan.run(&problem, &key(), &mut seeded(1), &mut ()).unwrap().weights;
            let (rows, labels, _) = private(&problem);
            let best = crate::mechanisms::public_rows::fit(
                problem.loss(),
                rows,
                &labels,
                problem.row_norm_bound(),
                1e-4,
                None,
            )
            .unwrap();
            let start = mean_loss(&problem, &vec![0.0; problem.dimension()]);
            let (found, best) = (mean_loss(&problem, &found), mean_loss(&problem, &best));
            assert!(
                found - best < 0.01 * (start - best),
                "{loss}: found {found}, best {best}, start {start}"
            );
        }
    }
}

/// The derivative dw/dS~' against central differences: most likely weights, a penalised fit to the noisy and to the denoised sum, and on the declared ball.
#[test]
fn the_response_is_the_derivative_of_the_fit() {
    for loss in CANONICAL {
        let denoised = |weight_size: f64| Sums::Denoised { weight_size };
        for (sums, regularization, radius) in [
            (Sums::AsReleased, Some(2e-3), None),
            (denoised(0.5), None, None),
            (denoised(0.5), Some(2e-3), None),
            (denoised(1.0), Some(2e-3), Some(0.4)),
        ] {
            let (problem, plan) = planned(&Story { epsilon: 20.0, ..hidden_label(400, loss) });
            let (rows, labels, _) = private(&problem);
            let outputs = problem.loss().outputs();
            let statistics = plan
                .statistics(&problem, &plan.lattice.hidden_sum(plan.summed(rows), &labels, outputs))
                .unwrap();
            let fit = |statistics: &LabelStatistics| {
                let mut fitter = statistics.fitter(&problem).unwrap();
                fitter.design.radius = radius;
                fitter.fit(Penalties { sums, regularization }).unwrap()
            };
            let size = problem.dimension();
            let jacobian = fit(&statistics).response.unwrap().jacobian;
            for index in [0, size / 2, size - 1] {
                // A direction that noise can take: for softmax without the part that classes share.
                let mut direction = vec![0.0; size];
                direction[index] = 1.0;
                remove_common_part(&mut direction, outputs);
                let moved = |step: f64| {
                    let mut statistics = statistics.clone();
                    statistics.sums.iter_mut().zip(&direction).for_each(|(s, d)| *s += step * d);
                    fit(&statistics).weights
                };
                // Small against the noise, large against the solver's tolerance.
                let step = 0.1 * statistics.noise_std;
                let (ahead, behind) = (moved(step), moved(-step));
                let predicted = matrix::apply(&jacobian, &direction);
                let scale = predicted.iter().fold(0.0f64, |most, p| most.max(p.abs()));
                for ((ahead, behind), predicted) in ahead.iter().zip(&behind).zip(&predicted) {
                    let found = (ahead - behind) / (2.0 * step);
                    assert!(
                        (found - predicted).abs() < 0.03 * scale,
                        "{loss} {sums} {regularization:?} {radius:?} {found} {predicted}"
                    );
                }
            }
        }
    }
}

/// Hypothesis: the mean of estimate minus truth over n = 400 releases is zero. Statistic: mean / (sd / sqrt(n)); |z| > 4.9 has probability
/// below 1e-6. Power: without Stein's term the estimate is rejected.
#[test]
fn steins_estimate_is_unbiased_and_the_naive_one_is_not() {
    let (problem, plan) = planned(&Story { epsilon: 1.0, ..hidden_label(400, "logistic") });
    let (rows, labels, _) = private(&problem);
    let (mut honest, mut naive) = (Vec::new(), Vec::new());
    for run in 0..400u32 {
        let mut seed = [1; 32];
        seed[..4].copy_from_slice(&run.to_le_bytes());
        let mut release = plan.lattice.hidden_sum(plan.summed(rows), &labels, 1);
        let mut source = NoiseSource::seeded_for_tests(seed);
        plan.lattice.sums.add_noise(&mut source.stream().unwrap(), &mut release);
        let statistics = plan.statistics(&problem, &release).unwrap();
        let fitter = statistics.fitter(&problem).unwrap();
        let fit = fitter
            .fit(Penalties { sums: Sums::Denoised { weight_size: 0.5 }, regularization: None })
            .unwrap();
        let truth = mean_loss(&problem, &fit.weights);
        let divergence = fitter.divergence(&fit.response.unwrap().jacobian);
        let correction = plan.lattice.noise_std().powi(2) * divergence / problem.total_weight();
        honest.push(fit.estimated_loss.unwrap() - truth);
        naive.push(fit.estimated_loss.unwrap() - correction - truth);
    }
    let z = |differences: &[f64]| {
        let n = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / n;
        let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
        mean / (variance / n).sqrt()
    };
    assert!(z(&honest).abs() < 4.9, "{}", z(&honest));
    assert!(z(&naive) < -4.9, "{}", z(&naive));
}

#[test]
fn soft_labels_lie_between_the_labels_and_add_up_to_the_smoothed_statistic() {
    for loss in CANONICAL {
        let (problem, plan) = planned(&Story { epsilon: 0.2, ..hidden_label(150, loss) });
        let fitted = plan.run(&problem, &key(), &mut seeded(4), &mut ()).unwrap();
        let statistics = fitted.statistics.unwrap();
        let soft = statistics.fitter(&problem).unwrap().soft_labels(1.0).unwrap();
        let (low, high) = match loss {
            "squared" => (-1.0, 1.0),
            "poisson" => (0.0, 6.0),
            _ => (0.0, 1.0),
        };
        for row in &soft {
            assert!(row.iter().all(|m| (low..=high).contains(m)), "{loss}: {row:?}");
            let total: f64 = row.iter().sum();
            assert!(row.len() == 1 || (total - 1.0).abs() < 1e-9, "{loss}: {row:?}");
        }
        // For classes nothing is cut off: sum_i x_i m_i^T is the denoised statistic.
        if matches!(loss, "logistic" | "softmax") {
            let fitter = statistics.fitter(&problem).unwrap();
            let (rows, width) = (&fitter.design.rows, fitter.design.rows.width());
            let mut sums = vec![0.0; fitter.design.size()];
            for (row, soft) in soft.iter().enumerate() {
                let x = rows.dense_row(row).unwrap();
                for (output, m) in soft.iter().enumerate() {
                    for (column, &q) in x.iter().enumerate() {
                        sums[output * width + column] += m * f64::from(q) / 16384.0;
                    }
                }
            }
            let denoised = fitter.denoised(1.0, None).unwrap().statistic;
            for (sum, expected) in sums.iter().zip(&denoised) {
                assert!((sum - expected).abs() < 1e-6 * rows.len() as f64, "{loss}: {sum} {expected}");
            }
        }
    }
}

/// Noise that carries the sum far outside: the projection is a sum of labels, no label sum is nearer, and it is nearer to the truth than the release was.
#[test]
fn a_projected_sum_is_the_nearest_one_that_labels_have() {
    for story in stories(120) {
        let story = Story { epsilon: 0.05, ..story };
        let (problem, plan) = planned(&story);
        let (rows, labels, _) = private(&problem);
        let outputs = problem.loss().outputs();
        let mut release = plan.lattice.hidden_sum(plan.summed(rows), &labels, outputs);
        let truth = plan.statistics(&problem, &release).unwrap();
        plan.lattice.sums.add_noise(&mut seeded(8).stream().unwrap(), &mut release);
        let statistics = plan.statistics(&problem, &release).unwrap();
        let fitter = statistics.fitter(&problem).unwrap();
        let (design, projection) = (&fitter.design, fitter.projection().unwrap());

        let middle = design.labels.middle();
        let public = design.rows.len() - labels.len();
        let sum_of = |labels: &[Vec<f64>]| -> Vec<f64> {
            let of_output = |output: usize| design.weighted_sum(|row| labels[row][output]);
            posterior::shaped(
                statistics.shape.as_ref(),
                &(0..outputs).flat_map(of_output).collect::<Vec<_>>(),
            )
        };
        for row in &projection.soft_labels {
            let is_label = match design.labels {
                lattice::LabelSteps::Interval { low, high } => (low..=high).contains(&row[0]),
                lattice::LabelSteps::Classes { .. } => {
                    row.iter().all(|&m| m >= 0.0) && (row.iter().sum::<f64>() - 1.0).abs() < 1e-12
                }
            };
            assert!(is_label, "{} {row:?}", story.loss);
        }
        let projected = posterior::shaped(statistics.shape.as_ref(), &projection.sums.concat());
        assert!(far(&projected, &sum_of(&projection.soft_labels)) < 1e-9 * design.total_weight);

        // For the exact projection P no sum c has <S~' - P, c - P> > 0; one at a distance of at most delta has at most delta (|S~' - P| + |c - P|).
        let slack = projection.distance * statistics.noise_std;
        assert!(projection.distance <= 0.03 * (problem.dimension() as f64).sqrt(), "{}", projection.distance);
        let outward: Vec<f64> = statistics.sums.iter().zip(&projected).map(|(s, p)| s - p).collect();
        let along = posterior::shaped_back(statistics.shape.as_ref(), &outward);
        let mut corner = projection.soft_labels.clone();
        for (row, corner) in corner.iter_mut().enumerate().take(labels.len()) {
            let scores = crate::problem::scores(&design.rows, row, &along);
            let value = |label: f64| (0..outputs).map(move |output| design.labels.statistic(label, output));
            let score = |label: f64| value(label).zip(&scores).map(|(t, score)| t * score).sum::<f64>();
            let best = extremes(&story)
                .into_iter()
                .filter(|label| label.abs() < 1e10)
                .max_by(|a, b| score(*a).total_cmp(&score(*b)));
            *corner = value(best.unwrap()).collect();
        }
        let corner: Vec<f64> = sum_of(&corner).iter().zip(&projected).map(|(c, p)| c - p).collect();
        let length = matrix::inner(&outward, &outward).sqrt();
        assert!(length > statistics.noise_std, "the noise carried the sum outside");
        let most = slack * (length + matrix::inner(&corner, &corner).sqrt());
        assert!(matrix::inner(&outward, &corner) <= most, "{}", story.loss);

        // Nearer to the truth than the release, and the public rows kept their labels.
        assert!(far(&projected, &truth.sums) < 0.8 * far(&statistics.sums, &truth.sums), "{}", story.loss);
        let kept = &projection.soft_labels[labels.len()..];
        assert!(
            kept.len() == public && kept.iter().flatten().all(|&m| m != middle || story.loss == "poisson")
        );
        assert_eq!(public > 0, story.public_rows);
    }
}

fn far(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn models_of_projected_sums_need_a_penalty_and_claim_no_errors() {
    let (problem, plan) = planned(&Story { epsilon: 0.2, ..hidden_label(300, "logistic") });
    let statistics = plan.run(&problem, &key(), &mut seeded(6), &mut ()).unwrap().statistics.unwrap();
    let fitted = statistics.refit(&problem, Some(Sums::Projected), Some(0.01)).unwrap();
    assert!(matches!(fitted.standard_errors, Some(crate::release::StandardErrors::Absent { .. })));
    let path = statistics.path(&problem, Some(Sums::Projected), &[0.1, 0.01]).unwrap();
    assert_eq!(path[1].weights, fitted.weights);
    assert!(path.iter().all(|fit| fit.estimated_loss.is_none()));
    for sums in [Sums::Projected, Sums::AsReleased] {
        let refused = statistics.refit(&problem, Some(sums), None);
        assert!(matches!(refused, Err(MechanismError::NotPositive { name: "regularization", .. })));
    }
    let refused = statistics.refit_by_stein(&problem, Some(Sums::Projected), &[0.1]);
    assert!(matches!(refused, Err(MechanismError::Part { .. })));
}

/// Categories add up to the intercept: the sum as it is has noise in a direction in which there are no features. It must not enter estimates of losses.
#[test]
fn noise_that_no_labels_can_make_is_left_out_of_sums_as_they_are() {
    let penalties: Vec<f64> = (1..8).map(|step| 10f64.powf(-0.5 * f64::from(step))).collect();
    let (problem, plan) = planned(&hidden_label(1600, "logistic"));
    for seed in 1..6 {
        let statistics = plan.run(&problem, &key(), &mut seeded(seed), &mut ()).unwrap().statistics.unwrap();
        let path = statistics.path(&problem, Some(Sums::AsReleased), &penalties).unwrap();
        for fit in &path {
            let (estimated, actual) = (fit.estimated_loss.unwrap(), mean_loss(&problem, &fit.weights));
            // By two deviations of the estimate's own, and not by the tens that this noise over a small penalty makes.
            let deviation = fit.estimate_deviation.unwrap();
            assert!((estimated - actual).abs() < 0.02 + 6.0 * deviation, "{estimated} {actual} {deviation}");
            let categories: f64 = fit.weights[2..5].iter().sum();
            assert!(
                (categories - fit.weights[5]).abs() < 1e-6,
                "the same along the empty direction: {:?}",
                fit.weights
            );
        }
        let chosen = mean_loss(&problem, &Fitter::least_estimated(path.clone()).unwrap().weights);
        let least = path.iter().map(|fit| mean_loss(&problem, &fit.weights)).fold(f64::INFINITY, f64::min);
        assert!(chosen - least < 0.02, "{chosen} {least}");
    }
}

/// On average over releases, the penalty that Stein's estimate chooses for denoised sums costs little more than the best one of the path.
#[test]
fn stein_chooses_a_good_penalty() {
    const RUNS: u32 = 60;
    let penalties: Vec<f64> = (0..12).map(|step| 10f64.powf(-0.5 * f64::from(step))).collect();
    let (problem, plan) = planned(&Story { epsilon: 0.1, ..hidden_label(1600, "logistic") });
    let (rows, labels, _) = private(&problem);
    let (mut chosen, mut of_path) = (0.0, vec![0.0; penalties.len()]);
    for run in 0..RUNS {
        let mut seed = [3; 32];
        seed[..4].copy_from_slice(&run.to_le_bytes());
        let mut release = plan.lattice.hidden_sum(plan.summed(rows), &labels, 1);
        let mut source = NoiseSource::seeded_for_tests(seed);
        plan.lattice.sums.add_noise(&mut source.stream().unwrap(), &mut release);
        let statistics = plan.statistics(&problem, &release).unwrap();
        let path = statistics.path(&problem, None, &penalties).unwrap();
        for (sum, fit) in of_path.iter_mut().zip(&path) {
            *sum += mean_loss(&problem, &fit.weights) / f64::from(RUNS);
        }
        let best = Fitter::least_estimated(path).unwrap();
        chosen += mean_loss(&problem, &best.weights) / f64::from(RUNS);
        let again = statistics.refit_by_stein(&problem, None, &penalties).unwrap();
        assert_eq!(again.weights, best.weights);
    }
    let least = of_path.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(chosen - least < 0.02 * (of_path[0] - least), "{chosen} of {of_path:?}");
}

/// More than 512 weights take a way of their own: no second derivative is assembled.
#[test]
fn many_weights_are_fitted_without_second_derivatives() {
    let rows = 4000;
    let value = |row: usize| row * 7 % 540;
    let text = |cell: &dyn Fn(usize) -> String| halflit_table::Column::Text((0..rows).map(cell).collect());
    let label = |row: usize| if (value(row) % 2 == 0) == (row % 10 != 3) { "yes" } else { "no" };
    let columns = vec![
        ("c".to_owned(), text(&|row| format!("v{}", value(row)))),
        ("y".to_owned(), text(&|row| label(row).to_owned())),
    ];
    let values: Vec<String> = (0..540).map(|value| format!("\"v{value}\"")).collect();
    let declaration = format!(
        "[budget]\nepsilon = 20\ndelta = 1e-6\n[protect]\nunit = \"row\"\n[task]\nlabel = \"y\"\nloss = \"logistic\"\n\
         [columns.c]\nvisibility = \"public\"\nvalues = [{}]\n[columns.y]\nvalues = [\"no\", \"yes\"]\n",
        values.join(", ")
    );
    let declaration = halflit_table::Declaration::parse(&declaration, "test").unwrap();
    let table = halflit_table::Table::from_columns(columns).unwrap();
    let declared = halflit_table::Declared::bind(declaration, table).unwrap();
    let problem = Problem::pose(declared, halflit_table::OutOfDomain::Refuse).unwrap();
    assert!(problem.dimension() > fit::LARGEST_ASSEMBLED);
    let plan = Plan::new(&problem, budget(20.0)).unwrap();
    let fitted = plan.run(&problem, &key(), &mut seeded(5), &mut ()).unwrap();
    // Right nine times out of ten: the entropy of a coin of 0.1 is 0.325.
    let key = key();
    let (rows, labels) =
        (problem.encoded().private_rows().open(&key), problem.encoded().private_labels().open(&key));
    let loss: f64 = (0..rows.len())
        .map(|row| problem.loss().value(&crate::problem::scores(rows, row, &fitted.weights), labels[row]))
        .sum::<f64>()
        / rows.len() as f64;
    assert!(loss < 0.45, "{loss}");
    let statistics = fitted.statistics.unwrap();
    let refused = statistics.refit_by_stein(&problem, None, &[0.1]).unwrap_err();
    assert!(matches!(refused, MechanismError::Part { .. }), "{refused}");
}

#[test]
fn further_models_cost_nothing_and_another_table_is_refused() {
    let story = hidden_label(300, "logistic");
    let (problem, plan) = planned(&story);
    let fitted = plan.run(&problem, &key(), &mut seeded(2), &mut ()).unwrap();
    let statistics = fitted.statistics.unwrap();
    let text = serde_json::to_string(&statistics).unwrap();
    let read: LabelStatistics = serde_json::from_str(&text).unwrap();
    assert_eq!(read, statistics);
    // The fit that the run made, again.
    let again = read.fitted(&problem).unwrap();
    assert_eq!(again.weights, fitted.weights);
    // A path: weights grow as the penalty falls.
    let path = read.path(&problem, Some(Sums::AsReleased), &[1.0, 0.1, 0.01]).unwrap();
    let norms: Vec<f64> = path.iter().map(|fit| matrix::inner(&fit.weights, &fit.weights)).collect();
    assert!(norms.windows(2).all(|pair| pair[0] < pair[1]), "{norms:?}");

    let mut other = story.clone();
    other.cells.x[7] += 0.5;
    assert!(matches!(read.fitter(&other.problem()), Err(MechanismError::OtherTable)));
    // Nor may the label mean something else: values in another order, other bounds.
    for (loss, from, to) in [
        ("logistic", r#"values = ["no", "yes"]"#, r#"values = ["yes", "no"]"#),
        ("softmax", r#"["low", "middle", "high"]"#, r#"["high", "middle", "low"]"#),
        ("squared", "bounds = [0, 10]", "bounds = [0, 20]"),
    ] {
        let story = hidden_label(300, loss);
        let (problem, plan) = planned(&story);
        let statistics = plan.run(&problem, &key(), &mut seeded(2), &mut ()).unwrap().statistics.unwrap();
        statistics.fitter(&problem).unwrap();
        let otherwise = story.problem_declared(&story.declaration().replace(from, to));
        let refused = statistics.fitter(&otherwise).unwrap_err();
        assert!(matches!(refused, MechanismError::OtherLabel { .. }), "{loss}: {refused}");
    }
    // The labels play no part in refitting.
    let mut relabelled = story.clone();
    relabelled.cells.y.reverse();
    assert_eq!(read.fitted(&relabelled.problem()).unwrap().weights, fitted.weights);
    for (from, to) in [
        ("\"halflit_statistics\":3", "\"halflit_statistics\":4"),
        ("\"fraction_bits\":", "\"fraction_bits\":9"),
        ("\"noise_std\":", "\"noise_std\":-"),
        ("\"logistic\"", "\"hinge\""),
    ] {
        assert!(serde_json::from_str::<LabelStatistics>(&text.replacen(from, to, 1)).is_err(), "{from}");
    }
    let refused = read.refit(&problem, None, Some(f64::NAN));
    assert!(matches!(refused, Err(MechanismError::NotPositive { name: "regularization", .. })));
}

#[test]
fn other_relations_and_losses_are_refused() {
    for public in [vec![], vec!["x", "u"], vec!["x", "u", "y"]] {
        let problem = Story { public, ..Story::new(50) }.problem();
        assert!(matches!(Plan::new(&problem, budget(1.0)), Err(MechanismError::NeedsHiddenLabelOnly)));
        assert!(!fits(&problem));
    }
    let problem = hidden_label(50, "hinge").problem();
    assert!(matches!(Plan::new(&problem, budget(1.0)), Err(MechanismError::NotCanonical { loss: "hinge" })));
}

#[test]
fn a_tampered_statement_is_inconsistent() {
    let (problem, plan) = planned(&hidden_label(60, "softmax"));
    let honest = plan.statement(&problem);
    honest.check().unwrap();
    let changed: [fn(&mut Statement); 7] = [
        |s| (s.units, s.total_weight) = (1 << 50, (1u64 << 50) as f64),
        |s| s.noise.lattice_sensitivity = 0,
        |s| s.noise.lattice_sensitivity *= 2,
        |s| s.noise.lattice_bits = 45,
        |s| s.noise.noise_std *= 1.001,
        |s| s.noise.noise_std = f64::NAN,
        |s| s.total_weight = 1.0,
    ];
    for change in changed {
        let mut statement = honest.clone();
        change(&mut statement);
        assert!(statement.check().is_err(), "{statement:?}");
    }
}

/// Labels drawn from a known logistic model, standard errors from the release. Hypothesis: an interval of 2.6 standard errors misses the truth
/// with probability at most 0.05 (nominally 0.01, more by what the penalties pull). Statistic: misses among the n intervals of 100 releases with
/// different labels; more than 0.05 n + 4.9 sqrt(0.0475 n) have probability below 1e-6. Power: errors half as large are rejected.
#[test]
fn standard_errors_cover_the_truth() {
    const ROWS: usize = 800;
    let (mut intervals, mut misses, mut misses_of_half) = (0.0, 0.0, 0.0);
    for run in 0..100u64 {
        let mut story = Story { epsilon: 1.5, ..hidden_label(ROWS, "logistic") };
        let mut numbers = Numbers(100 + run);
        for row in 0..ROWS {
            let score = 1.2 * story.cells.x[row] / 3.0 - 0.8 * (2.0 * story.cells.u[row] - 1.0) + 0.3;
            let is_positive = numbers.next() < 1.0 / (1.0 + (-score).exp());
            story.cells.y[row] = if is_positive { "yes" } else { "no" }.to_owned();
        }
        let (problem, plan) = planned(&story);
        let fitted = plan.run(&problem, &key(), &mut seeded(run as u8), &mut ()).unwrap();
        let Some(crate::release::StandardErrors::Given(errors)) = fitted.standard_errors else { panic!() };
        let names = problem.encoding().coordinate_names();
        for ((name, weight), error) in names.iter().zip(&fitted.weights).zip(&errors[0]) {
            let (expected, error) = match (name.as_str(), error) {
                ("x", Some(error)) => (1.2, error),
                ("u", Some(error)) => (-0.8, error),
                _ => continue,
            };
            let distance = (weight - expected).abs() / error;
            intervals += 1.0;
            misses += f64::from(u8::from(distance > 2.6));
            misses_of_half += f64::from(u8::from(distance > 1.3));
        }
    }
    let critical = 0.05 * intervals + 4.9 * (0.0475f64 * intervals).sqrt();
    assert!(intervals >= 150.0, "{intervals}");
    assert!(misses <= critical, "{misses} of {intervals}, critical {critical}");
    assert!(misses_of_half > critical, "{misses_of_half} of {intervals}, critical {critical}");
}
