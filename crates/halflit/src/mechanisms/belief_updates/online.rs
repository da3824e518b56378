//! The online answerer for those who have paid: ask queries, or solve several problems that share one set of beliefs.

use super::answerer::{Answer, Answerer, Asked, Secret};
use super::gradient::PublicParts;
use super::optimizer::{Optimizer, Solution, Status};
use super::statement::Statement;
use super::{Choice, Method, NAME, Params, Variant};
use crate::ledger::{Charged, Receipt};
use crate::mechanisms::believed::{CLOSELY, ROUGHLY};
use crate::mechanisms::sensitive_domain::SensitiveDomain;
use crate::mechanisms::{MechanismError, MechanismPlan, Watch};
use crate::plan::{Plan, Priced};
use crate::problem::Problem;
use halflit_convex::Loss;
use halflit_convex::kernel::{Beliefs, PlainQuery, VectorQuery};
use halflit_noise::NoiseSource;
use halflit_privacy::{Delta, Epsilon, Event, Relation, calibrate};
use halflit_table::{Budget, Unsealed};

/// One problem to solve on the same rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// The loss, on the labels of the declared problem.
    pub loss: Loss,
    /// The l2 penalty.
    pub regularization: f64,
    /// The ball that the weights stay in.
    pub radius: Option<f64>,
    /// How gradients become weights.
    pub optimizer: Optimizer,
}

/// A plan for online queries with parameters of the caller's choice. Charging it opens an [`Online`] answerer.
#[derive(Debug)]
pub struct OnlinePlan {
    problem: Problem,
    mechanism: super::Plan,
    event: Event,
}

impl OnlinePlan {
    /// Plans an answerer for the problem's private rows.
    ///
    /// # Errors
    /// Those of [`Plan::new`](super::Plan::new); a choice of the other variant.
    pub fn new(problem: Problem, choice: Choice, budget: Budget) -> Result<Self, MechanismError> {
        let target =
            calibrate::Budget { epsilon: Epsilon::new(budget.epsilon)?, delta: Delta::new(budget.delta)? };
        let mechanism = super::Plan::new(&problem, &Params { variant: Variant::Online, choice }, target)?;
        if mechanism.settings().is_none() {
            return Err(MechanismError::NotOnline { wanted: NAME });
        }
        let event = mechanism.statement(&problem).event()?;
        Ok(OnlinePlan { problem, mechanism, event })
    }

    /// What the plan would be stated as.
    pub fn statement(&self) -> Statement {
        self.mechanism.statement(&self.problem)
    }
}

impl Priced for OnlinePlan {
    fn relation(&self) -> &Relation {
        self.problem.relation()
    }

    fn event(&self) -> &Event {
        &self.event
    }

    fn mechanism_name(&self) -> &str {
        NAME
    }

    fn declared_budget(&self) -> Budget {
        self.problem.budget()
    }
}

/// A charged online answerer. Everything it returns is covered by the one charge, however many queries are asked.
#[derive(Debug)]
pub struct Online {
    problem: Problem,
    receipt: Receipt,
    domain: SensitiveDomain,
    answerer: Answerer,
}

impl Charged<OnlinePlan> {
    /// Opens the sensitive values for online queries. Consumes the plan: one charge, one answerer.
    ///
    /// # Errors
    /// The noise is that of a rehearsal.
    pub fn online(self, source: &mut NoiseSource) -> Result<Online, MechanismError> {
        let Charged { plan: OnlinePlan { problem, mechanism, .. }, receipt, key } = self;
        Online::open(problem, &mechanism, receipt, &key, source)
    }
}

impl Charged<Plan> {
    /// Opens the sensitive values for online queries. Consumes the plan: one charge, one answerer.
    ///
    /// # Errors
    /// The plan is not one of `belief_updates`; the noise is that of a rehearsal.
    pub fn online(self, source: &mut NoiseSource) -> Result<Online, MechanismError> {
        let Charged { plan, receipt, key } = self;
        let Plan { problem, mechanism: MechanismPlan::BeliefUpdates(mechanism), .. } = plan else {
            return Err(MechanismError::NotOnline { wanted: NAME });
        };
        Online::open(problem, &mechanism, receipt, &key, source)
    }
}

impl Online {
    fn open(
        problem: Problem,
        mechanism: &super::Plan,
        receipt: Receipt,
        key: &Unsealed,
        source: &mut NoiseSource,
    ) -> Result<Online, MechanismError> {
        crate::run::refuse_rehearsal(source)?;
        let Method::Online { settings, test } = mechanism.method else {
            return Err(MechanismError::NotOnline { wanted: NAME });
        };
        let domain = mechanism.domain.clone();
        let secret = Secret(domain.private_positions(&problem, key)?);
        let beliefs = Beliefs::uniform(secret.0.len(), domain.len());
        let answerer = Answerer::new(settings, test, mechanism.answer, beliefs, secret, source.stream()?)?;
        Ok(Online { problem, receipt, domain, answerer })
    }

