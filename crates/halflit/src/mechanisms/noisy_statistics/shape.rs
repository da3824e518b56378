//! The shape of the noise: features are public, so the sum may be released through any public matrix.
//!
//! Released is T S plus noise of the same size in every coordinate, so that S carries noise of covariance s^2 (T^T T)^-1. With T = 1 the noise is round and its
//! size follows the longest row. The best T makes every row about equally long and puts little noise where the model would suffer most from it: the rows
//! then lie in the ellipsoid x^T T^T T x <= 1 that minimises the predicted excess ([`halflit_convex::Ellipsoid`]).
//!
//! T is an upper triangular matrix of integers and its images of rows are rounded to integers, so an image is a pure integer function of the row. How far one unit
//! moves the released sum is computed from these very integers (`lattice`): nothing about T has to be true for the guarantee.

use halflit_convex::solver::Cholesky;
use halflit_convex::{Ellipsoid, FEATURE_BITS, Rows};
use serde::{Deserialize, Serialize};

/// Up to this many features the noise is shaped.
pub(crate) const LARGEST_SHAPED: usize = 256;

/// Images of rows are integers in units of 2^-18; a row on the surface of the ellipsoid has length 2^18.
const IMAGE_BITS: u32 = 18;

/// Entries of T stay below 2^36: with 16-bit features and 256 columns no sum leaves 60 bits.
const ENTRY_BITS: u32 = 36;

/// T: upper triangular, integers in units of 2^-`fraction_bits`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub(crate) struct Shape {
    size: usize,
    fraction_bits: u32,
    /// T^T, row after row: entry (l, j) for j <= l is what feature l adds to coordinate j.
    entries: Vec<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    fraction_bits: u32,
    /// The rows of T^T: one entry, two entries, and so on.
    rows: Vec<Vec<i64>>,
}

/// Where row `l` of the triangle begins.
const fn start(row: usize) -> usize {
    row * (row + 1) / 2
}

impl Shape {
    /// The matrix that makes a ball of the ellipsoid; `None` if its entries do not fit.
    pub fn of(ellipsoid: &Ellipsoid) -> Option<Self> {
        let size = ellipsoid.size();
        // S^-1 = L L^T, T = L^T: ||T x||^2 = x^T S^-1 x.
        let factor = Cholesky::factor(ellipsoid.inverse().to_vec(), size)?;
        let reals: Vec<f64> = (0..size).flat_map(|row| factor.row(row).to_vec()).collect();
        let largest = reals.iter().fold(0.0, |most: f64, entry| most.max(entry.abs()));
        let fits = |bits: &u32| largest * 2f64.powi(*bits as i32) < 2f64.powi(ENTRY_BITS as i32);
        let fraction_bits = (IMAGE_BITS..=60).rev().find(fits)?;
        let mut entries: Vec<i64> =
            reals.iter().map(|entry| (entry * 2f64.powi(fraction_bits as i32)).round() as i64).collect();
        for row in 0..size {
            // No direction is lost.
            let diagonal = &mut entries[start(row) + row];
            *diagonal = (*diagonal).max(1);
        }
        Shape::new(fraction_bits, entries, size)
    }

    fn new(fraction_bits: u32, entries: Vec<i64>, size: usize) -> Option<Self> {
        let fits = (1..=LARGEST_SHAPED).contains(&size)
            && entries.len() == start(size)
            && (IMAGE_BITS..=60).contains(&fraction_bits)
            && entries.iter().all(|entry| entry.unsigned_abs() <= 1 << ENTRY_BITS)
            && (0..size).all(|row| entries[start(row) + row] >= 1);
        fits.then_some(Shape { size, fraction_bits, entries })
    }

    /// What one unit of an image is worth.
    pub fn image_unit() -> f64 {
        2f64.powi(-(IMAGE_BITS as i32))
    }

    /// Number of features.
    pub fn size(&self) -> usize {
        self.size
    }

    /// T x of one row, rounded, in units of 2^-18.
    pub fn image(&self, rows: &Rows, row: usize, image: &mut [i64]) {
        image.fill(0);
        let mut add = |feature: usize, q: i16| {
            if q != 0 {
                let entries = &self.entries[start(feature)..start(feature + 1)];
                for (sum, entry) in image.iter_mut().zip(entries) {
                    *sum += entry * i64::from(q);
                }
            }
        };
        match rows {
            Rows::Dense(rows) => rows.row(row).iter().enumerate().for_each(|(column, &q)| add(column, q)),
            Rows::Sparse(rows) => rows.row(row).iter().for_each(|(column, q)| add(column, q)),
        }
        let shift = self.fraction_bits + FEATURE_BITS - IMAGE_BITS;
        let half = 1i64 << (shift - 1);
        image.iter_mut().for_each(|sum| *sum = (*sum + half) >> shift);
    }

    /// T v.
    pub fn apply(&self, vector: &[f64]) -> Vec<f64> {
        let mut image = vec![0.0; self.size];
        for (row, &value) in vector.iter().enumerate() {
            for (sum, &entry) in image.iter_mut().zip(&self.entries[start(row)..start(row + 1)]) {
                *sum += self.real(entry) * value;
            }
        }
        image
    }

    /// T^T v.
    pub fn apply_transposed(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.size)
            .map(|row| {
                let entries = &self.entries[start(row)..start(row + 1)];
                entries.iter().zip(vector).map(|(&entry, value)| self.real(entry) * value).sum()
            })
            .collect()
    }

    /// T^-1 v.
    pub fn solve(&self, vector: &[f64]) -> Vec<f64> {
        let mut solution = vector.to_vec();
        for row in (0..self.size).rev() {
            let (entries, diagonal) = self.entries[start(row)..start(row + 1)].split_at(row);
            solution[row] /= self.real(diagonal[0]);
            let known = solution[row];
            for (value, &entry) in solution.iter_mut().zip(entries) {
                *value -= self.real(entry) * known;
            }
        }
        solution
    }

    /// T^-T v.
    pub fn solve_transposed(&self, vector: &[f64]) -> Vec<f64> {
        let mut solution = vector.to_vec();
        for row in 0..self.size {
            let (entries, diagonal) = self.entries[start(row)..start(row + 1)].split_at(row);
            let known: f64 =
                entries.iter().zip(&solution).map(|(&entry, value)| self.real(entry) * value).sum();
            solution[row] = (solution[row] - known) / self.real(diagonal[0]);
        }
        solution
    }

    fn real(&self, entry: i64) -> f64 {
        entry as f64 * 2f64.powi(-(self.fraction_bits as i32))
    }
}

impl TryFrom<Record> for Shape {
    type Error = &'static str;

    fn try_from(record: Record) -> Result<Self, Self::Error> {
        let size = record.rows.len();
        if record.rows.iter().enumerate().any(|(row, entries)| entries.len() != row + 1) {
            return Err(
                "the shape must be a triangle: one entry in its first row, two in the second, and so on",
            );
        }
        Shape::new(record.fraction_bits, record.rows.concat(), size)
            .ok_or("the shape must have 1 to 256 rows of entries up to 2^36, positive on the diagonal, and 18 to 60 fraction bits")
    }
}

impl From<Shape> for Record {
    fn from(shape: Shape) -> Self {
        let rows = (0..shape.size).map(|row| shape.entries[start(row)..start(row + 1)].to_vec()).collect();
        Record { fraction_bits: shape.fraction_bits, rows }
    }
}
