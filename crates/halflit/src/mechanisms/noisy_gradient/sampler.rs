//! Who takes part in a step. The three batches of a step are drawn one after the other from a stream and have three types, so that the batch of the
//! hidden part cannot meet the known or the public part: shared randomness would destroy amplification.

use super::parts::{PublicPart, Sampling};
use halflit_convex::kernel::Batch;
use halflit_noise::{PoissonSampler, Stream};
use std::num::NonZeroU64;

/// Units of the hidden part. Never shown to anything but the clamped sums.
pub(super) struct HiddenBatch(Option<Vec<u32>>);

/// Units whose centres stand for all centres.
pub(super) struct KnownBatch(Option<Vec<u32>>);

/// Public rows.
pub(super) struct PublicBatch {
    rows: Option<Vec<u32>>,
    /// What sums over them are divided by; the number of rows if not said.
    divisor: Option<f64>,
}

impl HiddenBatch {
    /// For the clamped sums.
    pub fn as_batch(&self) -> Batch<'_> {
        self.0.as_deref().map_or(Batch::All, Batch::Only)
    }

    /// Every unit.
    #[cfg(test)]
    pub fn all() -> Self {
        HiddenBatch(None)
    }

    /// These units.
    #[cfg(test)]
    pub fn only(units: Vec<u32>) -> Self {
        HiddenBatch(Some(units))
    }
}

impl KnownBatch {
    /// The units, or none for all of them.
    pub fn units(&self) -> Option<&[u32]> {
        self.0.as_deref()
    }

    /// Every unit.
    #[cfg(test)]
    pub fn all() -> Self {
        KnownBatch(None)
    }
}

impl PublicBatch {
    /// For sums over the public rows.
    pub fn as_batch(&self) -> Batch<'_> {
        self.rows.as_deref().map_or(Batch::All, Batch::Only)
    }

    /// How many rows, out of all.
    pub fn count(&self, all: usize) -> usize {
        self.rows.as_ref().map_or(all, Vec::len)
    }

    /// What sums over them are divided by.
    pub fn divisor(&self, all: usize) -> f64 {
        self.divisor.unwrap_or(self.count(all).max(1) as f64)
    }

    /// Every public row.
    pub fn all() -> Self {
        PublicBatch { rows: None, divisor: None }
    }
}

/// The batches of one step, drawn independently.
pub(super) struct Batches {
    pub hidden: HiddenBatch,
    pub known: KnownBatch,
    pub public: PublicBatch,
}

/// Draws the batches of a run.
pub(super) struct Sampler {
    units: u32,
    kind: Kind,
    public_rows: u32,
    public: PublicKind,
}

/// How public rows are drawn.
enum PublicKind {
    All,
    /// So many of them.
    Some(usize),
    /// As private units are.
    AsPrivate {
        /// The order of one pass, and how many of them take part in a step.
        order: Vec<u32>,
        size: usize,
        /// How many are expected to take part.
        expected: f64,
    },
}

enum Kind {
    FullBatch,
    Poisson(PoissonSampler),
    /// A random order of as many places as there may be units, cut into equal batches. Places of absent units stay empty.
    OnePass {
        order: Vec<u32>,
        size: usize,
    },
}

