//! Means from private and public rows: Figures 12 to 14 of Lowy et al. 2024, the factor 1.98, and the centred variant.

use crate::Outcome;
use crate::record::{self, COMMIT, Measured, seeded, write};
use halflit::mechanisms::weighted_mean::{Design, NoiseLaw, Setting, Variant};
use halflit::noise::{NoiseSource, Stream};
use halflit::plot::{LineChart, Scale, Series};
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Mean estimation on Bernoulli(1/2) product data, d = 1,000, rho = 0.5: error against the share of public rows.
#[derive(clap::Args)]
pub struct FigureArgs {
    /// Fewer replicates.
    #[arg(long)]
    quick: bool,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
    /// Seed of the rows. The noise is the operating system's and has no seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the CSV and SVG files go.
    #[arg(long, value_name = "FOLDER", default_value = record::FOLDER)]
    out: PathBuf,
}

/// The paper's example of a factor 1.98, and centred-weighted against weighted at B = 25 V.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Fewer replicates.
    #[arg(long)]
    quick: bool,
    /// Seed of the rows. The noise is the operating system's and has no seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

const SHARES: [f64; 11] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// What is compared: the paper's three, with its {0, 1} coding and B = sqrt(d), and halflit's own choice of centre.
const COMPARED: [(&str, Variant, bool); 5] = [
    ("throw-away", Variant::PublicOnly, false),
    ("gaussian", Variant::Gaussian, false),
    ("weighted", Variant::Weighted, false),
    ("weighted, midrange centre", Variant::Weighted, true),
    ("centred-weighted", Variant::CentredWeighted, true),
];

/// The paper's own come first.
const PAPERS_OWN: usize = 3;

