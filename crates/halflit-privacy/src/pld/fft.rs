//! A real fast Fourier transform with a proved entrywise round-off bound.
//!
//! Written here instead of taken from a library for two reasons: the bound below needs to know every operation, and a
//! transform that picks its kernel by processor would make a certificate irreproducible in its last digits.
//!
//! # Round-off
//!
//! Every output is reached from every input by exactly one path of additions and multiplications by constants of modulus
//! one. One complex addition errs by at most u |a + b|, one product with a rounded root of unity by at most
//! (sqrt(5) + 1.5 sqrt(2)) u |a b|. So the error of an output is at most the sum of the relative errors along a path times
//! sum |inputs|, and the error of all outputs together, in the Euclidean norm, at most as much times the norm of the
//! exact outputs, because every pass is a multiple of an orthogonal map; see `proof.md`, section 4.3.

use libm::{cos, sin};
use std::cell::RefCell;
use std::f64::consts::PI;

/// Half the spacing of doubles at one: the relative error of one rounded operation.
pub const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;

/// One complex product with a rounded root of unity, in units of u: sqrt(5) for the product (Brent, Percival, Zimmermann
/// 2007) and 1.5 sqrt(2) for the root, whose parts are each within 1.5 u.
const PRODUCT_ERROR: f64 = 4.4;
/// What packing two real halves into one complex transform, or undoing it, adds, in units of u.
const PACKING_ERROR: f64 = 10.0;

/// A plan for transforms of one power-of-two length.
pub struct RealFft {
    /// Number of real points.
    len: usize,
    /// exp(-2 pi i j / len) for j < len/2: the complex transform of half the length uses every second one.
    roots: Vec<Complex>,
    /// Working memory of one transform, kept between calls.
    memory: RefCell<[Vec<Complex>; 2]>,
}

/// A complex number; nothing but what the transform needs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Complex {
    /// The product, four multiplications.
    #[inline]
    pub fn times(self, other: Complex) -> Complex {
        Complex { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }

    #[inline]
    fn plus(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }

    /// The quotient.
    #[inline]
    pub fn over(self, other: Complex) -> Complex {
        let square = other.norm_squared();
        let product = self.times(other.conjugate());
        Complex { re: product.re / square, im: product.im / square }
    }

    #[inline]
    fn minus(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }

    /// Multiplied by -i, exactly.
    #[inline]
    fn turned(self) -> Complex {
        Complex { re: self.im, im: -self.re }
    }

    /// The complex conjugate, exactly.
    #[inline]
    pub fn conjugate(self) -> Complex {
        Complex { re: self.re, im: -self.im }
    }

    /// The power by repeated squaring; `count` is at least one.
    pub fn power(self, mut count: u64) -> Complex {
        let mut square = self;
        let mut power = Complex { re: 1.0, im: 0.0 };
        while count > 1 {
            if count % 2 == 1 {
                power = power.times(square);
            }
            square = square.times(square);
            count /= 2;
        }
        power.times(square)
    }

    /// |z|^2.
    #[inline]
    pub fn norm_squared(self) -> f64 {
        self.re * self.re + self.im * self.im
    }
}

impl RealFft {
    /// Plans for `len` real points; `len` is a power of two, at least four.
    pub fn new(len: usize) -> Self {
        assert!(len.is_power_of_two() && len >= 4, "a power of two, at least four");
        let roots = (0..len / 2).map(|j| root_of_unity(j, len)).collect();
        RealFft { len, roots, memory: RefCell::new([vec![], vec![]]) }
    }

    /// Number of real points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of complex bins of a spectrum: frequencies 0..=len/2.
    pub fn bins(&self) -> usize {
        self.len / 2 + 1
    }

    /// Relative round-off along one path through the complex transform of half the length.
    fn path_error(&self) -> f64 {
        let levels = self.len.trailing_zeros() - 1;
        // A radix-four pass: two additions and a product; a radix-two pass: one of each.
        let (fours, twos) = (f64::from(levels / 2), f64::from(levels % 2));
        (fours * (2.0 + PRODUCT_ERROR) + twos * (1.0 + PRODUCT_ERROR)) * UNIT_ROUNDOFF
    }

