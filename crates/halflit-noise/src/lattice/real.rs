use super::{FINENESS_BITS, LatticeError, Norm, RANGE_BITS, add_rounded, in_range, positive};
use crate::{FractionBits, Stream, float};

const FINENESS: f64 = (1u64 << FINENESS_BITS) as f64;
/// Rounded values stay below half the range, so that the half unit of rounding cannot reach its end.
const VALUE_RANGE: f64 = (1u64 << (RANGE_BITS - 1)) as f64;

/// What the release of a real vector (a mean, a minimizer) is asked to look like.
#[derive(Clone, Debug, PartialEq)]
pub struct RealRequest {
    /// The norm of the sensitivity.
    pub norm: Norm,
    /// How far the vector moves between neighbouring tables, before it is rounded to the lattice.
    pub sensitivity: f64,
    /// Coordinates of the vector.
    pub dimension: usize,
    /// Noise scale divided by the sensitivity, the rounding term included in the latter.
    pub noise_multiplier: f64,
    /// A public bound on every coordinate; larger ones are cut to it.
    pub value_bound: f64,
}

/// A checked lattice for one release of a real vector.
///
/// Each coordinate is rounded to a multiple of the unit g first. That moves a vector by at most g sqrt(d) / 2 in l2
/// (g d / 2 in l1), so two neighbours part by at most g sqrt(d) (g d) more than before: the sensitivity that is priced
/// is `sensitivity + g sqrt(d)` (`+ g d`), never the bare one.
#[derive(Clone, Debug, PartialEq)]
pub struct RealLattice {
    request: RealRequest,
    bits: FractionBits,
    unit: f64,
    noise_multiplier: f64,
}

impl RealLattice {
    /// The finest lattice, at most 44 fraction bits, on which values stay below 2^61 units.
    ///
    /// Refuses when the rounding term would be more than 2^-10 of the noise or of the sensitivity that is priced.
    pub fn plan(request: &RealRequest) -> Result<Self, LatticeError> {
        let sensitivity = positive("the sensitivity", request.sensitivity)?;
        let multiplier = positive("the noise multiplier", request.noise_multiplier)?;
        let value_bound = positive("the value bound", request.value_bound)?;
        // multiplier * (sqrt(d) or d), rounded up.
        let rounding = (multiplier * rounding_term(request)).next_up();

        let unit_at = |bits: FractionBits| {
            // g 2^k >= multiplier * (sensitivity + g sqrt(d))  iff  g >= multiplier * sensitivity / (2^k - rounding).
            // Six roundings here and in `priced_multiplier` move the quotient by less than 2^-48 of it.
            multiplier * sensitivity / (bits.scale() - rounding) * (1.0 + 2f64.powi(-48))
        };
        // 2^10 below the noise and below the sensitivity that is priced.
        let fine_enough = |bits: FractionBits| {
            rounding <= bits.scale() / FINENESS && rounding_term(request) <= bits.scale() / FINENESS
        };
        let lattices: Vec<FractionBits> =
            FractionBits::finest_first().take_while(|&b| fine_enough(b)).collect();
        let Some(&coarsest) = lattices.last() else {
            return Err(LatticeError::Dimension { dimension: request.dimension });
        };
        let Some(&bits) = lattices.iter().find(|&&bits| value_bound / unit_at(bits) < VALUE_RANGE) else {
            return Err(LatticeError::ValueBound { value_bound, units: value_bound / unit_at(coarsest) });
        };
        let unit = in_range("the lattice unit", unit_at(bits))?;
        in_range("the noise scale", unit * bits.scale())?;
        let noise_multiplier = priced_multiplier(request, bits, unit);
        Ok(RealLattice { request: request.clone(), bits, unit, noise_multiplier })
    }

    /// k: the noise has scale 2^k lattice units.
    pub fn bits(&self) -> FractionBits {
        self.bits
    }

    /// g: what one lattice unit is worth.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// The scale of the noise, exactly 2^k g: standard deviation for l2, Laplace scale for l1.
    pub fn noise_scale(&self) -> f64 {
        self.unit * self.bits.scale()
    }

    /// The sensitivity with the rounding term, rounded up.
    pub fn sensitivity(&self) -> f64 {
        rounded_sensitivity(&self.request, self.unit)
    }

