//! Semi-LDP-SGD (Lowy et al. 2024, Algorithm 4): excess loss against the share of public rows. Server and clients run in one process and talk through JSON.

use crate::Outcome;
use crate::record::{self, COMMIT, Measured, seeded, write};
use chacha20::ChaCha12Rng;
use halflit::mechanisms::local::{Client, Curvature, Kind, Pass, Randomizer, Server, Turn, Weights};
use halflit::noise::{NoiseSource, Stream};
use halflit::plot::{LineChart, Scale, Series};
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// One-pass local training with public rows: excess loss of a convex and of a strongly convex problem against the share of public rows.
///
/// Every private row is a client that answers one question through its own randomizer; the server sees answers and public rows.
#[derive(clap::Args)]
pub struct Args {
    /// Fewer rows and replicates.
    #[arg(long)]
    quick: bool,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
    /// What one answer costs.
    #[arg(long, default_value_t = 2.0)]
    epsilon: f64,
    /// Seed of the rows. The noise is the operating system's and has no seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the CSV and SVG files go.
    #[arg(long, value_name = "FOLDER", default_value = record::FOLDER)]
    out: PathBuf,
}

const DIMENSION: usize = 5;
const SHARES: [f64; 8] = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.9];

/// What is compared.
const METHODS: [&str; 4] =
    ["LDP-SGD (all randomized)", "Semi-LDP-SGD", "Semi-LDP-SGD, weighted", "public rows alone"];

/// Rows (x, y) with x uniform on the unit sphere. The target minimises the population risk of both.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Task {
    /// Logistic loss, y = 1 with probability 1/(1 + e^{-<w*, x>}): convex, gradients of length at most 1.
    Logistic,
    /// Half the squared loss, y = <w*, x> plus a uniform number in [-1, 1]: the mean loss is strongly convex with modulus 1/d.
    Squared,
}

impl Task {
    fn name(self) -> &'static str {
        match self {
            Task::Logistic => "logistic (convex)",
            Task::Squared => "squared (strongly convex)",
        }
    }

    /// w*.
    fn target(self) -> [f64; DIMENSION] {
        let (direction, length) =
            ([0.6, -0.5, 0.4, 0.3, -0.2], if self == Task::Logistic { 4.0 } else { 0.8 });
        let norm = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
        direction.map(|x: f64| x / norm * length)
    }

    /// Rows beyond the first `private` ones are public, and show how long public gradients are.
    fn pass(self, rows: &[Row], private: usize, weights: Weights) -> Pass {
        let (clip_norm, radius, curvature) = match self {
            Task::Logistic => (1.0, 5.0, Curvature::Convex),
            // |<w, x> - y| <= 1 + 0.8 + 1 in the unit ball.
            Task::Squared => (2.8, 1.0, Curvature::StronglyConvex { modulus: 1.0 / DIMENSION as f64 }),
        };
        let public = &rows[private..];
        let square = |row: &Row| {
            let mut gradient = [0.0; DIMENSION];
            self.gradient(row, &[0.0; DIMENSION], &mut gradient);
            dot(&gradient, &gradient)
        };
        let measured = (public.iter().map(square).sum::<f64>() / public.len() as f64).sqrt();
        let public_norm = if public.is_empty() { clip_norm } else { measured };
        Pass { private, public: public.len(), clip_norm, public_norm, radius, curvature, weights }
    }

    fn row(self, generator: &mut ChaCha12Rng) -> Row {
        let features = on_sphere(generator);
        let (score, u): (f64, f64) = (dot(&features, &self.target()), StandardUniform.sample(generator));
        let label = match self {
            Task::Logistic => f64::from(u8::from(u < sigmoid(score))),
            Task::Squared => score + 2.0 * u - 1.0,
        };
        Row { features, label }
    }

    fn gradient(self, row: &Row, weights: &[f64], out: &mut [f64]) {
        let score = dot(&row.features, weights);
        let slope = match self {
            Task::Logistic => sigmoid(score) - row.label,
            Task::Squared => score - row.label,
        };
        out.iter_mut().zip(row.features).for_each(|(g, x)| *g = slope * x);
    }

    /// The population risk above the best, labels averaged out: exact for squares, a mean over fixed features for the logistic loss.
    fn excess(self, weights: &[f64], features: &[[f64; DIMENSION]]) -> f64 {
        let target = self.target();
        match self {
            Task::Logistic => {
                let kl = |x: &[f64; DIMENSION]| {
                    let (s, t) = (dot(x, weights), dot(x, &target));
                    let loss = |score: f64| sigmoid(t) * softplus(-score) + sigmoid(-t) * softplus(score);
                    loss(s) - loss(t)
                };
                features.iter().map(kl).sum::<f64>() / features.len() as f64
            }
            // E[x x^T] = I/d
            Task::Squared => {
                weights.iter().zip(target).map(|(w, t)| (w - t).powi(2)).sum::<f64>()
                    / (2.0 * DIMENSION as f64)
            }
        }
    }
}

