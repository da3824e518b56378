//! Means of chosen columns from private and public rows.
//!
//! Lowy et al. 2024, Proposition 8 (Weighted-Gaussian); the centred variant is ours. Legend: n private units, N public rows, x a unit's cells mapped to
//! [-1, 1], c the centre, C the clip norm, r the weight of a private unit, V^2 = E||x - mean||^2, a the summed variance of the noise on the private sum.
//!
//! ```text
//! r * ( sum over private units of clip_C(x - c)  +  noise )  +  n r c  +  ((1 - n r)/N) * (sum of public rows)
//! ```
//!
//! # Guarantee
//!
//! Contributions are integer vectors of norm at most C; one unit moves their sum by C under zero-out and by 2C under replace. One `Gaussian` event
//! (l2) or one `Laplace` event (l1). Weights, centre and clip norm come from public rows and declared constants. See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | a contribution has norm at most C | the integer clamp of `halflit_noise::clip`, for every unit |
//! | a user's contribution does not grow with the number of rows | the mean of the user's rows |
//! | the sum cannot overflow | `SumLattice::plan`, for the declared number of units |
//! | public columns are the same for all neighbours | `Values::open_column`, which gives no sensitive column |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | no public rows | r = 1/n |
//! | one public row | V^2 is guessed from the bounds; no standard errors |
//! | fewer than 10 public rows | no centred variant |
//! | every chosen column is public | the exact mean, at no cost |
//! | delta = 0 | Laplace noise, or the public rows alone |
//! | fewer units than declared under zero-out | the missing ones are at the centre |

mod design;
mod release;
#[cfg(test)]
mod tests;

pub use design::{Design, LEAST_ROWS_FOR_A_RADIUS, NoiseLaw, Setting, Variant};
pub use release::{ColumnEstimate, MEAN_FORMAT, MeanFile, MeanRelease};

use crate::ledger::{Charged, Receipt};
use crate::mechanisms::means::{PublicMoments, for_each_unit};
use crate::mechanisms::summed_noise::check_range;
use crate::mechanisms::{Inconsistency, MechanismError};
use crate::plan::{PlanError, Priced, priced};
use halflit_noise::{NoiseSource, SumLattice};
use halflit_privacy::calibrate::{self, Budget as Target, CalibrationError};
use halflit_privacy::{
    Change, Delta, Epsilon, Event, Interval, L1Sensitivity, LaplaceScale, NoiseMultiplier, ParameterError,
    Relation,
};
use halflit_table::{Budget, Values};
use serde::{Deserialize, Serialize};

/// The name of the mechanism in plans, certificates and ledgers.
pub const NAME: &str = "weighted_mean";

/// Where it comes from.
pub(crate) const CITATION: &str = "Weighted means of private and public rows: Lowy, Li, Huang and Razaviyayn 2024, Proposition 8. Departures: exact integer noise, users, zero-out, \
     public columns released exactly, and a variant that clips private rows to a ball around the public mean.";

/// How its free parameters are chosen.
pub(crate) fn choices(public_rows: u64) -> String {
    let known =
        if public_rows > 0 { "the public rows and the declared bounds" } else { "the declared bounds" };
    format!(
        "The variant, the weights, the centre and the clip norm minimise the expected squared error predicted from {known}; no private cell was used."
    )
}

/// What a caller may fix; the rest is chosen from public facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeanRequest {
    /// What this release may spend; by default the declared budget.
    pub budget: Option<Budget>,
    /// The estimator; by default the one with the smallest predicted error.
    pub variant: Option<Variant>,
    /// The law of the noise; by default the better one.
    pub noise: Option<NoiseLaw>,
}

/// Everything that is planned. The naive mean is Gaussian by name.
const CANDIDATES: [(Variant, NoiseLaw); 6] = [
    (Variant::PublicOnly, NoiseLaw::Gaussian),
    (Variant::Gaussian, NoiseLaw::Gaussian),
    (Variant::Weighted, NoiseLaw::Gaussian),
    (Variant::Weighted, NoiseLaw::Laplace),
    (Variant::CentredWeighted, NoiseLaw::Gaussian),
    (Variant::CentredWeighted, NoiseLaw::Laplace),
];

