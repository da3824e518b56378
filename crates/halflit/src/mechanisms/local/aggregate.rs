//! The server's side: the mean of randomized messages and raw public rows.

use super::message::Messages;
use super::randomizer::Randomizer;
use crate::mechanisms::means::{Balance, PublicMoments};
use halflit_table::ValueColumn;
use serde::Serialize;

/// How much a public row counts next to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// As much: the estimators `semi-duchi` and `semi-privunit` of Lowy et al. 2024.
    Equal,
    /// As much as minimises the expected squared error, the spread of the rows taken from the public ones.
    Best,
}

/// The estimated mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aggregate {
    /// Number of messages.
    pub messages: u64,
    /// Number of public rows.
    pub public_rows: u64,
    /// What one message counts.
    pub message_weight: f64,
    /// What one public row counts.
    pub public_row_weight: f64,
    /// Expected squared error of the encoded vector (columns mapped to [-1, 1]), if the public rows tell the spread.
    pub predicted_squared_error: Option<f64>,
    /// One estimate per column.
    pub columns: Vec<ColumnMean>,
}

/// The estimated mean of a column, in its own units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnMean {
    /// The column.
    pub name: String,
    /// Its mean.
    pub mean: f64,
    /// Standard error of the mean as an estimate for the population that the rows come from; none with a single message or public row.
    pub standard_error: Option<f64>,
}

/// Messages against public rows, columns mapped to [-1, 1].
pub(super) fn balance(randomizer: &Randomizer, messages: u64, public_rows: u64, variance: f64) -> Balance {
    let units = messages as f64;
    // The randomizer sees x/sqrt(d); its error is at most the radius.
    let noise = units * randomizer.squared_error(0.0) * randomizer.dimension() as f64;
    Balance { units, public_rows: public_rows as f64, variance, noise }
}

/// The mean of messages and public rows (`public`: row after row, columns mapped to [-1, 1]).
pub fn aggregate(messages: &Messages, public: &[f64], weights: Weights) -> Aggregate {
    let width = messages.randomizer.dimension();
    let scale = (width as f64).sqrt();
    let moments = PublicMoments::of(public, width);
    let (units, public_rows) = (messages.count as f64, moments.rows as f64);
    let variance = moments.variance();
    let balance = balance(&messages.randomizer, messages.count, moments.rows, variance.unwrap_or(0.0));
    let weight = match (weights, variance) {
        (Weights::Best, Some(_)) => balance.best_weight(),
        _ => 1.0 / (units + public_rows),
    };
    let public_weight = balance.public_weight(weight);
    let columns = (0..width).map(|index| {
        let column = &messages.columns[index];
        let sum = messages.sums[index] * scale;
        let mean = weight * sum + public_weight * public_rows * moments.mean[index];
        let spread = (messages.squares[index] * scale * scale - sum * sum / units).max(0.0) / (units - 1.0);
        let of_messages = (units >= 2.0).then_some(weight * weight * units * spread);
        let of_public = match &moments.variances {
            _ if public_rows == 0.0 => Some(0.0),
            Some(variances) => Some(public_weight * public_weight * public_rows * variances[index]),
            None => None,
        };
        let error = of_messages.zip(of_public).map(|(private, public)| (private + public).sqrt());
        // The bounds were checked when the first message was read.
        let decoder = ValueColumn::new(&column.name, column.low, column.high);
        ColumnMean {
            name: column.name.clone(),
            mean: decoder.as_ref().map_or(f64::NAN, |decoder| decoder.decode(mean)),
            standard_error: error.zip(decoder.as_ref()).map(|(error, decoder)| decoder.decode_length(error)),
        }
    });
    let columns = columns.collect();
    Aggregate {
        messages: messages.count,
        public_rows: moments.rows,
        message_weight: weight,
        public_row_weight: public_weight,
        predicted_squared_error: variance.map(|_| balance.squared_error(weight)),
        columns,
    }
}