    /// Bound on |computed - exact| of any output of [`forward`](Self::forward), per unit of the sum of |inputs|,
    /// and of any output of [`inverse`](Self::inverse), per unit of (1/len) sum over all len frequencies of |bin|.
    pub fn error_factor(&self) -> f64 {
        // Packing mixes two bins with weights |1 - iw|/2 + |1 + iw|/2 <= sqrt(2), and adds its own roundings.
        (std::f64::consts::SQRT_2 * self.path_error() + PACKING_ERROR * UNIT_ROUNDOFF) * (1.0 + 1e-10)
    }

    /// Bound on the Euclidean norm of the error of all outputs of [`inverse`](Self::inverse), per unit of the norm of
    /// the exact outputs.
    pub fn norm_error_factor(&self) -> f64 {
        (self.path_error() + PACKING_ERROR * UNIT_ROUNDOFF) * (1.0 + 1e-10)
    }

    /// X_k = sum_j x_j exp(-2 pi i jk/len) for k = 0..=len/2.
    pub fn forward(&self, input: &[f64]) -> Vec<Complex> {
        assert_eq!(input.len(), self.len);
        let half = self.len / 2;
        let [z, scratch] = &mut *self.memory.borrow_mut();
        z.clear();
        z.extend(input.chunks_exact(2).map(|pair| Complex { re: pair[0], im: pair[1] }));
        self.half_transform(z, scratch);
        // z_k = E_k + i O_k with E, O the transforms of the even and odd points; X_k = E_k + w^k O_k.
        let mut spectrum = Vec::with_capacity(half + 1);
        spectrum.push(Complex { re: z[0].re + z[0].im, im: 0.0 });
        for k in 1..half {
            let mirror = z[half - k].conjugate();
            let even = z[k].plus(mirror);
            let odd = z[k].minus(mirror).turned();
            let rotated = self.roots[k].times(odd);
            spectrum.push(Complex { re: 0.5 * (even.re + rotated.re), im: 0.5 * (even.im + rotated.im) });
        }
        spectrum.push(Complex { re: z[0].re - z[0].im, im: 0.0 });
        spectrum
    }

    /// x_j = (1/len) sum_k X_k exp(+2 pi i jk/len), the real inverse of [`forward`](Self::forward).
    pub fn inverse(&self, spectrum: &[Complex]) -> Vec<f64> {
        assert_eq!(spectrum.len(), self.bins());
        let half = self.len / 2;
        // The inverse is the conjugate of the forward transform of the conjugate; the packing is undone first:
        // E_k = (X_k + conj X_{half-k})/2, O_k = conj(w^k) (X_k - conj X_{half-k})/2.
        let [z, scratch] = &mut *self.memory.borrow_mut();
        z.clear();
        z.extend((0..half).map(|k| {
            let mirror = spectrum[half - k].conjugate();
            let even = spectrum[k].plus(mirror);
            let odd = self.roots[k].conjugate().times(spectrum[k].minus(mirror));
            // conj(E + i O)
            Complex { re: even.re - odd.im, im: -(even.im + odd.re) }
        }));
        self.half_transform(z, scratch);
        let scale = 1.0 / self.len as f64;
        z.iter().flat_map(|value| [value.re * scale, -value.im * scale]).collect()
    }

    /// The complex transform of length len/2, self-sorting (Stockham), radix four with one radix-two pass if needed.
    fn half_transform(&self, data: &mut [Complex], scratch: &mut Vec<Complex>) {
        let total = data.len();
        scratch.resize(total, Complex::default());
        let (mut source, mut target) = (data, &mut scratch[..]);
        let mut length = total;
        let mut stride = 1;
        let mut swaps = 0;
        while length > 1 {
            if length.is_multiple_of(4) {
                self.radix_four(source, target, length, stride);
                (length, stride) = (length / 4, stride * 4);
            } else {
                self.radix_two(source, target, length, stride);
                (length, stride) = (length / 2, stride * 2);
            }
            std::mem::swap(&mut source, &mut target);
            swaps += 1;
        }
        if swaps % 2 == 1 {
            target.copy_from_slice(source);
        }
    }

