use super::Number;

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
