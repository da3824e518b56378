//! The methods that have to be tuned, on the paper's grids (Tables 1 and 2 of its appendix) and beyond their ends, by the exact population risk: a
//! luxury that only makes them look better.

use super::regression::{Draw, FEATURE_BOUND, Result, budget, train};
use halflit::Problem;
use halflit::mechanisms::noisy_gradient::Params;
use halflit::mechanisms::noisy_gradient::modes::Constants;
use halflit::mechanisms::noisy_gradient::parts::{Sampling, Start};
use halflit::noise::Probability;
use std::collections::HashMap;
use std::num::NonZeroU64;

/// The paper's constants.
pub const STEPS: NonZeroU64 = NonZeroU64::new(5000).unwrap();
pub const PRIVATE_BATCH: f64 = 500.0;
const PUBLIC_BATCH: u64 = 200;
const CLIP_NORM: f64 = 1.0;
const HESSIAN_RIDGE: f64 = 0.01;

/// The paper's step sizes from 0.01 to 1.9, and some on either side. Its zero is [`Tuned::at_rest`].
const STEP_SIZES: [f64; 20] = [
    0.001, 0.003, 0.01, 0.03, 0.05, 0.07, 0.09, 0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 1.9, 3.0, 5.0,
    9.0,
];
/// The paper's weights.
const ALPHAS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// Where tuning starts: a step size of 0.1 and a weight of 0.7.
const START: Point = (7, 6);

/// Places in `STEP_SIZES` and `ALPHAS`.
type Point = (usize, usize);

/// A method of the paper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Method {
    Algorithm1,
    PdaMd,
    DpSgd,
}

/// A method with its tuned constants.
#[derive(Clone, Copy, Debug)]
pub struct Tuned {
    pub method: Method,
    /// Zero for a method that is best [at rest](Tuned::at_rest).
    pub step_size: f64,
    /// The weight of the private rows; only Algorithm 1 lets one choose it.
    pub alpha: Option<f64>,
    pub warm: bool,
}

/// One draw to train on, and the risk of the public rows' minimizer.
pub struct Trial<'a> {
    pub draw: &'a Draw,
    pub epsilon: f64,
    pub public_only: f64,
}

/// The paper's rate: one over the number of batches in a pass.
pub fn rate(private_rows: usize) -> Result<Probability> {
    let batches = (private_rows as f64 / PRIVATE_BATCH).ceil().max(1.0) as u64;
    Ok(Probability::new(1, batches)?)
}

impl Tuned {
    fn new(method: Method, warm: bool, (size, weight): Point) -> Self {
        let alpha = (method == Method::Algorithm1).then_some(ALPHAS[weight]);
        Tuned { method, step_size: STEP_SIZES[size], alpha, warm }
    }

    /// Whether a larger step might have been better still; below the smallest one the method is at rest.
    pub fn is_at_edge(&self) -> bool {
        STEP_SIZES.last().is_some_and(|&largest| self.step_size >= largest)
    }

    /// The method on encoded columns: a feature unit is worth b, a label unit y. The paper's loss is r^2, ours r^2/2 on encoded columns, so
    /// its gradients are 2 b y times ours, and a step of eta along them moves encoded weights by 2 b^2 eta times our gradient.
    fn params(&self, draw: &Draw, private_rows: usize) -> Result<Params> {
        let unit = 2.0 * FEATURE_BOUND * draw.label_bound();
        let constants = Constants {
            steps: Some(STEPS),
            step_size: Some(2.0 * FEATURE_BOUND * FEATURE_BOUND * self.step_size),
            clip_norm: Some(CLIP_NORM / unit),
            sampling: Sampling::Poisson(rate(private_rows)?),
            public_batch: NonZeroU64::new(PUBLIC_BATCH),
            start: if self.warm { Start::PublicMinimizer } else { Start::Zero },
            ..Constants::default()
        };
        let ridge = HESSIAN_RIDGE / draw.dimension() as f64 / (FEATURE_BOUND * FEATURE_BOUND);
        Ok(match self.method {
            Method::Algorithm1 => constants.algorithm_1(self.alpha.unwrap_or(1.0)),
            Method::DpSgd => constants.dp_sgd(),
            Method::PdaMd => constants.pda_md(Some(ridge)),
        })
    }

    /// The risk of one run.
    pub fn run(&self, trial: &Trial<'_>, problem: Problem) -> Result<(f64, Problem)> {
        if self.step_size == 0.0 {
            return Ok((self.at_rest(trial), problem));
        }
        let params = self.params(trial.draw, problem.private_units() as usize)?;
        let (weights, problem) = train(problem, params, Some("noisy_gradient"), budget(trial.epsilon))?;
        Ok((trial.draw.risk(&weights), problem))
    }

