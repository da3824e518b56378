//! Planning: every mechanism that supports the declared relation, priced and ranked by predicted error. No private cell is read.

use crate::figures::{about, count_of};
use crate::mechanisms::{MechanismError, MechanismPlan, Watch, is_hopeless, noisy_gradient, public_rows};
use crate::problem::Problem;
use crate::rehearsal::{ENOUGH_PUBLIC_ROWS, MadeUp, Rehearsal};
use halflit_privacy::{AccountingError, Delta, Event, Interval, ParameterError, Profile, Relation};
use halflit_table::Budget;
use serde::Serialize;

/// What a caller may fix; the rest is chosen from public facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// What this release may spend; by default the declared budget.
    pub budget: Option<Budget>,
    /// The mechanism to take; by default the one with the smallest predicted error.
    pub mechanism: Option<String>,
    /// Parts of `noisy_gradient`. If one is given, that is the mechanism.
    pub gradient: noisy_gradient::Params,
}

impl Request {
    /// The mechanism that is asked for, by its name or by its parts.
    pub(crate) fn wanted(&self) -> Result<Option<&str>, PlanError> {
        let has_parts = self.gradient != noisy_gradient::Params::default();
        match self.mechanism.as_deref() {
            None if has_parts => Ok(Some(noisy_gradient::NAME)),
            Some(mechanism) if has_parts && mechanism != noisy_gradient::NAME => {
                Err(PlanError::PartsOfAnother { mechanism: mechanism.to_owned() })
            }
            named => Ok(named),
        }
    }
}

/// Why nothing could be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A mechanism refused.
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    /// There is no such mechanism for this problem.
    #[error("there is no mechanism {wanted} for this declaration; there are: {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Parts of the noisy gradient for a mechanism that has none.
    #[error(
        "{mechanism} has no steps, clip norm, sampling rate or other parts of {}; leave these options out, or take {0}",
        noisy_gradient::NAME
    )]
    PartsOfAnother {
        /// What was asked for.
        mechanism: String,
    },
    /// Nothing to train on.
    #[error(
        "the private rows were read without their labels; read them with `Declared::bind` to train on them"
    )]
    NoLabels,
    /// An event could not be priced.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// A number outside its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The plan costs more than it may: a mistake in the mechanism, caught before anything is charged or read.
    #[error(
        "{mechanism} would cost epsilon {price} at delta {}, above the {} that was asked for; please report this",
        crate::figures::delta(*delta), crate::figures::declared(*epsilon)
    )]
    OverBudget {
        /// The mechanism.
        mechanism: String,
        /// The upper end of its epsilon.
        price: f64,
        /// What it may spend.
        epsilon: f64,
        /// At this delta.
        delta: f64,
    },
}

/// The candidates for a problem, best first.
#[derive(Debug)]
pub struct Plans {
    problem: Problem,
    budget: Budget,
    candidates: Vec<Candidate>,
    without_public_rows: Option<f64>,
}

/// Predicted excess losses with and without the public rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublicRowsWorth {
    /// How many there are.
    pub rows: u64,
    /// If they were not there; where plans are rehearsed, if they were private like all others.
    pub without: f64,
    /// Whether these are what a rehearsal came to.
    pub is_rehearsed: bool,
    /// If there were nothing else: no budget is needed for that. None where it cannot be predicted.
    pub alone: Option<f64>,
    /// As planned.
    pub with: f64,
    /// Whether the plan is the model of the public rows alone.
    pub is_public_alone: bool,
}

