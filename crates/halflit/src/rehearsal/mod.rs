//! Public rehearsal: make up the sensitive cells, run a mechanism on the made-up table, choose hyperparameters there. It costs nothing,
//! because it touches no private cell.
//!
//! # Why no private cell can be touched
//!
//! A [`Rehearsal`] is made from a [`PublicSide`] alone: the declaration, the public rows, and the public cells of private rows. There is
//! nothing sealed in it to open. The made-up table is a table of its own, and the key that runs a mechanism on it never leaves this
//! module.
//!
//! ```no_run
//! # fn story(problem: &halflit::Problem) -> Result<(), Box<dyn std::error::Error>> {
//! use halflit::rehearsal::{MadeUp, Rehearsal};
//! let rehearsal = Rehearsal::new(&problem.public_side()?, &MadeUp::default(), usize::MAX)?;
//! println!("{} made-up rows", rehearsal.problem().private_units());
//! # Ok(())
//! # }
//! ```
//!
//! A problem, whose cells are sealed, is not accepted:
//!
//! ```compile_fail,E0308
//! # fn story(problem: &halflit::Problem) {
//! use halflit::rehearsal::{MadeUp, Rehearsal};
//! let rehearsal = Rehearsal::new(problem, &MadeUp::default(), usize::MAX);
//! # }
//! ```
//!
//! Nor can the public side be given a sealed column, or the key be taken out:
//!
//! ```compile_fail,E0451
//! # fn story<'a>(problem: &'a halflit::Problem, mut side: halflit::PublicSide<'a>) {
//! let side = halflit::PublicSide { facts: problem.facts(), ..side };
//! # }
//! ```
//!
//! ```compile_fail,E0599
//! # fn story(rehearsal: halflit::Rehearsal) {
//! let key = rehearsal.key();
//! # }
//! ```
//!
//! # What is made up
//!
//! Weights of the guessed size are drawn (or fitted to a resample of the public rows, if there are enough of them), and every private row gets
//! sensitive cells with probability proportional to prior * exp(-loss of the row with these cells). So the made-up table has a signal
//! of the size that plans expect; [`Rehearsal::numbered`] makes up further tables with larger ones. All numbers follow from a digest of the public data: everyone who has it gets the same rehearsal.

mod cells;
#[cfg(test)]
mod tests;

use crate::mechanisms::public_rows;
use crate::mechanisms::{MechanismError, MechanismPlan, prior_radius};
use crate::problem::{Problem, PublicSide, scores};
use cells::Pool;
use halflit_convex::{Loss, Rows};
use halflit_noise::{FractionBits, Law, RehearsalSource};
use halflit_privacy::Unit;
use halflit_table::{EncodedTable, PublicFeatures, Units, Unsealed};
use sha2::{Digest, Sha256};
use std::num::NonZeroU64;

/// With fewer public rows than this, weights are drawn rather than fitted.
pub(crate) const ENOUGH_PUBLIC_ROWS: usize = 100;

/// Where made-up cells come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum MadeUp {
    /// A model fitted to a resample of the public rows if there are at least 100 of them, else a model drawn from the prior.
    #[default]
    Model,
    /// Every value equally likely, whatever the rest of the row.
    Uniform,
    /// A public prior over the joint values of the sensitive columns (the first column varies slowest, the label fastest), together
    /// with a model drawn from the prior.
    Prior(Vec<f64>),
}

/// A made-up problem with the public part of a real one.
#[derive(Debug)]
pub struct Rehearsal {
    problem: Problem,
    rows: Rows,
    labels: Vec<f64>,
    source: RehearsalSource,
    digest: [u8; 32],
}

impl Rehearsal {
    /// Makes up the sensitive cells of about `most_rows` private rows at most: those of evenly spaced units.
    ///
    /// # Errors
    /// The rows of users are not public; a prior of the wrong length.
    pub fn new(public: &PublicSide<'_>, made_up: &MadeUp, most_rows: usize) -> Result<Self, MechanismError> {
        Rehearsal::numbered(0, public, made_up, most_rows)
    }

