use super::{FINENESS_BITS, LatticeError, Norm, RANGE_BITS, add_rounded, in_range, positive};
use crate::{FractionBits, Stream, float};

/// What a sum of integer contributions is asked to look like.
#[derive(Clone, Debug, PartialEq)]
pub struct SumRequest {
    /// The norm that bounds a contribution.
    pub norm: Norm,
    /// The real bound on the norm of one unit's contribution.
    pub radius: f64,
    /// Noise scale divided by the radius: standard deviation for l2, Laplace scale for l1.
    pub noise_multiplier: f64,
    /// How many units are summed at most; 0 counts as 1.
    pub units: u64,
    /// How many times over the sum must fit: 1 for the sum alone, more if centres or several passes are added to it.
    /// 0 counts as 1.
    pub headroom: u64,
    /// The largest integer radius wanted, so that coefficients fit into their type.
    pub radius_cap: u64,
    /// The largest norm, in lattice units, by which the rounding of one contribution moves in one step: 1 for vectors
    /// rounded coordinate by coordinate, the largest integer row norm if a coefficient multiplies an integer row.
    pub contribution_step: u64,
}

impl SumRequest {
    /// Contributions of l2 norm at most `radius`, normal noise of standard deviation `noise_multiplier * radius`.
    pub fn l2(radius: f64, noise_multiplier: f64, units: u64) -> Self {
        SumRequest {
            norm: Norm::L2,
            radius,
            noise_multiplier,
            units,
            headroom: 1,
            radius_cap: u64::MAX,
            contribution_step: 1,
        }
    }

    /// Contributions of l1 norm at most `radius`, Laplace noise of scale `noise_multiplier * radius`.
    pub fn l1(radius: f64, noise_multiplier: f64, units: u64) -> Self {
        SumRequest { norm: Norm::L1, ..SumRequest::l2(radius, noise_multiplier, units) }
    }
}

/// A checked lattice for sums of integer contributions: each has norm at most [`SumLattice::radius`], the noise has
/// scale exactly 2^bits, and no sum can overflow.
#[derive(Clone, Debug, PartialEq)]
pub struct SumLattice {
    norm: Norm,
    bits: FractionBits,
    radius: u64,
    unit: f64,
    noise_multiplier: f64,
}

impl SumLattice {
    /// The finest lattice, at most 44 fraction bits, on which the sum stays below 2^62 and the radius below its cap.
    ///
    /// Refuses when that lattice is too coarse: the rounding of all units together (standard deviation at most
    /// step * sqrt(units / 12) in lattice units if the errors are spread evenly) and of a single one must each be 2^10
    /// below the noise. That is a matter of accuracy; privacy rests on the integer radius alone.
    pub fn plan(request: &SumRequest) -> Result<Self, LatticeError> {
        let SumRequest { norm, radius_cap, .. } = *request;
        let real_radius = positive("the radius", request.radius)?;
        let multiplier = positive("the noise multiplier", request.noise_multiplier)?;
        let (units, headroom) = (request.units.max(1), request.headroom.max(1));

        let fits = |radius: u64| {
            let bound = u128::from(units).checked_mul(headroom.into());
            let bound = bound.and_then(|bound| bound.checked_mul(radius.into()));
            bound.is_some_and(|bound| bound < 1 << RANGE_BITS) && radius <= radius_cap
        };
        let mut lattices = FractionBits::finest_first().map(|bits| (bits, integer_radius(multiplier, bits)));
        let Some((bits, radius)) = lattices.find(|&(_, radius)| fits(radius)) else {
            let radius = integer_radius(multiplier, FractionBits::LEAST);
            return Err(LatticeError::SumTooLarge { units, headroom, radius, radius_cap });
        };
        if radius == 0 {
            return Err(LatticeError::NoSignal { noise_multiplier: multiplier });
        }
        let needed = needed_bits(request.contribution_step.max(1), units);
        if bits.get() < needed {
            return Err(LatticeError::TooCoarse { bits: bits.get(), units, needed });
        }
        // Two roundings to nearest, harmless: the unit only gives the integers their meaning.
        let unit = in_range("the lattice unit", real_radius * multiplier / bits.scale())?;
        let noise_multiplier = ratio_rounded_down(bits, radius).max(multiplier);
        Ok(SumLattice { norm, bits, radius, unit, noise_multiplier })
    }

    /// The norm that bounds a contribution.
    pub fn norm(&self) -> Norm {
        self.norm
    }

