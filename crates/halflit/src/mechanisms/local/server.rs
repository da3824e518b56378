//! The server's side of Semi-LDP-SGD (Lowy et al. 2024, Algorithm 4): one pass in random order. Of private rows it gets randomized gradients, of public ones the gradients themselves.
//!
//! Legend: n private and N public rows, D the diameter of the ball of weights, L the clip norm, G_t the length of the gradient in step t (L times the randomizer's radius for a
//! private row), q_t what the step counts, mu the modulus of strong convexity.

use super::LocalError;
use super::aggregate::Weights;
use super::client::{ANSWER_FORMAT, Answer, QUESTION_FORMAT, Question, same};
use super::message::check_length;
use super::randomizer::Randomizer;
use crate::digest::random_id;
use halflit_noise::Stream;

/// How steps are taken and iterates averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curvature {
    /// Convex losses: steps of one length for rows of one kind, the average of the iterates.
    Convex,
    /// Losses whose mean is strongly convex with this modulus: shrinking steps, later iterates weigh more (Lacoste-Julien, Schmidt and Bach 2012).
    StronglyConvex {
        /// mu
        modulus: f64,
    },
}

/// What a pass is asked to do: constants that everybody may know.
#[doc(alias = "Semi-LDP-SGD")]
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// n: number of private rows.
    pub private: usize,
    /// N: number of public rows.
    pub public: usize,
    /// L: private gradients longer than this are shortened to it.
    pub clip_norm: f64,
    /// G of a public row: the root mean square length of its gradient. L is on the safe side; it may be measured on public rows, and then they count as much as they are worth.
    pub public_norm: f64,
    /// D/2: weights stay in the ball of this radius around zero.
    pub radius: f64,
    /// How steps are taken.
    pub curvature: Curvature,
    /// What a step along a randomized gradient counts next to a step along a public one: as much, as in the paper, or 1/G^2 each.
    pub weights: Weights,
}

impl Pass {
    /// G of a row.
    fn length(&self, turn: Turn, randomizer: &Randomizer) -> f64 {
        match turn {
            Turn::Private(_) => self.clip_norm * randomizer.radius(),
            Turn::Public(_) => self.public_norm,
        }
    }

    /// q of a row: what its step counts.
    fn trust(&self, turn: Turn, randomizer: &Randomizer) -> f64 {
        match self.weights {
            Weights::Equal => 1.0,
            // 1/G^2, in units of a public row.
            Weights::Best => (self.public_norm / self.length(turn, randomizer)).powi(2),
        }
    }

    /// The length of a step of a convex pass, per unit of what it counts: D / sqrt(sum of q^2 G^2). With equal weights D / sqrt(n b^2 + N G^2), b = L * radius.
    pub fn step_size(&self, randomizer: &Randomizer) -> f64 {
        let part = |rows: usize, turn: Turn| {
            rows as f64 * (self.trust(turn, randomizer) * self.length(turn, randomizer)).powi(2)
        };
        let squares = part(self.private, Turn::Private(0)) + part(self.public, Turn::Public(0));
        2.0 * self.radius / squares.sqrt()
    }

    fn check(&self) -> Result<(), LocalError> {
        let modulus = match self.curvature {
            Curvature::Convex => 1.0,
            Curvature::StronglyConvex { modulus } => modulus,
        };
        let settings = [
            ("the clip norm", self.clip_norm),
            ("the norm of public gradients", self.public_norm),
            ("the radius", self.radius),
            ("the modulus", modulus),
        ];
        match settings.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            Some((name, value)) => Err(LocalError::NotPositive { name, value }),
            None => Ok(()),
        }
    }
}

/// Whose gradient is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A private row, by its number from 0: it answers a question on its owner's device.
    Private(usize),
    /// A public row, by its number from 0: the server knows it.
    Public(usize),
}

/// The server's side of a pass. What reaches it about a private row is an [`Answer`], and an answer is randomized.
#[derive(Clone, Debug)]
pub struct Server {
    pass: Pass,
    randomizer: Randomizer,
    id: String,
    order: Vec<u32>,
    done: usize,
    weights: Vec<f64>,
    /// The sum of the iterates, and what they count together.
    average: Vec<f64>,
    total: f64,
    /// The sum of q so far.
    trusted: f64,
}

impl Server {
    /// A pass from zero, in an order drawn here. The randomizer is that of every client.
    ///
    /// # Errors
    /// Settings that are not positive, no rows, or more than 2^32 of them.
    pub fn new(pass: Pass, randomizer: Randomizer, stream: &mut Stream) -> Result<Self, LocalError> {
        pass.check()?;
        let rows = pass.private.saturating_add(pass.public);
        let count = u32::try_from(rows).ok().filter(|&rows| rows > 0).ok_or(LocalError::Rows { rows })?;
        let zeros = vec![0.0; randomizer.dimension()];
        Ok(Server {
            id: random_id(stream),
            order: stream.permutation(count),
            pass,
            randomizer,
            done: 0,
            weights: zeros.clone(),
            average: zeros,
            total: 0.0,
            trusted: 0.0,
        })
    }

    /// Whose turn it is; none when the pass is over.
    pub fn turn(&self) -> Option<Turn> {
        let place = *self.order.get(self.done)? as usize;
        let private = self.pass.private;
        Some(if place < private { Turn::Private(place) } else { Turn::Public(place - private) })
    }

