//! The methods of the papers, by name: each is a choice of parts, with the papers' constants left to the caller.

use super::Params;
use super::parts::{Average, Centre, Clip, Combiner, DescentChoice, PublicPart, Sampling, Start};
use crate::problem::Problem;
use std::num::NonZeroU64;

/// The constants of a method, named as in Algorithm 1 of Lowy et al. 2024. What is left open follows from declared constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// T.
    pub steps: Option<NonZeroU64>,
    /// eta: the same in every step.
    pub step_size: Option<f64>,
    /// C.
    pub clip_norm: Option<f64>,
    /// Who takes part in a step. The papers' "with replacement" are Poisson batches of rate K_priv / n_priv, their "without replacement" is one pass.
    pub sampling: Sampling,
    /// K_pub.
    pub public_batch: Option<NonZeroU64>,
    /// Where to begin.
    pub start: Start,
    /// What is returned.
    pub average: Average,
}

impl Default for Constants {
    /// Everything open: full batches from zero, last iterate.
    fn default() -> Self {
        Constants {
            steps: None,
            step_size: None,
            clip_norm: None,
            sampling: Sampling::FullBatch,
            public_batch: None,
            start: Start::Zero,
            average: Average::Last,
        }
    }
}

impl Constants {
    /// The same from the public rows' own fit.
    pub fn from_public_fit() -> Self {
        Constants { start: Start::PublicMinimizer, ..Constants::default() }
    }

    /// Algorithm 1 of Lowy et al. 2024: constant alpha, public gradients rescaled to norm C.
    #[doc(alias = "paper-002-alg-1")]
    pub fn algorithm_1(self, alpha: f64) -> Params {
        Params {
            combiner: Some(Combiner::Constant { alpha }),
            public: Some(PublicPart::Mean { batch: self.public_batch, rescaled: true }),
            ..self.plain()
        }
    }

    /// The accelerated variant of Algorithm 1 (Lowy et al. 2024, Appendix E.3.1): weighted gradients, accelerated steps (Ghadimi and Lan 2012), meant for one pass;
    /// strongly convex if a penalty is declared. Public gradients are taken as they are: the estimate has to be unbiased.
    #[doc(alias = "paper-002-accelerated")]
    pub fn accelerated(self, alpha: f64) -> Params {
        Params {
            public: Some(PublicPart::Mean { batch: self.public_batch, rescaled: false }),
            descent: Some(DescentChoice::Accelerated { damping: None }),
            ..self.algorithm_1(alpha)
        }
    }

    /// Noisy gradient descent on all rows alike, public or not, noise included: DP-SGD with sampled batches (Abadi et al. 2016), DP-GD with full ones (Bassily, Smith, Thakurta 2014).
    #[doc(alias = "dp-sgd")]
    #[doc(alias = "dp-gd")]
    pub fn dp_sgd(self) -> Params {
        Params { public: Some(PublicPart::AsPrivate), ..self.plain() }
    }

    /// Public-data-assisted mirror descent for linear regression (Amid et al. 2022): private gradients alone, preconditioned by the public rows.
    #[doc(alias = "PDA-MD")]
    pub fn pda_md(self, ridge: Option<f64>) -> Params {
        let descent =
            DescentChoice::Preconditioned { step_size: self.step_size, ridge, average: self.average };
        Params { combiner: Some(Combiner::Constant { alpha: 1.0 }), descent: Some(descent), ..self.plain() }
    }

    /// Algorithm 1 of Mahloujifar et al. 2023: the public loss is that of the padded row, on a batch of its own; the rest is clipped around it. `alpha` is the
    /// weight of the private gradient. A public regularizer that is c times the public loss is the same method with alpha / (1 + c) and steps (1 + c) times as long.
    #[doc(alias = "paper-003-alg-1")]
    #[doc(alias = "feature DP")]
    pub fn feature_dp(self, alpha: f64, momentum: f64) -> Params {
        Params {
            centre: Some(Centre::Imputed),
            hidden_weight: Some(alpha),
            descent: Some(self.momentum(momentum)),
            ..self.plain()
        }
    }

    fn plain(self) -> Params {
        Params {
            centre: Some(Centre::Zero),
            sampling: Some(self.sampling),
            steps: self.steps.map(NonZeroU64::get),
            clip: self.clip_norm.map(|norm| Clip::Fixed { norm }),
            start: Some(self.start),
            descent: Some(self.momentum(0.0)),
            ..Params::default()
        }
    }

    fn momentum(self, momentum: f64) -> DescentChoice {
        let Constants { step_size, average, .. } = self;
        DescentChoice::Momentum { step_size, momentum: Some(momentum), average }
    }
}

/// The default descent with public rows that count as if they were private ones.
pub fn all_rows_as_private() -> Params {
    Params {
        centre: Some(Centre::Zero),
        public: Some(PublicPart::AsPrivate),
        start: Some(Start::Zero),
        ..Params::default()
    }
}

/// Whether [`Constants::pda_md`] fits: public rows that are not all zero, squared loss, not too many weights.
pub(in crate::mechanisms) fn has_pda_md(problem: &Problem) -> bool {
    problem.public_data().0.max_squared_norm() > 0
        && problem.loss().name() == "squared"
        && problem.dimension() <= super::precondition::MOST_WEIGHTS
}

/// The posterior descent for regression with public rows.
pub fn posterior() -> Params {
    Params {
        centre: Some(Centre::Zero),
        clip: Some(Clip::ResidualScale),
        start: Some(Start::PublicMinimizer),
        descent: Some(DescentChoice::Posterior),
        ..Params::default()
    }
}
