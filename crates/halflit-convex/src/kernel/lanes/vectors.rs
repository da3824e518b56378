//! Eight 32-bit numbers at a time: in registers of the processor, or as plain arrays.
//!
//! What concerns one row stays in its lane, and every operation is an integer one or a correctly rounded one of IEEE arithmetic, so that both
//! kinds give the same bits. Loops over values written with these keep what they carry along in registers, which the
//! compiler's own vectors do only by luck.

use super::*;
use std::ops::{Add, Div, Mul, Sub};

/// Numbers in a vector.
pub(crate) const EIGHT: usize = 8;

/// A kind of vectors, and proof that the processor has it.
pub(crate) trait Vectors: Copy {
    /// Eight single-precision numbers.
    type Floats: Copy
        + Add<Output = Self::Floats>
        + Sub<Output = Self::Floats>
        + Mul<Output = Self::Floats>
        + Div<Output = Self::Floats>;
    /// Eight integers; sums and differences wrap.
    type Integers: Copy + Add<Output = Self::Integers> + Sub<Output = Self::Integers>;

    fn load(self, floats: &[f32; EIGHT]) -> Self::Floats;
    fn store(self, floats: Self::Floats, to: &mut [f32; EIGHT]);
    fn splat(self, float: f32) -> Self::Floats;
    fn load_integers(self, integers: &[i32; EIGHT]) -> Self::Integers;
    fn store_integers(self, integers: Self::Integers, to: &mut [i32; EIGHT]);
    fn splat_integer(self, integer: i32) -> Self::Integers;

