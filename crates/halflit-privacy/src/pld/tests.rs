use super::mixture_lattice::Widths;
use super::*;
use compose::{Factor, compose};

fn mixture(rate: f64, noise: f64, two_sided: bool) -> Pair {
    Pair::Mixture(Mixture { rate, shift: 1.0 / noise, two_sided })
}

/// Every kind of pair, for tests that hold for all.
fn pairs() -> Vec<Pair> {
    let curve = crate::renyi::RenyiCurve::from_bounds(|order| 0.02 * order);
    vec![
        mixture(0.01, 1.0, false),
        mixture(0.3, 0.5, false),
        mixture(0.999, 2.0, false),
        mixture(0.01, 1.0, true),
        mixture(0.6, 0.7, true),
        Pair::gaussian(0.3),
        Pair::FixedSize(Mixture { rate: 0.05, shift: 0.8, two_sided: false }),
        Pair::FixedSize(Mixture { rate: 0.7, shift: 2.0, two_sided: false }),
        Pair::Laplace(0.37),
        Pair::RandomizedResponse { eps: 0.61, delta: 0.0 },
        Pair::RandomizedResponse { eps: 0.61, delta: 1e-4 },
        Pair::Curve(Rc::new(BoundCurve::new(curve))),
    ]
}

/// delta of a law on the grid, by its definition.
fn lattice_delta(lattice: &Lattice, eps: f64) -> f64 {
    let above =
        |&(index, mass): &(i64, f64)| -mass * libm::expm1((eps - index as f64 * lattice.spacing).min(0.0));
    lattice.infinite + lattice.upper.iter().map(above).sum::<f64>()
}

/// Section 2 of the proof: the law on the grid lies above the exact curve everywhere, agrees with it at grid points, and
/// its masses add up to one, in both directions and with wide cells.
#[test]
fn the_grid_dominates_and_touches_at_grid_points() {
    let wide = Widths { right: vec![(8, 4), (40, 64)], left: vec![(8, 4), (40, 64)] };
    for pair in pairs() {
        for direction in [Direction::Forward, Direction::Reversed] {
            for (spacing, widths) in
                [(0.0625, Widths::default()), (0.25, Widths::default()), (0.015625, wide.clone())]
            {
                let lattice = pair.lattice(direction, spacing, 1e-18, &widths);
                let is_bound = matches!(pair, Pair::Curve(_));
                for step in 0..60 {
                    let eps = 0.037 * f64::from(step);
                    let (grid, exact) = (lattice_delta(&lattice, eps), pair.delta(eps, direction));
                    // A bound's convex hull may lie below the bound itself.
                    assert!(
                        is_bound || grid >= exact * (1.0 - 1e-11) - 1e-16,
                        "{pair:?} {direction:?} {spacing} {eps}: {grid} {exact}"
                    );
                    let on_grid = spacing * f64::from(step);
                    let (grid, exact) = (lattice_delta(&lattice, on_grid), pair.delta(on_grid, direction));
                    if widths.right.is_empty() && !is_bound {
                        assert!(
                            grid <= exact * (1.0 + 1e-9) + 1e-13,
                            "{pair:?} {direction:?} {spacing} {on_grid}: {grid} {exact}"
                        );
                    }
                }
                let mass = lattice.infinite + lattice.upper.iter().map(|entry| entry.1).sum::<f64>();
                assert!((mass - 1.0).abs() < 1e-6, "{pair:?} {direction:?} {spacing}: {mass}");
                // The cells of the lower bound are a partition of the outcomes: both measures add up to one.
                let cells = |mass: fn(&lattice::Cell) -> f64| lattice.cells.iter().map(mass).sum::<f64>();
                if !is_bound {
                    let expected = 1.0 - lattice.revealed;
                    assert!(
                        (cells(|cell| cell.p) - expected).abs() < 1e-9,
                        "{pair:?} {direction:?} {spacing}"
                    );
                    assert!(
                        (cells(|cell| cell.q) - expected).abs() < 1e-9,
                        "{pair:?} {direction:?} {spacing}"
                    );
                }
            }
        }
    }
}

/// Section 4: transforms and sums of products give the same law, within the transform's stated error.
#[test]
fn transforms_agree_with_sums_of_products_within_their_error() {
    let first = mixture(0.1, 1.0, false).lattice(Direction::Forward, 0.03125, 1e-15, &Widths::default());
    let second = Pair::Laplace(0.5).lattice(Direction::Forward, 0.03125, 1e-15, &Widths::default());
    for (theta, counts) in [(0.0, (1, 1)), (2.5, (7, 3)), (8.0, (40, 1)), (1.0, (1000, 2))] {
        let factors =
            [Factor { law: &first.upper, count: counts.0 }, Factor { law: &second.upper, count: counts.1 }];
        let fft = RealFft::new(1024);
        let fast = compose(&factors, 0.03125, theta, -100, Method::Transform(&fft));
        let slow = compose(&factors, 0.03125, theta, -100, Method::Direct(1024));
        assert_eq!(fast.log_scale, slow.log_scale);
        let relative = fast.weight_error + slow.weight_error;
        let mut largest = 0.0f64;
        for (a, b) in fast.tilted.iter().zip(&slow.tilted) {
            largest = largest.max((a - b).abs());
            assert!(
                (a - b).abs() <= fast.entry_error + relative * b,
                "{theta} {counts:?}: {a} {b} {}",
                fast.entry_error
            );
        }
        // The bound is not vacuous either.
        assert!(fast.entry_error < 1e-9, "{}", fast.entry_error);
    }
}

/// One- and two-fold compositions of every exact pair: the interval holds the exact value and is narrow.
#[test]
fn intervals_hold_the_exact_single_release() {
    let composer = Composer::default();
    for pair in pairs() {
        if matches!(pair, Pair::Curve(_)) {
            continue;
        }
        for direction in [Direction::Forward, Direction::Reversed] {
            for eps in [0.0, 0.05, 0.3, 1.3] {
                let exact = pair.delta(eps, direction);
                if exact < 1e-280 {
                    continue;
                }
                let answer = composer.delta(&[(pair.clone(), 1)], direction, eps);
                assert!(
                    answer.lower <= exact * (1.0 + 1e-11) && exact <= answer.upper * (1.0 + 1e-11),
                    "{pair:?} {direction:?} {eps}: {answer:?} {exact}"
                );
            }
        }
    }
}

/// Ten steps with rare large losses, where the transform's round-off is larger than delta and the tilt cannot help:
/// sums of products keep the interval narrow. (dp_accounting 0.6.0 says 0.68652.)
#[test]
fn rare_large_losses_do_not_drown_in_round_off() {
    let composer = Composer::default();
    let pairs = [(mixture(1e-4, 0.7, false), 10)];
    let answer = composer.epsilon(&pairs, Direction::Forward, 1e-12);
    assert!(answer.upper <= 1.001 * answer.lower && (answer.upper - 0.68652).abs() < 1e-3, "{answer:?}");
}