    /// Noise scale over sensitivity with the rounding term, rounded down: what the accountant prices. At least the
    /// multiplier asked for.
    pub fn noise_multiplier(&self) -> f64 {
        self.noise_multiplier
    }

    /// Rounds the vector to the lattice, adds exact noise, and returns the result in real units.
    ///
    /// Never fails because of the values: coordinates beyond the bound are cut to it and NaN becomes zero. Cutting moves
    /// no two vectors apart; whoever proves the sensitivity must make sure that no NaN comes in.
    pub fn release(&self, stream: &mut Stream, values: &[f64]) -> Result<Vec<f64>, LatticeError> {
        let planned = self.request.dimension;
        if values.len() != planned {
            return Err(LatticeError::WrongDimension { given: values.len(), planned });
        }
        let mut integers: Vec<i64> = values.iter().map(|&value| self.to_lattice(value)).collect();
        add_rounded(self.request.norm.law(), self.bits, stream, &mut integers);
        Ok(integers.iter().map(|&integer| integer as f64 * self.unit).collect())
    }

    /// The nearest lattice point of a value cut to the bound.
    fn to_lattice(&self, value: f64) -> i64 {
        let bound = self.request.value_bound;
        let cut = if value.is_nan() { 0.0 } else { value.clamp(-bound, bound) };
        let magnitude = nearest_quotient(cut.abs(), self.unit);
        if cut < 0.0 { -magnitude } else { magnitude }
    }
}

/// sqrt(d) for l2, d for l1, rounded up.
fn rounding_term(request: &RealRequest) -> f64 {
    let dimension = request.dimension as f64;
    match request.norm {
        Norm::L1 => dimension.next_up(),
        Norm::L2 => dimension.sqrt().next_up(),
    }
}

/// sensitivity + g (sqrt(d) or d), rounded up at every operation.
fn rounded_sensitivity(request: &RealRequest, unit: f64) -> f64 {
    (request.sensitivity + (unit * rounding_term(request)).next_up()).next_up()
}

/// 2^k g / (sensitivity + g sqrt(d)), rounded down.
fn priced_multiplier(request: &RealRequest, bits: FractionBits, unit: f64) -> f64 {
    (unit * bits.scale() / rounded_sensitivity(request, unit)).next_down()
}

