//! The run: numbered as in `proof.md`.

use super::Split;
use super::descent::Iterates;
use super::layout::Layout;
use super::newton::{Curvature, Newton, no_curvature};
use super::parts::{Centre, Clip, Combiner, Descent, PublicPart, Sampling};
use super::passes::{Clamp, Passes};
use super::plan::Plan;
use super::posterior::{Goal, Posterior};
use super::precondition::Preconditioner;
use super::public::{Length, PublicGradient, PublicRows};
use super::sampler::{Batches, PublicBatch, Sampler, Takes};
use super::spread::Spread;
use crate::mechanisms::{Fitted, MechanismError, Watch};
use crate::problem::Problem;
use halflit_convex::kernel::LatticeWeights;
use halflit_noise::{NoiseSource, Probability, SumLattice};
use halflit_table::Unsealed;

/// What turns estimates into weights.
enum Driver<'a> {
    Iterates { iterates: Box<Iterates>, turn: Turn },
    Posterior(Posterior<'a>),
}

/// What the public rows make of a gradient before a step is taken along it.
enum Turn {
    None,
    Preconditioned(Preconditioner),
    Newton(Newton),
}

impl Driver<'_> {
    fn weights(&self) -> &[f64] {
        match self {
            Driver::Iterates { iterates, .. } => iterates.weights(),
            Driver::Posterior(posterior) => posterior.weights(),
        }
    }

    fn into_weights(self) -> Vec<f64> {
        match self {
            Driver::Iterates { iterates, .. } => iterates.into_weights(),
            Driver::Posterior(posterior) => posterior.into_weights(),
        }
    }
}

