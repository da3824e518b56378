use super::*;
use crate::domain::Ball;
use crate::loss::{Interval, LossSpec};
use crate::rows::{DenseRows, SparseRows};
use crate::testing::Numbers;

/// A table whose scores at dyadic weights are exact, so that an optimum can be written down.
struct Data {
    dense: Rows,
    sparse: Rows,
    labels: Vec<f64>,
    weights: Vec<f64>,
}

fn data(loss: &Loss, rows: usize, width: usize, seed: u64) -> Data {
    let mut numbers = Numbers::new(seed);
    let rows: Vec<Vec<i16>> = (0..rows)
        .map(|_| {
            (0..width)
                .map(|_| {
                    if numbers.next().is_multiple_of(4) { 0 } else { (numbers.symmetric() * 16384.0) as i16 }
                })
                .collect()
        })
        .collect();
    let label = |numbers: &mut Numbers| match loss.label_domain() {
        LabelDomain::Binary => (numbers.next() % 2) as f64,
        LabelDomain::Signs => 1.0 - 2.0 * (numbers.next() % 2) as f64,
        LabelDomain::Classes(classes) => (numbers.next() % classes as u64) as f64,
        LabelDomain::Within(Interval { low, high }) => low + (high - low) * 0.5 * (1.0 + numbers.symmetric()),
        LabelDomain::None => 0.0,
    };
    Data {
        labels: rows.iter().map(|_| label(&mut numbers)).collect(),
        weights: rows.iter().map(|_| 1.0 + 0.5 * numbers.symmetric()).collect(),
        dense: DenseRows::from_rows(width, &rows).unwrap().into(),
        sparse: SparseRows::from_rows(width, &rows).unwrap().into(),
    }
}

fn losses() -> Vec<Loss> {
    let labels = Interval { low: -1.0, high: 1.0 };
    [
        LossSpec::Logistic,
        LossSpec::Softmax { classes: 3 },
        LossSpec::Squared { labels },
        LossSpec::Poisson { max_count: 4.0, max_abs_score: 2.0 },
        LossSpec::Huber { threshold: 0.3, labels },
        LossSpec::PseudoHuber { threshold: 0.3, labels },
        LossSpec::SmoothedHinge { smoothing: 0.5 },
        LossSpec::Hinge,
        LossSpec::Absolute { labels },
        LossSpec::Quantile { level: 0.3, labels },
        LossSpec::Mean,
    ]
    .into_iter()
    .map(|spec| Loss::new(spec).unwrap())
    .collect()
}

fn domains(size: usize) -> Vec<Domain> {
    let ball = |shift: f64, radius| {
        Ball::new((0..size).map(|j| shift * (j as f64).cos()).collect(), radius).unwrap()
    };
    vec![
        Domain::whole(size, None).unwrap(),
        Domain::centred_ball(size, 0.4).unwrap(),
        Domain::centred_ball(size, 50.0).unwrap(),
        Domain::boxed(vec![-0.15; size], vec![0.1; size]).unwrap(),
        Domain::simplex(size).unwrap(),
        Domain::two_balls(ball(0.1, 0.4 + 0.02 * size as f64), ball(-0.1, 0.4 + 0.02 * size as f64)).unwrap(),
    ]
}