/// The integer nearest to value / unit, halves away from zero, exactly. `value` is finite and not negative, `unit` is
/// normal, and the quotient is below 2^62.
fn nearest_quotient(value: f64, unit: f64) -> i64 {
    let ((value, value_exponent), (unit, unit_exponent)) = (float::decompose(value), float::decompose(unit));
    let shift = value_exponent - unit_exponent;
    // value 2^shift / unit with 2^52 <= unit < 2^53: a quotient below 2^62 means value 2^shift < 2^115.
    let (numerator, denominator) = if value == 0 || shift < -64 {
        return 0; // value < 2^53, so the quotient is below 2^-63
    } else if shift >= 0 {
        (u128::from(value) << shift, u128::from(unit))
    } else {
        (u128::from(value), u128::from(unit) << -shift)
    };
    // floor(n / d + 1/2); 2 n + d < 2^119
    ((2 * numerator + denominator) / (2 * denominator)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoiseSource;
    use num_bigint::{BigInt, BigUint};
    use proptest::prelude::*;

    fn request(norm: Norm, dimension: usize) -> RealRequest {
        RealRequest { norm, sensitivity: 0.01, dimension, noise_multiplier: 2.5, value_bound: 100.0 }
    }

    /// `value` as an integer number of 2^-1074.
    fn exactly(value: f64) -> BigUint {
        let (mantissa, exponent) = float::decompose(value);
        BigUint::from(mantissa) << (exponent + 1074)
    }

    proptest! {
        #[test]
        fn planned_releases_price_the_rounding(
            l1 in any::<bool>(),
            sensitivity in 1e-9f64..1e3,
            dimension in 1usize..100_000,
            multiplier in 0.01f64..1e3,
            value_bound in 1e-3f64..1e6,
        ) {
            let norm = if l1 { Norm::L1 } else { Norm::L2 };
            let request = RealRequest { norm, sensitivity, dimension, noise_multiplier: multiplier, value_bound };
            let Ok(lattice) = RealLattice::plan(&request) else { return Ok(()) };
            prop_assert!(lattice.noise_multiplier() >= multiplier);
            prop_assert!(lattice.noise_multiplier() <= multiplier * (1.0 + 1e-13));
            // multiplier * (sensitivity + g r) <= 2^k g in exact arithmetic, with r = d, or r^2 = d:
            // (2^k g - multiplier * sensitivity)^2 >= (multiplier * g)^2 d. All numbers are scaled by 2^2148.
            let scale = exactly(lattice.unit()) * (BigUint::from(1u8) << (1074 + lattice.bits().get()));
            let bare = exactly(lattice.noise_multiplier()) * exactly(sensitivity);
            prop_assert!(bare < scale);
            let room = scale - bare;
            let step = exactly(lattice.noise_multiplier()) * exactly(lattice.unit());
            if l1 {
                prop_assert!(room >= step * dimension);
            } else {
                prop_assert!(room.pow(2) >= step.pow(2) * dimension);
            }
            // The rounding term is at most 2^-10 of the sensitivity priced.
            prop_assert!(lattice.sensitivity() <= sensitivity * (1.0 + 1.0 / 1000.0));
            prop_assert!(value_bound / lattice.unit() < 2f64.powi(61) * 1.001);
        }

        #[test]
        fn quotients_are_rounded_to_nearest(value in 0.0f64..1e9, unit in 1e-8f64..1e3) {
            let quotient = nearest_quotient(value, unit);
            // |2 quotient unit - 2 value| <= unit
            let twice: BigInt = BigInt::from(exactly(unit)) * (2 * quotient) - BigInt::from(exactly(value)) * 2i64;
            prop_assert!(twice.magnitude() <= &exactly(unit));
        }
    }

    #[test]
    fn quotients_at_the_ends_are_right() {
        assert_eq!(nearest_quotient(0.0, 1.0), 0);
        assert_eq!(nearest_quotient(f64::MIN_POSITIVE / 4.0, 1.0), 0);
        assert_eq!(nearest_quotient(2.5, 1.0), 3);
        assert_eq!(nearest_quotient(2f64.powi(61), 1.0), 1 << 61);
        assert_eq!(nearest_quotient(f64::MIN_POSITIVE, f64::MIN_POSITIVE), 1);
    }

    #[test]
    fn values_that_are_not_allowed_are_cut_not_refused() {
        let lattice = RealLattice::plan(&request(Norm::L2, 5)).unwrap();
        let most = lattice.to_lattice(100.0);
        assert_eq!(lattice.to_lattice(f64::INFINITY), most);
        assert_eq!(lattice.to_lattice(f64::NEG_INFINITY), -most);
        assert_eq!(lattice.to_lattice(-1e300), -most);
        assert_eq!(lattice.to_lattice(f64::NAN), 0);
        let mut stream = NoiseSource::seeded_for_tests([8; 32]).stream().unwrap();
        let released = lattice.release(&mut stream, &[f64::NAN, f64::INFINITY, -3.0, 0.0, 1e-12]).unwrap();
        for (value, centre) in released.iter().zip([0.0, 100.0, -3.0, 0.0, 0.0]) {
            assert!((value - centre).abs() < 8.0 * lattice.noise_scale());
        }
    }

    #[test]
    fn wrong_requests_are_refused() {
        let mut stream = NoiseSource::seeded_for_tests([8; 32]).stream().unwrap();
        let lattice = RealLattice::plan(&request(Norm::L1, 2)).unwrap();
        assert_eq!(
            lattice.release(&mut stream, &[1.0]),
            Err(LatticeError::WrongDimension { given: 1, planned: 2 })
        );
        for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            for broken in [
                RealRequest { sensitivity: bad, ..request(Norm::L2, 2) },
                RealRequest { noise_multiplier: bad, ..request(Norm::L2, 2) },
                RealRequest { value_bound: bad, ..request(Norm::L2, 2) },
            ] {
                assert!(matches!(RealLattice::plan(&broken), Err(LatticeError::NotPositive { .. })));
            }
        }
        let wide = RealRequest { value_bound: 1e30, ..request(Norm::L2, 2) };
        assert!(matches!(RealLattice::plan(&wide), Err(LatticeError::ValueBound { .. })));
        let tall = RealRequest { dimension: usize::MAX, ..request(Norm::L1, 2) };
        assert!(matches!(RealLattice::plan(&tall), Err(LatticeError::Dimension { .. })));
    }
}
