use super::*;
use crate::number::{NoiseMultiplier, SamplingRate};
use crate::relation::Change;

fn bound_at(curve: &RenyiCurve, wanted: f64) -> f64 {
    let (order, bound) =
        curve.all_points().find(|(order, _)| *order >= wanted * (1.0 - 1e-9)).expect("an order");
    assert!((order - wanted).abs() < 1e-6, "{order}");
    bound
}

fn of_mixture(rate: f64, shift: f64, two_sided: bool) -> RenyiCurve {
    RenyiCurve::of_pair(&Pair::Mixture(Mixture { rate, shift, two_sided }))
}

fn of_fixed_size(rate: f64, shift: f64) -> RenyiCurve {
    RenyiCurve::of_pair(&Pair::FixedSize(Mixture { rate, shift, two_sided: false }))
}

/// Integer orders of the one-sided pair have a finite sum (Mironov, Talwar, Zhang 2019):
/// sum_j C(a,j) (1-q)^(a-j) q^j e^{j(j-1) k^2/2}.
#[test]
fn integer_orders_agree_with_the_binomial_sum() {
    for (q, k) in [(1e-4, 1.0), (0.01, 1.0), (0.01, 0.1), (0.3, 2.0), (0.9, 0.5), (0.02, 3.0)] {
        let curve = of_mixture(q, k, false);
        for order in [2.0, 11.0] {
            let mut sum = 0.0f64;
            let mut binomial = 1.0f64;
            for j in 0..=(order as i32) {
                let power = f64::from(j);
                sum += binomial
                    * (1.0 - q).powf(order - power)
                    * q.powf(power)
                    * (0.5 * power * (power - 1.0) * k * k).exp();
                binomial *= (order - power) / (power + 1.0);
            }
            let expected = sum.ln() / (order - 1.0);
            let bound = bound_at(&curve, order);
            // The binomial sum itself is known to about 1e-15.
            assert!(
                bound >= expected - 2e-15 && bound <= expected * (1.0 + 1e-9) + 1e-13,
                "{q} {k} {order}: {bound} {expected}"
            );
        }
    }
}

/// (kind, rate, shift, order, divergence), by adaptive quadrature with mpmath 1.3.0 at 30 digits.
const GOLDEN: [(&str, f64, f64, f64, f64); 15] = [
    ("two-sided", 0.01, 1.0, 2.0, 0.000_457_554_382_537_541_65),
    ("two-sided", 0.01, 1.0, 11.0, 0.450_653_607_350_737_1),
    ("two-sided", 0.3, 0.5, 2.0, 0.086_039_045_322_829_54),
    ("two-sided", 0.3, 0.5, 101.0, 11.765_662_411_597_631),
    ("two-sided", 0.9, 2.0, 11.0, 24.186_688_525_770_437),
    ("two-sided", 0.05, 3.0, 2.0, 3.107_163_726_620_434),
    ("two-sided", 0.01, 1.0, 1.01, 0.000_230_697_269_474_616_4),
    ("fixed size", 0.01, 1.0, 2.0, 0.000_280_639_291_342_739_1),
    ("fixed size", 0.01, 1.0, 11.0, 0.440_710_700_272_358),
    ("fixed size", 0.3, 0.5, 101.0, 11.408_987_467_663_534),
    ("fixed size", 0.9, 2.0, 11.0, 21.884_103_432_776_391),
    ("fixed size", 0.05, 3.0, 2.0, 3.058_024_735_254_436),
    ("fixed size", 0.02, 0.4, 1.01, 4.553_022_624_652_471e-5),
    ("one-sided", 0.9, 2.0, 11.0, 21.884_103_432_776_391),
    ("one-sided", 0.999, 0.5, 101.0, 12.623_989_494_663_095),
];

#[test]
fn mixtures_agree_with_thirty_digits_and_never_fall_below() {
    for (kind, q, k, order, expected) in GOLDEN {
        let curve = match kind {
            "fixed size" => of_fixed_size(q, k),
            kind => of_mixture(q, k, kind == "two-sided"),
        };
        let bound = bound_at(&curve, order);
        // log moments are known to about 1e-12, which the division by a - 1 magnifies.
        let slack = 1e-11 * expected + 1e-12 / (order - 1.0);
        assert!(bound >= expected && bound <= expected + slack, "{kind} {q} {k} {order}: {bound} {expected}");
    }
}

/// Rates next to zero and one, shifts from tiny to huge: finite, increasing in the order, and at most the unsampled
/// divergence.
#[test]
fn extreme_mixtures_stay_between_zero_and_the_unsampled_divergence() {
    for rate in [1.1e-15, 1e-9, 1e-3, 0.5, 0.999_999, 1.0f64.next_down()] {
        for shift in [1e-9, 1e-3, 0.3, 5.0, 100.0] {
            for kind in 0..3 {
                let curve =
                    if kind == 2 { of_fixed_size(rate, shift) } else { of_mixture(rate, shift, kind == 1) };
                let distance = if kind == 1 { 2.0 * shift } else { shift };
                let mut before = 0.0;
                for (order, bound) in curve.points() {
                    let most = 0.5 * order * distance * distance;
                    let slack = 1e-9 * most + 1e-11 / (order - 1.0);
                    assert!(
                        bound >= 0.0 && bound <= most + slack,
                        "{rate} {shift} {kind} {order}: {bound} {most}"
                    );
                    assert!(bound >= before - slack, "{rate} {shift} {kind} {order}: {bound} {before}");
                    before = bound;
                }
            }
        }
    }
}

