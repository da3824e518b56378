//! Tables of 0/1 features with many classes: Location-30 where it is there, and a synthetic stand-in for Purchase100.

use crate::datasets::shared_data;
use crate::kernel_bench::scramble;
use halflit_convex::{DenseRows, FEATURE_SCALE, Rows};
use std::io::Read;

/// A table cut into training and test rows. The first column is the intercept.
pub struct Data {
    pub train: Part,
    pub test: Part,
    pub classes: usize,
    /// The columns that everyone may know, the intercept among them; the label is public too.
    pub public_columns: Vec<u32>,
}

/// Rows with their labels.
pub struct Part {
    pub rows: Rows,
    pub labels: Vec<f64>,
}

/// What the missing cells of a public row are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Padding {
    /// Zeros.
    Zero,
    /// Standard normal numbers, cut off at 2: the paper's choice.
    Gaussian,
}

/// The shape of a synthetic mixture.
#[derive(Clone, Copy)]
pub struct Mixture {
    pub rows: usize,
    pub test_rows: usize,
    pub features: usize,
    pub public: usize,
    pub classes: usize,
    pub seed: u64,
}

/// How far apart the classes are: the spread of a feature's log-odds between classes.
const SPREAD: f64 = 0.45;

impl Mixture {
    /// Every class has its own probability of a one in every feature; features are independent given the class.
    pub fn draw(&self) -> Result<Data, Box<dyn std::error::Error>> {
        let numbers = Numbers(self.seed);
        let odds = |class: usize, feature: usize| {
            let common = -1.0 + 0.7 * numbers.normal(1, feature as u64);
            let own = SPREAD * numbers.normal(2, (class * self.features + feature) as u64);
            1.0 / (1.0 + (-common - own).exp())
        };
        let probabilities: Vec<f64> = (0..self.classes * self.features)
            .map(|index| odds(index / self.features, index % self.features))
            .collect();
        let part = |first: usize, count: usize| -> Result<Part, Box<dyn std::error::Error>> {
            let labels: Vec<f64> = (first..first + count)
                .map(|row| (numbers.word(3, row as u64) % self.classes as u64) as f64)
                .collect();
            let mut rows = DenseRows::with_capacity(self.features + 1, count)?;
            let mut row = vec![FEATURE_SCALE; self.features + 1];
            for (position, &label) in labels.iter().enumerate() {
                let odds = &probabilities[label as usize * self.features..][..self.features];
                for (feature, &odds) in odds.iter().enumerate() {
                    let cell = ((first + position) * self.features + feature) as u64;
                    row[feature + 1] = if numbers.uniform(4, cell) < odds { FEATURE_SCALE } else { 0 };
                }
                rows.push_row(&row)?;
            }
            Ok(Part { rows: rows.into(), labels })
        };
        Ok(Data {
            train: part(0, self.rows)?,
            test: part(self.rows, self.test_rows)?,
            classes: self.classes,
            public_columns: public_columns(self.features, self.public, self.seed),
        })
    }
}

/// Location-30: 5,010 people, 446 kinds of places visited or not, 30 classes; one row in five is for testing. None where it is missing.
pub fn location30(public: usize, seed: u64) -> Result<Option<Data>, Box<dyn std::error::Error>> {
    let Some(folder) = shared_data("location30") else { return Ok(None) };
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(folder.join("location30.csv.gz"))?)
        .read_to_string(&mut text)?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let label_column =
        header.iter().position(|&name| name == "label").ok_or("location30 has no column label")?;
    let width = header.len();
    let mut parts = [(DenseRows::new(width)?, Vec::new()), (DenseRows::new(width)?, Vec::new())];
    for (number, line) in lines.enumerate() {
        let cells: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let features = cells.iter().enumerate().filter(|&(column, _)| column != label_column);
        let ones = features.map(|(_, &cell)| if cell > 0.5 { FEATURE_SCALE } else { 0 });
        let row: Vec<i16> = std::iter::once(FEATURE_SCALE).chain(ones).collect();
        let (rows, labels) = &mut parts[usize::from(Numbers(seed).word(5, number as u64).is_multiple_of(5))];
        rows.push_row(&row)?;
        labels.push(cells[label_column] - 1.0);
    }
    let [train, test] = parts.map(|(rows, labels)| Part { rows: rows.into(), labels });
    Ok(Some(Data { train, test, classes: 30, public_columns: public_columns(width - 1, public, seed) }))
}

/// The intercept and `public` of the features, chosen by lot.
fn public_columns(features: usize, public: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (1..=features as u32).collect();
    order.sort_by_key(|&column| Numbers(seed).word(6, u64::from(column)));
    order.truncate(public);
    order.push(0);
    order.sort_unstable();
    order
}

impl Data {
    /// The training rows as everyone may know them: sensitive columns padded.
    pub fn padded(&self, padding: Padding, seed: u64) -> Result<Rows, Box<dyn std::error::Error>> {
        let rows = &self.train.rows;
        let mut padded = DenseRows::with_capacity(rows.width(), rows.len())?;
        let mut is_public = vec![false; rows.width()];
        self.public_columns.iter().for_each(|&column| is_public[column as usize] = true);
        for index in 0..rows.len() {
            let mut row = rows.dense_row(index)?;
            for (column, cell) in row.iter_mut().enumerate().filter(|&(column, _)| !is_public[column]) {
                *cell = match padding {
                    Padding::Zero => 0,
                    Padding::Gaussian => {
                        let number = Numbers(seed).normal(7, (index * rows.width() + column) as u64);
                        // just below 2: the largest feature
                        (number.clamp(-1.999, 1.999) * f64::from(FEATURE_SCALE)) as i16
                    }
                };
            }
            padded.push_row(&row)?;
        }
        Ok(padded.into())
    }
}

/// Repeatable numbers for making tables and first weights; never noise.
#[derive(Clone, Copy)]
pub struct Numbers(pub u64);

impl Numbers {
    fn word(self, purpose: u64, index: u64) -> u64 {
        scramble(scramble(scramble(self.0 ^ 0x5bd1_e995).wrapping_add(purpose)).wrapping_add(index))
    }

    fn uniform(self, purpose: u64, index: u64) -> f64 {
        (self.word(purpose, index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Box and Muller.
    pub fn normal(self, purpose: u64, index: u64) -> f64 {
        let (a, b) = (self.uniform(purpose, 2 * index), self.uniform(purpose, 2 * index + 1));
        (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}
