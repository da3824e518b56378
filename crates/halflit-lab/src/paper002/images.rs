//! Figures 15 to 18: softmax regression on images with public rows. The paper uses CIFAR-10; here it is MNIST, which the shared data has with a test set.

use super::regression::{Result, train};
use super::{Args, Measured, commit, write};
use crate::Outcome;
use crate::datasets::shared_data;
use flate2::read::GzDecoder;
use halflit::Problem;
use halflit::mechanisms::noisy_gradient::Params;
use halflit::mechanisms::noisy_gradient::modes::Constants;
use halflit::mechanisms::noisy_gradient::parts::Sampling;
use halflit::noise::Probability;
use halflit::plot::{LineChart, Scale, Series};
use halflit::release::Model;
use halflit::table::{Column, Declaration, Declared, OutOfDomain, Table};
use serde_json::json;
use std::fmt::Write;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::Path;

/// Which figure, and so which cells.
#[derive(Clone, Copy)]
pub struct Figure {
    pub number: u32,
    epsilons: &'static [f64],
    ratios: &'static [f64],
}

impl Figure {
    /// Figures 15 to 18.
    pub fn numbered(number: u32) -> Self {
        const ALL_EPSILONS: &[f64] = &[0.1, 0.5, 1.0, 2.0, 4.0, 8.0];
        const ALL_RATIOS: &[f64] = &[0.01, 0.02, 0.04, 0.1, 0.2, 0.3];
        let (epsilons, ratios) = match number {
            15 => (&ALL_EPSILONS[..3], ALL_RATIOS),
            16 => (&ALL_EPSILONS[3..], ALL_RATIOS),
            17 => (ALL_EPSILONS, &ALL_RATIOS[..3]),
            _ => (ALL_EPSILONS, &ALL_RATIOS[3..]),
        };
        Figure { number, epsilons, ratios }
    }

    /// The middle of each range.
    fn quick(self) -> Self {
        Figure {
            epsilons: &self.epsilons[self.epsilons.len() / 2..][..1],
            ratios: &self.ratios[self.ratios.len() / 2..][..1],
            ..self
        }
    }
}

/// Side of a pooled image, and how many rows are used.
struct Size {
    side: usize,
    rows: usize,
    test_rows: usize,
}

/// Share of bright pixels that an ordinary image stays below: rows longer than this times sqrt(pixels) are shortened.
const ROW_BOUND: f64 = 0.4;
/// The paper's batch size.
const BATCH: u64 = 256;
/// A small part of the paper's grid.
const ITERATIONS: u64 = 2000;
const STEP_SIZES: [f64; 3] = [0.25, 1.0, 4.0];
const ALPHAS: [f64; 3] = [0.3, 0.6, 0.9];

