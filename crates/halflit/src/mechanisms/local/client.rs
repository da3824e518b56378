//! The client's side of Semi-LDP-SGD: one person answers one question about the own row, with a randomized gradient.

use super::LocalError;
use super::randomizer::{Kind, Randomizer};
use halflit_noise::Stream;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Format of a question; grows when its meaning changes.
pub const QUESTION_FORMAT: u32 = 1;
/// Format of an answer; grows when its meaning changes.
pub const ANSWER_FORMAT: u32 = 1;

/// What a server asks a private row: the gradient of its loss at these weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The format; [`QUESTION_FORMAT`].
    pub halflit_question: u32,
    /// The random id of the pass.
    pub pass: String,
    /// The step, counted from 1.
    pub step: u64,
    /// Which randomizer the answer is to go through.
    pub mechanism: Kind,
    /// What the answer will cost.
    pub epsilon: f64,
    /// Gradients longer than this are shortened to it.
    pub clip_norm: f64,
    /// The current weights.
    pub weights: Vec<f64>,
}

/// What a client sends back: a randomized gradient. The pass and the step are its name, and a server takes one of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The format; [`ANSWER_FORMAT`].
    pub halflit_answer: u32,
    /// The random id of the pass.
    pub pass: String,
    /// The step that it answers.
    pub step: u64,
    /// Which randomizer it went through.
    pub mechanism: Kind,
    /// What it cost.
    pub epsilon: f64,
    /// An unbiased estimate of the clipped gradient over the clip norm; always of the same length.
    pub value: Vec<f64>,
}

/// One private row's side of a pass. The randomizer is the client's own: it fixes what an answer may cost, whatever a server asks.
///
/// A client answers once and is gone, because a second answer about the same row would cost again:
///
/// ```compile_fail,E0382
/// # use halflit::mechanisms::local::{Client, Question};
/// # fn story(client: Client, stream: &mut halflit::noise::Stream, question: &Question) {
/// client.answer(stream, question, |weights, gradient| gradient.copy_from_slice(weights));
/// client.answer(stream, question, |weights, gradient| gradient.copy_from_slice(weights));
/// # }
/// ```
#[derive(Debug)]
pub struct Client<'a> {
    randomizer: &'a Randomizer,
}

impl<'a> Client<'a> {
    /// A client that agrees to one message through this randomizer.
    pub fn new(randomizer: &'a Randomizer) -> Self {
        Client { randomizer }
    }

    /// Answers a question. `gradient(weights, out)` fills in the gradient of the own row's loss; it never leaves this function as it is.
    ///
    /// The answer is epsilon-differentially private whatever was asked. What is no number in the gradient counts as zero: a refusal would
    /// say something about the row.
    ///
    /// # Errors
    /// A question of another format, randomizer, price or dimension than the client agreed to, or with numbers that are none. These depend on the question alone.
    pub fn answer(
        self,
        stream: &mut Stream,
        question: &Question,
        gradient: impl FnOnce(&[f64], &mut [f64]),
    ) -> Result<Answer, LocalError> {
        let Question { halflit_question, pass, step, mechanism, epsilon, clip_norm, weights } = question;
        let own = self.randomizer;
        same("the question's format", halflit_question, &QUESTION_FORMAT)?;
        same("the question's mechanism", mechanism.name(), own.kind().name())?;
        same("the question's epsilon", epsilon, &own.epsilon())?;
        same("the number of weights", &weights.len(), &own.dimension())?;
        if !(clip_norm.is_finite() && *clip_norm > 0.0) {
            return Err(LocalError::NotPositive { name: "the question's clip norm", value: *clip_norm });
        }
        if let Some(coordinate) = weights.iter().position(|x| !x.is_finite()) {
            return Err(LocalError::NotFinite { coordinate });
        }
        let mut raw = vec![0.0; weights.len()];
        gradient(weights, &mut raw);
        // clip_L, then the unit ball: the randomizer shortens what is longer than 1.
        for x in &mut raw {
            *x = if x.is_finite() { (*x / clip_norm).clamp(-f64::MAX, f64::MAX) } else { 0.0 };
        }
        Ok(Answer {
            halflit_answer: ANSWER_FORMAT,
            pass: pass.clone(),
            step: *step,
            mechanism: *mechanism,
            epsilon: *epsilon,
            value: own.randomize(stream, &raw)?,
        })
    }
}

/// Refuses what belongs elsewhere.
pub(super) fn same<T: PartialEq + Display + ?Sized>(
    field: &'static str,
    found: &T,
    expected: &T,
) -> Result<(), LocalError> {
    if found == expected {
        return Ok(());
    }
    Err(LocalError::Misplaced { field, found: found.to_string(), expected: expected.to_string() })
}