/// Figure 12 (n = 500), 13 (n = 1,000) or 14 (n = 2,000).
pub fn figure(args: FigureArgs, figure: u32, n: usize) -> Outcome {
    const DIMENSION: usize = 1000;
    const RHO: f64 = 0.5;
    let replicates = if args.quick { 5 } else { 40 };
    let (mut stream, mut generator) = (NoiseSource::from_os()?.stream()?, seeded(args.seed));
    let mut rows: Vec<Value> = Vec::new();
    for share in SHARES {
        let public_rows = ((share * n as f64).round() as usize).clamp(1, n - 1);
        let mut errors = vec![Vec::new(); COMPARED.len()];
        let mut predicted = vec![f64::NAN; COMPARED.len()];
        let mut expected = vec![Vec::new(); PAPERS_OWN];
        for _ in 0..replicates {
            let mut coin = || -> bool { StandardUniform.sample(&mut generator) };
            let data: Vec<f64> = (0..n * DIMENSION).map(|_| f64::from(u8::from(coin()))).collect();
            for (place, (_, variant, centred)) in COMPARED.into_iter().enumerate() {
                // x - 1/2 for the midrange centre: the domain's radius halves.
                let shift = if centred { 0.5 } else { 0.0 };
                let rows: Vec<f64> = data.iter().map(|x| x - shift).collect();
                let (public, private) = rows.split_at(public_rows * DIMENSION);
                let radius = (DIMENSION as f64).sqrt() * if centred { 0.5 } else { 1.0 };
                let setting = Setting {
                    units: (n - public_rows) as u64,
                    public,
                    width: DIMENSION,
                    l2_radius: radius,
                    l1_radius: DIMENSION as f64,
                    // The paper knows V^2 = d/4; from one public row nobody could estimate it.
                    variance: (!centred).then_some(DIMENSION as f64 / 4.0),
                };
                if let Some(design) = setting.design(variant, NoiseLaw::Gaussian, (2.0 / RHO).sqrt()) {
                    let design = design?;
                    predicted[place] = design.predicted_squared_error.sqrt();
                    if let Some(expected) = expected.get_mut(place) {
                        expected.push(expected_squared_error(&design, private, 0.5));
                    }
                    let estimate = estimate(&design, &mut stream, private, DIMENSION);
                    // The paper's measure: distance to the population mean, 1/2 everywhere.
                    errors[place].push(distance(&estimate, 0.5 - shift));
                }
            }
        }
        let mut row = json!({ "public_share": share, "n": n, "n_pub": public_rows });
        for (((name, ..), errors), predicted) in COMPARED.iter().zip(&errors).zip(&predicted) {
            let (mean, error) = mean_and_error(errors);
            row[*name] = json!({ "error": mean, "standard_error": error, "predicted": predicted });
        }
        // On the same rows, averaged over the noise: near 0.95 far less than what the rows move every estimate by.
        let saved = |other: usize| {
            let pairs = expected[other].iter().zip(&expected[2]);
            mean_and_error(&pairs.map(|(other, weighted)| other - weighted).collect::<Vec<_>>())
        };
        let (least, error) = if saved(0).0 < saved(1).0 { saved(0) } else { saved(1) };
        row["saved"] = json!({ "squared_error": least, "standard_error": error });
        row["weighted_wins"] = json!(least > 0.0);
        row["weighted_wins_by_formula"] = json!(predicted[2] < predicted[0].min(predicted[1]));
        rows.push(row);
    }
    let everywhere = |key: &str| rows.iter().all(|row| row[key] == true);
    let (measured, by_formula) = (everywhere("weighted_wins"), everywhere("weighted_wins_by_formula"));
    let name = format!("figure{figure}");
    let head = format!("# {name}, commit {COMMIT}, seed {}, {replicates} replicates\n", args.seed);
    let csv_path = write(&args.out, &format!("{name}.csv"), &(head + &csv(&rows)))?;
    let svg_path = write(&args.out, &format!("{name}.svg"), &chart(&rows, n).to_svg())?;
    if args.json {
        println!(
            "{}",
            json!({ "experiment": name, "dimension": DIMENSION, "rho": RHO, "replicates": replicates, "rows": rows,
                    "weighted_wins_everywhere": measured, "weighted_wins_everywhere_by_formula": by_formula,
                    "commit": COMMIT, "seed": args.seed })
        );
        return Ok(());
    }
    println!(
        "Figure {figure}: mean l2 error, Bernoulli(1/2)^{DIMENSION}, n = {n}, rho = {RHO}, {replicates} replicates (standard error), seed {}, commit {COMMIT}\n",
        args.seed
    );
    print!("{:>10}", "n_pub/n");
    COMPARED.iter().for_each(|(name, ..)| print!(" {name:>26}"));
    println!(" {:>22}", "weighted saves");
    for row in &rows {
        print!("{:>10}", row["public_share"].as_f64().unwrap_or(f64::NAN));
        for (name, ..) in COMPARED {
            let number = |key: &str| row[name][key].as_f64().unwrap_or(f64::NAN);
            print!(" {:>26}", format!("{:.4} ({:.4})", number("error"), number("standard_error")));
        }
        let saved = |key: &str| row["saved"][key].as_f64().unwrap_or(f64::NAN);
        println!(" {:>22}", format!("{:.2e} ({:.0e})", saved("squared_error"), saved("standard_error")));
    }
    println!(
        "\nThe first three columns are the paper's estimators. The last one is the squared error that weighted saves over the better of the other two on the \
         same rows, averaged over the noise. Weighted wins everywhere: {measured} (by formula: {by_formula}).\nWrote {} and {}.",
        csv_path.display(),
        svg_path.display()
    );
    Ok(())
}

fn csv(rows: &[Value]) -> String {
    let mut text = String::from("public_share,n_pub");
    COMPARED.iter().for_each(|(name, ..)| text += &format!(",\"{name}\",\"{name} se\""));
    text += ",\"weighted saves\",\"weighted saves se\"\n";
    for row in rows {
        text += &format!("{},{}", row["public_share"], row["n_pub"]);
        COMPARED.iter().for_each(|(name, ..)| {
            text += &format!(",{},{}", row[name]["error"], row[name]["standard_error"])
        });
        text += &format!(",{},{}\n", row["saved"]["squared_error"], row["saved"]["standard_error"]);
    }
    text
}

fn chart(rows: &[Value], n: usize) -> LineChart {
    let points = |name: &str| {
        rows.iter()
            .filter_map(|row| Some((row["public_share"].as_f64()?, row[name]["error"].as_f64()?)))
            .collect::<Vec<_>>()
    };
    LineChart {
        title: format!("Error of the mean, n = {n}, d = 1,000, rho = 0.5"),
        x_label: "share of public rows".to_owned(),
        y_label: "l2 error".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Log,
        series: COMPARED.iter().map(|(name, ..)| Series::line(*name, points(name))).collect(),
    }
}