impl PublicRowsWorth {
    /// What they buy, in a sentence.
    pub fn sentence(&self) -> String {
        let (rows, without) = (count_of(self.rows, "public row"), about(self.without, 2));
        let (lower, otherwise, do_not) = match (self.rows, self.is_rehearsed) {
            (1, false) => ("lowers", "without it", "does not"),
            (1, true) => ("lowers", "if it were private", "does not"),
            (_, false) => ("lower", "without them", "do not"),
            (_, true) => ("lower", "if they were private", "do not"),
        };
        if self.is_public_alone {
            let (comes, with) = (if self.rows == 1 { "comes" } else { "come" }, about(self.with, 2));
            return format!(
                "The {rows} alone {comes} to a predicted excess loss of {with}; no private row is used and nothing is spent."
            );
        }
        if self.with < self.without {
            let with = about(self.with, 2);
            format!("The {rows} {lower} the predicted excess loss from {without} ({otherwise}) to {with}.")
        } else {
            format!("The {rows} {do_not} lower the predicted excess loss of {without}.")
        }
    }
}

/// One way to solve the problem.
#[derive(Debug)]
pub struct Candidate {
    mechanism: MechanismPlan,
    summary: Summary,
}

/// A candidate as shown in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The mechanism's name.
    pub mechanism: String,
    /// What distinguishes this candidate.
    pub variant: String,
    /// Predicted excess of the mean loss over the best model, by a formula in public constants or by rehearsal: good for ranking. Infinite if
    /// nothing is predicted of parts that were fixed by hand.
    pub predicted_excess: f64,
    /// Whether the prediction is what the candidate did on a made-up table, the same for all candidates.
    pub is_rehearsed: bool,
    /// Number of noisy releases.
    pub releases: u64,
    /// Passes over the table.
    pub passes: f64,
    /// Noise standard deviation of each coordinate of the mean gradient, per release.
    pub noise_per_release: f64,
    /// Whether the prediction says that the zero model does as well.
    pub is_hopeless: bool,
}

impl Summary {
    /// Of a mechanism that passes over the table once and releases once.
    pub(crate) fn of_one_release(
        problem: &Problem,
        mechanism: &str,
        variant: String,
        predicted_excess: f64,
        noise: f64,
    ) -> Self {
        Summary {
            mechanism: mechanism.to_owned(),
            variant,
            predicted_excess,
            is_rehearsed: false,
            releases: 1,
            passes: 1.0,
            noise_per_release: noise,
            is_hopeless: is_hopeless(predicted_excess, problem),
        }
    }
}

impl Plans {
    /// Plans every candidate that the request allows.
    ///
    /// # Errors
    /// The first refusal if no candidate is left.
    pub fn new(problem: Problem, request: &Request) -> Result<Self, PlanError> {
        Plans::watched(problem, request, &mut ())
    }