    /// k: the noise has scale 2^k lattice units.
    pub fn bits(&self) -> FractionBits {
        self.bits
    }

    /// B: the largest norm of a contribution in lattice units. Whoever adds contributions must enforce it.
    pub fn radius(&self) -> u64 {
        self.radius
    }

    /// g: what one lattice unit is worth.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// What one step of a coefficient is worth when it multiplies integer features of the given unit.
    pub fn coefficient_unit(&self, feature_unit: f64) -> f64 {
        self.unit / feature_unit
    }

    /// The scale of the noise in real units: standard deviation for l2, Laplace scale for l1.
    pub fn noise_scale(&self) -> f64 {
        self.unit * self.bits.scale()
    }

    /// 2^k / B rounded down: what the accountant prices. At least the multiplier asked for.
    pub fn noise_multiplier(&self) -> f64 {
        self.noise_multiplier
    }

    /// Adds exact rounded noise of scale 2^k to every coordinate of a sum. Saturates at the ends of the 64-bit range,
    /// which takes noise of at least 2^18 times its scale.
    pub fn add_noise(&self, stream: &mut Stream, sums: &mut [i64]) {
        add_rounded(self.norm.law(), self.bits, stream, sums);
    }

    /// The real value of an integer: to be applied after the noise.
    pub fn to_real(&self, value: i64) -> f64 {
        value as f64 * self.unit
    }
}

/// floor(2^bits / multiplier), exactly, or the largest u64 if that is smaller.
fn integer_radius(multiplier: f64, bits: FractionBits) -> u64 {
    let (mantissa, exponent) = float::decompose(multiplier);
    // 2^bits / (mantissa 2^exponent)
    let shift = i64::from(bits.get()) - i64::from(exponent);
    match u32::try_from(shift) {
        Err(_) => 0,
        Ok(shift) if shift > 127 => u64::MAX,
        Ok(shift) => u64::try_from((1u128 << shift) / u128::from(mantissa)).unwrap_or(u64::MAX),
    }
}

/// A double that is at most 2^bits / radius.
fn ratio_rounded_down(bits: FractionBits, radius: u64) -> f64 {
    // The conversion may round down by half a step: one step up makes the divisor an upper bound.
    (bits.scale() / (radius as f64).next_up()).next_down()
}