fn spec<'a>(loss: Loss, rows: &'a Rows, data: &'a Data, domain: Domain) -> ProblemSpec<'a> {
    ProblemSpec {
        rows,
        row_norm: (rows.max_squared_norm() as f64).sqrt() / 16384.0 * (1.0 + 1e-12),
        labels: Some(&data.labels),
        row_weights: Some(&data.weights),
        total_weight: rows.len() as f64,
        loss,
        regularization: 0.05,
        anchor: None,
        linear: None,
        domain,
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// Gradient of the average loss at `weights`, from the slopes of the loss itself.
fn loss_gradient(loss: &Loss, rows: &Rows, data: &Data, weights: &[f64]) -> Vec<f64> {
    let (width, outputs) = (rows.width(), loss.outputs());
    let mut gradient = vec![0.0; width * outputs];
    for row in 0..rows.len() {
        let x: Vec<f64> = rows.dense_row(row).unwrap().iter().map(|&q| f64::from(q) / 16384.0).collect();
        let share = data.weights[row] / rows.len() as f64;
        if loss.is_mean() {
            for (g, (w, x)) in gradient.iter_mut().zip(weights.iter().zip(&x)) {
                *g += share * (w - x);
            }
            continue;
        }
        let scores: Vec<f64> =
            weights.chunks_exact(width).map(|w| w.iter().zip(&x).map(|(w, x)| w * x).sum()).collect();
        let mut slopes = vec![0.0; outputs];
        loss.derivative(&scores, data.labels[row], &mut slopes);
        for (gradient, slope) in gradient.chunks_exact_mut(width).zip(&slopes) {
            for (g, x) in gradient.iter_mut().zip(&x) {
                *g += share * slope * x;
            }
        }
    }
    gradient
}

/// The smallest tolerance we ask for in these tests: what the loss can certify, with room for the public floor.
fn tolerance(problem: &Problem<'_>) -> f64 {
    problem.smallest_tolerance().max(if problem.loss().is_smooth() { 1e-10 } else { 1e-7 })
}

#[test]
fn constructed_optima_are_found_inside_and_on_the_boundary() {
    // Choose the optimum, then the linear term that makes it one: S = grad + lambda (w - w_0) + (outward normal).
    for loss in losses() {
        let data = data(&loss, 200, 5, 11);
        let size = 5 * loss.outputs();
        for domain in domains(size) {
            let mut optimum: Vec<f64> = (0..size).map(|j| 0.125 * ((j * 7 % 5) as f64 - 2.0)).collect();
            let wish = optimum.clone();
            domain.project(&mut optimum);
            // a multiple of v - P(v) is an outward normal at P(v)
            let normal: Vec<f64> = wish.iter().zip(&optimum).map(|(v, p)| 0.5 * (v - p)).collect();
            let anchor: Vec<f64> = (0..size).map(|j| 0.01 * j as f64).collect();
            let gradient = loss_gradient(&loss, &data.dense, &data, &optimum);
            let linear: Vec<f64> =
                (0..size).map(|j| gradient[j] + 0.05 * (optimum[j] - anchor[j]) + normal[j]).collect();
            for rows in [&data.dense, &data.sparse] {
                let mut spec = spec(loss, rows, &data, domain.clone());
                spec.anchor = Some(&anchor);
                spec.linear = Some(&linear);
                let problem = Problem::new(spec).unwrap();
                let tolerance = tolerance(&problem);
                let solution = minimize(&problem, tolerance).unwrap();
                let certificate = solution.certificate;
                let error = distance(&solution.weights, &optimum);
                let name = loss.name();
                assert!(certificate.distance <= tolerance, "{name} {domain:?} {certificate:?}");
                // the optimum itself is written down with an error of about 1e-15 / lambda
                assert!(
                    error <= certificate.distance + 1e-13,
                    "{name} {domain:?}: {error:e} {certificate:?}"
                );
                assert!(domain.contains(&solution.weights), "{name} {domain:?}");
                // the fast method suffices: nothing here needs the finisher
                assert!(certificate.evidence != Evidence::WorstCase, "{name} {domain:?} {certificate:?}");
                assert!(certificate.passes < 1000, "{name} {domain:?} {certificate:?}");
            }
        }
    }
}

#[test]
fn degenerate_tables_are_solved_too() {
    // Repeated rows, ties, labels on a coarse grid, constant columns: many rows sit on their kink at once.
    for loss in losses() {
        let classes = loss.outputs();
        let rows: Vec<[i16; 4]> = (0..240i16).map(|i| [16384, 16384 * (i % 2), 8192 * (i % 3), 0]).collect();
        let label = |i: usize| match loss.label_domain() {
            LabelDomain::Binary => (i % 2) as f64,
            LabelDomain::Signs => 1.0 - 2.0 * (i / 7 % 2) as f64,
            LabelDomain::Classes(classes) => (i / 5 % classes) as f64,
            LabelDomain::Within(Interval { low, .. }) => low.max(0.0) + 0.25 * (i / 6 % 4) as f64,
            LabelDomain::None => 0.0,
        };
        let dense: Rows = DenseRows::from_rows(4, &rows).unwrap().into();
        let data = Data {
            sparse: dense.clone(),
            labels: (0..240).map(label).collect(),
            weights: vec![1.0; 240],
            dense: dense.clone(),
        };
        let size = 4 * classes;
        for domain in [Domain::whole(size, None).unwrap(), Domain::centred_ball(size, 0.3).unwrap()] {
            let problem = Problem::new(spec(loss, &dense, &data, domain)).unwrap();
            let tolerance = tolerance(&problem);
            let solution = minimize(&problem, tolerance).unwrap();
            assert!(solution.certificate.distance <= tolerance, "{} {:?}", loss.name(), solution.certificate);
            assert!(solution.certificate.passes < 1000, "{} {:?}", loss.name(), solution.certificate);
        }
    }
}

#[test]
fn golden_optima_are_matched() {
    // golden/optima.py: mpmath to 40 digits, compared there with scikit-learn 1.9.1 to 2e-12.
    let golden: serde_json::Value = serde_json::from_str(include_str!("../../golden/optima.json")).unwrap();
    let numbers: Vec<i64> = (1..=60).collect();
    let rows: Vec<Vec<i16>> = numbers
        .iter()
        .map(|i| {
            (0..4)
                .map(|j| ((7919 * i * (j + 2) + 104_729 * i * i * (j + 1)) % 32_769 - 16_384) as i16)
                .collect()
        })
        .collect();
    let real: Vec<f64> =
        numbers.iter().map(|i| ((31_337 * i * i + 271 * i) % 257 - 128) as f64 / 128.0).collect();
    let sign: Vec<f64> = rows
        .iter()
        .zip(&real)
        .map(
            |(q, real)| {
                if f64::from(q[0]) * 2.0 + f64::from(q[1]) + 16_384.0 * real > 0.0 { 1.0 } else { -1.0 }
            },
        )
        .collect();
    let positive: Vec<f64> = sign.iter().map(|&s| f64::from(u8::from(s > 0.0))).collect();
    let class: Vec<f64> = numbers
        .iter()
        .zip(&rows)
        .map(|(i, q)| ((i + i64::from(q[0] > 0) + 2 * i64::from(q[1] > 0)) % 3) as f64)
        .collect();
    let count: Vec<f64> = numbers.iter().map(|i| (7 * i % 5) as f64).collect();
    let weights: Vec<f64> = numbers.iter().map(|i| 1.0 + (i % 3) as f64 / 2.0).collect();
    let rows: Rows = DenseRows::from_rows(4, &rows).unwrap().into();
    let labels = Interval::UNIT;
    let cases: [(LossSpec, &[f64]); 11] = [
        (LossSpec::Logistic, &positive),
        (LossSpec::Softmax { classes: 3 }, &class),
        (LossSpec::Squared { labels }, &real),
        (LossSpec::Poisson { max_count: 4.0, max_abs_score: 3.0 }, &count),
        (LossSpec::Huber { threshold: 0.5, labels }, &real),
        (LossSpec::PseudoHuber { threshold: 0.5, labels }, &real),
        (LossSpec::SmoothedHinge { smoothing: 0.5 }, &sign),
        (LossSpec::Hinge, &sign),
        (LossSpec::Absolute { labels }, &real),
        (LossSpec::Quantile { level: 0.25, labels }, &real),
        (LossSpec::Mean, &real),
    ];
    for (spec, labels) in cases {
        let loss = Loss::new(spec).unwrap();
        let anchor = [0.125, -0.25, 0.0, 0.375].repeat(loss.outputs());
        let problem = Problem::new(ProblemSpec {
            rows: &rows,
            row_norm: 2.0,
            labels: Some(labels),
            row_weights: Some(&weights),
            total_weight: 60.0,
            loss,
            regularization: 0.1,
            anchor: Some(&anchor),
            linear: None,
            domain: Domain::whole(anchor.len(), None).unwrap(),
        })
        .unwrap();
        let optimum: Vec<f64> = serde_json::from_value(golden["optima"][loss.name()].clone()).unwrap();
        let solution = minimize(&problem, tolerance(&problem)).unwrap();
        let error = distance(&solution.weights, &optimum);
        assert!(error <= 1e-9, "{} {error:e}", loss.name());
        assert!(error <= solution.certificate.distance + 1e-15, "{} {error:e}", loss.name());
    }
}

#[test]
fn certificates_hold_far_from_the_optimum() {
    // At any point the bound is above the true distance, and near the optimum it is not far above it.
    for loss in losses().into_iter().filter(|loss| !loss.is_mean()) {
        let data = data(&loss, 150, 4, 3);
        let size = 4 * loss.outputs();
        for domain in domains(size) {
            let problem = Problem::new(spec(loss, &data.dense, &data, domain.clone())).unwrap();
            let optimum = minimize(&problem, tolerance(&problem)).unwrap().weights;
            let mut numbers = Numbers::new(8);
            for step in 0..60 {
                let radius = 10f64.powi(-(step / 6));
                let mut point: Vec<f64> = optimum.iter().map(|w| w + radius * numbers.symmetric()).collect();
                domain.project(&mut point);
                let true_distance = distance(&point, &optimum);
                let bound = match problem.smoothness() {
                    Some(smoothness) => {
                        let mut gradient =
                            problem.passes.evaluate(&point, passes::Smoothing::None, false).gradient;
                        problem.add_simple_gradient(&point, &mut gradient);
                        let error = problem.bounds.gradient_error();
                        certificate::gradient_mapping(&problem, &point, &gradient, smoothness, error)
                    }
                    None => {
                        let slopes = polish::barrier_slopes(&problem, &point, 10f64.powi(-(step % 12)));
                        certificate::duality_gap(&problem, &point, &slopes).distance
                    }
                };
                let slack = tolerance(&problem);
                assert!(
                    true_distance <= bound + slack,
                    "{} {domain:?} {true_distance:e} {bound:e}",
                    loss.name()
                );
            }
        }
    }
}

/// A gradient in pairs of doubles, from the loss's own slopes at scores in pairs of doubles.
fn gradient_reference(problem: &Problem<'_>, data: &Data, weights: &[f64]) -> Vec<f64> {
    use crate::double::Double;
    let (rows, width) = (problem.passes.rows, problem.passes.rows.width());
    let mut total = vec![Double::ZERO; width];
    for row in 0..rows.len() {
        let q = rows.dense_row(row).unwrap();
        let score = q
            .iter()
            .zip(weights)
            .fold(Double::ZERO, |sum, (&q, &w)| sum + Double::product(f64::from(q), w))
            .to_f64()
            / 16384.0;
        let mut slope = [0.0];
        problem.loss().derivative(&[score], data.labels[row], &mut slope);
        let factor =
            Double::from(data.weights[row]) / Double::from(rows.len() as f64) * Double::from(slope[0]);
        for (total, &q) in total.iter_mut().zip(&q) {
            *total = *total + factor * Double::from(f64::from(q) / 16384.0);
        }
    }
    let lambda = Double::from(problem.regularization);
    total.iter().zip(weights).map(|(&t, &w)| (t + lambda * Double::from(w)).to_f64()).collect()
}

#[test]
fn gradients_are_within_their_stated_error() {
    for loss in losses().into_iter().filter(|loss| loss.outputs() == 1 && loss.is_smooth() && !loss.is_mean())
    {
        let data = data(&loss, 3000, 20, 4);
        let domain = Domain::centred_ball(20, 1.5).unwrap();
        let problem = Problem::new(spec(loss, &data.dense, &data, domain)).unwrap();
        let mut numbers = Numbers::new(2);
        let mut worst = 0.0f64;
        for _ in 0..5 {
            let weights: Vec<f64> = (0..20).map(|_| 0.3 * numbers.symmetric()).collect();
            let mut gradient = problem.passes.evaluate(&weights, passes::Smoothing::None, false).gradient;
            problem.add_simple_gradient(&weights, &mut gradient);
            worst = worst.max(distance(&gradient, &gradient_reference(&problem, &data, &weights)));
        }
        let bound = problem.bounds.gradient_error();
        assert!(worst <= bound, "{} {worst:e} {bound:e}", loss.name());
        // the bound is a worst case, but not a fantasy
        assert!(worst >= 1e-5 * bound, "{} {worst:e} {bound:e}", loss.name());
    }
}

#[test]
fn scores_in_pairs_are_within_their_stated_error() {
    use crate::double::Double;
    let loss = Loss::new(LossSpec::Hinge).unwrap();
    let data = data(&loss, 300, 33, 4);
    let problem =
        Problem::new(spec(loss, &data.dense, &data, Domain::centred_ball(33, 1.0).unwrap())).unwrap();
    let mut numbers = Numbers::new(2);
    let weights: Vec<f64> = (0..33).map(|_| 0.15 * numbers.symmetric()).collect();
    let found = fine::distances(&problem, &weights);
    for (row, found) in found.iter().enumerate() {
        let q = data.dense.dense_row(row).unwrap();
        let exact = q.iter().zip(&weights).fold(Double::from(-data.labels[row]), |sum, (&q, &w)| {
            sum + Double::product(f64::from(q) / 16384.0, w)
        });
        // the distance itself is rounded to a double
        let error = (Double::from(*found) - exact).to_f64().abs();
        assert!(
            error <= problem.bounds.fine_score_error() + f64::EPSILON * exact.to_f64().abs(),
            "{row} {error:e}"
        );
    }
}

/// The finisher alone, from a bad start.
fn finish(problem: &Problem<'_>, tolerance: f64, to_the_end: bool) -> Solution {
    let start = Attempt {
        weights: problem.anchor.clone(),
        distance: f64::INFINITY,
        evidence: Evidence::GradientMapping,
        passes: 0,
    };
    finisher::finish(problem, tolerance, start, to_the_end).unwrap()
}

#[test]
fn the_finisher_alone_reaches_the_tolerance_in_the_promised_passes() {
    for loss in losses().into_iter().filter(|loss| !loss.is_mean()) {
        let data = data(&loss, 60, 3, 21);
        let size = 3 * loss.outputs();
        for domain in domains(size) {
            let mut spec = spec(loss, &data.dense, &data, domain.clone());
            spec.regularization = 0.5;
            let problem = Problem::new(spec).unwrap();
            let precise = minimize(&problem, tolerance(&problem)).unwrap();
            let wanted = if loss.is_smooth() { 1e-8 } else { 0.05 };
            let promised = problem.worst_case_passes(wanted).unwrap();
            for to_the_end in [false, true] {
                let solution = finish(&problem, wanted, to_the_end);
                let error = distance(&solution.weights, &precise.weights);
                let Certificate { distance, evidence, passes } = solution.certificate;
                assert!(
                    distance <= wanted && error <= distance + precise.certificate.distance,
                    "{} {error:e}",
                    loss.name()
                );
                assert!(passes <= promised, "{} {passes} {promised}", loss.name());
                assert_eq!(
                    evidence == Evidence::WorstCase && passes == promised,
                    to_the_end,
                    "{}",
                    loss.name()
                );
                assert!(domain.contains(&solution.weights));
            }
        }
    }
}

#[test]
fn floors_and_pass_counts_depend_on_public_constants_only() {
    for loss in losses() {
        let answers: Vec<(f64, u64)> = [1, 2]
            .map(|seed| {
                let data = data(&loss, 100, 4, seed);
                let mut spec =
                    spec(loss, &data.dense, &data, Domain::whole(4 * loss.outputs(), None).unwrap());
                spec.row_norm = 2.0;
                spec.row_weights = None;
                let problem = Problem::new(spec).unwrap();
                (problem.smallest_tolerance(), problem.worst_case_passes(1e-3).unwrap())
            })
            .to_vec();
        assert_eq!(answers[0], answers[1], "{}", loss.name());
    }
}

#[test]
fn a_tolerance_below_the_floor_is_refused() {
    for loss in losses() {
        let data = data(&loss, 50, 3, 1);
        let problem =
            Problem::new(spec(loss, &data.dense, &data, Domain::whole(3 * loss.outputs(), None).unwrap()))
                .unwrap();
        let smallest = problem.smallest_tolerance();
        assert!(smallest > 0.0 && smallest < 1e-5, "{} {smallest:e}", loss.name());
        assert!(minimize(&problem, smallest).is_ok(), "{}", loss.name());
        for tolerance in [0.98 * smallest, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(minimize(&problem, tolerance), Err(SolverError::Tolerance { .. })),
                "{tolerance}"
            );
        }
        assert!(matches!(problem.worst_case_passes(0.5 * smallest), Err(SolverError::Tolerance { .. })));
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    for loss in losses() {
        let data = data(&loss, 2000, 6, 31);
        let domain = Domain::centred_ball(6 * loss.outputs(), 0.7).unwrap();
        let solve = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let problem = Problem::new(spec(loss, &data.dense, &data, domain.clone())).unwrap();
                minimize(&problem, tolerance(&problem)).unwrap()
            })
        };
        let one = solve(1);
        for threads in [2, 7] {
            let other = solve(threads);
            assert_eq!(other.weights, one.weights, "{} {threads}", loss.name());
            assert_eq!(other.certificate, one.certificate);
        }
    }
}

