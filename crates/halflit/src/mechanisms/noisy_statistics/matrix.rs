//! Small symmetric matrices, row-major: inverses and traces for risk estimates and standard errors.

use halflit_convex::solver::Cholesky;

/// The inverse of `matrix + shift * I` for a symmetric positive semidefinite matrix; `None` if it is singular to working precision.
pub(crate) fn shifted_inverse(matrix: &[f64], size: usize, shift: f64) -> Option<Vec<f64>> {
    let mut shifted = matrix.to_vec();
    for i in 0..size {
        shifted[i * size + i] += shift;
    }
    let factor = Cholesky::factor(shifted, size)?;
    let mut inverse = vec![0.0; size * size];
    let mut unit = vec![0.0; size];
    for i in 0..size {
        unit[i] = 1.0;
        inverse[i * size..(i + 1) * size].copy_from_slice(&factor.solve(&unit));
        unit[i] = 0.0;
    }
    Some(inverse)
}

/// <A, B> = tr(A B^T): for symmetric matrices the trace of the product.
pub(crate) fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// tr(A).
pub(crate) fn trace(matrix: &[f64], size: usize) -> f64 {
    (0..size).map(|i| matrix[i * size + i]).sum()
}

/// A B^T: for symmetric B the product.
pub(crate) fn product(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let mut product = Vec::with_capacity(size * size);
    for row in a.chunks_exact(size.max(1)) {
        product.extend(b.chunks_exact(size.max(1)).map(|column| inner(row, column)));
    }
    product
}

/// A x.
pub(crate) fn apply(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(x.len().max(1)).map(|row| inner(row, x)).collect()
}

/// A^T.
pub(crate) fn transposed(matrix: &[f64], size: usize) -> Vec<f64> {
    (0..size * size).map(|k| matrix[(k % size) * size + k / size]).collect()
}
