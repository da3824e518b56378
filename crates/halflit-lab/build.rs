//! Records which commit the lab is built from: results say so, and asking git when an experiment ends would name another one.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=10"]);
    println!("cargo::rustc-env=HALFLIT_LAB_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // What can change the answer: a commit, what is staged, any source file. A path that is not there would run this every time.
    for name in ["logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=..");
}

/// What git answers in this folder; nothing without git or outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
