//! What a client sends: one line of JSON that says what it is.

use super::randomizer::{Kind, Randomizer};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::BufRead;

/// Format of a message; grows when its meaning changes. Format 1 had no id, so that copies could not be told from messages.
pub const MESSAGE_FORMAT: u32 = 2;

/// A message's length may differ from the randomizer's radius by this share: nine digits survive any honest transport.
const LENGTH_TOLERANCE: f64 = 1e-9;

/// One randomized vector, with everything needed to use it and to refuse it among others.
///
/// The vector is the columns, each mapped from its bounds to [-1, 1], divided by sqrt(dimension); `value` is an unbiased estimate of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The format; [`MESSAGE_FORMAT`].
    pub halflit_message: u32,
    /// A random number of 32 hexadecimal digits: no two messages share one, so that none is counted twice.
    pub id: String,
    /// Which randomizer.
    pub mechanism: Kind,
    /// What the message cost.
    pub epsilon: f64,
    /// Coordinates of the value.
    pub dimension: usize,
    /// The columns and their bounds, one per coordinate.
    pub columns: Vec<MessageColumn>,
    /// The randomized vector.
    pub value: Vec<f64>,
}

/// A column of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageColumn {
    /// Its name.
    pub name: String,
    /// Its lower bound.
    pub low: f64,
    /// Its upper bound.
    pub high: f64,
}

/// Why messages could not be used. Line numbers count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The file cannot be read.
    #[error("line {line}: {source}")]
    Read {
        /// Where.
        line: usize,
        /// Why.
        source: std::io::Error,
    },
    /// A line is no message.
    #[error("line {line}: this is not a message: {reason}")]
    NotAMessage {
        /// Where.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// Written by another version.
    #[error(
        "line {line}: the message has format {found}, and this version of halflit reads format {MESSAGE_FORMAT}; use the version that wrote it"
    )]
    Format {
        /// Where.
        line: usize,
        /// The message's format.
        found: u32,
    },
    /// A name that is none.
    #[error("line {line}: the id is `{id}`, but must be 32 hexadecimal digits; the message was altered")]
    Id {
        /// Where.
        line: usize,
        /// What is there instead.
        id: String,
    },
    /// A message that is there twice.
    #[error(
        "line {line}: the message {id} is already in line {first}; a message counts once, so remove the copy"
    )]
    Repeated {
        /// Where the copy is.
        line: usize,
        /// Where the message is.
        first: usize,
        /// Its id.
        id: String,
    },
    /// Messages that do not belong together.
    #[error("line {line}: {field} is {found}, but {expected} in line 1; aggregate such messages separately")]
    Mixture {
        /// Where.
        line: usize,
        /// What differs.
        field: &'static str,
        /// Its value here.
        found: String,
        /// Its value in the first message.
        expected: String,
    },
    /// A value of the wrong length.
    #[error(
        "line {line}: the value has {found} coordinates and there are {columns} columns; the message says {dimension}"
    )]
    WrongDimension {
        /// Where.
        line: usize,
        /// Coordinates of the value.
        found: usize,
        /// Columns.
        columns: usize,
        /// What the message says.
        dimension: usize,
    },
    /// A value that no randomizer made.
    #[error(
        "line {line}: the value has length {length}, but every {mechanism} message of this dimension and epsilon has length {radius}; \
         it was altered or made by something else"
    )]
    WrongLength {
        /// Where.
        line: usize,
        /// Its length.
        length: f64,
        /// Which randomizer it claims.
        mechanism: &'static str,
        /// The length it must have.
        radius: f64,
    },
    /// A column without sound bounds.
    #[error("line {line}: column `{column}` has bounds {low} and {high}; they must be finite and in order")]
    Bounds {
        /// Where.
        line: usize,
        /// The column.
        column: String,
        /// Its lower bound.
        low: f64,
        /// Its upper bound.
        high: f64,
    },
    /// The first message's constants are out of range.
    #[error("line 1: {0}")]
    Randomizer(super::LocalError),
    /// Nothing to aggregate.
    #[error("there are no messages")]
    Empty,
}

/// The sum of checked messages of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Messages {
    /// What all of them say about themselves.
    pub randomizer: Randomizer,
    /// Their columns.
    pub columns: Vec<MessageColumn>,
    /// How many there are.
    pub count: u64,
    /// The sum of their values.
    pub(super) sums: Vec<f64>,
    /// The sum of the squares of their values, coordinate by coordinate.
    pub(super) squares: Vec<f64>,
}