    /// Asks for the mean over the private rows of any query with vectors in the unit ball: `fill` is given the row and writes one vector
    /// per joint value. Set [`Settings::vector_bound`](super::Settings::vector_bound) to 1 for such queries.
    ///
    /// # Errors
    /// No randomness. FAIL is not an error but an [`Answer`].
    pub fn ask<Q: VectorQuery>(&mut self, query: &Q) -> Result<Answer, MechanismError> {
        let (rows, values) = (self.answerer.beliefs().rows(), self.domain.len());
        self.answerer.ask(&PlainQuery::new(query, rows, values))
    }

    /// Asks for the mean gradient of a loss over the private rows.
    ///
    /// # Errors
    /// Weights of the wrong number; no randomness.
    pub fn gradient(&mut self, loss: Loss, weights: &[f64]) -> Result<Answer, MechanismError> {
        let parts = PublicParts::of(&self.problem)?;
        self.answerer.ask(&parts.believed_rows(&self.domain)?.gradient(loss, weights)?)
    }

    /// Solves several problems with the same beliefs, one after the other: what one learns serves the next (Theorem 18). When the
    /// answerer fails, what is left is solved for the beliefs as they are then.
    ///
    /// # Errors
    /// [`MechanismError::Interrupted`] if the watch breaks; sizes and shapes.
    pub fn solve_many(
        &mut self,
        tasks: &[Task],
        watch: &mut dyn Watch,
    ) -> Result<Vec<Solution>, MechanismError> {
        let parts = PublicParts::of(&self.problem)?;
        let width = self.problem.encoding().width();
        let (domain, answerer) = (&self.domain, &mut self.answerer);
        tasks
            .iter()
            .map(|task| solve(answerer, &parts, domain, task, width * task.loss.outputs(), watch))
            .collect()
    }

    /// How many updates have happened.
    pub fn updates(&self) -> u64 {
        self.answerer.updates()
    }

    /// Whether every further query fails.
    pub fn has_failed(&self) -> bool {
        self.answerer.has_failed()
    }

    /// The joint values of the sensitive columns.
    pub fn domain(&self) -> &SensitiveDomain {
        &self.domain
    }

    /// The problem whose rows are asked about.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// What the ledger wrote down.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// Solves one problem by gradient queries. After a FAIL the beliefs go on answering, for they are public.
pub(super) fn solve(
    answerer: &mut Answerer,
    parts: &PublicParts<'_>,
    domain: &SensitiveDomain,
    task: &Task,
    dimension: usize,
    watch: &mut dyn Watch,
) -> Result<Solution, MechanismError> {
    let steps = task.optimizer.steps();
    if let Optimizer::Minimizers { penalty, .. } = task.optimizer {
        return minimizers(answerer, parts, domain, task, penalty, dimension, watch);
    }
    let rows = parts.believed_rows(domain)?;
    let mut failed = None;
    let solution = task.optimizer.run(dimension, task.radius, |step, weights| {
        if watch.progress(step, steps).is_break() {
            return Err(MechanismError::Interrupted);
        }
        let query = rows.gradient(task.loss, weights)?;
        let mean = match answerer.ask(&query)? {
            Answer::Mean(mean) => mean,
            Answer::Fail => {
                failed.get_or_insert(step);
                answerer.believed(&query)?
            }
        };
        parts.objective(task.loss, task.regularization, weights, &mean).map(Some)
    })?;
    let status = failed.map_or(solution.status, |after| Status::Failed { after });
    Ok(Solution { status, ..solution })
}

/// Asks at the minimizer under the beliefs until the updates are used up or there were as many rounds as there may be.
///
/// An answer that seems near enough may seem so by the test's noise, and asking again costs nothing: a block is paid once, however many
/// tests it takes until it ends with an update.
fn minimizers(
    answerer: &mut Answerer,
    parts: &PublicParts<'_>,
    domain: &SensitiveDomain,
    task: &Task,
    penalty: f64,
    dimension: usize,
    watch: &mut dyn Watch,
) -> Result<Solution, MechanismError> {
    let rows = parts.believed_rows(domain)?;
    let (rounds, limits) = (task.optimizer.steps(), (task.regularization.max(penalty), task.radius));
    let (mut weights, mut status) = (vec![0.0; dimension], Status::Finished);
    let mut is_new = true;
    for round in 0..rounds {
        if watch.progress(round, rounds).is_break() {
            return Err(MechanismError::Interrupted);
        }
        if is_new {
            weights = parts.minimizer(domain, answerer.beliefs(), task.loss, limits, weights, ROUGHLY);
        }
        match answerer.ask_once(&rows.gradient(task.loss, &weights)?)? {
            Asked::Updated => is_new = true,
            Asked::Answered(_) => is_new = false,
            Asked::Failed => {
                status = Status::Failed { after: round };
                break;
            }
        }
    }
    let weights = parts.minimizer(domain, answerer.beliefs(), task.loss, limits, weights, CLOSELY);
    Ok(Solution { weights, status })
}
