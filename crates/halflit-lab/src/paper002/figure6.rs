//! Figure 6: a budget at which DP-SGD diverges while methods that lean on the public rows converge.

use super::Args;
use super::regression::{Draw, FEATURE_BOUND, Setting, budget, train};
use crate::Outcome;
use crate::record::{COMMIT, Measured, write};
use halflit::mechanisms::noisy_gradient::Params;
use halflit::mechanisms::noisy_gradient::modes::{self, Constants};
use halflit::mechanisms::noisy_gradient::parts::Sampling;
use halflit::noise::Probability;
use halflit::plot::{LineChart, Scale, Series};
use halflit_privacy::Change;
use serde_json::json;
use std::fmt::Write;
use std::num::NonZeroU64;

/// The paper's setting; it does not print batch and step sizes.
const DIMENSION: usize = 50;
const ROWS: usize = 1000;
const PUBLIC_ROWS: usize = 100;
const EPSILON: f64 = 0.01;
const STEP_SIZE: f64 = 0.1;
const ALPHA: f64 = 0.01;
const ITERATIONS: [u64; 7] = [10, 30, 100, 300, 1000, 3000, 10_000];

/// Test loss against the number of iterations; every point is a whole training with its own noise.
pub fn run(args: &Args) -> Outcome {
    let draws = args.draws.unwrap_or(if args.quick { 5 } else { 20 }).max(1);
    let mut curves: Vec<(&str, Vec<(u64, Measured)>)> = Vec::new();
    for name in ["DP-SGD", "DP-GD", "Algorithm 1", "halflit", "public only"] {
        let mut curve = Vec::new();
        for iterations in ITERATIONS {
            let mut risks = Vec::new();
            for index in 0..draws {
                let draw = Draw::new(ROWS, DIMENSION, args.seed + index as u64);
                let problem = draw.problem(Setting { public_rows: PUBLIC_ROWS, change: Change::ZeroOut })?;
                let (mechanism, params) = match method(name, &draw, iterations)? {
                    Some(params) => ("noisy_gradient", params),
                    None => ("public_rows", Params::default()),
                };
                risks.push(draw.risk(&train(problem, params, Some(mechanism), budget(EPSILON))?.0));
            }
            curve.push((iterations, Measured::of(&risks).ok_or("no draws")?));
        }
        curves.push((name, curve));
    }
    report(&curves, args, draws)
}

/// The parts of a method; none for public-only. All constants of the stochastic methods are the same, so that the use of the public rows is what differs.
fn method(name: &str, draw: &Draw, iterations: u64) -> Result<Option<Params>, Box<dyn std::error::Error>> {
    let full = Constants {
        steps: NonZeroU64::new(iterations),
        step_size: Some(2.0 * FEATURE_BOUND * FEATURE_BOUND * STEP_SIZE),
        clip_norm: Some(1.0 / (2.0 * FEATURE_BOUND * draw.label_bound())),
        ..Constants::default()
    };
    let sampled = Constants { sampling: Sampling::Poisson(Probability::new(1, 2)?), ..full };
    Ok(match name {
        "DP-SGD" => Some(sampled.dp_sgd()),
        "DP-GD" => Some(full.dp_sgd()),
        "Algorithm 1" => Some(sampled.algorithm_1(ALPHA)),
        "halflit" => Some(modes::posterior()),
        _ => None,
    })
}

fn report(curves: &[(&str, Vec<(u64, Measured)>)], args: &Args, draws: usize) -> Outcome {
    let mut csv = format!(
        "# figure 6, commit {COMMIT}, seeds from {}, {draws} draws\nmethod,iterations,risk,standard_error\n",
        args.seed
    );
    for (name, curve) in curves {
        for (iterations, measured) in curve {
            writeln!(csv, "{name},{iterations},{},{}", measured.mean, measured.standard_error)?;
        }
    }
    let chart = LineChart {
        title: format!("Figure 6: d = {DIMENSION}, n = {ROWS}, epsilon = {EPSILON}, 10 % public rows"),
        x_label: "iterations".to_owned(),
        y_label: "population risk".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: curves
            .iter()
            .map(|(name, curve)| {
                Series::line(*name, curve.iter().map(|(t, m)| (*t as f64, m.mean)).collect()).marked()
            })
            .collect(),
    };
    let csv_path = write(&args.out, "figure6.csv", &csv)?;
    let svg_path = write(&args.out, "figure6.svg", &chart.to_svg())?;
    if args.json {
        let rows: Vec<_> = curves
            .iter()
            .flat_map(|(name, curve)| {
                curve.iter().map(move |(t, m)| {
                    json!({ "method": name, "iterations": t, "risk": m.mean, "standard_error": m.standard_error })
                })
            })
            .collect();
        println!(
            "{}",
            json!({ "experiment": "figure6", "commit": COMMIT, "seed": args.seed, "draws": draws, "rows": rows })
        );
        return Ok(());
    }
    println!(
        "Figure 6: linear regression, d = {DIMENSION}, n = {ROWS}, epsilon = {EPSILON}, delta = 1e-5, zero-out, {PUBLIC_ROWS} public rows; the paper's methods start at zero."
    );
    println!(
        "Population risk (zero weights: about {}), mean of {draws} draws; every point is a training of its own. Commit {COMMIT}.\n",
        DIMENSION + 1
    );
    print!("  {:<12}", "iterations");
    ITERATIONS.iter().for_each(|t| print!(" {t:>12}"));
    println!();
    for (name, curve) in curves {
        print!("  {name:<12}");
        curve.iter().for_each(|(_, measured)| print!(" {:>12.4}", measured.mean));
        println!();
    }
    println!(
        "\nhalflit's default and public-only do not depend on the iterations. Wrote {} and {}.",
        csv_path.display(),
        svg_path.display()
    );
    Ok(())
}