impl Plan {
    /// Runs the mechanism.
    pub(crate) fn run(
        &self,
        problem: &Problem,
        token: &Unsealed,
        source: &mut NoiseSource,
        watch: &mut dyn Watch,
    ) -> Result<Fitted, MechanismError> {
        let outputs = problem.loss().outputs();
        let (mut noise, mut batches) = (source.stream()?, source.stream()?);
        let (public_rows, public_labels) = problem.public_data();
        let public = PublicRows::new(problem.loss(), public_rows, public_labels, problem.row_norm_bound())?;
        let mut driver = self.driver(problem, public.as_ref())?;

        // 1. Open the sealed cells.
        let layout = Layout::open(problem, token, self.split, self.centre)?;
        let passes = Passes::new(&layout, problem.encoding())?;
        let units = layout.units() as u32;
        let places = u32::try_from(problem.private_units()).unwrap_or(u32::MAX);
        let sampler = Sampler::new(
            Takes { hidden: self.sampling, known: self.rate_of_known_part(), public: self.public },
            units,
            places.max(units),
            public_rows.len() as u32,
            &mut batches,
        );
        let mut clamp: Option<(u64, Clamp<'_>)> = None;
        let mut last_release: Option<Vec<f64>> = None;
        let mut spread: Option<Spread> = None;
        let mut clip_norms = Vec::new();
        for (step, lattice) in self.step_lattices().enumerate() {
            let step = step as u64;
            if watch.progress(step, self.steps).is_break() {
                return Err(MechanismError::Interrupted);
            }
            let weights = LatticeWeights::new(driver.weights(), outputs)?;

            // 2. Independent batches: for the hidden part, the known part and the public rows.
            let Batches { hidden, known, public: public_batch } = sampler.draw(step, &mut batches);
            if clamp.as_ref().is_none_or(|(radius, _)| *radius != lattice.radius()) {
                clamp = Some((lattice.radius(), passes.clamp(lattice.radius())?));
            }
            let Some((_, clamp)) = &clamp else { continue };

            // 3a. The noisy histogram of norms, if the clip norm is measured: a release.
            let centre =
                self.common_centre(public.as_ref(), &weights, &public_batch, last_release.as_deref())?;
            if let Some(lattice) = &self.spread {
                let counts = passes.spread(clamp, &weights, centre.as_deref(), &hidden, lattice.radius())?;
                let expected = self.sampling.share() * problem.private_units() as f64;
                let released = Spread::release(counts, lattice, &mut noise, expected);
                spread = Some(match self.clip {
                    Clip::Quantile { .. } => released.averaged_with(spread.as_ref()),
                    Clip::Fixed { .. } | Clip::ResidualScale => released,
                });
            }
            let clip_norm = self.clip_norm(spread.as_ref(), lattice, &mut driver, public.as_ref());
            if self.clip.is_measured() {
                clip_norms.push(clip_norm);
            }
            let unit = clip_norm * lattice.unit();

            // 3b. The clamped integer sum of the hidden part, with its noise: a release.
            let length = match self.public {
                PublicPart::Mean { rescaled: true, .. } => Length::Exactly(clip_norm),
                PublicPart::Mean { rescaled: false, .. } => Length::AsItIs,
                PublicPart::AsPrivate => Length::AtMost(clip_norm),
            };
            let from_public = match &public {
                Some(rows) if self.needs_public_gradient() => {
                    Some(rows.gradient(&weights, &public_batch, length)?)
                }
                _ => None,
            };
            let centre = centre.and_then(|centre| on_lattice(&centre, unit));
            let mut release = passes.hidden(clamp, &weights, unit, centre.as_deref(), &hidden)?;
            lattice.add_noise(&mut noise, &mut release);

            // 4. Post-processing: known part, public rows, penalty, one step.
            let mut private: Vec<f64> = release.iter().map(|&sum| sum as f64 * unit).collect();
            let all_units = problem.private_units() as f64;
            let share = self.sampling.share();
            let known_share = self.rate_of_known_part().map_or(1.0, |rate| rate.ratio().to_f64());
            let known = passes.known(&weights, &known)?;
            for (index, (value, known)) in private.iter_mut().zip(&known).enumerate() {
                let centre = centre.as_ref().map_or(0.0, |centre| centre[index] as f64 * unit);
                *value = (self.hidden_weight * *value / share + known / known_share) / all_units + centre;
            }
            remove_common_part(&mut private, outputs);
            if self.centre == Centre::LastRelease {
                last_release = Some(private.clone());
            }
            match &mut driver {
                Driver::Posterior(posterior) => {
                    posterior.measure(&private, Plan::clip_over_noise(lattice))?
                }
                Driver::Iterates { iterates, turn } => {
                    let noise_std = clip_norm * lattice.noise_scale();
                    let mut gradient = self.combine(problem, private, from_public.as_ref(), noise_std);
                    for (value, weight) in gradient.iter_mut().zip(iterates.weights()) {
                        *value += self.lambda * weight;
                    }
                    match turn {
                        Turn::None => iterates.step(&gradient),
                        Turn::Preconditioned(preconditioner) => {
                            iterates.step(&preconditioner.apply(&gradient))
                        }
                        Turn::Newton(newton) => iterates.step(&newton.step(&gradient)),
                    }
                }
            }
        }
        watch.progress(self.steps, self.steps).is_break();
        Ok(Fitted { clip_norms, ..Fitted::from(driver.into_weights()) })
    }

    fn driver<'a>(
        &self,
        problem: &Problem,
        public: Option<&'a PublicRows<'a>>,
    ) -> Result<Driver<'a>, MechanismError> {
        let width = problem.dimension();
        if self.descent == Descent::Posterior {
            let public = public.ok_or(MechanismError::NoPublicRows)?;
            let units = problem.private_units() as f64;
            let goal = Goal { units, penalty: self.lambda, radius: problem.radius() };
            return Ok(Driver::Posterior(Posterior::new(public, self.curvature, goal, width)?));
        }
        let start = self.starting_point(problem)?;
        let turn = match (self.descent, public) {
            (Descent::Preconditioned { ridge, .. }, Some(_)) => {
                Turn::Preconditioned(Preconditioner::of(problem, ridge)?)
            }
            (Descent::Newton { noise }, _) => {
                let curvature = Curvature::of_public_rows(problem, &start)?;
                Turn::Newton(Newton::new(curvature.ok_or_else(no_curvature)?, noise))
            }
            _ => Turn::None,
        };
        let iterates = Box::new(Iterates::new(self.descent, self.steps, start, problem.radius())?);
        Ok(Driver::Iterates { iterates, turn })
    }

    /// The rate at which known parts are drawn in a step; none if all of them are taken, or if nothing is known.
    fn rate_of_known_part(&self) -> Option<Probability> {
        let as_hidden = match self.sampling {
            Sampling::Poisson(rate) => Some(rate),
            Sampling::FullBatch | Sampling::OnePass { .. } => None,
        };
        self.known_rate.or(as_hidden).filter(|_| self.split != Split::Nothing)
    }

    /// Whether a step looks at the public rows' gradient.
    fn needs_public_gradient(&self) -> bool {
        self.descent != Descent::Posterior && self.combiner != Combiner::Constant { alpha: 1.0 }
    }

    /// C_t: a function of the plan, of earlier releases and of this step's noisy histogram.
    fn clip_norm(
        &self,
        spread: Option<&Spread>,
        lattice: &SumLattice,
        driver: &mut Driver<'_>,
        public: Option<&PublicRows<'_>>,
    ) -> f64 {
        let norm = match (self.clip, spread) {
            (Clip::Fixed { norm }, _) => norm,
            (Clip::Quantile { level }, Some(spread)) => spread.quantile(level),
            (Clip::ResidualScale, Some(spread)) => {
                // The histogram is one of |residual| * (row norm); rows have about the same norm.
                let row_norm = public.map_or(1.0, |public| public.mean_squared_norm().sqrt());
                let scale = spread.normal_scale();
                match driver {
                    Driver::Posterior(posterior) => {
                        scale * posterior.choose_factor(scale / row_norm, Plan::clip_over_noise(lattice))
                    }
                    Driver::Iterates { .. } => scale,
                }
            }
            // A measured clip always has its histogram.
            _ => 1.0,
        };
        if norm.is_finite() && norm > 0.0 { norm } else { 1.0 }
    }

    /// The vector that all units' gradients are reduced by; none if it is zero.
    fn common_centre(
        &self,
        public: Option<&PublicRows<'_>>,
        weights: &LatticeWeights,
        batch: &PublicBatch,
        last: Option<&[f64]>,
    ) -> Result<Option<Vec<f64>>, MechanismError> {
        Ok(match (self.centre, public) {
            (Centre::PublicMean, Some(rows)) => Some(rows.gradient(weights, batch, Length::AsItIs)?.mean),
            (Centre::LastRelease, _) => last.map(<[f64]>::to_vec),
            _ => None,
        })
    }

    /// One gradient from the private and the public mean.
    fn combine(
        &self,
        problem: &Problem,
        private: Vec<f64>,
        public: Option<&PublicGradient>,
        noise_std: f64,
    ) -> Vec<f64> {
        let Some(public) = public else {
            let share = match self.combiner {
                Combiner::Sum => problem.private_units() as f64 / problem.total_weight(),
                Combiner::Constant { .. } | Combiner::Automatic => 1.0,
            };
            return private.into_iter().map(|value| share * value).collect();
        };
        let alpha = match self.combiner {
            Combiner::Sum => problem.private_units() as f64 / problem.total_weight(),
            Combiner::Constant { alpha } => alpha,
            Combiner::Automatic => {
                let batch = self.sampling.share() * problem.private_units() as f64;
                automatic_alpha(public, batch, problem.dimension() as f64, noise_std)
            }
        };
        private
            .iter()
            .zip(&public.mean)
            .map(|(private, public)| alpha * private + (1.0 - alpha) * public)
            .collect()
    }
}

