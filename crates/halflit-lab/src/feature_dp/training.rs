//! Algorithm 1 of Mahloujifar et al. 2023 on the perceptron, with the accounting corrected: the private gradient is centred at the gradient
//! of the padded row, clipped to a RADIUS, and summed over a Poisson batch; the public gradient has a batch of its own.

use super::data::{Data, Numbers};
use halflit::noise::{NoiseSource, PoissonSampler, Probability, Stream, SumLattice, SumRequest};
use halflit::privacy::{Change, Event, NoiseMultiplier, SamplingRate};
use halflit_convex::Rows;
use halflit_convex::kernel::{Batch, MAX_COEFFICIENT};
use halflit_convex::perceptron::{Centre, Evaluation, Perceptron, PerceptronShape, PerceptronSums};

/// What is learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All features, no clipping, no noise: what could be reached.
    NotPrivate,
    /// Every feature private: DP-SGD.
    DpSgd,
    /// Public gradient of the padded rows, private gradient of what they miss.
    FeatureDp,
    /// The padded rows alone: costs nothing.
    PublicOnly,
}

impl Method {
    pub const ALL: [Method; 4] = [Method::NotPrivate, Method::DpSgd, Method::FeatureDp, Method::PublicOnly];

    pub fn name(self) -> &'static str {
        match self {
            Method::NotPrivate => "not private",
            Method::DpSgd => "DP-SGD",
            Method::FeatureDp => "feature DP",
            Method::PublicOnly => "public features only",
        }
    }

    fn uses_private(self) -> bool {
        self != Method::PublicOnly
    }

    fn uses_public(self) -> bool {
        matches!(self, Method::FeatureDp | Method::PublicOnly)
    }
}

/// What steers a training run; chosen without private cells.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Settings {
    pub hidden: usize,
    pub steps: u64,
    /// Poisson rate of both batches: 1 in this many rows.
    pub one_in: u64,
    pub noise_multiplier: f64,
    pub clip_norm: f64,
    /// Weight of the private gradient beside the public one.
    pub alpha: f64,
    /// Weight of the public regularizer, which is the public loss once more.
    pub public_regularizer: f64,
    pub learning_rate: f64,
    pub momentum: f64,
}

/// The model's quality after some steps.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    pub step: u64,
    pub evaluation: Evaluation,
}

/// What `steps` steps cost: replace, Poisson, the clip norm a radius. The same for DP-SGD and feature DP; only the relation differs.
pub fn event(settings: &Settings, steps: u64) -> Result<Event, Box<dyn std::error::Error>> {
    let step = Event::PoissonGaussian {
        rate: SamplingRate::at_least(1, settings.one_in)?,
        noise_multiplier: NoiseMultiplier::new(settings.noise_multiplier)?,
        change: Change::Replace,
    };
    Ok(step.repeated(steps)?)
}

/// Lattice units to a unit of gradient in sums that need no noise.
const EXACT_SCALE: f64 = (1u64 << 30) as f64;

/// The private or the public half of a gradient.
///
/// Each draws batches of its own, from a stream of its own, and shows them to nobody: the public half's sum over the private half's batch would tell who is in it.
struct Part<'a> {
    sums: PerceptronSums<'a>,
    rows: u32,
    sampler: &'a PoissonSampler,
    batches: Stream,
    noise: Option<(SumLattice, Stream)>,
    /// What a lattice unit of the sum counts in the gradient.
    share: f64,
}

impl Part<'_> {
    fn add_to(&mut self, gradient: &mut [f64], model: &Perceptron) -> Result<(), Box<dyn std::error::Error>> {
        let batch = self.batches.poisson_subsample(self.rows, self.sampler);
        let mut sums = self.sums.sum(model, Batch::Only(&batch))?;
        if let Some((lattice, noise)) = &mut self.noise {
            lattice.add_noise(noise, &mut sums);
        }
        gradient.iter_mut().zip(&sums).for_each(|(gradient, &sum)| *gradient += self.share * sum as f64);
        Ok(())
    }
}

