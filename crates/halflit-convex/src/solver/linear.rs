//! Small dense and matrix-free linear solvers for Newton steps. Their accuracy is never relied upon: certificates check the end.

/// Cholesky factorisation of a symmetric positive definite matrix given by its lower triangle, row-major.
#[derive(Debug, Clone)]
pub struct Cholesky {
    size: usize,
    factor: Vec<f64>,
}

impl Cholesky {
    /// `None` when a pivot is not positive: the matrix is not positive definite to working precision.
    pub fn factor(mut matrix: Vec<f64>, size: usize) -> Option<Self> {
        for i in 0..size {
            let (above, row) = matrix.split_at_mut(i * size);
            for j in 0..i {
                let other = &above[j * size..j * size + j + 1];
                row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
            }
            let pivot = row[i] - dot(&row[..i], &row[..i]);
            if !(pivot > 0.0 && pivot.is_finite()) {
                return None;
            }
            row[i] = pivot.sqrt();
        }
        Some(Cholesky { size, factor: matrix })
    }

    /// Row `i` of the lower triangular factor: `i + 1` entries.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.factor[i * self.size..][..i + 1]
    }

    /// log det A.
    pub fn log_determinant(&self) -> f64 {
        (0..self.size).map(|i| 2.0 * self.factor[i * self.size + i].ln()).sum()
    }

    /// The solution of L x = b, L the lower triangular factor.
    pub fn solve_lower(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for i in 0..self.size {
            let row = self.row(i);
            x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
        }
        x
    }

    /// The solution of L^T x = b.
    pub fn solve_upper(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for i in (0..self.size).rev() {
            let row = self.row(i);
            x[i] /= row[i];
            let known = x[i];
            for (x, &l) in x[..i].iter_mut().zip(row) {
                *x -= l * known;
            }
        }
        x
    }

    /// The solution of A x = b.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        self.solve_upper(&self.solve_lower(b))
    }
}

/// Conjugate gradients for A x = b with a diagonal preconditioner, until the residual fell by `reduction` or `steps` are spent.
pub fn conjugate_gradients(
    apply: impl Fn(&[f64]) -> Vec<f64>,
    diagonal: &[f64],
    b: &[f64],
    reduction: f64,
    steps: usize,
) -> Vec<f64> {
    let mut x = vec![0.0; b.len()];
    let mut residual = b.to_vec();
    let precondition = |r: &[f64]| -> Vec<f64> { r.iter().zip(diagonal).map(|(r, d)| r / d).collect() };
    let mut z = precondition(&residual);
    let mut direction = z.clone();
    let mut product = dot(&residual, &z);
    let target = reduction * reduction * product;
    for _ in 0..steps {
        if !(product > target) {
            break;
        }
        let moved = apply(&direction);
        let curvature = dot(&direction, &moved);
        if !(curvature > 0.0) {
            break;
        }
        let step = product / curvature;
        axpy(&mut x, step, &direction);
        axpy(&mut residual, -step, &moved);
        z = precondition(&residual);
        let next = dot(&residual, &z);
        let ratio = next / product;
        product = next;
        for (d, &z) in direction.iter_mut().zip(&z) {
            *d = z + ratio * *d;
        }
    }
    x
}

/// <a, b> in eight fixed running sums.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_chunks, a_rest) = a.as_chunks::<8>();
    let (b_chunks, b_rest) = b.as_chunks::<8>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// y += factor * x.
pub(super) fn axpy(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    fn norm(x: &[f64]) -> f64 {
        dot(x, x).sqrt()
    }

    fn system(size: usize) -> (Vec<f64>, Vec<f64>) {
        let mut numbers = Numbers::new(size as u64);
        let rows: Vec<Vec<f64>> =
            (0..2 * size).map(|_| (0..size).map(|_| numbers.symmetric()).collect()).collect();
        let mut matrix = vec![0.0; size * size];
        for i in 0..size {
            for j in 0..size {
                matrix[i * size + j] =
                    rows.iter().map(|row| row[i] * row[j]).sum::<f64>() + f64::from(u8::from(i == j));
            }
        }
        (matrix, (0..size).map(|_| numbers.symmetric()).collect())
    }

    #[test]
    fn both_solve_the_system() {
        for size in [1, 2, 7, 8, 9, 33] {
            let (matrix, b) = system(size);
            let apply =
                |x: &[f64]| -> Vec<f64> { matrix.chunks_exact(size).map(|row| dot(row, x)).collect() };
            let diagonal: Vec<f64> = (0..size).map(|i| matrix[i * size + i]).collect();
            let direct = Cholesky::factor(matrix.clone(), size).unwrap().solve(&b);
            let iterative = conjugate_gradients(apply, &diagonal, &b, 1e-13, 10 * size);
            for x in [direct, iterative] {
                let residual: Vec<f64> = apply(&x).iter().zip(&b).map(|(a, b)| a - b).collect();
                assert!(norm(&residual) <= 1e-11 * norm(&b), "{size} {:e}", norm(&residual));
            }
        }
    }

    #[test]
    fn an_indefinite_matrix_is_refused() {
        assert!(Cholesky::factor(vec![1.0, 0.0, 2.0, 1.0], 2).is_none());
        assert!(Cholesky::factor(vec![f64::NAN], 1).is_none());
    }
}
