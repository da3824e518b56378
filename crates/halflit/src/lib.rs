//! Train convex models under differential privacy when only part of the data is private.
//!
//! The flow is the architecture. Each step takes the previous step's value, so the wrong order does not compile:
//!
//! ```no_run
//! use halflit::noise::NoiseSource;
//! use halflit::table::{Declaration, Declared, OutOfDomain, Table};
//! use halflit::{Ledger, Plans, Problem, Request};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let declaration = Declaration::parse(&std::fs::read_to_string("privacy.toml")?, "privacy.toml")?;
//! let table = Table::read("data.csv".as_ref(), &declaration.read_options())?;
//! let declared = Declared::bind(declaration, table)?;          // private cells are sealed
//! let problem = Problem::pose(declared, OutOfDomain::Refuse)?; // loss, domain, enforced constants
//! let plan = Plans::new(problem, &Request::default())?.best()?; // calibrated and priced; cannot run
//! let mut ledger = Ledger::open_or_create("data.ledger".as_ref())?;
//! let charged = ledger.charge(plan)?;                          // the price is on disk
//! let output = charged.run(&mut NoiseSource::from_os()?, &mut ())?;
//! let release = output.release(&ledger.overview()?.accounts)?;  // model, certificate, report
//! println!("{}", release.certificate.sentence);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod digest;
pub mod figures;
pub mod ledger;
pub mod mechanisms;
pub mod plan;
pub mod plot;
mod problem;
pub mod rehearsal;
pub mod release;
mod run;
#[cfg(test)]
mod testing;

pub use halflit_convex as convex;
pub use halflit_noise as noise;
pub use halflit_privacy as privacy;
pub use halflit_table as table;

pub use ledger::{Charged, Ledger, LedgerError, Receipt};
pub use mechanisms::{MechanismError, Watch};
pub use plan::{Plan, PlanError, Plans, Priced, Request};
pub use problem::{Problem, PublicSide, UnitWeighting};
pub use rehearsal::Rehearsal;
pub use release::{Certificate, Model, Release};
pub use run::RawOutput;

/// What writes models, certificates and ledgers.
pub const SOFTWARE: &str = concat!("halflit ", env!("CARGO_PKG_VERSION"));