/// Laplace and randomized response by their definitions, at orders where nothing cancels.
#[test]
fn bounded_losses_agree_with_their_definitions() {
    for scale in [0.1, 1.0, 5.0] {
        let laplace = RenyiCurve::of_pair(&Pair::Laplace(scale));
        let response = RenyiCurve::of_pair(&Pair::RandomizedResponse { eps: scale, delta: 0.0 });
        for order in [2.0, 11.0] {
            let a: f64 = order;
            let moment = a / (2.0 * a - 1.0) * ((a - 1.0) * scale).exp()
                + (a - 1.0) / (2.0 * a - 1.0) * (-a * scale).exp();
            let expected = moment.ln() / (a - 1.0);
            let bound = bound_at(&laplace, order);
            assert!(
                bound >= expected * (1.0 - 1e-13) && bound <= expected * (1.0 + 1e-11),
                "{scale} {order}"
            );
            let likely = 1.0 / (1.0 + (-scale).exp());
            let moment =
                likely.powf(a) * (1.0 - likely).powf(1.0 - a) + (1.0 - likely).powf(a) * likely.powf(1.0 - a);
            let expected = moment.ln() / (a - 1.0);
            let bound = bound_at(&response, order);
            assert!(bound >= expected * (1.0 - 1e-12) && bound <= expected * (1.0 + 1e-9), "{scale} {order}");
        }
    }
}

/// No bound falls below the exact curve of the same release, which the Renyi accountant exists to be compared with.
#[test]
fn the_renyi_accountant_is_never_below_the_exact_one() {
    let event = Event::PoissonGaussian {
        rate: SamplingRate::new(0.01).unwrap(),
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        change: Change::ZeroOut,
    };
    let event = event.repeated(1000).unwrap();
    let delta = Delta::new(1e-5).unwrap();
    let exact = crate::Profile::of(&event).unwrap().epsilon(delta).upper;
    let renyi = RenyiCurve::of(&event).epsilon(delta);
    assert!(renyi > exact && renyi < 1.2 * exact, "{renyi} {exact}");
}

/// Renyi divergence of order a between two laws on the same few outcomes.
fn divergence(p: &[f64], q: &[f64], order: f64) -> f64 {
    let moment: f64 = p.iter().zip(q).map(|(p, q)| p.powf(order) * q.powf(1.0 - order)).sum();
    moment.ln() / (order - 1.0)
}

/// Randomized response run a random number of times, the better outcome kept: exact output laws from the generating
/// function, in both directions, never above the bound; and where the published bound for Poisson fails.
#[test]
fn an_empty_run_is_an_outcome() {
    use crate::event::RunCount;
    for eps in [1e-3f64, 0.1, 1.0] {
        let good = [eps.exp() / (1.0 + eps.exp()), 1.0 / (1.0 + eps.exp())];
        let base = RenyiCurve::of_pair(&Pair::RandomizedResponse { eps, delta: 0.0 });
        for mean in [0.05, 0.5, 1.0, 4.0, 30.0] {
            let curve = selection::select(&base, &RunCount::poisson(mean).unwrap());
            // No run; only the worse outcome; the better one at least once.
            let law = |p: f64| {
                let none = (-mean).exp();
                let worse = (-mean * p).exp() - none;
                [none, worse, 1.0 - none - worse]
            };
            for order in [2.0, 11.0] {
                let truth = divergence(&law(good[0]), &law(good[1]), order).max(divergence(
                    &law(good[1]),
                    &law(good[0]),
                    order,
                ));
                let bound = bound_at(&curve, order);
                assert!(bound >= truth - 1e-12, "{eps} {mean} {order}: {bound} {truth}");
                if mean == 0.05 && eps < 0.5 {
                    // R + mean delta + log(mean)/(order - 1), as published: negative, and so below any divergence.
                    let delta = base.delta_at((order / (order - 1.0)).ln());
                    let published = bound_at(&base, order) + mean * delta + mean.ln() / (order - 1.0);
                    assert!(published < 0.0 && truth > 0.0, "{eps} {order}: {published} {truth}");
                }
            }
        }
        for (eta, gamma) in [(1.0, 0.1), (0.0, 0.02), (2.5, 0.5), (-0.5, 0.1)] {
            let curve = selection::select(&base, &RunCount::truncated_negative_binomial(eta, gamma).unwrap());
            // P(the worse outcome only) = f(1 - p), f the generating function of the truncated law.
            let generating = |x: f64| {
                if eta == 0.0 {
                    (1.0 - (1.0 - gamma) * x).ln() / f64::ln(gamma)
                } else {
                    ((1.0 - (1.0 - gamma) * x).powf(-eta) - 1.0) / (f64::powf(gamma, -eta) - 1.0)
                }
            };
            let law = |p: f64| [generating(1.0 - p), 1.0 - generating(1.0 - p)];
            for order in [2.0, 11.0] {
                let truth = divergence(&law(good[0]), &law(good[1]), order).max(divergence(
                    &law(good[1]),
                    &law(good[0]),
                    order,
                ));
                assert!(bound_at(&curve, order) >= truth, "{eps} {eta} {gamma} {order}: {truth}");
            }
        }
    }
}