    /// One pass over sub-transforms of `length`, interleaved `stride` apart.
    fn radix_four(&self, source: &[Complex], target: &mut [Complex], length: usize, stride: usize) {
        let quarter = length / 4;
        let block = quarter * stride;
        let (first, rest) = source.split_at(block);
        let (second, rest) = rest.split_at(block);
        let (third, fourth) = rest.split_at(block);
        // roots[] has 2 * (total length) entries per turn and total = length * stride.
        let step = 2 * stride;
        for (p, out) in target.chunks_exact_mut(4 * stride).enumerate() {
            let w1 = self.roots[p * step];
            let w2 = self.root(2 * p * step);
            let w3 = self.root(3 * p * step);
            let at = p * stride;
            let inputs = first[at..at + stride]
                .iter()
                .zip(&second[at..at + stride])
                .zip(&third[at..at + stride])
                .zip(&fourth[at..at + stride]);
            let (out0, out) = out.split_at_mut(stride);
            let (out1, out) = out.split_at_mut(stride);
            let (out2, out3) = out.split_at_mut(stride);
            let outputs = out0.iter_mut().zip(out1).zip(out2).zip(out3);
            for ((((&a, &b), &c), &d), (((y0, y1), y2), y3)) in inputs.zip(outputs) {
                let (a_plus_c, a_minus_c) = (a.plus(c), a.minus(c));
                let (b_plus_d, b_minus_d) = (b.plus(d), b.minus(d).turned());
                *y0 = a_plus_c.plus(b_plus_d);
                *y1 = w1.times(a_minus_c.plus(b_minus_d));
                *y2 = w2.times(a_plus_c.minus(b_plus_d));
                *y3 = w3.times(a_minus_c.minus(b_minus_d));
            }
        }
    }

    fn radix_two(&self, source: &[Complex], target: &mut [Complex], length: usize, stride: usize) {
        let block = length / 2 * stride;
        let (first, second) = source.split_at(block);
        let step = 2 * stride;
        for (p, out) in target.chunks_exact_mut(2 * stride).enumerate() {
            let w = self.roots[p * step];
            let (out0, out1) = out.split_at_mut(stride);
            for q in 0..stride {
                let (a, b) = (first[p * stride + q], second[p * stride + q]);
                out0[q] = a.plus(b);
                out1[q] = w.times(a.minus(b));
            }
        }
    }

    /// exp(-2 pi i j / len) for any j; the second half of the circle is the first with its sign changed.
    pub fn root(&self, j: usize) -> Complex {
        let half = self.len / 2;
        let root = self.roots[j % half];
        if (j / half).is_multiple_of(2) { root } else { Complex { re: -root.re, im: -root.im } }
    }
}

/// exp(-2 pi i j / n) with each part within 1.5 u: the angle is reduced exactly to the first octant and kept to twice the
/// usual precision; sine and cosine err by less than one ulp and the correction by half of one, at values of at most one.
fn root_of_unity(j: usize, n: usize) -> Complex {
    // n is a power of two >= 4, so quarters of it are exact.
    let (c, s) = if 8 * j <= n {
        cos_sin(j, n)
    } else if 4 * j <= n {
        let (c, s) = cos_sin(n / 4 - j, n);
        (s, c)
    } else if 8 * j <= 3 * n {
        let (c, s) = cos_sin(j - n / 4, n);
        (-s, c)
    } else {
        let (c, s) = cos_sin(n / 2 - j, n);
        (-c, s)
    };
    Complex { re: c, im: -s }
}