    /// The same, telling a watch how far it has come: candidates may be rehearsed, which takes as long as training them.
    ///
    /// # Errors
    /// As [`Plans::new`]; [`MechanismError::Interrupted`] if the watch breaks.
    pub fn watched(problem: Problem, request: &Request, watch: &mut dyn Watch) -> Result<Self, PlanError> {
        let budget = request.budget.unwrap_or(problem.budget());
        let target = halflit_privacy::calibrate::Budget {
            epsilon: halflit_privacy::Epsilon::new(budget.epsilon)?,
            delta: Delta::new(budget.delta)?,
        };
        if problem.encoded().lacks_private_labels() {
            return Err(PlanError::NoLabels);
        }
        let mut candidates = Vec::new();
        let mut refusal = None;
        let wanted = request.wanted()?;
        for mechanism in MechanismPlan::candidates(&problem, wanted, &request.gradient, target) {
            match mechanism {
                Ok(mechanism) => {
                    let summary = mechanism.summary(&problem);
                    candidates.push(Candidate { mechanism, summary });
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        if candidates.is_empty() {
            if let Some(error) = refusal {
                return Err(error.into());
            }
            let known = MechanismPlan::names(&problem).into_iter().map(str::to_owned).collect();
            return Err(PlanError::Unknown { wanted: wanted.unwrap_or("any").to_owned(), known });
        }
        if wanted.is_none() && candidates.len() > 1 && is_worth_rehearsing(&problem) {
            rehearse(&problem, &mut candidates, watch)?;
        }
        // What is not a number is not predicted.
        let rank = |candidate: &Candidate| match candidate.summary.predicted_excess {
            excess if excess.is_nan() => f64::INFINITY,
            excess => excess,
        };
        candidates.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        let without_public_rows = match problem.facts().public_rows {
            // Without a delta there is no Gaussian noise to compare with.
            _ if budget.delta == 0.0 => None,
            0 => None,
            _ => Some(noisy_gradient::predicted_without_public_rows(&problem, target)?),
        };
        Ok(Plans { problem, budget, candidates, without_public_rows })
    }

    /// The candidates, best first.
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.candidates.iter().map(|candidate| &candidate.summary)
    }

    /// The predicted excess of the mean loss if the public rows were not there; none if there are none.
    pub fn without_public_rows(&self) -> Option<f64> {
        self.without_public_rows
    }

    /// What the public rows buy; none if there are none, if nothing is predicted of the best candidate, or if nothing comparable is predicted
    /// without them: formulas compare a mechanism with itself only, a rehearsal any with any.
    pub fn worth_of_public_rows(&self) -> Option<PublicRowsWorth> {
        let Summary { mechanism, predicted_excess, is_rehearsed, .. } = &self.candidates.first()?.summary;
        let is_comparable =
            *is_rehearsed || [noisy_gradient::NAME, public_rows::NAME].contains(&mechanism.as_str());
        if !is_comparable || !predicted_excess.is_finite() {
            return None;
        }
        let rehearsed = |wanted: &dyn Fn(&MechanismPlan) -> bool| {
            let is_it = |c: &&Candidate| c.summary.is_rehearsed && wanted(&c.mechanism);
            self.candidates.iter().find(is_it).map(|candidate| candidate.summary.predicted_excess)
        };
        let (without, alone) = if *is_rehearsed {
            (
                rehearsed(&MechanismPlan::treats_public_rows_as_private)?,
                rehearsed(&|mechanism| matches!(mechanism, MechanismPlan::PublicRows(_))),
            )
        } else {
            (self.without_public_rows?, noisy_gradient::predicted_of_public_fit(&self.problem).ok())
        };
        let (rows, with) = (self.problem.facts().public_rows, *predicted_excess);
        let is_public_alone = mechanism == public_rows::NAME;
        Some(PublicRowsWorth { rows, without, is_rehearsed: *is_rehearsed, alone, with, is_public_alone })
    }

    /// Predicts by rehearsal the only candidate, if no formula does because parts are fixed by hand. Takes about as long as training three times; what would take very long,
    /// or cannot be rehearsed, stays unknown.
    ///
    /// # Errors
    /// [`MechanismError::Interrupted`] if the watch breaks.
    pub fn rehearse_unpredicted(&mut self, watch: &mut dyn Watch) -> Result<(), PlanError> {
        // Among several the order is part of the plan, and `train` does not wait for rehearsals.
        let [only] = &self.candidates[..] else { return Ok(()) };
        let rows = self.problem.facts().private_rows.unwrap_or(self.problem.private_units());
        let is_long = only.summary.passes * rows as f64 > MOST_ROW_VISITS;
        if only.summary.predicted_excess.is_finite() || is_long || !can_be_made_up(&self.problem) {
            return Ok(());
        }
        match rehearse(&self.problem, &mut self.candidates, watch) {
            Err(error @ MechanismError::Interrupted) => Err(error.into()),
            // A prediction is a courtesy.
            _ => Ok(()),
        }
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// What the release may spend.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Takes the best candidate.
    pub fn best(self) -> Result<Plan, PlanError> {
        let worth = self.worth_of_public_rows();
        let Plans { problem, budget, candidates, .. } = self;
        let Some(Candidate { mechanism, summary }) = candidates.into_iter().next() else {
            return Err(PlanError::Unknown { wanted: "any".to_owned(), known: Vec::new() });
        };
        let event = mechanism.statement(&problem).event()?;
        // What is pure needs no delta, whatever it might have had.
        let budget = match event {
            Event::PureDp { .. } => Budget { delta: 0.0, ..budget },
            _ => budget,
        };
        let epsilon = priced(&summary.mechanism, &event, budget)?;
        Ok(Plan { problem, mechanism, summary, event, budget, epsilon, worth })
    }
}

/// Tables with more private rows are ranked by formula: a rehearsal trains every candidate once.
const MOST_REHEARSED_ROWS: u64 = 50_000;

/// And wider ones: every made-up row is compared with hundreds of public ones.
const MOST_REHEARSED_CELLS: u128 = 20_000_000;

/// Candidates whose formula says this many times more than the best are not rehearsed.
const FAR_OFF: f64 = 200.0;

/// Plans that visit rows more often than this are not rehearsed for a prediction alone.
const MOST_ROW_VISITS: f64 = 1e9;

/// Runs of a candidate that is in reach of the best one after the runs before: with one alone, luck decides between neighbours in the ranking.
const REHEARSALS: u32 = 3;

/// How many times as much as the best a candidate may lose to be run again.
const WITHIN_REACH: f64 = 4.0;

/// Formulas of different mechanisms are comparable where features are all sensitive or all public; in between every candidate is tried on one made-up table. Not where public
/// rows are too few for a model: the made-up table would contradict them, and belittle whoever starts there.
fn is_worth_rehearsing(problem: &Problem) -> bool {
    let facts = problem.facts();
    let sensitive = problem.encoding().columns().iter().filter(|column| column.is_sensitive()).count();
    let is_mixed = sensitive > 0 && sensitive < problem.encoding().columns().len();
    is_mixed && facts.private_rows.is_some() && can_be_made_up(problem)
}

/// Whether a made-up table agrees with the public rows, which it does if there are none, or enough for a model of them; and is soon made.
fn can_be_made_up(problem: &Problem) -> bool {
    let facts = problem.facts();
    let rows = facts.private_rows.unwrap_or(problem.private_units());
    let cells = u128::from(rows) * problem.encoding().width() as u128;
    let is_told = facts.public_rows == 0 || facts.public_rows >= ENOUGH_PUBLIC_ROWS as u64;
    is_told && rows <= MOST_REHEARSED_ROWS && cells <= MOST_REHEARSED_CELLS
}

/// Replaces predictions by what candidates do on one made-up table, on average over one to three runs. One that cannot be tried there keeps its formula.
fn rehearse(
    problem: &Problem,
    candidates: &mut [Candidate],
    watch: &mut dyn Watch,
) -> Result<(), MechanismError> {
    let mut rehearsal = Rehearsal::new(&problem.public_side()?, &MadeUp::Model, usize::MAX)?;
    let best_loss = rehearsal.best_loss(problem.declared_penalty())?;
    let least = candidates.iter().map(|c| c.summary.predicted_excess).fold(f64::INFINITY, f64::min);
    let promising = candidates.iter_mut().filter(|c| c.summary.predicted_excess <= FAR_OFF * least);
    let mut tried: Vec<Tried<'_>> =
        promising.map(|candidate| Tried { candidate, excesses: Vec::new() }).collect();
    let total = u64::from(REHEARSALS) * tried.len() as u64;
    let mut done = 0;
    for round in 0..REHEARSALS {
        let best = tried.iter().filter_map(Tried::mean).fold(f64::INFINITY, f64::min);
        for tried in &mut tried {
            if watch.progress(done, total).is_break() {
                return Err(MechanismError::Interrupted);
            }
            done += 1;
            let is_wanted = round == 0 || tried.mean().is_some_and(|mean| mean <= WITHIN_REACH * best);
            if is_wanted && let Ok(weights) = rehearsal.train(&tried.candidate.mechanism) {
                tried.excesses.push(rehearsal.excess(&weights, best_loss)?);
            }
        }
    }
    watch.progress(total, total).is_break();
    for tried in tried {
        if let Some(mean) = tried.mean() {
            let summary = &mut tried.candidate.summary;
            summary.predicted_excess = mean;
            summary.is_rehearsed = true;
            summary.is_hopeless = is_hopeless(mean, problem);
        }
    }
    Ok(())
}

/// A candidate and what its runs lost on the made-up table.
struct Tried<'a> {
    candidate: &'a mut Candidate,
    excesses: Vec<f64>,
}

impl Tried<'_> {
    fn mean(&self) -> Option<f64> {
        let count = self.excesses.len();
        (count > 0).then(|| self.excesses.iter().sum::<f64>() / count as f64)
    }
}

/// What an event costs. Mechanisms calibrate their own noise; the accountant has the last word.
pub(crate) fn priced(mechanism: &str, event: &Event, budget: Budget) -> Result<Interval, PlanError> {
    let Budget { epsilon, delta } = budget;
    let price = Profile::of(event)?.epsilon(Delta::new(delta)?);
    if price.upper <= epsilon {
        return Ok(price);
    }
    Err(PlanError::OverBudget { mechanism: mechanism.to_owned(), price: price.upper, epsilon, delta })
}

/// What the ledger must know of a plan before it lets it run.
pub trait Priced {
    /// Which tables must be indistinguishable.
    fn relation(&self) -> &Relation;

