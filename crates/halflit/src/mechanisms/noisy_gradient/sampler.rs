//! Who takes part in a step. The three batches of a step are drawn one after the other from a stream and have three types, so that the batch of the
//! hidden part cannot meet the known or the public part: shared randomness would destroy amplification.

use super::parts::{PublicPart, Sampling};
use halflit_convex::kernel::Batch;
use halflit_noise::{PoissonSampler, Probability, Stream};
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

/// Who takes part in the parts of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Takes {
    /// In the hidden part.
    pub hidden: Sampling,
    /// In the known part: at this rate, or all.
    pub known: Option<Probability>,
    /// Of the public rows.
    pub public: PublicPart,
}

/// Draws the batches of the steps.
pub(super) struct Sampler {
    units: u32,
    hidden: Kind,
    known: Option<PoissonSampler>,
    public_rows: u32,
    public: PublicKind,
}

/// How units are drawn for the hidden part.
enum Kind {
    FullBatch,
    Poisson(PoissonSampler),
    OnePass(Deal),
}

/// How public rows are drawn.
enum PublicKind {
    All,
    /// So many of them.
    Some(usize),
    /// As units are in Poisson batches; how many are expected to take part.
    Poisson(PoissonSampler, f64),
    /// As units are in one pass.
    OnePass(Deal),
}

/// Places dealt into batches: every place is in one of them, and no batch has two more than another.
struct Deal {
    order: Vec<u32>,
    batches: NonZeroU64,
}

impl Deal {
    fn new(places: u32, batches: NonZeroU64, stream: &mut Stream) -> Self {
        Deal { order: stream.permutation(places), batches }
    }

    /// The batch of a step, as far as its places are taken, sorted.
    fn batch(&self, step: u64, taken: u32) -> Vec<u32> {
        let places = self.order.len() as u128;
        let end =
            |step: u64| ((u128::from(step) * places) / u128::from(self.batches.get())).min(places) as usize;
        let own = &self.order[end(step)..end(step.saturating_add(1))];
        let mut batch: Vec<u32> = own.iter().copied().filter(|&place| place < taken).collect();
        batch.sort_unstable();
        batch
    }

    /// How many places a batch has on average.
    fn size(&self) -> f64 {
        self.order.len() as f64 / self.batches.get() as f64
    }
}

impl Sampler {
    /// `places` is the public number of units, not below `units`. One pass deals places: if it dealt the units that are there, their number, which
    /// zero-out hides, would decide everybody's batch.
    pub fn new(takes: Takes, units: u32, places: u32, public_rows: u32, stream: &mut Stream) -> Self {
        let hidden = match takes.hidden {
            Sampling::FullBatch => Kind::FullBatch,
            Sampling::Poisson(rate) => Kind::Poisson(PoissonSampler::new(rate)),
            Sampling::OnePass { batches } => Kind::OnePass(Deal::new(places, batches, stream)),
        };
        let known = takes.known.map(PoissonSampler::new);
        let public = match (takes.public, takes.hidden) {
            (PublicPart::Mean { batch: Some(batch), .. }, _) if batch.get() < u64::from(public_rows) => {
                PublicKind::Some(batch.get() as usize)
            }
            (PublicPart::Mean { .. }, _) | (PublicPart::AsPrivate, Sampling::FullBatch) => PublicKind::All,
            (PublicPart::AsPrivate, Sampling::Poisson(rate)) => {
                PublicKind::Poisson(PoissonSampler::new(rate), takes.hidden.share() * f64::from(public_rows))
            }
            (PublicPart::AsPrivate, Sampling::OnePass { batches }) => {
                PublicKind::OnePass(Deal::new(public_rows, batches, stream))
            }
        };
        Sampler { units, hidden, known, public_rows, public }
    }

