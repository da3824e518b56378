use super::*;
use crate::double::Double;
use crate::testing::Numbers;

fn domains(dimension: usize) -> Vec<Domain> {
    let centre: Vec<f64> = (0..dimension).map(|j| (j as f64 * 0.7).sin()).collect();
    let shifted: Vec<f64> = centre.iter().map(|c| c + 0.8).collect();
    let ball = |centre: &[f64], radius| Ball::new(centre.to_vec(), radius).unwrap();
    let apart = 0.8 * (dimension as f64).sqrt();
    vec![
        Domain::whole(dimension, Some(3.0)).unwrap(),
        Domain::centred_ball(dimension, 1.25).unwrap(),
        Domain::ball(centre.clone(), 0.3).unwrap(),
        Domain::boxed(centre.iter().map(|c| c - 0.5).collect(), centre.iter().map(|c| c + 0.25).collect())
            .unwrap(),
        Domain::boxed(centre.clone(), centre.clone()).unwrap(),
        Domain::simplex(dimension).unwrap(),
        // a thin lens, a fat one, and one ball inside the other
        Domain::two_balls(ball(&centre, 0.6 * apart), ball(&shifted, 0.45 * apart)).unwrap(),
        Domain::two_balls(ball(&centre, 1.1 * apart), ball(&shifted, 0.9 * apart)).unwrap(),
        Domain::two_balls(ball(&centre, 3.0 * apart), ball(&shifted, 0.5 * apart)).unwrap(),
    ]
}

