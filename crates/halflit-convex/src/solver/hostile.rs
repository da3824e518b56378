//! Problems chosen to catch a false certificate: optima known in closed form, at the edges of what is allowed.

use super::*;
use crate::domain::Ball;
use crate::double::Double;
use crate::loss::{Interval, LossSpec};
use crate::rows::{DenseRows, SparseRows};
use crate::testing::Numbers;

fn loss(spec: LossSpec) -> Loss {
    Loss::new(spec).unwrap()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// One row of zeros: the loss is a constant, so F is its regularizer and the minimizer is P_K(w_0 + S / lambda).
fn nothing(width: usize) -> Rows {
    DenseRows::from_rows(width, &[vec![0i16; width]]).unwrap().into()
}

fn posed<'a>(
    rows: &'a Rows,
    loss: Loss,
    labels: &'a [f64],
    linear: &'a [f64],
    domain: Domain,
) -> ProblemSpec<'a> {
    ProblemSpec {
        rows,
        row_norm: 1e-6,
        labels: (!labels.is_empty()).then_some(labels),
        row_weights: None,
        total_weight: 1.0,
        loss,
        regularization: 0.05,
        anchor: None,
        linear: Some(linear),
        domain,
    }
}

/// The finisher alone, from the anchor.
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
fn a_mean_divides_by_a_sum_that_is_rounded_too() {
    // The divisor sum_i omega_i / W drifts by many roundings, and a far minimizer feels every one of them.
    let rows: Rows = DenseRows::from_values(1, vec![0; 60_000]).unwrap().into();
    let linear = [1e6];
    for (step, domain) in (0..24)
        .flat_map(|step| [Domain::whole(1, None), Domain::centred_ball(1, 2e6)].map(|d| (step, d.unwrap())))
    {
        let total_weight = 60_000.0 * (1.0 + f64::from(step) / 37.0);
        let spec = ProblemSpec { total_weight, ..posed(&rows, loss(LossSpec::Mean), &[], &linear, domain) };
        let problem = Problem::new(spec).unwrap();
        let solution = minimize(&problem, problem.smallest_tolerance()).unwrap();
        let divisor = Double::from(60_000.0) / Double::from(total_weight) + Double::from(0.05);
        let truth = Double::from(1e6) / divisor;
        let error = (Double::from(solution.weights[0]) - truth).to_f64().abs();
        assert!(
            error <= solution.certificate.distance,
            "{total_weight}: {error:e} {:?}",
            solution.certificate
        );
        let mu = (Double::from(problem.strong_convexity()) - divisor).to_f64();
        assert!(mu <= 0.0, "the strong convexity is {mu:e} too large");
        let beta = (Double::from(problem.smoothness().unwrap()) - divisor).to_f64();
        assert!(beta >= 0.0, "the smoothness is {beta:e} too small");
    }
}

#[test]
fn a_far_start_does_not_count_as_near() {
    // No rows at all: the region that holds the minimizer is a point, the start is elsewhere.
    let rows: Rows = DenseRows::new(2).unwrap().into();
    for (tolerance, start) in [(1e-100f64, [1e-3, 2e-3]), (1e-20, [1e12, -1e12]), (1e-13, [3.0, 0.1])] {
        let spec = ProblemSpec {
            row_norm: 1.0,
            ..posed(&rows, loss(LossSpec::Logistic), &[], &[0.0; 2], Domain::whole(2, None).unwrap())
        };
        let problem = Problem::new(spec).unwrap();
        let tolerance = tolerance.max(problem.smallest_tolerance());
        let solution = minimize_from(&problem, tolerance, Some(&start)).unwrap();
        let error = distance(&solution.weights, &[0.0; 2]);
        assert!(error <= solution.certificate.distance, "{error:e} {:?}", solution.certificate);
    }
}

#[test]
fn a_minimizer_beyond_any_ball_is_reached() {
    // w* = S / lambda = 1e15, farther than the largest radius a domain may have.
    let rows = nothing(1);
    let spec = ProblemSpec {
        regularization: 1e-12,
        ..posed(&rows, loss(LossSpec::Logistic), &[], &[1e3], Domain::whole(1, None).unwrap())
    };
    let problem = Problem::new(spec).unwrap();
    for to_the_end in [false, true] {
        let solution = finish(&problem, 1e10, to_the_end);
        let error = (solution.weights[0] - 1e15).abs();
        assert!(error <= solution.certificate.distance, "{error:e} {:?}", solution.certificate);
    }
}