    /// The current weights, at which the next gradient is wanted.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// What to ask the private row whose turn it is.
    ///
    /// # Errors
    /// It is no private row's turn.
    pub fn question(&self) -> Result<Question, LocalError> {
        self.expect_turn(|turn| matches!(turn, Turn::Private(_)))?;
        Ok(Question {
            halflit_question: QUESTION_FORMAT,
            pass: self.id.clone(),
            step: self.step(),
            mechanism: self.randomizer.kind(),
            epsilon: self.randomizer.epsilon(),
            clip_norm: self.pass.clip_norm,
            weights: self.weights.clone(),
        })
    }

    /// Takes the answer of the private row whose turn it is, and steps.
    ///
    /// # Errors
    /// It is no private row's turn; an answer to another question, or one that no randomizer of this kind made. The turn stays.
    pub fn receive(&mut self, answer: &Answer) -> Result<(), LocalError> {
        let turn = self.expect_turn(|turn| matches!(turn, Turn::Private(_)))?;
        let Answer { halflit_answer, pass, step, mechanism, epsilon, value } = answer;
        same("the answer's format", halflit_answer, &ANSWER_FORMAT)?;
        same("the answer's pass", pass, &self.id)?;
        same("the answer's step", step, &self.step())?;
        same("the answer's mechanism", mechanism.name(), self.randomizer.kind().name())?;
        same("the answer's epsilon", epsilon, &self.randomizer.epsilon())?;
        same("the number of coordinates", &value.len(), &self.randomizer.dimension())?;
        check_length(value, &self.randomizer).map_err(|length| LocalError::Misplaced {
            field: "the answer's length",
            found: length.to_string(),
            expected: self.randomizer.radius().to_string(),
        })?;
        let clip_norm = self.pass.clip_norm;
        self.descend(turn, value.iter().map(|x| x * clip_norm));
        Ok(())
    }

    /// Steps along the gradient of the public row whose turn it is. What is no number in it counts as zero.
    ///
    /// # Errors
    /// It is no public row's turn, or a gradient of another length.
    pub fn step_public(&mut self, gradient: &[f64]) -> Result<(), LocalError> {
        let turn = self.expect_turn(|turn| matches!(turn, Turn::Public(_)))?;
        same("the number of coordinates", &gradient.len(), &self.weights.len())?;
        self.descend(turn, gradient.iter().map(|x| if x.is_finite() { *x } else { 0.0 }));
        Ok(())
    }

    /// Passes over a client that does not answer: nothing happens in this step.
    ///
    /// # Errors
    /// The pass is over.
    pub fn skip(&mut self) -> Result<(), LocalError> {
        self.expect_turn(|_| true)?;
        self.done += 1;
        Ok(())
    }

    /// The average of the iterates.
    ///
    /// # Errors
    /// Somebody was not asked yet.
    pub fn model(&self) -> Result<Vec<f64>, LocalError> {
        let turns = self.order.len();
        if self.done < turns {
            return Err(LocalError::NotOver { done: self.done, turns });
        }
        // Nobody answered: the weights are where they began.
        let total = if self.total > 0.0 { self.total } else { 1.0 };
        Ok(self.average.iter().map(|sum| sum / total).collect())
    }

    /// The step that is being taken, counted from 1.
    fn step(&self) -> u64 {
        self.done as u64 + 1
    }

    fn expect_turn(&self, is_expected: impl FnOnce(Turn) -> bool) -> Result<Turn, LocalError> {
        let turn = self.turn().ok_or(LocalError::Over { turns: self.order.len() })?;
        if is_expected(turn) {
            return Ok(turn);
        }
        let turn = match turn {
            Turn::Private(row) => format!("private row {row}"),
            Turn::Public(row) => format!("public row {row}"),
        };
        Err(LocalError::WrongTurn { step: self.step(), turn })
    }

    /// w <- the nearest point of the ball to w - length * gradient; then into the average.
    fn descend(&mut self, turn: Turn, gradient: impl Iterator<Item = f64>) {
        let trust = self.pass.trust(turn, &self.randomizer);
        self.trusted += trust;
        let (length, share) = match self.pass.curvature {
            Curvature::Convex => (self.pass.step_size(&self.randomizer) * trust, trust),
            // a_t = q_t (q_1 + .. + q_t), eta_t = a_t / (mu (a_1 + .. + a_t)). With q = 1: a_t = t, eta_t = 2/(mu (t + 1)).
            Curvature::StronglyConvex { modulus } => {
                let share = trust * self.trusted;
                (share / (modulus * (self.total + share)), share)
            }
        };
        for (weight, along) in self.weights.iter_mut().zip(gradient) {
            *weight -= length * along;
        }
        project(&mut self.weights, self.pass.radius);
        for (sum, weight) in self.average.iter_mut().zip(&self.weights) {
            *sum += share * weight;
        }
        self.total += share;
        self.done += 1;
    }
}

fn project(weights: &mut [f64], radius: f64) {
    let norm = weights.iter().map(|x| x * x).sum::<f64>().sqrt();
    if !norm.is_finite() {
        // A public gradient that no number follows: begin again.
        weights.fill(0.0);
    } else if norm > radius {
        weights.iter_mut().for_each(|x| *x *= radius / norm);
    }
}
