//! What can go wrong when a tree of events is priced.

use crate::number::ParameterError;
use crate::relation::Change;
use thiserror::Error;

/// A tree that has no price, or a question that has no answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum AccountingError {
    /// A number is out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Events priced for different kinds of change cannot be added up.
    #[error(
        "the events assume both replace and zero-out: price every event under the one change of the relation"
    )]
    MixedChanges,
    /// The events were priced for another kind of change than the relation promises.
    #[error("the events assume {assumed} but the relation says {declared}: price them under {declared}")]
    ChangeMismatch {
        /// What the events assume.
        assumed: Change,
        /// What the relation declares.
        declared: Change,
    },
    /// Parallel branches that no single branch covers multiply.
    #[error(
        "parallel branches combine in more than {most} different ways: describe each parallel step by one branch that \
         costs at least as much as the others"
    )]
    TooManyAlternatives {
        /// How many are priced.
        most: usize,
    },
    /// More repetitions than the accountant counts.
    #[error("a release is repeated more than {most} times: split the plan")]
    TooManyRepetitions {
        /// The largest count.
        most: u64,
    },
    /// Nesting beyond reason.
    #[error("the events are nested more than {deepest} deep: flatten the tree")]
    TooDeep {
        /// The deepest nesting allowed.
        deepest: usize,
    },
}