impl Messages {
    /// Reads newline-delimited JSON; blank lines are skipped.
    ///
    /// # Errors
    /// The first line that is not a message of the same kind as the first, or a copy of an earlier one.
    pub fn read(lines: impl BufRead) -> Result<Self, MessageError> {
        let mut messages: Option<Messages> = None;
        let mut seen: HashMap<u128, usize> = HashMap::new();
        for (index, text) in lines.lines().enumerate() {
            let line = index + 1;
            let text = text.map_err(|source| MessageError::Read { line, source })?;
            if text.trim().is_empty() {
                continue;
            }
            let message = parse(line, &text)?;
            match &mut messages {
                Some(messages) => messages.add(line, &message)?,
                None => messages = Some(Messages::starting_with(line, &message)?),
            }
            if let Some(first) = seen.insert(id_number(line, &message.id)?, line) {
                return Err(MessageError::Repeated { line, first, id: message.id });
            }
        }
        messages.ok_or(MessageError::Empty)
    }

    fn starting_with(line: usize, first: &Message) -> Result<Self, MessageError> {
        check_format(line, first)?;
        for column in &first.columns {
            let MessageColumn { name, low, high } = column;
            if halflit_table::ValueColumn::new(name, *low, *high).is_none() {
                return Err(MessageError::Bounds { line, column: name.clone(), low: *low, high: *high });
            }
        }
        let randomizer = Randomizer::new(first.mechanism, first.dimension, first.epsilon)
            .map_err(MessageError::Randomizer)?;
        let zeros = vec![0.0; first.dimension];
        let columns = first.columns.clone();
        let mut messages = Messages { randomizer, columns, count: 0, sums: zeros.clone(), squares: zeros };
        messages.add(line, first)?;
        Ok(messages)
    }

    fn add(&mut self, line: usize, message: &Message) -> Result<(), MessageError> {
        check_format(line, message)?;
        let Message { mechanism, epsilon, dimension, columns, value, .. } = message;
        let same = |field, found: String, expected: String| {
            if found == expected {
                Ok(())
            } else {
                Err(MessageError::Mixture { line, field, found, expected })
            }
        };
        same("the mechanism", mechanism.name().to_owned(), self.randomizer.kind().name().to_owned())?;
        same("epsilon", epsilon.to_string(), self.randomizer.epsilon().to_string())?;
        same("the dimension", dimension.to_string(), self.randomizer.dimension().to_string())?;
        if *columns != self.columns {
            return same("the list of columns", described(columns), described(&self.columns));
        }
        check_length(value, &self.randomizer).map_err(|length| MessageError::WrongLength {
            line,
            length,
            mechanism: mechanism.name(),
            radius: self.randomizer.radius(),
        })?;
        for ((sum, square), x) in self.sums.iter_mut().zip(&mut self.squares).zip(value) {
            *sum += x;
            *square += x * x;
        }
        self.count += 1;
        Ok(())
    }
}

/// A message, or what is wrong with the line. A format is told by its number, whatever else is there.
fn parse(line: usize, text: &str) -> Result<Message, MessageError> {
    #[derive(Deserialize)]
    struct Head {
        halflit_message: u32,
    }
    serde_json::from_str(text).map_err(|error| match serde_json::from_str::<Head>(text) {
        Ok(head) if head.halflit_message != MESSAGE_FORMAT => {
            MessageError::Format { line, found: head.halflit_message }
        }
        _ => MessageError::NotAMessage { line, reason: error.to_string() },
    })
}

/// The number behind an id: two spellings of one number are one id.
fn id_number(line: usize, id: &str) -> Result<u128, MessageError> {
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = if is_id { u128::from_str_radix(id, 16).ok() } else { None };
    number.ok_or_else(|| MessageError::Id { line, id: id.to_owned() })
}

fn check_format(line: usize, message: &Message) -> Result<(), MessageError> {
    if message.halflit_message != MESSAGE_FORMAT {
        return Err(MessageError::Format { line, found: message.halflit_message });
    }
    let (found, columns, dimension) = (message.value.len(), message.columns.len(), message.dimension);
    if found != dimension || columns != dimension {
        return Err(MessageError::WrongDimension { line, found, columns, dimension });
    }
    Ok(())
}

/// Whether a value has the length that every value of this randomizer has; otherwise its own.
pub(super) fn check_length(value: &[f64], randomizer: &Randomizer) -> Result<(), f64> {
    // No number in JSON is NaN or infinite; a sum of squares may still overflow, and then fails this guard.
    let length = value.iter().map(|x| x * x).sum::<f64>().sqrt();
    let radius = randomizer.radius();
    if (length - radius).abs() <= LENGTH_TOLERANCE * radius { Ok(()) } else { Err(length) }
}

fn described(columns: &[MessageColumn]) -> String {
    let one = |column: &MessageColumn| format!("{} [{}, {}]", column.name, column.low, column.high);
    columns.iter().map(one).collect::<Vec<_>>().join(", ")
}
