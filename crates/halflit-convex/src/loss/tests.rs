//! Every test loops over the registry of all losses, so that a new loss cannot be forgotten.

use super::*;
use crate::kernel::{Batch, KernelError, LatticeWeights, Level, RowSums, Rule};
use crate::rows::{DenseRows, Rows};
use crate::testing::Numbers;

/// Every loss, with parameters that exercise all of its pieces. The match makes forgetting one a compile error.
pub(crate) fn registry() -> Vec<Loss> {
    let labels = Interval { low: -1.5, high: 2.0 };
    let specs = [
        LossSpec::Logistic,
        LossSpec::Softmax { classes: 4 },
        LossSpec::Squared { labels },
        LossSpec::Poisson { max_count: 5.0, max_abs_score: 2.0 },
        LossSpec::Huber { threshold: 0.75, labels },
        LossSpec::PseudoHuber { threshold: 0.75, labels },
        LossSpec::Hinge,
        LossSpec::SmoothedHinge { smoothing: 0.5 },
        LossSpec::Absolute { labels },
        LossSpec::Quantile { level: 0.3, labels },
        LossSpec::Mean,
    ];
    let listed = |spec: &LossSpec| match spec {
        LossSpec::Logistic => 0,
        LossSpec::Softmax { .. } => 1,
        LossSpec::Squared { .. } => 2,
        LossSpec::Poisson { .. } => 3,
        LossSpec::Huber { .. } => 4,
        LossSpec::PseudoHuber { .. } => 5,
        LossSpec::Hinge => 6,
        LossSpec::SmoothedHinge { .. } => 7,
        LossSpec::Absolute { .. } => 8,
        LossSpec::Quantile { .. } => 9,
        LossSpec::Mean => 10,
    };
    for (index, spec) in specs.iter().enumerate() {
        assert_eq!(listed(spec), index);
    }
    specs.into_iter().map(|spec| Loss::new(spec).unwrap()).collect()
}

/// Labels of the domain: the ends, and points between where there are any.
fn labels(loss: &Loss) -> Vec<f64> {
    match loss.label_domain() {
        LabelDomain::Binary => vec![0.0, 1.0],
        LabelDomain::Signs => vec![-1.0, 1.0],
        LabelDomain::Classes(classes) => (0..classes).map(|class| class as f64).collect(),
        LabelDomain::Within(Interval { low, high }) => {
            (0..=10).map(|step| low + (high - low) * f64::from(step) / 10.0).collect()
        }
        LabelDomain::None => vec![0.0],
    }
}

/// Scores to test at: a grid for one output, quasi-random points for several.
fn scores(loss: &Loss) -> Vec<Vec<f64>> {
    let mut numbers = Numbers::new(1);
    match loss.outputs() {
        1 => (-160..=160).map(|step| vec![f64::from(step) / 40.0 + 1e-3]).collect(),
        outputs => (0..300).map(|_| (0..outputs).map(|_| 4.0 * numbers.symmetric()).collect()).collect(),
    }
}

pub(crate) fn derivative(loss: &Loss, scores: &[f64], label: f64) -> Vec<f64> {
    let mut derivative = vec![0.0; scores.len()];
    loss.derivative(scores, label, &mut derivative);
    derivative
}

/// Runs a check at every score and label of every loss that has scores.
fn everywhere(check: impl Fn(&Loss, &[f64], f64)) {
    for loss in registry().iter().filter(|loss| !loss.is_mean()) {
        for label in labels(loss) {
            for scores in scores(loss) {
                check(loss, &scores, label);
            }
        }
    }
}

#[test]
fn derivatives_agree_with_finite_differences() {
    everywhere(|loss, scores, label| {
        let step = 1e-6;
        for (index, slope) in derivative(loss, scores, label).into_iter().enumerate() {
            let at = |shift: f64| {
                let mut moved = scores.to_vec();
                moved[index] += shift;
                loss.value(&moved, label)
            };
            // a kink within the step would show as a slope between the two sides: the grid avoids kinks
            let difference = (at(step) - at(-step)) / (2.0 * step);
            let scale = 1.0 + loss.value(scores, label).abs() + slope.abs();
            assert!(
                (difference - slope).abs() <= 1e-6 * scale,
                "{} {scores:?} {label}: {difference} {slope}",
                loss.name()
            );
        }
    });
}

