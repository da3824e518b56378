//! The smallest noise, the most steps or the largest rate that a budget allows.
//!
//! The search runs on the upper end of the profile; its result lies on the safe side and is priced again from scratch.
//! A result that does not fit its own budget is never returned.

use crate::error::AccountingError;
use crate::event::Event;
use crate::number::{Delta, Epsilon, Interval, NoiseMultiplier, Readable, SamplingRate};
use crate::pld::Composer;
use crate::profile::Profile;
use libm::{exp, log};
use serde::Serialize;
use std::rc::Rc;
use thiserror::Error;

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Epsilon of the guarantee.
    pub epsilon: Epsilon,
    /// Delta of the guarantee.
    pub delta: Delta,
}

/// A parameter that fits a budget, with the event it belongs to and its price.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibrated<T> {
    /// The parameter.
    pub value: T,
    /// What happens with that parameter.
    pub event: Event,
    /// epsilon at the budget's delta; the upper end is at most the budget's epsilon.
    pub epsilon: Interval,
}

/// A budget that no parameter fits.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CalibrationError {
    /// Even the most careful value in the range costs too much.
    #[error(
        "no {name} fits epsilon = {}, delta = {}: even {name} = {} costs more; {}",
        Readable(*epsilon), Readable(*delta), Readable(*extreme), remedy(*delta)
    )]
    NothingFits {
        /// Which parameter was sought.
        name: &'static str,
        /// The most careful value tried.
        extreme: f64,
        /// The budget's epsilon.
        epsilon: f64,
        /// The budget's delta.
        delta: f64,
    },
    /// An event could not be built or priced.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

fn remedy(delta: f64) -> &'static str {
    if delta > 0.0 {
        "raise epsilon or delta, or plan less"
    } else {
        "Gaussian noise never fits delta = 0, so give a delta above 0, or take Laplace noise"
    }
}

/// How close to the budget the search goes, in log delta.
const LOG_DELTA_TOLERANCE: f64 = 2e-5;
/// The same in log epsilon where there is no delta: a sum of losses costs nothing to compute.
const LOG_EPSILON_TOLERANCE: f64 = 1e-10;

/// The smallest noise multiplier at which `plan` fits the budget.
pub fn noise_multiplier(
    budget: Budget,
    plan: impl Fn(NoiseMultiplier) -> Event,
) -> Result<Calibrated<NoiseMultiplier>, CalibrationError> {
    let build = |value: f64| Ok((NoiseMultiplier::new(value)?, plan(NoiseMultiplier::new(value)?)));
    continuous("noise multiplier", budget, Careful::Large, (0.01, 1e9), build)
}

/// The largest sampling rate at which `plan` fits the budget.
pub fn sampling_rate(
    budget: Budget,
    plan: impl Fn(SamplingRate) -> Event,
) -> Result<Calibrated<SamplingRate>, CalibrationError> {
    let build = |value: f64| Ok((SamplingRate::new(value)?, plan(SamplingRate::new(value)?)));
    continuous("rate", budget, Careful::Small, (1.1e-15, 1.0), build)
}

/// Which way a parameter makes a plan cheaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Careful {
    /// Larger values cost less, like noise.
    Large,
    /// Smaller values cost less, like rates and per-release epsilons.
    Small,
}

/// The least careful value of any positive parameter at which the built event fits the budget.
///
/// `range` is where to look; the cost must be monotone in the parameter.
pub fn continuous<T>(
    name: &'static str,
    budget: Budget,
    careful: Careful,
    range: (f64, f64),
    build: impl Fn(f64) -> Result<(T, Event), AccountingError>,
) -> Result<Calibrated<T>, CalibrationError> {
    // On the scale t the cost decreases: t = log x or -log x.
    let sign = if careful == Careful::Large { 1.0 } else { -1.0 };
    let (reckless, cautious) = if careful == Careful::Large { range } else { (range.1, range.0) };
    let parameter = |t: f64| exp(sign * t).clamp(range.0, range.1);
    let search =
        Search { budget, composer: Rc::default(), event: |t: f64| build(parameter(t)).map(|built| built.1) };
    let scale = |x: f64| sign * log(x);
    let found = search.run((scale(reckless), scale(cautious)))?;
    let Some(mut t) = found else {
        let (epsilon, delta) = (budget.epsilon.get(), budget.delta.get());
        return Err(CalibrationError::NothingFits { name, extreme: cautious, epsilon, delta });
    };
    let mut step = 1e-7;
    loop {
        let (value, event) = build(parameter(t))?;
        let profile = Profile::with_composer(&event, Rc::clone(&search.composer))?;
        if let Some(epsilon) = fits(&profile, budget) {
            return Ok(Calibrated { value, event, epsilon });
        }
        // The grid of the second pricing differs a little: step to the safe side until both agree.
        if t >= scale(cautious) {
            let (epsilon, delta) = (budget.epsilon.get(), budget.delta.get());
            return Err(CalibrationError::NothingFits { name, extreme: cautious, epsilon, delta });
        }
        t = (t + step).min(scale(cautious));
        step *= 2.0;
    }
}

