//! Figures 15 to 18: softmax regression on images with public rows, on CIFAR-10 as in the paper (a subset with smaller pictures) or on MNIST.

use super::regression::{Result, train};
use crate::Outcome;
use crate::datasets::shared_data;
use crate::record::{COMMIT, Measured, seeded, write};
use flate2::read::GzDecoder;
use halflit::Problem;
use halflit::mechanisms::noisy_gradient::Params;
use halflit::mechanisms::noisy_gradient::modes::Constants;
use halflit::mechanisms::noisy_gradient::parts::Sampling;
use halflit::noise::Probability;
use halflit::plot::{LineChart, Scale, Series};
use halflit::release::Model;
use halflit::table::{Budget, Column, Declaration, Declared, OutOfDomain, Table};
use rand_distr::{Distribution, StandardUniform};
use serde_json::json;
use std::fmt::Write;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::Path;

/// The options of Figures 15 to 18.
#[derive(clap::Args, Clone)]
pub struct Args {
    /// The images.
    #[arg(long, value_enum, default_value_t = Source::Cifar10)]
    images: Source,
    #[command(flatten)]
    common: super::Args,
}

/// Which images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Source {
    /// The paper's: 10,000 pictures of 10 kinds of things, averaged to 16 x 16 pixels (quick: 8 x 8) of three colours.
    Cifar10,
    /// 60,000 digits of 28 x 28 pixels (quick: 10,000 of 14 x 14).
    Mnist,
}

impl Source {
    fn folder(self) -> &'static str {
        match self {
            Source::Cifar10 => "cifar10_subset",
            Source::Mnist => "mnist",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Source::Cifar10 => "CIFAR-10",
            Source::Mnist => "MNIST",
        }
    }

    fn size(self, quick: bool) -> Size {
        match (self, quick) {
            (Source::Cifar10, true) => Size { side: 8, rows: 10_000, test_rows: 2000 },
            (Source::Cifar10, false) => Size { side: 16, rows: 10_000, test_rows: 2000 },
            (Source::Mnist, true) => Size { side: 14, rows: 10_000, test_rows: 4000 },
            (Source::Mnist, false) => Size { side: 28, rows: 60_000, test_rows: 10_000 },
        }
    }

    /// Where a pixel is zero: black for digits, most of which is, grey for pictures.
    fn bounds(self) -> &'static str {
        match self {
            Source::Cifar10 => "[0, 255]",
            Source::Mnist => "[-255, 255]",
        }
    }

    /// Rows longer than this times sqrt(pixels) are shortened.
    fn row_bound(self) -> f64 {
        match self {
            Source::Cifar10 => 0.6,
            Source::Mnist => 0.4,
        }
    }
}

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

/// The paper's delta and batch size.
const DELTA: f64 = 1e-6;
const BATCH: u64 = 256;
/// A small part of the paper's grid.
const ITERATIONS: u64 = 2000;
const STEP_SIZES: [f64; 3] = [0.25, 1.0, 4.0];
const ALPHAS: [f64; 3] = [0.3, 0.6, 0.9];

