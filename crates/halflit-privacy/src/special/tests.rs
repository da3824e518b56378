use super::*;
use serde_json::Value;

/// One golden row: the arguments and the value that 60-digit arithmetic gives.
struct Row {
    arguments: Vec<f64>,
    value: f64,
}

fn golden(name: &str) -> Vec<Row> {
    let table: Value = serde_json::from_str(include_str!("../../golden/special.json")).expect("golden JSON");
    let rows = table[name].as_array().unwrap_or_else(|| panic!("no golden rows for {name}"));
    rows.iter()
        .map(|row| {
            let cells = row.as_array().expect("a row");
            let (value, arguments) = cells.split_last().expect("a value");
            Row {
                arguments: arguments.iter().map(|cell| cell.as_f64().expect("a number")).collect(),
                value: value.as_str().expect("digits").parse().expect("a number"),
            }
        })
        .collect()
}

/// The largest relative error over the golden rows of `name`.
fn worst_relative_error(name: &str, function: impl Fn(&[f64]) -> f64) -> f64 {
    let rows = golden(name);
    assert!(rows.len() >= 5, "{name}");
    rows.iter()
        .map(|row| {
            let error = ((function(&row.arguments) - row.value) / row.value).abs();
            assert!(!error.is_nan(), "{name}{:?}", row.arguments);
            error
        })
        .fold(0.0, f64::max)
}

#[test]
fn the_normal_distribution_agrees_with_sixty_digits() {
    assert!(worst_relative_error("log_normal_cdf", |x| log_normal_cdf(x[0])) < 1e-14);
    assert!(worst_relative_error("normal_density", |x| normal_density(x[0])) < 2e-15);
    assert!(worst_relative_error("mills_ratio", |x| mills_ratio(x[0])) < 4e-15);
    assert!(worst_relative_error("mills_difference", |x| mills_difference(x[0], x[1] - x[0])) < 2e-14);
    assert!(worst_relative_error("normal_cdf_difference", |x| normal_cdf_difference(x[0], x[1])) < 2e-14);
    assert!(worst_relative_error("normal_quantile", |x| normal_quantile(x[0])) < 1e-14);
    assert!(worst_relative_error("normal_quantile_of_log", |x| normal_quantile_of_log(x[0])) < 1e-14);
}

#[test]
fn gamma_and_beta_agree_with_sixty_digits() {
    assert!(worst_relative_error("log_gamma", |x| log_gamma(x[0])) < 1e-14);
    for row in golden("incomplete_beta") {
        let error = incomplete_beta(row.arguments[0], row.arguments[1], row.arguments[2]) / row.value - 1.0;
        // The logarithm of a tail is a sum of a few rounded terms of its own size.
        let allowed = 5e-14 + 4.0 * row.value.ln().abs() * f64::EPSILON;
        assert!(error.abs() < allowed, "{:?}: {error:e}, {allowed:e}", row.arguments);
    }
    let inverse = |x: &[f64]| inverse_incomplete_beta(x[0], x[1], x[2]);
    for row in golden("inverse_incomplete_beta") {
        let error = inverse(&row.arguments) / row.value - 1.0;
        // Far below the mean I is about x^a.
        assert!(error.abs() < 1e-14 * (1.0 / row.arguments[0]).max(1.0), "{:?}: {error:e}", row.arguments);
    }
}

#[test]
fn the_ends_of_every_domain_are_defined() {
    assert_eq!(normal_cdf(f64::INFINITY), 1.0);
    assert_eq!(normal_cdf(f64::NEG_INFINITY), 0.0);
    assert_eq!(normal_cdf_difference(f64::NEG_INFINITY, f64::INFINITY), 1.0);
    assert_eq!(normal_cdf_difference(1.0, 1.0), 0.0);
    assert_eq!(normal_cdf_difference(2.0, 1.0), 0.0);
    assert_eq!(normal_cdf_difference(f64::NAN, 1.0), 0.0);
    assert_eq!(mills_difference(3.0, 0.0), 0.0);
    assert_eq!(mills_difference(3.0, f64::NAN), 0.0);
    assert_eq!(normal_density(f64::INFINITY), 0.0);
    assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
    assert_eq!(normal_quantile(1.0), f64::INFINITY);
    assert_eq!(normal_quantile(0.5), 0.0);
    assert_eq!(log_gamma(0.0), f64::INFINITY);
    assert!(log_gamma(-1.0).is_nan());
    assert_eq!(incomplete_beta(2.0, 3.0, 0.0), 0.0);
    assert_eq!(incomplete_beta(2.0, 3.0, 1.0), 1.0);
    assert!(incomplete_beta(0.0, 3.0, 0.5).is_nan());
    assert!(incomplete_beta(2.0, 3.0, f64::NAN).is_nan());
    assert_eq!(inverse_incomplete_beta(2.0, 3.0, 0.0), 0.0);
    assert_eq!(inverse_incomplete_beta(2.0, 3.0, 1.0), 1.0);
    assert!(inverse_incomplete_beta(2.0, f64::NAN, 0.5).is_nan());
}

#[test]
fn the_inverse_beta_returns_for_hard_cases() {
    for a in [1e-3, 0.3, 1.0, 40.0, 1e4, 1e6] {
        for b in [1e-3, 0.3, 1.0, 40.0, 1e4, 1e6] {
            for p in [1e-12, 1e-3, 0.25, 0.5, 0.75, 0.999] {
                let x = inverse_incomplete_beta(a, b, p);
                assert!((0.0..=1.0).contains(&x), "{a} {b} {p}: {x}");
                // One ulp of x changes I by at most this much; x near 1 is where doubles are coarse.
                let neighbours = [x.next_down().max(0.0), x.next_up().min(1.0)];
                let [below, above] = neighbours.map(|t| incomplete_beta(a, b, t));
                assert!(
                    below <= p * (1.0 + 1e-9) && above >= p * (1.0 - 1e-9),
                    "{a} {b} {p}: {below} {above}"
                );
            }
        }
    }
}