/// Trains, evaluating on the test rows at every checkpoint.
pub fn train(
    data: &Data,
    padded: &Rows,
    method: Method,
    settings: &Settings,
    checkpoints: &[u64],
    seed: u64,
) -> Result<Vec<Checkpoint>, Box<dyn std::error::Error>> {
    let rows = data.train.rows.len();
    let shape =
        PerceptronShape { inputs: data.train.rows.width(), hidden: settings.hidden, classes: data.classes };
    let expected_batch = rows as f64 / settings.one_in as f64;
    let mut source = NoiseSource::from_os()?;

    // A coefficient that multiplies the longest row must fit its type.
    let longest = data.train.rows.max_squared_norm().isqrt() + 1;
    let lattice = SumLattice::plan(&SumRequest {
        radius_cap: longest.saturating_mul(u64::from(MAX_COEFFICIENT)),
        contribution_step: longest,
        ..SumRequest::l2(settings.clip_norm, settings.noise_multiplier, rows as u64)
    })?;
    let is_noisy = matches!(method, Method::DpSgd | Method::FeatureDp);
    let unclipped = (1u64 << 61) / rows.max(1) as u64;
    let (bound, scale) =
        if is_noisy { (lattice.radius(), 1.0 / lattice.unit()) } else { (unclipped, EXACT_SCALE) };
    let centre = (method == Method::FeatureDp).then_some(Centre::Rows(padded));
    let labels = &data.train.labels;
    let (alpha, public_weight) = match method {
        Method::FeatureDp => (settings.alpha, 1.0 + settings.public_regularizer),
        // Alone, a clipped gradient is measured in clip norms, so that the learning rate means the same for every clip norm.
        Method::DpSgd => (1.0 / settings.clip_norm, 0.0),
        Method::NotPrivate | Method::PublicOnly => (1.0, 1.0),
    };
    let sampler = PoissonSampler::new(Probability::new(1, settings.one_in)?);
    let mut parts = Vec::new();
    if method.uses_private() {
        parts.push(Part {
            sums: PerceptronSums::new(&data.train.rows, labels, centre, shape, bound, scale)?,
            rows: rows as u32,
            sampler: &sampler,
            batches: source.stream()?,
            noise: if is_noisy { Some((lattice, source.stream()?)) } else { None },
            share: alpha / (scale * expected_batch),
        });
    }
    if method.uses_public() {
        parts.push(Part {
            sums: PerceptronSums::new(padded, labels, None, shape, unclipped, EXACT_SCALE)?,
            rows: rows as u32,
            sampler: &sampler,
            batches: source.stream()?,
            noise: None,
            share: public_weight / (EXACT_SCALE * expected_batch),
        });
    }

    let mut weights = first_weights(shape, seed);
    let mut velocity = vec![0.0; weights.len()];
    let mut reached = Vec::new();
    for step in 1..=settings.steps {
        let model = Perceptron::new(shape, &weights)?;
        let mut gradient = vec![0.0; weights.len()];
        for part in &mut parts {
            part.add_to(&mut gradient, &model)?;
        }
        for ((weight, velocity), gradient) in weights.iter_mut().zip(&mut velocity).zip(&gradient) {
            *velocity = settings.momentum * *velocity + gradient;
            *weight = (*weight - settings.learning_rate * *velocity).clamp(-1e6, 1e6);
        }
        if checkpoints.contains(&step) {
            let evaluation =
                Perceptron::new(shape, &weights)?.evaluate(&data.test.rows, &data.test.labels)?;
            reached.push(Checkpoint { step, evaluation });
        }
    }
    Ok(reached)
}

/// Normal weights of variance 2/inputs and 2/hidden, biases zero: public numbers.
fn first_weights(shape: PerceptronShape, seed: u64) -> Vec<f64> {
    let PerceptronShape { inputs, hidden, .. } = shape;
    let first = hidden * inputs;
    let deviation = |fan_in: usize| (2.0 / fan_in as f64).sqrt();
    (0..shape.weights())
        .map(|index| match index.checked_sub(first) {
            None => deviation(inputs) * Numbers(seed).normal(8, index as u64),
            Some(second) if second % (hidden + 1) == hidden => 0.0,
            Some(second) => deviation(hidden) * Numbers(seed).normal(9, second as u64),
        })
        .collect()
}
