//! All randomness of halflit: a secure generator and exact samplers that return integers.
//!
//! A private statistic is a sum of integers; its noise is an exact continuous draw rounded to an integer once. Adding
//! it is post-processing of the continuous mechanism, so every theorem about that mechanism holds without a
//! discretization term. No floating-point operation lies between random bits and a returned integer.
//!
//! ```
//! use halflit_noise::{FractionBits, Law, NoiseSource};
//!
//! let mut source = NoiseSource::from_os()?;
//! let mut stream = source.stream()?; // one per mechanism
//! let mut noise = [0; 100];
//! stream.fill_rounded(Law::Normal, FractionBits::new(32)?, &mut noise); // round(2^32 Z)
//! # Ok::<(), halflit_noise::NoiseError>(())
//! ```
//!
//! The correctness arguments are in `proof.md` beside this file.
#![forbid(unsafe_code)]

mod discrete;
mod error;
mod exact;
mod float;
mod keystream;
mod lattice;
mod rational;
mod rehearsal;
mod rounded;
mod source;
mod sphere;
#[cfg(test)]
mod statistics;
mod strips;
mod subsample;

pub use discrete::TruncatedDiscreteLaplace;
pub use error::NoiseError;
pub use lattice::{
    LatticeError, Norm, RealLattice, RealRequest, SumLattice, SumRequest, clip, coefficient_limit,
};
pub use rational::{Probability, Rational};
pub use rehearsal::RehearsalSource;
pub use rounded::{FractionBits, Law};
pub use source::{NoiseSource, Stream};
pub use subsample::PoissonSampler;
