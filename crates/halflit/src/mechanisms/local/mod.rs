//! Local randomizers: every private unit randomizes its own vector, so that nobody need be trusted with it.
//!
//! Duchi, Jordan and Wainwright 2013; Bhowmick et al. 2018; Asi, Feldman and Talwar 2022; with public rows: Lowy et al. 2024, section 3.
//! Legend: d dimension, v a unit vector, gamma the cap's edge, c the cap's mass, p the probability of a message in the cap, m = E<u, v>.
//!
//! # Guarantee
//!
//! For any two vectors and any set of messages the probabilities differ by a factor of at most e^epsilon: a unit's message is
//! epsilon-differentially private under replace and under zero-out, each unit sends one, so the release is one `PureDp` event. The exact
//! log-ratio is ln[p (1 - c) / ((1 - p) c)]; it is computed on the safe side and is at most epsilon. Numerics are idealized: directions
//! are doubles. See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | vectors in the unit ball | shortened before anything else (`polar`) |
//! | the log-ratio is at most epsilon | `fewest_outside` with the cap's mass rounded down; the certificate's check repeats it |
//! | the coin has probability p exactly | an integer over 2^63 and the exact Bernoulli sampler |
//! | which unit sent which message says nothing | messages are shuffled and have random ids; under zero-out absent units send too |
//! | a server sees a private gradient randomized only | `Server` takes an [`Answer`] for a private row and nothing else; `Client::answer` makes it |
//! | a client answers once | `Client::answer` consumes the client |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | zero vector | a fair sign of a fixed axis: the mean is zero |
//! | one dimension | randomized response |
//! | a coordinate that is no number | refused on the client |
//! | fewer units than declared under zero-out | the missing ones randomize the zero vector |

mod aggregate;
mod cap;
mod client;
mod message;
mod outlook;
mod randomizer;
mod server;
#[cfg(test)]
mod tests;

pub use aggregate::{Aggregate, ColumnMean, Weights, aggregate};
pub use client::{ANSWER_FORMAT, Answer, Client, QUESTION_FORMAT, Question};
pub use message::{MESSAGE_FORMAT, Message, MessageColumn, MessageError, Messages};
pub use outlook::{Outlook, RandomizerOutlook};
pub use randomizer::{EPSILONS, Kind, MOST_DIMENSIONS, Randomizer};
pub use server::{Curvature, Pass, Server, Turn};

use crate::digest::random_id;
use crate::ledger::{Charged, Receipt};
use crate::mechanisms::means::for_each_unit;
use crate::mechanisms::{Inconsistency, Watch};
use crate::plan::{PlanError, Priced, priced};
use crate::release::{Certificate, ReleaseError, Secrets, Subject};
use halflit_noise::{NoiseError, NoiseSource};
use halflit_privacy::{Change, Epsilon, Event, Interval, ParameterError, Relation};
use halflit_table::{Budget, Values};
use serde::{Deserialize, Serialize};

/// The name of the mechanism in certificates and ledgers.
pub const NAME: &str = "local";

/// Where it comes from.
pub(crate) const CITATION: &str = "Local randomizers on the sphere: Duchi, Jordan and Wainwright 2013; PrivUnit of Bhowmick et al. 2018 with the parameters of Asi, Feldman and \
     Talwar 2022. Lowy et al. 2024, Algorithm 3, prints a plus sign in PrivUnit's normalizer where a minus belongs.";

/// How its free parameters are chosen.
pub(crate) const CHOICES: &str = "The cap and the coin minimise the variance for the given dimension and epsilon; no private cell was used.";

