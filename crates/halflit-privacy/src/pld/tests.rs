use super::lattice::Decisive;
use super::mixture_lattice::Widths;
use super::tail_sums::Masses;
use super::*;
use compose::{Factor, compose, log_beyond};

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
    let decisive = lattice.decisive.p - libm::exp(eps - lattice.decisive.loss) * lattice.decisive.q_lifted;
    lattice.infinite + lattice.upper.iter().map(above).sum::<f64>() + decisive
}

/// Section 2 of the proof: the law on the grid lies above the exact curve everywhere, agrees with it at grid points, and
/// its masses add up to one, in both directions, with wide cells, and with large losses kept apart.
#[test]
fn the_grid_dominates_and_touches_at_grid_points() {
    let wide = Widths { right: vec![(8, 4), (40, 64)], left: vec![(8, 4), (40, 64)] };
    for pair in pairs() {
        for direction in [Direction::Forward, Direction::Reversed] {
            for (spacing, decisive, widths) in [
                (0.0625, i64::MAX, Widths::default()),
                (0.25, i64::MAX, Widths::default()),
                (0.015625, i64::MAX, wide.clone()),
                (0.0625, 36, Widths::default()),
            ] {
                let lattice = pair.lattice(direction, spacing, 1e-18, decisive, &widths);
                let is_bound = matches!(pair, Pair::Curve(_));
                // Below what is kept apart.
                for step in 0..60.min(decisive as i32) {
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
                let mass = lattice.infinite
                    + lattice.decisive.p
                    + lattice.upper.iter().map(|entry| entry.1).sum::<f64>();
                assert!((mass - 1.0).abs() < 1e-6, "{pair:?} {direction:?} {spacing}: {mass}");
                // The cells of the lower bound are a partition of the outcomes: both measures add up to one.
                let lowered =
                    |cell: &lattice::Cell| cell.q_lifted * libm::exp(-(cell.index as f64) * lattice.spacing);
                if !is_bound {
                    let expected = 1.0 - lattice.revealed;
                    let Decisive { p, q_lifted, loss } = lattice.decisive;
                    assert!(
                        (lattice.cells.iter().map(|cell| cell.p).sum::<f64>() + p - expected).abs() < 1e-9,
                        "{pair:?} {direction:?} {spacing}"
                    );
                    assert!(
                        (lattice.cells.iter().map(lowered).sum::<f64>() + q_lifted * libm::exp(-loss)
                            - expected)
                            .abs()
                            < 1e-9,
                        "{pair:?} {direction:?} {spacing}"
                    );
                }
            }
        }
    }
}

/// Just above the smallest loss the outcome at a grid point lies far to the left, where no mass is; the cell above it must
/// not be taken for one that reaches below the smallest loss.
#[test]
fn grid_points_next_to_the_smallest_loss_add_no_mass() {
    for (rate, noise) in [(2.04e-4, 29.4), (1e-3, 50.0), (0.3, 20.0), (1e-4, 0.4)] {
        let pair = mixture(rate, noise, false);
        for part in [0.3, 0.893, 0.999, 1.0, 1.001] {
            let spacing = -part * libm::log1p(-rate);
            let lattice = pair.lattice(Direction::Forward, spacing, 1e-18, i64::MAX, &Widths::default());
            let mass = lattice.infinite + lattice.upper.iter().map(|entry| entry.1).sum::<f64>();
            assert!((mass - 1.0).abs() < 1e-9, "{rate} {noise} {part}: {mass}");
        }
    }
}

/// The cyclic convolution of two laws by its definition.
fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let len = a.len();
    let mut result = vec![0.0; len];
    for (shift, &factor) in a.iter().enumerate().filter(|entry| *entry.1 > 0.0) {
        for (index, value) in b.iter().enumerate() {
            result[(index + shift) % len] += factor * value;
        }
    }
    result
}

/// The tilted law folded onto a cycle, normalised by its own sum.
fn tilted_cycle(lattice: &Lattice, theta: f64, len: usize) -> Vec<f64> {
    let log_norm = compose::log_moment(&lattice.upper, lattice.spacing, theta);
    let mut cycle = vec![0.0; len];
    for &(index, mass) in &lattice.upper {
        let weight = libm::exp(theta * (index as f64 * lattice.spacing) - log_norm);
        cycle[index.rem_euclid(len as i64) as usize] += mass * weight;
    }
    cycle
}