fn point(numbers: &mut Numbers, dimension: usize, size: f64) -> Vec<f64> {
    (0..dimension).map(|_| size * numbers.symmetric()).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

fn projected(domain: &Domain, point: &[f64]) -> Vec<f64> {
    let mut copy = point.to_vec();
    domain.project(&mut copy);
    copy
}

#[test]
fn projections_are_inside_idempotent_nonexpansive_and_nearest() {
    for dimension in [1, 2, 3, 10, 57] {
        for (index, domain) in domains(dimension).iter().enumerate() {
            let mut numbers = Numbers::new(index as u64);
            let samples: Vec<Vec<f64>> =
                (0..30).map(|_| projected(domain, &point(&mut numbers, dimension, 4.0))).collect();
            for size in [0.1, 1.0, 10.0, 1e6] {
                for _ in 0..25 {
                    let outside = point(&mut numbers, dimension, size);
                    let nearest = projected(domain, &outside);
                    assert!(domain.contains(&nearest), "{domain:?} {outside:?} {nearest:?}");
                    let again = projected(domain, &nearest);
                    assert!(distance(&again, &nearest) <= domain.slack(), "{domain:?} not idempotent");
                    let other = point(&mut numbers, dimension, size);
                    let moved = distance(&nearest, &projected(domain, &other));
                    assert!(moved <= distance(&outside, &other) + 1e-9 * size, "{domain:?} expands");
                    // <v - Pv, u - Pv> <= 0 for every u of the domain
                    for sample in &samples {
                        let inner: f64 = (0..dimension)
                            .map(|j| (outside[j] - nearest[j]) * (sample[j] - nearest[j]))
                            .sum();
                        assert!(inner <= 1e-8 * (1.0 + size), "{domain:?} {inner:e}");
                    }
                    if let Some(diameter) = domain.diameter() {
                        assert!(
                            samples
                                .iter()
                                .all(|u| distance(u, &nearest) <= diameter * (1.0 + 1e-12) + domain.slack())
                        );
                    }
                    if let Some(norm) = domain.max_norm() {
                        assert!(nearest.iter().map(|w| w * w).sum::<f64>().sqrt() <= norm * (1.0 + 1e-12));
                    }
                }
            }
        }
    }
}

#[test]
fn points_of_the_domain_stay() {
    let mut numbers = Numbers::new(77);
    for domain in domains(5) {
        for _ in 0..50 {
            let inside = projected(&domain, &point(&mut numbers, 5, 0.5));
            assert!(distance(&projected(&domain, &inside), &inside) <= domain.slack());
        }
    }
}

#[test]
fn pairs_of_doubles_project_to_the_same_place() {
    let mut numbers = Numbers::new(5);
    for dimension in [1, 2, 7] {
        for domain in domains(dimension) {
            for _ in 0..50 {
                let outside = point(&mut numbers, dimension, 3.0);
                let mut fine: Vec<Double> = outside.iter().map(|&w| Double::from(w)).collect();
                domain.project_number(&mut fine);
                let fine: Vec<f64> = fine.iter().map(|w| w.to_f64()).collect();
                assert!(distance(&fine, &projected(&domain, &outside)) <= 1e-13, "{domain:?}");
                let error = domain.double_error(10.0);
                assert!((0.0..1e-12).contains(&error), "{domain:?} {error:e}");
            }
        }
    }
}

#[test]
fn pairs_of_doubles_stay_within_their_stated_error() {
    // Exact facts about the projected point, checked in pairs of doubles: on the sphere, on the plane sum = 1.
    let mut numbers = Numbers::new(6);
    for domain in domains(6) {
        for _ in 0..50 {
            let mut fine: Vec<Double> =
                point(&mut numbers, 6, 9.0).into_iter().map(|w| Double::from(w + 20.0)).collect();
            domain.project_number(&mut fine);
            let error = domain.double_error(100.0);
            let residue = |ball: &Ball| {
                let squared = fine
                    .iter()
                    .zip(ball.centre())
                    .fold(Double::ZERO, |sum, (&w, &c)| sum + (w - Double::from(c)) * (w - Double::from(c)));
                (squared.sqrt() - Double::from(ball.radius())).to_f64()
            };
            match domain.shape() {
                Shape::Ball(ball) => assert!(residue(ball).abs() <= error),
                Shape::TwoBalls(balls) => {
                    let both = [residue(&balls.first), residue(&balls.second)];
                    assert!(
                        both.iter().all(|&r| r <= error) && both.iter().any(|&r| r >= -error),
                        "{both:?} {error:e}"
                    );
                }
                Shape::Simplex { .. } => {
                    let sum = fine.iter().fold(Double::from(-1.0), |sum, &w| sum + w);
                    assert!(sum.to_f64().abs() <= 6f64.sqrt() * error, "{:e} {error:e}", sum.to_f64());
                }
                Shape::Whole { .. } | Shape::Box { .. } => {}
            }
        }
    }
}

#[test]
fn touching_balls_have_a_stated_slack() {
    let ball = |x: f64, radius| Ball::new(vec![x, 0.0], radius).unwrap();
    let domain = Domain::two_balls(ball(0.0, 1.0), ball(3.0, 2.0)).unwrap();
    assert!(domain.slack() > 0.0 && domain.slack() < 1e-6);
    let nearest = projected(&domain, &[1.0, 5.0]);
    assert!(distance(&nearest, &[1.0, 0.0]) <= domain.slack() && domain.contains(&nearest));
    assert!(matches!(Domain::two_balls(ball(0.0, 1.0), ball(3.5, 2.0)), Err(DomainError::Disjoint { .. })));
}

#[test]
fn bad_domains_are_refused() {
    for radius in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Domain::centred_ball(2, radius), Err(DomainError::Radius { .. })));
        assert!(matches!(Domain::whole(2, Some(radius)), Err(DomainError::Radius { .. })));
    }
    assert!(matches!(Domain::ball(vec![0.0, f64::NAN], 1.0), Err(DomainError::Coordinate { index: 1, .. })));
    assert!(matches!(Domain::boxed(vec![0.0], vec![-1.0]), Err(DomainError::Side { index: 0, .. })));
    assert!(matches!(Domain::boxed(vec![0.0], vec![]), Err(DomainError::Dimension { .. })));
    assert!(matches!(Domain::simplex(0), Err(DomainError::Dimension { .. })));
    assert!(matches!(Domain::whole(0, None), Err(DomainError::Dimension { .. })));
    assert!(!Domain::centred_ball(2, 1.0).unwrap().contains(&[0.0]));
    assert!(!Domain::whole(1, None).unwrap().contains(&[f64::NAN]));
}