#[test]
fn losses_are_convex() {
    everywhere(|loss, scores, label| {
        let mut numbers = Numbers::new(9);
        let slope = derivative(loss, scores, label);
        for _ in 0..5 {
            let other: Vec<f64> = scores.iter().map(|z| z + 3.0 * numbers.symmetric()).collect();
            let tangent: f64 = loss.value(scores, label)
                + slope.iter().zip(&other).zip(scores).map(|((s, o), z)| s * (o - z)).sum::<f64>();
            let value = loss.value(&other, label);
            assert!(tangent <= value + 1e-12 * (1.0 + value.abs()), "{} {scores:?} {label}", loss.name());
        }
    });
}

#[test]
fn bounds_hold_and_are_reached() {
    for loss in registry().iter().filter(|loss| !loss.is_mean()) {
        let bound = loss.derivative_bound(4.01);
        let mut largest = 0.0f64;
        let mut steepest = 0.0f64;
        for label in labels(loss) {
            for scores in scores(loss) {
                let slope = derivative(loss, &scores, label);
                let norm = slope.iter().map(|s| s * s).sum::<f64>().sqrt();
                assert!(norm <= bound, "{} {norm} {bound}", loss.name());
                largest = largest.max(norm);
                if let Some(curvature) = loss.curvature_bound() {
                    let moved: Vec<f64> =
                        scores.iter().enumerate().map(|(i, z)| z + 0.01 * (i as f64 - 0.5)).collect();
                    let change: f64 = derivative(loss, &moved, label)
                        .iter()
                        .zip(&slope)
                        .map(|(a, b)| (a - b) * (a - b))
                        .sum::<f64>()
                        .sqrt();
                    let distance: f64 =
                        moved.iter().zip(&scores).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
                    assert!(change <= curvature * distance * (1.0 + 1e-9), "{}", loss.name());
                    steepest = steepest.max(change / distance / curvature);
                }
            }
        }
        // Neither bound is idle: the tests' scores come within a few per cent of it (softmax: within a half).
        assert!(largest >= 0.5 * bound, "{} {largest} {bound}", loss.name());
        assert!(!loss.is_smooth() || steepest >= 0.4, "{} {steepest}", loss.name());
    }
}

#[test]
fn values_stay_within_their_bound() {
    for loss in registry().iter().filter(|loss| !loss.is_mean()) {
        let Some(bound) = loss.value_bound(4.01) else { continue };
        let values: Vec<f64> = labels(loss)
            .iter()
            .flat_map(|&label| scores(loss).into_iter().map(move |scores| loss.value(&scores, label)))
            .collect();
        assert!(values.iter().all(|value| (0.0..=bound).contains(value)), "{}", loss.name());
        assert!(values.iter().any(|&value| value >= 0.5 * bound), "{}", loss.name());
    }
}

#[test]
fn conjugates_satisfy_fenchel_young() {
    for loss in registry().iter().filter(|loss| loss.outputs() == 1 && !loss.is_mean()) {
        for label in labels(loss) {
            for score in scores(loss) {
                let z = score[0];
                let value = loss.value(&[z], label);
                // equality at the derivative
                let slope = derivative(loss, &[z], label)[0];
                let conjugate = loss.conjugate(slope, label).unwrap();
                let gap = value + conjugate - slope * z;
                let scale = 1.0 + value.abs() + (slope * z).abs();
                assert!(gap.abs() <= 1e-13 * scale, "{} {z} {label}: {gap:e}", loss.name());
                // inequality everywhere else
                for other in [-3.1, -1.0, -0.6, -0.3, 0.0, 0.2, 0.7, 1.0, 2.2] {
                    let conjugate = loss.conjugate(other, label).unwrap();
                    assert!(
                        value + conjugate >= other * z - 1e-12 * scale,
                        "{} {z} {label} {other}",
                        loss.name()
                    );
                }
            }
        }
    }
}

#[test]
fn curvature_is_the_derivative_of_the_derivative() {
    for loss in registry() {
        with_scalar!(loss.form(), scalar => for label in labels(&loss) {
            for score in scores(&loss) {
                let (z, step) = (score[0], 1e-6);
                let (left, right) = (scalar.derivative(z - step, label), scalar.derivative(z + step, label));
                let numeric = (right - left) / (2.0 * step);
                let exact = scalar.curvature(z, label);
                assert!((numeric - exact).abs() <= 1e-5 * (1.0 + exact), "{} {z} {label}: {numeric} {exact}", loss.name());
            }
        }, _ => ());
    }
}

