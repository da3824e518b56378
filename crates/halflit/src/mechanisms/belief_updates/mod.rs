//! Belief updates: answer gradient queries from beliefs about every row's sensitive value, and ask the table only when they are far off.
//!
//! Sensitive cells of a row take one of k joint values. A belief p_i over them starts uniform; a query f (a gradient) is answered by
//! f(p), the mean under the beliefs; a noisy threshold test compares it with the table; where it is far off, a noisy answer updates the
//! beliefs by multiplicative weights. The error depends on log k and not on the dimension.
//!
//! Citation: Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang 2024, "On convex optimization with semi-sensitive features" [GKKMMZ24],
//! Algorithms 1 and 2, Theorems 13 to 24. Legend: k values, n rows, eta rate, tau threshold, c truncation, L_max most updates, D_t the
//! largest change of the mean by one row, iota the noisy size, e' the epsilon of a test, mu = D_t/s.
//!
//! Two variants: `belief_updates` (the paper's online answerer with an optimizer on top) and `belief_centred` (every step asks the
//! table; the practical sibling).
//!
//! # Guarantee
//!
//! Under replace on the sensitive cells of one row, the transcript of all answers, hence every model made from them, has the privacy
//! profile of L_max-fold `Composed[PureDp e', Laplace e', Gaussian mu]`, charged in advance; `belief_centred`: T-fold `Gaussian mu`.
//! See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | D_t bounds what one row can change | computed from public cells in the pass that forms the sum ([`halflit_convex::kernel`]) |
//! | f(p), D_t and the noise scales need no private cell | they read the masked public view and the beliefs |
//! | the compared distance moves by at most D_t | integer square root, one unit added ([`halflit_convex::kernel::BeliefSums::diameter`]) |
//! | noise is exact, scales are not below what is priced | integers `threshold_steps`, `size_steps`, `radius` rounded down |
//! | eta, tau, c, L_max, T are fixed in advance | [`Plan`] is made from the public side |
//! | the size that updates divide by is positive | `size_floor`, public |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | D_t = 0 | the beliefs' answer is exact; nothing is drawn |
//! | the updates are used up | FAIL: the table is not asked any more, later steps follow the beliefs as they are |
//! | k above 1,024, a numeric sensitive column, users, zero-out | refused, with the column and the limit |
//! | a cell coerced to none of its values | counts as the first value |

mod answerer;
mod centred;
mod choose;
mod gradient;
mod noise;
mod online;
mod optimizer;
mod statement;
#[cfg(test)]
mod tests;

pub use crate::mechanisms::sensitive_domain::SensitiveDomain;
#[doc(alias = "private vector multiplicative weights")]
#[doc(alias = "PVMW")]
pub use answerer::{Answer, Answerer, Settings};
pub use centred::Centring;
pub use noise::{AnswerNoise, TestNoise, paper_rho, zcdp_rho};
pub use online::{Online, OnlinePlan, Task};
pub use optimizer::{Optimizer, Solution, Status};
pub use statement::{Chosen, Releases, Statement};

use crate::mechanisms::{Fitted, MechanismError, MechanismPlan, Watch, is_hopeless, prior_radius};
use crate::plan::Summary;
use crate::problem::Problem;
use answerer::Secret;
use centred::CentredRun;
use gradient::PublicParts;
use halflit_convex::kernel::Beliefs;
use halflit_noise::NoiseSource;
use halflit_privacy::calibrate::Budget;
use halflit_privacy::{Change, Unit};
use halflit_table::Unsealed;

/// The name of the online variant in plans, certificates and on the command line.
pub const NAME: &str = "belief_updates";

/// The name of the variant that asks the table in every step.
pub const CENTRED_NAME: &str = "belief_centred";

/// Where it comes from.
pub(crate) const CITATION: &str = "Private vector multiplicative weights (Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang 2024, Algorithms 1 and 2), \
    with the change of one row computed from public cells and exact accounting; the belief-centred gradient is its variant without threshold tests.";

const REHEARSED: &str = "Chosen by rehearsal: sensitive cells were made up from the public columns and the declaration by a fixed rule, and the parameters \
    with the smallest loss on that table were taken; no private cell was used.";
const PAPER: &str = "The formulas of the paper, from the declared constants and the number of rows; no private cell was used.";
const CALLER: &str = "Fixed by the caller.";

/// Which variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Algorithm 2 with an optimizer on top.
    Online,
    /// One answer per step.
    Centred,
}

/// What a caller may fix; everything else is chosen from the public side.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The variant.
    pub variant: Variant,
    /// How eta, tau, c, L_max and T are chosen.
    pub choice: Choice,
}

