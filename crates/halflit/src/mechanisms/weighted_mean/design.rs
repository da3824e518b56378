//! How private and public rows are weighed, centred, clipped and drowned in noise: chosen from public facts, and carried out.

use crate::mechanisms::means::{Balance, PublicMoments};
use halflit_noise::{LatticeError, Norm, Stream, SumLattice, SumRequest, clip};
use serde::{Deserialize, Serialize};

/// Which estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The public rows alone: costs nothing. Lowy et al. 2024 call it throw-away.
    PublicOnly,
    /// Every row counts the same, the noise is Gaussian.
    Gaussian,
    /// Private rows count as much as minimises the expected squared error.
    Weighted,
    /// The same for private rows clipped to a ball around the public mean.
    CentredWeighted,
    /// Every chosen column is public: the exact mean.
    Exact,
}

impl Variant {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Variant::PublicOnly => "public-only",
            Variant::Gaussian => "gaussian",
            Variant::Weighted => "weighted",
            Variant::CentredWeighted => "centred-weighted",
            Variant::Exact => "exact",
        }
    }
}

/// The law of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseLaw {
    /// Normal noise, contributions bounded in l2.
    Gaussian,
    /// Laplace noise, contributions bounded in l1: pure differential privacy.
    Laplace,
}

impl NoiseLaw {
    pub(super) fn norm(self) -> Norm {
        match self {
            NoiseLaw::Gaussian => Norm::L2,
            NoiseLaw::Laplace => Norm::L1,
        }
    }

    /// The variance of a draw of scale 1.
    pub fn unit_variance(self) -> f64 {
        match self {
            NoiseLaw::Gaussian => 1.0,
            NoiseLaw::Laplace => 2.0,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            NoiseLaw::Gaussian => "gaussian",
            NoiseLaw::Laplace => "laplace",
        }
    }

    fn length(self, vector: impl Iterator<Item = f64>) -> f64 {
        match self {
            NoiseLaw::Gaussian => vector.map(|x| x * x).sum::<f64>().sqrt(),
            NoiseLaw::Laplace => vector.map(f64::abs).sum(),
        }
    }
}

/// Fewer public rows say too little about how far rows lie from their mean.
pub const LEAST_ROWS_FOR_A_RADIUS: u64 = 10;

/// The public facts that a design rests on.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// n: number of private units, a public constant.
    pub units: u64,
    /// The public rows, one after the other.
    pub public: &'a [f64],
    /// Coordinates of a row.
    pub width: usize,
    /// A radius of the domain around zero, in l2.
    pub l2_radius: f64,
    /// The same in l1.
    pub l1_radius: f64,
    /// V^2 where it is not to be taken from the public rows.
    pub variance: Option<f64>,
}

/// A chosen estimator.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// Which.
    pub variant: Variant,
    /// The noise and its lattice; none if no private cell is used.
    pub noise: Option<(NoiseLaw, SumLattice)>,
    /// What is subtracted from private units before the clip.
    pub centre: Vec<f64>,
    /// Largest norm of a private unit's contribution.
    pub clip_norm: f64,
    /// r: what a private unit counts.
    pub weight: f64,
    /// What a public row counts.
    pub public_row_weight: f64,
    /// n.
    pub units: u64,
    /// The public rows' moments.
    pub moments: PublicMoments,
    /// V^2 as used.
    pub variance: f64,
    /// Expected squared error: sampling, noise and clipping, for rows of one population.
    pub predicted_squared_error: f64,
    /// How far clipping may pull the mean, predicted from the public rows.
    pub predicted_clipping_bias: f64,
}