/// Why a local randomizer refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// No such dimension.
    #[error(
        "a vector of {dimension} coordinates cannot be randomized; between 1 and {MOST_DIMENSIONS} are possible"
    )]
    Dimension {
        /// What was asked for.
        dimension: usize,
    },
    /// No such epsilon.
    #[error("epsilon = {epsilon}: must be a number between {} and {}; 4 is a common choice for local privacy", EPSILONS.0, EPSILONS.1)]
    Epsilon {
        /// What was asked for.
        epsilon: f64,
    },
    /// A setting that must be positive is not.
    #[error("{name} = {value}: must be a finite number above 0")]
    NotPositive {
        /// Which.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// No rows, or too many.
    #[error("a pass over {rows} rows is not possible; between 1 and 2^32 - 1 are")]
    Rows {
        /// How many.
        rows: usize,
    },
    /// A vector of another length than planned.
    #[error("the vector has {given} coordinates, the randomizer was planned for {planned}")]
    WrongLength {
        /// Its length.
        given: usize,
        /// The planned one.
        planned: usize,
    },
    /// A coordinate that is no number. For the owner of the vector.
    #[error("coordinate {coordinate} is not a finite number; mend the vector before it is randomized")]
    NotFinite {
        /// Which, counted from 0.
        coordinate: usize,
    },
    /// A question or an answer that does not belong to this pass, this step or this client.
    #[error("{field} is {found}, but must be {expected}; it was altered, or belongs elsewhere")]
    Misplaced {
        /// What does not fit.
        field: &'static str,
        /// What it says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// Somebody else is asked.
    #[error("step {step} is the turn of {turn}; ask that one, or pass the turn over")]
    WrongTurn {
        /// Which step, counted from 1.
        step: u64,
        /// Whose turn it is.
        turn: String,
    },
    /// Everybody was asked.
    #[error("the pass is over: all {turns} rows had their turn")]
    Over {
        /// How many.
        turns: usize,
    },
    /// There is no model before everybody was asked.
    #[error("the pass is not over: {done} of {turns} rows had their turn")]
    NotOver {
        /// How many.
        done: usize,
        /// Out of how many.
        turns: usize,
    },
    /// The accountant refused a number.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The accountant could not price the messages, or says that they cost more than they may.
    #[error(transparent)]
    Price(#[from] PlanError),
    /// The operating system gave no randomness, or a probability was refused.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// A release asked for the numbers of a rehearsal.
    #[error("these numbers follow from public data and protect nobody; take NoiseSource::from_os()")]
    RehearsalNoise,
    /// The caller asked to stop.
    #[error("interrupted: nothing is released, and the charge stays in the ledger")]
    Interrupted,
}

/// Randomization planned for the private units of a table.
#[derive(Debug)]
pub struct LocalPlan {
    values: Values,
    randomizer: Randomizer,
    event: Event,
    price: Interval,
}

impl LocalPlan {
    /// Plans one message per private unit; epsilon defaults to the declared budget's.
    ///
    /// # Errors
    /// An epsilon outside [`EPSILONS`].
    pub fn new(values: Values, kind: Kind, epsilon: Option<f64>) -> Result<Self, LocalError> {
        let epsilon = epsilon.unwrap_or(values.protection().budget().epsilon);
        let randomizer = Randomizer::new(kind, values.columns().len(), epsilon)?;
        let event = Event::PureDp { epsilon: Epsilon::new(epsilon)? };
        let price = priced(NAME, &event, Budget { epsilon, delta: 0.0 })?;
        Ok(LocalPlan { values, randomizer, event, price })
    }

    /// The randomizer.
    pub fn randomizer(&self) -> &Randomizer {
        &self.randomizer
    }

    /// How many messages there will be: a public constant.
    pub fn messages(&self) -> u64 {
        self.values.facts().private_units
    }

    pub(crate) fn statement(&self) -> Statement {
        Statement {
            randomizer: self.randomizer.kind(),
            epsilon: self.randomizer.epsilon(),
            change: self.relation().change(),
            dimension: self.randomizer.dimension() as u64,
            gamma: self.randomizer.gamma(),
            inside_numerator: self.randomizer.inside_numerator(),
            radius: self.randomizer.radius(),
            privacy_loss: self.randomizer.privacy_loss(),
            messages: self.messages(),
        }
    }
}

impl Priced for LocalPlan {
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
    /// Which randomizer.
    pub randomizer: Kind,
    /// What one message costs.
    pub epsilon: f64,
    /// How a unit may change; the price is the same either way.
    pub change: Change,
    /// Coordinates of a vector.
    pub dimension: u64,
    /// The cap's edge: a multiple of 2^-52.
    pub gamma: f64,
    /// The probability of a message in the cap, over 2^63.
    pub inside_numerator: u64,
    /// The length of every message.
    pub radius: f64,
    /// The largest log-ratio, rounded up.
    pub privacy_loss: f64,
    /// Number of messages.
    pub messages: u64,
}

impl Statement {
    pub(crate) fn event(&self) -> Result<Event, ParameterError> {
        Ok(Event::PureDp { epsilon: Epsilon::new(self.epsilon)? })
    }

    pub(crate) fn check(&self) -> Result<(), Inconsistency> {
        let dimension = usize::try_from(self.dimension).ok().filter(|d| (1..=MOST_DIMENSIONS).contains(d));
        let Some(dimension) = dimension else {
            return Err(Inconsistency::new("dimension", "between 1 and 10000000"));
        };
        let steps = self.gamma * (1u64 << 52) as f64;
        if !((0.0..1.0).contains(&self.gamma) && steps.fract() == 0.0) {
            return Err(Inconsistency::new("gamma", "a multiple of 2^-52, at least 0 and below 1"));
        }
        let outside = (1u64 << 63).checked_sub(self.inside_numerator).filter(|&outside| outside > 0);
        let Some(outside) = outside else {
            return Err(Inconsistency::new("inside_numerator", "below 2^63"));
        };
        // A coin that avoids the cap would be as telling; with caps of at most half the sphere, p >= 1/2 excludes it.
        if self.inside_numerator < 1 << 62 {
            return Err(Inconsistency::new("inside_numerator", "at least 2^62"));
        }
        let loss = randomizer::privacy_loss(dimension, self.gamma, outside);
        if !(loss <= self.epsilon) {
            return Err(Inconsistency::new("epsilon", "at least the log-ratio of cap and coin"));
        }
        let is_near = |stated: f64, recomputed: f64| (stated / recomputed - 1.0).abs() <= 1e-9;
        if !is_near(self.privacy_loss, loss) {
            return Err(Inconsistency::new("privacy_loss", "the log-ratio of cap and coin"));
        }
        if !is_near(self.radius, 1.0 / randomizer::agreement(dimension, self.gamma, outside)) {
            return Err(Inconsistency::new("radius", "what makes messages unbiased"));
        }
        if self.randomizer == Kind::Duchi && self.gamma != 0.0 {
            return Err(Inconsistency::new("gamma", "0 for a half-sphere"));
        }
        Ok(())
    }
}

/// The messages of a run, not yet a release.
#[derive(Debug)]
pub struct LocalOutput {
    plan: LocalPlan,
    receipt: Receipt,
    messages: Vec<Message>,
    is_seeded: bool,
}

impl Charged<LocalPlan> {
    /// Randomizes every private unit, in an order that says nothing.
    ///
    /// # Errors
    /// [`LocalError::Interrupted`] if the watch breaks; the noise is that of a rehearsal. The charge stays in every case.
    pub fn run(self, source: &mut NoiseSource, watch: &mut dyn Watch) -> Result<LocalOutput, LocalError> {
        let Charged { plan, receipt, key } = self;
        if source.is_rehearsal() {
            return Err(LocalError::RehearsalNoise);
        }
        let LocalPlan { values, randomizer, .. } = &plan;
        // Ids are published as they are drawn: they have a stream of their own.
        let (mut stream, mut ids) = (source.stream()?, source.stream()?);
        let (width, planned) = (randomizer.dimension(), plan.messages() as usize);
        let scale = (width as f64).sqrt();

        // 1. One vector per unit, in the unit ball; absent units of zero-out are at the centre.
        let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(planned);
        for_each_unit(values.private_rows().open(&key), width, values.units().open(&key), |unit| {
            vectors.push(unit.iter().map(|x| x / scale).collect());
        });
        vectors.resize(planned, vec![0.0; width]);

        // 2. In random order, each through the randomizer.
        let columns: Vec<MessageColumn> = values
            .columns()
            .iter()
            .map(|column| {
                let (low, high) = column.bounds();
                MessageColumn { name: column.name().to_owned(), low, high }
            })
            .collect();
        let order =
            stream.permutation(u32::try_from(planned).map_err(|_| LocalError::Rows { rows: planned })?);
        let mut messages = Vec::with_capacity(planned);
        for (done, &place) in order.iter().enumerate() {
            if done % 1024 == 0 && watch.progress(done as u64, planned as u64).is_break() {
                return Err(LocalError::Interrupted);
            }
            messages.push(Message {
                halflit_message: MESSAGE_FORMAT,
                id: random_id(&mut ids),
                mechanism: randomizer.kind(),
                epsilon: randomizer.epsilon(),
                dimension: width,
                columns: columns.clone(),
                value: randomizer.randomize(&mut stream, &vectors[place as usize])?,
            });
        }
        let _ = watch.progress(planned as u64, planned as u64);
        Ok(LocalOutput { plan, receipt, messages, is_seeded: source.is_seeded() })
    }
}

/// What a client may send.
#[derive(Clone, Debug)]
pub struct LocalRelease {
    /// The messages, one line of JSON each.
    pub messages: String,
    /// The chosen columns of the public rows, as `aggregate` takes them beside the messages; none without public rows.
    pub public_csv: Option<String>,
    /// Their certificate.
    pub certificate: Certificate,
    /// `certificate.json`.
    pub certificate_json: String,
}

impl LocalOutput {
    /// Puts messages and certificate together.
    ///
    /// # Errors
    /// None in practice for the output of a run.
    pub fn release(self) -> Result<LocalRelease, ReleaseError> {
        let LocalOutput { plan, receipt, messages, is_seeded } = self;
        let mut text = String::new();
        for message in &messages {
            text += &serde_json::to_string(message)?;
            text.push('\n');
        }
        let epsilon = plan.randomizer.epsilon();
        let certificate = Subject {
            facts: plan.values.facts(),
            secrets: Secrets::of_values(&plan.values),
            statement: super::Statement::Local(plan.statement()),
            budget: Budget { epsilon, delta: 0.0 },
            epsilon: plan.price,
            choices: CHOICES.to_owned(),
            receipt,
            is_seeded,
            file: text.as_bytes(),
            statistics: None,
        }
        .certify()?;
        let certificate_json = serde_json::to_string_pretty(&certificate)? + "\n";
        let public_csv = public_csv(&plan.values);
        Ok(LocalRelease { messages: text, public_csv, certificate, certificate_json })
    }
}

/// The public rows as a table of the chosen columns.
fn public_csv(values: &Values) -> Option<String> {
    let columns = values.columns();
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let header: Vec<String> = columns.iter().map(|column| quoted(column.name())).collect();
    let mut text = header.join(",") + "\n";
    for row in values.public_rows().chunks_exact(columns.len()) {
        let cell = |(x, column): (&f64, &halflit_table::ValueColumn)| {
            let (low, high) = column.bounds();
            // Rounding on the way to [-1, 1] and back must not carry a cell past its bounds.
            column.decode(*x).clamp(low, high).to_string()
        };
        text += &row.iter().zip(columns).map(cell).collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    (!values.public_rows().is_empty()).then_some(text)
}