/// Images with their labels.
struct Images {
    side: usize,
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

/// One of Figures 15 to 18.
pub fn run(figure: Figure, args: &Args) -> Outcome {
    let Some(folder) = shared_data("mnist") else {
        println!("skipped: ../shared/data/mnist is not there");
        return Ok(());
    };
    let (figure, size) = if args.quick {
        (figure.quick(), Size { side: 14, rows: 10_000, test_rows: 4000 })
    } else {
        (figure, Size { side: 28, rows: 60_000, test_rows: 10_000 })
    };
    let runs = args.draws.unwrap_or(if args.quick { 2 } else { 5 }).max(1);
    let training = Images::read(&folder, "train", size.rows)?.pooled(size.side);
    let test = Images::read(&folder, "t10k", size.test_rows)?.pooled(size.side).table(None)?;
    let mut rows = Vec::new();
    for &epsilon in figure.epsilons {
        for &ratio in figure.ratios {
            let public_rows = (ratio * size.rows as f64).round() as usize;
            let mut problem = training.problem(public_rows)?;
            let mut methods: Vec<(&str, &str, Params)> = vec![
                ("halflit", "noisy_gradient", Params::default()),
                ("public only", "public_rows", Params::default()),
            ];
            if !args.untuned {
                for (name, alphas) in [("Algorithm 1", &ALPHAS[..]), ("DP-SGD", &[])] {
                    let (params, back) = tune(problem, alphas, epsilon, &test)?;
                    problem = back;
                    methods.push((name, "noisy_gradient", params));
                }
            }
            for (name, mechanism, params) in methods {
                let mut errors = Vec::new();
                for _ in 0..runs {
                    let (error, back) = test_error(problem, params.clone(), mechanism, epsilon, &test)?;
                    problem = back;
                    errors.push(error);
                }
                rows.push((epsilon, ratio, name, Measured::of(&errors).ok_or("no runs")?));
            }
            eprintln!("figure {}: epsilon = {epsilon}, n_pub/n = {ratio}: done", figure.number);
        }
    }
    report(figure, &size, &rows, args, runs)
}

fn test_error(
    problem: Problem,
    params: Params,
    mechanism: &str,
    epsilon: f64,
    test: &Table,
) -> Result<(f64, Problem)> {
    let (weights, problem) = train(problem, params, mechanism, epsilon)?;
    let width = problem.encoding().width();
    let weights = weights.chunks(width).map(<[f64]>::to_vec).collect();
    let model = Model::new(problem.loss(), problem.encoding().clone(), weights)?;
    let accuracy = model.evaluate(test, OutOfDomain::Coerce)?.accuracy.ok_or("no accuracy")?;
    Ok((1.0 - accuracy, problem))
}

/// The best of the grid by the test error of one run: a luxury that only makes the tuned methods look better. No weights: DP-SGD.
fn tune(mut problem: Problem, alphas: &[f64], epsilon: f64, test: &Table) -> Result<(Params, Problem)> {
    let mut best: Option<(f64, Params)> = None;
    let private_batches = (problem.private_units() as f64 / BATCH as f64).ceil() as u64;
    for step_size in STEP_SIZES {
        let constants = Constants {
            steps: NonZeroU64::new(ITERATIONS),
            step_size: Some(step_size),
            clip_norm: Some(1.0),
            sampling: Sampling::Poisson(Probability::new(1, private_batches.max(1))?),
            public_batch: NonZeroU64::new(BATCH),
            ..Constants::default()
        };
        let candidates = match alphas {
            [] => vec![constants.dp_sgd()],
            alphas => alphas.iter().map(|&alpha| constants.algorithm_1(alpha)).collect(),
        };
        for params in candidates {
            let (error, back) = test_error(problem, params.clone(), "noisy_gradient", epsilon, test)?;
            problem = back;
            if best.as_ref().is_none_or(|(least, _)| error < *least) {
                best = Some((error, params));
            }
        }
    }
    let (_, params) = best.ok_or("empty grid")?;
    Ok((params, problem))
}

impl Images {
    fn read(folder: &Path, part: &str, rows: usize) -> Result<Self> {
        let unpack = |name: &str| -> Result<Vec<u8>> {
            let mut bytes = Vec::new();
            GzDecoder::new(std::fs::File::open(folder.join(name))?).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        // idx: 16 bytes of header before images of 28 x 28, 8 bytes before labels.
        let images = unpack(&format!("{part}-images-idx3-ubyte.gz"))?;
        let labels = unpack(&format!("{part}-labels-idx1-ubyte.gz"))?;
        let pixels = images.get(16..16 + rows * 784).ok_or("the image file is too short")?.to_vec();
        Ok(Images {
            side: 28,
            pixels,
            labels: labels.get(8..8 + rows).ok_or("the label file is too short")?.to_vec(),
        })
    }

    /// The images averaged down to a smaller side.
    fn pooled(self, side: usize) -> Self {
        let factor = self.side / side;
        if factor == 1 {
            return self;
        }
        let mut pixels = Vec::with_capacity(self.labels.len() * side * side);
        for image in self.pixels.chunks_exact(self.side * self.side) {
            for place in 0..side * side {
                let (top, left) = (place / side * factor, place % side * factor);
                let block =
                    (0..factor * factor).map(|k| image[(top + k / factor) * self.side + left + k % factor]);
                pixels.push((block.map(u32::from).sum::<u32>() / (factor * factor) as u32) as u8);
            }
        }
        Images { side, pixels, labels: self.labels }
    }

    fn table(&self, public_rows: Option<usize>) -> Result<Table> {
        let width = self.side * self.side;
        let column =
            |place: usize| self.pixels.iter().skip(place).step_by(width).map(|&p| f64::from(p)).collect();
        let mut columns: Vec<(String, Column)> =
            (0..width).map(|place| (format!("p{place}"), Column::Numbers(column(place)))).collect();
        columns.push(("digit".to_owned(), Column::Text(self.labels.iter().map(u8::to_string).collect())));
        if let Some(public) = public_rows {
            let consent = |row: usize| if row < public { "yes" } else { "no" }.to_owned();
            columns.push(("consent".to_owned(), Column::Text((0..self.labels.len()).map(consent).collect())));
        }
        Ok(Table::from_columns(columns)?)
    }

    /// Zero-out, as in the paper; the first rows are public.
    fn problem(&self, public_rows: usize) -> Result<Problem> {
        let width = self.side * self.side;
        let row_norm = (ROW_BOUND * (width as f64).sqrt()).hypot(1.0);
        let private = self.labels.len() - public_rows;
        let mut text = format!(
            "[budget]\nepsilon = 1000\ndelta = 1e-5\n[protect]\nunit = \"row\"\nchange = \"zero-out\"\nrows = {private}\n\
             public_rows = {{ column = \"consent\", equals = \"yes\" }}\n[task]\nlabel = \"digit\"\nloss = \"softmax\"\nrow_norm = {row_norm}\n\
             [columns.digit]\nvalues = [\"0\", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\"]\ndefault = \"0\"\n\
             [columns.consent]\nvisibility = \"public\"\nuse = false\n"
        );
        for place in 0..width {
            // Black is zero: most of an image is.
            writeln!(text, "[columns.p{place}]\nbounds = [-255, 255]")?;
        }
        let declared = Declared::bind(Declaration::parse(&text, "images")?, self.table(Some(public_rows))?)?;
        Ok(Problem::pose(declared, OutOfDomain::Refuse)?)
    }
}

fn report(
    figure: Figure,
    size: &Size,
    rows: &[(f64, f64, &str, Measured)],
    args: &Args,
    runs: usize,
) -> Outcome {
    let (number, commit) = (figure.number, commit());
    let mut csv = format!(
        "# figure {number}, commit {commit}, {runs} runs\nepsilon,ratio,method,test_error,standard_error\n"
    );
    for (epsilon, ratio, name, measured) in rows {
        writeln!(csv, "{epsilon},{ratio},{name},{},{}", measured.mean, measured.standard_error)?;
    }
    let by_ratio = number <= 16;
    let mut series: Vec<Series> = Vec::new();
    for (epsilon, ratio, name, measured) in rows {
        let (x, panel) = if by_ratio {
            (ratio, format!("epsilon {epsilon}"))
        } else {
            (epsilon, format!("n_pub/n {ratio}"))
        };
        let name = format!("{name}, {panel}");
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((*x, measured.mean)),
            None => series.push(Series::line(name, vec![(*x, measured.mean)]).marked()),
        }
    }
    let chart = LineChart {
        title: format!("Figure {number}: softmax regression on MNIST with public rows"),
        x_label: if by_ratio { "share of public rows" } else { "epsilon" }.to_owned(),
        y_label: "test error".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        series,
    };
    let csv_path = write(&args.out, &format!("figure{number}.csv"), &csv)?;
    let svg_path = write(&args.out, &format!("figure{number}.svg"), &chart.to_svg())?;
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(epsilon, ratio, name, m)| {
                json!({ "epsilon": epsilon, "ratio": ratio, "method": name, "test_error": m.mean, "standard_error": m.standard_error })
            })
            .collect();
        println!("{}", json!({ "experiment": format!("figure{number}"), "commit": commit, "rows": rows }));
        return Ok(());
    }
    println!(
        "Figure {number}: softmax regression on MNIST ({0} x {0} pixels, {1} rows), delta = 1e-5, zero-out, cold start for the tuned methods; {runs} runs, commit {commit}.\n",
        size.side, size.rows
    );
    println!("  {:>7} {:>6}  {:<12} {:>10} {:>8}", "epsilon", "n_pub", "method", "test error", "s.e.");
    for (epsilon, ratio, name, measured) in rows {
        println!(
            "  {epsilon:>7} {ratio:>6}  {name:<12} {:>10.4} {:>8.4}",
            measured.mean, measured.standard_error
        );
    }
    println!("\nWrote {} and {}.", csv_path.display(), svg_path.display());
    Ok(())
}
