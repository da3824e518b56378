//! Standard errors of fitted weights: the labels' own scatter and the noise, through the derivative of the fit.

use super::design::Design;
use super::fit::{Fit, LARGEST_ASSEMBLED, Sums};
use super::matrix::{inner, product, shifted_inverse};
use super::posterior::shaped_back;
use super::shape::Shape;
use crate::release::StandardErrors;

/// A weight of which the penalties keep less than this share has no standard error: what it is missing is no matter of chance.
const KEPT_SHARE: f64 = 0.8;

/// The covariance of the weights is J (T H T^T + s^2) J^T with J = dw/dS~', H the covariance of sum_i x_i t(y_i) under the fitted model. (J has no part along what
/// the classes of softmax share.) It holds where the model does: canonical losses that are likelihoods, independent rows.
pub(super) fn standard_errors(
    design: &Design,
    fit: &Fit,
    shape: Option<&Shape>,
    noise_std: f64,
) -> StandardErrors {
    if design.loss.name() == "squared" {
        return StandardErrors::absent(
            "the squared loss needs the variance of the residuals, which this release did not buy",
        );
    }
    if !design.units_are_rows {
        return StandardErrors::absent(
            "rows of one user may depend on each other, and the released sum does not say how much",
        );
    }
    if fit.penalties.sums == Sums::Projected {
        return StandardErrors::absent(
            "the sums were projected onto what labels can add up to, and the noise that is left is not normal",
        );
    }
    let Some(response) = &fit.response else {
        return StandardErrors::absent(&format!("the model has more than {LARGEST_ASSEMBLED} weights"));
    };
    let size = fit.weights.len();
    let outputs = design.loss.outputs();
    // J T, row by row: how the weights answer to S itself.
    let direct: Vec<f64> =
        response.jacobian.chunks_exact(size).flat_map(|row| shaped_back(shape, row)).collect();
    let kept = product(&direct, &response.hessian, size);
    let largest = (0..size).map(|i| response.hessian[i * size + i]).fold(0.0, f64::max);
    let shift = 1e-8 * largest;
    let Some(inverse) = shifted_inverse(&response.hessian, size, shift) else {
        return StandardErrors::absent("the features do not determine the weights");
    };
    let errors = (0..size).map(|i| {
        let row = i * size..(i + 1) * size;
        let noise = &response.jacobian[row.clone()];
        let variance = inner(&kept[row.clone()], &direct[row]) + noise_std * noise_std * inner(noise, noise);
        // What the data determines of weight i at all: an intercept beside a full set of categories shares with them.
        let determined = 1.0 - shift * inverse[i * size + i];
        let share = kept[i * size + i] / determined;
        let is_known = determined > 1e-3 && share >= KEPT_SHARE && variance.is_finite() && variance > 0.0;
        is_known.then(|| variance.sqrt())
    });
    StandardErrors::given(errors.collect(), outputs)
}
