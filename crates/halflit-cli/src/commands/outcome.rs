//! How a charged run ends, for every command that charges: with a folder and a note in the ledger, or with a note alone.

use crate::Failure;
use crate::files::write_folder_atomically;
use halflit::Ledger;
use halflit::ledger::Outcome;
use std::fmt::Display;
use std::path::Path;

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