    /// The batches of a step: independent draws, except that in one pass a unit that took part never returns.
    pub fn draw(&self, step: u64, stream: &mut Stream) -> Batches {
        let hidden = match &self.hidden {
            Kind::FullBatch => None,
            Kind::Poisson(sampler) => Some(stream.poisson_subsample(self.units, sampler)),
            Kind::OnePass(deal) => Some(deal.batch(step, self.units)),
        };
        let known = self.known.as_ref().map(|sampler| stream.poisson_subsample(self.units, sampler));
        let public = match &self.public {
            PublicKind::All => PublicBatch::all(),
            PublicKind::Some(size) => {
                let mut rows = subset(self.public_rows, *size, stream);
                rows.sort_unstable();
                PublicBatch { rows: Some(rows), divisor: None }
            }
            PublicKind::Poisson(sampler, expected) => {
                let rows = stream.poisson_subsample(self.public_rows, sampler);
                PublicBatch { rows: Some(rows), divisor: Some(expected.max(f64::MIN_POSITIVE)) }
            }
            PublicKind::OnePass(deal) => {
                let rows = deal.batch(step, self.public_rows);
                PublicBatch { rows: Some(rows), divisor: Some(deal.size().max(f64::MIN_POSITIVE)) }
            }
        };
        Batches { hidden: HiddenBatch(hidden), known: KnownBatch(known), public }
    }
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

    fn hidden_only(hidden: Sampling) -> Takes {
        Takes { hidden, ..Takes::default() }
    }

    fn as_private(hidden: Sampling) -> Takes {
        Takes { public: PublicPart::AsPrivate, ..hidden_only(hidden) }
    }

    /// Sums over a batch are divided by the mean size, so that no batch may be much larger or empty.
    #[test]
    fn one_pass_deals_evenly() {
        let mut stream = seeded(9).stream().unwrap();
        for (places, batches) in [(101, 100), (100, 7), (29_700, 5000), (3, 10)] {
            let deal = Deal::new(places, NonZeroU64::new(batches).unwrap(), &mut stream);
            let sizes: Vec<usize> = (0..batches).map(|step| deal.batch(step, places).len()).collect();
            assert_eq!(sizes.iter().sum::<usize>(), places as usize);
            assert!(sizes.iter().all(|&size| (size as f64 - deal.size()).abs() < 1.0), "{places} {batches}");
            assert!(deal.batch(batches, places).is_empty() && deal.batch(u64::MAX, places).is_empty());
        }
    }

    /// The known part may have a rate of its own, and all units take part in it otherwise.
    #[test]
    fn the_known_part_has_its_own_batch() {
        let mut stream = seeded(10).stream().unwrap();
        let half = Some(Probability::new(1, 2).unwrap());
        let takes = Takes { known: half, ..hidden_only(Sampling::Poisson(Probability::new(1, 50).unwrap())) };
        let sampler = Sampler::new(takes, 4000, 4000, 0, &mut stream);
        let known = sampler.draw(0, &mut stream).known;
        // Binomial(4000, 1/2): standard deviation 31.6.
        let count = known.units().unwrap().len() as f64;
        assert!((count - 2000.0).abs() < 6.0 * 31.6, "{count}");
    }

    #[test]
    fn one_pass_takes_every_unit_once() {
        let mut stream = seeded(4).stream().unwrap();
        let sampling = Sampling::OnePass { batches: NonZeroU64::new(7).unwrap() };
        let sampler = Sampler::new(hidden_only(sampling), 100, 100, 0, &mut stream);
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
            let sampler = Sampler::new(hidden_only(sampling), units, 101, 0, &mut stream);
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
        let takes = Takes { public, known: Some(rate), ..hidden_only(Sampling::Poisson(rate)) };
        let sampler = Sampler::new(takes, 4000, 4000, 500, &mut stream);
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
        let sampler = Sampler::new(as_private(Sampling::Poisson(rate)), 10, 10, 4000, &mut stream);
        let batches: Vec<PublicBatch> = (0..20).map(|step| sampler.draw(step, &mut stream).public).collect();
        assert!(batches.iter().all(|batch| batch.divisor(4000) == 1000.0));
        // 80,000 coins of probability 1/4: mean 20,000, standard deviation 122.
        let total: usize = batches.iter().map(|batch| batch.count(4000)).sum();
        assert!((total as f64 - 20_000.0).abs() < 6.0 * 122.5, "{total}");

        let one_pass = Sampling::OnePass { batches: NonZeroU64::new(7).unwrap() };
        let sampler = Sampler::new(as_private(one_pass), 10, 10, 100, &mut stream);
        let mut seen: Vec<u32> =
            (0..7).flat_map(|step| sampler.draw(step, &mut stream).public.rows.unwrap_or_default()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<u32>>());
        let everyone = Sampler::new(as_private(Sampling::FullBatch), 10, 10, 100, &mut stream);
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
