//! Eigenvalues and eigenvectors of small symmetric matrices.
//!
//! Householder reflections make the matrix tridiagonal, implicit shifts make it diagonal (Golub and Van Loan, 8.3). Accurate to a few
//! roundings of the largest eigenvalue, which is all that its callers need: nothing that is proved rests on it.

/// A symmetric matrix as V diag(values) V^T.
#[derive(Debug, Clone)]
pub struct Eigen {
    /// The eigenvalues, in no particular order.
    pub values: Vec<f64>,
    /// V^T, row-major: row i is the unit eigenvector of `values[i]`.
    pub vectors: Vec<f64>,
}

/// Shifts allowed per eigenvalue; two or three are usual.
const MOST_SHIFTS: usize = 60;

impl Eigen {
    /// Decomposes a symmetric matrix, row-major; `None` if an entry is not finite.
    pub fn of(matrix: &[f64], size: usize) -> Option<Self> {
        if matrix.len() != size * size || !matrix.iter().all(|entry| entry.is_finite()) {
            return None;
        }
        let mut vectors = identity(size);
        let (mut diagonal, mut beside) = tridiagonal(matrix.to_vec(), size, &mut vectors);
        diagonalize(&mut diagonal, &mut beside, size, &mut vectors)?;
        Some(Eigen { values: diagonal, vectors })
    }

    /// V diag(map(values)) V^T, row-major.
    pub fn mapped(&self, map: impl Fn(f64) -> f64) -> Vec<f64> {
        let size = self.values.len();
        let mut matrix = vec![0.0; size * size];
        for (vector, &value) in self.vectors.chunks_exact(size.max(1)).zip(&self.values) {
            let factor = map(value);
            for (line, &left) in matrix.chunks_exact_mut(size).zip(vector) {
                let factor = factor * left;
                line.iter_mut().zip(vector).for_each(|(entry, right)| *entry += factor * right);
            }
        }
        matrix
    }
}

fn identity(size: usize) -> Vec<f64> {
    (0..size * size).map(|place| f64::from(u8::from(place % (size + 1) == 0))).collect()
}

/// Reflects columns and rows one after the other; `vectors` collects the reflections. The diagonal and the entries beside it.
fn tridiagonal(mut matrix: Vec<f64>, size: usize, vectors: &mut [f64]) -> (Vec<f64>, Vec<f64>) {
    let mut beside = vec![0.0; size];
    for column in 0..size.saturating_sub(2) {
        let tail = column + 1..size;
        let mut v: Vec<f64> = tail.clone().map(|row| matrix[row * size + column]).collect();
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm == 0.0 {
            continue;
        }
        // The sign that does not cancel.
        let alpha = if v[0] > 0.0 { -norm } else { norm };
        v[0] -= alpha;
        let half = 0.5 * v.iter().map(|x| x * x).sum::<f64>();
        // A <- H A H on the tail, H = 1 - v v^T / half: with p = A v / half, w = p - (v^T p / 2 half) v, A - v w^T - w v^T.
        let mut w: Vec<f64> = tail
            .clone()
            .map(|row| {
                let line = &matrix[row * size + column + 1..(row + 1) * size];
                line.iter().zip(&v).map(|(a, v)| a * v).sum::<f64>() / half
            })
            .collect();
        let along = v.iter().zip(&w).map(|(v, p)| v * p).sum::<f64>() / (2.0 * half);
        w.iter_mut().zip(&v).for_each(|(w, v)| *w -= along * v);
        for (i, row) in tail.clone().enumerate() {
            let line = &mut matrix[row * size + column + 1..(row + 1) * size];
            for ((entry, v_j), w_j) in line.iter_mut().zip(&v).zip(&w) {
                *entry -= v[i] * w_j + w[i] * v_j;
            }
            matrix[row * size + column] = 0.0;
        }
        matrix[(column + 1) * size + column] = alpha;
        // V^T <- H V^T: rows column+1.. of V^T.
        let mut combined = vec![0.0; size];
        for (i, row) in tail.clone().enumerate() {
            let line = &vectors[row * size..(row + 1) * size];
            combined.iter_mut().zip(line).for_each(|(sum, x)| *sum += v[i] / half * x);
        }
        for (i, row) in tail.enumerate() {
            let line = &mut vectors[row * size..(row + 1) * size];
            line.iter_mut().zip(&combined).for_each(|(x, sum)| *x -= v[i] * sum);
        }
    }
    for (i, entry) in beside.iter_mut().enumerate().take(size.saturating_sub(1)) {
        *entry = matrix[(i + 1) * size + i];
    }
    ((0..size).map(|i| matrix[i * size + i]).collect(), beside)
}