    /// What will happen, as the accountant sees it.
    fn event(&self) -> &Event;

    /// The mechanism's name.
    fn mechanism_name(&self) -> &str;

    /// The declared budget: the cap of the account that a first charge opens.
    fn declared_budget(&self) -> Budget;
}

/// A mechanism chosen, calibrated and priced. It cannot run: that takes a charge.
#[derive(Debug)]
pub struct Plan {
    pub(crate) problem: Problem,
    pub(crate) mechanism: MechanismPlan,
    summary: Summary,
    event: Event,
    budget: Budget,
    epsilon: Interval,
    worth: Option<PublicRowsWorth>,
}

impl Priced for Plan {
    fn relation(&self) -> &Relation {
        self.problem.relation()
    }

    fn event(&self) -> &Event {
        &self.event
    }

    fn mechanism_name(&self) -> &str {
        &self.summary.mechanism
    }

    fn declared_budget(&self) -> Budget {
        self.problem.budget()
    }
}

impl Plan {
    /// What the public rows buy; none if there are none.
    pub fn worth_of_public_rows(&self) -> Option<PublicRowsWorth> {
        self.worth
    }

    /// Which tables must be indistinguishable.
    pub fn relation(&self) -> &Relation {
        self.problem.relation()
    }

    /// What will happen, as the accountant sees it.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// What the release may spend.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The declared budget: the cap of the account that a first charge opens.
    pub fn declared_budget(&self) -> Budget {
        self.problem.budget()
    }

