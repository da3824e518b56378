//! The ellipsoid around rows that is smallest where size costs most.
//!
//! ```text
//! minimise tr(Q S)  subject to  x_i^T S^-1 x_i <= 1 for every row i
//! ```
//!
//! S = s^2 I is a ball around the longest row; the best S follows the directions that rows really take, and is thin where Q is large. At the optimum
//! S Q S = sum_i u_i x_i x_i^T with weights u_i >= 0 on the rows that touch the surface. The weights are found by the multiplicative
//! rule u_i <- u_i x_i^T S^-1 x_i of optimal design (Silvey, Titterington, Torsney 1978), on a working set of rows that is exchanged
//! for the rows that stick out. Whatever the iteration reaches, the result is stretched until it holds every row.

use crate::eigen::Eigen;
use crate::rows::{FEATURE_BITS, Rows};
use rayon::prelude::*;

/// Rows that enter the working set at once.
const ENTERING: usize = 1500;
/// Multiplicative steps between looks at all rows.
const STEPS: usize = 8;
/// Looks at all rows.
const ROUNDS: usize = 8;
/// The duality gap at which the search ends.
const GAP: f64 = 1.05;
/// Rows with less than this share of an even weight leave the working set.
const LEAVING_SHARE: f64 = 1e-4;
/// Eigenvalues of Q below this share of the largest count as this much, so that no direction is free.
const LEAST_COST: f64 = 1e-8;

/// {x : x^T S^-1 x <= 1}.
#[derive(Debug, Clone)]
pub struct Ellipsoid {
    size: usize,
    /// S, row-major.
    shape: Vec<f64>,
    /// S^-1, row-major.
    inverse: Vec<f64>,
}

impl Ellipsoid {
    /// An ellipsoid that holds every row and for which tr(Q S) is within a few per cent of the least possible; `cost` is Q, symmetric and
    /// positive semidefinite, row-major.
    ///
    /// `None` without rows, or if Q is zero or not finite.
    pub fn around(rows: &Rows, cost: &[f64]) -> Option<Self> {
        let size = rows.width();
        let cost = Eigen::of(cost, size)?;
        let largest = cost.values.iter().fold(0.0, |most: f64, &value| most.max(value));
        if rows.max_squared_norm() == 0 || !(largest > 0.0) {
            return None;
        }
        let floored = |value: f64| value.max(LEAST_COST * largest);
        let root = cost.mapped(|value| floored(value).sqrt());
        let mut search = Search::new(rows, &root, size);
        let mut best: Option<(f64, Eigen)> = None;
        for _ in 0..ROUNDS {
            let Some(found) = search.improve(size) else { break };
            // The ellipsoid in the coordinates y = Q^(1/2) x is sqrt(M); its worth if stretched to hold every row, against the dual value.
            let reach = search.reach(rows, &root, &found);
            let farthest = reach.iter().fold(0.0, |most: f64, &value| most.max(value));
            let trace: f64 = found.values.iter().map(|&value| root_of(value, &found)).sum();
            let (value, bound) = (farthest * trace, trace * trace);
            if best.as_ref().is_none_or(|(least, _)| value < *least) {
                best = Some((value, found));
            }
            if value <= GAP * bound {
                break;
            }
            search.exchange(rows, &root, &reach, trace);
        }
        let (_, found) = best?;
        let reach = search.reach(rows, &root, &found);
        let stretch = reach.iter().fold(0.0, |most: f64, &value| most.max(value));
        // S = Q^(-1/2) (stretch sqrt M) Q^(-1/2).
        let middle = found.mapped(|value| stretch * root_of(value, &found));
        let inverse_middle = found.mapped(|value| 1.0 / (stretch * root_of(value, &found)));
        let inverse_root = cost.mapped(|value| 1.0 / floored(value).sqrt());
        let shape = sandwich(&inverse_root, &middle, size);
        let inverse = sandwich(&root, &inverse_middle, size);
        let is_finite = shape.iter().chain(&inverse).all(|entry| entry.is_finite());
        is_finite.then_some(Ellipsoid { size, shape, inverse })
    }

    /// Number of coordinates.
    pub fn size(&self) -> usize {
        self.size
    }

    /// S, row-major.
    pub fn shape(&self) -> &[f64] {
        &self.shape
    }

