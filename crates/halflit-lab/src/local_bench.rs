//! Local randomizers: how many vectors a second, and how large the error.

use crate::Outcome;
use crate::peers::median_seconds;
use crate::record::COMMIT;
use halflit::mechanisms::local::{Kind, Randomizer};
use halflit::noise::{NoiseSource, Stream};
use serde_json::{Value, json};
use std::hint::black_box;

/// Measure the local randomizers on one core: vectors per second, and squared error against the prediction.
#[derive(clap::Args)]
pub struct Args {
    /// Fewer vectors.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Outcome {
    let mut stream = NoiseSource::from_os()?.stream()?;
    let mut speeds = Vec::new();
    for (dimension, epsilon) in
        [(10, 4.0), (100, 1.0), (100, 4.0), (1000, 4.0), (100_000, 4.0), (1_000_000, 4.0)]
    {
        for kind in [Kind::Duchi, Kind::Privunit] {
            speeds.push(speed(&mut stream, kind, dimension, epsilon, args.quick)?);
        }
    }
    let mut errors = Vec::new();
    for (dimension, epsilon) in [(100, 1.0), (1000, 1.0), (1000, 4.0), (1000, 8.0)] {
        for kind in [Kind::Duchi, Kind::Privunit] {
            errors.push(error(
                &mut stream,
                kind,
                dimension,
                epsilon,
                if args.quick { 1000 } else { 20_000 },
            )?);
        }
    }
    if args.json {
        println!(
            "{}",
            json!({ "experiment": "local-bench", "commit": COMMIT, "speeds": speeds, "errors": errors })
        );
        return Ok(());
    }
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    let text = |row: &Value| row["mechanism"].as_str().unwrap_or_default().to_owned();
    println!(
        "{:<10} {:>10} {:>8} {:>18} {:>18}",
        "mechanism", "dimension", "epsilon", "vectors/s/core", "vectors/s (clock)"
    );
    for row in &speeds {
        println!(
            "{:<10} {:>10} {:>8} {:>18.0} {:>18.0}",
            text(row),
            number(row, "dimension"),
            number(row, "epsilon"),
            number(row, "vectors_per_second_per_core"),
            number(row, "vectors_per_second")
        );
    }
    println!(
        "\nSquared error of one message about a unit vector\n{:<10} {:>10} {:>8} {:>12} {:>12} {:>10}",
        "mechanism", "dimension", "epsilon", "predicted", "measured", "se"
    );
    for row in &errors {
        println!(
            "{:<10} {:>10} {:>8} {:>12.3} {:>12.3} {:>10.3}",
            text(row),
            number(row, "dimension"),
            number(row, "epsilon"),
            number(row, "predicted"),
            number(row, "measured"),
            number(row, "standard_error")
        );
    }
    Ok(())
}

/// Processor seconds of this thread so far, where the system tells.
fn busy_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

/// The unit vector along the diagonal.
fn diagonal(dimension: usize) -> Vec<f64> {
    vec![1.0 / (dimension as f64).sqrt(); dimension]
}

fn speed(
    stream: &mut Stream,
    kind: Kind,
    dimension: usize,
    epsilon: f64,
    quick: bool,
) -> Result<Value, Box<dyn std::error::Error>> {
    let randomizer = Randomizer::new(kind, dimension, epsilon)?;
    let vector = diagonal(dimension);
    let calls = ((if quick { 1_000_000 } else { 10_000_000 }) / dimension).max(1);
    let mut failed = None;
    let (busy_before, mut runs) = (busy_seconds(), 0);
    let seconds = median_seconds(5, || {
        runs += 1;
        for _ in 0..calls {
            match randomizer.randomize(stream, &vector) {
                Ok(message) => drop(black_box(message)),
                Err(error) => failed = Some(error),
            }
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    // On a busy machine the clock runs while others do; what this thread itself was given is the fair measure of a core.
    let busy = busy_seconds().zip(busy_before).map(|(after, before)| (after - before) / f64::from(runs));
    let per_core = calls as f64 / busy.filter(|busy| *busy > 0.0).unwrap_or(seconds);
    Ok(json!({
        "mechanism": kind, "dimension": dimension, "epsilon": epsilon, "vectors_per_second": calls as f64 / seconds,
        "vectors_per_second_per_core": per_core,
    }))
}

fn error(
    stream: &mut Stream,
    kind: Kind,
    dimension: usize,
    epsilon: f64,
    draws: usize,
) -> Result<Value, Box<dyn std::error::Error>> {
    let randomizer = Randomizer::new(kind, dimension, epsilon)?;
    let vector = diagonal(dimension);
    let mut squares = Vec::with_capacity(draws);
    for _ in 0..draws {
        let message = randomizer.randomize(stream, &vector)?;
        squares.push(message.iter().zip(&vector).map(|(m, v)| (m - v).powi(2)).sum::<f64>());
    }
    let n = draws as f64;
    let measured = squares.iter().sum::<f64>() / n;
    let variance = squares.iter().map(|x| (x - measured).powi(2)).sum::<f64>() / (n - 1.0);
    Ok(json!({
        "mechanism": kind, "dimension": dimension, "epsilon": epsilon, "predicted": randomizer.squared_error(1.0),
        "measured": measured, "standard_error": (variance / n).sqrt(), "draws": draws,
    }))
}