    /// The accountant's interval for epsilon at the budget's delta.
    pub fn epsilon(&self) -> Interval {
        self.epsilon
    }

    /// The mechanism's name.
    pub fn mechanism_name(&self) -> &str {
        &self.summary.mechanism
    }

    /// The plan as shown in a table.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Story;
    use halflit_noise::Probability;

    fn summaries(story: &Story) -> Vec<Summary> {
        Plans::new(story.problem(), &Request::default()).unwrap().summaries().cloned().collect()
    }

    #[test]
    fn what_costs_more_than_it_may_is_no_plan() {
        let event = Event::PureDp { epsilon: halflit_privacy::Epsilon::new(1.0).unwrap() };
        let price = |epsilon: f64| priced("some", &event, Budget { epsilon, delta: 0.0 });
        assert_eq!(price(1.0).unwrap().upper, 1.0);
        for below in [1.0 - f64::EPSILON, 0.0, f64::NAN] {
            assert!(matches!(price(below), Err(PlanError::OverBudget { .. })), "{below}");
        }
    }

    /// delta = 0: what adds Gaussian noise refuses by name, whoever asks; what is pure is planned and priced.
    #[test]
    fn without_a_delta_only_pure_mechanisms_are_planned() {
        use crate::mechanisms::{belief_statistics, belief_updates, block_statistics, noisy_statistics};
        let asked = |story: &Story, mechanism: Option<&str>| {
            let budget = Some(Budget { epsilon: 1.0, delta: 0.0 });
            let request = Request { budget, mechanism: mechanism.map(str::to_owned), ..Request::default() };
            Plans::new(story.problem(), &request)
        };
        let labels = Story { public: vec!["x", "u", "c"], ..Story::new(80) };
        let some_public = Story { public_rows: true, ..Story::new(300) };
        for (story, only) in [(&labels, "randomized_response"), (&some_public, "public_rows")] {
            let plans = asked(story, None).unwrap();
            assert!(
                plans.summaries().all(|row| row.mechanism == only) && plans.worth_of_public_rows().is_none()
            );
            assert!(plans.best().unwrap().epsilon().upper <= 1.0);
        }
        let refused = asked(&Story::new(80), None).unwrap_err().to_string();
        assert!(refused.starts_with("noisy_gradient has no finite epsilon at delta = 0"), "{refused}");
        let refused = asked(&labels, Some("noisy_statistics")).unwrap_err().to_string();
        assert!(
            refused.contains("--delta 1e-6") && refused.ends_with("or take randomized_response"),
            "{refused}"
        );
        assert!(matches!(asked(&labels, Some("nosy_gradient")), Err(PlanError::Unknown { .. })));
        // Past the planner there is an error, too, and no number that is none.
        let target = halflit_privacy::calibrate::Budget {
            epsilon: halflit_privacy::Epsilon::new(1.0).unwrap(),
            delta: Delta::new(0.0).unwrap(),
        };
        let beliefs = Story { public: vec!["x", "u", "y"], ..Story::new(80) };
        let blocks = Story { public: vec!["x"], ..Story::new(80).loss("squared") };
        let gradient = noisy_gradient::Params::default();
        assert!(noisy_gradient::Plan::new(&labels.problem(), &gradient, target).is_err());
        assert!(noisy_statistics::Plan::new(&labels.problem(), target).is_err());
        assert!(block_statistics::Plan::new(&blocks.problem(), target).is_err());
        assert!(belief_statistics::Plan::new(&beliefs.problem(), target).is_err());
        for variant in [belief_updates::Variant::Centred, belief_updates::Variant::Online] {
            assert!(belief_updates::Plan::rehearsed(&beliefs.problem(), variant, target).is_err());
        }
    }