impl Sampler {
    /// A sampler over this many units and public rows.
    ///
    /// `places` is the public number of units, not below `units`. One pass deals places: if it dealt the units that are there, their number, which
    /// zero-out hides, would decide everybody's batch.
    pub fn new(
        sampling: Sampling,
        units: u32,
        places: u32,
        public_rows: u32,
        public: PublicPart,
        stream: &mut Stream,
    ) -> Self {
        let batch_size =
            |rows: u32, batches: NonZeroU64| (u64::from(rows).div_ceil(batches.get()) as usize).max(1);
        let kind = match sampling {
            Sampling::FullBatch => Kind::FullBatch,
            Sampling::Poisson(rate) => Kind::Poisson(PoissonSampler::new(rate)),
            Sampling::OnePass { batches } => {
                Kind::OnePass { order: stream.permutation(places), size: batch_size(places, batches) }
            }
        };
        let public = match (public, sampling) {
            (PublicPart::Mean { batch: Some(batch), .. }, _) if batch.get() < u64::from(public_rows) => {
                PublicKind::Some(batch.get() as usize)
            }
            (PublicPart::Mean { .. }, _) | (PublicPart::AsPrivate, Sampling::FullBatch) => PublicKind::All,
            (PublicPart::AsPrivate, _) => {
                let (order, size) = match sampling {
                    Sampling::OnePass { batches } => {
                        (stream.permutation(public_rows), batch_size(public_rows, batches))
                    }
                    Sampling::FullBatch | Sampling::Poisson(_) => (Vec::new(), 0),
                };
                PublicKind::AsPrivate { order, size, expected: sampling.share() * f64::from(public_rows) }
            }
        };
        Sampler { units, kind, public_rows, public }
    }

    /// The batches of a step: independent draws, except that in one pass a unit that took part never returns.
    pub fn draw(&self, step: u64, stream: &mut Stream) -> Batches {
        let mut poisson = || match &self.kind {
            Kind::Poisson(sampler) => Some(stream.poisson_subsample(self.units, sampler)),
            Kind::FullBatch | Kind::OnePass { .. } => None,
        };
        let (hidden, known) = (poisson(), poisson());
        let hidden = match &self.kind {
            Kind::OnePass { order, size } => Some(dealt(order, *size, step, self.units)),
            Kind::FullBatch | Kind::Poisson(_) => hidden,
        };
        let public = match (&self.public, &self.kind) {
            (PublicKind::All, _) | (PublicKind::AsPrivate { .. }, Kind::FullBatch) => PublicBatch::all(),
            (PublicKind::Some(size), _) => {
                let mut rows = subset(self.public_rows, *size, stream);
                rows.sort_unstable();
                PublicBatch { rows: Some(rows), divisor: None }
            }
            (PublicKind::AsPrivate { order, size, expected }, kind) => {
                let rows = match kind {
                    Kind::Poisson(sampler) => stream.poisson_subsample(self.public_rows, sampler),
                    Kind::OnePass { .. } | Kind::FullBatch => dealt(order, *size, step, self.public_rows),
                };
                PublicBatch { rows: Some(rows), divisor: Some(expected.max(f64::MIN_POSITIVE)) }
            }
        };
        Batches { hidden: HiddenBatch(hidden), known: KnownBatch(known), public }
    }
}

/// The step's part of an order, as far as its places are taken, sorted.
fn dealt(order: &[u32], size: usize, step: u64, taken: u32) -> Vec<u32> {
    let start = (step as usize).saturating_mul(size).min(order.len());
    let places = order[start..(start + size).min(order.len())].iter().copied();
    let mut batch: Vec<u32> = places.filter(|&place| place < taken).collect();
    batch.sort_unstable();
    batch
}