/// Images with their labels.
struct Images {
    source: Source,
    side: usize,
    colours: usize,
    /// Image after image, colour after colour.
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

/// One of Figures 15 to 18. Every run has public rows of its own, drawn by its seed.
pub fn run(figure: Figure, args: &Args) -> Outcome {
    let Args { images: source, common: args } = args;
    let Some(folder) = shared_data(source.folder()) else {
        println!("skipped: ../shared/data/{} is not there", source.folder());
        return Ok(());
    };
    let (figure, size) = (if args.quick { figure.quick() } else { figure }, source.size(args.quick));
    let runs = args.draws.unwrap_or(if args.quick { 3 } else { 5 }).max(1);
    let training = Images::read(*source, &folder, true, size.rows)?.pooled(size.side);
    let test = Images::read(*source, &folder, false, size.test_rows)?.pooled(size.side).table(None)?;
    let mut rows = Vec::new();
    for &epsilon in figure.epsilons {
        for &ratio in figure.ratios {
            let budget = Budget { epsilon, delta: DELTA };
            let public_rows = (ratio * size.rows as f64).round() as usize;
            // halflit is what the planner takes, whichever mechanism that is.
            let mut methods: Vec<(&str, Option<&str>, Params, Vec<f64>)> = vec![
                ("halflit", None, Params::default(), Vec::new()),
                ("public only", Some("public_rows"), Params::default(), Vec::new()),
            ];
            for run in 0..runs {
                let mut problem = training.problem(public_rows, args.seed + run as u64)?;
                if run == 0 && !args.untuned {
                    for (name, alphas) in [("Algorithm 1", &ALPHAS[..]), ("DP-SGD", &[])] {
                        let (params, back) = tune(problem, alphas, budget, &test)?;
                        problem = back;
                        methods.push((name, Some("noisy_gradient"), params, Vec::new()));
                    }
                }
                for (_, mechanism, params, errors) in &mut methods {
                    let (error, back) = test_error(problem, params.clone(), *mechanism, budget, &test)?;
                    problem = back;
                    errors.push(error);
                }
            }
            for (name, _, _, errors) in methods {
                rows.push((epsilon, ratio, name, Measured::of(&errors).ok_or("no runs")?));
            }
            eprintln!("figure {}: epsilon = {epsilon}, n_pub/n = {ratio}: done", figure.number);
        }
    }
    report(figure, *source, &size, &rows, args, runs)
}

fn test_error(
    problem: Problem,
    params: Params,
    mechanism: Option<&str>,
    budget: Budget,
    test: &Table,
) -> Result<(f64, Problem)> {
    let (weights, problem) = train(problem, params, mechanism, budget)?;
    let width = problem.encoding().width();
    let weights = weights.chunks(width).map(<[f64]>::to_vec).collect();
    let model = Model::new(problem.loss(), problem.encoding().clone(), weights)?;
    let accuracy = model.evaluate(test, OutOfDomain::Coerce)?.accuracy.ok_or("no accuracy")?;
    Ok((1.0 - accuracy, problem))
}

/// The best of the grid by the test error of one run: a luxury that only makes the tuned methods look better. No weights: DP-SGD.
fn tune(mut problem: Problem, alphas: &[f64], budget: Budget, test: &Table) -> Result<(Params, Problem)> {
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
            let (error, back) = test_error(problem, params.clone(), Some("noisy_gradient"), budget, test)?;
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
    fn read(source: Source, folder: &Path, is_training: bool, rows: usize) -> Result<Self> {
        let unpack = |name: &str| -> Result<Vec<u8>> {
            let mut bytes = Vec::new();
            GzDecoder::new(std::fs::File::open(folder.join(name))?).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match source {
            Source::Mnist => {
                let part = if is_training { "train" } else { "t10k" };
                // idx: 16 bytes of header before images of 28 x 28, 8 bytes before labels.
                let images = unpack(&format!("{part}-images-idx3-ubyte.gz"))?;
                let labels = unpack(&format!("{part}-labels-idx1-ubyte.gz"))?;
                let pixels = images.get(16..16 + rows * 784).ok_or("the image file is too short")?.to_vec();
                let labels = labels.get(8..8 + rows).ok_or("the label file is too short")?.to_vec();
                Ok(Images { source, side: 28, colours: 1, pixels, labels })
            }
            Source::Cifar10 => {
                // A byte of label before 3 x 32 x 32 pixels.
                let records =
                    unpack(if is_training { "cifar10_train_10k.bin.gz" } else { "cifar10_test_2k.bin.gz" })?;
                let records = records.get(..rows * 3073).ok_or("the image file is too short")?;
                let (mut pixels, mut labels) = (Vec::with_capacity(rows * 3072), Vec::with_capacity(rows));
                for record in records.chunks_exact(3073) {
                    labels.push(record[0]);
                    pixels.extend_from_slice(&record[1..]);
                }
                Ok(Images { source, side: 32, colours: 3, pixels, labels })
            }
        }
    }

    fn width(&self) -> usize {
        self.colours * self.side * self.side
    }

    /// The images averaged down to a smaller side.
    fn pooled(self, side: usize) -> Self {
        let factor = self.side / side;
        if factor == 1 {
            return self;
        }
        let mut pixels = Vec::with_capacity(self.labels.len() * self.colours * side * side);
        for image in self.pixels.chunks_exact(self.side * self.side) {
            for place in 0..side * side {
                let (top, left) = (place / side * factor, place % side * factor);
                let block =
                    (0..factor * factor).map(|k| image[(top + k / factor) * self.side + left + k % factor]);
                pixels.push((block.map(u32::from).sum::<u32>() / (factor * factor) as u32) as u8);
            }
        }
        Images { side, pixels, ..self }
    }

    fn table(&self, is_public: Option<&[bool]>) -> Result<Table> {
        let width = self.width();
        let column =
            |place: usize| self.pixels.iter().skip(place).step_by(width).map(|&p| f64::from(p)).collect();
        let mut columns: Vec<(String, Column)> =
            (0..width).map(|place| (format!("p{place}"), Column::Numbers(column(place)))).collect();
        columns.push(("class".to_owned(), Column::Text(self.labels.iter().map(u8::to_string).collect())));
        if let Some(is_public) = is_public {
            let consent = |is_public: &bool| if *is_public { "yes" } else { "no" }.to_owned();
            columns.push(("consent".to_owned(), Column::Text(is_public.iter().map(consent).collect())));
        }
        Ok(Table::from_columns(columns)?)
    }

    /// Zero-out, as in the paper; which rows are public is drawn by the seed.
    fn problem(&self, public_rows: usize, seed: u64) -> Result<Problem> {
        let (mut generator, width) = (seeded(seed), self.width());
        let mut order: Vec<(u64, usize)> =
            (0..self.labels.len()).map(|row| (StandardUniform.sample(&mut generator), row)).collect();
        order.sort_unstable();
        let mut is_public = vec![false; self.labels.len()];
        order.iter().take(public_rows).for_each(|&(_, row)| is_public[row] = true);
        let row_norm = (self.source.row_bound() * (width as f64).sqrt()).hypot(1.0);
        let private = self.labels.len() - public_rows;
        let mut text = format!(
            "[budget]\nepsilon = 1000\ndelta = {DELTA}\n[protect]\nunit = \"row\"\nchange = \"zero-out\"\nrows = {private}\n\
             public_rows = {{ column = \"consent\", equals = \"yes\" }}\n[task]\nlabel = \"class\"\nloss = \"softmax\"\nrow_norm = {row_norm}\n\
             [columns.class]\nvalues = [\"0\", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\"]\ndefault = \"0\"\n\
             [columns.consent]\nvisibility = \"public\"\nuse = false\n"
        );
        for place in 0..width {
            writeln!(text, "[columns.p{place}]\nbounds = {}", self.source.bounds())?;
        }
        let declared = Declared::bind(Declaration::parse(&text, "images")?, self.table(Some(&is_public))?)?;
        Ok(Problem::pose(declared, OutOfDomain::Refuse)?)
    }
}

fn report(
    figure: Figure,
    source: Source,
    size: &Size,
    rows: &[(f64, f64, &str, Measured)],
    args: &super::Args,
    runs: usize,
) -> Outcome {
    let number = figure.number;
    let mut csv = format!(
        "# figure {number}, {}, commit {COMMIT}, seeds {}..{}, {runs} runs\nepsilon,ratio,method,test_error,standard_error\n",
        source.name(),
        args.seed,
        args.seed + runs as u64 - 1
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
        title: format!("Figure {number}: softmax regression on {} with public rows", source.name()),
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
        println!(
            "{}",
            json!({ "experiment": format!("figure{number}"), "images": source.name(), "commit": COMMIT, "seed": args.seed, "runs": runs, "rows": rows })
        );
        return Ok(());
    }
    println!(
        "Figure {number}: softmax regression on {} ({1} x {1} pixels, {2} rows), delta = {DELTA:e}, zero-out, cold start for the tuned methods; {runs} runs, seeds from {3}, commit {COMMIT}.\n",
        source.name(),
        size.side,
        size.rows,
        args.seed
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