    #[test]
    fn mixed_columns_are_ranked_by_rehearsal_and_others_by_formula() {
        let mixed = Story { public: vec!["x", "u", "y"], ..Story::new(400) };
        let ranked = summaries(&mixed);
        assert!(ranked.len() > 2 && ranked[0].is_rehearsed, "{ranked:?}");
        assert!(ranked.is_sorted_by(|a, b| a.predicted_excess <= b.predicted_excess));
        // A few public rows would contradict a made-up table; many say what it is like.
        for (rows, is_rehearsed) in [(400, false), (2_000, true)] {
            let with_public_rows =
                Story { public: mixed.public.clone(), public_rows: true, ..Story::new(rows) };
            assert_eq!(summaries(&with_public_rows)[0].is_rehearsed, is_rehearsed, "{rows}");
        }
        for public in [vec![], vec!["x", "u", "c"]] {
            assert!(summaries(&Story { public, ..mixed.clone() }).iter().all(|row| !row.is_rehearsed));
        }
        // A mechanism asked for by name has nobody to be ranked with.
        let named = Request { mechanism: Some(noisy_gradient::NAME.to_owned()), ..Request::default() };
        assert!(Plans::new(mixed.problem(), &named).unwrap().summaries().all(|row| !row.is_rehearsed));
    }