#[test]
fn label_ranges_hold_every_label() {
    for loss in registry().iter().filter(|loss| loss.outputs() == 1 && !loss.is_mean()) {
        let radius = loss.midrange_radius(4.01);
        let mut widest = 0.0f64;
        for score in scores(loss) {
            let (low, high) = loss.derivative_range(score[0]).unwrap();
            let slopes: Vec<f64> =
                labels(loss).iter().map(|&label| derivative(loss, &score, label)[0]).collect();
            for slope in &slopes {
                assert!((low..=high).contains(slope), "{} {} {slope}", loss.name(), score[0]);
            }
            // the ends are attained
            assert!(slopes.contains(&low) && slopes.contains(&high), "{}", loss.name());
            assert!(0.5 * (high - low) <= radius * (1.0 + 1e-15), "{}", loss.name());
            widest = widest.max(0.5 * (high - low));
        }
        assert!(widest >= 0.9 * radius, "{} {widest} {radius}", loss.name());
    }
}

#[test]
fn the_softmax_centre_is_equally_far_from_every_label() {
    let Form::Softmax(softmax) = Loss::new(LossSpec::Softmax { classes: 4 }).unwrap().form() else {
        panic!()
    };
    let scores = [0.3, -1.0, 2.0, 0.1];
    let mut centre = [0.0; 4];
    softmax.probabilities(&scores, 1, &mut centre);
    centre.iter_mut().for_each(|p| *p -= 0.25);
    for label in 0..4 {
        let mut slope = [0.0; 4];
        softmax.derivative(&scores, f64::from(label), &mut slope);
        let distance: f64 = slope.iter().zip(&centre).map(|(s, c)| (s - c) * (s - c)).sum::<f64>().sqrt();
        assert!((distance - softmax.midrange_radius()).abs() <= 1e-15, "{distance}");
    }
}

#[test]
fn kinks_describe_their_loss() {
    for loss in registry() {
        with_scalar!(loss.form(), scalar => for label in labels(&loss) {
            assert_eq!(scalar.kink(label).is_some(), !loss.is_smooth());
            let Some(kink) = scalar.kink(label) else { continue };
            for score in scores(&loss) {
                let z = score[0];
                for share in [0.0, 0.25, 0.5, 1.0] {
                    let slope = kink.low_slope + share * (kink.high_slope - kink.low_slope);
                    let direct = scalar.value(z, label) + scalar.conjugate(slope, label) - slope * z;
                    let stable = kink.fenchel_young(z - kink.at, slope);
                    assert!(stable >= 0.0 && (direct - stable).abs() <= 1e-13, "{} {direct} {stable}", loss.name());
                }
            }
        }, _ => ());
    }
}

#[test]
fn specs_survive_json_and_bad_ones_do_not() {
    for loss in registry() {
        let text = serde_json::to_string(&loss).unwrap();
        assert_eq!(serde_json::from_str::<Loss>(&text).unwrap(), loss);
        assert!(text.contains(loss.name()), "{text}");
    }
    let bad = [
        r#"{"name":"softmax","classes":1}"#,
        r#"{"name":"squared","labels":{"low":1.0,"high":1.0}}"#,
        r#"{"name":"squared","labels":{"low":-1e9,"high":1.0}}"#,
        r#"{"name":"poisson","max_count":0.0,"max_abs_score":1.0}"#,
        r#"{"name":"poisson","max_count":1.0,"max_abs_score":31.0}"#,
        r#"{"name":"huber","threshold":-1.0,"labels":{"low":-1.0,"high":1.0}}"#,
        r#"{"name":"smoothed-hinge","smoothing":0.0}"#,
        r#"{"name":"quantile","level":1.0,"labels":{"low":-1.0,"high":1.0}}"#,
        r#"{"name":"smoothed-hinge","smoothing":1.0,"width":1.0}"#,
    ];
    for text in bad {
        assert!(serde_json::from_str::<Loss>(text).is_err(), "{text}");
    }
    let nan = LossSpec::Quantile { level: f64::NAN, labels: Interval::UNIT };
    assert!(matches!(Loss::new(nan), Err(LossError::Parameter { name: "level", .. })));
    let nan = LossSpec::Absolute { labels: Interval { low: f64::NAN, high: 1.0 } };
    assert!(matches!(Loss::new(nan), Err(LossError::Labels { .. })));
}

