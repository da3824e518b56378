//! Randomized response on the labels with the debiased loss: the baseline that label statistics have to beat.
//!
//! Every private label is reported truthfully with probability 1 - r and otherwise as one of the other values, all alike. A number is first rounded to one end of
//! its interval, at random and without bias. The model is fitted to the reports after their bias is removed.
//!
//! Citation: Warner 1965; Kairouz, Oh, Viswanath 2016 (K values); debiased loss as in Ghazi et al. 2021. Legend: r chance of another value, K values.
//!
//! # Guarantee
//!
//! Changing one private row's label changes the probability of any list of reports by a factor of at most (1 - r)(K - 1)/r: pure differential privacy, `PureDp`, for unit
//! row and change replace. See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | each report depends on its own row's label and fresh coins | `Plan::report`, one label at a time |
//! | the chance r is exact | a ratio of integers, an exact coin ([`halflit_noise::Stream::bernoulli`]) |
//! | features are public, the label is hidden | the plan is refused otherwise |
//! | one row per unit, replace | the plan is refused otherwise |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | a budget so small that reports are almost coins | the debiased sum is almost noise; the penalty grows with it |
//! | a label outside its domain | moved into it first; the guarantee does not rest on it |

#[cfg(test)]
mod tests;

use crate::mechanisms::noisy_statistics::design::{Design, label_steps, public_parts};
use crate::mechanisms::noisy_statistics::fit::plain_fit;
use crate::mechanisms::noisy_statistics::lattice::LabelSteps;
use crate::mechanisms::noisy_statistics::prediction::Rehearsal;
use crate::mechanisms::{Inconsistency, MechanismError, Watch, prior_radius};
use crate::plan::Summary;
use crate::problem::Problem;
use halflit_convex::LabelDomain;
use halflit_noise::{NoiseSource, Probability, Stream};
use halflit_privacy::calibrate::Budget;
use halflit_privacy::{Change, Epsilon, Event, ParameterError, Unit};
use halflit_table::{Regularization, Unsealed};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// The name of the mechanism in plans, certificates and on the command line.
pub const NAME: &str = "randomized_response";

/// Where it comes from.
pub(crate) const CITATION: &str = "Randomized response on the labels (Warner 1965; Kairouz, Oh, Viswanath 2016), fitted with the debiased loss.";

/// How its free parameters are chosen.
pub(crate) const CHOICES: &str = "The penalty follows from the public features and the chance of a false report by a fixed formula; no private cell was used.";

/// Below the line of r.
const DENOMINATOR: u64 = 1 << 40;

/// A checked plan.
#[derive(Clone, Debug)]
pub struct Plan {
    labels: LabelSteps,
    /// K.
    values: u64,
    /// r = numerator / 2^40.
    numerator: u64,
    /// The expected variance of rounding a label to an end of its interval.
    rounding: f64,
    regularization: f64,
    predicted_excess: f64,
}

/// What the certificate says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Number of values that a report can have.
    pub values: u64,
    /// Above the line of the exact chance that a report is not the label.
    pub false_numerator: u64,
    /// Below the line.
    pub false_denominator: u64,
    /// Number of reports.
    pub units: u64,
    /// The l2 penalty.
    pub regularization: f64,
    /// Radius of the ball that the weights stay in, if declared.
    pub radius: Option<f64>,
}

impl Statement {
    /// |ln((1 - r)(K - 1)/r)|, rounded up.
    pub fn event(&self) -> Result<Event, ParameterError> {
        let true_parts = self.false_denominator.saturating_sub(self.false_numerator) as f64;
        let ratio = true_parts * (self.values.saturating_sub(1)) as f64 / self.false_numerator as f64;
        // Three roundings and a logarithm: an ulp of the ratio is 2^-52 in epsilon.
        let epsilon = (ratio.ln().abs() + 1e-14).next_up();
        Ok(Event::PureDp { epsilon: Epsilon::new(epsilon)? })
    }

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        if self.values < 2 || self.values > 1 << 20 {
            return Err(Inconsistency::new("values", "from 2 to 2^20"));
        }
        let is_chance = self.false_numerator > 0 && self.false_numerator < self.false_denominator;
        if !is_chance || self.false_denominator > 1 << 53 {
            return Err(Inconsistency::new(
                "false_numerator",
                "above 0 and below false_denominator, which is at most 2^53",
            ));
        }
        let (numerator, denominator) = (u128::from(self.false_numerator), u128::from(self.false_denominator));
        if numerator * u128::from(self.values) > u128::from(self.values - 1) * denominator {
            return Err(Inconsistency::new(
                "false_numerator",
                "such that no false report is likelier than the true one",
            ));
        }
        Ok(())
    }
}