/// One method on one task at one share of public rows.
struct Cell {
    task: Task,
    share: f64,
    method: usize,
    measured: Measured,
}

struct Row {
    features: [f64; DIMENSION],
    label: f64,
}

pub fn run(args: Args) -> Outcome {
    let (rows, replicates) = if args.quick { (5_000, 5) } else { (20_000, 30) };
    let randomizer = Randomizer::new(Kind::Privunit, DIMENSION, args.epsilon)?;
    let (mut stream, mut generator) = (NoiseSource::from_os()?.stream()?, seeded(args.seed));
    let features: Vec<[f64; DIMENSION]> = (0..10_000).map(|_| on_sphere(&mut generator)).collect();
    let mut cells: Vec<Cell> = Vec::new();
    for task in [Task::Logistic, Task::Squared] {
        for share in SHARES {
            let public = (share * rows as f64).round() as usize;
            let mut excesses = vec![Vec::new(); METHODS.len()];
            for _ in 0..replicates {
                let data: Vec<Row> = (0..rows).map(|_| task.row(&mut generator)).collect();
                let private = rows - public;
                let mut trained =
                    |method: usize, used: &[Row], private: usize, weights: Weights| -> Outcome {
                        let model =
                            train(task, task.pass(used, private, weights), &randomizer, &mut stream, used)?;
                        excesses[method].push(task.excess(&model, &features));
                        Ok(())
                    };
                trained(0, &data, rows, Weights::Equal)?;
                if public > 0 {
                    trained(1, &data, private, Weights::Equal)?;
                    trained(2, &data, private, Weights::Best)?;
                    trained(3, &data[private..], 0, Weights::Equal)?;
                }
            }
            for (method, excesses) in excesses.iter().enumerate() {
                cells.extend(Measured::of(excesses).map(|measured| Cell { task, share, method, measured }));
            }
        }
    }
    let csv_path = write(&args.out, "semi-ldp-sgd.csv", &csv(&args, rows, replicates, &cells)?)?;
    let mut charts = Vec::new();
    for (task, name) in [(Task::Logistic, "convex"), (Task::Squared, "strongly-convex")] {
        let svg = chart(task, &args, rows, &cells).to_svg();
        charts.push(write(&args.out, &format!("semi-ldp-sgd-{name}.svg"), &svg)?);
    }
    if args.json {
        let rows_json: Vec<Value> = cells
            .iter()
            .map(|Cell { task, share, method, measured }| {
                json!({ "task": task.name(), "public_share": share, "method": METHODS[*method],
                        "excess": measured.mean, "standard_error": measured.standard_error })
            })
            .collect();
        println!(
            "{}",
            json!({ "experiment": "semi-ldp-sgd", "commit": COMMIT, "seed": args.seed, "replicates": replicates, "rows": rows,
                    "dimension": DIMENSION, "epsilon": args.epsilon, "cells": rows_json })
        );
        return Ok(());
    }
    print_tables(&args, rows, replicates, &cells, &features);
    println!("Wrote {}, {} and {}.", csv_path.display(), charts[0].display(), charts[1].display());
    Ok(())
}