/// The fewest bits k with step <= 2^(k-10) and step^2 units / 12 < 4^(k-10).
fn needed_bits(step: u64, units: u64) -> u32 {
    let fine_enough = |&bits: &u32| {
        let finest = 1u128 << (bits - FINENESS_BITS);
        let together = u128::from(step).pow(2).checked_mul(units.into());
        u128::from(step) <= finest && together.is_some_and(|square| square / 12 < finest * finest)
    };
    (FractionBits::LEAST.get()..60).find(fine_enough).unwrap_or(60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoiseSource;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    /// Whether multiplier <= 2^bits / radius, in integers.
    fn is_at_most_ratio(multiplier: f64, bits: u32, radius: u64) -> bool {
        let (mantissa, exponent) = float::decompose(multiplier);
        let left = BigUint::from(mantissa) * radius;
        let right = BigUint::from(1u8) << bits;
        match u32::try_from(exponent) {
            Ok(up) => left << up <= right,
            Err(_) => left <= right << exponent.unsigned_abs(),
        }
    }

    proptest! {
        #[test]
        fn planned_lattices_keep_every_promise(
            multiplier in prop_oneof![1e-6f64..1e6, 0.3f64..50.0],
            units in 1u64..1 << 34,
            headroom in 1u64..16,
            radius_cap in prop_oneof![Just(u64::MAX), 1u64..1 << 45],
            step in prop_oneof![Just(1u64), 1u64..1 << 20],
        ) {
            let request = SumRequest { headroom, radius_cap, contribution_step: step, ..SumRequest::l2(1.5, multiplier, units) };
            match SumLattice::plan(&request) {
                Ok(lattice) => {
                    let (bits, radius) = (lattice.bits().get(), lattice.radius());
                    prop_assert!(radius >= 1 && radius <= radius_cap);
                    prop_assert!(u128::from(units) * u128::from(headroom) * u128::from(radius) < 1 << 62);
                    // Priced at no more than what is done, and at no less than what was asked for.
                    prop_assert!(is_at_most_ratio(lattice.noise_multiplier(), bits, radius));
                    prop_assert!(lattice.noise_multiplier() >= multiplier);
                    // B is the largest integer that allows it.
                    prop_assert!(is_at_most_ratio(multiplier, bits, radius));
                    prop_assert!(!is_at_most_ratio(multiplier, bits, radius + 1));
                    // Quantization 2^10 below the noise, one by one and together.
                    let noise = 2f64.powi(bits as i32);
                    prop_assert!(step as f64 * 1024.0 <= noise);
                    prop_assert!(step as f64 * (units as f64 / 12.0).sqrt() * 1024.0 <= noise * (1.0 + 1e-9));
                    // Finest: one more bit would break a bound.
                    if let Ok(finer) = FractionBits::new(bits + 1) {
                        let finer = integer_radius(multiplier, finer);
                        let sum = u128::from(units) * u128::from(headroom) * u128::from(finer);
                        prop_assert!(finer > radius_cap || sum >= 1 << 62);
                    }
                    let noise_scale = lattice.noise_scale() / (multiplier * 1.5);
                    prop_assert!((noise_scale - 1.0).abs() < 1e-15 * 4.0);
                }
                Err(LatticeError::TooCoarse { bits, needed, .. }) => prop_assert!(bits < needed),
                Err(LatticeError::SumTooLarge { radius, .. }) => {
                    let sum = u128::from(units) * u128::from(headroom) * u128::from(radius);
                    prop_assert!(radius > radius_cap || sum >= 1 << 62);
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    #[test]
    fn a_common_request_gets_the_finest_lattice() {
        let lattice = SumLattice::plan(&SumRequest::l2(1.0, 1.0, 1_000_000)).unwrap();
        // 10^6 2^42 < 2^62 < 10^6 2^43
        assert_eq!((lattice.bits().get(), lattice.radius()), (42, 1 << 42));
        assert_eq!(lattice.noise_multiplier(), 1.0);
        assert_eq!(lattice.unit(), 2f64.powi(-42));
        assert_eq!(lattice.coefficient_unit(2f64.powi(-14)), 2f64.powi(-28));
        assert_eq!(lattice.to_real(3 << 42), 3.0);
    }

    #[test]
    fn what_cannot_be_planned_is_refused_with_a_reason() {
        let refused = |request: SumRequest| SumLattice::plan(&request).unwrap_err();
        for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            assert!(matches!(refused(SumRequest::l2(bad, 1.0, 1)), LatticeError::NotPositive { .. }));
            assert!(matches!(refused(SumRequest::l1(1.0, bad, 1)), LatticeError::NotPositive { .. }));
        }
        assert!(matches!(refused(SumRequest::l2(1.0, 1e-6, u64::MAX)), LatticeError::SumTooLarge { .. }));
        assert!(matches!(refused(SumRequest::l2(1.0, 1e300, 1)), LatticeError::NoSignal { .. }));
        assert!(matches!(refused(SumRequest::l2(1e-320, 1.0, 1)), LatticeError::OutOfRange { .. }));
        assert!(matches!(refused(SumRequest::l2(1e300, 1e10, 1)), LatticeError::OutOfRange { .. }));
        let coarse = SumRequest { contribution_step: 1 << 40, ..SumRequest::l2(1.0, 1.0, 1) };
        assert!(matches!(refused(coarse), LatticeError::TooCoarse { bits: 44, needed: 50, .. }));
        let capped = SumRequest { radius_cap: 1000, ..SumRequest::l2(1.0, 1.0, 1) };
        assert!(matches!(refused(capped), LatticeError::SumTooLarge { radius: 65_536, .. }));
    }

    #[test]
    fn noise_is_added_and_saturates() {
        let lattice = SumLattice::plan(&SumRequest::l2(1.0, 1.0, 10)).unwrap();
        let mut stream = NoiseSource::seeded_for_tests([5; 32]).stream().unwrap();
        let mut again = NoiseSource::seeded_for_tests([5; 32]).stream().unwrap();
        let mut sums = [0, 1000, i64::MAX, i64::MIN];
        lattice.add_noise(&mut stream, &mut sums);
        let mut noise = [0; 4];
        again.fill_rounded(crate::Law::Normal, lattice.bits(), &mut noise);
        let expected =
            [noise[0], 1000 + noise[1], i64::MAX.saturating_add(noise[2]), i64::MIN.saturating_add(noise[3])];
        assert_eq!(sums, expected);
    }
}