#[test]
fn many_weights_are_solved_without_a_matrix() {
    // 600 weights: beyond the size at which Hessians are assembled.
    for spec_of_loss in
        [LossSpec::Logistic, LossSpec::Softmax { classes: 3 }, LossSpec::Squared { labels: Interval::UNIT }]
    {
        let loss = Loss::new(spec_of_loss).unwrap();
        let width = 600 / loss.outputs();
        let data = data(&loss, 300, width, 5);
        for domain in [Domain::whole(600, None).unwrap(), Domain::centred_ball(600, 0.2).unwrap()] {
            let problem = Problem::new(spec(loss, &data.dense, &data, domain)).unwrap();
            let solution = minimize(&problem, tolerance(&problem)).unwrap();
            assert!(
                solution.certificate.distance <= tolerance(&problem),
                "{} {:?}",
                loss.name(),
                solution.certificate
            );
        }
    }
}

#[test]
fn labels_may_enter_through_the_linear_term() {
    // A canonical loss without labels, plus S = sum share t(y) x, is the loss with labels.
    for loss in losses().into_iter().filter(|loss| loss.is_canonical()) {
        let data = data(&loss, 120, 5, 7);
        let size = 5 * loss.outputs();
        let whole = Domain::whole(size, None).unwrap();
        let problem = Problem::new(spec(loss, &data.dense, &data, whole.clone())).unwrap();
        let with_labels = minimize(&problem, 1e-8).unwrap();
        let mut statistic = vec![0.0; size];
        for row in 0..120 {
            for (j, &q) in data.dense.dense_row(row).unwrap().iter().enumerate() {
                let part = data.weights[row] / 120.0 * f64::from(q) / 16384.0;
                match loss.outputs() {
                    1 => statistic[j] += part * data.labels[row],
                    _ => statistic[data.labels[row] as usize * 5 + j] += part,
                }
            }
        }
        let mut spec = spec(loss, &data.dense, &data, whole);
        spec.labels = None;
        spec.linear = Some(&statistic);
        let problem = Problem::new(spec).unwrap();
        let without = minimize(&problem, 1e-8).unwrap();
        let error = distance(&with_labels.weights, &without.weights);
        assert!(error <= 2e-8, "{} {error:e}", loss.name());
        assert!((problem.value(&without.weights) - problem.value(&with_labels.weights)).abs() <= 1e-12);
    }
}