/// Whether the declaration is of the kind that this mechanism is for.
pub(crate) fn fits(problem: &Problem) -> bool {
    is_row_replace(problem) && super::noisy_statistics::fits(problem)
}

fn is_row_replace(problem: &Problem) -> bool {
    *problem.relation().unit() == Unit::Row && problem.relation().change() == Change::Replace
}

impl Plan {
    /// Chooses the chance of a false report for the budget's epsilon; its delta stays unspent.
    ///
    /// # Errors
    /// Another relation than label privacy for rows under replace, a loss that is not canonical.
    pub fn new(problem: &Problem, budget: Budget) -> Result<Self, MechanismError> {
        let labels = label_steps(problem.loss())?;
        public_parts(&problem.encoded().public_view()?)?;
        if !is_row_replace(problem) {
            return Err(MechanismError::RowsAndReplaceOnly);
        }
        let values = match labels {
            LabelSteps::Interval { .. } => 2,
            LabelSteps::Classes { classes } => classes,
        };
        let others = (values - 1) as f64;
        // Rounded up, by far more than the roundings of this line: a larger chance of falsehood is more private.
        let falsehood = others / (budget.epsilon.get().exp() + others) * (1.0 + 1e-9);
        // r <= (K - 1)/K: beyond, a report would speak against its own value, which tells as much as speaking for it.
        let most = (u128::from(DENOMINATOR) * (values - 1) as u128 / values as u128) as u64;
        let numerator = ((falsehood * DENOMINATOR as f64).ceil() as u64).max(1);
        // (t - low)(high - t) for a label t anywhere in its interval; two labels are its ends.
        let rounding = match problem.loss().label_domain() {
            LabelDomain::Within(interval) => (interval.high - interval.low).powi(2) / 6.0,
            _ => 0.0,
        };
        let (regularization, predicted_excess) = (0.0, f64::INFINITY);
        let mut plan = Plan { labels, values, numerator, rounding, regularization, predicted_excess };
        // A smaller chance than the budget asks for would cost more than the budget.
        if numerator > most || !(plan.contrast() > 0.0) {
            return Err(MechanismError::not_positive("what a report tells at this epsilon", plan.contrast()));
        }
        let design = Design::new(problem, 1)?;
        let weight = design.total_weight;
        let private_share = problem.private_units() as f64 / weight;
        let kappa = plan.report_variance() * private_share;
        let curvature = match labels {
            // A''(0): of the logistic loss, of classes (along one of them), of squared and Poisson losses.
            _ if problem.loss().name() == "logistic" => 0.25,
            LabelSteps::Classes { classes } => 1.0 / classes as f64,
            LabelSteps::Interval { .. } => 1.0,
        };
        let rehearsed =
            Rehearsal::new(&design)?.and_then(|rehearsal| rehearsal.after_row_noise(kappa, curvature));
        let (penalty, predicted) = rehearsed.unwrap_or_else(|| {
            // Beyond assembled sizes: noise of kappa W per coordinate against weights of the guessed size.
            let radius = prior_radius(design.loss, design.size(), design.radius);
            let noise = (kappa * weight * design.size() as f64).sqrt();
            (noise / radius, noise * radius / weight)
        });
        plan.regularization = match problem.regularization() {
            Regularization::Auto => penalty / weight,
            Regularization::Fixed(lambda) => lambda,
        };
        plan.predicted_excess = predicted;
        Ok(plan)
    }