/// A uniformly random subset of `0..len` (Floyd's algorithm).
fn subset(len: u32, size: usize, stream: &mut Stream) -> Vec<u32> {
    let mut taken = std::collections::HashSet::with_capacity(size);
    let first = (len as usize).saturating_sub(size) as u64;
    (first..u64::from(len))
        .map(|last| {
            let drawn =
                std::num::NonZeroU64::new(last + 1).map_or(0, |bound| stream.uniform_below(bound)) as u32;
            let value = if taken.contains(&drawn) { last as u32 } else { drawn };
            taken.insert(value);
            value
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::seeded;

    fn units(batch: &HiddenBatch) -> Vec<u32> {
        match batch.as_batch() {
            Batch::All => Vec::new(),
            Batch::Only(units) => units.to_vec(),
        }
    }

    #[test]
    fn one_pass_takes_every_unit_once() {
        let mut stream = seeded(4).stream().unwrap();
        let sampling = Sampling::OnePass { batches: NonZeroU64::new(7).unwrap() };
        let sampler = Sampler::new(sampling, 100, 100, 0, PublicPart::default(), &mut stream);
        let mut seen: Vec<u32> =
            (0..7).flat_map(|step| units(&sampler.draw(step, &mut stream).hidden)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<u32>>());
        // A step beyond the pass has nobody left.
        assert!(units(&sampler.draw(7, &mut stream).hidden).is_empty());
    }

    /// 101 units declared: whether the file has 101 of them or 100, everybody else stays in the same batch.
    #[test]
    fn an_absent_unit_leaves_the_others_where_they_are() {
        let sampling = Sampling::OnePass { batches: NonZeroU64::new(10).unwrap() };
        let batches = |units: u32| -> Vec<Vec<u32>> {
            let mut stream = seeded(8).stream().unwrap();
            let sampler = Sampler::new(sampling, units, 101, 0, PublicPart::default(), &mut stream);
            (0..10).map(|step| self::units(&sampler.draw(step, &mut stream).hidden)).collect()
        };
        let (all, one_absent) = (batches(101), batches(100));
        assert!(all.iter().map(Vec::len).sum::<usize>() == 101);
        for (all, one_absent) in all.iter().zip(&one_absent) {
            let others: Vec<u32> = all.iter().copied().filter(|&unit| unit != 100).collect();
            assert_eq!(others, *one_absent);
        }
    }

    #[test]
    fn hidden_and_known_batches_differ() {
        let mut stream = seeded(5).stream().unwrap();
        let rate = halflit_noise::Probability::new(1, 4).unwrap();
        let public = PublicPart::Mean { batch: NonZeroU64::new(50), rescaled: false };
        let sampler = Sampler::new(Sampling::Poisson(rate), 4000, 4000, 500, public, &mut stream);
        let batches = sampler.draw(0, &mut stream);
        let (hidden, known) = (units(&batches.hidden), batches.known.units().unwrap());
        let both = hidden.iter().filter(|unit| known.contains(unit)).count() as f64;
        // Independent batches share 4000/16 = 250 units, standard deviation 15.3; equal batches would share 1000.
        assert!((both - 250.0).abs() < 6.0 * 15.3, "{both}");
        assert_eq!(batches.public.count(500), 50);
    }

    /// As private: the same rate, divided by the expected number; in one pass every public row once.
    #[test]
    fn public_rows_can_be_drawn_like_private_ones() {
        let mut stream = seeded(7).stream().unwrap();
        let rate = halflit_noise::Probability::new(1, 4).unwrap();
        let sampler = Sampler::new(Sampling::Poisson(rate), 10, 10, 4000, PublicPart::AsPrivate, &mut stream);
        let batches: Vec<PublicBatch> = (0..20).map(|step| sampler.draw(step, &mut stream).public).collect();
        assert!(batches.iter().all(|batch| batch.divisor(4000) == 1000.0));
        // 80,000 coins of probability 1/4: mean 20,000, standard deviation 122.
        let total: usize = batches.iter().map(|batch| batch.count(4000)).sum();
        assert!((total as f64 - 20_000.0).abs() < 6.0 * 122.5, "{total}");

        let one_pass = Sampling::OnePass { batches: NonZeroU64::new(7).unwrap() };
        let sampler = Sampler::new(one_pass, 10, 10, 100, PublicPart::AsPrivate, &mut stream);
        let mut seen: Vec<u32> =
            (0..7).flat_map(|step| sampler.draw(step, &mut stream).public.rows.unwrap_or_default()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<u32>>());
        let everyone = Sampler::new(Sampling::FullBatch, 10, 10, 100, PublicPart::AsPrivate, &mut stream);
        assert_eq!(everyone.draw(0, &mut stream).public.divisor(100), 100.0);
    }

    #[test]
    fn subsets_have_their_size_and_no_repetition() {
        let mut stream = seeded(6).stream().unwrap();
        for size in [0, 1, 5, 20] {
            let mut drawn = subset(20, size, &mut stream);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), size);
            assert!(drawn.iter().all(|&row| row < 20));
        }
    }
}