/// The candidates for a mean, best first.
#[derive(Debug)]
pub struct MeanPlans {
    values: Values,
    budget: Budget,
    candidates: Vec<Design>,
}

/// A candidate as shown in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeanSummary {
    /// The estimator.
    pub variant: Variant,
    /// The law of its noise; none if no private cell is used.
    pub noise: Option<NoiseLaw>,
    /// Predicted squared error of all sensitive columns together, each mapped to [-1, 1].
    pub predicted_squared_error: f64,
    /// The same as a share of half a column's bounds: root mean square over the columns.
    pub predicted_error: f64,
    /// What a private unit counts.
    pub weight: f64,
    /// What a public row counts.
    pub public_row_weight: f64,
    /// Largest norm of a private unit's contribution; none if no private cell is used.
    pub clip_norm: Option<f64>,
}

impl MeanSummary {
    fn of(design: &Design) -> Self {
        let width = design.centre.len().max(1) as f64;
        MeanSummary {
            variant: design.variant,
            noise: design.noise.as_ref().map(|(law, _)| *law),
            predicted_squared_error: design.predicted_squared_error,
            predicted_error: (design.predicted_squared_error / width).sqrt(),
            weight: design.weight,
            public_row_weight: design.public_row_weight,
            clip_norm: design.noise.as_ref().map(|_| design.clip_norm),
        }
    }
}

impl MeanRequest {
    /// Why nothing that is asked for can be had: the first thing that stands in the way.
    fn refusal(&self, budget: Budget) -> MechanismError {
        match (self.variant, self.noise) {
            (Some(Variant::Gaussian), Some(NoiseLaw::Laplace)) => MechanismError::part(
                "the variant gaussian",
                "Gaussian noise: leave the noise open, or take the variant weighted with Laplace noise",
            ),
            (Some(Variant::PublicOnly), _) => MechanismError::part(
                "the variant public-only",
                "public rows: declare public_rows, or take the variant weighted",
            ),
            (Some(Variant::Exact), _) => MechanismError::part(
                "the variant exact",
                "columns that are all public: leave the sensitive ones out, or take the variant weighted",
            ),
            (Some(Variant::Gaussian), _) | (_, Some(NoiseLaw::Gaussian)) if budget.delta == 0.0 => {
                let pure = vec!["the variant weighted with Laplace noise"];
                MechanismError::NeedsDelta { what: "a mean with Gaussian noise".to_owned(), pure }
            }
            // What is left: the public rows are too few to say how far private ones lie from their mean.
            _ => MechanismError::part(
                "the variant centred-weighted",
                "at least 10 public rows: declare more of them, or take the variant weighted",
            ),
        }
    }
}

impl MeanPlans {
    /// Plans every candidate that the request allows. Reads no private cell.
    ///
    /// # Errors
    /// No candidate is left, or a number outside its range.
    pub fn new(values: Values, request: &MeanRequest) -> Result<Self, PlanError> {
        let budget = request.budget.unwrap_or(values.protection().budget());
        let target = Target { epsilon: Epsilon::new(budget.epsilon)?, delta: Delta::new(budget.delta)? };
        let change = values.protection().relation().change();
        let sensitive = sensitive(&values);
        let public = select(values.public_rows(), values.columns().len(), &sensitive);
        let width = sensitive.len();
        if width == 0 {
            let candidates = vec![exact(&values)];
            return Ok(MeanPlans { values, budget, candidates });
        }
        let setting = Setting {
            units: values.facts().private_units,
            public: &public,
            width,
            // |x_j| <= 1 after the encoding.
            l2_radius: (width as f64).sqrt(),
            l1_radius: width as f64,
            variance: None,
        };
        let mut candidates = Vec::new();
        // Gaussian noise has no epsilon without a delta: only what is pure is planned then, and asking for the other is refused.
        let has_gaussian = budget.delta > 0.0;
        if !has_gaussian && request.noise == Some(NoiseLaw::Gaussian) {
            return Err(request.refusal(budget).into());
        }
        for (variant, law) in CANDIDATES {
            let is_noisy = variant != Variant::PublicOnly;
            if request.variant.is_some_and(|wanted| wanted != variant)
                || request.noise.is_some_and(|wanted| is_noisy && wanted != law)
                || is_noisy && law == NoiseLaw::Gaussian && !has_gaussian
            {
                continue;
            }
            let multiplier = match is_noisy {
                true => multiplier(law, target, change).map_err(MechanismError::from)?,
                false => 0.0,
            };
            if let Some(design) = setting.design(variant, law, multiplier) {
                candidates.push(design.map_err(MechanismError::from)?);
            }
        }
        if candidates.is_empty() {
            return Err(request.refusal(budget).into());
        }
        candidates.sort_by(|a, b| a.predicted_squared_error.total_cmp(&b.predicted_squared_error));
        Ok(MeanPlans { values, budget, candidates })
    }