    /// S^-1, row-major.
    pub fn inverse(&self) -> &[f64] {
        &self.inverse
    }
}

/// sqrt(value), where no eigenvalue counts less than 1e-13 of the largest.
fn root_of(value: f64, eigen: &Eigen) -> f64 {
    let largest = eigen.values.iter().fold(0.0, |most: f64, &value| most.max(value));
    value.max(1e-13 * largest).sqrt()
}

/// A B A for symmetric A and B.
fn sandwich(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let product = |x: &[f64], y: &[f64]| -> Vec<f64> {
        // x y^T, and y is symmetric
        let rows = x.chunks_exact(size);
        rows.flat_map(|row| {
            y.chunks_exact(size).map(|column| row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>())
        })
        .collect()
    };
    let left = product(a, b);
    product(&left, a)
}

/// The rows that may touch the surface, with their weights.
struct Search {
    /// Which rows, in the order of `points`.
    members: Vec<u32>,
    /// y = Q^(1/2) x, row after row.
    points: Vec<f64>,
    weights: Vec<f64>,
}

impl Search {
    /// The longest rows, and some of all.
    fn new(rows: &Rows, root: &[f64], size: usize) -> Self {
        let mut search = Search { members: Vec::new(), points: Vec::new(), weights: Vec::new() };
        let lengths: Vec<f64> = transformed_squares(rows, root, size);
        let mut first = most(&lengths, ENTERING);
        let stride = rows.len().div_ceil(ENTERING).max(1);
        first.extend((0..rows.len()).step_by(stride).map(|row| row as u32));
        search.enter(rows, root, first, 1.0);
        search
    }

    fn enter(&mut self, rows: &Rows, root: &[f64], mut entering: Vec<u32>, weight: f64) {
        let size = rows.width();
        let mut known = self.members.clone();
        known.sort_unstable();
        entering.sort_unstable();
        entering.dedup();
        entering.retain(|row| known.binary_search(row).is_err());
        let mut x = vec![0.0; size];
        for &row in &entering {
            unpack(rows, row as usize, &mut x);
            self.points.extend(
                root.chunks_exact(size).map(|line| line.iter().zip(&x).map(|(a, b)| a * b).sum::<f64>()),
            );
        }
        self.weights.extend(std::iter::repeat_n(weight, entering.len()));
        self.members.extend(entering);
        self.normalize();
    }

    fn normalize(&mut self) {
        let total: f64 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|weight| *weight /= total);
    }

    /// Some multiplicative steps; the eigenvectors of M = sum_i u_i y_i y_i^T before the last of them.
    fn improve(&mut self, size: usize) -> Option<Eigen> {
        let mut found = None;
        for _ in 0..STEPS {
            let mut moments = vec![0.0; size * size];
            for (point, &weight) in self.points.chunks_exact(size).zip(&self.weights) {
                for (line, &left) in moments.chunks_exact_mut(size).zip(point) {
                    let factor = weight * left;
                    if factor != 0.0 {
                        line.iter_mut().zip(point).for_each(|(entry, right)| *entry += factor * right);
                    }
                }
            }
            let eigen = Eigen::of(&moments, size)?;
            let inverse = eigen.mapped(|value| 1.0 / root_of(value, &eigen));
            for (point, weight) in self.points.chunks_exact(size).zip(&mut self.weights) {
                let reach: f64 = inverse
                    .chunks_exact(size)
                    .zip(point)
                    .map(|(line, &left)| left * line.iter().zip(point).map(|(a, b)| a * b).sum::<f64>())
                    .sum();
                *weight *= reach;
            }
            self.normalize();
            found = Some(eigen);
        }
        found
    }

    /// y^T M^(-1/2) y for every row: at most the trace of sqrt(M) at the optimum.
    fn reach(&self, rows: &Rows, root: &[f64], found: &Eigen) -> Vec<f64> {
        let size = rows.width();
        // diag(values^(-1/4)) V^T Q^(1/2)
        let mut map = vec![0.0; size * size];
        for ((line, vector), &value) in
            map.chunks_exact_mut(size).zip(found.vectors.chunks_exact(size)).zip(&found.values)
        {
            let factor = root_of(value, found).sqrt().recip();
            for (entry, column) in line.iter_mut().zip(root.chunks_exact(size)) {
                *entry = factor * column.iter().zip(vector).map(|(a, b)| a * b).sum::<f64>();
            }
        }
        transformed_squares(rows, &map, size)
    }

    /// Drops rows without weight and takes in the rows that stick out most.
    fn exchange(&mut self, rows: &Rows, root: &[f64], reach: &[f64], trace: f64) {
        let size = rows.width();
        let least = LEAVING_SHARE / self.weights.len() as f64;
        let stays: Vec<bool> = self.weights.iter().map(|&weight| weight >= least).collect();
        let mut keep = stays.iter();
        self.members.retain(|_| *keep.next().unwrap_or(&false));
        let mut keep = stays.iter();
        self.points = (self.points.chunks_exact(size))
            .filter(|_| *keep.next().unwrap_or(&false))
            .flatten()
            .copied()
            .collect();
        let mut keep = stays.iter();
        self.weights.retain(|_| *keep.next().unwrap_or(&false));
        let entering = most(reach, ENTERING).into_iter().filter(|&row| reach[row as usize] > trace);
        let weight = 0.3 / self.weights.len().max(1) as f64;
        self.enter(rows, root, entering.collect(), weight);
    }
}