    /// `if a < b { a } else { b }`: b where one of them is not a number.
    fn lesser(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `if a > b { a } else { b }`.
    fn greater(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `if the sign of a is negative { b } else { c }`.
    fn where_negative(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    fn min(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    fn max(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    fn or(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// `if a == b { c } else { 0 }`.
    fn where_equal(self, a: Self::Integers, b: Self::Integers, c: Self::Integers) -> Self::Integers;
    /// `a << 23`: to where a float has its exponent.
    fn to_exponents(self, a: Self::Integers) -> Self::Integers;
    /// The nearest floats.
    fn to_floats(self, a: Self::Integers) -> Self::Floats;
    /// The nearest integers, of two the even one, to floats below 2^31 in size.
    fn to_nearest(self, a: Self::Floats) -> Self::Integers;
    /// The bits of floats.
    fn bits(self, a: Self::Floats) -> Self::Integers;
    /// The floats that have these bits.
    fn as_floats(self, a: Self::Integers) -> Self::Floats;
}

/// Work to be compiled for a kind of vectors. Mark `run` `#[inline(always)]`.
pub(crate) trait VectorWork {
    /// Does it.
    fn run(self, vectors: impl Vectors);
}

impl Level {
    /// Does some work in this level's vectors.
    pub(crate) fn work(self, work: impl VectorWork) {
        match self.0 {
            // SAFETY: the level exists because the processor reported its features, and AVX-512 includes AVX2.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe {
                avx512::run(
                    #[inline(always)]
                    || work.run(Registers::new()),
                )
            },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe {
                avx2::run(
                    #[inline(always)]
                    || work.run(Registers::new()),
                )
            },
            Instructions::Portable => work.run(Arrays),
        }
    }
}

/// Plain arrays.
#[derive(Clone, Copy)]
pub(crate) struct Arrays;

/// Eight numbers in an array.
#[derive(Clone, Copy)]
pub(crate) struct Array<T>([T; EIGHT]);

#[inline(always)]
fn each<T: Copy, U: Copy>(a: Array<T>, b: Array<T>, operation: impl Fn(T, T) -> U) -> Array<U> {
    Array(std::array::from_fn(|lane| operation(a.0[lane], b.0[lane])))
}

macro_rules! array_operator {
    ($trait:ident, $method:ident, $number:ty, $operation:expr) => {
        impl $trait for Array<$number> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                each(self, other, $operation)
            }
        }
    };
}
array_operator!(Add, add, f32, |a, b| a + b);
array_operator!(Sub, sub, f32, |a, b| a - b);
array_operator!(Mul, mul, f32, |a, b| a * b);
array_operator!(Div, div, f32, |a, b| a / b);
array_operator!(Add, add, i32, i32::wrapping_add);
array_operator!(Sub, sub, i32, i32::wrapping_sub);

impl Vectors for Arrays {
    type Floats = Array<f32>;
    type Integers = Array<i32>;

    fn load(self, floats: &[f32; EIGHT]) -> Array<f32> {
        Array(*floats)
    }
    fn store(self, floats: Array<f32>, to: &mut [f32; EIGHT]) {
        *to = floats.0;
    }
    fn splat(self, float: f32) -> Array<f32> {
        Array([float; EIGHT])
    }
    fn load_integers(self, integers: &[i32; EIGHT]) -> Array<i32> {
        Array(*integers)
    }
    fn store_integers(self, integers: Array<i32>, to: &mut [i32; EIGHT]) {
        *to = integers.0;
    }
    fn splat_integer(self, integer: i32) -> Array<i32> {
        Array([integer; EIGHT])
    }
    fn lesser(self, a: Array<f32>, b: Array<f32>) -> Array<f32> {
        each(a, b, |a, b| if a < b { a } else { b })
    }
    fn greater(self, a: Array<f32>, b: Array<f32>) -> Array<f32> {
        each(a, b, |a, b| if a > b { a } else { b })
    }
    fn where_negative(self, a: Array<f32>, b: Array<f32>, c: Array<f32>) -> Array<f32> {
        Array(std::array::from_fn(|lane| if a.0[lane].is_sign_negative() { b.0[lane] } else { c.0[lane] }))
    }
    fn min(self, a: Array<i32>, b: Array<i32>) -> Array<i32> {
        each(a, b, i32::min)
    }
    fn max(self, a: Array<i32>, b: Array<i32>) -> Array<i32> {
        each(a, b, i32::max)
    }
    fn or(self, a: Array<i32>, b: Array<i32>) -> Array<i32> {
        each(a, b, |a, b| a | b)
    }
    fn where_equal(self, a: Array<i32>, b: Array<i32>, c: Array<i32>) -> Array<i32> {
        each(each(a, b, |a, b| -i32::from(a == b)), c, |mask, c| mask & c)
    }
    fn to_exponents(self, a: Array<i32>) -> Array<i32> {
        Array(a.0.map(|a| a << 23))
    }
    fn to_floats(self, a: Array<i32>) -> Array<f32> {
        Array(a.0.map(|a| a as f32))
    }
    fn to_nearest(self, a: Array<f32>) -> Array<i32> {
        Array(a.0.map(|a| a.round_ties_even() as i32))
    }
    fn bits(self, a: Array<f32>) -> Array<i32> {
        Array(a.0.map(|a| a.to_bits() as i32))
    }
    fn as_floats(self, a: Array<i32>) -> Array<f32> {
        Array(a.0.map(|a| f32::from_bits(a as u32)))
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use registers::Registers;

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::{Add, Div, EIGHT, Mul, Sub, Vectors};
    use std::arch::x86_64::*;

    /// 256-bit registers.
    #[derive(Clone, Copy)]
    pub(crate) struct Registers(());

    impl Registers {
        /// # Safety
        /// The processor has AVX2.
        #[inline(always)]
        pub(in super::super) unsafe fn new() -> Self {
            Registers(())
        }
    }

    /// A register of floats: exists only where a [`Registers`] does.
    #[derive(Clone, Copy)]
    pub(crate) struct Floats(__m256);

    /// A register of integers.
    #[derive(Clone, Copy)]
    pub(crate) struct Integers(__m256i);

    macro_rules! register_operator {
        ($trait:ident, $method:ident, $register:ident, $instruction:ident) => {
            impl $trait for $register {
                type Output = Self;
                #[inline(always)]
                fn $method(self, other: Self) -> Self {
                    // SAFETY: there is a register, so the processor has AVX2.
                    $register(unsafe { $instruction(self.0, other.0) })
                }
            }
        };
    }
    register_operator!(Add, add, Floats, _mm256_add_ps);
    register_operator!(Sub, sub, Floats, _mm256_sub_ps);
    register_operator!(Mul, mul, Floats, _mm256_mul_ps);
    register_operator!(Div, div, Floats, _mm256_div_ps);
    register_operator!(Add, add, Integers, _mm256_add_epi32);
    register_operator!(Sub, sub, Integers, _mm256_sub_epi32);

    // SAFETY of every call: there is a `Registers`, so the processor has AVX2; references are to eight numbers.
    impl Vectors for Registers {
        type Floats = Floats;
        type Integers = Integers;

        #[inline(always)]
        fn load(self, floats: &[f32; EIGHT]) -> Floats {
            Floats(unsafe { _mm256_loadu_ps(floats.as_ptr()) })
        }
        #[inline(always)]
        fn store(self, floats: Floats, to: &mut [f32; EIGHT]) {
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), floats.0) }
        }
        #[inline(always)]
        fn splat(self, float: f32) -> Floats {
            Floats(unsafe { _mm256_set1_ps(float) })
        }
        #[inline(always)]
        fn load_integers(self, integers: &[i32; EIGHT]) -> Integers {
            Integers(unsafe { _mm256_loadu_si256(integers.as_ptr().cast()) })
        }
        #[inline(always)]
        fn store_integers(self, integers: Integers, to: &mut [i32; EIGHT]) {
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), integers.0) }
        }
        #[inline(always)]
        fn splat_integer(self, integer: i32) -> Integers {
            Integers(unsafe { _mm256_set1_epi32(integer) })
        }
        #[inline(always)]
        fn lesser(self, a: Floats, b: Floats) -> Floats {
            Floats(unsafe { _mm256_min_ps(a.0, b.0) })
        }
        #[inline(always)]
        fn greater(self, a: Floats, b: Floats) -> Floats {
            Floats(unsafe { _mm256_max_ps(a.0, b.0) })
        }
        #[inline(always)]
        fn where_negative(self, a: Floats, b: Floats, c: Floats) -> Floats {
            Floats(unsafe { _mm256_blendv_ps(c.0, b.0, a.0) })
        }
        #[inline(always)]
        fn min(self, a: Integers, b: Integers) -> Integers {
            Integers(unsafe { _mm256_min_epi32(a.0, b.0) })
        }
        #[inline(always)]
        fn max(self, a: Integers, b: Integers) -> Integers {
            Integers(unsafe { _mm256_max_epi32(a.0, b.0) })
        }
        #[inline(always)]
        fn or(self, a: Integers, b: Integers) -> Integers {
            Integers(unsafe { _mm256_or_si256(a.0, b.0) })
        }
        #[inline(always)]
        fn where_equal(self, a: Integers, b: Integers, c: Integers) -> Integers {
            Integers(unsafe { _mm256_and_si256(_mm256_cmpeq_epi32(a.0, b.0), c.0) })
        }
        #[inline(always)]
        fn to_exponents(self, a: Integers) -> Integers {
            Integers(unsafe { _mm256_slli_epi32::<23>(a.0) })
        }
        #[inline(always)]
        fn to_floats(self, a: Integers) -> Floats {
            Floats(unsafe { _mm256_cvtepi32_ps(a.0) })
        }
        #[inline(always)]
        fn to_nearest(self, a: Floats) -> Integers {
            Integers(unsafe { _mm256_cvtps_epi32(a.0) })
        }
        #[inline(always)]
        fn bits(self, a: Floats) -> Integers {
            Integers(unsafe { _mm256_castps_si256(a.0) })
        }
        #[inline(always)]
        fn as_floats(self, a: Integers) -> Floats {
            Floats(unsafe { _mm256_castsi256_ps(a.0) })
        }
    }
}
