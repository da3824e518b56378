//! Losses, domains, kernels and certified solvers for convex models.
//!
//! No epsilon, no randomness and no files in here. Rows live on an integer lattice ([`Rows`]), so that whatever is later
//! released is a sum of integers and the bound on one unit's share of it is a fact about integers.
#![deny(unsafe_code)]

pub mod domain;
mod double;
mod eigen;
mod ellipsoid;
pub mod kernel;
pub mod loss;
mod math;
pub mod perceptron;
pub mod quasi_newton;
mod rows;
pub mod solver;
#[cfg(test)]
mod testing;

pub use domain::{Ball, Domain, DomainError};
pub use eigen::Eigen;
pub use ellipsoid::Ellipsoid;
pub use loss::{Interval, LabelDomain, Loss, LossError, LossSpec};
pub use rows::{
    DenseRows, FEATURE_BITS, FEATURE_SCALE, MAX_FEATURE, MAX_ROWS, Rows, RowsError, SparseRow, SparseRows,
};