/// How the free parameters are chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// By public rehearsal.
    Rehearsed,
    /// By the paper's formulas: valid, and vacuous below astronomical n. Online only.
    Paper {
        /// beta: the probability with which the accuracy statement may fail.
        failure: f64,
    },
    /// By the caller.
    Online {
        /// What steers the updates.
        settings: Settings,
        /// The optimizer; its steps are the number of queries.
        optimizer: Optimizer,
    },
    /// By the caller.
    Centred {
        /// How releases are used.
        centring: Centring,
        /// The optimizer; its steps are the number of releases.
        optimizer: Optimizer,
    },
}

/// A checked, calibrated plan. It owns no private cell and reads none.
#[derive(Clone, Debug)]
pub struct Plan {
    domain: SensitiveDomain,
    answer: AnswerNoise,
    method: Method,
    optimizer: Optimizer,
    lambda: f64,
    chosen: Chosen,
    predicted_excess: f64,
    noise_per_release: f64,
}

/// What differs between the variants.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Online { settings: Settings, test: TestNoise },
    Centred { centring: Centring },
}

/// Whether the declaration is of the kind that beliefs are for.
pub(crate) fn fits(problem: &Problem) -> bool {
    // A sensitive label that enters linearly needs one release only: that is noisy_statistics, and many releases cannot beat it.
    let one_release_is_enough = problem.loss().is_canonical()
        && problem.encoding().columns().iter().all(|column| !column.is_sensitive());
    !one_release_is_enough && domain_of(problem).is_ok()
}

/// The values that rows may have, if the declaration protects them as beliefs can.
fn domain_of(problem: &Problem) -> Result<SensitiveDomain, MechanismError> {
    let relation = problem.relation();
    if relation.change() != Change::Replace || *relation.unit() != Unit::Row {
        return Err(MechanismError::BeliefRelation);
    }
    SensitiveDomain::of(problem)
}

/// The constants that plans and choices are made from; all public.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Constants {
    rows: u64,
    values: usize,
    dimension: usize,
    /// G: a bound on a row's gradient at small scores.
    vector_bound: f64,
    /// Bound on the curvature of the mean loss, penalty included.
    smoothness: f64,
    /// The guessed norm of the minimizer.
    radius: f64,
    lambda: f64,
}

impl Constants {
    fn of(problem: &Problem, domain: &SensitiveDomain, parts: &PublicParts<'_>) -> Constants {
        // Without a declared penalty the length of the descent regularizes.
        let lambda = problem.declared_penalty();
        let norm = parts.row_norm(domain).max(1e-6);
        let curvature = crate::mechanisms::noisy_gradient::schedule::curvature(problem.loss());
        Constants {
            rows: parts.private_rows() as u64,
            values: domain.len(),
            dimension: problem.dimension(),
            vector_bound: norm * problem.loss().derivative_bound(0.0).max(1e-6),
            smoothness: curvature * norm * norm + lambda,
            radius: prior_radius(problem.loss(), problem.dimension(), problem.radius()),
            lambda,
        }
    }
}

impl Plan {
    /// A variant with parameters chosen by rehearsal.
    pub(crate) fn rehearsed(
        problem: &Problem,
        variant: Variant,
        budget: Budget,
    ) -> Result<MechanismPlan, MechanismError> {
        let params = Params { variant, choice: Choice::Rehearsed };
        Plan::new(problem, &params, budget).map(MechanismPlan::BeliefUpdates)
    }

    /// Chooses what `params` leaves open and calibrates the noise to the budget.
    ///
    /// # Errors
    /// A relation or a sensitive column that has no finite set of values, numbers outside their ranges, a budget that no noise can meet.
    pub fn new(problem: &Problem, params: &Params, budget: Budget) -> Result<Self, MechanismError> {
        let domain = domain_of(problem)?;
        let parts = PublicParts::of(problem)?;
        let constants = Constants::of(problem, &domain, &parts);
        let chosen = choose::choose(problem, &domain, &constants, params, budget)?;
        match chosen.method {
            Method::Online { settings, .. } => settings.check()?,
            Method::Centred { centring } => centring.check()?,
        }
        // At zero weights, from the declared constants: a diameter of at most twice the bound.
        let noise_per_release = 2.0 * constants.vector_bound / (chosen.answer.mu() * constants.rows as f64);
        Ok(Plan {
            domain,
            answer: chosen.answer,
            method: chosen.method,
            optimizer: chosen.optimizer,
            lambda: constants.lambda,
            chosen: chosen.by,
            predicted_excess: chosen.predicted_excess,
            noise_per_release,
        })
    }

