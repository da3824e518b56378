//! Clip norms that are not given: from declared constants, public cells and public rows.

use super::{Split, newton, schedule};
use crate::mechanisms::MechanismError;
use crate::problem::{FEATURE_UNIT, Problem};
use halflit_convex::LabelDomain;
use halflit_convex::kernel::{MAX_COEFFICIENT, SUM_LIMIT};
use halflit_table::PublicFeatures;

/// For classes without public columns and too many weights for Newton steps: the median norm of the public rows' gradients at zero. Longer gradients are few, and what
/// cutting them off spares in noise is more than they are worth. Infinite elsewhere.
pub(super) fn usual_clip_norm(problem: &Problem, split: Split) -> f64 {
    let mut norms = problem.public_data().0.squared_norms().to_vec();
    let has_classes = matches!(problem.loss().label_domain(), LabelDomain::Classes(_) | LabelDomain::Binary);
    if norms.is_empty() || !has_classes || split != Split::Nothing || newton::is_open_to(problem) {
        return f64::INFINITY;
    }
    let middle = norms.len() / 2;
    let (_, &mut median, _) = norms.select_nth_unstable(middle);
    // at zero all classes are equally likely
    problem.loss().midrange_radius(0.0) * (median.max(1) as f64).sqrt() * FEATURE_UNIT
}

/// The largest lattice radius at which no single row's coefficient is cut off before its unit is clamped.
pub(super) fn radius_cap(problem: &Problem, split: Split) -> u64 {
    let layout_rows = match split {
        Split::SomeFeatures { .. } | Split::Imputed { .. } => 2 * problem.rows_per_unit(),
        Split::Nothing | Split::AllFeatures => problem.rows_per_unit(),
    };
    // The kernel keeps every unit's own sum below half its limit by limiting each of its rows.
    let for_units = SUM_LIMIT / 2 / layout_rows.max(1);
    for_units.min(u64::from(MAX_COEFFICIENT).saturating_mul(problem.integer_row_norm_bound()))
}

/// How far the sensitive cells are guessed to move a score: chooses the clip norm of the midrange centre, nothing else.
const GUESSED_SWING: f64 = 1.0;

/// A clip norm at which ordinary contributions are not clipped, from declared constants and public features.
pub(super) fn default_clip_norm(problem: &Problem, split: Split) -> Result<f64, MechanismError> {
    let loss = problem.loss();
    let derivative = typical_derivative(problem);
    let view = problem.encoded().public_view()?;
    let longest = |squared_norm: u64| (squared_norm as f64).sqrt() * FEATURE_UNIT;
    // What an unknown label adds: half its range around the middle, all of it around the mean of public labels.
    let unknown_label = match split {
        Split::Imputed { .. } if problem.facts().public_rows > 0 => 2.0 * loss.midrange_radius(0.0),
        _ => loss.midrange_radius(0.0),
    };
    Ok(match (split, view.features) {
        (Split::AllFeatures | Split::Imputed { .. }, PublicFeatures::All(rows)) => {
            unknown_label * longest(rows.max_squared_norm())
        }
        (
            Split::SomeFeatures { label_is_public } | Split::Imputed { label_is_public },
            PublicFeatures::Some(rows),
        ) => {
            let from_label = if label_is_public { 0.0 } else { unknown_label };
            let from_features = schedule::curvature(loss) * GUESSED_SWING;
            let half_range = (from_label + from_features).min(derivative);
            let sensitive =
                problem.encoding().columns().iter().filter(|column| column.is_sensitive()).count();
            let known = half_range * longest(rows.max_squared_norm());
            known.hypot(derivative * (sensitive as f64).sqrt())
        }
        _ => derivative * problem.row_norm_bound(),
    })
}

/// The derivative's bound where the loss has one; for squared and Poisson losses the derivative at small scores.
fn typical_derivative(problem: &Problem) -> f64 {
    let loss = problem.loss();
    match loss.label_domain() {
        LabelDomain::Within(labels) if loss.is_canonical() => labels.magnitude().max(1.0),
        _ => loss.derivative_bound(0.0),
    }
}
