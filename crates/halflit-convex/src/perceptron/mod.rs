//! A small multilayer perceptron for paper 003's experiment: one hidden layer, ReLU, softmax head. **Not convex.**
//!
//! Nothing in this crate that speaks of minimizers, certificates or excess risk applies to it. What does apply is the integer path: the clipped
//! gradient of an example is a pair of outer products of integer vectors
//!
//! ```text
//! U_i = ( s_i q_i^T , t_i a_i^T )        ||U_i||^2 = |s_i|^2 |q_i|^2 + |t_i|^2 |a_i|^2
//! ```
//!
//! with q the row on the feature lattice, a the hidden activations on their own lattice (and a constant one, the output's bias), t the
//! output's delta and s the hidden layer's. The norm is an exact integer found without forming the gradient (a "ghost" norm); the vectors s and t
//! are scaled down in integers until it is at most the bound; sums are exact 64-bit integers. Both blocks share one lattice
//! unit. With a [`Centre`] the contribution is the difference of two such gradients, that of the row and that of its imputed row.
//!
//! The rows carry their own intercept, if they have one: the hidden layer has no separate bias. See `proof.md`.
#![doc(alias = "MLP")]

mod example;
mod model;
mod sums;

pub use model::{Evaluation, Perceptron, PerceptronShape};
pub use sums::{Centre, PerceptronSums};

use crate::kernel::KernelError;

/// Fractional bits of an activation: a stored integer a means a * 2^-11.
pub const ACTIVATION_BITS: u32 = 11;

/// Largest stored activation; larger ones are cut off there, which is just below 16.
pub const MAX_ACTIVATION: i16 = i16::MAX;

/// Why a perceptron or its sums were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PerceptronError {
    /// A layer of impossible size.
    #[error("{name} is {value}; it must be between {least} and {most}")]
    Size {
        /// Which.
        name: &'static str,
        /// Its value.
        value: usize,
        /// Smallest allowed.
        least: usize,
        /// Largest allowed.
        most: usize,
    },
    /// Not as many weights as the shape has.
    #[error(
        "{found} weights were given; the shape has {expected}: hidden * inputs, then classes * (hidden + 1)"
    )]
    Weights {
        /// How many were given.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// Rows of another width than the model's inputs.
    #[error("the rows have {found} columns, the model has {expected} inputs")]
    Inputs {
        /// Columns of the rows.
        found: usize,
        /// Inputs of the model.
        expected: usize,
    },
    /// A label that names no class. For the data owner: it names a row.
    #[error("the label of row {row} is not one of the {classes} classes 0, 1, ..")]
    Label {
        /// The row.
        row: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A scale that is not a positive number of sensible size.
    #[error("the scale is {value}; it must be between 1e-9 and 1e15 lattice units per unit of gradient")]
    Scale {
        /// The refused scale.
        value: f64,
    },
    /// A centre that does not fit the rows.
    #[error(
        "the centre must have as many rows and columns as the table, or name columns below {columns} in increasing order, each with one value of at least -32767"
    )]
    Centre {
        /// Columns of the rows.
        columns: usize,
    },
    /// What the integer passes refuse.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

#[cfg(test)]
mod tests;