/// Section 4: transforms and sums of products give the same law, within the transform's stated error.
#[test]
fn transforms_agree_with_sums_of_products_within_their_error() {
    let lattice = |pair: Pair| pair.lattice(Direction::Forward, 0.03125, 1e-15, i64::MAX, &Widths::default());
    let (first, second) = (lattice(mixture(0.1, 1.0, false)), lattice(Pair::Laplace(0.5)));
    let (len, start) = (1024, -100i64);
    let mut kinds = std::collections::HashSet::new();
    let fft = Rc::new(RealFft::new(len));
    for (theta, counts) in [(0.0, (1, 1)), (2.5, (7, 3)), (8.0, (40, 1)), (1.0, (1024, 2)), (0.0, (4096, 8))]
    {
        let factors =
            [Factor { law: &first.upper, count: counts.0 }, Factor { law: &second.upper, count: counts.1 }];
        let fast = compose(&factors, 0.03125, theta, start, &fft);
        let mut slow = vec![0.0; len];
        slow[0] = 1.0;
        for (lattice, count) in [(&first, counts.0), (&second, counts.1)] {
            let cycle = tilted_cycle(lattice, theta, len);
            // By repeated squaring.
            for bit in (0..64).filter(|bit| count >> bit & 1 == 1) {
                let power = (0..bit).fold(cycle.clone(), |square, _| convolved(&square, &square));
                slow = convolved(&slow, &power);
            }
        }
        // Sums of products are within (copies) (len + 2) u of exact, relatively.
        let relative = fast.weight_error + 5e3 * 1026.0 * 1.2e-16;
        let exact = |j: usize| slow[(start + j as i64).rem_euclid(len as i64) as usize];
        if let Masses::Entries { masses, entry_error, norm_error } = &fast.masses {
            let mut squares = 0.0;
            for (j, a) in masses.iter().enumerate() {
                let b = exact(j);
                assert!((a - b).abs() <= entry_error + relative * b, "{theta} {counts:?}: {a} {b}");
                squares += ((a - b).abs() - relative * b).max(0.0).powi(2);
            }
            assert!(squares.sqrt() <= *norm_error, "{theta} {counts:?}");
        }
        kinds.insert(matches!(fast.masses, Masses::Entries { .. }));
        // Tail sums, read off whichever way.
        for rate in [theta, theta + 1.0] {
            let tails = fast.masses.tails(rate, 0.03125);
            let mut sum = 0.0;
            for j in (0..len).rev() {
                sum = exact(j) + libm::exp(-rate * 0.03125) * sum;
                let error = tails.round_off + (tails.sum_error + relative + 1e-12) * sum;
                assert!((tails.at(j) - sum).abs() <= error, "{theta} {counts:?} {j}: {} {sum}", tails.at(j));
            }
            // The bound is not vacuous either.
            assert!(tails.round_off < 1e-8, "{}", tails.round_off);
        }
    }
    assert_eq!(kinds.len(), 2, "both ways of reading off were tried");
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
                let answer = composer.delta(&[(pair.clone(), 1)], direction, eps, 0.0);
                assert!(
                    answer.lower <= exact * (1.0 + 1e-11) && exact <= answer.upper * (1.0 + 1e-11),
                    "{pair:?} {direction:?} {eps}: {answer:?} {exact}"
                );
            }
        }
    }
}

/// Ten steps with rare large losses: no tilt would make the transform's round-off small against delta if they were on
/// the grid. (dp_accounting 0.6.0 says 0.68652.)
#[test]
fn rare_large_losses_do_not_drown_in_round_off() {
    let composer = Composer::default();
    let pairs = [(mixture(1e-4, 0.7, false), 10)];
    let answer = composer.epsilon(&pairs, Direction::Forward, 1e-12, 0.0);
    assert!(answer.upper <= 1.001 * answer.lower && (answer.upper - 0.68652).abs() < 1e-3, "{answer:?}");
}

/// Lifted masses may add up to more than one, and so may what lies beyond the window.
#[test]
fn what_lies_beyond_the_window_may_exceed_one() {
    let law = [(10, 5.0)];
    let beyond = |tilt: f64| log_beyond(&[Factor { law: &law, count: 2 }], 1.0, tilt, 20.0);
    assert!(beyond(0.0) >= log(25.0) && beyond(0.5) >= log(25.0));
    // No tilt, no bound.
    assert_eq!(beyond(f64::NAN), f64::INFINITY);
}

/// Cells as wide as the cycle is long all fold onto one slot; every addition there is charged.
#[test]
fn folding_onto_one_slot_is_charged() {
    let law: Vec<(i64, f64)> = (0..1000).map(|j| (256 * j, 1e-3)).collect();
    let fft = Rc::new(RealFft::new(256));
    let composed = compose(&[Factor { law: &law, count: 1 }], 0.0625, 0.0, 0, &fft);
    assert!(composed.weight_error >= 999.0 * fft::UNIT_ROUNDOFF, "{:e}", composed.weight_error);
}

/// Exchanged, a mass may be below every double; under the other law it is not.
#[test]
fn reversal_keeps_masses_that_underflow() {
    let mut lattice = Lattice::empty(1.0);
    lattice.add_mass(-1, 0.5);
    lattice.add_mass(800, 0.5);
    assert!(lattice.reversed().upper.iter().all(|&(_, mass)| mass > 0.0));
}
