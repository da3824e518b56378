//! What local messages are predicted to be good for, before anything is charged: from declared constants and public rows.

use super::LocalError;
use super::aggregate::balance;
use super::randomizer::{Kind, Randomizer};
use crate::mechanisms::means::PublicMoments;
use halflit_table::Values;
use serde::Serialize;

/// The predictions for every randomizer.
///
/// Errors are root mean squares over the columns, as a share of half a column's bounds: standard errors of the mean of the population that all rows come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// What one message would cost.
    pub epsilon: f64,
    /// Number of messages.
    pub messages: u64,
    /// Number of public rows.
    pub public_rows: u64,
    /// Summed variance of a row (columns mapped to [-1, 1]): of the public rows, or of uniform cells if fewer than two tell.
    pub variance: f64,
    /// The error of the public rows alone; none without any.
    pub public_rows_alone: Option<f64>,
    /// The randomizers, best first.
    pub randomizers: Vec<RandomizerOutlook>,
}

/// The predictions for one randomizer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RandomizerOutlook {
    /// Which.
    pub randomizer: Kind,
    /// Expected squared error of one message, at most (columns mapped to [-1, 1], summed).
    pub message_squared_error: f64,
    /// The error of the mean of the messages.
    pub messages_alone: f64,
    /// The same with public rows that count as much as a message; none without any.
    pub with_public_rows_equal: Option<f64>,
    /// The same with public rows that count as much as makes the error smallest; none below two of them.
    pub with_public_rows_best: Option<f64>,
}

impl Outlook {
    /// Predicts what messages of these columns at this epsilon (by default the declared budget's) are good for. Reads no private cell.
    ///
    /// # Errors
    /// An epsilon outside [`super::EPSILONS`].
    pub fn new(values: &Values, epsilon: Option<f64>) -> Result<Self, LocalError> {
        let epsilon = epsilon.unwrap_or(values.protection().budget().epsilon);
        let (width, messages) = (values.columns().len(), values.facts().private_units);
        let moments = PublicMoments::of(values.public_rows(), width);
        let variance = moments.variance().unwrap_or(width as f64 / 3.0);
        let rows = moments.rows;
        let share = |squared_error: f64| (squared_error / width as f64).sqrt();
        let predicted = |kind: Kind| {
            let randomizer = Randomizer::new(kind, width, epsilon)?;
            let alone = balance(&randomizer, messages, 0, variance);
            let both = balance(&randomizer, messages, rows, variance);
            let equal = 1.0 / (messages + rows) as f64;
            Ok(RandomizerOutlook {
                randomizer: kind,
                message_squared_error: randomizer.squared_error(0.0) * width as f64,
                messages_alone: share(alone.squared_error(1.0 / messages as f64)),
                with_public_rows_equal: (rows > 0).then(|| share(both.squared_error(equal))),
                with_public_rows_best: (rows > 1).then(|| share(both.squared_error(both.best_weight()))),
            })
        };
        let mut randomizers = [Kind::Privunit, Kind::Duchi]
            .into_iter()
            .map(predicted)
            .collect::<Result<Vec<_>, LocalError>>()?;
        randomizers.sort_by(|a, b| a.messages_alone.total_cmp(&b.messages_alone));
        let public_rows_alone = (rows > 0).then(|| share(variance / rows as f64));
        Ok(Outlook { epsilon, messages, public_rows: rows, variance, public_rows_alone, randomizers })
    }
}