/// Implicit shifts with rotations; `beside[i]` couples i and i + 1.
fn diagonalize(d: &mut [f64], e: &mut [f64], size: usize, vectors: &mut [f64]) -> Option<()> {
    for low in 0..size {
        for shifts in 0.. {
            let small = |i: usize, d: &[f64], e: &[f64]| {
                let scale = d[i].abs() + d[i + 1].abs();
                e[i].abs() <= f64::EPSILON * scale
            };
            let high = (low..size - 1).find(|&i| small(i, d, e)).unwrap_or(size - 1);
            if high == low {
                break;
            }
            if shifts == MOST_SHIFTS {
                return None;
            }
            // Wilkinson's shift.
            let slope = (d[low + 1] - d[low]) / (2.0 * e[low]);
            let root = slope.hypot(1.0);
            let mut g = d[high] - d[low] + e[low] / (slope + root.copysign(slope));
            let (mut sine, mut cosine, mut p) = (1.0, 1.0, 0.0);
            let mut broke = false;
            for i in (low..high).rev() {
                let (f, b) = (sine * e[i], cosine * e[i]);
                let radius = f.hypot(g);
                e[i + 1] = radius;
                if radius == 0.0 {
                    d[i + 1] -= p;
                    e[high] = 0.0;
                    broke = true;
                    break;
                }
                (sine, cosine) = (f / radius, g / radius);
                let left = d[i + 1] - p;
                let step = (d[i] - left) * sine + 2.0 * cosine * b;
                p = sine * step;
                d[i + 1] = left + p;
                g = cosine * step - b;
                let (first, second) = vectors.split_at_mut((i + 1) * size);
                let lines = first[i * size..].iter_mut().zip(&mut second[..size]);
                for (x, y) in lines {
                    (*y, *x) = (sine * *x + cosine * *y, cosine * *x - sine * *y);
                }
            }
            if !broke {
                d[low] -= p;
                e[low] = g;
                e[high] = 0.0;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    fn symmetric(size: usize, seed: u64) -> Vec<f64> {
        let mut numbers = Numbers::new(seed);
        let mut matrix = vec![0.0; size * size];
        for i in 0..size {
            for j in 0..=i {
                let entry = numbers.symmetric();
                (matrix[i * size + j], matrix[j * size + i]) = (entry, entry);
            }
        }
        matrix
    }

    #[test]
    fn a_matrix_is_its_eigenvectors_times_its_eigenvalues() {
        for size in [1, 2, 3, 4, 7, 20, 61] {
            let matrix = symmetric(size, size as u64);
            let eigen = Eigen::of(&matrix, size).unwrap();
            for (entry, again) in matrix.iter().zip(eigen.mapped(|value| value)) {
                assert!((entry - again).abs() < 1e-13 * size as f64, "{size}");
            }
            for (i, one) in eigen.vectors.chunks(size).enumerate() {
                for (j, other) in eigen.vectors.chunks(size).enumerate() {
                    let product: f64 = one.iter().zip(other).map(|(a, b)| a * b).sum();
                    assert!((product - f64::from(u8::from(i == j))).abs() < 1e-13 * size as f64, "{size}");
                }
            }
        }
    }

    /// The second difference on a chain: eigenvalues 2 - 2 cos(pi k / (n + 1)).
    #[test]
    fn a_chain_has_its_known_eigenvalues() {
        let size = 12_usize;
        let matrix: Vec<f64> = (0..size * size)
            .map(|place| match (place / size).abs_diff(place % size) {
                0 => 2.0,
                1 => -1.0,
                _ => 0.0,
            })
            .collect();
        let mut found = Eigen::of(&matrix, size).unwrap().values;
        found.sort_by(f64::total_cmp);
        for (k, value) in found.iter().enumerate() {
            let expected = 2.0 - 2.0 * (std::f64::consts::PI * (k as f64 + 1.0) / 13.0).cos();
            assert!((value - expected).abs() < 1e-14, "{value} {expected}");
        }
    }

    #[test]
    fn special_matrices_are_decomposed_and_others_refused() {
        for matrix in [vec![0.0; 9], vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1e-12], vec![1.0; 9]] {
            let eigen = Eigen::of(&matrix, 3).unwrap();
            for (entry, again) in matrix.iter().zip(eigen.mapped(|value| value)) {
                assert!((entry - again).abs() < 1e-14);
            }
        }
        assert!(Eigen::of(&[f64::NAN], 1).is_none());
        assert!(Eigen::of(&[1.0, 2.0], 2).is_none());
        assert!(Eigen::of(&[], 0).unwrap().values.is_empty());
    }
}