    /// As [`Rehearsal::new`], with another table for every number: one table's secrets may matter little by chance. Weights that are drawn, not
    /// fitted, are of the guessed size for number 0, twice as large for 1 and four times for 2, and so on round and round: the guess may be wrong, too.
    ///
    /// # Errors
    /// Those of [`Rehearsal::new`].
    pub fn numbered(
        number: u64,
        public: &PublicSide<'_>,
        made_up: &MadeUp,
        most_rows: usize,
    ) -> Result<Self, MechanismError> {
        let digest = digest(public, number);
        let mut source = RehearsalSource::from_public_digest(digest);
        let mut stream = source.stream()?;
        // Where nothing of a row is public, so many rows as units are declared.
        let declared = Units::Rows(public.facts.private_units as usize);
        let is_blank = matches!(public.view.features, PublicFeatures::None) && public.view.labels.is_none();
        let units = match public.view.units {
            Some(units) => units,
            None if is_blank && *public.facts.relation.unit() == Unit::Row => &declared,
            None => return Err(MechanismError::NothingToRehearse),
        };
        let count = match units {
            Units::Rows(rows) => *rows,
            Units::Users { offsets } => offsets.last().copied().unwrap_or(0),
        };
        let (chosen, units) = spaced_out(units, count, most_rows.max(1));
        let loss = public.declaration.loss();
        let (public_rows, public_labels) = public.public;
        let is_fitted = *made_up == MadeUp::Model && public_rows.len() >= ENOUGH_PUBLIC_ROWS;
        let weights = match made_up {
            MadeUp::Uniform => None,
            _ if is_fitted => Some(fit_to_resample(public, loss, &mut stream)?),
            _ => Some(drawn(public, loss, f64::from(1u8 << (number % 3)), &mut stream)),
        };
        let pool = match made_up {
            _ if is_fitted => Pool::of_public_rows(public)?,
            MadeUp::Prior(prior) => Pool::of_domain(public, Some(prior), &mut stream)?,
            _ => Pool::of_domain(public, None, &mut stream)?,
        };
        let known = match &public.view.features {
            PublicFeatures::All(rows) => Some(rows.select(&chosen)?),
            PublicFeatures::Some(rows) => Some(rows.select(&chosen)?),
            PublicFeatures::None => None,
        };
        let known_labels: Option<Vec<f64>> =
            public.view.labels.map(|labels| chosen.iter().map(|&row| labels[row as usize]).collect());
        let (rows, labels) = pool.fill(
            (chosen.len(), public.encoding.width()),
            known.as_ref(),
            known_labels.as_deref(),
            weights.as_deref().map(|weights| (loss, weights)),
            &mut stream,
        )?;
        let mut facts = public.facts.clone();
        facts.private_units = units.len() as u64;
        facts.private_rows = Some(chosen.len() as u64);
        let public_part = (public_rows.clone(), public_labels.to_vec());
        let encoded = EncodedTable::made_up(
            public.encoding.clone(),
            facts,
            public_part,
            (rows.clone(), labels.clone()),
            units,
        )?;
        let problem = Problem::made_up(encoded, public.declaration.clone());
        Ok(Rehearsal { problem, rows, labels, source, digest })
    }

    /// The made-up problem: plan on it as on any other.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The made-up rows and labels.
    pub fn cells(&self) -> (&Rows, &[f64]) {
        (&self.rows, &self.labels)
    }

    /// Numbers for steps that are rehearsed outside a mechanism: the same ones for the same run.
    pub(crate) fn repeated_stream(&self, run: u64) -> Result<halflit_noise::Stream, MechanismError> {
        let mut digest = self.digest;
        digest.iter_mut().zip(run.to_le_bytes()).for_each(|(byte, run)| *byte ^= run);
        Ok(RehearsalSource::from_public_digest(digest).stream()?)
    }

    /// Runs a planned mechanism on the made-up table. The plan must have been made for a problem with this declaration; noise
    /// calibrated for n rows is that of n rows here too.
    ///
    /// # Errors
    /// Those of the mechanism.
    pub fn train(&mut self, plan: &MechanismPlan) -> Result<Vec<f64>, MechanismError> {
        let fitted = plan.run(&self.problem, &key_to_made_up_cells(), self.source.lend(), &mut ())?;
        Ok(fitted.weights)
    }

    /// The mean loss of weights on the made-up table, public rows and penalty included.
    pub fn loss(&self, weights: &[f64], lambda: f64) -> Result<f64, MechanismError> {
        let loss = self.problem.loss();
        let private = mean_loss(loss, &self.rows, &self.labels, weights)?;
        let (rows, labels) = self.problem.public_data();
        let penalty = 0.5 * lambda * weights.iter().map(|w| w * w).sum::<f64>();
        if rows.is_empty() {
            return Ok(private + penalty);
        }
        let (one, other) =
            (self.problem.private_units() as f64, self.problem.public_row_weight() * rows.len() as f64);
        Ok((one * private + other * mean_loss(loss, rows, labels, weights)?) / (one + other) + penalty)
    }

    /// By how much the loss of weights, with the declared penalty, exceeds the best one; what is not a number is as bad as can be.
    pub(crate) fn excess(&self, weights: &[f64], best_loss: f64) -> Result<f64, MechanismError> {
        let excess = self.loss(weights, self.problem.declared_penalty())? - best_loss;
        Ok(if excess.is_nan() { f64::INFINITY } else { excess.max(0.0) })
    }