/// The places of the `count` largest values, in no particular order.
fn most(values: &[f64], count: usize) -> Vec<u32> {
    let mut places: Vec<u32> = (0..values.len() as u32).collect();
    if places.len() > count {
        places.select_nth_unstable_by(count, |&a, &b| {
            values[b as usize].total_cmp(&values[a as usize]).then(a.cmp(&b))
        });
        places.truncate(count);
    }
    places
}

/// ||A x_i||^2 for every row.
fn transformed_squares(rows: &Rows, matrix: &[f64], size: usize) -> Vec<f64> {
    // Column-major: a sparse row adds few columns.
    let columns: Vec<f64> =
        (0..size * size).map(|place| matrix[place % size * size + place / size]).collect();
    const BLOCK: usize = 512;
    (0..rows.len().div_ceil(BLOCK))
        .into_par_iter()
        .flat_map_iter(|block| {
            let mut image = vec![0.0; size];
            let of_row = |row: usize| {
                image.fill(0.0);
                for_each_feature(rows, row, |column, value| {
                    let line = &columns[column * size..(column + 1) * size];
                    image.iter_mut().zip(line).for_each(|(sum, entry)| *sum += value * entry);
                });
                image.iter().map(|x| x * x).sum::<f64>()
            };
            (block * BLOCK..((block + 1) * BLOCK).min(rows.len())).map(of_row).collect::<Vec<_>>()
        })
        .collect()
}

fn unpack(rows: &Rows, row: usize, x: &mut [f64]) {
    x.fill(0.0);
    for_each_feature(rows, row, |column, value| x[column] = value);
}

