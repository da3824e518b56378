//! What every command that charges does before and after the run: the price into the ledger, then a folder and a note, or a note alone.

use crate::Failure;
use crate::files::{must_be_new, parent, write_folder_atomically};
use halflit::figures::{at_most, declared, delta};
use halflit::ledger::Outcome;
use halflit::table::Budget;
use halflit::{Charged, Ledger, Priced};
use std::fmt::Display;
use std::path::Path;

/// Refuses places that could not take a release, before anything is computed or spent.
pub fn must_take_a_release(out: &Path, ledger: &Path) -> Result<(), Failure> {
    must_be_new(out, "--out")?;
    let place = |path: &Path| Some((parent(path).canonicalize().ok()?, path.file_name()?.to_owned()));
    if place(out).is_some_and(|out| Some(out) == place(ledger)) {
        return Err(Failure::BadInput(format!(
            "{} cannot be the release and the ledger at once; choose another place with --out or --ledger",
            out.display()
        )));
    }
    Ok(())
}

/// Says that a release spends more than the declaration foresees: only accounts limit it, and one with a larger cap may let it through.
pub fn beyond_declared(spent: Budget, foreseen: Budget) -> Option<String> {
    let is_beyond = spent.epsilon > foreseen.epsilon || (spent.epsilon > 0.0 && spent.delta > foreseen.delta);
    is_beyond.then(|| {
        format!(
            "this release spends epsilon {} at delta {}, which is beyond the declared budget (epsilon {}, delta {}); only an account with a larger cap \
             lets it through",
            at_most(spent.epsilon, 4),
            delta(spent.delta),
            declared(foreseen.epsilon),
            delta(foreseen.delta)
        )
    })
}

/// Records the price of a plan, in a new ledger if there is none.
pub fn charge<P: Priced>(ledger: &Path, plan: P) -> Result<(Ledger, Charged<P>), Failure> {
    let mut ledger = Ledger::open_or_create_for(ledger, &plan).map_err(Failure::bad_input)?;
    let charged = ledger.charge(plan).map_err(Failure::bad_input)?;
    Ok((ledger, charged))
}

/// Notes that a charged run came to nothing, and gives the failure to report.
pub fn nothing_released(ledger: &mut Ledger, charge: i64, error: &dyn Display, interrupted: bool) -> Failure {
    let reason = if interrupted { "interrupted" } else { "the run failed" };
    let outcome = Outcome::NothingReleased { reason: reason.to_owned() };
    match ledger.record_outcome(charge, outcome) {
        Ok(()) => Failure::Failed(error.to_string()),
        Err(note) => Failure::failed(note),
    }
}

/// Writes the files of a release, all or none, and notes it under the SHA-256 of its main file.
pub fn publish(
    ledger: &mut Ledger,
    charge: i64,
    out: &Path,
    files: &[(&str, &[u8])],
    sha256: &str,
) -> Result<(), Failure> {
    write_folder_atomically(out, files).map_err(|error| {
        Failure::Failed(format!(
            "{} cannot be written: {error}; the charge stays in the ledger",
            out.display()
        ))
    })?;
    let outcome = Outcome::Released { model_sha256: sha256.to_owned() };
    ledger.record_outcome(charge, outcome).map_err(Failure::failed)
}