    /// The candidates, best first.
    pub fn summaries(&self) -> Vec<MeanSummary> {
        self.candidates.iter().map(MeanSummary::of).collect()
    }

    /// The columns and what everyone may know about them.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Takes the best candidate.
    pub fn best(self) -> Result<MeanPlan, PlanError> {
        let MeanPlans { values, budget, candidates } = self;
        let Some(design) = candidates.into_iter().next() else {
            return Err(PlanError::Unknown { wanted: "any".to_owned(), known: Vec::new() });
        };
        let event = Statement::of(&values, &design).event()?;
        // Laplace noise is calibrated for epsilon alone: nothing of delta is used, and nothing of it is claimed.
        let is_pure = design.noise.as_ref().is_some_and(|(law, _)| *law == NoiseLaw::Laplace);
        let budget = if is_pure { Budget { delta: 0.0, ..budget } } else { budget };
        let epsilon = priced(NAME, &event, budget)?;
        Ok(MeanPlan { values, design, event, budget, epsilon })
    }
}

/// The smallest noise scale over clip norm that fits the budget.
fn multiplier(law: NoiseLaw, budget: Target, change: Change) -> Result<f64, CalibrationError> {
    match law {
        NoiseLaw::Gaussian => {
            let event = |noise_multiplier| Event::Gaussian { noise_multiplier, change };
            calibrate::noise_multiplier(budget, event).map(|found| found.value.get())
        }
        // Pure epsilon; what delta would allow on top is about 2 delta, not worth a search. Rounded up: more noise.
        NoiseLaw::Laplace => Ok((change.sensitivity_per_radius() / budget.epsilon.get()).next_up().next_up()),
    }
}

/// The event of noise whose scale is `multiplier` clip norms.
fn price(law: NoiseLaw, multiplier: f64, change: Change) -> Result<Event, ParameterError> {
    match law {
        NoiseLaw::Gaussian => {
            Ok(Event::Gaussian { noise_multiplier: NoiseMultiplier::new(multiplier)?, change })
        }
        // In units of the clip norm one unit moves the sum by 1 (zero-out) or 2 (replace).
        NoiseLaw::Laplace => Ok(Event::Laplace {
            sensitivity: L1Sensitivity::new(change.sensitivity_per_radius())?,
            scale: LaplaceScale::new(multiplier)?,
        }),
    }
}

/// The names of the columns that are sensitive, or of those that are not.
fn names(values: &Values, sensitive: bool) -> Vec<String> {
    let chosen = values.columns().iter().filter(|column| column.is_sensitive() == sensitive);
    chosen.map(|column| column.name().to_owned()).collect()
}

/// The places of the sensitive columns.
fn sensitive(values: &Values) -> Vec<usize> {
    (0..values.columns().len()).filter(|&column| values.columns()[column].is_sensitive()).collect()
}

/// Some columns of rows that stand one after the other.
fn select(rows: &[f64], width: usize, columns: &[usize]) -> Vec<f64> {
    rows.chunks_exact(width).flat_map(|row| columns.iter().map(|&column| row[column])).collect()
}

/// The design for columns that are all public: nothing to estimate.
fn exact(values: &Values) -> Design {
    Design {
        variant: Variant::Exact,
        noise: None,
        centre: Vec::new(),
        clip_norm: 0.0,
        weight: 0.0,
        public_row_weight: 0.0,
        units: values.facts().private_units,
        moments: PublicMoments::of(&[], 0),
        variance: 0.0,
        predicted_squared_error: 0.0,
        predicted_clipping_bias: 0.0,
    }
}

/// An estimator chosen, calibrated and priced. It cannot run: that takes a charge.
#[derive(Debug)]
pub struct MeanPlan {
    values: Values,
    design: Design,
    event: Event,
    budget: Budget,
    epsilon: Interval,
}