    /// What the certificate says about the noise: enough to rebuild the event.
    pub fn statement(&self, problem: &Problem) -> Statement {
        let releases = match self.method {
            Method::Centred { centring } => Releases::Centred { centring },
            Method::Online { settings, test } => {
                let rho =
                    |rho: Result<halflit_privacy::Rho, _>| rho.map_or(f64::NAN, halflit_privacy::Rho::get);
                Releases::Online {
                    test,
                    settings,
                    zcdp_rho: rho(zcdp_rho(&test, &self.answer, settings.max_updates)),
                    paper_rho: rho(paper_rho(&test, &self.answer, settings.max_updates)),
                }
            }
        };
        Statement {
            change: Change::Replace,
            values: self.domain.len() as u64,
            rows: problem.private_units(),
            releases,
            answer: self.answer,
            optimizer: self.optimizer,
            regularization: self.lambda,
            radius: problem.radius(),
            chosen: self.chosen,
        }
    }

    /// The plan as shown in a table.
    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        let steps = self.optimizer.steps();
        let (mechanism, variant, releases) = match self.method {
            Method::Online { settings, .. } => {
                let updates = settings.max_updates;
                (
                    NAME,
                    format!("{} values, {steps} queries, at most {updates} updates", self.domain.len()),
                    updates,
                )
            }
            Method::Centred { centring } => {
                let share = centring.trust;
                (CENTRED_NAME, format!("{} values, centre belief, trust {share}", self.domain.len()), steps)
            }
        };
        Summary {
            mechanism: mechanism.to_owned(),
            variant,
            predicted_excess: self.predicted_excess,
            is_rehearsed: false,
            releases,
            passes: (steps + releases) as f64,
            noise_per_release: self.noise_per_release,
            is_hopeless: is_hopeless(self.predicted_excess, problem),
        }
    }

    /// How what was not declared was chosen.
    pub(crate) fn choices(&self) -> &'static str {
        match self.chosen {
            Chosen::Rehearsal => REHEARSED,
            Chosen::Paper => PAPER,
            Chosen::Caller => CALLER,
        }
    }

    /// What steers the updates; none for the centred variant.
    pub fn settings(&self) -> Option<&Settings> {
        match &self.method {
            Method::Online { settings, .. } => Some(settings),
            Method::Centred { .. } => None,
        }
    }

    /// The optimizer.
    pub fn optimizer(&self) -> Optimizer {
        self.optimizer
    }

    /// Runs the mechanism: opens the sealed values and spends what was charged.
    pub(crate) fn run(
        &self,
        problem: &Problem,
        token: &Unsealed,
        source: &mut NoiseSource,
        watch: &mut dyn Watch,
    ) -> Result<Fitted, MechanismError> {
        let secret = Secret(self.domain.private_positions(problem, token)?);
        let stream = source.stream()?;
        let parts = PublicParts::of(problem)?;
        let solution = self.solve(problem, &parts, secret, stream, watch)?;
        watch.progress(self.optimizer.steps(), self.optimizer.steps()).is_break();
        let notes = match solution.status {
            Status::Finished => Vec::new(),
            Status::Failed { after } => {
                vec![format!(
                    "The updates were used up after {after} of {} steps; the later ones followed the beliefs as they were then.",
                    self.optimizer.steps()
                )]
            }
        };
        Ok(Fitted { notes, ..Fitted::from(solution.weights) })
    }

    fn solve(
        &self,
        problem: &Problem,
        parts: &PublicParts<'_>,
        secret: Secret,
        mut stream: halflit_noise::Stream,
        watch: &mut dyn Watch,
    ) -> Result<Solution, MechanismError> {
        let loss = problem.loss();
        match self.method {
            Method::Centred { centring } => {
                let run = CentredRun {
                    parts,
                    domain: &self.domain,
                    loss,
                    lambda: self.lambda,
                    radius: problem.radius(),
                    optimizer: self.optimizer,
                    centring,
                    noise: self.answer,
                };
                run.run(problem.dimension(), &secret, &mut stream, watch)
            }
            Method::Online { settings, test } => {
                let beliefs = Beliefs::uniform(parts.private_rows(), self.domain.len());
                let mut answerer = Answerer::new(settings, test, self.answer, beliefs, secret, stream)?;
                let task = Task {
                    loss,
                    regularization: self.lambda,
                    radius: problem.radius(),
                    optimizer: self.optimizer,
                };
                online::solve(&mut answerer, parts, &self.domain, &task, problem.dimension(), watch)
            }
        }
    }
}