/// Two balls whose common part is `depth` thick, in a tilted direction.
fn lens(dimension: usize, depth: f64, shift: f64) -> Domain {
    let axis: Vec<f64> = (0..dimension).map(|j| 1.0 + 0.3 * j as f64).collect();
    let length = axis.iter().map(|a| a * a).sum::<f64>().sqrt();
    let first: Vec<f64> = (0..dimension).map(|j| shift * (j as f64).cos()).collect();
    let second: Vec<f64> = first.iter().zip(&axis).map(|(c, a)| c + a / length * (3.0 - depth)).collect();
    let ball = |centre: Vec<f64>, radius| Ball::new(centre, radius).unwrap();
    Domain::two_balls(ball(first, 1.0), ball(second, 2.0)).unwrap()
}

#[test]
fn projections_are_certified_in_thin_and_flat_domains() {
    // Constant losses, smooth and kinked: the minimizer is the projection of S / lambda, known in pairs of doubles.
    let mut numbers = Numbers::new(5);
    let labels = [0.0];
    for dimension in [2, 3, 7] {
        let rows = nothing(dimension);
        let mut domains: Vec<Domain> = Vec::new();
        for depth in [1.0, 1e-3, 1e-8, 1e-12, 1e-14] {
            domains.push(lens(dimension, depth, 0.0));
            domains.push(lens(dimension, depth, 5.0));
        }
        domains.push(Domain::simplex(dimension).unwrap());
        domains.push(Domain::centred_ball(dimension, 0.3).unwrap());
        domains.push(Domain::ball(vec![1e3; dimension], 1e-3).unwrap());
        for domain in domains {
            for _ in 0..5 {
                let linear: Vec<f64> = (0..dimension).map(|_| 0.2 * numbers.symmetric()).collect();
                let mut truth: Vec<Double> =
                    linear.iter().map(|&s| Double::from(s) / Double::from(0.05)).collect();
                domain.project_number(&mut truth);
                let truth: Vec<f64> = truth.iter().map(|w| w.to_f64()).collect();
                for kinked in [false, true] {
                    let loss = if kinked {
                        loss(LossSpec::Absolute { labels: Interval::UNIT })
                    } else {
                        loss(LossSpec::Logistic)
                    };
                    let problem = Problem::new(posed(&rows, loss, &labels, &linear, domain.clone())).unwrap();
                    let wanted = problem.smallest_tolerance().max(if kinked { 1e-6 } else { 1e-12 });
                    let attempt = newton::attempt(&problem, wanted, vec![0.0; dimension]);
                    let finished = (!kinked).then(|| finish(&problem, wanted, false));
                    let checked = finished
                        .iter()
                        .map(|solution| (&solution.weights, solution.certificate.distance))
                        .chain([(&attempt.weights, attempt.distance)]);
                    for (weights, bound) in checked {
                        let error = distance(weights, &truth);
                        // the truth itself is rounded to doubles
                        assert!(
                            error <= bound + 1e-15 * (1.0 + 3e3),
                            "{domain:?} {error:e} {bound:e} {kinked}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn points_outside_the_domain_prove_nothing_for_free() {
    // A double may count as on the sphere and lie 1e-16 beyond it. Such a point, 1e-8 to the side of the minimizer, has the
    // objective of the minimizer: the gap alone says zero, so how far out it is must count.
    let rows = nothing(2);
    let domain = Domain::centred_ball(2, 1.0).unwrap();
    let labels = [0.0];
    let absolute = loss(LossSpec::Absolute { labels: Interval::UNIT });
    let mut misled = 0;
    for step in 0..4000 {
        let angle = 0.3 + 1e-4 * f64::from(step);
        let linear = [angle.cos(), angle.sin()];
        let problem = Problem::new(posed(&rows, absolute, &labels, &linear, domain.clone())).unwrap();
        let mut truth: Vec<Double> = linear.map(|s| Double::from(s) / Double::from(0.05)).to_vec();
        domain.project_number(&mut truth);
        let side = angle + 1e-8;
        let weights = [side.cos(), side.sin()];
        if !domain.contains(&weights) {
            continue;
        }
        let truth: Vec<f64> = truth.iter().map(|w| w.to_f64()).collect();
        let error = distance(&weights, &truth);
        let bound = certificate::duality_gap(&problem, &weights, &[0.0]).distance;
        assert!(error <= bound, "{error:e} {bound:e}");
        // what the gap alone would have claimed
        let outside = domain.outside(&weights);
        let gap = 0.5 * 0.05 * (bound - outside).powi(2) - problem.bounds.gradient_bound() * outside;
        misled += usize::from(error > (2.0 * gap.max(0.0) / 0.05).sqrt() * (1.0 + 1e-6) + 1e-13);
    }
    assert!(misled > 10, "the example shows nothing: {misled}");
}

#[test]
fn balls_inside_balls_are_balls() {
    let ball = |x: f64, radius| Ball::new(vec![x, 0.0], radius).unwrap();
    let rows = nothing(2);
    for (first, second) in
        [(ball(0.0, 1.0), ball(0.0, 1.0)), (ball(0.0, 3.0), ball(0.5, 1.0)), (ball(0.1, 0.2), ball(0.0, 9.0))]
    {
        let domain = Domain::two_balls(first, second).unwrap();
        let problem = Problem::new(posed(&rows, loss(LossSpec::Logistic), &[], &[1.0, 1.0], domain)).unwrap();
        assert!(problem.smallest_tolerance() < 1e-11, "{:e}", problem.smallest_tolerance());
        assert!(minimize(&problem, 1e-11).is_ok());
    }
}

#[test]
fn many_classes_round_their_probabilities_many_times() {
    // One class far ahead of thousands: every addition to the normaliser rounds up by almost a unit.
    let classes = 4096;
    let rows: Rows = DenseRows::from_rows(1, &[[16384i16]]).unwrap().into();
    let linear = vec![0.0; classes];
    let spec = ProblemSpec {
        row_norm: 1.0,
        regularization: 0.03,
        ..posed(
            &rows,
            loss(LossSpec::Softmax { classes }),
            &[],
            &linear,
            Domain::whole(classes, None).unwrap(),
        )
    };
    let problem = Problem::new(spec).unwrap();
    let mut weights = vec![0.0; classes];
    weights[0] = 36.6;
    let gradient = problem.passes.evaluate(&weights, passes::Smoothing::None, false).gradient;
    let small = Double::from(crate::math::exp(-36.6));
    let total = Double::from(1.0) + small * Double::from((classes - 1) as f64);
    let first = (Double::from(gradient[0]) - Double::from(1.0) / total).to_f64();
    let other = (Double::from(gradient[1]) - small / total).to_f64();
    let error = (first * first + (classes - 1) as f64 * other * other).sqrt();
    let bound = problem.bounds.gradient_error();
    assert!(error <= bound, "{error:e} {bound:e}");
}

/// A name, rows and labels.
type Named = (&'static str, Vec<Vec<i16>>, Vec<f64>);

/// Tables that make matrices singular, scores tie and rows vanish.
fn tables(loss: &Loss) -> Vec<Named> {
    let mut numbers = Numbers::new(9);
    let mut label = |i: usize| match loss.label_domain() {
        LabelDomain::Binary => (i % 2) as f64,
        LabelDomain::Signs => 1.0 - 2.0 * (i % 2) as f64,
        LabelDomain::Classes(classes) => (i % classes) as f64,
        LabelDomain::Within(Interval { low, high }) => low + (high - low) * (i % 5) as f64 / 4.0,
        LabelDomain::None => 0.0,
    };
    let mut random = |rows: usize| -> Vec<Vec<i16>> {
        (0..rows).map(|_| (0..3).map(|_| (numbers.symmetric() * 16384.0) as i16).collect()).collect()
    };
    let with = |rows: Vec<Vec<i16>>, label: &mut dyn FnMut(usize) -> f64| {
        let labels = (0..rows.len()).map(label).collect();
        (rows, labels)
    };
    let separable: Vec<Vec<i16>> = (0..60).map(|i| vec![16384 * (1 - 2 * (i % 2)), 100 * i, 0]).collect();
    let cases = [
        ("one row", random(1)),
        ("all the same", vec![vec![16384, -16384, 1]; 50]),
        ("zeros", vec![vec![0; 3]; 20]),
        ("one zero row", vec![vec![0; 3]]),
        ("collinear", random(40).into_iter().map(|r| vec![r[0], -r[0], r[0] / 2]).collect()),
        ("separable", separable),
        ("extreme", (0..30).map(|i| vec![if i % 2 == 0 { 32767 } else { -32767 }; 3]).collect()),
        ("tiny", (0..30).map(|i| vec![1, (i % 3) - 1, 0]).collect()),
        ("random", random(64)),
    ];
    cases
        .into_iter()
        .map(|(name, rows)| {
            let (rows, labels) = with(rows, &mut label);
            (name, rows, labels)
        })
        .collect()
}

#[test]
fn hostile_tables_are_solved_and_certificates_agree() {
    // Two starts, two storages: the balls around the two answers must meet, or one of the certificates lies.
    let interval = Interval::UNIT;
    let specs = [
        LossSpec::Logistic,
        LossSpec::Softmax { classes: 3 },
        LossSpec::Squared { labels: Interval { low: -1e6, high: 1e6 } },
        LossSpec::Poisson { max_count: 1e6, max_abs_score: 30.0 },
        LossSpec::Huber { threshold: 1e-6, labels: interval },
        LossSpec::PseudoHuber { threshold: 1e-3, labels: interval },
        LossSpec::SmoothedHinge { smoothing: 1e-6 },
        LossSpec::Hinge,
        LossSpec::Absolute { labels: interval },
        LossSpec::Quantile { level: 0.01, labels: interval },
        LossSpec::Mean,
    ];
    for loss in specs.map(loss) {
        let size = 3 * loss.outputs();
        for (name, table, labels) in tables(&loss) {
            let dense: Rows = DenseRows::from_rows(3, &table).unwrap().into();
            let sparse: Rows = SparseRows::from_rows(3, &table).unwrap().into();
            let weights: Vec<f64> = (0..table.len()).map(|i| [1.0, 0.0, 1e-9, 3.0][i % 4]).collect();
            let domains = [
                Domain::whole(size, None).unwrap(),
                Domain::centred_ball(size, 0.2).unwrap(),
                Domain::boxed(vec![0.0; size], vec![0.1; size]).unwrap(),
                Domain::boxed(vec![0.25; size], vec![0.25; size]).unwrap(),
                Domain::simplex(size).unwrap(),
                lens(size, 0.5, 0.3),
            ];
            for (regularization, domain) in
                [1.0, 1e-2].into_iter().flat_map(|l| domains.clone().map(|d| (l, d)))
            {
                let solve = |rows: &Rows, start: &[f64]| {
                    let problem = Problem::new(ProblemSpec {
                        rows,
                        row_norm: 4.0,
                        labels: Some(&labels),
                        row_weights: Some(&weights),
                        total_weight: table.len() as f64,
                        loss,
                        regularization,
                        anchor: None,
                        linear: None,
                        domain: domain.clone(),
                    })
                    .unwrap();
                    let wanted = problem.smallest_tolerance() * 2.0;
                    let wanted = wanted.max(if loss.is_smooth() { 1e-9 } else { 1e-5 });
                    if loss.is_mean() {
                        return minimize_from(&problem, wanted, Some(start)).unwrap();
                    }
                    let attempt = newton::attempt(&problem, wanted, start.to_vec());
                    assert!(
                        attempt.distance <= wanted || loss.is_smooth(),
                        "{} {name} {domain:?} {regularization}: the fast method stops at {:e} of {wanted:e}",
                        loss.name(),
                        attempt.distance
                    );
                    if attempt.distance <= wanted {
                        attempt.into_solution()
                    } else {
                        finisher::finish(&problem, wanted, attempt, false).unwrap()
                    }
                };
                let first = solve(&dense, &vec![0.0; size]);
                let second = solve(&sparse, &vec![0.5; size]);
                let apart = distance(&first.weights, &second.weights);
                let allowed = first.certificate.distance + second.certificate.distance;
                assert!(
                    apart <= allowed * (1.0 + 1e-12),
                    "{} {name} {domain:?}: {apart:e} {allowed:e}",
                    loss.name()
                );
                assert!(domain.contains(&first.weights) && domain.contains(&second.weights));
            }
        }
    }
}
