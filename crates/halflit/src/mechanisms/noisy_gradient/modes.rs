//! The methods of the papers, by name: each is a choice of parts, with the paper's constants left to the caller.

use super::Params;
use super::parts::{Average, Centre, Clip, Combiner, Descent, PublicPart, Sampling, Start};
use halflit_noise::Probability;
use std::num::NonZeroU64;

/// The constants of a stochastic method with public rows, named as in Algorithm 1 of Lowy et al. 2024.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stochastic {
    /// T.
    pub steps: NonZeroU64,
    /// eta: the same in every step.
    pub step_size: f64,
    /// C.
    pub clip_norm: f64,
    /// K_priv / n_priv, for batches with replacement.
    pub rate: Probability,
    /// K_pub.
    pub public_batch: Option<NonZeroU64>,
    /// Where to begin.
    pub start: Start,
    /// What is returned.
    pub average: Average,
}

impl Stochastic {
    /// Algorithm 1 of Lowy et al. 2024, "with replacement": Poisson batches, constant alpha, public gradients rescaled to norm C.
    #[doc(alias = "paper-002-alg-1")]
    pub fn algorithm_1(self, alpha: f64) -> Params {
        Params {
            combiner: Some(Combiner::Constant { alpha }),
            public: Some(PublicPart { batch: self.public_batch, rescaled: true }),
            ..self.plain()
        }
    }

    /// Algorithm 1 of Lowy et al. 2024 without replacement: one pass, every private row in one step, parallel composition.
    pub fn algorithm_1_one_pass(self, alpha: f64) -> Params {
        Params { sampling: Some(Sampling::OnePass { batches: self.steps }), ..self.algorithm_1(alpha) }
    }

    /// DP-SGD (Abadi et al. 2016): private and public rows count the same, and all are clipped.
    #[doc(alias = "dp-sgd")]
    pub fn dp_sgd(self, private_batch: f64) -> Params {
        let public = self.public_batch.map_or(0.0, |batch| batch.get() as f64);
        self.algorithm_1(private_batch / (private_batch + public))
    }

    /// Public-data-assisted mirror descent for linear regression (Amid et al. 2022): private gradients alone, preconditioned by the public rows.
    #[doc(alias = "PDA-MD")]
    pub fn pda_md(self, ridge: f64) -> Params {
        let descent = Descent::Preconditioned { step_size: self.step_size, ridge, average: self.average };
        Params { combiner: Some(Combiner::Constant { alpha: 1.0 }), descent: Some(descent), ..self.plain() }
    }

    /// Algorithm 1 of Mahloujifar et al. 2023: the public loss is that of the padded row, on a batch of its own; the rest is clipped around it. `alpha` is the
    /// weight of the private gradient. A public regularizer that is c times the public loss is the same method with alpha / (1 + c) and steps (1 + c) times as long.
    #[doc(alias = "paper-003-alg-1")]
    #[doc(alias = "feature DP")]
    pub fn feature_dp(self, alpha: f64, momentum: f64) -> Params {
        let descent = Descent::Momentum { step_size: self.step_size, momentum, average: self.average };
        Params {
            centre: Some(Centre::Imputed),
            hidden_weight: Some(alpha),
            descent: Some(descent),
            ..self.plain()
        }
    }

    fn plain(self) -> Params {
        Params {
            centre: Some(Centre::Zero),
            sampling: Some(Sampling::Poisson(self.rate)),
            steps: Some(self.steps.get()),
            clip: Some(Clip::Fixed { norm: self.clip_norm }),
            start: Some(self.start),
            descent: Some(Descent::Momentum {
                step_size: self.step_size,
                momentum: 0.0,
                average: self.average,
            }),
            ..Params::default()
        }
    }
}

/// Full-batch noisy gradient descent (Bassily, Smith, Thakurta 2014) with the given steps.
#[doc(alias = "dp-gd")]
pub fn dp_gd(steps: NonZeroU64, step_size: f64, clip_norm: f64) -> Params {
    Params {
        centre: Some(Centre::Zero),
        steps: Some(steps.get()),
        clip: Some(Clip::Fixed { norm: clip_norm }),
        descent: Some(Descent::Momentum { step_size, momentum: 0.0, average: Average::Last }),
        ..Params::default()
    }
}

/// The posterior descent for regression with public rows.
pub fn posterior() -> Params {
    Params {
        centre: Some(Centre::Zero),
        clip: Some(Clip::ResidualScale),
        start: Some(Start::PublicMinimizer),
        descent: Some(Descent::Posterior),
        ..Params::default()
    }
}
