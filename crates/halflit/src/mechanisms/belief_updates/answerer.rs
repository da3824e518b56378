//! Algorithm 2 of [GKKMMZ24]: beliefs answer linear vector queries online; the table is asked only when they are far off.

use super::noise::{AnswerNoise, TestNoise};
use crate::mechanisms::MechanismError;
use halflit_convex::kernel::{BeliefQuery, BeliefSums, BeliefUpdate, Beliefs};
use halflit_noise::{LatticeError, Stream};
use serde::{Deserialize, Serialize};

/// What steers the updates. All of it is public and fixed before the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// eta: how fast beliefs change.
    pub rate: f64,
    /// c: where the exponent of an update is cut off.
    pub truncation: f64,
    /// tau: how far an answer may be off before the table is asked, in units of `vector_bound` per row.
    pub threshold: f64,
    /// The least size that an update divides by, in the same units. Positive.
    pub size_floor: f64,
    /// G: what the norms of a query's vectors are measured in (1 for the unit ball).
    pub vector_bound: f64,
    /// L_max: the most updates; the run is charged for all of them.
    pub max_updates: u64,
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), MechanismError> {
        let numbers = [
            ("rate of the belief updates", self.rate),
            ("truncation of the belief updates", self.truncation),
            ("threshold of the belief updates", self.threshold),
            ("size floor of the belief updates", self.size_floor),
            ("vector bound of the belief updates", self.vector_bound),
            ("number of belief updates", self.max_updates as f64),
        ];
        match numbers.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            Some((name, value)) => Err(MechanismError::not_positive(name, value)),
            None => Ok(()),
        }
    }
}

/// What a query got. The mean over rows of the query's vectors, or nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The beliefs' answer: within the threshold of the truth, up to the test's noise.
    Mean(Vec<f64>),
    /// The updates are used up. An ordinary outcome; the table is not touched any more.
    Fail,
}

impl Answer {
    /// The mean, if there is one.
    pub fn mean(self) -> Option<Vec<f64>> {
        match self {
            Answer::Mean(mean) => Some(mean),
            Answer::Fail => None,
        }
    }
}

/// What became of one attempt to answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// The beliefs' answer was near enough.
    Answered(Vec<f64>),
    /// It was not; the beliefs have been updated.
    Updated,
    /// The updates are used up.
    Failed,
}

/// Answers linear vector queries about rows with sensitive values.
///
/// Made by [`Charged::online`](crate::Charged): only a charged plan can open the sensitive values.
#[derive(Debug)]
pub struct Answerer {
    settings: Settings,
    test: TestNoise,
    answer: AnswerNoise,
    beliefs: Beliefs,
    state: State,
    /// Private: every row's value.
    secret: Secret,
    stream: Stream,
}

/// Every row's sensitive value. Prints nothing.
pub(super) struct Secret(pub Vec<u16>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Sealed")
    }
}

#[derive(Debug)]
struct State {
    /// chi of the current block; drawn when the block's first query arrives.
    threshold_noise: Option<i64>,
    updates: u64,
    answered: u64,
}

impl Answerer {
    pub(super) fn new(
        settings: Settings,
        test: TestNoise,
        answer: AnswerNoise,
        beliefs: Beliefs,
        secret: Secret,
        stream: Stream,
    ) -> Result<Self, MechanismError> {
        settings.check()?;
        let state = State { threshold_noise: None, updates: 0, answered: 0 };
        Ok(Answerer { settings, test, answer, beliefs, state, secret, stream })
    }

    /// Asks for the mean of the query's vectors, again after every update.
    ///
    /// # Errors
    /// A query over other rows or values; no randomness. Neither depends on a private cell.
    pub fn ask(&mut self, query: &dyn BeliefQuery) -> Result<Answer, MechanismError> {
        loop {
            match self.ask_once(query)? {
                Asked::Answered(mean) => return Ok(Answer::Mean(mean)),
                Asked::Updated => {}
                Asked::Failed => return Ok(Answer::Fail),
            }
        }
    }