/// The features of a row that are not zero, as real numbers.
fn for_each_feature(rows: &Rows, row: usize, mut visit: impl FnMut(usize, f64)) {
    let unit = 1.0 / f64::from(1 << FEATURE_BITS);
    match rows {
        Rows::Dense(rows) => {
            for (column, &q) in rows.row(row).iter().enumerate() {
                if q != 0 {
                    visit(column, f64::from(q) * unit);
                }
            }
        }
        Rows::Sparse(rows) => rows.row(row).iter().for_each(|(column, q)| visit(column, f64::from(q) * unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::DenseRows;
    use crate::testing::Numbers;

    fn reach(ellipsoid: &Ellipsoid, x: &[f64]) -> f64 {
        let size = ellipsoid.size();
        let image = ellipsoid.inverse().chunks_exact(size);
        image.zip(x).map(|(line, &left)| left * line.iter().zip(x).map(|(a, b)| a * b).sum::<f64>()).sum()
    }

    fn value(ellipsoid: &Ellipsoid, cost: &[f64]) -> f64 {
        ellipsoid.shape().iter().zip(cost).map(|(s, q)| s * q).sum()
    }

    fn rows_of(points: &[Vec<f64>]) -> Rows {
        let rows: Vec<Vec<i16>> =
            points.iter().map(|x| x.iter().map(|x| (x * 16384.0).round() as i16).collect()).collect();
        DenseRows::from_rows(points[0].len(), &rows).unwrap().into()
    }

    /// Rows on the axes: the best ellipsoid has the rows' lengths as half axes, whatever the cost.
    #[test]
    fn rows_on_the_axes_are_touched() {
        let lengths = [1.5, 0.5, 0.02];
        let points: Vec<Vec<f64>> = (0..3)
            .flat_map(|axis| {
                [1.0, 0.3].map(|share| {
                    (0..3).map(|j| if j == axis { share * lengths[axis] } else { 0.0 }).collect()
                })
            })
            .collect();
        let cost = [1.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.5];
        let found = Ellipsoid::around(&rows_of(&points), &cost).unwrap();
        // S = diag(s_j), x^2/s <= 1 on every axis: s_j >= length^2, and nothing else binds.
        for (j, length) in lengths.iter().enumerate() {
            let s = found.shape()[j * 3 + j];
            assert!((s / (length * length) - 1.0).abs() < 0.06, "{j} {s}");
        }
    }

    /// The problem is convex in S^-1, so a point that no small change of S^-1 improves much is near the least everywhere.
    #[test]
    fn every_row_is_inside_and_the_value_is_near_the_least() {
        let mut numbers = Numbers::new(3);
        let size = 9;
        // One-hot categories of very unequal frequency beside two numbers and an intercept.
        let points: Vec<Vec<f64>> = (0..4000)
            .map(|_| {
                let mut x = vec![0.0; size];
                x[0] = 1.0;
                x[1] = numbers.symmetric();
                x[2] = 0.1 * numbers.symmetric();
                x[3 + (1 + numbers.next() % 63).ilog2() as usize] = 1.0;
                x
            })
            .collect();
        let mut cost = vec![0.0; size * size];
        for (i, entry) in cost.iter_mut().step_by(size + 1).enumerate() {
            *entry = 1.0 / (1.0 + i as f64);
        }
        let rows = rows_of(&points);
        let found = Ellipsoid::around(&rows, &cost).unwrap();
        let farthest = points.iter().map(|x| reach(&found, x)).fold(0.0, f64::max);
        assert!(farthest <= 1.001 && farthest > 0.95, "{farthest}");
        let longest = points.iter().map(|x| x.iter().map(|x| x * x).sum::<f64>()).fold(0.0, f64::max);
        let ball: f64 = longest * (0..size).map(|i| cost[i * size + i]).sum::<f64>();
        let least = value(&found, &cost);
        assert!(least < 0.8 * ball, "{least} {ball}");
        for _ in 0..200 {
            let mut inverse = found.inverse().to_vec();
            for i in 0..size {
                for j in 0..=i {
                    // Relative to the scale of the two coordinates.
                    let scale = (found.inverse()[i * (size + 1)] * found.inverse()[j * (size + 1)]).sqrt();
                    let change = 0.05 * scale * numbers.symmetric();
                    inverse[i * size + j] += change;
                    inverse[j * size + i] = inverse[i * size + j];
                }
            }
            let eigen = Eigen::of(&inverse, size).unwrap();
            if eigen.values.iter().any(|&value| value <= 0.0) {
                continue;
            }
            let changed = Ellipsoid { size, shape: eigen.mapped(f64::recip), inverse };
            let stretch = points.iter().map(|x| reach(&changed, x)).fold(0.0, f64::max);
            assert!(stretch * value(&changed, &cost) > 0.98 * least);
        }
    }

    #[test]
    fn nothing_to_hold_is_no_ellipsoid() {
        let rows = rows_of(&[vec![0.0, 0.0]]);
        assert!(Ellipsoid::around(&rows, &[1.0, 0.0, 0.0, 1.0]).is_none());
        let rows = rows_of(&[vec![1.0, 0.0]]);
        assert!(Ellipsoid::around(&rows, &[0.0; 4]).is_none());
        assert!(Ellipsoid::around(&rows, &[f64::NAN; 4]).is_none());
        // One row in the plane: the free direction gets some size, finite.
        let found = Ellipsoid::around(&rows, &[1.0, 0.0, 0.0, 1.0]).unwrap();
        assert!(found.shape().iter().all(|entry| entry.is_finite()));
        assert!((found.shape()[0] - 1.0).abs() < 0.01, "{:?}", found.shape());
    }
}