#[test]
fn a_warm_start_saves_passes_and_an_empty_table_returns_the_anchor() {
    let loss = Loss::new(LossSpec::Logistic).unwrap();
    let data = data(&loss, 200, 5, 11);
    let problem = Problem::new(spec(loss, &data.dense, &data, Domain::whole(5, None).unwrap())).unwrap();
    let cold = minimize(&problem, 1e-9).unwrap();
    let warm = minimize_from(&problem, 1e-9, Some(&cold.weights)).unwrap();
    assert!(warm.certificate.passes < cold.certificate.passes);

    let empty: Rows = DenseRows::new(5).unwrap().into();
    let none = Data { dense: empty.clone(), sparse: empty.clone(), labels: vec![], weights: vec![] };
    let mut spec = spec(loss, &empty, &none, Domain::whole(5, None).unwrap());
    (spec.total_weight, spec.row_norm) = (1.0, 1.0);
    let anchor = [0.25, 0.5, -1.0, 0.0, 2.0];
    spec.anchor = Some(&anchor);
    let solution = minimize(&Problem::new(spec).unwrap(), 1e-9).unwrap();
    assert!(distance(&solution.weights, &anchor) <= 1e-9);
}

#[test]
fn what_is_no_problem_is_refused() {
    let loss = Loss::new(LossSpec::Logistic).unwrap();
    let data = data(&loss, 10, 2, 1);
    let hinge = Loss::new(LossSpec::Hinge).unwrap();
    let good = || spec(loss, &data.dense, &data, Domain::whole(2, None).unwrap());
    let refused = |spec: ProblemSpec<'_>| Problem::new(spec).err().unwrap();
    for lambda in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let spec = ProblemSpec { regularization: lambda, ..good() };
        assert!(matches!(refused(spec), SolverError::Parameter { name: "regularization", .. }));
    }
    assert!(matches!(refused(ProblemSpec { total_weight: 0.0, ..good() }), SolverError::Parameter { .. }));
    assert!(matches!(refused(ProblemSpec { row_norm: 0.01, ..good() }), SolverError::RowNorm { .. }));
    assert!(matches!(refused(ProblemSpec { labels: Some(&[0.0]), ..good() }), SolverError::Length { .. }));
    let half = [0.5; 10];
    assert!(matches!(refused(ProblemSpec { labels: Some(&half), ..good() }), SolverError::Label { row: 0 }));
    let no_labels = ProblemSpec { labels: None, loss: hinge, ..good() };
    assert!(matches!(refused(no_labels), SolverError::NeedsLabels { loss: "hinge" }));
    let negative = [-1.0; 10];
    assert!(matches!(
        refused(ProblemSpec { row_weights: Some(&negative), ..good() }),
        SolverError::Parameter { .. }
    ));
    let nan = [f64::NAN; 2];
    assert!(matches!(refused(ProblemSpec { anchor: Some(&nan), ..good() }), SolverError::Parameter { .. }));
    assert!(matches!(refused(ProblemSpec { linear: Some(&nan), ..good() }), SolverError::Parameter { .. }));
    let three = Domain::whole(3, None).unwrap();
    assert!(matches!(refused(ProblemSpec { domain: three, ..good() }), SolverError::Length { .. }));
    let problem = Problem::new(good()).unwrap();
    assert!(matches!(minimize_from(&problem, 1e-6, Some(&[0.0])), Err(SolverError::Length { .. })));
}