#[test]
fn label_domains_know_their_labels() {
    for loss in registry() {
        let domain = loss.label_domain();
        assert!(labels(&loss).iter().all(|&label| domain.contains(label)));
        assert!(loss.is_mean() || !domain.contains(f64::NAN));
        assert!(loss.is_mean() || !domain.contains(1e9));
    }
    assert!(!LabelDomain::Binary.contains(0.5) && !LabelDomain::Classes(3).contains(1.5));
}

/// One row of ones: the sum of a one-row pass is the coefficient itself, once per column.
fn coefficients(
    loss: &Loss,
    rule: &LossRule<'_>,
    rows: &Rows,
    weights: &[f64],
    level: Level,
) -> Vec<Vec<i64>> {
    let weights = LatticeWeights::new(weights, loss.outputs()).unwrap();
    let sums = RowSums::new(rows, 1 << 45).unwrap().at_level(level);
    (0..rows.len() as u32).map(|row| sums.sum(&weights, rule, Batch::Only(&[row])).unwrap()).collect()
}

#[test]
fn rules_are_the_scaled_derivatives_at_every_level() {
    let mut numbers = Numbers::new(4);
    for loss in registry() {
        let all = labels(&loss);
        let rows: Vec<[i16; 2]> = (0..40).map(|_| [16384, (numbers.symmetric() * 16384.0) as i16]).collect();
        let rows: Rows = DenseRows::from_rows(2, &rows).unwrap().into();
        let labels: Vec<f64> = (0..40).map(|row| all[row % all.len()]).collect();
        let row_weights: Vec<f64> = (0..40).map(|row| 1.0 + f64::from(row)).collect();
        // weights on a coarse grid, so that the lattice holds them exactly
        let weights: Vec<f64> = (0..2 * loss.outputs()).map(|j| (j as f64 - 1.5) / 4.0).collect();
        let scale = 100_000.0;
        let rules = [
            LossRule::derivative(loss, &labels, scale),
            LossRule::midrange(loss, scale),
            LossRule::around_midrange(loss, &labels, scale),
        ];
        let expected: Vec<Vec<Vec<i64>>> =
            rules.iter().map(|rule| coefficients(&loss, rule, &rows, &weights, Level::best())).collect();
        for (rule, expected) in rules.iter().zip(&expected) {
            for &level in Level::available() {
                assert_eq!(&coefficients(&loss, rule, &rows, &weights, level), expected, "{}", loss.name());
            }
        }
        let weighted = coefficients(&loss, &rules[0].weighted(&row_weights), &rows, &weights, Level::best());
        for row in 0..40 {
            let q = rows.dense_row(row).unwrap();
            let scores: Vec<f64> = weights
                .chunks_exact(2)
                .map(|w| (w[0] * f64::from(q[0]) + w[1] * f64::from(q[1])) / 16384.0)
                .collect();
            for (output, slope) in derivative(&loss, &scores, labels[row]).into_iter().enumerate() {
                // the first feature is 2^14
                let found = |sums: &[Vec<i64>]| sums[row][2 * output] / 16384;
                if rules[0].in_single().is_some() {
                    let apart = (found(&expected[0]) as f64 - scale * slope).abs();
                    assert!(apart <= 0.5 + scale * 2f64.powi(-21), "{}", loss.name());
                } else {
                    let nearest = (scale * slope).round_ties_even() as i64;
                    assert_eq!(found(&expected[0]), nearest, "{}", loss.name());
                }
                assert_eq!(found(&weighted), (scale * slope * row_weights[row]).round_ties_even() as i64);
                let parts = found(&expected[1]) + found(&expected[2]);
                assert!((parts - found(&expected[0])).abs() <= 1 || loss.is_mean(), "{}", loss.name());
            }
        }
    }
}

#[test]
fn rules_refuse_columns_of_another_length() {
    let loss = Loss::new(LossSpec::Logistic).unwrap();
    let rows: Rows = DenseRows::from_rows(1, &[[1], [2]]).unwrap().into();
    let weights = LatticeWeights::new(&[0.0], 1).unwrap();
    let sums = RowSums::new(&rows, 100).unwrap();
    let short = LossRule::derivative(loss, &[1.0], 1.0);
    assert!(matches!(
        sums.sum(&weights, &short, Batch::All),
        Err(KernelError::Length { name: "the labels", .. })
    ));
    let ok = LossRule::midrange(loss, 1.0);
    assert!(sums.sum(&weights, &ok, Batch::All).is_ok());
    assert!(sums.sum(&weights, &ok.weighted(&[1.0; 3]), Batch::All).is_err());
}