    /// Parts that are fixed by hand have no formula: one candidate is tried instead, where a made-up table agrees with what is public.
    #[test]
    fn what_is_fixed_by_hand_is_predicted_by_rehearsal() {
        let predicted = |story: &Story, steps: u64| {
            let constants = noisy_gradient::modes::Constants {
                sampling: noisy_gradient::parts::Sampling::Poisson(Probability::new(1, 16).unwrap()),
                steps: std::num::NonZeroU64::new(steps),
                ..noisy_gradient::modes::Constants::default()
            };
            let gradient = constants.dp_sgd();
            let request = Request { gradient, ..Request::default() };
            let mut plans = Plans::new(story.problem(), &request).unwrap();
            assert!(plans.summaries().all(|row| !row.predicted_excess.is_finite()));
            plans.rehearse_unpredicted(&mut ()).unwrap();
            plans.summaries().next().unwrap().clone()
        };
        let story = Story { public_rows: true, ..Story::new(3_000) };
        for story in [&story, &Story { zero_out: true, ..story.clone() }] {
            let generous = predicted(&Story { epsilon: 20.0, ..story.clone() }, 200);
            let tight = predicted(&Story { epsilon: 0.05, ..story.clone() }, 200);
            assert!(generous.is_rehearsed && tight.is_rehearsed);
            assert!(generous.predicted_excess < 0.1 * tight.predicted_excess, "{generous:?} {tight:?}");
        }
        for (rows, steps) in [(400, 200), (3_000, 10_000_000)] {
            let summary = predicted(&Story { public_rows: true, ..Story::new(rows) }, steps);
            assert!(!summary.is_rehearsed, "{rows} {steps}: few public rows, or years");
        }
    }

    /// Refused before anything could be charged.
    #[test]
    fn rows_without_labels_are_not_trained_on() {
        use halflit_table::{Declaration, Declared, OutOfDomain};
        let story = Story { public: vec!["x", "u", "c"], ..Story::new(60) };
        let declaration = Declaration::parse(&story.declaration(), "privacy.toml").unwrap();
        let table = story.cells.table_for("logistic");
        let declared = Declared::bind_without_private_labels(declaration, table).unwrap();
        let problem = Problem::pose(declared, OutOfDomain::Refuse).unwrap();
        assert!(matches!(Plans::new(problem, &Request::default()), Err(PlanError::NoLabels)));
    }

    /// The comparison is of one mechanism with itself: others have no prediction without the public rows.
    #[test]
    fn public_rows_are_priced_where_they_can_be() {
        let worth = |story: &Story, mechanism: Option<&str>| {
            let request = Request { mechanism: mechanism.map(str::to_owned), ..Request::default() };
            Plans::new(story.problem(), &request).unwrap().worth_of_public_rows()
        };
        let story = Story { public_rows: true, ..Story::new(400) };
        let free = worth(&story, Some(public_rows::NAME)).unwrap();
        assert_eq!(free.alone, Some(free.with));
        let gradient = worth(&story, Some(noisy_gradient::NAME)).unwrap();
        assert_eq!(gradient.alone, free.alone, "whatever else was planned");
        let labels = Story { public: vec!["x", "u", "c"], ..story };
        for mechanism in ["noisy_statistics", "randomized_response"] {
            assert_eq!(worth(&labels, Some(mechanism)), None, "{mechanism}");
        }
    }

    #[test]
    fn rankings_do_not_see_sensitive_cells() {
        let story = Story { public: vec!["x", "u", "y"], ..Story::new(400) };
        let mut other = story.clone();
        other.cells.c.iter_mut().for_each(|c| *c = "d".to_owned());
        assert_eq!(summaries(&story), summaries(&other));
    }

    #[test]
    fn planning_can_be_interrupted() {
        struct Never;
        impl Watch for Never {
            fn progress(&mut self, _: u64, _: u64) -> std::ops::ControlFlow<()> {
                std::ops::ControlFlow::Break(())
            }
        }
        let story = Story { public: vec!["x", "u", "y"], ..Story::new(400) };
        let stopped = Plans::watched(story.problem(), &Request::default(), &mut Never);
        assert!(matches!(stopped, Err(PlanError::Mechanism(MechanismError::Interrupted))));
    }
}