/// Cosine and sine of 2 pi j / n, at most pi/4.
fn cos_sin(j: usize, n: usize) -> (f64, f64) {
    /// 2 pi = 2 PI + TWO_PI_REST.
    const TWO_PI_REST: f64 = 2.449_293_598_294_706_4e-16;
    let turn = j as f64 / n as f64;
    let angle = 2.0 * PI * turn;
    let rest = (2.0 * PI).mul_add(turn, -angle) + TWO_PI_REST * turn;
    let (c, s) = (cos(angle), sin(angle));
    (c - rest * s, s + rest * c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The transform by its definition, with compensated products and sums (error far below the bound).
    fn slow_forward(input: &[f64]) -> Vec<(f64, f64)> {
        let n = input.len();
        (0..=n / 2)
            .map(|k| {
                let (mut re, mut im) = (Sum::default(), Sum::default());
                for (j, &x) in input.iter().enumerate() {
                    let root = root_of_unity_any(j * k % n, n);
                    re.add_product(x, root.re);
                    im.add_product(x, root.im);
                }
                (re.total(), im.total())
            })
            .collect()
    }

    fn root_of_unity_any(j: usize, n: usize) -> Complex {
        if 2 * j < n {
            root_of_unity(j, n)
        } else {
            let root = root_of_unity(j - n / 2, n);
            Complex { re: -root.re, im: -root.im }
        }
    }

    #[derive(Default)]
    struct Sum {
        high: f64,
        low: f64,
    }

    impl Sum {
        fn add_product(&mut self, a: f64, b: f64) {
            let product = a * b;
            let error = a.mul_add(b, -product);
            let total = self.high + product;
            let back = total - self.high;
            self.low += (self.high - (total - back)) + (product - back) + error;
            self.high = total;
        }

        fn total(&self) -> f64 {
            self.high + self.low
        }
    }

    /// A deterministic, irregular input.
    fn wiggle(n: usize) -> Vec<f64> {
        (0..n).map(|j| ((j * j + 3 * j) as f64 * 0.618_033_988_7).fract() - 0.3).collect()
    }

    #[test]
    fn forward_stays_within_its_proved_error() {
        for n in [4, 8, 16, 32, 64, 512, 1024, 2048] {
            let fft = RealFft::new(n);
            let input = wiggle(n);
            let allowed = fft.error_factor() * input.iter().map(|x| x.abs()).sum::<f64>();
            let mut worst = 0.0f64;
            for (bin, (re, im)) in fft.forward(&input).iter().zip(slow_forward(&input)) {
                worst = worst.max((bin.re - re).hypot(bin.im - im));
            }
            assert!(worst <= allowed, "{n}: {worst:e} > {allowed:e}");
        }
    }

    #[test]
    fn inverse_undoes_forward_within_the_sum_of_both_errors() {
        for n in [4, 8, 128, 256, 4096, 1 << 15] {
            let fft = RealFft::new(n);
            let input = wiggle(n);
            let spectrum = fft.forward(&input);
            let output = fft.inverse(&spectrum);
            let modulus = |bin: &Complex| bin.re.hypot(bin.im);
            let spectrum_sum = 2.0 * spectrum.iter().map(modulus).sum::<f64>();
            let allowed =
                fft.error_factor() * (input.iter().map(|x| x.abs()).sum::<f64>() + spectrum_sum / n as f64);
            let worst = input.iter().zip(&output).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= allowed, "{n}: {worst:e} > {allowed:e}");
        }
    }

    #[test]
    fn a_unit_impulse_has_a_flat_spectrum() {
        let fft = RealFft::new(64);
        let mut impulse = vec![0.0; 64];
        impulse[5] = 1.0;
        for (k, bin) in fft.forward(&impulse).iter().enumerate() {
            let expected = root_of_unity_any(5 * k % 64, 64);
            assert!((bin.re - expected.re).hypot(bin.im - expected.im) <= fft.error_factor());
        }
    }

    #[test]
    fn roots_of_unity_are_rounded_well() {
        // Golden: cos and sin of 2 pi 3/16 and 2 pi 1/4096 to 17 digits; one u is 1.1e-16.
        let root = root_of_unity(3, 16);
        assert!(
            (root.re - 0.382_683_432_365_089_8).abs() < 1.2e-16
                && (root.im + 0.923_879_532_511_286_7).abs() < 1.2e-16
        );
        let root = root_of_unity(1, 4096);
        assert!((root.re - 0.999_998_823_451_701_9).abs() < 1.2e-16);
        assert!((root.im + 0.001_533_980_186_284_765_6).abs() < 4e-19);
        assert_eq!(root_of_unity(4, 16), Complex { re: 0.0, im: -1.0 });
        assert_eq!(root_of_unity(0, 16), Complex { re: 1.0, im: -0.0 });
    }
}
