//! Sixteen 32-bit numbers at a time: in registers of the processor, or as plain arrays.
//!
//! What concerns one row stays in its lane, and every operation is an integer one or a correctly rounded one of IEEE arithmetic, so that both
//! kinds give the same bits. Loops over values written with these keep what they carry along in registers, which the
//! compiler's own vectors do only by luck.

use super::*;
use std::ops::{Add, Div, Mul, Sub};

/// Numbers in a vector.
pub(crate) const SIXTEEN: usize = 16;

/// A kind of vectors, and proof that the processor has it.
pub(crate) trait Vectors: Copy {
    /// Sixteen single-precision numbers.
    type Floats: Copy
        + Add<Output = Self::Floats>
        + Sub<Output = Self::Floats>
        + Mul<Output = Self::Floats>
        + Div<Output = Self::Floats>;
    /// Sixteen integers; sums and differences wrap.
    type Integers: Copy + Add<Output = Self::Integers> + Sub<Output = Self::Integers>;

    fn load(self, floats: &[f32; SIXTEEN]) -> Self::Floats;
    fn store(self, floats: Self::Floats, to: &mut [f32; SIXTEEN]);
    fn splat(self, float: f32) -> Self::Floats;
    fn load_integers(self, integers: &[i32; SIXTEEN]) -> Self::Integers;
    fn store_integers(self, integers: Self::Integers, to: &mut [i32; SIXTEEN]);
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
            // SAFETY: the level exists because the processor reported its features.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe {
                avx512::run(
                    #[inline(always)]
                    || work.run(Registers512::new()),
                )
            },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe {
                avx2::run(
                    #[inline(always)]
                    || work.run(Registers256::new()),
                )
            },
            Instructions::Portable => work.run(Arrays),
        }
    }
}

/// Plain arrays.
#[derive(Clone, Copy)]
pub(crate) struct Arrays;

