//! Directions. The only draw that is not an integer.

use crate::{FractionBits, Law, Stream};
use zeroize::Zeroizing;

impl Stream {
    /// A uniform direction in `dimension` dimensions, as doubles; empty in dimension zero.
    ///
    /// Idealized: exact normals on a lattice of 2^-44, then scaled to length one in floating point. The result lies on
    /// the sphere only up to rounding and takes finitely many values, so a mechanism that uses it must say
    /// "idealized-numerics: true" in its certificate.
    pub fn unit_sphere(&mut self, dimension: usize) -> Vec<f64> {
        let mut normals = Zeroizing::new(vec![0; dimension]);
        loop {
            self.fill_rounded(Law::Normal, FractionBits::MOST, &mut normals);
            let length = normals.iter().map(|&z| (z as f64).powi(2)).sum::<f64>().sqrt();
            // Zero has probability 2^-45 per coordinate: draw again.
            if length > 0.0 || dimension == 0 {
                return normals.iter().map(|&z| z as f64 / length).collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::NoiseSource;

    #[test]
    fn directions_have_length_one_and_no_preferred_axis() {
        let mut stream = NoiseSource::seeded_for_tests([41; 32]).stream().unwrap();
        assert!(stream.unit_sphere(0).is_empty());
        assert!((0..50).all(|_| stream.unit_sphere(1)[0].abs() == 1.0));
        let (n, d) = (40_000, 3);
        let mut sums = [0.0; 3];
        let mut squares = [0.0; 3];
        for _ in 0..n {
            let direction = stream.unit_sphere(d);
            let length: f64 = direction.iter().map(|x| x * x).sum();
            assert!((length - 1.0).abs() < 1e-14);
            for axis in 0..d {
                sums[axis] += direction[axis];
                squares[axis] += direction[axis] * direction[axis];
            }
        }
        // In three dimensions a coordinate is uniform on [-1, 1]: variance 1/3, variance of its square 4/45.
        // z = 5.1 has two-sided probability 3.4e-7; six comparisons, alpha below 2.1e-6 together, 3.4e-7 each.
        for axis in 0..d {
            let mean = sums[axis] / f64::from(n);
            let spread = squares[axis] / f64::from(n) - 1.0 / 3.0;
            assert!(mean.abs() < 5.1 * (1.0 / 3.0 / f64::from(n)).sqrt(), "axis {axis}: mean {mean}");
            assert!(spread.abs() < 5.1 * (4.0 / 45.0 / f64::from(n)).sqrt(), "axis {axis}: spread {spread}");
        }
    }
}