impl MeanPlan {
    /// The plan as shown in a table.
    pub fn summary(&self) -> MeanSummary {
        MeanSummary::of(&self.design)
    }

    /// The accountant's interval for epsilon at the budget's delta.
    pub fn epsilon(&self) -> Interval {
        self.epsilon
    }

    pub(crate) fn statement(&self) -> Statement {
        Statement::of(&self.values, &self.design)
    }
}

impl Priced for MeanPlan {
    fn relation(&self) -> &Relation {
        self.values.protection().relation()
    }

    fn event(&self) -> &Event {
        &self.event
    }

    fn mechanism_name(&self) -> &str {
        NAME
    }

    fn declared_budget(&self) -> Budget {
        self.values.protection().budget()
    }
}

/// What the certificate says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The estimator.
    pub variant: Variant,
    /// How a unit may change; decides the sensitivity.
    pub change: Change,
    /// Number of protected units, a public constant.
    pub units: u64,
    /// Number of public rows.
    pub public_rows: u64,
    /// The sensitive columns, in the order of `centre`.
    pub sensitive_columns: Vec<String>,
    /// The public columns, whose means are exact.
    pub public_columns: Vec<String>,
    /// What a private unit counts.
    pub weight: f64,
    /// What a public row counts.
    pub public_row_weight: f64,
    /// What was subtracted from private units before the clip, in columns mapped to [-1, 1].
    pub centre: Vec<f64>,
    /// The noise; none if no private cell was used.
    pub noise: Option<NoiseStatement>,
}

/// What the certificate says about the noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseStatement {
    /// Its law.
    pub law: NoiseLaw,
    /// Largest norm of a unit's contribution: l2 for Gaussian, l1 for Laplace.
    pub clip_norm: f64,
    /// k: the noise has scale 2^k lattice units.
    pub lattice_bits: u32,
    /// B: the clip norm in lattice units, enforced in integers.
    pub lattice_radius: u64,
    /// What was priced: at most 2^k / B.
    pub noise_multiplier: f64,
    /// Scale of the noise on the private sum: standard deviation (Gaussian) or Laplace scale.
    pub noise_scale: f64,
}

impl Statement {
    fn of(values: &Values, design: &Design) -> Self {
        let noise = |(law, lattice): &(NoiseLaw, SumLattice)| NoiseStatement {
            law: *law,
            clip_norm: design.clip_norm,
            lattice_bits: lattice.bits().get(),
            lattice_radius: lattice.radius(),
            noise_multiplier: lattice.noise_multiplier(),
            noise_scale: lattice.noise_scale(),
        };
        Statement {
            variant: design.variant,
            change: values.protection().relation().change(),
            units: design.units,
            public_rows: values.facts().public_rows,
            sensitive_columns: names(values, true),
            public_columns: names(values, false),
            weight: design.weight,
            public_row_weight: design.public_row_weight,
            centre: design.centre.clone(),
            noise: design.noise.as_ref().map(noise),
        }
    }

    /// Whether the mean of this column is that of its cells, without noise and without a guess.
    pub fn is_exact(&self, column: &str) -> bool {
        self.public_columns.iter().any(|public| public == column)
    }

    /// The law of the noise; none if no private cell was used.
    pub fn law(&self) -> Option<NoiseLaw> {
        self.noise.as_ref().map(|noise| noise.law)
    }

