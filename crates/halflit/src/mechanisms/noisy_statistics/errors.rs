//! Standard errors of fitted weights: the labels' own scatter and the noise, through the derivative of the fit.

use super::design::Design;
use super::fit::{Fit, LARGEST_ASSEMBLED};
use super::matrix::{inner, product, shifted_inverse};
use crate::mechanisms::noisy_gradient::remove_common_part;
use crate::release::StandardErrors;

/// A weight of which the penalties keep less than this share has no standard error: what it is missing is no matter of chance.
const KEPT_SHARE: f64 = 0.8;

/// The covariance of the weights is J (H + sigma^2 P) J^T with J = dw/dS~, H the covariance of sum_i x_i t(y_i) under the fitted model and P the identity
/// (softmax: without the part that classes share). It holds where the model does: canonical losses that are likelihoods, independent rows.
pub(super) fn standard_errors(design: &Design, fit: &Fit, noise_std: f64) -> StandardErrors {
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
    let Some(response) = &fit.sensitivity else {
        return StandardErrors::absent(&format!("the model has more than {LARGEST_ASSEMBLED} weights"));
    };
    let size = fit.weights.len();
    let outputs = design.loss.outputs();
    let mut covariance = response.hessian.clone();
    for (index, row) in covariance.chunks_exact_mut(size).enumerate() {
        let mut noise = vec![0.0; size];
        noise[index] = noise_std * noise_std;
        remove_common_part(&mut noise, outputs);
        row.iter_mut().zip(&noise).for_each(|(entry, noise)| *entry += noise);
    }
    let spread = product(&response.jacobian, &covariance, size);
    let kept = product(&response.jacobian, &response.hessian, size);
    let largest = (0..size).map(|i| response.hessian[i * size + i]).fold(0.0, f64::max);
    let shift = 1e-8 * largest;
    let Some(inverse) = shifted_inverse(&response.hessian, size, shift) else {
        return StandardErrors::absent("the features do not determine the weights");
    };
    let errors = (0..size).map(|i| {
        let row = i * size..(i + 1) * size;
        let variance = inner(&spread[row.clone()], &response.jacobian[row]);
        // What the data determines of weight i at all: an intercept beside a full set of categories shares with them.
        let determined = 1.0 - shift * inverse[i * size + i];
        let share = kept[i * size + i] / determined;
        let is_known = determined > 1e-3 && share >= KEPT_SHARE && variance.is_finite() && variance > 0.0;
        is_known.then(|| variance.sqrt())
    });
    StandardErrors::given(errors.collect(), outputs)
}