/// One pass. Private rows come first; what passes between server and client is text.
fn train(
    task: Task,
    pass: Pass,
    randomizer: &Randomizer,
    stream: &mut Stream,
    rows: &[Row],
) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let private = pass.private;
    let mut server = Server::new(pass, randomizer.clone(), stream)?;
    while let Some(turn) = server.turn() {
        match turn {
            Turn::Private(row) => {
                let question = serde_json::to_string(&server.question()?)?;
                let answer = client(task, &rows[row], randomizer, stream, &question)?;
                server.receive(&serde_json::from_str(&answer)?)?;
            }
            Turn::Public(row) => {
                let mut gradient = [0.0; DIMENSION];
                task.gradient(&rows[private + row], server.weights(), &mut gradient);
                server.step_public(&gradient)?;
            }
        }
    }
    Ok(server.model()?)
}

/// What runs on the device of a private row: a question comes in, a randomized answer goes out.
fn client(
    task: Task,
    row: &Row,
    randomizer: &Randomizer,
    stream: &mut Stream,
    question: &str,
) -> Result<String, Box<dyn std::error::Error>> {
    let question = serde_json::from_str(question)?;
    let answer =
        Client::new(randomizer).answer(stream, &question, |weights, out| task.gradient(row, weights, out))?;
    Ok(serde_json::to_string(&answer)?)
}

fn csv(args: &Args, rows: usize, replicates: usize, cells: &[Cell]) -> Result<String, std::fmt::Error> {
    let mut csv = format!(
        "# semi-ldp-sgd, commit {COMMIT}, seed {}, {rows} rows, d = {DIMENSION}, epsilon = {}, {replicates} replicates\n\
         task,public_share,method,excess,standard_error\n",
        args.seed, args.epsilon
    );
    for Cell { task, share, method, measured: Measured { mean, standard_error, .. } } in cells {
        writeln!(csv, "{},{share},\"{}\",{mean},{standard_error}", task.name(), METHODS[*method])?;
    }
    Ok(csv)
}

fn chart(task: Task, args: &Args, rows: usize, cells: &[Cell]) -> LineChart {
    let line = |method: usize| {
        let of_method = cells.iter().filter(|cell| cell.task == task && cell.method == method);
        let points = of_method.map(|cell| (cell.share, cell.measured.mean));
        Series::line(METHODS[method], points.collect()).marked()
    };
    LineChart {
        title: format!("{}, {rows} rows, epsilon = {}", task.name(), args.epsilon),
        x_label: "share of public rows".to_owned(),
        y_label: "excess of the mean loss".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Log,
        series: (0..METHODS.len()).map(line).collect(),
    }
}

fn print_tables(args: &Args, rows: usize, replicates: usize, cells: &[Cell], features: &[[f64; DIMENSION]]) {
    println!(
        "Semi-LDP-SGD: {rows} rows, d = {DIMENSION}, epsilon = {} for every private row, privunit, seed {}, commit {COMMIT}.\n\
         Excess of the mean loss above the best weights, mean of {replicates} replicates (standard error).",
        args.epsilon, args.seed
    );
    for task in [Task::Logistic, Task::Squared] {
        println!("\n{} (zero weights: {:.4})", task.name(), task.excess(&[0.0; DIMENSION], features));
        print!("  {:<12}", "public share");
        METHODS.iter().for_each(|name| print!(" {name:>26}"));
        println!();
        for share in SHARES {
            print!("  {share:<12}");
            for method in 0..METHODS.len() {
                let is_it = |cell: &&Cell| (cell.task, cell.share, cell.method) == (task, share, method);
                let text = cells.iter().find(is_it).map_or("–".to_owned(), |cell| {
                    format!("{:.5} ({:.5})", cell.measured.mean, cell.measured.standard_error)
                });
                print!(" {text:>26}");
            }
            println!();
        }
    }
    println!(
        "\nSemi-LDP-SGD is the paper's: every step counts the same. `weighted` counts a step by one over the squared length of its gradient (ours).\n\
         How long public gradients are is measured on the public rows, at zero weights.\n"
    );
}

fn on_sphere(generator: &mut ChaCha12Rng) -> [f64; DIMENSION] {
    let normals: [f64; DIMENSION] = std::array::from_fn(|_| StandardNormal.sample(generator));
    let length = dot(&normals, &normals).sqrt();
    normals.map(|z| z / length)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn sigmoid(score: f64) -> f64 {
    1.0 / (1.0 + (-score).exp())
}

/// log(1 + e^score)
fn softplus(score: f64) -> f64 {
    score.max(0.0) + (-score.abs()).exp().ln_1p()
}