/// Sixteen numbers in an array.
#[derive(Clone, Copy)]
pub(crate) struct Array<T>([T; SIXTEEN]);

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

    fn load(self, floats: &[f32; SIXTEEN]) -> Array<f32> {
        Array(*floats)
    }
    fn store(self, floats: Array<f32>, to: &mut [f32; SIXTEEN]) {
        *to = floats.0;
    }
    fn splat(self, float: f32) -> Array<f32> {
        Array([float; SIXTEEN])
    }
    fn load_integers(self, integers: &[i32; SIXTEEN]) -> Array<i32> {
        Array(*integers)
    }
    fn store_integers(self, integers: Array<i32>, to: &mut [i32; SIXTEEN]) {
        *to = integers.0;
    }
    fn splat_integer(self, integer: i32) -> Array<i32> {
        Array([integer; SIXTEEN])
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
use registers::{Registers256, Registers512};

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::{Add, Div, Mul, SIXTEEN, Sub, Vectors};
    use std::arch::x86_64::*;

    /// A kind of registers: `$count` of `$floats` or `$integers` are a vector.
    macro_rules! registers {
        (
            $(#[$about:meta])* $name:ident, $module:ident: $count:literal of $floats:ident or $integers:ident,
            load $load:ident $load_integers:ident, store $store:ident $store_integers:ident, splat $splat:ident $splat_integer:ident,
            add $add:ident $add_integers:ident, sub $sub:ident $sub_integers:ident, mul $mul:ident, div $div:ident,
            extremes $lesser:ident $greater:ident $min:ident $max:ident, or $or:ident, shift $shift:ident,
            convert $to_floats:ident $to_nearest:ident $bits:ident $as_floats:ident,
            where_negative $where_negative:expr, where_equal $where_equal:expr
        ) => {
            $(#[$about])*
            #[derive(Clone, Copy)]
            pub(crate) struct $name(());

            impl $name {
                /// # Safety
                /// The processor has these registers.
                #[inline(always)]
                pub(in super::super) unsafe fn new() -> Self {
                    $name(())
                }
            }

            mod $module {
                use super::*;

                /// Floats: they exist only where a value of the kind does.
                #[derive(Clone, Copy)]
                pub(crate) struct Floats(pub(super) [$floats; $count]);

                /// Integers.
                #[derive(Clone, Copy)]
                pub(crate) struct Integers(pub(super) [$integers; $count]);

                registers!(@operator Add add Floats $add);
                registers!(@operator Sub sub Floats $sub);
                registers!(@operator Mul mul Floats $mul);
                registers!(@operator Div div Floats $div);
                registers!(@operator Add add Integers $add_integers);
                registers!(@operator Sub sub Integers $sub_integers);
            }

            // SAFETY of every call: there is a value of the kind, so the processor has its registers; references are to sixteen numbers.
            impl Vectors for $name {
                type Floats = $module::Floats;
                type Integers = $module::Integers;

                #[inline(always)]
                fn load(self, floats: &[f32; SIXTEEN]) -> Self::Floats {
                    let parts = floats.as_chunks::<{ SIXTEEN / $count }>().0;
                    $module::Floats(std::array::from_fn(|part| unsafe { $load(parts[part].as_ptr()) }))
                }
                #[inline(always)]
                fn store(self, floats: Self::Floats, to: &mut [f32; SIXTEEN]) {
                    for (part, to) in floats.0.into_iter().zip(to.as_chunks_mut::<{ SIXTEEN / $count }>().0) {
                        unsafe { $store(to.as_mut_ptr(), part) }
                    }
                }
                #[inline(always)]
                fn splat(self, float: f32) -> Self::Floats {
                    $module::Floats([unsafe { $splat(float) }; $count])
                }
                #[inline(always)]
                fn load_integers(self, integers: &[i32; SIXTEEN]) -> Self::Integers {
                    let parts = integers.as_chunks::<{ SIXTEEN / $count }>().0;
                    $module::Integers(std::array::from_fn(|part| unsafe { $load_integers(parts[part].as_ptr().cast()) }))
                }
                #[inline(always)]
                fn store_integers(self, integers: Self::Integers, to: &mut [i32; SIXTEEN]) {
                    for (part, to) in integers.0.into_iter().zip(to.as_chunks_mut::<{ SIXTEEN / $count }>().0) {
                        unsafe { $store_integers(to.as_mut_ptr().cast(), part) }
                    }
                }
                #[inline(always)]
                fn splat_integer(self, integer: i32) -> Self::Integers {
                    $module::Integers([unsafe { $splat_integer(integer) }; $count])
                }
                #[inline(always)]
                fn lesser(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
                    $module::Floats(std::array::from_fn(|part| unsafe { $lesser(a.0[part], b.0[part]) }))
                }
                #[inline(always)]
                fn greater(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
                    $module::Floats(std::array::from_fn(|part| unsafe { $greater(a.0[part], b.0[part]) }))
                }
                #[inline(always)]
                fn where_negative(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
                    $module::Floats(std::array::from_fn(|part| unsafe { $where_negative(a.0[part], b.0[part], c.0[part]) }))
                }
                #[inline(always)]
                fn min(self, a: Self::Integers, b: Self::Integers) -> Self::Integers {
                    $module::Integers(std::array::from_fn(|part| unsafe { $min(a.0[part], b.0[part]) }))
                }
                #[inline(always)]
                fn max(self, a: Self::Integers, b: Self::Integers) -> Self::Integers {
                    $module::Integers(std::array::from_fn(|part| unsafe { $max(a.0[part], b.0[part]) }))
                }
                #[inline(always)]
                fn or(self, a: Self::Integers, b: Self::Integers) -> Self::Integers {
                    $module::Integers(std::array::from_fn(|part| unsafe { $or(a.0[part], b.0[part]) }))
                }
                #[inline(always)]
                fn where_equal(self, a: Self::Integers, b: Self::Integers, c: Self::Integers) -> Self::Integers {
                    $module::Integers(std::array::from_fn(|part| unsafe { $where_equal(a.0[part], b.0[part], c.0[part]) }))
                }
                #[inline(always)]
                fn to_exponents(self, a: Self::Integers) -> Self::Integers {
                    $module::Integers(std::array::from_fn(|part| unsafe { $shift::<23>(a.0[part]) }))
                }
                #[inline(always)]
                fn to_floats(self, a: Self::Integers) -> Self::Floats {
                    $module::Floats(std::array::from_fn(|part| unsafe { $to_floats(a.0[part]) }))
                }
                #[inline(always)]
                fn to_nearest(self, a: Self::Floats) -> Self::Integers {
                    $module::Integers(std::array::from_fn(|part| unsafe { $to_nearest(a.0[part]) }))
                }
                #[inline(always)]
                fn bits(self, a: Self::Floats) -> Self::Integers {
                    $module::Integers(std::array::from_fn(|part| unsafe { $bits(a.0[part]) }))
                }
                #[inline(always)]
                fn as_floats(self, a: Self::Integers) -> Self::Floats {
                    $module::Floats(std::array::from_fn(|part| unsafe { $as_floats(a.0[part]) }))
                }
            }
        };
        (@operator $trait:ident $method:ident $vector:ident $instruction:ident) => {
            impl $trait for $vector {
                type Output = Self;
                #[inline(always)]
                fn $method(self, other: Self) -> Self {
                    // SAFETY: there is a vector, so the processor has its registers.
                    $vector(std::array::from_fn(|part| unsafe { $instruction(self.0[part], other.0[part]) }))
                }
            }
        };
    }

    registers! {
        /// Two 256-bit registers, of AVX2.
        Registers256, of_256: 2 of __m256 or __m256i,
        load _mm256_loadu_ps _mm256_loadu_si256, store _mm256_storeu_ps _mm256_storeu_si256, splat _mm256_set1_ps _mm256_set1_epi32,
        add _mm256_add_ps _mm256_add_epi32, sub _mm256_sub_ps _mm256_sub_epi32, mul _mm256_mul_ps, div _mm256_div_ps,
        extremes _mm256_min_ps _mm256_max_ps _mm256_min_epi32 _mm256_max_epi32, or _mm256_or_si256, shift _mm256_slli_epi32,
        convert _mm256_cvtepi32_ps _mm256_cvtps_epi32 _mm256_castps_si256 _mm256_castsi256_ps,
        where_negative |a, b, c| _mm256_blendv_ps(c, b, a),
        where_equal |a, b, c| _mm256_and_si256(_mm256_cmpeq_epi32(a, b), c)
    }

    registers! {
        /// One 512-bit register, of AVX-512F and DQ.
        Registers512, of_512: 1 of __m512 or __m512i,
        load _mm512_loadu_ps _mm512_loadu_si512, store _mm512_storeu_ps _mm512_storeu_si512, splat _mm512_set1_ps _mm512_set1_epi32,
        add _mm512_add_ps _mm512_add_epi32, sub _mm512_sub_ps _mm512_sub_epi32, mul _mm512_mul_ps, div _mm512_div_ps,
        extremes _mm512_min_ps _mm512_max_ps _mm512_min_epi32 _mm512_max_epi32, or _mm512_or_si512, shift _mm512_slli_epi32,
        convert _mm512_cvtepi32_ps _mm512_cvtps_epi32 _mm512_castps_si512 _mm512_castsi512_ps,
        where_negative |a, b, c| _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(a)), c, b),
        where_equal |a, b, c| _mm512_maskz_mov_epi32(_mm512_cmpeq_epi32_mask(a, b), c)
    }
}