/// The most steps at which `plan` fits the budget.
///
/// Beyond a million the answer is the most steps up to one part in a million.
pub fn steps(budget: Budget, plan: impl Fn(u64) -> Event) -> Result<Calibrated<u64>, CalibrationError> {
    const MOST: u64 = 1_000_000_000_000;
    let scale = |count: u64| -log(count as f64);
    let count = |t: f64| exp(-t).round().clamp(1.0, MOST as f64) as u64;
    let search = Search { budget, composer: Rc::default(), event: |t: f64| Ok(plan(count(t))) };
    let (start, mut slope) = search.approximate_root((scale(MOST), 0.0))?;
    // `low` steps fit, `high` steps do not.
    let (mut low, mut high) = (0, MOST + 1);
    let mut guess = count(start);
    let mut previous: Option<(f64, f64)> = None;
    for round in 0.. {
        let (t, value) = (scale(guess), search.excess(scale(guess), false)?);
        if value <= 0.0 {
            low = guess;
        } else {
            high = guess;
        }
        if high - low <= 1 + low / 1_000_000 {
            break;
        }
        slope = secant_slope(previous.replace((t, value)), (t, value)).unwrap_or(slope);
        let aim = count(t - value / slope);
        let middle = if round < 8 { aim } else { low + (high - low) / 2 };
        guess = middle.clamp(low + 1, high - 1);
    }
    while low > 0 {
        let event = plan(low);
        let profile = Profile::with_composer(&event, Rc::clone(&search.composer))?;
        if let Some(epsilon) = fits(&profile, budget) {
            return Ok(Calibrated { value: low, event, epsilon });
        }
        // The grid of the second pricing differs a little: step to the safe side until both agree.
        low -= 1 + low / 1_000_000;
    }
    let (epsilon, delta) = (budget.epsilon.get(), budget.delta.get());
    Err(CalibrationError::NothingFits { name: "number of steps", extreme: 1.0, epsilon, delta })
}

/// epsilon at the budget's delta, if the profile fits the budget whichever way it is asked.
fn fits(profile: &Profile, budget: Budget) -> Option<Interval> {
    let epsilon = profile.epsilon(budget.delta);
    let affordable = epsilon.upper <= budget.epsilon.get()
        && profile.delta_upper(budget.epsilon, false) <= budget.delta.get();
    affordable.then_some(epsilon)
}

/// Bracketed search for the t at which log delta(epsilon) meets the budget; the cost decreases in t.
struct Search<F> {
    budget: Budget,
    composer: Rc<Composer>,
    event: F,
}

impl<F: Fn(f64) -> Result<Event, AccountingError>> Search<F> {
    fn profile(&self, t: f64) -> Result<Profile, AccountingError> {
        Profile::with_composer(&(self.event)(t)?, Rc::clone(&self.composer))
    }

    /// How far inside the budget is close enough.
    fn tolerance(&self) -> f64 {
        if self.budget.delta.get() == 0.0 { LOG_EPSILON_TOLERANCE } else { LOG_DELTA_TOLERANCE }
    }

    /// log delta_upper(t) - log delta, bounded so that it can be interpolated; positive where the budget is exceeded.
    fn excess(&self, t: f64, forward_only: bool) -> Result<f64, AccountingError> {
        let profile = self.profile(t)?;
        let allowed = self.budget.delta.get();
        if allowed == 0.0 {
            // Only bounded losses can fit: compare epsilons instead.
            let epsilon = profile.epsilon(self.budget.delta).upper;
            return Ok(
                (log(epsilon.max(1e-300)) - log(self.budget.epsilon.get().max(1e-300))).clamp(-50.0, 50.0)
            );
        }
        let delta = profile.delta_upper(self.budget.epsilon, forward_only);
        Ok((log(delta.max(1e-300)) - log(allowed)).clamp(-50.0, 50.0))
    }

