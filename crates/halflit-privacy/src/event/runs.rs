//! The law of the hidden number of runs in RepeatAndSelect.

use crate::number::ParameterError;
use libm::{expm1, log};

/// How often the base mechanism was run before the best output was kept: a random number that is never revealed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunCount(Family);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Family {
    /// Truncated negative binomial: probability generating function derivative proportional to
    /// (1 - (1-gamma) x)^(-eta-1); always at least one run.
    TruncatedNegativeBinomial { eta: f64, gamma: f64 },
    /// Poisson; zero runs reveal nothing but that there was none.
    Poisson { mean: f64 },
}

impl RunCount {
    /// The truncated negative binomial law; eta = 1 is geometric, eta = 0 logarithmic. Small gamma means many runs.
    pub fn truncated_negative_binomial(eta: f64, gamma: f64) -> Result<Self, ParameterError> {
        if !(eta.is_finite() && eta > -1.0 && eta <= 1e6) {
            let remedy = "1 is the geometric law, 0 the logarithmic one";
            return Err(ParameterError {
                name: "eta",
                value: eta,
                allowed: "above -1 and at most 1e6",
                remedy,
            });
        }
        if !(1e-12..1.0).contains(&gamma) {
            let remedy = "the expected number of runs is about 1/gamma";
            return Err(ParameterError {
                name: "gamma",
                value: gamma,
                allowed: "between 1e-12 and 1",
                remedy,
            });
        }
        Ok(RunCount(Family::TruncatedNegativeBinomial { eta, gamma }))
    }

    /// The Poisson law with this mean.
    pub fn poisson(mean: f64) -> Result<Self, ParameterError> {
        if !(mean.is_finite() && mean > 0.0 && mean <= 1e12) {
            let (allowed, remedy) = ("above 0 and at most 1e12", "give the expected number of runs");
            return Err(ParameterError { name: "mean number of runs", value: mean, allowed, remedy });
        }
        Ok(RunCount(Family::Poisson { mean }))
    }

    /// The expected number of runs.
    pub fn mean(&self) -> f64 {
        match self.0 {
            // eta (1-gamma) / (gamma (1 - gamma^eta)), and (1/gamma - 1)/log(1/gamma) at eta = 0
            Family::TruncatedNegativeBinomial { eta, gamma } => {
                let log_gamma = log(gamma);
                let ratio = if eta == 0.0 { -1.0 / log_gamma } else { -eta / expm1(eta * log_gamma) };
                (1.0 - gamma) / gamma * ratio
            }
            Family::Poisson { mean } => mean,
        }
    }

    pub(crate) fn family(&self) -> Family {
        self.0
    }
}