/// A centre in lattice units; none if it is not a vector of sensible numbers.
pub(super) fn on_lattice(centre: &[f64], unit: f64) -> Option<Vec<i64>> {
    let total: f64 = centre.iter().map(|value| (value / unit).abs() + 1.0).sum();
    // The kernel takes centres below 2^61.
    (total < 2f64.powi(60)).then(|| centre.iter().map(|value| (value / unit).round() as i64).collect())
}

/// alpha* = (V^2/K_pub) / (d sigma^2/K_priv^2 + V^2/K_priv + V^2/K_pub), sigma the noise on the sum (Lowy et al. 2024, Proposition 8).
fn automatic_alpha(public: &PublicGradient, private_batch: f64, dimension: f64, noise_std: f64) -> f64 {
    let from_public = public.variance / public.rows.max(1) as f64;
    let from_private = dimension * (noise_std / private_batch).powi(2) + public.variance / private_batch;
    let alpha = from_public / (from_private + from_public);
    if alpha.is_finite() { alpha } else { 1.0 }
}

/// Softmax coefficients of a row sum to zero, so whatever the classes have in common is noise (and rounding).
pub(crate) fn remove_common_part(gradient: &mut [f64], outputs: usize) {
    if outputs < 2 {
        return;
    }
    let width = gradient.len() / outputs;
    for column in 0..width {
        let mean = (0..outputs).map(|output| gradient[output * width + column]).sum::<f64>() / outputs as f64;
        for output in 0..outputs {
            gradient[output * width + column] -= mean;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automatic_weight_is_proposition_8() {
        // V^2 = 4, K_pub = 80, K_priv = 1000, d = 100, sigma = 3: 0.05 / (100 * 9e-6 + 0.004 + 0.05).
        let public = PublicGradient { mean: vec![], rows: 80, variance: 4.0 };
        let alpha = automatic_alpha(&public, 1000.0, 100.0, 3.0);
        assert!((alpha - 0.05 / (9e-4 + 0.004 + 0.05)).abs() < 1e-12, "{alpha}");
        assert_eq!(automatic_alpha(&PublicGradient { variance: 0.0, ..public }, 1000.0, 100.0, 0.0), 1.0);
    }
}