    /// r.
    fn falsehood(&self) -> f64 {
        self.numerator as f64 / DENOMINATOR as f64
    }

    /// How much a report favours its own value: 1 - r - r/(K - 1).
    fn contrast(&self) -> f64 {
        1.0 - self.falsehood() * self.values as f64 / (self.values - 1) as f64
    }

    /// The variance that one rounded, false-or-true report adds to a debiased label, per output.
    fn report_variance(&self) -> f64 {
        match self.labels {
            LabelSteps::Interval { low, high } => {
                let r = self.falsehood();
                self.rounding + r * (1.0 - r) * ((high - low) / self.contrast()).powi(2)
            }
            LabelSteps::Classes { .. } => {
                let other = self.falsehood() / (self.values - 1) as f64;
                other * (1.0 - other) / self.contrast().powi(2)
            }
        }
    }

    /// What the certificate says.
    pub fn statement(&self, problem: &Problem) -> Statement {
        Statement {
            values: self.values,
            false_numerator: self.numerator,
            false_denominator: DENOMINATOR,
            units: problem.private_units(),
            regularization: self.regularization,
            radius: problem.radius(),
        }
    }

    /// The plan as shown in a table.
    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        let variant = format!("labels false with chance {:.3}", self.falsehood());
        let noise = (self.report_variance() / problem.total_weight()).sqrt();
        Summary::of_one_release(problem, NAME, variant, self.predicted_excess, noise)
    }

    /// The report of one label: the position of a value.
    fn report(&self, label: f64, coins: &mut Stream) -> Result<u64, MechanismError> {
        let position = match self.labels {
            LabelSteps::Interval { low, high } => {
                let share = ((label - low) / (high - low)).clamp(0.0, 1.0);
                let rounded = (share * DENOMINATOR as f64).round() as u64;
                u64::from(coins.bernoulli(Probability::new(rounded.min(DENOMINATOR), DENOMINATOR)?))
            }
            LabelSteps::Classes { classes } => (label as u64).min(classes - 1),
        };
        if !coins.bernoulli(Probability::new(self.numerator, DENOMINATOR)?) {
            return Ok(position);
        }
        // One of the other values, all alike.
        let others = NonZeroU64::new(self.values - 1).unwrap_or(NonZeroU64::MIN);
        let other = coins.uniform_below(others);
        Ok(if other < position { other } else { other + 1 })
    }

    /// A report without its bias, for one output.
    fn debiased(&self, report: u64, output: usize) -> f64 {
        let other = self.falsehood() / (self.values - 1) as f64;
        let indicator = |value: u64| (f64::from(u8::from(report == value)) - other) / self.contrast();
        match self.labels {
            LabelSteps::Interval { low, high } => low + (high - low) * indicator(1),
            LabelSteps::Classes { .. } => indicator(output as u64),
        }
    }

    /// Runs the mechanism: numbered as in `proof.md`.
    pub(crate) fn run(
        &self,
        problem: &Problem,
        token: &Unsealed,
        source: &mut NoiseSource,
        watch: &mut dyn Watch,
    ) -> Result<Vec<f64>, MechanismError> {
        if watch.progress(0, 1).is_break() {
            return Err(MechanismError::Interrupted);
        }
        // 1. One report per private label: the release.
        let mut coins = source.stream()?;
        let labels = problem.encoded().private_labels().open(token);
        let reports: Vec<u64> =
            labels.iter().map(|&label| self.report(label, &mut coins)).collect::<Result<_, _>>()?;

        // 2. Post-processing: remove the bias, add the public rows, fit.
        let design = Design::new(problem, 1)?;
        let (_, public_labels) = problem.public_data();
        let mut sums = Vec::with_capacity(design.size());
        for output in 0..design.loss.outputs() {
            sums.extend(design.weighted_sum(|row| match reports.get(row) {
                Some(&report) => self.debiased(report, output),
                None => self.labels.statistic(public_labels[row - reports.len()], output),
            }));
        }
        let weights = plain_fit(&design, &sums, self.regularization)?;
        watch.progress(1, 1).is_break();
        Ok(weights)
    }
}