    fn approximate_excess(&self, t: f64) -> Result<f64, AccountingError> {
        if self.budget.delta.get() == 0.0 {
            return self.excess(t, true);
        }
        let approximate = self.profile(t)?.approximate_log_delta(self.budget.epsilon);
        Ok((approximate - log(self.budget.delta.get())).clamp(-50.0, 50.0))
    }

    /// The t in the range at which the budget is just met, on the safe side; `None` if even the last t exceeds it.
    fn run(&self, range: (f64, f64)) -> Result<Option<f64>, AccountingError> {
        let (start, slope) = self.approximate_root(range)?;
        // First one direction, then both from there.
        let guess = self.exact_root(range, start, slope, true)?;
        match guess {
            Some(t) if self.excess(t, false)? <= 0.0 => Ok(Some(t)),
            Some(t) => self.exact_root(range, t, slope, false),
            None => Ok(None),
        }
    }

    /// The root of the approximate excess and its slope there.
    fn approximate_root(&self, (first, last): (f64, f64)) -> Result<(f64, f64), AccountingError> {
        // The last t seen on either side of the root.
        let mut low: Option<(f64, f64)> = None;
        let mut high: Option<(f64, f64)> = None;
        let mut t = 0.0f64.clamp(first, last);
        let mut stride = 0.5;
        for _ in 0..60 {
            let value = self.approximate_excess(t)?;
            let side = if value > 0.0 { &mut low } else { &mut high };
            *side = Some((t, value));
            let end = if value > 0.0 { last } else { first };
            if value.abs() < 1e-3 || t == end {
                break;
            }
            t = match (low, high) {
                (Some(low), Some(high)) if high.0 - low.0 < 1e-6 => break,
                (Some(low), Some(high)) => false_position(low, high),
                // One side not seen yet: walk towards it with growing strides.
                _ => {
                    stride *= 2.0;
                    if value > 0.0 { (t + stride).min(last) } else { (t - stride).max(first) }
                }
            };
        }
        let step = 1e-3;
        let slope = (self.approximate_excess(t + step)? - self.approximate_excess(t - step)?) / (2.0 * step);
        Ok((t, slope.min(-0.1)))
    }

    fn exact_root(
        &self,
        (first, last): (f64, f64),
        start: f64,
        mut slope: f64,
        forward_only: bool,
    ) -> Result<Option<f64>, AccountingError> {
        let (mut low, mut high) = (first, last);
        let mut previous: Option<(f64, f64)> = None;
        let mut fitting = None;
        let mut t = start.clamp(first, last);
        for _ in 0..80 {
            let value = self.excess(t, forward_only)?;
            if value <= 0.0 {
                (high, fitting) = (t, Some(t));
                if value >= -self.tolerance() || t == first {
                    break;
                }
            } else {
                low = t;
                if t == last {
                    break;
                }
            }
            if high - low <= 1e-12 * (1.0 + high.abs()) {
                break;
            }
            slope = secant_slope(previous.replace((t, value)), (t, value)).unwrap_or(slope);
            // Aim for the middle of the tolerance.
            let next = t - (value + 0.5 * self.tolerance()) / slope;
            t = if next > low && next < high {
                next
            } else if next >= last {
                last
            } else if next <= first {
                first
            } else {
                0.5 * (low + high)
            };
        }
        Ok(fitting)
    }
}

/// The slope between two (t, excess) points, if they tell one of the right sign.
fn secant_slope(previous: Option<(f64, f64)>, (t, value): (f64, f64)) -> Option<f64> {
    let (other, other_value) = previous?;
    let slope = (value - other_value) / (t - other);
    (slope.is_finite() && slope < 0.0).then_some(slope)
}

/// The zero of the chord, kept away from the ends of the bracket.
fn false_position(low: (f64, f64), high: (f64, f64)) -> f64 {
    let width = high.0 - low.0;
    let zero = low.0 + width * (low.1 / (low.1 - high.1));
    zero.clamp(low.0 + 0.05 * width, high.0 - 0.05 * width)
}