    /// The smallest mean loss on the made-up table, up to the solver's tolerance and a small penalty.
    pub fn best_loss(&self, lambda: f64) -> Result<f64, MechanismError> {
        let (public_rows, public_labels) = self.problem.public_data();
        let rows = self.rows.concat(public_rows)?;
        let labels = [&self.labels[..], public_labels].concat();
        let problem = &self.problem;
        let penalty = lambda.max(LEAST_PENALTY);
        let weights = public_rows::fit(
            problem.loss(),
            &rows,
            &labels,
            problem.row_norm_bound(),
            penalty,
            problem.radius(),
        )?;
        self.loss(&weights, lambda)
    }
}

/// Evenly spaced units with about `most` of the `count` rows: their rows, and the units that these form.
fn spaced_out(units: &Units, count: usize, most: usize) -> (Vec<u32>, Units) {
    if count <= most {
        return ((0..count as u32).collect(), units.clone());
    }
    match units {
        Units::Rows(_) => ((0..most).map(|i| (i * count / most) as u32).collect(), Units::Rows(most)),
        Units::Users { offsets } => {
            let users = offsets.len().saturating_sub(1);
            let kept = (users as u128 * most as u128 / count as u128).max(1) as usize;
            let (mut rows, mut starts) = (Vec::new(), vec![0]);
            for user in (0..kept).map(|i| i * users / kept) {
                rows.extend((offsets[user]..offsets[user + 1]).map(|row| row as u32));
                starts.push(rows.len());
            }
            (rows, Units::Users { offsets: starts })
        }
    }
}

/// Keeps the fit of a separable made-up table finite.
const LEAST_PENALTY: f64 = 1e-6;

/// The key to a table that this module has made up itself. It is not handed out: no other table is in reach where it exists.
#[expect(
    clippy::disallowed_methods,
    reason = "opens made-up cells, which cost nothing; no sealed cell is in scope"
)]
fn key_to_made_up_cells() -> Unsealed {
    Unsealed::charge_was_recorded()
}

/// A digest of everything public that a rehearsal depends on, and of its number.
fn digest(public: &PublicSide<'_>, number: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"halflit rehearsal, version 3");
    hash.update(number.to_le_bytes());
    // Encodings and facts always have a JSON form.
    hash.update(serde_json::to_vec(public.encoding).unwrap_or_default());
    hash.update(serde_json::to_vec(public.facts).unwrap_or_default());
    let mut rows = |rows: &Rows| rows.squared_norms().iter().for_each(|norm| hash.update(norm.to_le_bytes()));
    match &public.view.features {
        PublicFeatures::All(features) => rows(features),
        PublicFeatures::Some(features) => rows(features),
        PublicFeatures::None => {}
    }
    rows(public.public.0);
    for label in public.public.1.iter().chain(public.view.labels.unwrap_or(&[])) {
        hash.update(label.to_le_bytes());
    }
    hash.finalize().into()
}

/// A model of public rows drawn with replacement from the public rows (a bootstrap): about as far from the fit to them all as that is from the truth,
/// so that whoever starts from that fit has as far to go as with real cells.
fn fit_to_resample(
    public: &PublicSide<'_>,
    loss: Loss,
    stream: &mut halflit_noise::Stream,
) -> Result<Vec<f64>, MechanismError> {
    let (rows, labels) = public.public;
    let count = NonZeroU64::new(rows.len() as u64).ok_or(MechanismError::NoPublicRows)?;
    let drawn: Vec<u32> = (0..count.get()).map(|_| stream.uniform_below(count) as u32).collect();
    let (rows, labels) =
        (rows.select(&drawn)?, drawn.iter().map(|&row| labels[row as usize]).collect::<Vec<f64>>());
    let radius = public.declaration.task().radius;
    let dimension = public.encoding.width() * loss.outputs();
    let penalty = dimension as f64 / (rows.len() as f64 * public.weights_norm.powi(2));
    public_rows::fit(loss, &rows, &labels, public.facts.row_norm_bound, penalty, radius)
}

/// Weights of some times the guessed norm in a random direction.
fn drawn(public: &PublicSide<'_>, loss: Loss, times: f64, stream: &mut halflit_noise::Stream) -> Vec<f64> {
    let dimension = public.encoding.width() * loss.outputs();
    let mut integers = vec![0; dimension];
    stream.fill_rounded(Law::Normal, FractionBits::LEAST, &mut integers);
    let norm = integers.iter().map(|&z| (z as f64).powi(2)).sum::<f64>().sqrt().max(1.0);
    let radius = times * prior_radius(loss, dimension, public.declaration.task().radius);
    integers.iter().map(|&z| radius * z as f64 / norm).collect()
}

fn mean_loss(loss: Loss, rows: &Rows, labels: &[f64], weights: &[f64]) -> Result<f64, MechanismError> {
    let mut total = 0.0;
    for (row, &label) in labels.iter().enumerate() {
        total += loss.value(&scores(rows, row, weights), label);
    }
    Ok(total / labels.len().max(1) as f64)
}
