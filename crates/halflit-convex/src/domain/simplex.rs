use super::Number;
use crate::double::Double;

/// Projection onto {w >= 0, sum w = 1}: w_j = max(v_j - t, 0) with the threshold t that makes the sum 1.
pub(super) fn project<T: Number>(weights: &mut [T]) {
    let zero = T::from(0.0);
    let mut sorted = weights.to_vec();
    // NaN has no place in an order; it compares equal and stays where it is
    sorted.sort_by(|a, b| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal));
    let mut sum = zero;
    let mut threshold = zero;
    for (index, &value) in sorted.iter().enumerate() {
        sum = sum + value;
        let mean = (sum - T::from(1.0)) / T::from((index + 1) as f64);
        if !(value > mean) {
            break;
        }
        threshold = mean;
    }
    for weight in weights {
        let shifted = *weight - threshold;
        *weight = if shifted > zero { shifted } else { zero };
    }
}

/// sum w - 1, in pairs of doubles.
fn sum_minus_one(weights: &[f64]) -> Double {
    weights.iter().fold(Double::from(-1.0), |sum, &w| sum + Double::from(w))
}

/// sum w - 1.
pub(super) fn excess(weights: &[f64]) -> f64 {
    sum_minus_one(weights).to_f64()
}

/// Brings the sum of nonnegative weights as near to 1 as doubles allow: each positive weight, the largest first, takes
/// what is missing, and leaves half a unit in its own last place at most.
pub(super) fn balance(weights: &mut [f64]) {
    let mut order: Vec<usize> = (0..weights.len()).filter(|&j| weights[j] > 0.0).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let mut excess = sum_minus_one(weights);
    for j in order {
        let moved = weights[j] - excess.to_f64();
        if excess.to_f64() == 0.0 || !(moved > 0.0) {
            break;
        }
        // the difference of two doubles is exact in a pair
        excess = excess + Double::sum(moved, -weights[j]);
        weights[j] = moved;
    }
}
