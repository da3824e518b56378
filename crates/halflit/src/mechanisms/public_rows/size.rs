//! How large weights are: the one thing a penalty has to know, learned from the public rows.
//!
//! A normal prior of norm R is the penalty d / (n R^2) on n rows. The guess for R ([`prior_radius`]) is doubled as long as fits to three quarters
//! of the public rows predict the fourth quarter better, and halved if that does. No private cell is read.

use super::posed;
use crate::mechanisms::{MechanismError, prior_radius};
use crate::problem::{Problem, scores};
use halflit_convex::{Rows, solver};

/// Every row is predicted once, by a fit to the rows outside its own part.
const PARTS: usize = 4;

/// Fewer rows than this tell sizes apart by chance only.
const FEWEST_ROWS: usize = 10 * PARTS;

/// Rows that are looked at: one number needs no more.
const MOST_ROWS: usize = 1000;

/// The guess may be wrong by 2^6: then a few more doublings change no fit.
const MOST_DOUBLINGS: i32 = 6;

/// How near the minimizers the fits come, as a share of the expected norm: what is compared is losses.
const TOLERANCE: f64 = 0.01;

/// R, the expected norm of the weights: as the public rows suggest, or the guess where there are too few.
pub(crate) fn weights_norm(problem: &Problem) -> Result<f64, MechanismError> {
    if let Some(&known) = problem.weights_norm().get() {
        return Ok(known);
    }
    let guess = prior_radius(problem.loss(), problem.dimension(), problem.radius());
    let (rows, _) = problem.public_data();
    let norm = if rows.len() < FEWEST_ROWS { guess } else { guess * Trial::new(problem, guess)?.best()? };
    Ok(*problem.weights_norm().get_or_init(|| norm))
}

/// Some public rows, cut into parts.
struct Trial<'a> {
    problem: &'a Problem,
    guess: f64,
    /// Rows and labels of each part, and of all that is outside of it.
    parts: Vec<[(Rows, Vec<f64>); 2]>,
}

impl<'a> Trial<'a> {
    fn new(problem: &'a Problem, guess: f64) -> Result<Self, MechanismError> {
        let (rows, labels) = problem.public_data();
        let apart = rows.len().div_ceil(MOST_ROWS);
        let picked: Vec<u32> = (0..rows.len() as u32).step_by(apart).collect();
        let side = |part: usize, inside: bool| -> Result<(Rows, Vec<f64>), MechanismError> {
            // round and round: files are often sorted
            let own = picked.iter().enumerate().filter(|(place, _)| (place % PARTS == part) == inside);
            let own: Vec<u32> = own.map(|(_, &row)| row).collect();
            let labels = own.iter().map(|&row| labels[row as usize]).collect();
            Ok((rows.select(&own)?, labels))
        };
        let parts = (0..PARTS).map(|part| Ok([side(part, true)?, side(part, false)?]));
        Ok(Trial { problem, guess, parts: parts.collect::<Result<_, MechanismError>>()? })
    }

    /// By what to multiply the guess.
    fn best(&self) -> Result<f64, MechanismError> {
        let most = self.problem.radius().map_or(f64::INFINITY, |radius| radius / self.guess);
        let mut best = (0, self.tried(1.0, None)?);
        for direction in [1, -1] {
            while best.0 * direction < MOST_DOUBLINGS {
                let doublings = best.0 + direction;
                let factor = f64::from(doublings).exp2();
                if factor > most {
                    break;
                }
                let tried = self.tried(factor, Some(&best.1))?;
                if !is_clearly_less(&tried.losses, &best.1.losses) {
                    break;
                }
                best = (doublings, tried);
            }
            if best.0 != 0 {
                break;
            }
        }
        Ok(f64::from(best.0).exp2())
    }

    /// For weights of norm `factor` times the guess, beginning where another size ended.
    fn tried(&self, factor: f64, before: Option<&Tried>) -> Result<Tried, MechanismError> {
        let problem = self.problem;
        let (loss, bound, radius) = (problem.loss(), problem.row_norm_bound(), problem.radius());
        let norm = factor * self.guess;
        let mut tried = Tried::default();
        for (part, [(rows, labels), (others, their_labels)]) in self.parts.iter().enumerate() {
            let penalty = problem.dimension() as f64 / (others.len() as f64 * norm.powi(2));
            let posed = posed(loss, others, their_labels, bound, penalty, radius)?;
            let start = before.map(|before| &before.weights[part][..]);
            let weights = solver::minimize_as_far_as_possible(&posed, TOLERANCE * norm, start)?.weights;
            let own_loss = |row: usize| loss.value(&scores(rows, row, &weights), labels[row]);
            tried.losses.extend((0..rows.len()).map(own_loss));
            tried.weights.push(weights);
        }
        Ok(tried)
    }
}

/// What a size of weights comes to.
#[derive(Default)]
struct Tried {
    /// The fit to the rows outside each part.
    weights: Vec<Vec<f64>>,
    /// Every row's loss under the fit that it was not part of.
    losses: Vec<f64>,
}

/// Whether the mean of the first is less by more than the standard error of the difference.
fn is_clearly_less(losses: &[f64], others: &[f64]) -> bool {
    let count = losses.len() as f64;
    let differences = || losses.iter().zip(others).map(|(a, b)| b - a);
    let mean = differences().sum::<f64>() / count;
    let variance = differences().map(|difference| (difference - mean).powi(2)).sum::<f64>() / (count - 1.0);
    mean > (variance / count).sqrt()
}