/// n = 10,000, d = 100, B = 25 V, rho = 0.1, n_pub = 80: the formula, and what simulated normal rows give.
pub fn check(args: CheckArgs) -> Outcome {
    const N: usize = 10_000;
    const PUBLIC: usize = 80;
    const DIMENSION: usize = 100;
    const RHO: f64 = 0.1;
    let replicates = if args.quick { 4 } else { 30 };
    let (mut stream, mut generator) = (NoiseSource::from_os()?.stream()?, seeded(args.seed));
    let variants = [Variant::PublicOnly, Variant::Gaussian, Variant::Weighted, Variant::CentredWeighted];
    let (mut predicted, mut errors) = (vec![0.0; variants.len()], vec![Vec::new(); variants.len()]);
    for _ in 0..replicates {
        // V^2 = 1: normal cells of variance 1/d around a mean at distance 10 V from zero.
        let mean = 10.0 / (DIMENSION as f64).sqrt();
        let mut cell = || {
            let z: f64 = StandardNormal.sample(&mut generator);
            mean + z / (DIMENSION as f64).sqrt()
        };
        let data: Vec<f64> = (0..N * DIMENSION).map(|_| cell()).collect();
        let (public, private) = data.split_at(PUBLIC * DIMENSION);
        for (place, &variant) in variants.iter().enumerate() {
            let setting = Setting {
                units: (N - PUBLIC) as u64,
                public,
                width: DIMENSION,
                l2_radius: 25.0,
                l1_radius: 250.0,
                variance: (variant != Variant::CentredWeighted).then_some(1.0),
            };
            if let Some(design) = setting.design(variant, NoiseLaw::Gaussian, (2.0 / RHO).sqrt()) {
                let design = design?;
                predicted[place] += design.predicted_squared_error / f64::from(replicates);
                let estimate = estimate(&design, &mut stream, private, DIMENSION);
                errors[place].push(distance(&estimate, mean).powi(2));
            }
        }
    }
    let rows: Vec<Value> = variants
        .iter()
        .zip(&predicted)
        .zip(&errors)
        .map(|((variant, predicted), errors)| {
            let (mean, error) = mean_and_error(errors);
            json!({ "variant": variant.name(), "predicted": predicted, "measured": mean, "standard_error": error })
        })
        .collect();
    let naive = predicted[0].min(predicted[1]);
    let measured = |place: usize| rows[place]["measured"].as_f64().unwrap_or(f64::NAN);
    let factor = naive / predicted[2];
    let measured_factor = measured(0).min(measured(1)) / measured(2);
    let centred_factor = measured(2) / measured(3);
    if args.json {
        println!(
            "{}",
            json!({ "experiment": "mean-check", "commit": COMMIT, "seed": args.seed, "replicates": replicates, "rows": rows, "paper_factor": 1.98,
                    "factor": factor, "measured_factor": measured_factor, "weighted_over_centred": centred_factor })
        );
        return Ok(());
    }
    println!(
        "n = {N}, d = {DIMENSION}, B = 25 V, rho = {RHO}, n_pub = {PUBLIC}; squared error in units of V^2, {replicates} replicates, seed {}, commit {}\n",
        args.seed, COMMIT
    );
    println!("{:<18} {:>12} {:>12} {:>10}", "variant", "predicted", "measured", "se");
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        let name = row["variant"].as_str().unwrap_or_default();
        println!(
            "{name:<18} {:>12.6} {:>12.6} {:>10.6}",
            number("predicted"),
            number("measured"),
            number("standard_error")
        );
    }
    println!(
        "\nThe better of the first two over weighted: {factor:.3} by formula (the paper: 1.98), {measured_factor:.3} measured."
    );
    println!("Weighted over centred-weighted: {centred_factor:.1} measured.");
    Ok(())
}

/// The squared distance to a vector with the same number everywhere that an estimate without centre or clip has on average over its noise.
fn expected_squared_error(design: &Design, private: &[f64], mean: f64) -> f64 {
    let width = design.centre.len();
    let mut sums: Vec<f64> = design.moments.mean.iter().map(|x| design.moments.rows as f64 * x).collect();
    sums.iter_mut().for_each(|sum| *sum *= design.public_row_weight);
    for row in private.chunks_exact(width) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += design.weight * x);
    }
    distance(&sums, mean).powi(2) + width as f64 * design.noise_deviation().powi(2)
}

fn estimate(design: &Design, stream: &mut Stream, private: &[f64], width: usize) -> Vec<f64> {
    design.estimate(stream, |each| private.chunks_exact(width).for_each(each))
}

/// The l2 distance to a vector with the same number everywhere.
fn distance(estimate: &[f64], mean: f64) -> f64 {
    estimate.iter().map(|x| (x - mean).powi(2)).sum::<f64>().sqrt()
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    Measured::of(values).map_or((f64::NAN, f64::NAN), |measured| (measured.mean, measured.standard_error))
}
