//! How far one row's hidden part can move its blocks of the Gram matrix.

use halflit_privacy::Change;

/// The largest norm of (a (s - s')^T, s s^T - s' s'^T) over hidden parts s, s' with norm at most `hidden`, for a known part of norm `known`; under zero-out s' is
/// null and both blocks of it vanish. Rounded up. `dimension` is the number of hidden coordinates.
///
/// Proved in `proof.md`:
///
/// ```text
/// replace, h >= 2:  (A^2 + 2 B^2)/sqrt 2   if A^2 <= 2 B^2,   else 2 A B
/// replace, h = 1:   2 A B                  if A^2 >= B^2/2,   else max(2 A B, e sqrt(A^2 + (2B - e)^2)),  e = (3B - sqrt(B^2 - 2A^2))/2
/// zero-out:         B sqrt(A^2 + B^2)
/// ```
pub(super) fn joint_sensitivity(known: f64, hidden: f64, dimension: usize, change: Change) -> f64 {
    let (a, b) = (known, hidden);
    let largest = match (change, dimension) {
        (Change::ZeroOut, _) => b * a.hypot(b),
        (Change::Replace, 1) if a * a < 0.5 * b * b => {
            let e = 0.5 * (3.0 * b - (b * b - 2.0 * a * a).max(0.0).sqrt());
            (2.0 * a * b).max(e * a.hypot(2.0 * b - e))
        }
        (Change::Replace, 1) => 2.0 * a * b,
        (Change::Replace, _) if a * a <= 2.0 * b * b => (a * a + 2.0 * b * b) / std::f64::consts::SQRT_2,
        (Change::Replace, _) => 2.0 * a * b,
    };
    // A dozen roundings, each of 2^-53; e is a maximizer, so its own error enters squared.
    largest * (1.0 + 1e-14)
}
