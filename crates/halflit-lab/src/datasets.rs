//! Real tables that live beside the project and are never part of it.

use std::path::PathBuf;

/// The folder of a shared dataset, if this machine has it.
pub fn shared_data(name: &str) -> Option<PathBuf> {
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = project.join("../shared/data").join(name);
    folder.is_dir().then_some(folder)
}
