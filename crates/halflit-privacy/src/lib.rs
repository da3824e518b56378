//! Relations, events, profiles, privacy-loss distributions, calibration and filters.
//!
//! No data and no randomness: this crate answers what a release costs, from a description of what happened.
//!
//! ```
//! use halflit_privacy::{Change, Delta, Event, NoiseMultiplier, Profile, SamplingRate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let step = Event::PoissonGaussian {
//!     rate: SamplingRate::at_least(500, 29_700)?,
//!     noise_multiplier: NoiseMultiplier::new(1.5)?,
//!     change: Change::ZeroOut,
//! };
//! let epsilon = Profile::of(&step.repeated(5_000)?)?.epsilon(Delta::new(1e-5)?);
//! assert!(epsilon.lower <= epsilon.upper && epsilon.upper < 3.92);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod calibrate;
mod closed_form;
mod composition;
mod error;
mod event;
pub mod filter;
mod guarantee;
mod number;
mod pld;
mod profile;
mod relation;
mod renyi;
pub mod special;

pub use composition::change_of;
pub use error::AccountingError;
pub use event::{BatchStatistic, Event, RunCount};
pub use guarantee::Guarantee;
pub use number::{
    Delta, Epsilon, Interval, L1Sensitivity, L2Radius, L2Sensitivity, LaplaceScale, Mu, NoiseMultiplier,
    NoiseStd, ParameterError, Rho, SamplingRate,
};
pub use profile::{Profile, ProfilePoint};
pub use relation::{
    Change, ColumnNames, PrivateRows, PublicRows, Relation, RelationError, SensitiveColumns, Unit,
};
pub use renyi::RenyiCurve;
