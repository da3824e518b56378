use thiserror::Error;

/// Why randomness or a sampler's parameter was refused.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum NoiseError {
    /// The operating system gave no random key, so no noise can be drawn.
    #[error("the operating system gave no randomness ({reason}); noise cannot be drawn without it")]
    NoSystemRandomness {
        /// What the operating system answered.
        reason: String,
    },
    /// The number of binary fraction digits of a rounded draw is outside the supported range.
    #[error("fraction bits are {value}, allowed are {least}..={most}")]
    FractionBits {
        /// The number asked for.
        value: u32,
        /// The smallest allowed number.
        least: u32,
        /// The largest allowed number.
        most: u32,
    },
    /// A ratio has denominator zero.
    #[error("the ratio {numerator}/0 has no value; give a positive denominator")]
    ZeroDenominator {
        /// The numerator that came with it.
        numerator: u64,
    },
    /// A text is not a ratio or a decimal that fits.
    #[error("{text:?} is not a ratio; write it like 1/100 or 0.01, numerator and denominator below 2^64")]
    NotARatio {
        /// The text as given.
        text: String,
    },
    /// A number that must be a probability is above one or not a number.
    #[error("{value} is not a probability; give a number between 0 and 1")]
    NotAProbability {
        /// The number as given.
        value: String,
    },
    /// A truncated discrete Laplace law has too wide a support for a 64-bit result.
    #[error("the centre {centre} is too large; at most {most} is allowed")]
    Centre {
        /// The centre asked for.
        centre: u64,
        /// The largest allowed centre.
        most: u64,
    },
}