impl Setting<'_> {
    /// The design of a variant under noise of the given law and multiplier (scale over clip norm). None if the variant does not apply.
    ///
    /// # Errors
    /// No lattice holds the sum.
    pub fn design(
        &self,
        variant: Variant,
        law: NoiseLaw,
        multiplier: f64,
    ) -> Option<Result<Design, LatticeError>> {
        let moments = PublicMoments::of(self.public, self.width);
        let centre = match variant {
            Variant::CentredWeighted if moments.rows >= LEAST_ROWS_FOR_A_RADIUS => moments.mean.clone(),
            Variant::CentredWeighted | Variant::Exact => return None,
            Variant::PublicOnly if moments.rows == 0 => return None,
            _ => vec![0.0; self.width],
        };
        // Without two public rows a guess must do: the variance of a uniform cell of the domain. It only chooses the weight.
        let guess = self.l2_radius * self.l2_radius / 3.0;
        let variance = self.variance.or(moments.variance()).unwrap_or(guess);
        let domain = match law {
            NoiseLaw::Gaussian => self.l2_radius,
            NoiseLaw::Laplace => self.l1_radius,
        };
        let radii = match variant {
            Variant::CentredWeighted => self.radii(law, &moments),
            _ => vec![domain],
        };
        let best = radii
            .into_iter()
            .map(|radius| {
                let bias = if variant == Variant::CentredWeighted {
                    self.clipping_bias(law, &moments, radius)
                } else {
                    0.0
                };
                let noise_variance = self.width as f64 * law.unit_variance() * (multiplier * radius).powi(2);
                let noise = noise_variance + (self.units as f64 * bias).powi(2);
                let balance =
                    Balance { units: self.units as f64, public_rows: moments.rows as f64, variance, noise };
                let weight = match variant {
                    Variant::PublicOnly => 0.0,
                    Variant::Gaussian => 1.0 / (self.units as f64 + moments.rows as f64),
                    _ => balance.best_weight(),
                };
                (radius, bias, balance, weight)
            })
            .min_by(|a, b| a.2.squared_error(a.3).total_cmp(&b.2.squared_error(b.3)));
        let (clip_norm, bias, balance, weight) = best?;
        let noise = if variant == Variant::PublicOnly {
            None
        } else {
            let request =
                SumRequest { norm: law.norm(), ..SumRequest::l2(clip_norm, multiplier, self.units) };
            match SumLattice::plan(&request) {
                Ok(lattice) => Some((law, lattice)),
                Err(error) => return Some(Err(error)),
            }
        };
        Some(Ok(Design {
            variant,
            noise,
            centre,
            clip_norm,
            weight,
            public_row_weight: balance.public_weight(weight),
            units: self.units,
            variance,
            predicted_squared_error: balance.squared_error(weight),
            predicted_clipping_bias: self.units as f64 * weight * bias,
            moments,
        }))
    }

    /// Public rows minus their mean; a private row lies further from that mean than the public rows that made it: N/(N - 1).
    fn deviations<'s>(&'s self, moments: &'s PublicMoments) -> impl Iterator<Item = Vec<f64>> + 's {
        let stretch = moments.rows as f64 / (moments.rows as f64 - 1.0);
        let deviation =
            move |row: &[f64]| row.iter().zip(&moments.mean).map(|(x, c)| (x - c) * stretch).collect();
        self.public.chunks_exact(self.width).map(deviation)
    }

    /// Radii worth trying: quantiles of the public rows' deviations, and some room beyond the largest.
    fn radii(&self, law: NoiseLaw, moments: &PublicMoments) -> Vec<f64> {
        let mut lengths: Vec<f64> =
            self.deviations(moments).map(|deviation| law.length(deviation.into_iter())).collect();
        lengths.sort_by(f64::total_cmp);
        let last = lengths.len() - 1;
        let quantiles =
            [0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0].map(|share| lengths[(share * last as f64) as usize]);
        let beyond = [1.1, 1.25, 1.5].map(|room| room * lengths[last]);
        quantiles.into_iter().chain(beyond).filter(|radius| radius.is_finite() && *radius > 0.0).collect()
    }

    /// The mean length of what the clip would cut off the public rows: a bound on how far it pulls their mean.
    fn clipping_bias(&self, law: NoiseLaw, moments: &PublicMoments, radius: f64) -> f64 {
        let cut = self.deviations(moments).map(|deviation| {
            let length = law.length(deviation.iter().copied());
            let l2 = NoiseLaw::Gaussian.length(deviation.into_iter());
            if length > radius { l2 * (1.0 - radius / length) } else { 0.0 }
        });
        cut.sum::<f64>() / moments.rows as f64
    }
}

impl Design {
    /// The estimate from private units, handed out one by one by `for_each`, and the public rows.
    ///
    /// 1. centre and round; 2. clamp in integers; 3. add up in integers; 4. exact noise; 5. weigh, which is post-processing.
    pub fn estimate(&self, stream: &mut Stream, for_each: impl FnOnce(&mut dyn FnMut(&[f64]))) -> Vec<f64> {
        let public = |j: usize| self.public_row_weight * self.moments.rows as f64 * self.moments.mean[j];
        let Some((law, lattice)) = &self.noise else {
            return (0..self.centre.len()).map(public).collect();
        };
        let mut sums = vec![0i64; self.centre.len()];
        let mut contribution = vec![0i64; self.centre.len()];
        for_each(&mut |unit| {
            for ((integer, x), c) in contribution.iter_mut().zip(unit).zip(&self.centre) {
                // A cast saturates, and what is no number becomes zero; the clamp below holds for any integers.
                *integer = ((x - c) / lattice.unit()).round() as i64;
            }
            clip(law.norm(), &mut contribution, lattice.radius());
            for (sum, x) in sums.iter_mut().zip(&contribution) {
                // units * radius < 2^62 was checked when the lattice was planned.
                *sum = sum.saturating_add(*x);
            }
        });
        lattice.add_noise(stream, &mut sums);
        let weight_of_centre = self.units as f64 * self.weight;
        let value = |(j, &sum): (usize, &i64)| {
            self.weight * lattice.to_real(sum) + weight_of_centre * self.centre[j] + public(j)
        };
        sums.iter().enumerate().map(value).collect()
    }

    /// Standard deviation of the noise in each coordinate of the estimate.
    pub fn noise_deviation(&self) -> f64 {
        let deviation = |(law, lattice): &(NoiseLaw, SumLattice)| {
            self.weight * lattice.noise_scale() * law.unit_variance().sqrt()
        };
        self.noise.as_ref().map_or(0.0, deviation)
    }

    /// Standard error of a coordinate as an estimate for the population, noise included; none below two public rows.
    pub fn standard_error(&self, coordinate: usize) -> Option<f64> {
        let variance = self.moments.variances.as_ref()?.get(coordinate)?;
        let shares = self.weight.powi(2) * self.units as f64
            + self.public_row_weight.powi(2) * self.moments.rows as f64;
        Some((shares * variance + self.noise_deviation().powi(2)).sqrt())
    }
}
