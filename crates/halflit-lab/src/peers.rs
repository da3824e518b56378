//! Running the same work through other people's software, in the same run, so that ratios are fair.

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a peer answered: its JSON, or one line on why there is none.
pub type PeerAnswer = Result<Value, String>;

/// Runs a Python program on `python3` and parses the JSON it prints last.
///
/// A missing interpreter or package is an ordinary answer: the benchmark then reports the reason instead of a ratio.
pub fn python(program: &str, arguments: &[String]) -> PeerAnswer {
    let mut child = Command::new("python3")
        .arg("-")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("python3 did not start: {error}"))?;
    child
        .stdin
        .take()
        .expect("stdin was piped")
        .write_all(program.as_bytes())
        .map_err(|error| format!("python3 took no program: {error}"))?;
    let output = child.wait_with_output().map_err(|error| format!("python3 did not finish: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(stderr.lines().last().unwrap_or("python3 failed").to_owned());
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let last = stdout.lines().last().unwrap_or("");
    serde_json::from_str(last).map_err(|error| format!("the peer's last line is not JSON ({error}): {last}"))
}

/// The median wall-clock seconds of `repeats` calls, after one call to warm up.
pub fn median_seconds(repeats: usize, mut work: impl FnMut()) -> f64 {
    work();
    let mut seconds: Vec<f64> = (0..repeats.max(1))
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
