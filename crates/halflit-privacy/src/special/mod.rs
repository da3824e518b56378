//! Special functions that keep their relative accuracy in the tails.
//!
//! Everything rests on the pure-Rust `libm`, so that the same inputs give the same bits on every machine and a
//! certificate can be recomputed anywhere. The golden values in `golden/special.json` were made once with mpmath at 60
//! digits; the tests compare against them and state the largest relative error allowed.

mod beta;
mod gamma;
mod normal;

pub use beta::{incomplete_beta, inverse_incomplete_beta};
pub use gamma::log_gamma;
pub use normal::{
    log_normal_cdf, mills_difference, mills_ratio, normal_cdf, normal_cdf_difference, normal_density,
    normal_quantile, normal_quantile_of_log,
};

#[cfg(test)]
mod tests;