    /// The risk of never stepping: that of the start. Algorithm 1 can also give the private rows no weight, which the paper counts as
    /// public-only training even for a cold start (its Tables 9 and 10 print the same number for both).
    fn at_rest(&self, trial: &Trial<'_>) -> f64 {
        if self.warm || self.method == Method::Algorithm1 {
            return trial.public_only;
        }
        trial.draw.risk(&vec![0.0; trial.draw.dimension()])
    }
}

/// Where tuning ended before: neighbouring cells have their best constants nearby, so the next walk starts there, with narrower strides.
#[derive(Default)]
pub struct Memory(Vec<((Method, bool), Point)>);

impl Memory {
    fn of(&self, method: Method, warm: bool) -> Option<Point> {
        self.0.iter().find(|(key, _)| *key == (method, warm)).map(|&(_, point)| point)
    }

    fn keep(&mut self, method: Method, warm: bool, point: Point) {
        self.0.retain(|(key, _)| *key != (method, warm));
        self.0.push(((method, warm), point));
    }
}

/// The best constants on one draw, found by walking downhill on the grid.
pub fn tune(
    method: Method,
    warm: bool,
    trial: &Trial<'_>,
    problem: Problem,
    memory: &mut Memory,
) -> Result<(Tuned, Problem)> {
    let mut problem = Some(problem);
    let last = (STEP_SIZES.len() - 1, if method == Method::Algorithm1 { ALPHAS.len() - 1 } else { 0 });
    let (start, strides): (_, &[usize]) = match memory.of(method, warm) {
        Some(point) => (point, &[2, 1]),
        None => ((START.0, START.1.min(last.1)), &[4, 2, 1]),
    };
    let (point, lowest) = walk(start, last, strides, |point| {
        let (risk, back) = Tuned::new(method, warm, point).run(trial, problem.take().ok_or("no problem")?)?;
        problem = Some(back);
        Ok(risk)
    })?;
    memory.keep(method, warm, point);
    let mut best = Tuned::new(method, warm, point);
    if !(lowest < best.at_rest(trial)) {
        best = Tuned { step_size: 0.0, alpha: None, ..best };
    }
    Ok((best, problem.ok_or("no problem")?))
}

/// The lowest place of a grid that wide, then narrow strides find, in all eight directions: large steps with a small weight and small steps
/// with a large weight lie in one valley, which is not along an axis.
fn walk(
    start: Point,
    last: Point,
    strides: &[usize],
    mut risk: impl FnMut(Point) -> Result<f64>,
) -> Result<(Point, f64)> {
    let mut best = (start, risk(start)?);
    let mut tried = HashMap::from([best]);
    for &stride in strides {
        loop {
            let here = best.0;
            for point in neighbours(here, last, stride) {
                let found = match tried.get(&point) {
                    Some(&found) => found,
                    None => risk(point)?,
                };
                tried.insert(point, found);
                if found < best.1 {
                    best = (point, found);
                }
            }
            if best.0 == here {
                break;
            }
        }
    }
    Ok(best)
}

/// The places `stride` away from `here` in either coordinate or both.
fn neighbours(here: Point, last: Point, stride: usize) -> Vec<Point> {
    let around = |place: usize, last: usize| {
        let mut places = vec![place];
        places.extend(place.checked_sub(stride));
        places.extend(Some(place + stride).filter(|&place| place <= last));
        places
    };
    let (sizes, weights) = (around(here.0, last.0), around(here.1, last.1));
    let all = sizes.iter().flat_map(|&size| weights.iter().map(move |&weight| (size, weight)));
    all.filter(|&point| point != here).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walking_follows_a_valley_across_the_axes() {
        let last = (STEP_SIZES.len() - 1, ALPHAS.len() - 1);
        for lowest in [(12, 4), (2, 0), (5, 8), (19, 2)] {
            // Steep across the valley, shallow along it.
            let risk = |(size, weight): Point| {
                let across = (size + weight) as f64 - (lowest.0 + lowest.1) as f64;
                Ok(10.0 * across.powi(2) + (size as f64 - lowest.0 as f64).powi(2))
            };
            assert_eq!(walk(START, last, &[4, 2, 1], risk).unwrap().0, lowest);
            assert_eq!(walk((7, 1), last, &[2, 1], risk).unwrap().0, lowest);
        }
    }

    #[test]
    fn the_grid_contains_the_papers() {
        let paper = [0.01, 0.03, 0.05, 0.07, 0.09, 0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 1.9];
        assert!(paper.iter().all(|size| STEP_SIZES.contains(size)));
        assert!(STEP_SIZES.is_sorted() && ALPHAS.is_sorted());
        assert_eq!((STEP_SIZES[START.0], ALPHAS[START.1]), (0.1, 0.7));
    }
}
