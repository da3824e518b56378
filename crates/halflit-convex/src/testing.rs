//! Deterministic numbers for tests.

/// A small counter-based generator (the finalizer of SplitMix64): tests only, never privacy.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Numbers(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [-1, 1).
    pub(crate) fn symmetric(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// A lattice feature; one in eight is zero, one in sixteen extreme.
    pub(crate) fn feature(&mut self) -> i16 {
        match self.next() % 16 {
            0 | 1 => 0,
            2 => 32767 * (1 - 2 * (self.next() % 2) as i16),
            _ => ((self.next() % 65535) as i32 - 32767) as i16,
        }
    }
}
