//! Descent along noisy gradients: every step releases one clamped, noisy gradient sum.
//!
//! The gradient at the current weights is split into what is known without any private cell (public rows, and a public centre per
//! private unit) and what is hidden; only the hidden part is clamped and gets noise. With no public column and no public row this
//! is the full-batch or Poisson-sampled noisy gradient descent that everyone knows.
//!
//! Every idea is a part that can be replaced ([`parts`]): the centre, the sampling, the clip rule, the combiner of private and public gradients, the
//! start, the descent. The papers' methods are choices of parts ([`modes`]).
//!
//! Citation: Bassily, Smith, Thakurta 2014; Abadi et al. 2016 (Poisson sampling); Lowy et al. 2024 (public rows); Mahloujifar et al. 2023 and Ghazi et al.
//! 2024 (public columns). Legend: C clip norm, B the same in lattice units, s noise multiplier, T steps, q sampling rate.
//!
//! # Guarantee
//!
//! Under the declared relation the released gradients (and histograms of norms, if the clip norm is measured), hence the model, have the
//! privacy profile of the composition of `Gaussian { s_t, change }` (full batch), of T-fold `PoissonGaussian { q, s, change }` with ALL
//! statistics of a batch in one event, or of `Parallel` Gaussians (one pass). See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | a unit's contribution has norm at most B | the kernel's integer clamp ([`halflit_convex::kernel`]), always applied |
//! | it is a function of the unit's own cells and public values | the kernel's contract; weights come from earlier releases |
//! | the centre needs no private cell | it is computed from the masked public view and, if public, the label |
//! | the noise is exactly normal, 2^k / B >= s | [`halflit_noise::SumLattice`] |
//! | a unit adds 1 to one bin of the histogram of norms | one count per unit (`passes.rs`) |
//! | hidden, known and public batches are independent | separate draws with separate types (`sampler.rs`): the sums take their own type only |
//! | T, q, every s_t are fixed in advance | [`Plan`] is made before any private cell is readable |
//! | C_t depends on earlier releases and this step's noisy histogram only | it scales the lattice unit, never the integer radius or the noise |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | an empty batch | an ordinary batch: the release is noise |
//! | one private unit | an ordinary plan, with a useless model |
//! | a unit whose rows are all zero | contributes zero, or minus the centre if all units share one |
//! | weights that overflow | the descent goes back to its start |
//! | a centre that is no vector of sensible numbers | zero is taken instead |

mod centre;
mod check;
mod choose;
mod clip_norm;
pub(super) mod descent;
mod layout;
mod levels;
pub mod modes;
mod newton;
pub mod parts;
mod passes;
mod plan;
mod posterior;
mod precondition;
mod public;
mod run;
mod sampler;
pub(super) mod schedule;
mod split;
mod spread;
mod statement;
#[cfg(test)]
mod tests;

pub use parts::Centre;
pub(crate) use run::remove_common_part;
pub(crate) use split::Split;

pub(crate) use choose::predicted_of_public_fit;
pub use choose::predicted_without_public_rows;
pub use plan::Plan;
pub use schedule::Schedule;
pub use statement::Statement;

use crate::mechanisms::MechanismError;
use halflit_noise::Probability;
use parts::{Clip, Combiner, DescentChoice, PublicPart, Sampling, Start};

/// The name of the mechanism in plans, certificates and on the command line.
pub const NAME: &str = "noisy_gradient";

/// Where it comes from.
pub(crate) const CITATION: &str = "Noisy gradient descent (Bassily, Smith, Thakurta 2014; Abadi et al. 2016) on the split gradient: the part of the \
    gradient that follows from public rows and columns is added exactly, the rest is clamped and gets noise.";

/// How its free parameters are chosen.
pub(crate) const CHOICES: &str = "Number of steps, step size, momentum and clip norm follow from the declared constants and public columns and rows by a \
    fixed formula, or were given; a measured clip norm comes from a priced release. No private cell was used otherwise.";

/// What a caller may fix; everything else is chosen from public constants and public rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// The centre; by default midrange if some column is public, else zero.
    pub centre: Option<Centre>,
    /// How much the hidden part of the gradient counts beside the known part; by default 1, an estimate of the gradient.
    pub hidden_weight: Option<f64>,
    /// Who takes part in a step; by default everyone.
    pub sampling: Option<Sampling>,
    /// The probability that a unit's known part is taken in a step, drawn by itself; by default that of the hidden part.
    pub known_rate: Option<Probability>,
    /// The number of steps.
    pub steps: Option<u64>,
    /// The largest norm of a unit's hidden contribution.
    pub clip: Option<Clip>,
    /// How private and public gradients are combined; by default every row counts the same.
    pub combiner: Option<Combiner>,
    /// What is taken from the public rows; by default all of them, as they are.
    pub public: Option<PublicPart>,
    /// Where the descent begins; by default at zero.
    pub start: Option<Start>,
    /// How gradients become weights; by default Newton steps from the public minimizer where that is the start, else momentum with constants from the schedule.
    pub descent: Option<DescentChoice>,
    /// Each step spends this many times the squared mu of the one before; by default 1.
    pub budget_growth: Option<f64>,
}