    pub(crate) fn event(&self) -> Result<Event, ParameterError> {
        match &self.noise {
            None => Ok(Event::Composed(Vec::new())),
            Some(noise) => price(noise.law, noise.noise_multiplier, self.change),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Inconsistency> {
        let uses_private_cells = !matches!(self.variant, Variant::PublicOnly | Variant::Exact);
        if self.noise.is_some() != uses_private_cells {
            return Err(Inconsistency::new("noise", "there exactly if the variant uses private cells"));
        }
        if (self.variant == Variant::Exact) != self.sensitive_columns.is_empty() {
            return Err(Inconsistency::new("variant", "exact if no column is sensitive, and only then"));
        }
        if self.centre.len() != self.sensitive_columns.len() {
            return Err(Inconsistency::new("centre", "one number for every sensitive column"));
        }
        let mut names: Vec<&String> = self.sensitive_columns.iter().chain(&self.public_columns).collect();
        names.sort();
        if names.is_empty() || names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Inconsistency::new(
                "sensitive_columns",
                "some column, none of them twice or public as well",
            ));
        }
        if self.variant == Variant::PublicOnly && self.weight != 0.0 {
            return Err(Inconsistency::new("weight", "0, because there is no noise"));
        }
        let total = self.units as f64 * self.weight + self.public_rows as f64 * self.public_row_weight;
        if self.variant != Variant::Exact && !((total - 1.0).abs() <= 1e-9) {
            return Err(Inconsistency::new("weight", "such that all weights add up to 1"));
        }
        self.noise.as_ref().map_or(Ok(()), |noise| noise.check(self.units))
    }
}

impl NoiseStatement {
    fn check(&self, units: u64) -> Result<(), Inconsistency> {
        check_range(units, self.lattice_radius)?;
        if !(16..=44).contains(&self.lattice_bits) || self.lattice_radius == 0 {
            return Err(Inconsistency::new(
                "noise.lattice",
                "16 to 44 fraction bits and a radius of at least 1",
            ));
        }
        // s B <= 2^k: both factors are lowered by one step, so an honest product never fails by rounding alone.
        let scale = (1u64 << self.lattice_bits) as f64;
        let product = self.noise_multiplier.next_down() * (self.lattice_radius as f64).next_down();
        // And not much less: it is that quotient, rounded down.
        let is_quotient = self.noise_multiplier * self.lattice_radius as f64 >= scale * (1.0 - 1e-9);
        if !(self.noise_multiplier.is_finite() && product <= scale && is_quotient) {
            return Err(Inconsistency::new("noise.noise_multiplier", "2^lattice_bits / lattice_radius"));
        }
        let expected = self.clip_norm * self.noise_multiplier;
        // B is a whole number, so the real noise is up to one part in B away from clip norm times multiplier.
        let slack = 1.0 / self.lattice_radius as f64 + 1e-9;
        if !((self.noise_scale / expected - 1.0).abs() <= slack) {
            return Err(Inconsistency::new("noise.noise_scale", "clip_norm times noise_multiplier"));
        }
        Ok(())
    }
}

/// The noisy means and how they came about. Not yet a release.
#[derive(Debug)]
pub struct MeanOutput {
    plan: MeanPlan,
    receipt: Receipt,
    /// One per chosen column, in columns mapped to [-1, 1].
    means: Vec<f64>,
    is_seeded: bool,
}

impl Charged<MeanPlan> {
    /// Computes the means. Consumes the plan: one charge, one run.
    ///
    /// # Errors
    /// The operating system gives no randomness; the noise is that of a rehearsal. The charge stays.
    pub fn run(self, source: &mut NoiseSource) -> Result<MeanOutput, MechanismError> {
        let Charged { plan, receipt, key } = self;
        crate::run::refuse_rehearsal(source)?;
        let (values, width) = (&plan.values, plan.values.columns().len());
        let places = sensitive(values);
        let mut stream = source.stream()?;
        let estimate = plan.design.estimate(&mut stream, |each| {
            let mut chosen = vec![0.0; places.len()];
            for_each_unit(values.private_rows().open(&key), width, values.units().open(&key), |unit| {
                chosen.iter_mut().zip(&places).for_each(|(x, &place)| *x = unit[place]);
                each(&chosen);
            });
        });
        let mut means: Vec<f64> =
            (0..width).map(|column| exact_mean(values, column).unwrap_or(0.0)).collect();
        for (&place, mean) in places.iter().zip(estimate) {
            means[place] = mean;
        }
        Ok(MeanOutput { plan, receipt, means, is_seeded: source.is_seeded() })
    }
}

/// The mean of a public column over all units and public rows, each counting the same; none for a sensitive column.
fn exact_mean(values: &Values, column: usize) -> Option<f64> {
    let (cells, units) = values.open_column(column)?;
    let mut sum: f64 = values.public_rows().iter().skip(column).step_by(values.columns().len()).sum();
    for_each_unit(&cells, 1, units, |unit| sum += unit[0]);
    Some(sum / (units.len() as f64 + values.facts().public_rows as f64))
}