#[test]
fn random_problems_of_every_kind_are_solved() {
    // Shapes, regularizations, domains, generic and coarse data (ties everywhere), all mixed.
    let mut numbers = Numbers::new(1);
    let losses = losses();
    for _ in 0..200 {
        let mut pick = |choices: &[usize]| choices[(numbers.next() % choices.len() as u64) as usize];
        let loss = losses[pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])];
        let (rows, width) = (pick(&[20, 100, 500, 1000]), pick(&[1, 3, 6, 12]));
        let regularization = [1.0, 1e-1, 1e-2, 1e-3, 1e-4][pick(&[0, 1, 2, 3, 4])];
        let mut data = data(&loss, rows, width, pick(&[1, 2, 3, 4, 5, 6]) as u64);
        if pick(&[0, 1]) == 1 {
            let coarse =
                |_| (0..width).map(|_| 8192 * (pick(&[0, 1, 2, 3]) as i16 - 1)).collect::<Vec<i16>>();
            data.dense =
                DenseRows::from_rows(width, &(0..rows).map(coarse).collect::<Vec<_>>()).unwrap().into();
            if matches!(loss.label_domain(), LabelDomain::Within(_)) {
                data.labels.iter_mut().for_each(|label| *label = (*label * 4.0).round() / 4.0);
            }
        }
        let domains = domains(width * loss.outputs());
        let mut spec = spec(loss, &data.dense, &data, domains[pick(&[0, 1, 2, 3, 4, 5])].clone());
        spec.row_norm = spec.row_norm.max(1e-6);
        spec.regularization = regularization;
        let problem = Problem::new(spec).unwrap();
        let tolerance = tolerance(&problem);
        let certificate = minimize(&problem, tolerance).unwrap().certificate;
        assert!(certificate.distance <= tolerance, "{} {rows} {width} {regularization}", loss.name());
        assert!(certificate.passes < 3000, "{} {rows} {width} {regularization} {certificate:?}", loss.name());
    }
}