    /// Asks for the mean of the query's vectors, or updates the beliefs: numbered as in `proof.md`.
    ///
    /// # Errors
    /// As [`Answerer::ask`].
    pub fn ask_once(&mut self, query: &dyn BeliefQuery) -> Result<Asked, MechanismError> {
        let rows = self.beliefs.rows().max(1) as f64;
        if self.has_failed() {
            return Ok(Asked::Failed);
        }
        // 1. One pass: the believed sum (public), the actual sum (private), the diameter and the norm (public).
        let sums = query.sums(&self.beliefs, &self.secret.0)?;
        let scale = query.unit() / rows;
        let believed: Vec<f64> = sums.believed.iter().map(|&sum| sum as f64 * scale).collect();
        let diameter = sums.diameter();
        if diameter == 0 {
            // 2. Nothing depends on the secret values: the beliefs' answer is exact.
            self.state.answered += 1;
            return Ok(Asked::Answered(believed));
        }
        // 3. AboveThreshold on the distance, in integers.
        let chi = match self.state.threshold_noise {
            Some(chi) => chi,
            None => *self.state.threshold_noise.insert(self.test.threshold(&mut self.stream)?),
        };
        let tau = to_lattice(self.settings.threshold * self.settings.vector_bound / scale);
        let distance = sums.distance();
        if !self.test.is_above(&mut self.stream, distance, tau, diameter, chi)? {
            self.state.answered += 1;
            return Ok(Asked::Answered(believed));
        }
        // 4. The block is spent, whatever happens below.
        self.state.updates += 1;
        self.state.threshold_noise = None;
        // 5. The Gaussian answer and the noisy size.
        let direction = noisy_difference(&self.answer, &mut self.stream, &sums, scale)?;
        let size = scale * self.test.size(&mut self.stream, distance, diameter)?;
        // 6. The multiplicative update: post-processing.
        let floor = self.settings.size_floor * self.settings.vector_bound;
        let update = BeliefUpdate {
            direction,
            rate: self.settings.rate,
            size: self.settings.vector_bound * size.max(floor),
            truncation: self.settings.truncation,
        };
        query.update(&mut self.beliefs, &update)?;
        Ok(Asked::Updated)
    }

    /// The mean of the query's vectors under the beliefs: no private cell is used, so it may be had even after a FAIL.
    ///
    /// # Errors
    /// A query over other rows or values.
    pub fn believed(&self, query: &dyn BeliefQuery) -> Result<Vec<f64>, MechanismError> {
        // The actual sum that comes with it is one of made-up values, and is not looked at.
        let sums = query.sums(&self.beliefs, &vec![0; self.beliefs.rows()])?;
        let scale = query.unit() / self.beliefs.rows().max(1) as f64;
        Ok(sums.believed.iter().map(|&sum| sum as f64 * scale).collect())
    }

    /// How many updates have happened: known to everyone who sees the answers.
    pub fn updates(&self) -> u64 {
        self.state.updates
    }

    /// How many queries were answered.
    pub fn answered(&self) -> u64 {
        self.state.answered
    }

    /// Whether every further query fails.
    pub fn has_failed(&self) -> bool {
        self.state.updates >= self.settings.max_updates
    }

    /// The beliefs: a function of noisy releases and public values.
    pub fn beliefs(&self) -> &Beliefs {
        &self.beliefs
    }

    /// What steers the updates.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Binary digits of the factor that fits a sum to the answer's lattice.
const FACTOR_BITS: u32 = 32;

/// The actual mean minus the believed one, with Gaussian noise: the integer difference is scaled so that one row moves it by at most
/// `radius`, then meets its noise. It is at most rows * radius long, so it cannot overflow.
pub(super) fn noisy_difference(
    noise: &AnswerNoise,
    stream: &mut Stream,
    sums: &BeliefSums,
    scale: f64,
) -> Result<Vec<f64>, MechanismError> {
    let factor = factor(noise.radius, sums.diameter(), sums.believed.len())
        .ok_or(LatticeError::NoSignal { noise_multiplier: 1.0 / noise.mu() })?;
    let differences = sums.actual.iter().zip(&sums.believed).map(|(actual, believed)| actual - believed);
    let mut values: Vec<i64> = differences.map(|difference| scaled(difference, factor)).collect();
    noise.add(stream, &mut values)?;
    let unit = scale * (1u64 << FACTOR_BITS) as f64 / factor as f64;
    Ok(values.iter().map(|&value| value as f64 * unit).collect())
}

/// floor(difference * factor / 2^32). Cut off far beyond what a sum can be; cutting off moves no two values apart.
fn scaled(difference: i64, factor: u64) -> i64 {
    ((i128::from(difference) * i128::from(factor)) >> FACTOR_BITS).clamp(-(1 << 61), 1 << 61) as i64
}

/// The largest F with diameter * F / 2^32 + sqrt(dimension) <= radius: each coordinate's floor adds less than one unit to how far one
/// row moves it. None if there is no positive one.
fn factor(radius: u64, diameter: u64, dimension: usize) -> Option<u64> {
    let room = u128::from(radius.checked_sub(dimension.isqrt() as u64 + 1)?) << FACTOR_BITS;
    let factor = room / u128::from(diameter.max(1));
    (factor > 0).then(|| factor.min(1 << 62) as u64)
}

/// A real length as an integer, rounded up; what is not a number is as long as can be.
fn to_lattice(length: f64) -> u64 {
    if length < 9e18 { length.max(0.0).ceil() as u64 } else { 9_000_000_000_000_000_000 }
}
